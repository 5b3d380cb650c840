# SPDX-License-Identifier: GPL-2.0
# How long each operation of a request holds the hotplug lock while SMT goes off and on,
# or a list of all CPUs but one where there is no SMT:
#   make run JOB=bench/holds.sh CPUS=128 [ARCH=ppc64le] [VARS="BATCH=8 CGROUPS=10000"]
# BATCH: CPUs in a slice. CGROUPS: that many with the cpu controller, whose run queues
# are walked when a CPU leaves the scheduler or joins it.
BATCH=${BATCH-}
CGROUPS=${CGROUPS-0}
T=/sys/kernel/tracing
grep -q " $T " /proc/mounts || mount -t tracefs none $T || die "no tracefs"
[ -z "$BATCH" ] || echo $BATCH > /sys/module/cpuhp/parameters/batch || die "BATCH=$BATCH"
if [ $CGROUPS != 0 ]; then
	grep -q " /sys/fs/cgroup " /proc/mounts || mount -t cgroup2 none /sys/fs/cgroup
	echo +cpu > /sys/fs/cgroup/cgroup.subtree_control || die "no cpu controller"
	for ((i = 0; i < CGROUPS; i++)); do
		mkdir /sys/fs/cgroup/many$i || die "mkdir"
	done
fi

# put off|on: in nanoseconds
put() {
	case $(cat $CPU/smt/control) in
	on|off) labctl write $CPU/smt/control $1 ;;
	*) labctl write $CPU/hotplug/${1}line 1-$((CPUS - 1)) ;;
	esac
}

for e in start end; do
	echo 1 > $T/events/cpuhp/cpuhp_operation_$e/enable || die "no trace event"
done
for i in 0 1 2; do
	for dir in off on; do
		echo > $T/trace
		ns=$(put $dir) || die "$dir"
		[ $i != 0 ] || continue		# warms up
		awk -v what="$dir $((ns / 1000)) us" '
		function after(name, i) {
			for (i = 1; $i != name; i++) ;
			return $(i + 1)
		}
		{ for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+\.[0-9]+:$/) t = $i + 0 }
		/cpuhp_operation_start/ { from = t; cpus = after("cpus:") }
		/cpuhp_operation_end/ {
			us = (t - from) * 1000000
			# the level that is next to ONLINE has the scheduler in it
			to = after("target:")
			if ($0 ~ /: up/ ? to > low : to > 0) {
				n = " " cpus " in " int(us)
				if (low || $0 !~ /: up/)
					sched = sched n
				else
					slices[++k] = us
				if (!low && $0 ~ /: up/)
					low = to
			} else
				slices[++k] = us
		}
		END {
			for (i = 1; i <= k; i++) {
				sum += slices[i]
				if (slices[i] > most)
					most = slices[i]
			}
			printf "%s: %d slices, first %d us, longest %d, all %d;", what,
				k, slices[1], most, sum
			print " CPUs that " (low ? "join" : "leave") " the scheduler:" sched
		}' $T/trace
	done
done
