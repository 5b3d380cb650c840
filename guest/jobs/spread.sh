# SPDX-License-Identifier: GPL-2.0
# Tasks of CPUs that go offline together go where CPUs stay, and not all to one:
# a task for each CPU, two nodes: make run CPUS=16 THREADS=1
. /lab/prelude.sh
H=$((CPUS / 2)) L=$((CPUS - 1))
E=$T/events/sched/sched_migrate_task

# hogs: $hogs, one on each CPU
hogs() {
	local c

	hogs=()
	for ((c = 0; c < CPUS; c++)); do
		taskset -c $c sh -c 'while :; do :; done' &
		hogs+=($!)
	done
	sleep 0.5
	for c in ${hogs[@]}; do
		taskset -cp 0-$L $c > /dev/null
	done
}

# migrations CMD...: how often hogs were migrated by it, and how many were on
# one CPU at the most: $moves, $most
migrations() {
	local c

	for c in ${hogs[@]}; do
		echo $c $(cut -d ' ' -f 39 /proc/$c/stat)
	done > /tmp/before
	echo > $T/trace
	echo 1 > $E/enable
	"$@"
	echo 0 > $E/enable
	grep -o 'pid=.*' $T/trace | sed 's/[a-z_]*=//g' > /tmp/moves
	read -r moves most < <(awk '
		NR == FNR { cpu[$1] = $2; n[$2]++; next }
		$1 in cpu { n[cpu[$1]]--; cpu[$1] = $4; moves++
			if (++n[$4] > most) most = n[$4] }
		END { print moves + 0, most + 0 }' /tmp/before /tmp/moves)
	emit stats what "$*" moves $moves most $most
	echo "$*: $moves migrations, at most $most on one CPU" | tee /dev/kmsg
}

# half LIST: as many CPUs as stay go; nobody is pushed from one to the next
half() {
	hogs
	migrations put hotplug/offline $1
	kill ${hogs[@]}
	wait ${hogs[@]} 2> /dev/null
	all_on && [ $moves -ge $H ] && [ $moves -le $((2 * H)) ] &&
		[ $most -le $((H * 3 / 4)) ]
}

# few: many tasks which may run on the last four CPUs of a node of which two go, and
# all are not pushed to the first of these four
few() {
	local c

	hogs=()
	for ((c = 0; c < 128; c++)); do
		taskset -c $((H - 1 - c % 4)) sh -c 'while :; do :; done' &
		hogs+=($!)
	done
	sleep 0.5
	for c in ${hogs[@]}; do
		taskset -cp $((H - 4))-$((H - 1)) $c > /dev/null
	done
	migrations put hotplug/offline $((H - 2)),$((H - 1))
	kill ${hogs[@]}
	wait ${hogs[@]} 2> /dev/null
	# 32 of 64 come to each of the two that have 32, give or take 4
	all_on && [ $moves -ge 60 ] && [ $most -le 76 ]
}

# target STATE: for the CPUs of the second node
target() {
	local c

	for ((c = H; c < CPUS; c++)); do
		put cpu$c/hotplug/target $1 || return
	done
}

# kcompactd1, which wakes up twice a second, where no CPU of its node is active: it runs
# elsewhere, and comes back with them
kthread() {
	local online=$(state_of online) at below seen= task

	# the state below sched:active
	below=$(sed -n '/: sched:active$/q;s/^ *\([0-9]*\): .*/\1/p' $CPU/hotplug/states |
		tail -n 1)
	task=$(grep -lx kcompactd1 /proc/[0-9]*/comm)
	for at in $online $below $online; do
		target $at && sleep 1.2 || return
		seen="$seen $(sed -n 's/^Cpus_allowed_list:\t//p' ${task%comm}status)"
	done
	echo "kcompactd1:$seen"
	[ "$seen" = " $H-$L 0-$L $H-$L" ]
}

result "a node goes" half $H-$L
result "every other CPU goes" half 1-$L:1/2
result "tasks of a few CPUs" few
result "a kthread of a node comes back to it" kthread
result "all online at the end" want $THREADS
