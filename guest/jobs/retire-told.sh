# SPDX-License-Identifier: GPL-2.0
# A kernel with CONFIG_DEBUG_CPU_RETIRE and tests/retire-told.patch: CPUs
# retire without a grace period, so others use what they have seen before, and
# the kernel has to say so. make machines K=told
. /lab/prelude.sh
K=/sys/kernel/debug/kunit/cpuhp_retire
P=/sys/module/cpuhp/parameters
T=/sys/module/cpuhp_retire_test/parameters
echo 10 > $T/seconds || die "no KUnit tests cpuhp_retire"

says() {
	[ $(dmesg | grep -c "CPU[0-9]* has retired, and is used as if") = $1 ]
}

# Who looks does so for shorter than they stay, still able to answer
echo 20000 > $T/look_us
echo 2 > $P/retire_delay_phase
echo 400000 > $P/retire_delay_us
echo run > $K/run
result "nothing is said with a grace period" says 0
echo 1 > $P/retire_skip_gp
echo run > $K/run
result "who uses a retired CPU is told" says 1
echo 0 > $P/retire_skip_gp
echo 0 > $P/retire_delay_us
result "all online at the end" want $THREADS
