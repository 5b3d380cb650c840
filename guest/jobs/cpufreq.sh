# SPDX-License-Identifier: GPL-2.0
# schedutil on CPUs that come and go, where there is a cpufreq driver.
# ROUNDS: of others who set governors meanwhile. SLOW: the driver does not set the
# frequency from the scheduler's hook (acpi-cpufreq).
. /lab/prelude.sh
ROUNDS=${ROUNDS-10}
SLOW=${SLOW-}

# policies: those of all CPUs are as they should be
policies() {
	local c p affected related on

	expand_file $CPU/online
	on=" ${cpus[*]} "
	for c in ${cpus[@]}; do
		p=$CPU/cpu$c/cpufreq
		read -r affected < $p/affected_cpus && read -r related < $p/related_cpus &&
			[ "$(cat $p/scaling_governor)" = schedutil ] ||
			{ echo "cpu$c: no policy, or $(cat $p/scaling_governor)"; return 1; }
		for c in $related; do
			[[ $on != *" $c "* ]] || echo $c
		done | sort -n | paste -sd " " > /tmp/there
		[ "$affected" = "$(cat /tmp/there)" ] ||
			{ echo "cpu$c: affected $affected, online $(cat /tmp/there)"; return 1; }
	done
}

# reach CPU FREQ: something little that runs there has the governor set FREQ.
# Without its hook it does not hear of it: where it sets the frequency from there,
# nor of limits, elsewhere (SLOW) that there is little to do. (The former says
# nothing of that: the policies have more CPUs, some with an old load.)
reach() {
	local i

	for i in $(seq 100); do
		taskset -c $1 true
		[ "$(cat $CPU/cpu$1/cpufreq/scaling_cur_freq)" != $2 ] || return 0
		sleep 0.05
	done
	echo "cpu$1: $(cat $CPU/cpu$1/cpufreq/scaling_cur_freq), not $2"
	return 1
}

governed() {
	local c p low high

	policies || return
	for c in ${cpus[@]}; do
		p=$CPU/cpu$c/cpufreq
		read -r low < $p/cpuinfo_min_freq
		read -r high < $p/cpuinfo_max_freq
		echo $high > $p/scaling_min_freq && reach $c $high &&
			echo $low > $p/scaling_min_freq || return
		[ -n "$SLOW" ] || echo $low > $p/scaling_max_freq || return
		reach $c $low || return
		echo $high > $p/scaling_max_freq || return
	done
}

come_and_go() {
	local s

	for s in off on; do
		put smt/control $s && governed || return
	done
	put hotplug/offline 1,$((CPUS - 2)) && governed &&
		put hotplug/offline 1-$((CPUS - 2)) && governed &&
		put cpu2/online 1 && governed && all_on && governed
}

# a CPU that is sent back from below cpufreq's state, and one from there
sent_back() {
	local s state c=$((CPUS - 2))

	for s in cpufreq workqueue; do
		state=$(state_of $s:online)
		for c in 2 $((CPUS - 2)); do
			echo $((state)) > $CPU/cpu$c/hotplug/fail || return
			refused hotplug/offline 1-$((CPUS - 2)) && governed &&
				put hotplug/offline $c && echo $((state)) > $CPU/cpu$c/hotplug/fail &&
				refused hotplug/online all && governed && all_on || return
		done
	done
}

# others that stop and start governors and set limits, until /tmp/flip is gone
flip() {
	local p gov

	while [ -e /tmp/flip ]; do
		for p in $CPU/cpufreq/policy*; do
			for gov in performance schedutil; do
				echo $gov > $p/scaling_governor
				cat $p/cpuinfo_min_freq > $p/scaling_max_freq
				cat $p/cpuinfo_max_freq > $p/scaling_max_freq
			done
		done 2> /dev/null
	done
}

others() {
	local i pids

	touch /tmp/flip
	flip & pids=$!
	flip & pids+=" $!"
	for i in $(seq $ROUNDS); do
		put smt/control off && put smt/control on &&
			put hotplug/offline 1-$((CPUS - 2)) && put hotplug/online all &&
			put cpu1/online 0 && put cpu1/online 1 || break
	done
	rm /tmp/flip
	wait $pids
	for i in $CPU/cpufreq/policy*; do
		echo schedutil > $i/scaling_governor || return
	done
	want $THREADS && governed
}

result "governed as booted" governed
result "CPUs come and go" come_and_go
all_on
result "CPUs that are sent back" sent_back
for i in $CPU/cpu*/hotplug/fail; do
	echo -1 > $i
done
all_on
result "others set governors and limits" others
