# SPDX-License-Identifier: GPL-2.0
# CPUs 0 and 1 are isolated, on q35 with CONFIG_PM_DEBUG: a housekeeping CPU
# must stay, but suspend keeps CPU 0 and may take the last one, and CPU 0 takes
# over no timers of idle CPUs: make run CPUS=4 THREADS=1
# APPEND=isolcpus=domain,0-1
. /lab/prelude.sh

last_stays() {
	local failed=$T/events/cpuhp/cpuhp_failed/enable

	put cpu2/online 0 || return
	# not on the unpatched kernel
	[ ! -e $failed ] || { echo > $T/trace; echo 1 > $failed; }
	refused cpu3/online 0 || return
	[ ! -e $failed ] || { echo 0 > $failed &&
		grep -q 'cpuhp_failed: cpu: 0*3 .* ret: -16' $T/trace; } || return
	want 1 2 && all_on
}

# one outside of a partition, which is not taken back for CPUs that are isolated
last_outside() {
	local part=/sys/fs/cgroup/part status=0

	all_on || return
	[ -e ${part%/*}/cgroup.controllers ] || mount -t cgroup2 none ${part%/*}
	echo +cpuset > ${part%/*}/cgroup.subtree_control && mkdir $part &&
		echo 2 > $part/cpuset.cpus &&
		echo isolated > $part/cpuset.cpus.partition &&
		[ "$(cat $part/cpuset.cpus.partition)" = isolated ] || return
	refused cpu3/online 0 && want 1 || status=1
	rmdir $part && all_on || status=1
	return $status
}

# the kernel waits 5 s in each test, and burns them
echo 0 > /sys/module/suspend/parameters/pm_test_delay
suspend() {
	local i

	for i in 1 2; do
		echo processors > /sys/power/pm_test &&
			echo mem > /sys/power/state && want 1 || return
	done
}

# a timer on each of the others that may expire anywhere
timers() {
	local c

	for c in $(range 2 $CPUS); do
		taskset -c $c labctl timer > /tmp/timer$c &
		sleep 0.2
		grep -q armed /tmp/timer$c || return
	done
	no_port suspend
}

[ "$(cat $CPU/isolated)" = 0-1 ] || die "isolated: $(cat $CPU/isolated)"
result "a housekeeping CPU stays" last_stays
result "a housekeeping CPU stays beside a partition" last_outside
result "suspend to RAM, pm_test" no_port suspend
result "suspend to RAM, pm_test, timers" timers
result "all online at the end" want 1
