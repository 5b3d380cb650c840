# SPDX-License-Identifier: GPL-2.0
# Functions for jobs. Records go to the host as one JSON object a line.

CPU=/sys/devices/system/cpu
T=/sys/kernel/tracing

# emit TYPE [KEY VALUE]... : one record; all values are strings
emit() {
	labctl json "$@" > "$LAB_PORT"
}

# file NAME PATH: the content of a file, base64 in one record
file() {
	{ printf '{"t": "file", "name": "%s", "base64": "' "$1"
	  base64 -w0 "$2"
	  printf '"}\n'; } > "$LAB_PORT"
}

# disk SERIAL: the device file of the disk with this serial number
disk() {
	local d

	for d in /sys/block/vd*; do
		[ "$(cat $d/serial 2> /dev/null)" = $1 ] || continue
		echo /dev/${d##*/}
		return
	done
	return 1
}

die() {
	echo "job: $*" >&2
	emit error message "$*"
	exit 1
}

# ---- counts -------------------------------------------------------------
# What one hotplug operation pays, by counting calls with ftrace's function
# profiler. A name missing from the kernel is an error, not a zero.
COUNTED="synchronize_rcu_normal synchronize_rcu_expedited
	stop_machine_cpuslocked stop_machine_from_inactive_cpu
	build_sched_domains smp_call_function_many_cond wake_up_all_idle_cpus
	kthread_park"

counts_start() {
	local f
	echo 0 > $T/function_profile_enabled
	echo > $T/set_ftrace_filter
	for f in $COUNTED $COUNTED_MORE; do
		case $f in
		stop_machine_from_inactive_cpu)
			# x86 only, and the series takes it away
			case "$(uname -r)/$(uname -m)" in
			*-base*/x86_64) ;;
			*)
				grep -qw $f $T/available_filter_functions ||
					continue ;;
			esac ;;
		esac
		echo "$f" >> $T/set_ftrace_filter 2>/dev/null ||
			die "the kernel has no traceable function $f"
	done
	echo 1 > $T/function_profile_enabled
}

# counts_stop: "name count total_us" lines on stdout
counts_stop() {
	echo 0 > $T/function_profile_enabled
	cat $T/trace_stat/function* | awk '
		$2 ~ /^[0-9]+$/ { n[$1] += $2; us[$1] += $3 }
		END { for (f in n) print f, n[f], us[f] }'
	echo > $T/set_ftrace_filter
}

# ---- measuring ----------------------------------------------------------

# timed OP TREATMENT CYCLE CMD...: run CMD, emit its time. labctl takes the
# time around the one system call (write) or the whole program (run).
timed() {
	local op=$1 treatment=$2 cycle=$3 ns status
	shift 3
	ns=$("$@" 2>/tmp/timed.err)
	status=$?
	emit sample op "$op" treatment "$treatment" cycle "$cycle" ns "$ns" \
		status "$status" error "$(head -c 200 /tmp/timed.err)" \
		online "$(cat $CPU/online)"
	return $status
}

# counted OP TREATMENT CMD...: run CMD once under the function profiler. The
# profiler loses the time of a function which ends on another CPU than it began,
# and CPU 0 stays. gp_ns is what CMD, or any hotplug thread, waited for grace
# periods, of its ns.
counted() {
	local op=$1 treatment=$2 f n us ns gp
	shift 2
	counts_start
	ns=$(taskset -cp 0 $BASHPID > /dev/null; "$@")
	local status=$?
	counts_stop > /tmp/counts
	[ $status = 0 ] || die "$op failed under the profiler"
	gp=$(awk '$1 ~ /^synchronize_rcu_(normal|expedited)$/ { us += $3 }
		END { printf "%d", 1000 * us }' /tmp/counts)
	set --
	while read -r f n us; do
		set -- "$@" "$f" "$n"
	done < /tmp/counts
	emit counts op "$op" treatment "$treatment" status $status \
		ns "${ns##*$'\n'}" gp_ns "$gp" "$@"
}

# as_treatment NAME: base and patched run as booted, expedited is what
# people do today
as_treatment() {
	case $1 in
	*expedited) echo 1 > /sys/kernel/rcu_expedited ;;
	*) echo 0 > /sys/kernel/rcu_expedited ;;
	esac
}
