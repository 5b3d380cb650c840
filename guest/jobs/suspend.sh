# SPDX-License-Identifier: GPL-2.0
# Suspend and hibernation, tried with pm_test, on q35 with CONFIG_PM_DEBUG:
# make run DISK=swap=1073741824
# BATCH: with cpuhp.batch=2, only what is about several operations; no disk.
# REBUILDS: of the sched domains, at most, in one which is ended on the way. With two slices
# four: when all leave, when the rest joins again, and when those that went come back, with
# one domain for all first, then with cpusets, as in 7.3 for the last CPU
. /lab/prelude.sh
BATCH=${BATCH-} REBUILDS=${REBUILDS-1000}

# the kernel waits 5 s in each test, and burns them
for p in suspend hibernate; do
	echo 0 > /sys/module/$p/parameters/pm_test_delay
done
cd /sys/power

# again WHAT: twice with all threads, and with one a core
again() {
	no_port again_ "$@"
}

again_() {
	local i n

	for n in on off; do
		echo $n > $CPU/smt/control || return
		for i in 1 2; do
			"$@" || { echo "$* fails, SMT $n"; return 1; }
			want $([ $n = on ] && echo $THREADS || echo 1) || return
		done
	done
	echo on > $CPU/smt/control && want $THREADS
}

mem() { echo $1 > pm_test && echo mem > state; }
hibernate() { echo $1 > pm_test && echo $2 > disk && echo disk > state; }

# resume while all CPUs have something to do
load() {
	stress-ng --quiet --cpu $CPUS --fork 2 --futex 2 --timeout 600 &
	"$@"
	local status=$?
	kill $! && wait $!
	return $status
}

# up to where the CPUs would idle: nothing would wake them up here
idle() { echo platform > pm_test && echo freeze > state; }

selftest() {
	ROUNDS=1 bash /lab/kselftest/cpu-hotplug/suspend-test.sh > /tmp/suspend
	local status=$?
	cat /tmp/suspend
	[ $status = 0 ] && ! grep -q SKIP /tmp/suspend
}

# wake US: try to suspend, with something that wakes up after US microseconds;
# how far it came: before CPUs go, before the first, between two operations, to the
# end; or CPUs that were on their way did not go
wake() {
	local count

	echo > /tmp/dmesg
	dmesg -C
	echo > $T/trace
	read -r count < wakeup_count && echo $count > wakeup_count || return
	if labctl wakeup $1 state mem 2> /tmp/wake; then
		came=end
		return
	fi
	dmesg > /tmp/dmesg
	case "$(cat /tmp/dmesg)" in
	*"Error taking CPU"*)	came=back ;;
	*"Abort CPU freeze"*"Enabling non-boot CPUs"*)	came=way ;;
	*"Abort CPU freeze"*)	came=first ;;
	*)	came=before ;;
	esac
}

untraced() {
	echo nop > $T/current_tracer
	echo > $T/set_ftrace_filter
}

# A wakeup while CPUs go: those which have begun do, and all come back. When they
# go differs by milliseconds, so earlier if it came too late, and later if too
# early: with one operation to the moment when they go, with several until some
# have gone and others not.
wakeups() {
	local i us=500000 step=250000 way=0 early=0 late=0 most=0 n

	echo partition_sched_domains > $T/set_ftrace_filter &&
		echo function > $T/current_tracer || return
	echo processors > pm_test
	for ((i = 0; i < (BATCH ? 200 : 30) && way < 5; i++)); do
		wake $us && want $THREADS || { cat /tmp/dmesg; untraced; return 1; }
		case $came in
		before)	us=$((us + step)) early=1 ;;
		first)	us=$((us + step / 4)) early=1 ;;
		way)	way=$((way + 1))
			n=$(grep -c ": partition_sched_domains <-" $T/trace)
			[ $n -le $most ] || most=$n ;;
		end)	us=$((us - step)) late=1 ;;
		back)	cat /tmp/dmesg; untraced; return 1 ;;
		esac
		[ $step -le 200 ] || step=$((step / 2))
	done
	untraced
	echo "$way on their way in $i tries, at $us us, with at most $most rebuilds" |
		tee /dev/kmsg
	[ $way = 0 ] || [ $most -gt 0 -a $most -le $REBUILDS ] || return
	if [ -n "$BATCH" ]; then [ $way = 5 ]; else [ $early$late = 11 ]; fi
}

# apart FIRST LAST: the sched domains of the first CPU have these two only
apart() {
	local mask

	mask=$(awk -v c=cpu$1 '/^cpu/ { at = $1 == c }
		/^domain/ && at { last = $3 } END { print last }' /proc/schedstat)
	[ $((16#${mask##*,})) = $((1 << $1 | 1 << $2)) ] ||
		{ echo "domains of CPU $1: $mask"; return 1; }
}

# The last CPU fails on resume, before it is active. Without schedutil: what it has for
# a CPU that is missing after a resume is in the way when that comes online (7.3's).
stays_off() {
	local part=/sys/fs/cgroup/part c=$((CPUS - 1)) status=1 i

	for i in $CPU/cpufreq/policy*/scaling_governor; do
		[ ! -e $i ] || echo performance > $i || return
	done
	[ -e ${part%/*}/cgroup.controllers ] || mount -t cgroup2 none ${part%/*}
	echo +cpuset > ${part%/*}/cgroup.subtree_control && mkdir $part &&
		echo 2-3 > $part/cpuset.cpus &&
		echo root > $part/cpuset.cpus.partition && apart 2 3 || return
	if put cpu$c/hotplug/fail $(state_of lib/percpu_cnt:online) &&
		mem processors && [ "$(cat $CPU/online)" = 0-$((c - 1)) ] &&
		apart 2 3
	then
		# who did not come back has not left for its device
		echo 0 > $CPU/cpu$c/online
		put cpu$c/online 1 && mem processors && apart 2 3 && status=0
	fi
	rmdir $part && all_on || status=1
	return $status
}

if [ -n "$BATCH" ]; then
	result "suspend to RAM, pm_test" again mem processors
	result "suspend to RAM, woken up while CPUs go" no_port wakeups
	result "all online at the end" want $THREADS
	exit
fi
swap=$(disk swap) || die "no disk 'swap'"
mkswap -q $swap && swapon $swap || die "no swap"
result "suspend to idle, pm_test" again idle
result "suspend-test.sh" no_port selftest
result "suspend to RAM, pm_test" again mem processors
result "suspend to RAM, woken up while CPUs go" no_port wakeups
result "a CPU does not come back on resume" no_port stays_off
result "suspend to RAM, pm_test core" again mem core
result "suspend to RAM under load" load again mem core
result "hibernation, pm_test processors" again hibernate processors platform
result "hibernation, pm_test core" again hibernate core shutdown
result "hibernation, test_resume" again hibernate none test_resume
result "all online at the end" want $THREADS
