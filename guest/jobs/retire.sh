# SPDX-License-Identifier: GPL-2.0
# CPUs go and come while others are about to use them: the KUnit tests cpuhp_retire
# for SECS seconds each, as they are, with the others stopped, and, where the kernel
# has CONFIG_DEBUG_CPU_RETIRE, with CPUs that take longer at each step. There the
# protocol is broken as well, which has to be seen.
. /lab/prelude.sh
SECS=${SECS:-5}
K=/sys/kernel/debug/kunit/cpuhp_retire
P=/sys/module/cpuhp/parameters
echo $SECS > /sys/module/cpuhp_retire_test/parameters/seconds ||
	die "no KUnit tests cpuhp_retire"

# passed TEST...: these of the last run
passed() {
	local t

	for t; do
		grep -q "^ *ok [0-9]* cpuhp_test_$t\$" $K/results ||
			{ cat $K/results; return 1; }
	done
}

# both tests run, and all CPUs are back; the counts of the last run are told
as_it_is() {
	echo run > $K/run && passed retire retired_calls \
		retire_percpu_counter && want $THREADS &&
		emit retired what "$1" counts "$(sed -n \
			's/^ *# cpuhp_test_[a-z_]*: \(.* queued,.*\|.* requests,.*\)/\1/p' \
			$K/results | tr '\n' ';')"
}

stopped() {
	echo 1 > $P/stop && as_it_is stop
	local ret=$?
	echo 0 > $P/stop
	return $ret
}

# slow PHASE US
slow() {
	echo $1 > $P/retire_delay_phase && echo $2 > $P/retire_delay_us &&
		as_it_is "delay $1"
	local ret=$?
	echo 0 > $P/retire_delay_us
	return $ret
}

B=/sys/module/cpuhp_retire_test/parameters/break_it
[ ! -e $P/retire_delay_us ] || echo 1 > $B
result "nothing is refused or lost" as_it_is plain
echo 0 > $B
if [ -e $P/retire_delay_us ]; then
	result "a missing grace period is seen" passed retire_without_gp
	result "a queue closed in two steps is seen" passed retire_raw_close
	for phase in 0 1 2; do
		result "they stay in phase $phase" slow $phase 20000
	done
	for phase in 3 4; do
		result "they stay in phase $phase" slow $phase 2000
	done
fi
result "the others are stopped" stopped
result "all online at the end" want $THREADS
