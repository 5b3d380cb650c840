# SPDX-License-Identifier: GPL-2.0
# The selftests where a CI may run them: they pass or say why they are skipped, and
# leave all CPUs as they were: make machines K=odd
# ODD: plain; user, who is not root; bare, without debugfs and tracefs; held, while a
# CPU is offline; killed, by SIGTERM; late, for which kselftest's runner does it.
# FAILS: those that have to fail, as they show bugs of the kernel.
ODD=${ODD-plain}
FAILS=${FAILS-}
. /lab/prelude.sh
export QUICK=1 SECONDS_HAMMER=1
# also to be read by somebody else
cp -r /lab/kselftest /tmp/kselftest
chmod -R a+rX /tmp/kselftest
cd /tmp/kselftest
last=$((CPUS - 1))

state() { grep . $CPU/online $CPU/smt/control $CPU/cpu*/online; }

# as_before CMD...: whatever CMD does, CPUs are as they were
as_before() {
	state > /tmp/before
	"$@"
	local ret=$?
	state > /tmp/after
	diff /tmp/before /tmp/after && return $ret
}

# KTAP which is whole, and nothing in it has failed but FAILS
all() {
	local n bad as=()

	[ $ODD != user ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	# the runner opens the pipe that is its output
	"${as[@]}" bash -c "bash run_kselftest.sh -c cpu-hotplug 2>&1 < /dev/null | cat" |
		cat > /tmp/out
	n=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' /tmp/out)
	bad=$(sed -n 's/^not ok [0-9]* selftests: cpu-hotplug: \([^ ]*\).*/\1/p' \
		/tmp/out | xargs)
	[ "$bad" = "$FAILS" ] &&
		[ "$n" = "$(grep -cE '^(not )?ok [0-9]+ ' /tmp/out)" ] && return
	grep -E '^(not )?ok |^# *(not ok|[^#o])' /tmp/out | cut -c1-70 | tail -30
	# last, as of much the end is kept
	echo "1..$n, failed: $bad"
	grep -E '^# (# )*not ok' /tmp/out | cut -c1-70 | tail -5
	return 1
}

bare() {
	local ret

	umount -l /sys/kernel/debug/tracing /sys/kernel/debug /sys/kernel/tracing 2>&1
	as_before all
	ret=$?
	mount -t debugfs debugfs /sys/kernel/debug
	mount -t tracefs tracefs /sys/kernel/tracing
	return $ret
}

held() {
	local ret

	put cpu$last/online 0 || return
	as_before all
	ret=$?
	put cpu$last/online 1
	return $ret
}

killed() {
	local t s pid

	for t in $(sed -n 's/^cpu-hotplug://p' kselftest-list.txt); do
		for s in .2 1; do
			state > /tmp/before
			(cd cpu-hotplug && exec bash ./$t) > /tmp/out 2>&1 < /dev/null &
			pid=$!
			sleep $s
			kill -TERM $pid 2> /dev/null
			wait $pid
			state > /tmp/after
			diff /tmp/before /tmp/after ||
				{ echo "$t, after $s s"; tail -3 /tmp/out; return 1; }
		done
	done
}

# each test has 3 s, then SIGTERM comes, and it says so
late() {
	local n

	bash run_kselftest.sh -o 3 -c cpu-hotplug < /dev/null 2>&1 | cat > /tmp/out
	n=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' /tmp/out)
	grep -E '^(not )?ok [0-9]+ ' /tmp/out | cut -c1-70
	[ "$n" = "$(grep -cE '^(not )?ok [0-9]+ ' /tmp/out)" ] &&
		grep -qE '^not ok .*TIMEOUT 3 s' /tmp/out &&
		! grep -E '^not ok ' /tmp/out | grep -v TIMEOUT
}

case $ODD in
plain | user) result "the selftests" as_before all ;;
bare | held) result "the selftests" $ODD ;;
killed) result "the selftests" killed ;;
late) result "the selftests" as_before late ;;
*) die "ODD=$ODD" ;;
esac
