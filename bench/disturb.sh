# SPDX-License-Identifier: GPL-2.0
# Who sends interrupts to nohz_full CPUs in user space, and who is woken up there, while
# one CPU goes offline, then four, eight times, with the stack of who did it:
#   make run JOB=bench/disturb.sh CPUS=16 PROFILE=nohz APPEND=nohz_full=4-11
T=/sys/kernel/tracing
grep -q " $T " /proc/mounts || mount -t tracefs none $T || die "no tracefs"
for c in 4 5 6 7 8 9 10 11; do
	taskset -c $c labctl spin &
done
echo 16384 > $T/buffer_size_kb
for e in ipi/ipi_send_cpu ipi/ipi_send_cpumask; do
	echo 1 > $T/events/$e/enable && echo stacktrace > $T/events/$e/trigger ||
		die "no event $e"
done
echo 1 > $T/events/sched/sched_wakeup/enable
echo 0 > $T/tracing_on
for i in 0 1 2 3 4 5 6 7; do
	for list in 12 12-15; do
		sleep 1
		echo > $T/trace
		echo 1 > $T/tracing_on
		taskset -c 0 labctl write $CPU/hotplug/offline $list > /dev/null
		echo 0 > $T/tracing_on
		cat $T/trace >> /tmp/trace
		labctl write $CPU/hotplug/online 12-15 > /dev/null || die "online"
	done
done
kill $(jobs -p)
wait
awk '
# has(LIST or MASK): how many of CPUs 4 to 11
function has(s, a, b, i, j, k, n, v) {
	if (s ~ /^[0-9a-f]+(,[0-9a-f]+)*$/ && length(s) >= 8) {
		v = substr(s, length(s) - 2, 2)
		for (i = 1; i <= 2; i++)
			for (j = index("0123456789abcdef", substr(v, i, 1)) - 1; j > 0; j = int(j / 2))
				n += j % 2
		return n + 0
	}
	k = split(s, a, ",")
	for (i = 1; i <= k; i++) {
		if (split(a[i], b, "-") == 1)
			b[2] = b[1]
		for (j = b[1] + 0; j <= b[2] + 0; j++)
			n += j >= 4 && j <= 11
	}
	return n + 0
}
function value(name) {
	return match($0, name "[^ ]*") ?
		substr($0, RSTART + length(name), RLENGTH - length(name)) : ""
}
function done() { if (n) sum[who " <-" stack] += n; n = 0; stack = "" }
/ => / { sub(/.*=> /, ""); sub(/\+0x.*/, ""); if (n && depth++ > 1 && depth < 14) stack = stack " " $0; next }
/<stack trace>/ { depth = 0; next }
{ done() }
/ ipi_send_cpu: / { n = has(value("cpu=")); who = "ipi" }
/ ipi_send_cpumask: / { n = has(value("cpumask=")); who = "ipi" }
/ sched_wakeup: / {
	who = value("comm="); gsub(/[0-9]+/, "N", who)
	sum["woken: " who] += has(value("target_cpu="))
}
END { done(); for (s in sum) if (sum[s]) print sum[s], s }' /tmp/trace | sort -rn
