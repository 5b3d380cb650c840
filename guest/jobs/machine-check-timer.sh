# SPDX-License-Identifier: GPL-2.0
# Writes to machinecheck's files, which start timers on all CPUs, while CPUs go and
# come: make run CPUS=8 THREADS=1 PROFILE=debug (with CONFIG_DEBUG_OBJECTS_TIMERS)
. /lab/prelude.sh
M=/sys/devices/system/machinecheck/machinecheck0/check_interval

writer() {
	while [ ! -e /tmp/end ]; do
		echo 5 > $M && echo 6 > $M || return
	done
}

rounds() {
	local i

	for i in 1 2 3 4 5 6 7 8; do
		put hotplug/offline 1-7 && all_on || return
	done
}

[ -e $M ] || die "no machine checks"
writer &
result "timers are started while CPUs go" rounds
touch /tmp/end
wait $! || die "check_interval"
result "all online at the end" all_on
