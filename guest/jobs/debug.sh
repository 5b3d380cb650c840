# SPDX-License-Identifier: GPL-2.0
# For kernels that check a lot: SMT, each CPU alone, selftests.
# FULL=1: all of those, in full length.
FULL=${FULL-}
export QUICK=$([ -n "$FULL" ] || echo 1)

for i in 1 2; do
	timed off - $i labctl write $CPU/smt/control off || die "SMT off failed"
	timed on - $i labctl write $CPU/smt/control on || die "SMT on failed"
done
for c in $(ls -d $CPU/cpu[0-9]*); do
	[ -w $c/online ] && [ "${c##*/}" != cpu0 ] || continue
	labctl write $c/online 0 || die "$c: offline failed"
done
for c in $(ls -d $CPU/cpu[0-9]*); do
	[ -w $c/online ] && [ "$(cat $c/online)" = 0 ] || continue
	labctl write $c/online 1 || die "$c: online failed"
done
cd /lab/kselftest
# when it is to be quick: the one with fault injection. The others pass without
# debug in the same run, and take minutes here (make torture has them, too)
for t in cpu-on-off cpuidle cpulist sched-domains smt stress; do
	skip+=" -S cpu-hotplug:$t-test.sh"
done
./run_kselftest.sh -o 1200 ${QUICK:+$skip} 2>&1 | cat > /tmp/kselftest
file kselftest /tmp/kselftest
emit checked online "$(cat $CPU/online)"
