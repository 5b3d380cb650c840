# SPDX-License-Identifier: GPL-2.0
# A CPU that comes fails, and on its way back down it refuses to die: beyond repair,
# which the kernel says, and it goes with the next request all the same.
. /lab/prelude.sh
LAST=$((CPUS - 1))
REFUSE=/sys/module/cpuhp/parameters/refuse_cpu
STATE=$(sed -n 's/^ *\([0-9]*\): workqueue:online$/\1/p' $CPU/hotplug/states)
[ -w $REFUSE ] && [ -n "$STATE" ] || die "no CONFIG_CPU_HOTPLUG_STATE_CONTROL"

stays() {
	put cpu$LAST/online 0 || return
	# in its own thread
	put cpu$LAST/hotplug/fail $STATE || return
	echo $LAST > $REFUSE
	refused cpu$LAST/online 1
	local ret=$?
	echo -1 > $REFUSE
	put cpu$LAST/hotplug/fail -1
	expand_file $CPU/online
	[ $ret = 0 ] && [ "${cpus[-1]}" = $LAST ] ||
		{ echo "ret $ret, online: ${cpus[*]}"; return 1; }
}
result "it is refused on its way back down" stays

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
result "all online at the end" want $THREADS
