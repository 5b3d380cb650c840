#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# First process of a stage: runs the tests, then kexecs the next stage or, after
# the last one, the distribution. It never returns: whatever fails here is a
# panic, so a reset.
export PATH=/hwtest:/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=vt100
umask 022
mkdir -p /proc /sys /dev /tmp /run /reports
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2> /dev/null
exec < /dev/null > /dev/console 2>&1
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2> /dev/null
echo 1 > /proc/sys/kernel/panic_on_rcu_stall
echo 1 > /proc/sys/kernel/hung_task_panic
hostname hwtest

. /hwtest/lib.sh

# parameter NAME: its value
parameter() {
	sed -n "s/.*hwtest\.$1=\([^ ]*\).*/\1/p" /proc/cmdline
}

n=$(parameter stage)
limit=$(parameter limit)
[[ $(cat /proc/cmdline) = *hwtest.quick* ]] && quick=1 || quick=0
name=$(printf '%02d-%s' $n $(sed -n "${n}s/ .*//p" /kit/plan))
stages=$(wc -l < /kit/plan)

# What was found before, once more: should this stage end in a panic, firmware
# keeps the end of the log only
for f in /reports/*.jsonl; do
	[ -f $f ] || continue
	sed -n "/^.\{700\}/!s,^,cpuhp-hwtest: $(basename $f .jsonl) ,p" $f
done | while read -r line; do
	echo "$line" > /dev/kmsg
done

# the watchdog's timer is the kernel's own: user space need not run to end it
[[ $(cat /proc/cmdline) != *hwtest.hang* ]] || limit=20
hwctl watchdog $limit &
watchdog=$!
if [ $limit = 20 ]; then
	echo "cpuhp-hwtest: $name begins hang" > /dev/kmsg
	sleep infinity
fi
/hwtest/tests.sh $name $quick

load_next() {
	if [ $n -lt $stages ]; then
		read -r _ file _ < <(sed -n "$((n + 1))p" /kit/plan)
		stage_initrd /kit /reports > /tmp/initrd
		hwctl load /kit/$file /tmp/initrd "$(stage_parameters $((n + 1)) /kit)"
	else
		report /kit /reports complete | gzip -9 > /tmp/cpuhp-hwtest.json.gz
		summary /kit /reports complete > /tmp/cpuhp-hwtest.txt
		home_initrd /kit /tmp/cpuhp-hwtest.json.gz /tmp/cpuhp-hwtest.txt \
			> /tmp/initrd
		hwctl load /kit/home-kernel /tmp/initrd "$(cat /kit/home-parameters)"
	fi
}

echo "cpuhp-hwtest: $name begins kexec" > /dev/kmsg
load_next || { echo "cpuhp-hwtest: kexec refuses" > /dev/kmsg; exit 1; }
rm -f /tmp/initrd
# CPUs that are offline have to be woken up by kexec: on powerpc and arm64 all
# of them run again in the next kernel
echo off 2> /dev/null > /sys/devices/system/cpu/smt/control
kill $watchdog
wait $watchdog
hwctl kexec
exit 1
