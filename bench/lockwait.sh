# SPDX-License-Identifier: GPL-2.0
# The longest that somebody waits for cpus_read_lock() while SMT goes off and on, and
# how long it takes until tasks run on half of the CPUs that come, where
# SCENARIO=requests, with the unpatched kernel, takes too long:
#   make run JOB=bench/lockwait.sh CPUS=128 [ARCH=ppc64le] [VARIANT=base]
#	[VARS="READERS=all BATCH=8 EXPEDITED=1"]
# Of the patched kernel also how long the request takes meanwhile, and without readers.
# READERS: on CPU 0, or on all of them. BATCH: CPUs in a slice. EXPEDITED: all grace
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
