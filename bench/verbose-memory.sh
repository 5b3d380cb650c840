# SPDX-License-Identifier: GPL-2.0
# What the files below sched/domains in debugfs take of memory:
#   make run JOB=bench/verbose-memory.sh ARCH=ppc64le CPUS=32 [VARIANT=base]
# Each file and directory is an inode and a dentry; objects*bytes.
V=/sys/kernel/debug/sched/verbose
mem() {
	local f
	sync; echo 3 > /proc/sys/vm/drop_caches; sleep 1
	for f in /sys/kernel/slab/*/shrink; do echo 1 > $f; done
	echo "$1 $(awk '/^(Slab|SUnreclaim|SReclaimable):/ {printf "%s %s ", $1, $2}' /proc/meminfo)"
	awk '/^(dentry|debugfs_inode_cache|inode_cache|kmalloc-(16|32|64|96)) / {printf "  %s %s*%s", $1, $2, $4} END {print ""}' /proc/slabinfo
}
echo N > $V; mem "verbose off"
echo Y > $V; mem "verbose on"
find /sys/kernel/debug/sched/domains | wc -l
labctl write $CPU/smt/control off > /dev/null
labctl write $CPU/smt/control on > /dev/null; mem "after SMT off, on"
find /sys/kernel/debug/sched/domains | wc -l
echo N > $V; mem "verbose off"
