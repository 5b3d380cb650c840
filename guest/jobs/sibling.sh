# SPDX-License-Identifier: GPL-2.0
# With SMT off a sibling is started once, as the first "all" does (nosmt maxcpus=1),
# and refuses to go again, which the kernel says. It stays online, and nobody may
# bring it up any further.
. /lab/prelude.sh
LAST=$((CPUS - 1))
P=/sys/module/cpuhp/parameters

# not_up: it is online, and has not come up
not_up() {
	local s top

	read -r top < $CPU/cpu0/hotplug/state
	read -r s < $CPU/cpu$LAST/hotplug/state
	expand_file $CPU/online
	[ "${cpus[-1]}" = $LAST ] && [ $s -lt $top ] ||
		{ echo "cpu$LAST: $s of $top, online: ${cpus[*]}"; return 1; }
}

started() {
	echo $LAST > $P/refuse_cpu
	refused hotplug/online all
	local ret=$?
	echo -1 > $P/refuse_cpu
	[ $ret = 0 ] && not_up
}
result "it refuses to go" started
result "all who may are brought online" eval 'put hotplug/online all && not_up'
result "it is not, by a list" eval 'refused hotplug/online $LAST && not_up'
result "nor by its own file" eval 'refused cpu$LAST/online 1 && not_up'
result "it goes with a list" eval 'put hotplug/offline $LAST && want 1'
result "it comes when SMT is on" eval 'put smt/control on && want $THREADS'
