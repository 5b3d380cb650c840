# SPDX-License-Identifier: GPL-2.0
# smp_shutdown_nonboot_cpus(), which neither architecture here calls: the KUnit
# test does all of it but the BUG() for a CPU which stays.
. /lab/prelude.sh
KUNIT=/sys/kernel/debug/kunit/cpuhp_batch
stays=$((CPUS / 2))

all_go() {
	echo run > $KUNIT/run && grep 'ok .* cpuhp_test_shutdown$' $KUNIT/results &&
		! grep 'not ok' $KUNIT/results && want $THREADS
}

# all others have gone, and came back
one_stays() {
	dmesg -C
	echo $stays > /sys/module/cpuhp/parameters/refuse_cpu || return
	echo run > $KUNIT/run
	echo -1 > /sys/module/cpuhp/parameters/refuse_cpu
	dmesg | grep "Failed to offline CPUs $stays - error=-16" &&
		grep 'not ok .* cpuhp_test_shutdown$' $KUNIT/results
}

result "all CPUs but one go, and come back" all_go
result "one refuses, all others go" one_stays
result "all online at the end" want $THREADS
