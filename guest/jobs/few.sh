# SPDX-License-Identifier: GPL-2.0
# The selftests where they have less to test: they pass, or say why not.
# TESTS: of them.
. /lab/prelude.sh
TESTS=${TESTS-$(cd /lab/kselftest/cpu-hotplug && ls *-test.sh)}
[ -n "$TESTS" ] || die "TESTS names none, or there is none: see _selftests() in lab/cases.py"

cd /lab/kselftest/cpu-hotplug
selftest() {
	local status

	bash ./$1 $2 > /tmp/ktap 2>&1
	status=$?
	cat /tmp/ktap
	! grep -q '^not ok' /tmp/ktap && { [ $status = 0 ] || [ $status = 4 ]; }
}

# every skip has a reason, all skipped or one: "SKIP why", "name: why # SKIP"
reasons() {
	! grep -h SKIP /tmp/skips | grep -vE 'SKIP .+|: .+ # SKIP'
}

for t in $TESTS; do
	case $t in
	suspend-test.sh)
		continue ;;
	cpu-on-off-test.sh)
		result $t selftest $t -a ;;
	*)
		result $t selftest $t -q ;;
	esac
	grep SKIP /tmp/ktap >> /tmp/skips
done
cat /tmp/skips
result "skips have a reason" reasons
