# SPDX-License-Identifier: GPL-2.0
# Where the time of SMT off and on goes, by segment, mask callback and state:
#   make run JOB=bench/where.sh ARCH=ppc64le CPUS=32
# With APPEND="trace_event=cpuhp:* trace_buf_size=2M" that of boot comes first.
# Microseconds, from the trace events of the patched kernel, which
# Documentation/core-api/cpu_hotplug.rst explains. There are none from CPUs that
# are neither online nor retired; what cpuhp_kick_ap_work takes is all that cpuhp/N
# does.
T=/sys/kernel/tracing
show() {
	echo "== $1 (what, calls, total, shortest, longest)"
	awk '
	{
		match($0, /[0-9]+\.[0-9]+: /)
		now = substr($0, RSTART, RLENGTH - 2) * 1e6
		who = $1	# a task is in one callback at a time
	}
	function add(what, t) {
		if (!calls[what]++ || t < min[what]) min[what] = t
		if (t > max[what]) max[what] = t
		total[what] += t
	}
	function callback() {
		match($0, /step: +[0-9]+/)
		step = substr($0, RSTART + 5, RLENGTH - 5) + 0
		return step " " $NF
	}
	/ cpuhp_operation_start: / { operation = now; way = /: up/ ? "up" : "down" }
	/ cpuhp_operation_end: / { add(way " operation", now - operation) }
	/ cpuhp_segment_start: / { segment = now; match($0, /from:.*/)
		name = substr($0, RSTART) }
	/ cpuhp_segment_end: / { add(way " segment " name, now - segment) }
	/ cpuhp_retired: / { add(way " retired", $(NF - 4) / 1e3)
		add(way " retired, waits", $(NF - 2) / 1e3)
		add(way " retired, interrupts off", $NF / 1e3) }
	/ cpuhp_mask_enter: / { mask = now; name_m = callback() }
	/ cpuhp_mask_exit: / { add(way " mask " name_m, now - mask) }
	/ cpuhp_(multi_)?enter: / { enter[who] = now; fun[who] = callback() }
	/ cpuhp_exit: / { add(way " state " fun[who], now - enter[who]) }
	END {
		for (what in calls)
			printf "%-60s %6d %10.0f %8.0f %8.0f\n", what,
				calls[what], total[what], min[what], max[what]
	}' $T/trace | sort -k 1,2 -k 3n
	echo > $T/trace
}
if [ "$(cat $T/events/cpuhp/enable)" = 0 ]; then
	echo 2048 > $T/buffer_size_kb
	echo 1 > $T/events/cpuhp/enable
else
	show boot
fi
labctl write $CPU/smt/control off > /dev/null || die "SMT off failed"
show "SMT off"
labctl write $CPU/smt/control on > /dev/null || die "SMT on failed"
show "SMT on"
