# SPDX-License-Identifier: GPL-2.0
# cpuset partitions all of whose CPUs go offline, and all CPUs but theirs:
# make run CPUS=8 THREADS=1. TOGETHER=: each CPU alone, as on the unpatched kernel.
. /lab/prelude.sh
TOGETHER=${TOGETHER-1}
top=/sys/fs/cgroup

# offline|online CPU..., which are a range
move() {
	local op=$1 c

	shift
	if [ $TOGETHER ]; then
		put hotplug/$op $1-${*: -1}
		return
	fi
	for c; do
		put cpu$c/online $([ $op = offline ]; echo $?) || return
	done
}

# partition NAME CPUS root|isolated, with a task
partition() {
	mkdir $top/$1 && echo $2 > $top/$1/cpuset.cpus &&
		echo $3 > $top/$1/cpuset.cpus.partition && valid $1 $3 || return
	sleep 1000 &
	echo $! > $top/$1/cgroup.procs && tasks+=" $!"
}

# is NAME a valid partition (of type root|isolated)?
valid() {
	[ "$(cat $top/$1/cpuset.cpus.partition)" = $2 ] && return
	echo "$1: $(cat $top/$1/cpuset.cpus.partition)"
	return 1
}

invalid() {
	grep -q invalid $top/$1/cpuset.cpus.partition
}

# end NAME...
end() {
	local i

	kill $tasks
	wait $tasks 2> /dev/null
	tasks=
	for i; do
		# the last task may not be gone yet
		for _ in 1 2 3 4 5; do
			rmdir $top/$i 2> /dev/null && break
			sleep 0.2
		done
	done
	all_on
}

two() {
	partition p1 2-3 root && partition p2 4-5 isolated &&
		move offline 2 3 4 5 && invalid p1 && invalid p2 &&
		move online 2 3 4 5 && valid p1 root && valid p2 isolated
}

# a sibling becomes a partition, and takes a CPU that an invalid one could use
sibling() {
	partition p1 2-3 root && partition p2 4-5 isolated &&
		move offline 2 3 4 5 && invalid p1 && invalid p2 &&
		partition p3 6 root &&
		move online 2 3 4 5 && valid p1 root && valid p2 isolated &&
		valid p3 root
}

# another cgroup has these CPUs among its own, and is no partition
overlap() {
	mkdir $top/m && echo 0-7 > $top/m/cpuset.cpus && partition p1 4-7 root &&
		move offline 4 5 6 7 && invalid p1 &&
		move online 4 5 6 7 && valid p1 root && has p1 4-7 && has . 0-3
}

# has NAME CPUS
has() {
	[ "$(cat $top/$1/cpuset.cpus.effective)" = $2 ] && return
	echo "$1: $(cat $top/$1/cpuset.cpus.effective), not $2"
	return 1
}

# one in another, which asks for a CPU that this has not
nested() {
	mkdir $top/p1 && echo 2-5 > $top/p1/cpuset.cpus &&
		echo root > $top/p1/cpuset.cpus.partition &&
		echo +cpuset > $top/p1/cgroup.subtree_control &&
		partition p1/p2 4-6 root && has p1 2-3 && has p1/p2 4-5 &&
		move offline 4 5 && invalid p1/p2 && move online 4 5 &&
		valid p1/p2 root && has p1 2-3 && has p1/p2 4-5
}

# the one which had the other CPU goes meanwhile
given() {
	mkdir $top/p1 && echo 4 > $top/p1/cpuset.cpus &&
		echo root > $top/p1/cpuset.cpus.partition &&
		partition p2 4-5 isolated && has p2 5 &&
		move offline 5 && invalid p2 && rmdir $top/p1 &&
		move online 5 && valid p2 isolated && has p2 4-5 &&
		echo member > $top/p2/cpuset.cpus.partition && has . 0-7 &&
		[ -z "$(cat $top/cpuset.cpus.isolated)" ]
}

# the others are all that is left; the first one must not be made valid for that
cleared() {
	mkdir $top/p1 && partition p2 4-5 root && partition p3 6-7 root &&
		echo 0-3 > $top/p1/cpuset.cpus &&
		echo root > $top/p1/cpuset.cpus.partition && invalid p1 &&
		move offline 0 1 2 3 && invalid p1 && invalid p2 && invalid p3 &&
		has . 4-7 && move online 0 1 2 3 && valid p1 root && has p1 0-3
}

# the tasks of a cgroup without CPUs of its own keep waking up meanwhile; CPU 0
# can't go everywhere
others() {
	local i

	partition p1 0,4-7 isolated && mkdir $top/load || return
	for i in 1 2 3 4 5 6 7 8; do
		perl -e 'select(undef, undef, undef, 0.0005) while 1' &
		echo $! > $top/load/cgroup.procs && tasks+=" $!" || return
	done
	for i in 1 2 3 4 5; do
		move offline 1 2 3 && invalid p1 && move online 1 2 3 &&
			valid p1 isolated || return
	done
}

tasks=
mount -t cgroup2 none $top 2> /dev/null
echo +cpuset > $top/cgroup.subtree_control || die "no cpuset controller"
result "two partitions are offline, and come back" two
end p1 p2
result "a third is made while they are offline" sibling
end p1 p2 p3
result "another cgroup has their CPUs, too" overlap
end p1 m
result "one is in another" nested
end p1/p2 p1
result "one gets a CPU that another had" given
end p2
if [ -e $CPU/cpu0/online ]; then
	result "partitions are all that is left" cleared
	end p2 p3 p1
fi
result "all CPUs outside of one go offline" others
end p1 load
result "all online at the end" all_on
