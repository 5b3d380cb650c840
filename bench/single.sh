# What single CPUs cost apart from grace periods:
#   make run JOB=bench/single.sh ARCH=ppc64le CPUS=128 [VARIANT=base]
# Siblings go offline and come online one by one, at most 28 of them, as with
# ppc64_cpu of Debian 12, while grace periods are expedited: the mean of each.
# Then the last one alone once more, with the functions its time is spent in
# (ftrace's profile, which costs time itself).
T=/sys/kernel/tracing
echo 1 > /sys/kernel/rcu_expedited
on=$(cat $CPU/online)
echo off > $CPU/smt/control || die "SMT off failed"
threads=$(grep -l 0 $CPU/cpu[0-9]*/online | sort -V | tail -n 28)
echo on > $CPU/smt/control
[ "$(cat $CPU/online)" = "$on" ] || die "SMT on failed"
sleep 0.3
for round in 1 2 3; do
	for dir in 0 1; do
		from=$(date +%s%N)
		for file in $threads; do
			echo $dir > $file || die "$dir > $file failed"
		done
		to=$(date +%s%N)
		[ $round = 1 ] || printf '%s, us for each of %d CPUs: %d\n' \
			"$([ $dir = 0 ] && echo offline || echo online)" \
			"$(echo $threads | wc -w)" \
			$(((to - from) / 1000 / $(echo $threads | wc -w)))
	done
done
for f in device_offline device_online cpuset_handle_hotplug build_sched_domains \
	 build_overlap_sched_groups build_sched_groups cpu_attach_domain \
	 rq_attach_root update_group_capacity takedown_cpu takedown_cpus \
	 irq_affinity_online_cpu irq_affinity_online_cpus workqueue_online_cpu \
	 workqueue_update_cpus blk_mq_hctx_notify_online \
	 blk_mq_hctx_notify_offline blk_mq_hctx_notify_dead kthread_park; do
	echo $f >> $T/set_ftrace_filter 2> /dev/null
done
for dir in 0 1; do
	echo 1 > $T/function_profile_enabled
	echo $dir > $file || die "$dir > $file failed"
	echo 0 > $T/function_profile_enabled
	echo "us, calls:"
	cat $T/trace_stat/function* |
		awk '$3 > 0 { n[$1] += $2; us[$1] += $3 }
		     END { for (f in n) if (n[f]) print us[f], n[f], f }' | sort -rn
done
