# SPDX-License-Identifier: GPL-2.0
# chcpu of util-linux: the guest's, which takes CPUs one by one, or a static binary
# with the patch of contrib/util-linux, which takes a list in one request:
#   make run JOB=guest/jobs/chcpu.sh CPUS=32 [ARCH=ppc64le] [DISK=chcpu=binary]
#	[VARS=LAST=31] [VARIANT=base]
# LAST: CPUs 1 to that one. The unpatched kernel has no lists, and tells of no requests.
. /lab/prelude.sh
TOOL=chcpu
LAST=${LAST-$((CPUS - 1))}
ASKED=$LAST	# requests for all of them
if disk chcpu > /dev/null; then
	cat $(disk chcpu) > /tmp/chcpu && chmod 755 /tmp/chcpu
	TOOL=/tmp/chcpu
	ASKED=1
fi
$TOOL --version
LISTS=
if [ -e $CPU/hotplug/offline ]; then
	LISTS=1
	echo 1 > $T/events/cpuhp/cpuhp_request_start/enable &&
		echo 1 > $T/events/cpuhp/cpuhp_retired/enable ||
		die "no trace of requests"
fi

# without the file for that they are on already, or it has failed
[ -n "$LISTS" ] || all_on() { want $THREADS; }

# told N TEXT: for N CPUs
told() {
	[ $(grep -c "^CPU [0-9]* $2\$" /tmp/said) = $1 ] || { cat /tmp/said; return 1; }
}

# requests N
requests() {
	local n=$(grep -c cpuhp_request_start: $T/trace)

	[ -n "$LISTS" ] || return 0
	echo > $T/trace
	[ $n = $1 ] || { echo "$n requests, not $1"; return 1; }
}

off_and_on() {
	echo > $T/trace
	$TOOL -d 1-$LAST > /tmp/said && told $LAST disabled && requests $ASKED &&
		want $THREADS $(range 1 $((LAST + 1))) || return
	$TOOL -d 1-$LAST > /tmp/said && told $LAST "is already disabled" &&
		requests 0 || return
	$TOOL -e 1-$LAST > /tmp/said && told $LAST enabled && requests $ASKED && all_on
}

# each request down has a grace period and a rebuild, and another grace period for each
# slice: of single CPUs two and one
counts() {
	local slices paid

	echo synchronize_rcu_normal synchronize_rcu_expedited build_sched_domains \
		> $T/set_ftrace_filter && echo function > $T/current_tracer || return
	echo > $T/trace
	$TOOL -d 1-$LAST > /tmp/said || return
	cp $T/trace /tmp/trace
	echo nop > $T/current_tracer
	echo > $T/set_ftrace_filter
	# not what others wait for
	paid=$(sed -nE 's/^ *(cpuhp|chcpu).*: (synch[^ ]*|build[^ ]*) <-.*/\2/p' /tmp/trace |
		sort | uniq -c | xargs)
	slices=$(grep -c cpuhp_retired: /tmp/trace)
	emit paid what "$LAST CPUs off, $ASKED requests, $slices slices" calls "$paid"
	set -- $ASKED build_sched_domains $((ASKED + slices)) synchronize_rcu_expedited
	all_on && [ "$paid" = "$*" ] ||
		{ echo "$slices slices: $paid"; return 1; }
}

# without the right to write there: each is named, as it ever was, and stays
denied() {
	local status=0

	setpriv --reuid=65534 --clear-groups \
		$TOOL -d 1-$LAST > /tmp/said 2>&1 || status=$?
	sed -i 's/^chcpu: //' /tmp/said
	[ $status = 64 ] && told $LAST "disable failed: Permission denied" && all_on
}

# one that fails is named, and the others go
one_fails() {
	local status=0 refuse=/sys/module/cpuhp/parameters/refuse_cpu

	echo 2 > $refuse || return
	$TOOL -d 1-$LAST > /tmp/said 2>&1 || status=$?
	echo -1 > $refuse
	[ $status = 64 ] && told $((LAST - 1)) disabled &&
		grep "CPU 2 disable failed: Device or resource busy" /tmp/said &&
		$TOOL -e 1-$LAST > /tmp/said && all_on
}

# a list that the kernel does not take, as one that is too long: nothing has changed, and
# they go one by one. /dev/full takes nothing.
not_taken() {
	local f status=0

	for f in offline online; do
		mount --bind /dev/full $CPU/hotplug/$f || die "no mount"
	done
	echo > $T/trace
	$TOOL -d 1-$LAST > /tmp/said && told $LAST disabled && requests $LAST &&
		want $THREADS $(range 1 $((LAST + 1))) &&
		$TOOL -e 1-$LAST > /tmp/said && told $LAST enabled &&
		requests $LAST || status=$?
	umount $CPU/hotplug/offline $CPU/hotplug/online
	all_on && return $status
}

# so are those which there are not
absent() {
	local status=0

	$TOOL -d 2,$((CPUS + 1)) > /tmp/said 2>&1 || status=$?
	[ $status = 64 ] && told 1 disabled &&
		grep "CPU $((CPUS + 1)) does not exist" /tmp/said &&
		$TOOL -e 2 > /tmp/said && all_on
}

result "off and on" off_and_on
if [ -n "$LISTS" ]; then
	result "grace periods and rebuilds" counts
	result "one fails" one_fails
	[ $ASKED != 1 ] || result "a list is not taken" not_taken
fi
result "no permission" denied
# its masks are of 64 CPUs, and more than that is not a list for it
[ $((CPUS % 64)) = 0 ] || result "a CPU that is not there" absent
for i in 1 2 3; do
	off=$(labctl run $TOOL -d 1-$LAST) && on=$(labctl run $TOOL -e 1-$LAST) ||
		die "$TOOL failed"
	echo "$LAST CPUs: off $((off / 1000)) us, on $((on / 1000)) us"
done
