# SPDX-License-Identifier: GPL-2.0
# The longest that somebody waits for cpus_read_lock() while SMT goes off and on, and
# how long it takes until tasks run on half of the CPUs that come, where
# SCENARIO=requests, with the unpatched kernel, takes too long:
#   make run JOB=bench/lockwait.sh CPUS=128 [ARCH=ppc64le] [VARIANT=base]
#	[VARS="READERS=all BATCH=8 EXPEDITED=1"]
# Of the patched kernel also how long the request takes meanwhile, and without readers.
# READERS: one on CPU 0, or one on each: of membarrier(2) ('all'), who hold a mutex while
# they wait for the lock, so that each waits for others as well, or of /proc/vmstat
# ('vmstat'), which does little but take the lock: of these by the events of lock
# contention, and whether somebody waited for two operations. BATCH: CPUs in a slice. EXPEDITED: all grace
# periods are, by rcu_expedited.
READERS=${READERS-0}
BATCH=${BATCH-}
EXPEDITED=${EXPEDITED-0}
echo $EXPEDITED > /sys/kernel/rcu_expedited
[ -z "$BATCH" ] || echo $BATCH > /sys/module/cpuhp/parameters/batch || die "BATCH=$BATCH"
T=/sys/kernel/tracing
for e in start end; do
	[ ! -e $T/events/cpuhp/cpuhp_request_$e ] ||
		echo 1 > $T/events/cpuhp/cpuhp_request_$e/enable
done
# request: how long the last one took, us
request() {
	awk '
		{ match($0, /[0-9]+\.[0-9]+: /); now = substr($0, RSTART, RLENGTH - 2) * 1e6 }
		/ cpuhp_request_start: / { start = now }
		/ cpuhp_request_end: / { took = now - start }
		END { printf(took ? "%.0f us" : "-", took) }' $T/trace
	echo > $T/trace
}
# reader CPU: reads again and again, and sleeps for 20 ms
reader() {
	taskset -cp $1 $BASHPID > /dev/null 2>&1
	while [ -e /tmp/reading ]; do
		read -r _ < /proc/vmstat
		read -r -t 0.02 -u 9
	done
}
# readers DIR: of who waited for the lock while SMT goes there
readers() {
	local c

	: > /tmp/reading
	for ((c = 0; c < CPUS; c++)); do
		reader $c 9<> /tmp/fifo &
	done
	sleep 0.3
	echo > $T/trace
	labctl write $CPU/smt/control $1 > /dev/null || die "SMT $1 failed"
	cp $T/trace /tmp/trace
	rm /tmp/reading
	wait
	awk -v what="SMT $1" '
		{ match($0, /[0-9]+\.[0-9]+: /); now = substr($0, RSTART, RLENGTH - 2) * 1e6 }
		/ cpuhp_operation_start: / { n++ }
		/ contention_begin: .*READ.*PERCPU|contention_begin: .*PERCPU.*READ/ {
			from[$1] = now; began[$1] = n }
		/ contention_end: / && $1 in from {
			waits++
			if (now - from[$1] > longest) longest = now - from[$1]
			if (n - began[$1] > most) most = n - began[$1]
			delete from[$1]
		}
		END { printf "%s: %d operations, %d waits, the longest %.0f us; " \
			"operations that began during a wait: at most %d\n",
			what, n, waits, longest, most }' /tmp/trace
}
if [ $READERS = vmstat ]; then
	mkfifo /tmp/fifo
	for e in lock/contention_begin lock/contention_end cpuhp/cpuhp_operation_start; do
		echo 1 > $T/events/$e/enable || die "no event $e"
	done
	for i in 1 2 3; do
		readers off
		readers on
	done
	exit
fi
for i in 0 1 2; do
	for dir in off on; do
		labctl write $CPU/smt/control $dir > /dev/null || die "SMT $dir failed"
		[ $dir = off ] && alone_off=$(request) || alone_on=$(request)
	done
	for dir in off on; do
		ns=$(labctl membarrier $READERS $CPU/smt/control $dir) ||
			die "SMT $dir failed"
		alone=alone_$dir took=$(request)
		[ $i = 0 ] || echo "SMT $dir: wait $((ns / 1000)) us," \
			"request $took, alone ${!alone}"
	done
	labctl write $CPU/smt/control off > /dev/null || die "SMT off failed"
	ns=$(labctl half $CPU/smt/control on) || die "SMT on failed"
	[ $i = 0 ] || echo "half of them: $((ns / 1000)) us"
done
