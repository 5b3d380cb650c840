# SPDX-License-Identifier: GPL-2.0
# A request in slices of BATCH CPUs: APPEND=cpuhp.batch=3, or for BATCH=1 what has
# CPUs go one by one, each through both levels: threadirqs
. /lab/prelude.sh
BATCH=${BATCH-3}

PARAM=/sys/module/cpuhp/parameters
T=/sys/kernel/tracing/instances/batch
mkdir $T && echo counter > $T/trace_clock &&
	echo 1 > $T/events/cpuhp/cpuhp_request_start/enable &&
	echo 1 > $T/events/cpuhp/cpuhp_request_end/enable &&
	echo 1 > $T/events/cpuhp/cpuhp_retired/enable &&
	echo partition_sched_domains > $T/set_ftrace_filter &&
	echo function > $T/current_tracer || die "no trace of requests"

# of the last request: direction, CPUs asked for and not tried, operations, result,
# slices in which CPUs died and rebuilds of the sched domains
last() {
	awk '/cpuhp_request_start:/ {
			way = $(NF - 7); asked = $(NF - 5); stops = rebuilds = 0
		}
		/cpuhp_retired:/ { stops++ }
		/: partition_sched_domains <-/ { rebuilds++ }
		/cpuhp_request_end:/ {
			print way, asked, $(NF - 5), $(NF - 2), $NF, stops, rebuilds
		}' $T/trace | tail -n 1
}

# request UP CPUS: all CPUs of the last one went, in as many slices as it takes or
# some more, as cores are not cut, with the same number of times that CPUs died, and
# one rebuild of the sched domains for all of them, and up no more rebuilds than
# slices. One by one each CPU has its own.
request() {
	local n=$2 least=$((($2 + BATCH - 1) / BATCH)) up asked left ops ret stops
	local rebuilds slices

	read -r up asked left ops ret stops rebuilds < <(last)
	slices=$((ops - rebuilds))
	[ "$up $asked $left $ret" = "$1 $n 0 0" ] &&
		[ $slices -ge $least ] && [ $slices -le $n ] &&
		if [ $BATCH = 1 ]; then
			[ $rebuilds = $n ] && [ $slices = $n ]
		elif [ $1 = up ]; then
			[ $rebuilds -le $slices ]
		else
			[ $rebuilds = 1 ]
		fi &&
		[ $stops = $([ $1 = up ] && echo 0 || echo $slices) ] ||
		{ last; return 1; }
}

# the sums that x86 makes about vectors are those of an operation
list() {
	local n=$((CPUS - 2))

	put hotplug/offline 1-$((CPUS - 2)) && request down $n &&
		want $THREADS $(range 1 $((CPUS - 1))) &&
		put hotplug/online 1-$((CPUS - 2)) && request up $n && want $THREADS
}

control() {
	local n=$((CPUS - CPUS / THREADS))

	put smt/control off && request down $n && want 1 &&
		put smt/control on && request up $n && want $THREADS
}

# SMT control ends with the slice in which a CPU fails
stops() {
	local c siblings=() slice state

	for ((c = 0; c < CPUS; c++)); do
		[ $((c % THREADS)) = 0 ] || siblings+=($c)
	done
	slice=(${siblings[@]:0:BATCH})
	state=$(state_of workqueue:online)
	echo $((state)) > $CPU/cpu${slice[1]}/hotplug/fail
	refused smt/control off || return
	[ "$(cat $CPU/smt/control)" = on ] || return
	# those of the first one are gone, but for that CPU
	unset slice[1]
	want $THREADS ${slice[*]} && put smt/control off && want 1 &&
		put smt/control on && want $THREADS
}

# before sched:active, where a CPU that fails ends it for all of them
none() {
	echo $(($(state_of sched:active))) > $CPU/cpu$((CPUS - 1))/hotplug/fail
	refused smt/control off && [ "$(cat $CPU/smt/control)" = on ] &&
		want $THREADS
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
	last
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
	[[ $(last) = "$1 "*" -4 "* ]] && consistent || return
	expand_file $CPU/online
	[ ${#cpus[@]} -gt 1 ] && [ ${#cpus[@]} -lt $CPUS ] && all_on
}

# ... but not SMT control, which would say what is not so
not_killed() {
	local n=$((CPUS - CPUS / THREADS))

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
[ $THREADS = 1 ] || [ $BATCH = 1 ] ||
	result "SMT control stops when a CPU can't be deactivated" none
result "a writer is killed, CPUs come" killed up online
result "a writer is killed, CPUs go" killed down offline
[ $THREADS = 1 ] || result "a writer of SMT control is killed" not_killed
result "smt-test.sh" selftest smt-test.sh
result "cpulist-test.sh" selftest cpulist-test.sh
result "request-test.sh" selftest request-test.sh
result "all online at the end" want $THREADS
