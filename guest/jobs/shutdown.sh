# SPDX-License-Identifier: GPL-2.0
# smp_shutdown_nonboot_cpus(), which neither architecture here calls: the KUnit
# test does. In the end one CPU refuses to go, which is a BUG(), as it would be at
# kexec, and this guest can't go on after that: splats are expected.
. /lab/prelude.sh
KUNIT=/sys/kernel/debug/kunit/cpuhp_batch
stays=$((CPUS / 2))

all_go() {
	echo run > $KUNIT/run && grep 'ok .* cpuhp_test_shutdown$' $KUNIT/results &&
		! grep 'not ok' $KUNIT/results && want $THREADS
}

one_stays() {
	local i

	for i in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(cat $CPU/online)" != 0,$stays ] || return 0
		sleep 1
	done
	echo "online: $(cat $CPU/online)"
	return 1
}

result "all CPUs but one go, and come back" all_go
echo 0 > /proc/sys/kernel/panic_on_oops
echo $stays > /sys/module/cpuhp/parameters/refuse_cpu
# it may never come back
(echo run > $KUNIT/run) &
result "one refuses, all others go" one_stays
said() { dmesg | grep "Failed to offline CPUs $stays - error=-16"; }
result "the one that stays is named" said
