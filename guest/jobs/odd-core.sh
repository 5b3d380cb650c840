# SPDX-License-Identifier: GPL-2.0
# Seven CPUs on q35: the last core has one thread, the other is not there. And
# primary threads that are offline while their siblings come and go:
# make machines K=odd
. /lab/prelude.sh

# online LIST: these CPUs are, and no others
online() {
	[ "$(cat $CPU/online)" = $1 ] ||
		{ echo "online: $(cat $CPU/online), wanted: $1"; return 1; }
	consistent
}

as_booted() {
	online 0-6 && [ "$(cat $CPU/present)" = 0-6 ] &&
		[ "$(cat $CPU/cpu6/topology/thread_siblings_list)" = 6 ] &&
		[ "$(cat $CPU/cpu5/topology/thread_siblings_list)" = 4-5 ]
}

control() {
	put smt/control off && online 0,2,4,6 &&
		put smt/control on && online 0-6
}

lists() {
	put hotplug/offline 1-6 && online 0 && put hotplug/online all &&
		online 0-6 && refused hotplug/online 7 && online 0-6 &&
		put hotplug/offline 6,3 && online 0-2,4-5 &&
		put hotplug/online 3,6 && online 0-6
}

primaries() {
	put hotplug/offline 2,4 && online 0-1,3,5-6 &&
		put hotplug/offline 3,5 && online 0-1,6 &&
		put hotplug/online 3 && online 0-1,3,6 &&
		put hotplug/online 2,4-5 && online 0-6 || return
	# a core whose primary thread is offline goes, and stays offline
	put cpu2/online 0 && online 0-1,3-6 &&
		put smt/control off && online 0,4,6 &&
		put smt/control on && online 0-1,4-6 &&
		put hotplug/online 2-3 && online 0-6
}

result "as booted" as_booted
result "SMT off and on" control
result "lists" lists
result "primary threads offline" primaries
result "as booted at the end" as_booted
