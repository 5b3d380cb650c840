# SPDX-License-Identifier: GPL-2.0
# Where the time of SMT off and on goes, by CPU, segment and state:
#   make run JOB=bench/where.sh ARCH=ppc64le CPUS=32
# With APPEND=cpuhp.stats=1 that of boot comes first. All times are nanoseconds;
# Documentation/core-api/cpu_hotplug.rst of the patched kernel explains them.
D=/sys/kernel/debug/cpuhp
show() {
	echo "== $1"
	cat $D/last $D/cpus
	head -n 1 $D/states
	sort -k 6 -n -r $D/states | head -n 40
	echo 1 > $D/reset
}
[ "$(cat $D/enable)" = 0 ] || show boot
echo 1 > $D/enable
labctl write $CPU/smt/control off > /dev/null || die "SMT off failed"
show "SMT off"
labctl write $CPU/smt/control on > /dev/null || die "SMT on failed"
show "SMT on"
