# SPDX-License-Identifier: GPL-2.0
# CPUs that come for the first time: threads that are made for them, wakeups for
# it, and how long it takes, once with and once without counting.
#   make run JOB=bench/first.sh CPUS=32 APPEND=maxcpus=2 [VARIANT=base]
# Half of them come each time, by a list where there is one. VARS=SPLIT=1: all of
# them, and what their threads and workers cost: fork itself (copy_process() of
# kthreadd), and the way there and back, which is the rest. In microseconds, virtual
# ones with ACCEL=icount.
SPLIT=${SPLIT-}
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
if [ -n "$SPLIT" ]; then
	for f in copy_process smpboot_create_threads smpboot_create_threads_of \
		workqueue_prepare_cpu workqueue_create_workers; do
		echo $f >> $T/set_ftrace_filter		# some are the series' own
	done 2> /dev/null
	echo 1 > $T/options/funcgraph-abstime
	echo 1 > $T/options/funcgraph-tail
	echo function_graph > $T/current_tracer || die "no function_graph tracer"
	echo > $T/trace
	ns=$(bring 3 $((CPUS - 1))) || die "no CPUs came"
	echo 0 > $T/tracing_on
	awk -v n=$((CPUS - 3)) -v ns=$ns '
		/ us +\|/ && match($0, /[a-z_]+\(\);|\/\* [a-z_]+ \*\//) {
			f = substr($0, RSTART, RLENGTH)
			gsub(/[^a-z_]/, "", f)
			for (i = 1; $i != "us"; i++) ;
			if (f != "copy_process") {
				all += us[++k] = $(i - 1)
				# the time is of the beginning, or of the end
				from[k] = $1 * 1000000 - (index($0, "}") ? us[k] : 0)
			} else {
				at[++m] = $1 * 1000000
				took[m] = $(i - 1)
			}
		}
		# copy_process() of others, as workers of unbound pools, is left out
		END {
			for (i = 1; i <= m; i++)
				for (j = 1; j <= k; j++)
					if (at[i] >= from[j] && at[i] <= from[j] + us[j]) {
						fork += took[i]
						forks++
						break
					}
			printf "%d CPUs in %d us: threads and workers %d us, %.1f for each CPU\n", n,
				ns / 1000, all, all / n
			printf "  %d copy_process() %d us, the way there and back %d us, %.1f for each CPU\n",
				forks, fork, all - fork, (all - fork) / n
		}' $T/trace
	exit
fi
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
