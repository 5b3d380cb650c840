# SPDX-License-Identifier: GPL-2.0
# How often tasks are woken up for SMT off and on, and how long both take: the
# hotplug threads, that of the request and the task which made it.
#   make run JOB=bench/wakeups.sh CPUS=32
# With ACCEL=mttcg a wakeup costs what it does on the host.
T=/sys/kernel/tracing
wakeups() {
	local n=$((CPUS - CPUS / THREADS))

	echo 1 > $T/events/sched/sched_waking/enable
	labctl write $CPU/smt/control $1 > /tmp/took || die "SMT $1 failed"
	echo 0 > $T/events/sched/sched_waking/enable
	awk -v n=$n -v what=$1 '
		/sched_waking: comm=cpuhp\// { ap++ }
		/sched_waking: comm=cpuhp_request/ { request++ }
		/sched_waking: comm=labctl/ { control++ }
		END { printf "SMT %s, %d CPUs: wakeups of cpuhp/N %d, " \
			"cpuhp_request %d, writer %d\n", what, n, ap, request, control
		}' $T/trace
	echo > $T/trace
}
for i in 1 2 3; do
	wakeups off
	wakeups on
done
for s in off on off on off on; do
	echo "SMT $s took $(labctl write $CPU/smt/control $s) ns"
done
