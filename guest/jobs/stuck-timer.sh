# SPDX-License-Identifier: GPL-2.0
# An interrupt has been moved, and the timer that frees its old vector does not run, as
# with threadirqs a task in SCHED_FIFO has that CPU. The CPU that has the interrupt goes
# all the same. make machines K=stuck
. /lab/prelude.sh

pin=$(disk pin) || die "no disk 'pin'"
irq=$(cat $(readlink -f /sys/block/${pin##*/}/device)/../irq)

goes_on() { taskset -c 0 dd if=$pin of=/dev/null bs=512 count=64 iflag=direct 2> /dev/null; }

# moved CPU: the interrupt is there now
moved() {
	echo $1 > /proc/irq/$irq/smp_affinity_list && goes_on && goes_on &&
		[ $(cat /proc/irq/$irq/effective_affinity_list) = $1 ] ||
		{ grep . /proc/irq/$irq/*affinity*; return 1; }
}

goes() {
	local hog status=0

	grep -q threadirqs /proc/cmdline && moved 2 || return
	echo -1 > /proc/sys/kernel/sched_rt_runtime_us
	taskset -c 2 chrt -f 10 sh -c 'while :; do :; done' &
	hog=$!
	sleep .2
	moved 3 || status=1
	put cpu3/online 0 && goes_on || status=1
	kill $hog
	all_on && goes_on || status=1
	return $status
}
result "its CPU goes" goes
result "all online at the end" all_on
