# SPDX-License-Identifier: GPL-2.0
# Each allocation of who makes or removes a cpuset partition of half of the CPUs fails
# once, those of the sched domains among them (CONFIG_FAILSLAB): what could not be done
# then can be done afterwards. make run CPUS=8 THREADS=2 NODES=2
. /lab/prelude.sh
C=/sys/fs/cgroup
D=/sys/kernel/debug/failslab
P=$C/part/cpuset.cpus.partition
[ -w /proc/self/fail-nth ] || die "no CONFIG_FAILSLAB"
[ -e $C/cgroup.controllers ] || mount -t cgroup2 none $C || die "no cgroups"
echo +cpuset > $C/cgroup.subtree_control && mkdir $C/part &&
	echo $((CPUS / 2))-$((CPUS - 1)) > $C/part/cpuset.cpus || die "no cpuset"
echo N > $D/ignore-gfp-wait && echo 0 > $D/verbose || die "no $D"

# starved VALUE N: the N-th allocation fails; 2 if there are fewer
starved() {
	(
		exec 3> $P
		echo $2 > /proc/self/fail-nth
		printf %s $1 >&3
		# 0 when it has failed; the shell itself needs some
		read -r left < /proc/self/fail-nth
		echo 0 > /proc/self/fail-nth
		[ "$left" = 0 ] || exit 2
	) 2> /dev/null
}

domains() {
	# the patched kernel updates the files later, and this waits for it
	echo Y > /sys/kernel/debug/sched/verbose
	grep -rs "" /sys/kernel/debug/sched/domains | grep -v newidle | sort
}

becomes() {
	echo $1 > $P && [ "$(cat $P)" = $1 ]
}

# each of them, and then the same once more with nothing missing
every() {
	local i n

	domains > /tmp/before
	[ -s /tmp/before ] || { echo "no sched domains"; return 1; }
	becomes root && domains > /tmp/parted && becomes member || return
	for n in root member; do
		for ((i = 1; ; i++)); do
			starved $n $i
			[ $? -ne 2 ] || break
			[ $i -lt 1000 ] || { echo "no end"; return 1; }
			becomes member && becomes root || return
			domains | diff /tmp/parted - || { echo "$n, $i"; return 1; }
			[ $n = member ] || becomes member || return
		done
		[ $i -gt 20 ] || { echo "$i allocations for $n"; return 1; }
		becomes $n || return
		emit allocations what $n n $i
	done
	domains | diff /tmp/before -
}

result "a partition without memory" every
result "all online at the end" all_on
