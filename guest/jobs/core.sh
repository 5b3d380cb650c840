# SPDX-License-Identifier: GPL-2.0
# Core scheduling, with tasks that share no core with others, while whole cores
# are to go offline and one of their threads stays: make run CPUS=8 THREADS=2
. /lab/prelude.sh
REFUSE=/sys/module/cpuhp/parameters/refuse_cpu
L=$((CPUS - 1))

for i in 1 2 3; do
	labctl cookie bash -c 'while :; do sleep 0.001; done' &
	labctl cookie sh -c 'while :; do :; done' &
done
sh -c 'while :; do :; done' &

# stays CPU: of all cores but the first, refusing to die when it is about to retire
stays() {
	echo $1 > $REFUSE && refused hotplug/offline $THREADS-$L
	local status=$?
	echo -1 > $REFUSE
	[ $status = 0 ] && want $THREADS $(range $THREADS $CPUS | grep -vx $1)
}

refusing() {
	local c

	for c in $(range $THREADS $((2 * THREADS + 2))); do
		stays $c && sleep 0.1 && all_on && sleep 0.1 || return
	done
}

# a callback of CPU fails: of the first states, of others and of the last
failing() {
	local c state

	for state in sched:active workqueue:online smpboot/threads:online; do
		state=$(state_of $state)
		for c in $THREADS $((THREADS + 1)); do
			echo $state > $CPU/cpu$c/hotplug/fail || return
			refused hotplug/offline $THREADS-$L &&
				want $THREADS $(range $THREADS $CPUS |
					grep -vx $c) && sleep 0.1 &&
				all_on && sleep 0.1 || return
		done
	done
}

again() {
	local i

	for i in {1..5}; do
		put hotplug/offline $THREADS-$L && sleep 0.1 && all_on &&
			put smt/control off && sleep 0.1 &&
			put smt/control on && want $THREADS || return
	done
}

result "whole cores go and come" again
result "a thread refuses to die" refusing
result "a callback of a thread fails" failing
kill $(jobs -p)
result "all online at the end" want $THREADS
