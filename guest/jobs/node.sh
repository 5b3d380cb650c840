# SPDX-License-Identifier: GPL-2.0
# The host plugs in the only core of a node without memory, on pseries. The
# host's side is in lab/cases.py: make machines K=memory
. /lab/prelude.sh

NODE=/sys/devices/system/node
new=$CPUS-$((CPUS + THREADS - 1))
both() {
	[ "$(cat $CPU/online)" = 0-$((CPUS + THREADS - 1)) ] &&
		[ "$(cat $NODE/online)" = 0-1 ] &&
		[ "$(cat $NODE/node1/cpulist)" = $new ] &&
		[ -e $CPU/cpu$CPUS/node1 ] && consistent && return
	grep . $CPU/online $NODE/online $NODE/*/cpulist
	return 1
}
came() {
	local i

	for i in $(seq 600); do
		both > /dev/null && break
		sleep 0.1
	done
	both
}
result "a node is not there" [ "$(cat $NODE/online)" = 0 ]
emit ready
result "its core comes" came
goes() {
	put hotplug/offline $new && [ "$(cat $CPU/online)" = 0-$((CPUS - 1)) ] &&
		[ -z "$(cat $NODE/node1/cpulist)" ] &&
		put hotplug/online $new && both
}
smt() {
	put smt/control off && [ "$(cat $NODE/node1/cpulist)" = $CPUS ] &&
		put smt/control on && both
}
result "goes and comes" goes
result "goes and comes with SMT" smt
