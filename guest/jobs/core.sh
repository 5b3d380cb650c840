# SPDX-License-Identifier: GPL-2.0
# Core scheduling, with tasks that share no core with others, while whole cores
# are to go offline and one of their threads stays, or a thread that idles because
# what is first in its turn is such a task: make run CPUS=8 THREADS=2
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

# CPU 1 idles by force, most of the time: on CPU 0 are those who get more of the
# core. What CPU 1 has to push away, and its hotplug thread, don't wait for that.
# The task of the request may: on CPUs of other cores, like any task.
forced() {
	local hogs= pinned= i p ms worst=0 done=0

	for i in {1..20}; do
		taskset -c 0 sh -c 'while :; do :; done' &
		hogs+=" $!"
	done
	for i in {1..4}; do
		for p in "labctl cookie nice -n 19" ""; do
			# 20000 and 30 ms: some of the time is left for others
			taskset -c 1 $p perl -e 'while (1) {
				1 for 1 .. 20000;
				select(undef, undef, undef, 0.03);
			}' &
			pinned+=" $!"
		done
	done
	echo 1 > $T/events/cpuhp/enable
	sleep 3
	for i in {1..10}; do
		echo > $T/trace
		put cpu1/online 0 || break
		# from when it is told until the last callback that it runs, each time
		ms=$(awk '{ t = substr($0, match($0, /[0-9]+\.[0-9]+: cpuhp/)) + 0 }
			/\(cpuhp_kick_ap_work\)/ { last = t }
			$1 ~ /^cpuhp\/1-/ { sum += t - last; last = t; n++ }
			END { if (n) print int(sum * 1000) }' $T/trace)
		[ -n "$ms" ] || break
		[ $ms -le $worst ] || worst=$ms
		put cpu1/online 1 || break
		done=$i
		# nobody else may run them, and nobody had to stay there
		for p in $pinned; do
			taskset -pc 1 $p > /dev/null
		done
		sleep 2.$i
	done
	echo 0 > $T/events/cpuhp/enable
	kill $hogs $pinned
	echo "the longest of $done took $worst ms"
	[ $done = 10 ] && [ $worst -le 200 ]
}

result "a thread that idles by force goes" forced
result "whole cores go and come" again
result "a thread refuses to die" refusing
result "a callback of a thread fails" failing
kill $(jobs -p)
result "all online at the end" want $THREADS
