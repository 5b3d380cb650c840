# SPDX-License-Identifier: GPL-2.0
# The longest that somebody waits for cpus_read_lock() while SMT goes off and on, and
# how long it takes until tasks run on half of the CPUs that come, where
# SCENARIO=requests, with the unpatched kernel, takes too long:
#   make run JOB=bench/lockwait.sh CPUS=128 [ARCH=ppc64le] [VARIANT=base]
#	[VARS="READERS=all BATCH=8 EXPEDITED=1"]
# READERS: one on CPU 0, or one on each CPU that is online. 'all' call membarrier(2),
# which holds a mutex while it waits for the lock, so that each waits for others, too;
# how long a request takes meanwhile, and alone. 'vmstat' read /proc/vmstat, which takes
# nothing but the lock: how many operations each of them waits for, by trace events. These
# and the times of requests are of the patched kernel only. BATCH: CPUs in a slice. EXPEDITED: all grace periods
# are, by rcu_expedited.
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
	for c in $(cut -d : -f 1 <(grep -Ho 1 $CPU/cpu[0-9]*/online) |
			sed 's,/online,,;s,.*/cpu,,') 0; do
		reader $c 9<> /tmp/fifo &
	done
	sleep 0.3
	echo > $T/trace
	labctl write $CPU/smt/control $1 > /dev/null || die "SMT $1 failed"
	rm /tmp/reading
	wait
	awk -v what="SMT $1" '
		{ match($0, /[0-9]+\.[0-9]+: /); now = substr($0, RSTART, RLENGTH - 2) * 1e6 }
		# whose end is traced before the lock is released
		/ cpuhp_operation_end: / { n++ }
		/ contention_(begin|end): / {
			for (i = 2; i < NF && $i !~ /^contention/; i++) ;
			who = $1 " " $(i + 1)	# the task and the lock
		}
		/ contention_begin: .*READ/ && /PERCPU/ { from[who] = now; over[who] = n }
		/ contention_end: / && who in from {
			waits++
			if (now - from[who] > longest) longest = now - from[who]
			if (n - over[who] > most) most = n - over[who]
			delete from[who]
		}
		END {
			for (who in from) left++
			printf "%s: %d operations, %d waits, the longest %.0f us; " \
				"operations that ended during one: at most %d; not over: %d\n",
				what, n, waits, longest, most, left
		}' $T/trace
}
if [ $READERS = vmstat ]; then
	mkfifo /tmp/fifo
	for e in lock/contention_begin lock/contention_end cpuhp/cpuhp_operation_end; do
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
