# SPDX-License-Identifier: GPL-2.0
# CPUs come and go with a BPF scheduler loaded: make scx
# SIZE: bytes of the program on the disk 'runner', which the runner gives.

disk=$(disk runner) || die "no disk 'runner'"
head -c $SIZE $disk > /tmp/runner
chmod +x /tmp/runner
/tmp/runner -t hotplug
echo "state: $(cat /sys/kernel/sched_ext/state)"
