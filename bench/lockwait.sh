# SPDX-License-Identifier: GPL-2.0
# The longest that somebody waits for cpus_read_lock() while SMT goes off and on, and
# how long it takes until tasks run on half of the CPUs that come, where
# SCENARIO=requests, with the unpatched kernel, takes too long:
#   make run JOB=bench/lockwait.sh CPUS=128 [ARCH=ppc64le] [VARIANT=base]
#	[VARS="READERS=all BATCH=8 EXPEDITED=1"]
# READERS: on CPU 0, or on all of them. BATCH: CPUs in a slice. EXPEDITED: all grace
# periods are, by rcu_expedited.
READERS=${READERS-0}
BATCH=${BATCH-}
EXPEDITED=${EXPEDITED-0}
echo $EXPEDITED > /sys/kernel/rcu_expedited
[ -z "$BATCH" ] || echo $BATCH > /sys/module/cpuhp/parameters/batch || die "BATCH=$BATCH"
for i in 0 1 2; do
	for dir in off on; do
		ns=$(labctl membarrier $READERS $CPU/smt/control $dir) ||
			die "SMT $dir failed"
		[ $i = 0 ] || echo "SMT $dir: $((ns / 1000)) us"
	done
	labctl write $CPU/smt/control off > /dev/null || die "SMT off failed"
	ns=$(labctl half $CPU/smt/control on) || die "SMT on failed"
	[ $i = 0 ] || echo "half of them: $((ns / 1000)) us"
done
