# SPDX-License-Identifier: GPL-2.0
# CPUs 0 to 3 are nohz_full, on q35 with CONFIG_NO_HZ_FULL and CONFIG_PM_DEBUG.
# CPU 0 keeps the tick all the same, and all that handle timers of others may go:
# make run CPUS=8 THREADS=1 PROFILE=debug APPEND=nohz_full=0-3
. /lab/prelude.sh

one_by_one() {
	local c

	for c in 4 5 6 7; do
		put cpu$c/online 0 && sleep 0.1 || return
	done
	want 1 4 5 6 7 && all_on
}

together() {
	put hotplug/offline 4-7 && sleep 0.1 && want 1 4 5 6 7 && all_on
}

# it takes all but CPU 0
suspend() {
	echo 0 > /sys/module/suspend/parameters/pm_test_delay
	echo processors > /sys/power/pm_test && echo mem > /sys/power/state &&
		want 1
}

[ "$(cat $CPU/nohz_full)" = 1-3 ] || die "nohz_full: $(cat $CPU/nohz_full)"
result "housekeeping CPUs go one by one" one_by_one
result "housekeeping CPUs go together" together
result "suspend to RAM, pm_test" no_port suspend
result "all online at the end" want 1
