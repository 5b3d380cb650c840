# SPDX-License-Identifier: GPL-2.0
# CPUs 0 and 1 are isolated, on q35 with CONFIG_PM_DEBUG: a housekeeping CPU must
# stay, but suspend keeps CPU 0 and may take the last one: make run CPUS=4
# THREADS=1 APPEND=isolcpus=domain,0-1
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

[ "$(cat $CPU/isolated)" = 0-1 ] || die "isolated: $(cat $CPU/isolated)"
result "a housekeeping CPU stays" last_stays
result "suspend to RAM, pm_test" no_port suspend
result "all online at the end" want 1
