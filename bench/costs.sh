# SPDX-License-Identifier: GPL-2.0
# What requests wait for and rebuild: SMT off and on, and a list of which one CPU
# fails when it has left the scheduler. With the function tracer, so no times:
#   make run JOB=bench/costs.sh ARCH=ppc64le CPUS=256
T=/sys/kernel/tracing
echo nop > $T/current_tracer
echo synchronize_rcu_normal synchronize_rcu_expedited \
	partition_sched_domains > $T/set_ftrace_filter || die "no such functions"
echo function > $T/current_tracer || die "no function tracer"
echo 1 > $T/events/cpuhp/cpuhp_retired/enable
echo 1 > $T/events/cpuhp/cpuhp_request_end/enable
costs() {
	awk -v what="$1" '
		/: synchronize_rcu_normal/ { normal++ }
		/: synchronize_rcu_expedited/ { expedited++ }
		/: partition_sched_domains <-/ { rebuilds++ }
		/cpuhp_retired:/ { slices++ }
		/cpuhp_request_end:/ { operations += $(NF - 2) }
		END { printf "%s: grace periods %d + %d expedited, rebuilds %d, " \
			"slices down %d, operations %d\n", what, normal, expedited,
			rebuilds, slices, operations
		}' $T/trace
	echo > $T/trace
}
last=$((CPUS - 1))
echo > $T/trace
labctl write $CPU/smt/control off > /dev/null || die "SMT off"
costs "SMT off, $((CPUS - CPUS / THREADS)) of $CPUS"
labctl write $CPU/smt/control on > /dev/null || die "SMT on"
costs "SMT on"
state=$(sed -n 's/^ *\([0-9]*\): workqueue:online$/\1/p' $CPU/hotplug/states)
echo $state > $CPU/cpu$((last / 2))/hotplug/fail
! labctl write $CPU/hotplug/offline $((CPUS / 8))-$last > /dev/null 2>&1 ||
	die "nobody failed"
[ "$(cat $CPU/cpu$((last / 2))/online)" = 1 ] || die "it did not stay"
costs "$((CPUS - CPUS / 8)) of $CPUS off, one fails"
labctl write $CPU/hotplug/online all > /dev/null || die "online"
costs "they come back"
