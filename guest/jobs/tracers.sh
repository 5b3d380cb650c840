# SPDX-License-Identifier: GPL-2.0
# The tracers with a thread on each CPU: all CPUs that are online have one, however
# they came, and no other. hwlat needs CONFIG_HWLAT_TRACER (PROFILE=debug).
. /lab/prelude.sh

cd $T
# samples that leave the CPUs something of their time
echo 100000 > osnoise/runtime_us
echo 10000 > osnoise/timerlat_period_us

# sampled NAME: after a while
sampled() {
	local i have

	expand_file $CPU/online
	for ((i = 0; i < 50; i++)); do
		have=$(cat /proc/[0-9]*/comm 2> /dev/null | sed -n "s,^$1/,,p" |
			sort -n | paste -sd " ")
		[ "$have" != "${cpus[*]}" ] || return 0
		sleep 0.1
	done
	echo "$1 on CPUs $have, online: ${cpus[*]}"
	return 1
}

# a CPU fails to go when its thread is gone already
sent_back() {
	local state c=$((CPUS - 1))

	state=$(state_of workqueue:online)
	echo $((state)) > $CPU/cpu$c/hotplug/fail || return
	refused smt/control off && all_on && sampled $1
}

# come_and_go NAME: SMT, lists, single CPUs
come_and_go() {
	local i s

	for i in 1 2; do
		for s in off on; do
			put smt/control $s && sampled $1 ||
				{ echo "SMT $s, round $i"; return 1; }
		done
	done
	for s in 0 1; do
		for i in 2 $((CPUS - 1)); do
			put cpu$i/online $s && sampled $1 || return
		done
	done
	# not on the unpatched kernel
	[ -e $CPU/hotplug/offline ] || return 0
	put hotplug/offline 1-$((CPUS - 1)) && sampled $1 &&
		all_on && sampled $1 && sent_back $1
}

# follow TRACER NAME
follow() {
	echo $1 > current_tracer && sampled $2 && come_and_go $2
	local status=$?
	echo nop > current_tracer
	return $status
}

# rests TRACER NAME: a CPU that is online and not active has its own thread
rests() {
	local comm c=$((CPUS - 1)) target=$CPU/cpu$((CPUS - 1))/hotplug/target allowed=

	# the last state before the scheduler's that has callbacks
	grep -B 1 ': sched:active$' $CPU/hotplug/states | sed -n '1s/:.*//p' > $target ||
		return
	echo $1 > current_tracer
	sleep 0.3
	for comm in $(grep -lx "$2/$c" /proc/[0-9]*/comm 2> /dev/null); do
		allowed+=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' ${comm%comm}status)
	done
	echo nop > current_tracer
	echo $(state_of online) > $target || return
	[ "$allowed" = $c ] || { echo "$2/$c may run on: $allowed"; return 1; }
}

# late TRACER NAME: a CPU whose callback was called already gets no thread, which
# nobody would stop and the CPU would wait for
late() {
	local c=$((CPUS - 1)) status=0

	echo $(state_of workqueue:online) > $CPU/cpu$c/hotplug/target || return
	echo $1 > current_tracer
	sleep 0.3
	! grep -lx "$2/$c" /proc/[0-9]*/comm 2> /dev/null ||
		{ echo "$2/$c was started"; status=1; }
	put cpu$c/online 0 && all_on && sampled $2 || status=1
	echo nop > current_tracer
	return $status
}

# its threads are somebody else's: the kernel starts none
of_user_space() {
	local n status=0

	echo NO_OSNOISE_WORKLOAD > osnoise/options &&
		echo timerlat > current_tracer &&
		[ "$(cat current_tracer)" = timerlat ] || return
	for n in off on; do
		put smt/control $n || status=1
		sleep 1
	done
	! cat /proc/[0-9]*/comm 2> /dev/null | grep '^timerlat/' || status=1
	# warns if there was one
	echo nop > current_tracer
	echo OSNOISE_WORKLOAD > osnoise/options
	return $status
}

result "timerlat" follow timerlat timerlat
result "osnoise" follow osnoise osnoise
result "timerlat of user space" of_user_space
result "a CPU at rest has its osnoise thread" rests osnoise osnoise
result "a CPU on its way down gets none" late osnoise osnoise
if grep -qw hwlat available_tracers; then
	echo 1000 > hwlat_detector/width
	echo per-cpu > hwlat_detector/mode
	result "hwlat" follow hwlat hwlatd
fi
result "all online at the end" all_on
