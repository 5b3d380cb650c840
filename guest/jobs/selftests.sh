# SPDX-License-Identifier: GPL-2.0
# All selftests of CPU hotplug and the results of KUnit (APPEND=kunit.autorun=1).
# FULL=1: in full length.
export FULL=${FULL-}
export QUICK=$([ -n "$FULL" ] || echo 1)

export KSELFTEST_CPU_ON_OFF_TEST_SH_ARGS=-a
# two of them let readers and writers loose on files for so long
[ -z "$QUICK" ] || export SECONDS_HAMMER=1
cd /lab/kselftest
./run_kselftest.sh 2>&1 | cat > /tmp/kselftest
file kselftest /tmp/kselftest
cat /sys/kernel/debug/kunit/*/results > /tmp/kunit
file kunit /tmp/kunit
