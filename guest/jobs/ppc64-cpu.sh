# SPDX-License-Identifier: GPL-2.0
# ppc64_cpu of powerpc-utils, on pseries or powernv: --smt and --cores-on.
# TOOL: which; /opt/newer/ppc64_cpu is Debian 13's. Or a static binary with the patch
# of contrib/powerpc-utils, which takes all cores in one request:
#   make run JOB=guest/jobs/ppc64-cpu.sh ARCH=ppc64le [DISK=ppc64_cpu=binary]
#	[VARIANT=base]
# The unpatched kernel has no lists, and tells of no requests.
. /lab/prelude.sh
TOOL=${TOOL-ppc64_cpu}
ASKED=$((CPUS - THREADS))	# requests for all cores but the first
OTHERS=$(seq -s, 1 $((CPUS / THREADS - 1)))
if disk ppc64_cpu > /dev/null; then
	cat $(disk ppc64_cpu) > /tmp/ppc64_cpu && chmod 755 /tmp/ppc64_cpu
	TOOL=/tmp/ppc64_cpu
	ASKED=1
fi
LISTS=
[ ! -e $CPU/hotplug/offline ] || LISTS=1

ppc64_cpu()
{
	command $TOOL "$@"
}
ppc64_cpu --version
# smt LEVEL THREADS [CPU...]: as want; the tool sees it so, too
smt() {
	local level=$1 n=$2

	shift 2
	ppc64_cpu --smt=$level && want $n "$@" || return
	[ $n != 1 ] || { ppc64_cpu --smt | grep -q 'SMT is off'; return; }
	ppc64_cpu --smt | grep -q "SMT=$n"
}

smt_levels() {
	smt off 1 && smt on $THREADS && smt 2 2 && smt off 1 && smt 4 4 && smt 2 2 &&
		smt on $THREADS
}

cores() {
	ppc64_cpu --cores-on=1 && want $THREADS $(range $THREADS $CPUS) || return
	ppc64_cpu --cores-on | tee /dev/stderr | grep -q '= 1$' || return
	ppc64_cpu --cores-on=all && want $THREADS
}

# as cores(), with threads off on all of them
cores_smt() {
	ppc64_cpu --smt=2 && want 2 || return
	ppc64_cpu --cores-on=1 && want 2 $(range $THREADS $CPUS) || return
	ppc64_cpu --cores-on=all || return
	# it brings up the threads that it finds on the cores which are on
	want 2 || want $THREADS || return
	ppc64_cpu --smt=on && want $THREADS
}

# cores which ppc64_cpu took off stay off when the kernel switches SMT
cores_kernel() {
	ppc64_cpu --cores-on=1 && put smt/control 1 &&
		want 1 $(range $THREADS $CPUS) && put smt/control $THREADS &&
		want $THREADS $(range $THREADS $CPUS) &&
		ppc64_cpu --cores-on=all && want $THREADS
}

# asked N CMD...: it takes all cores but the first in N requests, how long
asked() {
	local n from=$(date +%s%N) wanted=$1

	shift

	"$@" || return
	echo "$*: $((($(date +%s%N) - from) / 1000)) us"
	n=$(grep -c cpuhp_request_start: $T/trace)
	echo > $T/trace
	[ $n = $wanted ] || { echo "$n requests, not $wanted"; return 1; }
}

# in N requests each
in_requests() {
	local status=0

	echo 1 > $T/events/cpuhp/cpuhp_request_start/enable && echo > $T/trace &&
		asked $1 ppc64_cpu --offline-cores=$OTHERS &&
		want $THREADS $(range $THREADS $CPUS) &&
		asked $1 ppc64_cpu --online-cores=$OTHERS && want $THREADS &&
		asked $1 ppc64_cpu --cores-on=1 &&
		want $THREADS $(range $THREADS $CPUS) &&
		asked $1 ppc64_cpu --cores-on=all && want $THREADS || status=$?
	echo 0 > $T/events/cpuhp/cpuhp_request_start/enable
	return $status
}

cores_requests() {
	in_requests $ASKED
}

# a list that the kernel does not take, as one that is too long: they go and come one by
# one. /dev/full takes nothing.
not_taken() {
	local f status=0

	for f in offline online; do
		mount --bind /dev/full $CPU/hotplug/$f || die "no mount"
	done
	in_requests $((CPUS - THREADS)) || status=$?
	umount $CPU/hotplug/offline $CPU/hotplug/online
	all_on && return $status
}

# compare [CMD...]: the patched tool, run by it, says the same as Debian 13's, which takes
# core by core, returns the same, and leaves the same CPUs
compare() {
	local n=0 tool

	for tool in /opt/newer/ppc64_cpu $TOOL; do
		{
			"$@" $tool --offline-cores=$OTHERS 2>&1
			echo "status $?, online $(cat $CPU/online)"
		} > /tmp/left$((n++))
		[ -z "$LISTS" ] || put hotplug/online all
	done
	cat /tmp/left0
	diff /tmp/left0 /tmp/left1
}

# without the right to write there; reading they may
denied() {
	local tool as="setpriv --reuid=65534 --clear-groups"

	for tool in /opt/newer/ppc64_cpu $TOOL; do
		$as $tool --cores-on | grep -q '= ' || return
	done
	compare $as && ! grep "^status 0," /tmp/left0 && want $THREADS
}

# a thread of one core refuses to go
one_fails() {
	local status=0

	echo $((THREADS + 1)) > /sys/module/cpuhp/parameters/refuse_cpu || return
	compare command || status=$?
	echo -1 > /sys/module/cpuhp/parameters/refuse_cpu
	all_on && grep -q "Unable to take cpu$((THREADS + 1))" /tmp/left0 && return $status
}

result "ppc64_cpu --smt" smt_levels
result "ppc64_cpu --cores-on" cores
result "ppc64_cpu --cores-on with SMT 2" cores_smt
result "ppc64_cpu --cores-on, smt/control" cores_kernel
[ $ASKED != 1 ] || result "no permission" denied
if [ -n "$LISTS" ]; then
	[ $ASKED != 1 ] || { result "one fails" one_fails; result "a list is not taken" not_taken; }
	result "requests of ppc64_cpu --cores-on" cores_requests
fi
cat /tmp/why
