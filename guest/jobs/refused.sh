# SPDX-License-Identifier: GPL-2.0
# A CPU that comes fails, and on its way back down it refuses to die: beyond repair,
# which the kernel says. It stays online, nobody is told that it came, and the next
# request takes it up or down all the same.
. /lab/prelude.sh
LAST=$((CPUS - 1))
REFUSE=/sys/module/cpuhp/parameters/refuse_cpu

# state NAME: its number
state() {
	sed -n "s,^ *\([0-9]*\): $1\$,\1,p" $CPU/hotplug/states
}
[ -w $REFUSE ] && [ -n "$(state workqueue:online)" ] ||
	die "no CONFIG_CPU_HOTPLUG_STATE_CONTROL"

# stays NAME FILE TEXT: a write that brings it fails at a state, and it is online
stays() {
	put cpu$LAST/online 0 && put cpu$LAST/hotplug/fail $(state $1) || return
	echo $LAST > $REFUSE
	refused $2 $3
	local ret=$?
	echo -1 > $REFUSE
	put cpu$LAST/hotplug/fail -1
	expand_file $CPU/online
	[ $ret = 0 ] && [ "${cpus[-1]}" = $LAST ] ||
		{ echo "ret $ret, online: ${cpus[*]}"; return 1; }
	[ $(< $CPU/cpu$LAST/online) = 0 ] || { echo "cpu$LAST/online is 1"; return 1; }
}
result "it is refused on its way back down" stays workqueue:online cpu$LAST/online 1

goes() {
	put hotplug/offline $LAST || return
	expand_file $CPU/online
	[ "${cpus[-1]}" != $LAST ] || { echo "CPU $LAST is online"; return 1; }
}
result "it goes with the next request" goes

# ... and nobody else has given up anything instead
works() {
	local c

	put hotplug/online $LAST || return
	for ((c = 0; c < CPUS; c++)); do
		taskset -c $c sleep 0.01 || return
	done
	want $THREADS && put hotplug/offline 1-$LAST && put hotplug/online 1-$LAST
}
result "all work afterwards" works

comes() {
	stays $1 hotplug/online $LAST && put $2 $3 && want $THREADS
}
result "it comes with a list" comes workqueue:online hotplug/online $LAST
result "so it does when only sched:active fails" comes sched:active hotplug/online $LAST
result "and by its own file" comes sched:active cpu$LAST/online 1

# ... or it has retired, and its interrupts find no room elsewhere
full() {
	local REFUSE=${REFUSE%/*}/full_cpu

	stays workqueue:online hotplug/online $LAST && goes &&
		comes workqueue:online hotplug/online $LAST
}
result "no room for its interrupts" full

# again NAME: a CPU is parked on its way up, goes on from there, fails and dies: it can't
# be where it was parked, above what RCU has to prepare
again() {
	local failed

	put cpu$LAST/online 0 && put cpu$LAST/hotplug/target $(state $1) &&
		put cpu$LAST/hotplug/fail $(state workqueue:online) &&
		refused cpu$LAST/online 1 || return
	failed=$(< $CPU/cpu$LAST/hotplug/state)
	[ $failed -lt $(state RCU/tree:prepare) ] &&
		put cpu$LAST/online 1 || { echo "from state $failed"; return 1; }
	want $THREADS
}
result "it dies, and is prepared anew to come" again RCU/tree:prepare
[ -z "$(state cpu:kick_ap)" ] ||
	result "it dies, and is kicked anew" again cpu:kick_ap
result "all online at the end" want $THREADS
