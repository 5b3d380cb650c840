# SPDX-License-Identifier: GPL-2.0
# All selftests of CPU hotplug and the results of KUnit (APPEND=kunit.autorun=1).
# FULL=1: in full length. TEST: only that one, without KUnit.
export FULL=${FULL-}
TEST=${TEST-}
export QUICK=$([ -n "$FULL" ] || echo 1)

export KSELFTEST_CPU_ON_OFF_TEST_SH_ARGS=-a
# two of them let readers and writers loose on files for so long
[ -z "$QUICK" ] || export SECONDS_HAMMER=1
cd /lab/kselftest
# seconds that it may take in the guest's time
./run_kselftest.sh ${TEST:+-o 3000 -t cpu-hotplug:$TEST} 2>&1 |
	cat > /tmp/kselftest
file kselftest /tmp/kselftest
[ -n "$TEST" ] || {
	cat /sys/kernel/debug/kunit/*/results > /tmp/kunit
	file kunit /tmp/kunit
}
