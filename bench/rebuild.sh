# SPDX-License-Identifier: GPL-2.0
# How long a rebuild of the sched domains takes, without anything in it being
# traced, and the write(2) which asks for it: one CPU goes and comes, then a cpuset
# partition of half of the machine is made and removed. In microseconds, virtual ones
# with ACCEL=icount. EXPEDITED=1: with grace periods expedited; what RCU frees then
# falls into the rebuilds.
#   make run JOB=bench/rebuild.sh ARCH=ppc64le CPUS=128 NODES=4 VARIANT=base
T=/sys/kernel/tracing
N=${N-5} EXPEDITED=${EXPEDITED-}
G=/sys/fs/cgroup

echo nop > $T/current_tracer
echo partition_sched_domains > $T/set_ftrace_filter || die "no such function"
echo function_graph > $T/current_tracer || die "no function_graph tracer"
mountpoint -q $G || mount -t cgroup2 none $G || die "no cgroups"
echo +cpuset > $G/cgroup.subtree_control && mkdir -p $G/part || die "no cpuset"
[ -z "$EXPEDITED" ] || echo 1 > /sys/kernel/rcu_expedited
last=$((CPUS - 1))
echo $((CPUS / 2))-$last > $G/part/cpuset.cpus || die "no cpuset.cpus"

# rebuild WHAT VALUE FILE: writes it, and tells the sum of the rebuilds
rebuild() {
	echo > $T/trace
	labctl write "$3" "$2" > /tmp/ns || die "$2 > $3"
	awk -v what="$1" -v ns="$(cat /tmp/ns)" '
		$0 ~ / us +\|.*partition_sched_domains/ || / us +\| *}/ {
			for (i = 1; i <= NF; i++)
				if ($i == "us")
					sum += $(i - 1)
			n++
		}
		END { print what, n, sum, ns / 1000 }' $T/trace
}

for i in $(seq $N); do
	rebuild off 0 $CPU/cpu$last/online
	rebuild on 1 $CPU/cpu$last/online
	rebuild partition root $G/part/cpuset.cpus.partition
	rebuild member member $G/part/cpuset.cpus.partition
done > /tmp/rebuilds
echo nop > $T/current_tracer
echo "$CPUS CPUs, mean of $N:"
awk '{ n[$1] += $2; us[$1] += $3; all[$1] += $4; k[$1]++ }
	END { for (w in k) printf "%s: %d rebuild(s), %.0f us; write %.0f us\n", w,
		n[w] / k[w], us[w] / k[w], all[w] / k[w] }' /tmp/rebuilds | sort
