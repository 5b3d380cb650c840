# SPDX-License-Identifier: GPL-2.0
# The longest that somebody waits for cpus_read_lock() while SMT goes off and on,
# where SCENARIO=latency, with the unpatched kernel, takes too long:
#   make run JOB=bench/lockwait.sh CPUS=128 [ARCH=ppc64le]
for i in 0 1 2; do
	for dir in off on; do
		ns=$(labctl lockwait $CPU/smt/control $dir) || die "SMT $dir failed"
		[ $i = 0 ] || echo "SMT $dir: $((ns / 1000)) us"
	done
done
