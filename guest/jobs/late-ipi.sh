# SPDX-License-Identifier: GPL-2.0
# A kernel with tests/late-ipi.patch: CPU 7 goes and comes while somebody on CPU 0, who
# found it callable, is about to write to the trigger page of its IPI (XIVE), and when
# it can't take interrupts any more it gets one more. Then its IPI can't be configured.
# make machines K=late
. /lab/prelude.sh
P=/sys/module/smp/parameters

late() {
	taskset -pc 1 $$ > /dev/null
	echo 7 > $P/late_ipi_cpu || return 1
	echo 0 > $CPU/cpu7/online && echo 1 > $CPU/cpu7/online || return 1
	for n in $(seq 100); do
		[ $(cat $P/late_ipi_step) = 3 ] && break
		sleep 0.1
	done
	echo -1 > $P/late_ipi_cpu
	[ $(cat $P/late_ipi_step) = 3 ] &&
		dmesg | grep "late IPI for a CPU that is online again"
}

# CPU 0, of another core, has CPU 7 read a register, while it does not idle
called() {
	taskset -c 7 sh -c 'while :; do :; done' &
	local hog=$! ret

	sleep 1
	taskset -c 0 timeout 20 cat $CPU/cpu7/purr
	ret=$?
	kill $hog
	return $ret
}

# its IPI can't be configured, and then it can
unconfigured() {
	echo 0 > $CPU/cpu7/online && echo 7 > $P/late_ipi_fail || return 1
	! echo 1 > $CPU/cpu7/online && [ $(cat $CPU/cpu7/online) = 0 ] || return 1
	echo -1 > $P/late_ipi_fail
	echo 1 > $CPU/cpu7/online && called
}

# with its siblings CPU 7 has doorbells
echo 4-6 > $CPU/hotplug/offline || die "CPUs 4-6 don't go"
result "an IPI for a CPU that went and came meanwhile" late
result "the CPU takes IPIs afterwards" called
result "an IPI that can't be configured at first" unconfigured
echo 4-6 > $CPU/hotplug/online || die "CPUs 4-6 don't come"
result "all online at the end" want $THREADS
