# SPDX-License-Identifier: GPL-2.0
# A request in several operations of BATCH CPUs: APPEND=cpuhp.batch=3, or for
# BATCH=1 what has CPUs go one by one: threadirqs
. /lab/prelude.sh
BATCH=${BATCH-3}

S=/sys/kernel/debug/cpuhp
PARAM=/sys/module/cpuhp/parameters
echo 1 > $S/enable

# request UP OPERATIONS: the last one had so many, and all of its CPUs went, with
# one rebuild of the sched domains each time and, downwards, one stop_machine()
request() {
	local want="^request: $1 asked \([0-9]*\) done \1 operations $2 result 0 "
	local stops=0

	[ $1 = up ] || stops=$2
	grep -q "$want" $S/last && grep -q "^request_stops: $stops " $S/last &&
		grep -q "^request_domain_rebuilds: $2$" $S/last ||
		{ grep ^request $S/last; return 1; }
}

# the sums that x86 makes about vectors are those of an operation
list() {
	local n=$(((CPUS - 2 + BATCH - 1) / BATCH))

	put hotplug/offline 1-$((CPUS - 2)) && request down $n &&
		want $THREADS $(range 1 $((CPUS - 1))) &&
		put hotplug/online 1-$((CPUS - 2)) && request up $n && want $THREADS
}

control() {
	local n=$(((CPUS - CPUS / THREADS + BATCH - 1) / BATCH))

	put smt/control off && request down $n && want 1 &&
		put smt/control on && request up $n && want $THREADS
}

# SMT control ends with the operation in which a CPU fails
stops() {
	local c siblings=() chunk state n=$BATCH

	for ((c = 0; c < CPUS; c++)); do
		[ $((c % THREADS)) = 0 ] || siblings+=($c)
	done
	# nobody is left alone for the second
	[ $((${#siblings[@]} - 1)) != $n ] || [ $n -le 2 ] || n=$((n - 1))
	chunk=(${siblings[@]:0:n})
	state=$(state_of sched:active)
	echo $((state)) > $CPU/cpu${chunk[1]}/hotplug/fail
	refused smt/control off || return
	[ "$(cat $CPU/smt/control)" = on ] || return
	# those of the first one are gone, but for that CPU
	c=${chunk[1]}
	unset chunk[1]
	want $THREADS ${chunk[*]} && put smt/control off && want 1 &&
		put smt/control on && want $THREADS
}

# kill_writer DELAY TEXT FILE: while CPUs take their time
kill_writer() {
	local pid

	echo 50000 > $PARAM/$1
	echo "$2" > $CPU/$3 &
	pid=$!
	sleep 0.03
	kill -KILL $pid
	wait $pid
	echo 0 > $PARAM/$1
	grep ^request $S/last
}

# a fatal signal ends it between two operations
killed() {
	local delay=ap_delay_us

	if [ $1 = up ]; then
		put hotplug/offline 1-$((CPUS - 1)) || return
	else
		delay=dead_delay_us
	fi
	kill_writer $delay 1-$((CPUS - 1)) hotplug/$2
	grep -q "^request: $1 .* result -4 " $S/last && consistent || return
	expand_file $CPU/online
	[ ${#cpus[@]} -gt 1 ] && [ ${#cpus[@]} -lt $CPUS ] && all_on
}

# ... but not SMT control, which would say what is not so
not_killed() {
	local n=$(((CPUS - CPUS / THREADS + BATCH - 1) / BATCH))

	kill_writer dead_delay_us off smt/control
	request down $n && want 1 && [ "$(cat $CPU/smt/control)" = off ] ||
		return
	kill_writer ap_delay_us on smt/control
	request up $n && want $THREADS && [ "$(cat $CPU/smt/control)" = on ]
}

# selftest NAME
selftest() {
	bash /lab/kselftest/cpu-hotplug/$1 -q
}

result "a list" list
[ $THREADS = 1 ] || result "SMT control" control
[ $THREADS = 1 ] || [ $BATCH = 1 ] ||
	result "SMT control stops when a CPU fails" stops
result "a writer is killed, CPUs come" killed up online
result "a writer is killed, CPUs go" killed down offline
[ $THREADS = 1 ] || result "a writer of SMT control is killed" not_killed
result "smt-test.sh" selftest smt-test.sh
result "cpulist-test.sh" selftest cpulist-test.sh
result "all online at the end" want $THREADS
