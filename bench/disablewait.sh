# SPDX-License-Identifier: GPL-2.0
# How long suspend waits for a request, while SMT goes off and on, until it has disabled
# CPU hotplug, as reboot and kexec do; and somebody who writes to the file of a single CPU,
# which waits for all of it. Suspend ends when tasks are frozen (pm_test):
#   make run JOB=bench/disablewait.sh CPUS=128 [VARIANT=base] [VARS=EXPEDITED=1]
EXPEDITED=${EXPEDITED-0}
echo $EXPEDITED > /sys/kernel/rcu_expedited
T=/sys/kernel/tracing
echo 0 > /sys/module/suspend/parameters/pm_test_delay || die "no CONFIG_PM_DEBUG"
echo freezer > /sys/power/pm_test || die "no pm_test"
echo cpu_hotplug_pm_callback > $T/set_ftrace_filter || die "no such function"
echo function_graph > $T/current_tracer || die "no function_graph tracer"

# waited WHAT DIR DELAY CMD...: beside a request that has begun DELAY seconds ago
waited() {
	local what=$1 dir=$2 delay=$3 from

	shift 3
	labctl write $CPU/smt/control $([ $dir = off ] && echo on || echo off) > /dev/null ||
		die "SMT is not as before"
	sleep 0.3
	echo > $T/trace
	labctl write $CPU/smt/control $dir > /tmp/took 2>&1 &
	sleep $delay
	from=$(date +%s%N)
	"$@" > /tmp/said 2>&1
	from=$((($(date +%s%N) - from) / 1000))
	wait $! && took="took $(($(cat /tmp/took) / 1000)) us" || took="ended early"
	echo "SMT $dir $took; after $delay s: $what $from us" \
		"$(awk '/us +\|.*cpu_hotplug_pm_callback/ { for (i = 1; i <= NF; i++)
			if ($i == "us") { print "(waited " $(i - 1) " us)"; exit } }' $T/trace)"
}

suspended() {
	echo mem > /sys/power/state
}

for delay in 0.002 0.005 0.01 0.02 0.03; do
	for dir in off on; do
		waited suspend $dir $delay suspended
		waited "cpu1/online" $dir $delay labctl write $CPU/cpu1/online 1
	done
done
