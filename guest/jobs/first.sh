# SPDX-License-Identifier: GPL-2.0
# CPUs that come for the first time, after maxcpus=2 (APPEND=): their threads are
# made together. Where there is no memory for that in the thread for it, each CPU
# sees to its own; where there is none in kthreadd, those come that can.
. /lab/prelude.sh
FAIL=/sys/kernel/debug/failslab

expand_file $CPU/offline
absent=(${cpus[@]})
[ ${#absent[@]} -ge 6 ] || die "only ${#absent[@]} CPUs are offline: give it maxcpus=2"

# some FROM N: N of them, as a list
some() {
	local IFS=,

	echo "${absent[*]:$1:$2}"
}

# kthreadd is woken up once for the threads and once for the workers, before any of
# the CPUs is started. (Later it may make workers that are not bound to a CPU.)
together() {
	echo 1 > $T/events/sched/sched_waking/enable
	echo 1 > $T/events/cpuhp/cpuhp_enter/enable
	put hotplug/online $(some 0 2) || return
	echo 0 > $T/tracing_on
	sed '/(timers_prepare_cpu)/q' $T/trace |
		grep -E '^ *cpuhp_request-.*waking: comm=kthreadd ' > /tmp/woken
	cat /tmp/woken
	[ $(wc -l < /tmp/woken) = 2 ]
}

# failing COMM N CMD...: memory for this task runs out N times meanwhile
failing() {
	local pid ret x n=$2

	pid=$(pgrep -x $1) || { echo "no task $1"; return 1; }
	shift 2
	for x in task-filter=Y ignore-gfp-wait=N verbose=0 interval=1 times=$n \
			probability=100; do
		echo ${x#*=} > $FAIL/${x%=*} || return
	done
	echo 1 > /proc/$pid/make-it-fail
	"$@"
	ret=$?
	echo 0 > /proc/$pid/make-it-fail
	read -r left < $FAIL/times
	echo 0 > $FAIL/probability
	echo "status $ret; $n allocations were to fail, $left did not"
	[ $left != $n ] && return $ret
}

# Two CPUs have three threads each at least; what else this task does is to work
one_by_one() {
	failing cpuhp_request 6 put hotplug/online $(some 2 2) && [ $left = 0 ]
}

later() {
	failing kthreadd 1000 refused hotplug/online $(some 4 2) && consistent &&
		put hotplug/online $(some 4 2)
}

# While others are busy, a writer with next to no priority does not make all who
# want the hotplug lock wait for it. (7.3: seconds from the first callback to the
# last.)
priority() {
	local c i ms spins

	for ((c = 0; c < CPUS; c++)); do
		taskset -c $c bash -c 'while :; do :; done' &
		spins="$spins $!"
	done
	echo 0 > $T/events/enable
	echo > $T/trace
	echo 1 > $T/events/cpuhp/cpuhp_request_start/enable
	echo 1 > $T/events/cpuhp/cpuhp_request_end/enable
	echo 1 > $T/tracing_on
	for i in 0 1; do
		chrt -i 0 labctl write $CPU/cpu1/online $i || break
	done
	echo 0 > $T/tracing_on
	kill $spins
	ms=$(sed -n 's/.* \([0-9]*\)\.\([0-9]*\): cpuhp_request_.*/\1\2/p' $T/trace |
		awk 'NR % 2 { t = $1 } NR % 2 == 0 { print int(($1 - t) / 1000) }')
	echo "ms: "$ms
	[ $(wc -w <<< "$ms") = 2 ] || return
	for i in $ms; do [ $i -lt 100 ] || return; done
}

result "threads are made together" together
result "no memory: one by one" one_by_one
result "no memory for threads: come later" later
result "a writer of low priority" priority
result "all online at the end" all_on
KUNIT=/sys/kernel/debug/kunit/tsc_sync/results
[ $(uname -m) != x86_64 ] || result "KUnit: a wrong TSC is found" \
	grep '^# tsc_sync: pass:2 fail:0 skip:0 total:2$' $KUNIT
