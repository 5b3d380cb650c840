# SPDX-License-Identifier: GPL-2.0
# SCHED_DEADLINE and CPUs that go offline; the second half of the CPUs is
# isolated. 7.3.4 divides by zero in the first two, and has not got what the last
# need: make run CPUS=8 THREADS=1 APPEND=isolcpus=domain,4-7
. /lab/prelude.sh
I=$((CPUS / 2)) L=$((CPUS - 1))
LIMIT=/proc/sys/kernel/sched_rt_runtime_us
PARAM=/sys/module/cpuhp/parameters
read -r limit < $LIMIT
read -r batch < $PARAM/batch
mkfifo /tmp/go
exec 3<> /tmp/go

# deadline PID MS PERIOD: runtime and period in ms
deadline() {
	chrt -d -T $(($2 * 1000000)) -D $(($3 * 1000000)) -P $(($3 * 1000000)) \
		-p 0 $1
}

# policy PID NAME: what chrt calls it
policy() {
	chrt -p $1 | grep -q "policy: $2" || { chrt -p $1; return 1; }
}

# sleeper CPU LIST: $task sleeps on CPU, and may run on LIST
sleeper() {
	taskset -c $1 sleep 1000 &
	task=$!
	sleep 0.2
	taskset -cp $2 $task > /dev/null
}

# isolated 0|1: those are in the default root domain, with what is offline
isolated() {
	local c

	for c in $(range $I $CPUS); do
		put cpu$c/online $1 || return
	done
}

no_limit() {
	sleeper 1 0-$L
	isolated 0 && put cpu1/online 0 && echo -1 > $LIMIT &&
		deadline $task 10 100 && put cpu2/online 0 &&
		put cpu2/online 1 && put cpu1/online 1 && isolated 1 &&
		policy $task SCHED_DEADLINE
}

# most of the runtime is used when it blocks, so it counts until much later
timer() {
	taskset -c 1 bash -c 'read -r x <&3
		until=$((${EPOCHREALTIME/./} + 800000))
		while [ ${EPOCHREALTIME/./} -lt $until ]; do :; done
		read -r x <&3' &
	task=$!
	sleep 0.2
	taskset -cp 0-$((I - 1)) $task > /dev/null && deadline $task 1000 4000 &&
		echo > /tmp/go && sleep 1.2 && chrt -o -p 0 $task || return
	isolated 0 && put cpu1/online 0 || return
	sleep 4
	put cpu1/online 1 && isolated 1
}

no_limit_isolated() {
	sleeper $I $I-$L
	isolated 0 && echo -1 > $LIMIT && deadline $task 10 100 &&
		put cpu1/online 0 && put cpu1/online 1 && isolated 1 &&
		policy $task SCHED_DEADLINE
}

# All the isolated CPUs have left the scheduler, and go one by one. Until the last
# is gone nobody may count on it.
admission() {
	local write status=0

	sleeper $((L - 1)) $I-$L
	echo 1 > $PARAM/batch
	echo 300000 > $PARAM/dead_delay_us
	put hotplug/offline $I-$L &
	write=$!
	sleep 0.3
	kill -0 $write || { echo "the CPUs are gone already"; status=1; }
	! deadline $task 10 100 || { echo "admitted"; status=1; }
	echo 0 > $PARAM/dead_delay_us
	echo $batch > $PARAM/batch
	wait $write && all_on && return $status
}

# What is admitted keeps the first CPU of those it may run on. Those who must
# stay are never seen inactive: who may run there only, and is woken all the
# time, stays.
refused_list() {
	local i pinned

	sleeper $((L - 1)) $I-$L
	deadline $task 10 100 || return
	taskset -c $I bash -c 'while :; do read -r -t 0.001 x <&3; done' &
	pinned=$!
	for i in {1..20}; do
		refused hotplug/offline $I-$L && want 1 $(seq $((I + 1)) $L) &&
			policy $task SCHED_DEADLINE && all_on || return
		taskset -cp $pinned | grep -q ": $I$" ||
			{ taskset -cp $pinned; return 1; }
	done
}

# alone NAME CMD...: a result. However it ends, the next one finds no task of it,
# the limit as booted and all CPUs online.
alone() {
	result "$@"
	kill -KILL $(jobs -p) 2> /dev/null
	wait 2> /dev/null
	# A task that died counts for the rest of its period. Who writes to this
	# file meanwhile leaves the sum too small, also on 7.3.
	sleep 0.5
	echo $limit > $LIMIT
	all_on
}

[ "$(cat $CPU/isolated)" = $I-$L ] || die "isolated: $(cat $CPU/isolated)"
alone "asleep on an offline CPU, no limit" no_limit
alone "no DEADLINE task any more, its CPU offline" timer
alone "asleep on isolated CPUs, all offline, no limit" no_limit_isolated
alone "no admission while CPUs leave" admission
alone "a list is refused, tasks stay" refused_list
result "all online at the end" want 1
