# SPDX-License-Identifier: GPL-2.0
# CPUs 0 and 1 are isolated, on q35 with CONFIG_PM_DEBUG: a housekeeping CPU
# must stay, but suspend keeps CPU 0 and may take the last one, and CPU 0 takes
# over no timers of idle CPUs: make run CPUS=4 THREADS=1
# APPEND=isolcpus=domain,0-1
. /lab/prelude.sh

last_stays() {
	put cpu2/online 0 && refused cpu3/online 0 && want 1 2 && all_on
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
result "suspend to RAM, pm_test" no_port suspend
result "suspend to RAM, pm_test, timers" timers
result "all online at the end" want 1
