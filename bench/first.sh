# SPDX-License-Identifier: GPL-2.0
# CPUs that come for the first time: threads that are made for them, wakeups for
# it, and how long it takes, once with and once without counting.
#   make run JOB=bench/first.sh CPUS=32 APPEND=maxcpus=2 [VARIANT=base]
# Half of them come each time, by a list where there is one.
T=/sys/kernel/tracing
bring() {
	if [ -e $CPU/hotplug/online ]; then
		labctl write $CPU/hotplug/online $1-$2
	else
		set -- $(seq $1 $2)
		labctl write $(printf "$CPU/cpu%d/online 1 " "$@")
	fi
}
bring 2 2 > /dev/null
half=$((CPUS / 2))
echo "CPUs 3-$half took $(bring 3 $half) ns"
echo 1 > $T/events/sched/sched_waking/enable
echo 1 > $T/events/task/task_newtask/enable
bring $((half + 1)) $((CPUS - 1)) > /dev/null
echo 0 > $T/tracing_on
awk -v n=$((CPUS - 1 - half)) '
	/task_newtask:/ { made++ }
	/sched_waking: comm=kthreadd/ { k++ }
	/sched_waking: comm=cpuhp_request/ { m++ }
	/sched_waking: comm=labctl/ { c++ }
	/sched_waking:/ { all++ }
	END { printf "%d CPUs: %d tasks made; wakeups of kthreadd %d, " \
		"cpuhp_request %d, writer %d, all %d\n", n, made, k, m, c, all
	}' $T/trace
