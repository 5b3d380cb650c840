# SPDX-License-Identifier: GPL-2.0
# After maxcpus=2 (APPEND=): SMT control leaves the other cores alone.
# FIRST: CPUs at boot. CORES: of so many cores. LEAVE: so many threads a core,
# when nothing more may be online. SMT=: SMT control brings all of them, where the
# architecture does not tell which cores are online.
. /lab/prelude.sh
FIRST=${FIRST-2}
CORES=${CORES-1}
LEAVE=${LEAVE-$THREADS}
SMT=${SMT-1}

# FIRST CPUs at boot, of CORES cores
as_many() {
	expand_file $CPU/online
	echo "online: ${cpus[*]}, wanted $1"
	[ ${#cpus[@]} = $1 ] && consistent
}
result "as asked" as_many $FIRST
# These cores have a primary thread each, and the other threads: nothing else
# was asked for
smt_on() {
	local rest=$(range $((CORES * THREADS)) $CPUS)

	put smt/control off && as_many $CORES && want 1 $rest &&
		put smt/control on && want $THREADS $rest || return
	[ $LEAVE != 1 ] || { put smt/control off && as_many $CORES; }
}
[ ! $SMT ] || result "SMT control leaves the other cores alone" smt_on
# what nosmt leaves, then what it doesn't
may() {
	put hotplug/online all && want $LEAVE && put smt/control on
}
result "hotplug/online all" may
result "all online" all_on
# what keeps a task in SCHED_FIFO from starving all others
servers() {
	local s=/sys/kernel/debug/sched/fair_server c

	for c in $(range 0 $CPUS); do
		[ "$(cat $s/cpu$c/runtime)" = "$(cat $s/cpu0/runtime)" ] ||
			{ grep . $s/cpu*/runtime; return 1; }
	done
}
result "all have a fair_server" servers
result "off and on" eval 'put smt/control off && want 1 && put smt/control on &&
	want $THREADS'
