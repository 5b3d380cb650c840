# SPDX-License-Identifier: GPL-2.0
# Many cgroups: what walks all of them for a CPU that goes offline, with
# interrupts off, runs on that CPU: make run CPUS=8 THREADS=1 VARS=CGROUPS=1000
. /lab/prelude.sh
CGROUPS=${CGROUPS-300}
L=$((CPUS - 1))

many() {
	local i cg=/sys/fs/cgroup

	grep -q " $cg " /proc/mounts || mount -t cgroup2 none $cg || return
	echo +cpu > $cg/cgroup.subtree_control || return
	for ((i = 0; i < CGROUPS; i++)); do
		mkdir $cg/many$i || return
	done
}

# The trace does not tell whose run queue is set offline. CPU 0 does it for all
# that stay, when it rebuilds the domains; others do it for themselves only.
on_itself() {
	local c ns status

	echo rq_offline_fair > $T/set_ftrace_filter || return
	echo function > $T/current_tracer
	echo > $T/trace
	taskset -cp 0 $$ > /dev/null
	ns=$(labctl write $CPU/hotplug/offline 1-$L)
	status=$?
	cp $T/trace /tmp/trace		# which the next line clears
	echo nop > $T/current_tracer
	echo > $T/set_ftrace_filter
	[ $status = 0 ] || { echo "the write failed"; return 1; }
	emit stats what "$CGROUPS groups" ns $ns
	for c in $(range 1 $CPUS); do
		grep -q "$(printf '\[%03d\].*rq_offline_fair' $c)" /tmp/trace ||
			{ grep rq_offline /tmp/trace; return 1; }
	done
}

result "many groups" many
result "each CPU sets its run queue offline" on_itself
result "all online at the end" all_on
