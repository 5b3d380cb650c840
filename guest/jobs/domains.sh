# SPDX-License-Identifier: GPL-2.0
# The sched domains after each of N random operations: single CPUs, lists, SMT,
# cpuset partitions. The log has what the kernel says of them as it builds them
# (sched_verbose): spans, levels, groups in their order with masks and capacities, and
# the root domain's span; and what debugfs has: flags, weights and limits. lab/judge.py
# compares that of two kernels which were given the same SEED. KINDS: 5 is without
# partitions, which have a WARNING of 7.3 in them with isolcpus=
# (update_parent_effective_cpumask()). AGAIN=1: after each list CPU 0 goes and comes, and
# one of a partition, which is not built anew for others: all domains are built once more.
. /lab/prelude.sh
N=${N-100} SEED=${SEED-1} KINDS=${KINDS-7} AGAIN=${AGAIN-0}
grep -qw sched_verbose /proc/cmdline || die "boot it with APPEND=sched_verbose"
D=/sys/kernel/debug/sched/domains
C=/sys/fs/cgroup
[ -e $C/cgroup.controllers ] || mount -t cgroup2 none $C || die "no cgroups"
echo +cpuset > $C/cgroup.subtree_control && mkdir -p $C/part || die "no cpusets"
RANDOM=$SEED

note() {
	dmesg -ct
	# the patched kernel updates the files later, and this waits for it
	echo Y > ${D%/*}/verbose
	# costs of balancing change by themselves
	grep -rs "" $D | grep -v newidle | sort
	echo "== $(cat $CPU/online) $*"
}

# all VALUE FILE LIST CPU...: one by one, or as a list where there is one
all() {
	local value=$1 file=$2 list=$3 cpu

	shift 3
	if [ -e $CPU/hotplug/$file ]; then
		echo $list > $CPU/hotplug/$file
		return
	fi
	for cpu; do
		echo $value > $CPU/cpu$cpu/online
	done
}

# one_of WORD...: sets word. In a subshell RANDOM would not repeat.
one_of() {
	local n=$((RANDOM % $#))

	shift $n
	word=$1
}

# a CPU of the partition, if it has another
of_partition() {
	[[ $(cat $C/part/cpuset.cpus.partition) == @(root|isolated) ]] || return
	expand_file $C/part/cpuset.cpus.effective
	[ ${#cpus[@]} -lt 2 ] || echo ${cpus[0]}
}

random_operation() {
	local kind=$((RANDOM % KINDS)) a=$((1 + RANDOM % (CPUS - 1))) b

	b=$((a + RANDOM % CPUS / 2))
	[ $b -lt $CPUS ] || b=$((CPUS - 1))
	case $kind in
	0|1)	what="cpu$a $((! $(cat $CPU/cpu$a/online)))"
		echo ${what#* } > $CPU/cpu$a/online ;;
	2)	what="offline $a-$b"
		all 0 offline $a-$b $(seq $a $b) ;;
	3)	what="online all"	# that may be
		all 1 online all $(seq $((CPUS - 1))) ;;
	4)	one_of off on 2
		what="smt $word"
		echo $word > $CPU/smt/control ;;
	5)	one_of root isolated
		what="partition $a-$b $word"
		echo $a-$b > $C/part/cpuset.cpus
		echo $word > $C/part/cpuset.cpus.partition ;;
	6)	what="no partition"
		echo member > $C/part/cpuset.cpus.partition ;;
	esac 2> /dev/null
	if [ $AGAIN = 1 ] && [[ $what == o* ]]; then
		# not where no other CPU is online, or in no partition
		for a in 0 $(of_partition); do
			for b in 0 1; do
				echo $b > $CPU/cpu$a/online
			done
		done 2> /dev/null
	fi
	what+=" $(cat $C/part/cpuset.cpus.partition)"
}

note boot > /tmp/log
for ((i = 1; i <= N; i++)); do
	random_operation
	note $what >> /tmp/log
done
gzip -c /tmp/log > /tmp/log.gz
file domains /tmp/log.gz
