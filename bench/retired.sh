# SPDX-License-Identifier: GPL-2.0
# How long it takes CPUs to die, from when nobody can choose them any more, and how
# long one has interrupts off, all but CPU 0 and one alone:
#   make run JOB=bench/retired.sh CPUS=32 THREADS=2 [ARCH=ppc64le]
# Patched kernels with trace events (cpuhp:cpuhp_retired).
T=/sys/kernel/tracing
echo 1 > $T/events/cpuhp/cpuhp_retired/enable || die "no such event"
for i in 1 2 3 4 5 6; do
	labctl write $CPU/hotplug/offline 1-$((CPUS - 1)) > /dev/null &&
		labctl write $CPU/hotplug/online all > /dev/null &&
		labctl write $CPU/cpu1/online 0 > /dev/null &&
		labctl write $CPU/cpu1/online 1 > /dev/null || die "round $i failed"
done
grep -a retired: $T/trace
