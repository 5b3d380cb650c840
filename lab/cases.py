# SPDX-License-Identifier: GPL-2.0
"""'make machines': the machines, CPU models and boot parameters that the
series must work on, and what happens around hotplug there: DLPAR, kexec, a
crash, suspend and hibernation, a thousand cycles. One boot is one Case."""

import dataclasses
import difflib
import json
import os
import re
import tempfile
import threading
import time

from . import bench, boot, check, console, guest, kernels, record, vm
from .common import (ARCHES, LINUX, TOP, LabError, check_arch, digest, ending,
                     human, say, step)

# In front of every job. CPUS, THREADS a core; siblings are neighbours on
# all of these machines.
PRELUDE = r"""
# Without a program where it goes: one takes as long as a hotplug operation.
# expand LIST: ${cpus[@]} of 0-2,5 are 0 1 2 5
expand() {
	local r c

	cpus=()
	for r in ${1//,/ }; do
		for ((c = ${r%-*}; c <= ${r#*-}; c++)); do
			cpus+=($c)
		done
	done
}

# expand_file FILE: its list
expand_file() {
	local list

	read -r list < $1
	expand "$list"
}

# consistent: all of sysfs and procfs says the same about who is online
consistent() {
	local c is on stat=

	expand_file $CPU/online
	on=" ${cpus[*]} "
	expand_file $CPU/present
	for c in ${cpus[@]}; do
		read -r is 2> /dev/null < $CPU/cpu$c/online || continue
		if [[ $on = *" $c "* ]]; then [ $is = 1 ]; else [ $is = 0 ]; fi ||
			{ echo "cpu$c/online: $is, all: $on"; return 1; }
	done
	while read -r c is; do
		[[ $c != cpu[0-9]* ]] || stat+=" ${c#cpu}"
	done < /proc/stat
	[ "$stat " = "$on" ] ||
		{ echo "/proc/stat: $stat, online: $on"; return 1; }
}

# want LEVEL [CPU...]: so many threads of each core are online, but not CPU
want() {
	local c n=$1 list=()

	shift
	for ((c = 0; c < CPUS; c++)); do
		[ $((c % THREADS)) -ge $n ] || [[ " $* " = *" $c "* ]] || list+=($c)
	done
	expand_file $CPU/online
	[ "${cpus[*]}" = "${list[*]}" ] ||
		{ echo "online: ${cpus[*]}, wanted: ${list[*]}"; return 1; }
	consistent
}

# put FILE TEXT: a write to a file below $CPU which must succeed
put() {
	labctl write $CPU/$1 "$2" > /dev/null || { echo "$2 > $1"; return 1; }
}

# refused FILE TEXT: ... and one which must fail
refused() {
	! labctl write $CPU/$1 "$2" > /dev/null 2>&1 ||
		{ echo "$2 > $1 succeeds"; return 1; }
}

# result NAME CMD...: a test of this boot
result() {
	local name=$1

	shift
	if "$@" > /tmp/why 2>&1; then
		emit check name "$name" ok 1
	else
		emit check name "$name" ok 0 detail "$(tail -c 1000 /tmp/why)"
	fi
}

# range A B: the CPUs from A on, before B
range() { seq $1 $(($2 - 1)); }

all_on() {
	put hotplug/online all && want $THREADS
}
"""

# what every machine has to do
JOB_MATRIX = PRELUDE + r"""
levels() {
	local s n

	for s in $LEVELS; do
		n=$s
		[ $s != off ] || n=1
		[ $s != on ] || n=$THREADS
		[ $n -le $THREADS ] || continue
		put smt/control $s && want $n || { echo "level $s"; return 1; }
	done
}

no_smt() {
	local s

	for s in off on; do
		refused smt/control $s || [ "$(cat $CPU/smt/control)" = on ] || return
		want 1 || return
	done
}

batch() {
	local half

	put hotplug/offline 1-$((CPUS - 1)) &&
		want $THREADS $(range 1 $CPUS) && all_on || return
	half=$(seq 1 2 $((CPUS - 1)) | xargs)
	put hotplug/offline ${half// /,} && want $THREADS $half && all_on || return
	put hotplug/offline $((CPUS - 1)) && want $THREADS $((CPUS - 1)) && all_on
}

single() {
	local c

	for c in $(range 1 $CPUS); do
		put cpu$c/online 0 || return
	done
	want $THREADS $(range 1 $CPUS) || return
	for c in $(range 1 $CPUS); do
		put cpu$c/online 1 || return
	done
	want $THREADS || return
	[ -e $CPU/cpu0/online ] || return 0
	put cpu0/online 0 && want $THREADS 0 && put cpu0/online 1 && want $THREADS
}

# a core that is off stays off; a thread of a core which is on follows
by_hand() {
	local c s n off=$(range $((CPUS - THREADS)) $CPUS)

	for c in $off; do
		put cpu$c/online 0 || return
	done
	for s in $LEVELS; do
		n=$s
		[ $s != off ] || n=1
		[ $s != on ] || n=$THREADS
		[ $n -le $THREADS ] || continue
		put smt/control $s && want $n $off || { echo "level $s"; return 1; }
	done
	put smt/control on && put cpu1/online 0 && want $THREADS 1 $off &&
		put smt/control off && want 1 $off &&
		put smt/control on && want $THREADS $off && all_on
}

platform() {
	dmesg | grep -iE 'mmu|xive|xics|smp:' | head -20
	[ -z "$MMU" ] || grep -q "MMU.*: $MMU" /proc/cpuinfo || return
	[ -z "$INTC" ] || grep -q " $INTC" /proc/interrupts || return
	cat $CPU/cpuidle/current_driver
	[ -z "$IDLE" ] || [ "$(cat $CPU/cpuidle/current_driver)" = $IDLE ] ||
		return
	want $THREADS
}

# what is counted and chosen when a CPU dies: by its number, what user space is
# told. processorCount is a u64 there, and CPUs die one by one even together.
counted_right() {
	local n

	n=$(od -A n -t u8 -j 32 -N 8 /proc/ppc64/systemcfg) &&
		[ $((n)) = $(nproc) ] || { echo "$n CPUs, not $(nproc)"; return 1; }
}

system_count() {
	[ -e /proc/ppc64/systemcfg ] || { echo "no systemcfg"; return 1; }
	counted_right && put hotplug/offline 1-$((CPUS - 1)) && counted_right &&
		all_on && counted_right
}

# msr CPU NUMBER: as hexadecimal digits
msr() { od -A n -t x8 -j 0x$2 -N 8 /dev/cpu/$1/msr | tr -d ' '; }

# what CPU makes of addresses; the base of a range that is not valid is of no
# interest, the kernel leaves it on the CPUs that are online
types_of() {
	local m mask

	for m in 277 2ff 250 258 259 26{8..9} 26{a..f}; do
		echo "$m $(msr $1 $m)"
	done
	for m in 0 2 4 6 8 a c e; do
		mask=$(msr $1 20$(printf %x $((0x$m + 1))))
		[ $((0x$mask & 0x800)) = 0 ] || echo "20$m $(msr $1 20$m) $mask"
	done
}

# memory_types CPU...: each has the PAT and the MTRRs of CPU 0
memory_types() {
	local c want

	want=$(types_of 0)
	[[ $want = *"2ff 0000000000000c0"* ]] || { echo "$want"; return 1; }
	for c in $@; do
		[ "$(types_of $c)" = "$want" ] ||
			{ echo "CPU $c:"; types_of $c; echo "CPU 0: $want"; return 1; }
	done
}

# an MTRR that is set while CPUs are offline is theirs as well when they are back
same_memory_types() {
	local status

	memory_types $(range 1 $CPUS) || return
	put hotplug/offline 1-$((CPUS - 1)) &&
		echo "base=0xf8000000 size=0x400000 type=write-combining" \
			> /proc/mtrr || return
	grep 0x0f8000000 /proc/mtrr && all_on && memory_types $(range 1 $CPUS)
	status=$?
	put hotplug/offline 1-$((CPUS - 1))
	echo "disable=$(sed -n 's/^reg0*\([0-9]*\): base=0x0f8000000.*/\1/p' \
		/proc/mtrr)" > /proc/mtrr || return
	! grep 0x0f8000000 /proc/mtrr && all_on &&
		memory_types $(range 1 $CPUS) && return $status
}

result platform platform
if [ $THREADS = 1 ]; then
	result "no SMT" no_smt
else
	result levels levels
	result "cores off by hand" by_hand
fi
result batches batch
result "single CPUs" single
case $(uname -m) in
ppc64le)
	result "number of processors" system_count ;;
*)
	result "memory types" same_memory_types ;;
esac
if [ $THREADS != 1 ]; then
	counted off - labctl write $CPU/smt/control off
	counted on - labctl write $CPU/smt/control on
else
	counted off - labctl write $CPU/hotplug/offline 1-$((CPUS - 1))
	counted on - labctl write $CPU/hotplug/online all
fi
result "all online at the end" want $THREADS
"""

JOB_PPC64_CPU = PRELUDE + r"""
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

result "ppc64_cpu --smt" smt_levels
result "ppc64_cpu --cores-on" cores
result "ppc64_cpu --cores-on with SMT 2" cores_smt
result "ppc64_cpu --cores-on, smt/control" cores_kernel
"""

# after a boot parameter: AT_BOOT threads a core are online; FORCED: no more
JOB_BOOT = PRELUDE + r"""
at_boot() {
	want $AT_BOOT
}

forced() {
	refused smt/control on && want $AT_BOOT && refused hotplug/online 1 &&
		want $AT_BOOT
}

back() {
	put smt/control off && want 1 && put smt/control on && want $THREADS
}

result "as asked" at_boot
if [ -n "$FORCED" ]; then
	result "stays so" forced
else
	result "SMT on" put smt/control on
	result "all online" want $THREADS
	result "off and on" back
fi
"""

# LEAVE: so many threads a core, when nothing more may be online
JOB_MAXCPUS = PRELUDE + r"""
# FIRST CPUs at boot, of CORES cores
as_many() {
	expand_file $CPU/online
	echo "online: ${cpus[*]}, wanted $1"
	[ ${#cpus[@]} = $1 ] && consistent
}
result "as asked" as_many $FIRST
# These cores have a primary thread each, and the other threads: nothing else
# was asked for
smt_on() {
	local rest=$(range $((CORES * THREADS)) $CPUS)

	put smt/control off && as_many $CORES && want 1 $rest &&
		put smt/control on && want $THREADS $rest || return
	[ $LEAVE != 1 ] || { put smt/control off && as_many $CORES; }
}
result "SMT control leaves the other cores alone" smt_on
# what nosmt leaves, then what it doesn't
may() {
	put hotplug/online all && want $LEAVE && put smt/control on
}
result "hotplug/online all" may
result "all online" all_on
result "off and on" eval 'put smt/control off && want 1 && put smt/control on &&
	want $THREADS'
"""

# the guest's side of DLPAR: the core leaves the kernel, not QEMU
JOB_DLPAR = PRELUDE + r"""
index() {
	od -An -tx1 $1/ibm,my-drc-index | tr -d ' \n'
}
core=$(for c in /proc/device-tree/cpus/PowerPC*; do
	echo $((16#${c##*@})) $(index $c)
done | sort -n | sed -n 2p | cut -d' ' -f2)
second=$(range $THREADS $((2 * THREADS)))

dlpar() {
	echo "cpu $1 index 0x$core" > /sys/kernel/dlpar ||
		{ echo "cpu $1"; return 1; }
}

cycle() {
	local i

	for i in 1 2 3; do
		dlpar remove && want $1 $second || return
		expand_file $CPU/present
		[[ " ${cpus[*]} " != *" $THREADS "* ]] ||
			{ echo "present: ${cpus[*]}"; return 1; }
		dlpar add && want $1 || return
	done
}

level() {
	put smt/control $1 && want $1 && cycle $1 && put smt/control on &&
		want $THREADS
}

result "remove and add" cycle $THREADS
result "remove and add, SMT 1" level 1
result "remove and add, SMT 2" level 2
counted off - eval 'echo "cpu remove index 0x$core" > /sys/kernel/dlpar'
counted on - eval 'echo "cpu add index 0x$core" > /sys/kernel/dlpar'
result "all online at the end" want $THREADS
"""

# Cores come and go through QEMU, LOOPS of them; with SWITCH SMT does, too.
# TCG can't plug a core in again that was unplugged, so each time is another.
JOB_PLUG = PRELUDE + r"""
touch /tmp/lock /tmp/run
if [ -n "$SWITCH" ]; then
	while [ -e /tmp/run ]; do
		for s in off on 2 1 4 on; do
			[ -e /tmp/run ] || break
			flock /tmp/lock labctl write $CPU/smt/control $s \
				> /dev/null 2>>/tmp/refused
			echo >> /tmp/switched
		done
	done &
fi

# settled in|out: the core is there as SMT has it, or gone
settled() {
	local c n=0 level

	read -r level < $CPU/smt/control
	expand_file $CPU/online
	for c in ${cpus[@]}; do
		n=$((n + (c >= CPUS)))
	done
	if [ $1 = out ]; then
		[ $n = 0 ] && [ "$(cat $CPU/present)" = 0-$((CPUS - 1)) ] && consistent
	else
		case $level in
		off) level=1 ;;
		on) level=$THREADS ;;
		esac
		[ $n = $level ] && consistent
	fi
}

wait_for() {
	local i

	for i in $(seq 1500); do
		(flock 9; settled $1) 9>/tmp/lock && return
		sleep 0.1
	done
	echo "online $(cat $CPU/online) present $(cat $CPU/present)" \
		"smt $(cat $CPU/smt/control)"
	return 1
}

emit ready
for k in $(seq $LOOPS); do
	wait_for in > /tmp/why || die "plugged in, $k: $(tail -3 /tmp/why)"
	emit added online "$(cat $CPU/online)"
	wait_for out > /tmp/why || die "unplugged, $k: $(tail -3 /tmp/why)"
	emit removed online "$(cat $CPU/online)"
done
rm /tmp/run
wait
result "SMT on" put smt/control on
result "all online at the end" want $THREADS
switched() {
	echo "switched $(wc -l < /tmp/switched) times"
	cat /tmp/refused
	[ "$(wc -l < /tmp/switched)" -gt $LOOPS ] && [ ! -s /tmp/refused ]
}
[ -z "$SWITCH" ] || result "SMT switched meanwhile" switched
"""

# The host plugs in the only core of a node without memory
JOB_NODE = PRELUDE + r"""
NODE=/sys/devices/system/node
new=$CPUS-$((CPUS + THREADS - 1))
both() {
	[ "$(cat $CPU/online)" = 0-$((CPUS + THREADS - 1)) ] &&
		[ "$(cat $NODE/online)" = 0-1 ] &&
		[ "$(cat $NODE/node1/cpulist)" = $new ] &&
		[ -e $CPU/cpu$CPUS/node1 ] && consistent && return
	grep . $CPU/online $NODE/online $NODE/*/cpulist
	return 1
}
came() {
	local i

	for i in $(seq 600); do
		both > /dev/null && break
		sleep 0.1
	done
	both
}
result "a node is not there" [ "$(cat $NODE/online)" = 0 ]
emit ready
result "its core comes" came
goes() {
	put hotplug/offline $new && [ "$(cat $CPU/online)" = 0-$((CPUS - 1)) ] &&
		[ -z "$(cat $NODE/node1/cpulist)" ] &&
		put hotplug/online $new && both
}
smt() {
	put smt/control off && [ "$(cat $NODE/node1/cpulist)" = $CPUS ] &&
		put smt/control on && both
}
result "goes and comes" goes
result "goes and comes with SMT" smt
"""

# The disk 'next' has the kernel to go on with, SIZE bytes of it
KEXEC = r"""
for d in /sys/block/vd*; do
	[ "$(cat $d/serial)" != next ] ||
		head -c $SIZE /dev/${d##*/} > /tmp/kernel
done
second="$(sed 's/crashkernel=[^ ]*//' /proc/cmdline) lab.second"
"""
JOB_KEXEC = PRELUDE + r"""
if grep -q lab.second /proc/cmdline; then
	result "the second kernel has all CPUs" want $THREADS
	result "it switches SMT" eval 'put smt/control off && want 1 &&
		put smt/control on && want $THREADS'
	exit 0
fi
""" + KEXEC + r"""
result "$BEFORE" eval "$PREPARE"
kexec -s -l /tmp/kernel --append="$second" || die "kexec -l: $?"
kexec -e -x
die "kexec -e came back"
"""
# A panic while CPUs come up. The one that is SLOW has not called in: the others
# wait to be released if it is the first, half up for it if it is the last.
JOB_KDUMP = PRELUDE + r"""
if grep -q lab.second /proc/cmdline; then
	dumped() {
		[ -s /proc/vmcore ] &&
			[ "$(head -c 4 /proc/vmcore | tail -c 3)" = ELF ]
	}
	result "the crash kernel is up" true
	result "it has a dump" dumped
	exit 0
fi
""" + KEXEC + r"""
second+=" $CRASH loglevel=6"
kexec -s -p /tmp/kernel --append="$second" || die "kexec -p: $?"
[ "$(cat /sys/kernel/kexec_crash_loaded)" = 1 ] || die "not loaded"
put smt/control off && want 1 || die "SMT off"
P=/sys/module/cpuhp/parameters
echo $SLOW > $P/ap_delay_cpu
echo 5000000 > $P/ap_delay_us
put smt/control on &
sleep 0.5
under_way() {
	local c s top n=0

	read -r top < $CPU/cpu0/hotplug/state
	for c in $(range 0 $CPUS); do
		read -r s < $CPU/cpu$c/hotplug/state
		echo "cpu$c: $s"
		n=$((n + (s > 0 && s < top)))
	done
	echo "online: $(cat $CPU/online)"
	[ $n = $((CPUS - CPUS / THREADS)) ]
}
result "CPUs are on their way" under_way
sync
echo c > /proc/sysrq-trigger
die "alive after a crash"
"""

JOB_SUSPEND = PRELUDE + r"""
for d in /sys/block/vd*; do
	[ "$(cat $d/serial)" != swap ] || swap=/dev/${d##*/}
done
mkswap -q $swap && swapon $swap || die "no swap"
# the kernel waits 5 s in each test, and burns them
for p in suspend hibernate; do
	echo 0 > /sys/module/$p/parameters/pm_test_delay
done
cd /sys/power

# The port of the records does not outlive a suspend that QEMU knows nothing
# of: without its driver meanwhile.
D=/sys/bus/virtio/drivers/virtio_console
port=$(cd $D && echo virtio*)
no_port() {
	local status p i

	echo $port > $D/unbind
	"$@"
	status=$?
	echo $port > $D/bind
	for i in $(seq 100); do
		for p in /sys/class/virtio-ports/*; do
			[ "$(cat $p/name 2> /dev/null)" = lab ] || continue
			LAB_PORT=/dev/${p##*/}
			return $status
		done
		sleep 0.1
	done
	echo "no port" > /dev/kmsg
	return 1
}

# again WHAT: twice with all threads, and with one a core
again() {
	no_port again_ "$@"
}

again_() {
	local i n

	for n in on off; do
		echo $n > $CPU/smt/control || return
		for i in 1 2; do
			"$@" || { echo "$* fails, SMT $n"; return 1; }
			want $([ $n = on ] && echo $THREADS || echo 1) || return
		done
	done
	echo on > $CPU/smt/control && want $THREADS
}

mem() { echo $1 > pm_test && echo mem > state; }
disk() { echo $1 > pm_test && echo $2 > disk && echo disk > state; }

# resume while all CPUs have something to do
load() {
	stress-ng --quiet --cpu $CPUS --fork 2 --futex 2 --timeout 600 &
	"$@"
	local status=$?
	kill $! && wait $!
	return $status
}

# up to where the CPUs would idle: nothing would wake them up here
idle() { echo platform > pm_test && echo freeze > state; }

selftest() {
	ROUNDS=1 bash /lab/kselftest/cpu-hotplug/suspend-test.sh > /tmp/suspend
	local status=$?
	cat /tmp/suspend
	[ $status = 0 ] && ! grep -q SKIP /tmp/suspend
}

# wake US: try to suspend, with something that wakes up after US microseconds;
# how far it came: before CPUs go, before the first, on their way, to the end
wake() {
	local count

	echo > /tmp/dmesg
	dmesg -C
	read -r count < wakeup_count && echo $count > wakeup_count || return
	if labctl wakeup $1 state mem 2> /tmp/wake; then
		came=end
		return
	fi
	dmesg > /tmp/dmesg
	case "$(cat /tmp/dmesg)" in
	*"Abort CPU freeze"*)	came=first ;;
	*"CPUs are not disabled"*)	came=way ;;
	*)	came=before ;;
	esac
}

# A wakeup while CPUs go: all come back. When they go differs by milliseconds, so
# earlier if it came too late, and later if too early.
wakeups() {
	local i us=500000 step=250000 way=0

	echo processors > pm_test
	for ((i = 0; i < 200 && way < 5; i++)); do
		wake $us && want $THREADS || { cat /tmp/dmesg; return 1; }
		case $came in
		before)	us=$((us + step)) ;;
		first)	us=$((us + step / 4)) ;;
		way)	way=$((way + 1)) ;;
		end)	us=$((us - step)) ;;
		esac
		[ $step -le 200 ] || step=$((step / 2))
	done
	echo "$way on their way in $i tries, at $us us" | tee /dev/kmsg
	[ $way = 5 ]
}

result "suspend to idle, pm_test" again idle
result "suspend-test.sh" no_port selftest
result "suspend to RAM, pm_test" again mem processors
result "suspend to RAM, woken up while CPUs go" no_port wakeups
result "suspend to RAM, pm_test core" again mem core
result "suspend to RAM under load" load again mem core
result "hibernation, pm_test processors" again disk processors platform
result "hibernation, pm_test core" again disk core shutdown
result "hibernation, test_resume" again disk none test_resume
result "all online at the end" want $THREADS
"""

# Seven CPUs: the last core has one thread, the other is not there. And primary
# threads that are offline while their siblings come and go.
JOB_ODD = PRELUDE + r"""
# online LIST: these CPUs are, and no others
online() {
	[ "$(cat $CPU/online)" = $1 ] ||
		{ echo "online: $(cat $CPU/online), wanted: $1"; return 1; }
	consistent
}

as_booted() {
	online 0-6 && [ "$(cat $CPU/present)" = 0-6 ] &&
		[ "$(cat $CPU/cpu6/topology/thread_siblings_list)" = 6 ] &&
		[ "$(cat $CPU/cpu5/topology/thread_siblings_list)" = 4-5 ]
}

control() {
	put smt/control off && online 0,2,4,6 &&
		put smt/control on && online 0-6
}

lists() {
	put hotplug/offline 1-6 && online 0 && put hotplug/online all &&
		online 0-6 && refused hotplug/online 7 && online 0-6 &&
		put hotplug/offline 6,3 && online 0-2,4-5 &&
		put hotplug/online 3,6 && online 0-6
}

primaries() {
	put hotplug/offline 2,4 && online 0-1,3,5-6 &&
		put hotplug/offline 3,5 && online 0-1,6 &&
		put hotplug/online 3 && online 0-1,3,6 &&
		put hotplug/online 2,4-5 && online 0-6 || return
	# a core whose primary thread is offline goes, and stays offline
	put cpu2/online 0 && online 0-1,3-6 &&
		put smt/control off && online 0,4,6 &&
		put smt/control on && online 0-1,4-6 &&
		put hotplug/online 2-3 && online 0-6
}

result "as booted" as_booted
result "SMT off and on" control
result "lists" lists
result "primary threads offline" primaries
result "as booted at the end" as_booted
"""

# A request in several operations, of BATCH CPUs
JOB_CHUNKS = PRELUDE + r"""
S=/sys/kernel/debug/cpuhp
PARAM=/sys/module/cpuhp/parameters
echo 1 > $S/enable

# request UP OPERATIONS: the last one had so many, and all of its CPUs went, with
# one rebuild of the sched domains each time and, downwards, one stop_machine()
request() {
	local want="^request: $1 asked \([0-9]*\) done \1 operations $2 result 0 "
	local stops=0

	[ $1 = up ] || stops=$2
	grep -q "$want" $S/last && grep -q "^request_stops: $stops " $S/last &&
		grep -q "^request_domain_rebuilds: $2$" $S/last ||
		{ grep ^request $S/last; return 1; }
}

# the sums that x86 makes about vectors are those of an operation
list() {
	local n=$(((CPUS - 2 + BATCH - 1) / BATCH))

	put hotplug/offline 1-$((CPUS - 2)) && request down $n &&
		want $THREADS $(range 1 $((CPUS - 1))) &&
		put hotplug/online 1-$((CPUS - 2)) && request up $n && want $THREADS
}

control() {
	local n=$(((CPUS - CPUS / THREADS + BATCH - 1) / BATCH))

	put smt/control off && request down $n && want 1 &&
		put smt/control on && request up $n && want $THREADS
}

# SMT control ends with the operation in which a CPU fails
stops() {
	local c siblings=() chunk state

	for ((c = 0; c < CPUS; c++)); do
		[ $((c % THREADS)) = 0 ] || siblings+=($c)
	done
	chunk=(${siblings[@]:0:BATCH})
	state=$(sed -n 's/: sched:active$//p' $CPU/hotplug/states)
	echo $((state)) > $CPU/cpu${chunk[1]}/hotplug/fail
	refused smt/control off || return
	[ "$(cat $CPU/smt/control)" = on ] || return
	# those of the first one are gone, but for that CPU
	c=${chunk[1]}
	unset chunk[1]
	want $THREADS ${chunk[*]} && put smt/control off && want 1 &&
		put smt/control on && want $THREADS
}

# kill_writer DELAY TEXT FILE: while CPUs take their time
kill_writer() {
	local pid

	echo 50000 > $PARAM/$1
	echo "$2" > $CPU/$3 &
	pid=$!
	sleep 0.03
	kill -KILL $pid
	wait $pid
	echo 0 > $PARAM/$1
	grep ^request $S/last
}

# a fatal signal ends it between two operations
killed() {
	local delay=ap_delay_us

	if [ $1 = up ]; then
		put hotplug/offline 1-$((CPUS - 1)) || return
	else
		delay=dead_delay_us
	fi
	kill_writer $delay 1-$((CPUS - 1)) hotplug/$2
	grep -q "^request: $1 .* result -4 " $S/last && consistent || return
	expand_file $CPU/online
	[ ${#cpus[@]} -gt 1 ] && [ ${#cpus[@]} -lt $CPUS ] && all_on
}

# ... but not SMT control, which would say what is not so
not_killed() {
	local n=$(((CPUS - CPUS / THREADS + BATCH - 1) / BATCH))

	kill_writer dead_delay_us off smt/control
	request down $n && want 1 && [ "$(cat $CPU/smt/control)" = off ] ||
		return
	kill_writer ap_delay_us on smt/control
	request up $n && want $THREADS && [ "$(cat $CPU/smt/control)" = on ]
}

# selftest NAME
selftest() {
	bash /lab/kselftest/cpu-hotplug/$1 -q
}

result "a list" list
[ $THREADS = 1 ] || result "SMT control" control
[ $THREADS = 1 ] || result "SMT control stops when a CPU fails" stops
result "a writer is killed, CPUs come" killed up online
result "a writer is killed, CPUs go" killed down offline
[ $THREADS = 1 ] || result "a writer of SMT control is killed" not_killed
result "smt-test.sh" selftest smt-test.sh
result "cpulist-test.sh" selftest cpulist-test.sh
result "all online at the end" want $THREADS
"""

# LATE: a CPU does not come alive at boot until it is too late, or all
JOB_LATE = PRELUDE + r"""
PARAM=/sys/module/cpuhp/parameters
given_up() {
	want $THREADS $LATE
}

# the primary threads at the same time, then the others, not one timeout of 10 s
# for each
together() {
	dmesg | grep 'failed to report alive' | sed 's/[^0-9.]*\([0-9.]*\).*/\1/' |
		awk -v n=$(wc -w <<< "$LATE") '
			{ if (!first) first = $1; last = $1 }
			END { print NR, first, last
			      exit NR != n || last - first > 12 }'
}

# they wait by now, and answer another kick
later() {
	sleep 25
	echo 0 > $PARAM/ap_delay_us
	all_on && put hotplug/offline 1-$((CPUS - 1)) && all_on
}

# more than the 10 s that others get: an LPAR may have to wait for a processor
patient() {
	echo 15000000 > $PARAM/ap_delay_us
	put hotplug/offline ${LATE// /,} && all_on
	local status=$?
	echo 0 > $PARAM/ap_delay_us
	return $status
}

result "the others came" given_up
result "given up together" together
result "they come later" later
[ $(uname -m) != ppc64le ] || result "15 s are not too long" patient
"""

# CPUs that were given up are started anew, out of what they are doing. Without
# a sane preempt count more than half of them complained in the first round, in
# one boot of three; in two of two when they were 20 s late.
JOB_AGAIN = PRELUDE + r"""
PARAM=/sys/module/cpuhp/parameters
again() {
	put hotplug/offline 1-$((CPUS - 1)) || return
	# longer than all tries take: who comes was started anew
	echo 60000000 > $PARAM/ap_delay_us
	! all_on && [ "$(cat $CPU/online)" = 0 ] ||
		{ echo "they were not late"; return 1; }
	echo 0 > $PARAM/ap_delay_us
	# a busy host may be late itself
	all_on || all_on || all_on
}
for round in 1 2; do
	result "started while they are late, round $round" again
done
result "all online at the end" want $THREADS
"""

# The last CPU has gone so far that the next it would do is to wait for I/O.
# Bios that complete there and whose end is deferred are not left alone.
JOB_DEFERRED = PRELUDE + r"""
LAST=$((CPUS - 1))
for d in /sys/block/*; do
	[ "$(cat $d/serial)" != uncached ] || disk=$d
done 2> /dev/null
[ -n "$disk" ] || die "no disk for the test"
# not a managed interrupt, and who gets it completes the request
pci=$(readlink -f $disk/device/..)
echo 0 > $disk/queue/rq_affinity || die "no rq_affinity"
state=$(sed -n 's,^ *\([0-9]*\): workqueue:online$,\1,p' $CPU/hotplug/states)
interrupts() {
	awk -v irq=$(cat $pci/irq): -v n=$((LAST + 2)) \
		'$1 == irq { print $n }' /proc/interrupts
}
leave() {
	put cpu$LAST/hotplug/target $state &&
		echo $LAST > /proc/irq/$(cat $pci/irq)/smp_affinity_list &&
		[ $(cat $CPU/cpu$LAST/hotplug/state) = $state ] &&
		# the next interrupt moves there, the one after it comes there
		dd if=/dev/${disk##*/} of=/dev/null bs=4096 count=4 iflag=direct
}
uncached() {
	local n=$(interrupts) i

	taskset -c 0 labctl uncached /dev/${disk##*/} &
	for ((i = 0; i < 100; i++)); do
		[ -e /proc/$! ] || break
		sleep .1
	done
	[ $(interrupts) -gt $n ] || { echo "no interrupt on $LAST"; return 1; }
	[ ! -e /proc/$! ] || { echo "not done after 10 s"; return 1; }
	wait $!
}
result "a CPU is half offline" leave
result "a deferred bio ends" uncached
result "all online at the end" all_on
"""

# A driver that probes keeps CPUs where they are for a while
JOB_BUSY = PRELUDE + r"""
LAST=$((CPUS - 1))
for d in /sys/block/*; do
	[ "$(cat $d/serial)" != slow ] || disk=$d
done 2> /dev/null
[ -n "$disk" ] || die "no disk for the test"
pci=$(readlink -f $disk/device/..)
pci=${pci##*/}
driver=/sys/bus/pci/drivers/virtio-pci

# meanwhile FILE TEXT: written while the disk's driver reads from it
meanwhile() {
	local i bind ret=0

	echo $pci > $driver/unbind || return
	echo $pci > $driver/bind &
	bind=$!
	for ((i = 0; i < 100000; i++)); do
		[ ! -e $driver/$pci ] || break
	done
	# nobody tries again when a CPU is to go
	labctl write $CPU/hotplug/offline 1 > /dev/null 2> /tmp/busy
	grep -q busy /tmp/busy || { echo "not busy: $i"; ret=1; }
	put $1 "$2" || ret=1
	wait $bind || ret=1
	return $ret
}

one() {
	put hotplug/offline $LAST && meanwhile cpu$LAST/online 1 && want $THREADS
}

list() {
	put hotplug/offline 2-$LAST && meanwhile hotplug/online 2-$LAST &&
		want $THREADS
}

result "the file of a CPU waits" one
result "hotplug/online waits" list
result "all online at the end" all_on
"""

# More interrupts than one CPU has vectors for
JOB_VECTORS = PRELUDE + r"""
LAST=$((CPUS - 1))

# interrupts: how many there are of the devices
interrupts() {
	grep -c virtio /proc/interrupts
}

# homeless: none of them is for CPUs that are offline only
homeless() {
	local d c

	expand_file $CPU/online
	for d in /proc/irq/*/virtio*; do
		read -r c < ${d%/*}/effective_affinity_list || return
		[[ " ${cpus[*]} " = *" $c "* ]] || { echo "$d: $c"; return 1; }
	done
}

# crowded FILE TEXT: no space for the vectors of all of them; only those go for
# which there is
crowded() {
	dmesg -C
	labctl write $CPU/$1 "$2" > /dev/null 2> /tmp/full &&
		{ echo "$2 > $1 succeeds"; return 1; }
	grep "No space left" /tmp/full || { cat /tmp/full; return 1; }
	dmesg | grep "Cannot disable CPU" || return
	[ $(interrupts) = $ALL ] || { echo "$(interrupts) interrupts"; return 1; }
	homeless && consistent || return
	# as many as would go one by one
	expand_file $CPU/online
	[ ${#cpus[@]} = $STAY ] || { echo "online: ${cpus[*]}"; return 1; }
}

alone() {
	local c

	for ((c = 1; c <= LAST; c++)); do
		labctl write $CPU/cpu$c/online 0 > /dev/null 2> /tmp/full || break
	done
	[ $c -le $LAST ] && grep "No space left" /tmp/full || return
	STAY=$((CPUS - c + 1))
	homeless && consistent && put hotplug/online all && want $THREADS
}

list() {
	crowded hotplug/offline 1-$LAST && all_on
}

smt() {
	put smt/control off && want 1 && homeless &&
		! labctl write $CPU/hotplug/offline 2-$LAST > /dev/null &&
		consistent && put smt/control on && want $THREADS
}

ALL=$(interrupts)
[ $ALL -gt 250 ] || die "$ALL interrupts are not enough"
result "CPUs go one by one until there is no space" alone
result "a list" list
result "SMT off" smt
result "all online at the end" all_on
"""

# A machine check is broadcast while CPUs wait to be released
JOB_MCE = PRELUDE + r"""
PARAM=/sys/module/cpuhp/parameters
FROM=$((CPUS / 2))
echo 8000000 > $PARAM/ap_delay_us
echo $FROM > $PARAM/ap_delay_cpu
put hotplug/offline $FROM-$((CPUS - 1))
dmesg -C
emit ready
result "CPUs come, one after 8 s" put hotplug/online $FROM-$((CPUS - 1))
echo 0 > $PARAM/ap_delay_us
result "machine check while one was awaited" awk '
	/Machine Check Exception/ { seen = NR }
	/Booting Node/ { booting = booting ? booting : NR }
	{ print }
	END { exit !(booting && seen > booting) }' <(dmesg | tail -n 50)
result "all online at the end" all_on
"""

# schedutil on CPUs that come and go
JOB_CPUFREQ = PRELUDE + r"""
# policies: those of all CPUs are as they should be
policies() {
	local c p affected related on

	expand_file $CPU/online
	on=" ${cpus[*]} "
	for c in ${cpus[@]}; do
		p=$CPU/cpu$c/cpufreq
		read -r affected < $p/affected_cpus && read -r related < $p/related_cpus &&
			[ "$(cat $p/scaling_governor)" = schedutil ] ||
			{ echo "cpu$c: no policy, or $(cat $p/scaling_governor)"; return 1; }
		for c in $related; do
			[[ $on != *" $c "* ]] || echo $c
		done | sort -n | paste -sd " " > /tmp/there
		[ "$affected" = "$(cat /tmp/there)" ] ||
			{ echo "cpu$c: affected $affected, online $(cat /tmp/there)"; return 1; }
	done
}

# reach CPU FREQ: something little that runs there has the governor set FREQ.
# Without its hook it does not hear of it: where it sets the frequency from there,
# nor of limits, elsewhere (SLOW) that there is little to do. (The former says
# nothing of that: the policies have more CPUs, some with an old load.)
reach() {
	local i

	for i in $(seq 100); do
		taskset -c $1 true
		[ "$(cat $CPU/cpu$1/cpufreq/scaling_cur_freq)" != $2 ] || return 0
		sleep 0.05
	done
	echo "cpu$1: $(cat $CPU/cpu$1/cpufreq/scaling_cur_freq), not $2"
	return 1
}

governed() {
	local c p low high

	policies || return
	for c in ${cpus[@]}; do
		p=$CPU/cpu$c/cpufreq
		read -r low < $p/cpuinfo_min_freq
		read -r high < $p/cpuinfo_max_freq
		echo $high > $p/scaling_min_freq && reach $c $high &&
			echo $low > $p/scaling_min_freq || return
		[ -n "$SLOW" ] || echo $low > $p/scaling_max_freq || return
		reach $c $low || return
		echo $high > $p/scaling_max_freq || return
	done
}

come_and_go() {
	local s

	for s in off on; do
		put smt/control $s && governed || return
	done
	put hotplug/offline 1,$((CPUS - 2)) && governed &&
		put hotplug/offline 1-$((CPUS - 2)) && governed &&
		put cpu2/online 1 && governed && all_on && governed
}

# a CPU that is sent back from below cpufreq's state, and one from there
sent_back() {
	local s state c=$((CPUS - 2))

	for s in cpufreq workqueue; do
		state=$(sed -n "s/: $s:online$//p" $CPU/hotplug/states)
		for c in 2 $((CPUS - 2)); do
			echo $((state)) > $CPU/cpu$c/hotplug/fail || return
			refused hotplug/offline 1-$((CPUS - 2)) && governed &&
				put hotplug/offline $c && echo $((state)) > $CPU/cpu$c/hotplug/fail &&
				refused hotplug/online all && governed && all_on || return
		done
	done
}

# others that stop and start governors and set limits, until /tmp/flip is gone
flip() {
	local p gov

	while [ -e /tmp/flip ]; do
		for p in $CPU/cpufreq/policy*; do
			for gov in performance schedutil; do
				echo $gov > $p/scaling_governor
				cat $p/cpuinfo_min_freq > $p/scaling_max_freq
				cat $p/cpuinfo_max_freq > $p/scaling_max_freq
			done
		done 2> /dev/null
	done
}

others() {
	local i pids

	touch /tmp/flip
	flip & pids=$!
	flip & pids+=" $!"
	for i in $(seq $ROUNDS); do
		put smt/control off && put smt/control on &&
			put hotplug/offline 1-$((CPUS - 2)) && put hotplug/online all &&
			put cpu1/online 0 && put cpu1/online 1 || break
	done
	rm /tmp/flip
	wait $pids
	for i in $CPU/cpufreq/policy*; do
		echo schedutil > $i/scaling_governor || return
	done
	want $THREADS && governed
}

result "governed as booted" governed
result "CPUs come and go" come_and_go
all_on
result "CPUs that are sent back" sent_back
for i in $CPU/cpu*/hotplug/fail; do
	echo -1 > $i
done
all_on
result "others set governors and limits" others
"""

# The selftests where they have less to test: they pass, or say why not
JOB_FEW = PRELUDE + r"""
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
"""

# MORE cycles after 10 must not cost memory. What is left is noise of the
# allocators: pages of partly filled slabs, a page of percpu chunks.
JOB_LEAK = PRELUDE + r"""
# memory WHEN: what is in use, after all is dropped that is only kept for later
memory() {
	local maps f

	sync
	echo 3 > /proc/sys/vm/drop_caches
	sleep 2
	for f in /sys/kernel/slab/*/shrink; do
		echo 1 > $f
	done
	# what is unpurged has been unmapped
	grep -v unpurged /proc/vmallocinfo > /tmp/vm-$1
	maps=$(grep -vc 'vmalloc\|vmap' /tmp/vm-$1)
	# counters have deltas for each CPU
	echo 1 > /proc/sys/vm/stat_refresh
	cat /proc/zoneinfo > /tmp/zones
	emit memory when $1 ioremaps $maps vmallocs $(wc -l < /tmp/vm-$1) \
		$(awk '$1 == "KernelPageSize:" { kb = $2 }
			$1 == "pages" && $2 == "free" { free += $3 }
			$1 == "count:" { lists += $2 }
			END { print "Free", (free + lists) * kb, "Lists", lists * kb }
			' /proc/self/smaps /tmp/zones) \
		$(awk '/^(Slab|SUnreclaim|VmallocUsed|Percpu|KernelStack):/ {
			sub(":", "", $1); print $1, $2 }' /proc/meminfo)
	awk 'NR > 2 { print $1, $2, $3, $4 }' /proc/slabinfo | sort > /tmp/slab-$1
}

cycles() {
	local i

	for i in $(seq $1); do
		put smt/control off && put smt/control on || return
	done
	want $THREADS
}

more() {
	cycles $((MORE / 4)) || return
	memory quarter
	cycles $((MORE - MORE / 4))
}

result "10 cycles" cycles 10
memory 10
result "$MORE cycles" more
memory more
echo "slab cache, objects in use after 10 and $MORE more cycles:"
join /tmp/slab-10 /tmp/slab-more |
	awk '$5 - $2 > 50 || $2 - $5 > 50 { print $1, $2, $5, "of", $7 }'
# those of freed areas are kept until there are many; vmallocinfo has the rest
objects() {
	join /tmp/slab-10 /tmp/slab-more |
		awk -v most=$((MORE / 2)) '$1 != "vmap_area" && $5 - $2 >= most { print $1, $2, $5; bad = 1 }
			END { exit bad }'
}
result "no object for each cycle" objects
"""


def _matrix(m):
    """The results of JOB_MATRIX on a machine."""
    return ("platform", *(("levels", "cores off by hand") if m.threads > 1
                          else ("no SMT",)), "batches", "single CPUs",
            "memory types" if m.arch == "x86_64" else "number of processors",
            "all online at the end")


# calls for an operation
COUNTED = ("GP", "GP exp", "stops", "rebuilds")


def _counts(m):
    """The calls for taking all threads but one of each core of a machine
    offline and online, without SMT all CPUs but one."""
    freq = node = up = 0
    if m.threads == 1 and m.nodes > 1:
        node = 1            # a node that had no CPUs; one that loses its
                            # last shares the grace period of the CPUs
    if m.type.startswith("powernv"):
        freq = 1            # schedutil's hooks; a policy is a core
    if m.type == "q35":
        up = 1              # the MTRRs
    return {"off": (0, 1 + freq, 1, 1), "on": (0, node + freq, up, 1)}


# KiB that the last three quarters of a thousand cycles may cost, with all of
# them (or the first quarter has freed what they took), and all of them twice as
# much. 118 bytes for each CPU that goes and comes would be 512
# KiB on the pseries machine.
#
# The system still warms up after ten cycles. On the pseries machine, which
# has pages of 64 KiB, Slab grows by 2.5 MB until there have been 500 cycles
# and then no more: caches keep partial slabs and sheaves of free objects for
# each CPU. When they are shrunk before each look that is 0.9 MB in the first
# 100 cycles and nothing in the 2900 after them. And MemFree falls by 20 MB or
# more: pages in the lists of each CPU are not in it, and there is no way to ask
# for those of a CPU that stays online to be emptied. They were 605 pages
# after 10 cycles, 1031 after 250 and 929 after 1000, as the high marks of the
# lists adapt. Free has these pages too. It must come from one reading of
# zoneinfo, as they go to and fro; it then is the same within 3.5 MB in 3000
# cycles.
#
# On q35 each cycle frees two thread stacks. Their areas are unmapped, but the
# vmap_area objects stay until there are many: 0.3 MB of Slab.
LEAK = {"Slab": 512, "SUnreclaim": 512, "VmallocUsed": 64, "Percpu": 256,
        "KernelStack": 128}
LEAK_FREE = 4 << 10


@dataclasses.dataclass(frozen=True)
class Case:
    """A boot: the machine, the job and what it is given as variables, and the
    names of the results it must give. Where it is not as told, that is a
    failure, and so is a result that is missing."""
    name: str
    machine: vm.Machine
    job: str
    results: tuple
    vars: dict = dataclasses.field(default_factory=dict)
    counts: dict = None             # as of _counts()
    host: object = None             # a function for run_job()
    disk: str = ""                  # 'kernel' or 'swap': one more disk
    crash: bool = False             # the console ends in a panic first
    expected: str = ""              # lines of the console that are no failure
    judge: object = None            # Result -> [(name, ok, detail)]
    limit: int = 900


def _vm(type_, cpus, threads, *, intc="", **kw):
    if intc:
        kw["options"] = ("-machine", f"ic-mode={intc}")
    return vm.topology(type_, cpus, threads, **kw)


def matrix():
    """CPU models, MMU, interrupt controller and threads of pseries; powernv;
    q35."""
    pseries = [("power8", "hash", "xics", 8)]
    pseries += [(cpu, mmu, intc, 8) for cpu in ("power9", "power10")
                for mmu in ("radix", "hash") for intc in ("xive", "xics")]
    pseries += [(cpu, mmu, intc, t) for cpu, mmu, intc in (
        ("power9", "hash", "xics"), ("power10", "radix", "xive"))
        for t in (1, 4)]
    for cpu, mmu, intc, t in pseries:
        m = _vm("pseries", 16, t, cpu=cpu, intc=intc, append="disable_radix"
                if mmu == "hash" and cpu != "power8" else "")
        yield Case(f"pseries-16 {cpu} {mmu} {intc} threads={t}", m, JOB_MATRIX,
                   _matrix(m),
                   {"LEVELS": "off on 2 1 on 4 2 8 off 4 on",
                    "MMU": mmu.title(), "INTC": intc.upper()}, _counts(m))
    for type_ in "powernv9", "powernv10":
        for gov in "", "performance":
            m = _vm(type_, 16, 4, append=gov and
                    f"cpufreq.default_governor={gov}")
            counts = _counts(m)
            if gov:
                counts = {"off": (0, 1, 1, 1), "on": (0, 0, 0, 1)}
            yield Case(f"{type_}-16 {gov}".strip(), m, JOB_MATRIX, _matrix(m),
                       {"LEVELS": "off on 2 1 on 4 2 off 4 on",
                        "MMU": "Radix", "INTC": "XIVE",
                        "IDLE": "powernv_idle"}, counts)
    for t in 2, 1:
        m = _vm("q35", 8, t)
        yield Case(f"q35-8 threads={t}", m, JOB_MATRIX,
                   _matrix(m),
                   {"LEVELS": "off on off on"}, _counts(m))
    yield Case("q35-7 threads=2, one core has one",
               _vm("q35", 8, 2, options=("-smp", "cpus=7,maxcpus=8")), JOB_ODD,
               ("as booted", "SMT off and on", "lists",
                "primary threads offline", "as booted at the end"))


def parameters():
    """Boot parameters and tools."""
    on = ("as asked", "SMT on", "all online", "off and on")
    for type_, cpus, t, what in (
            ("pseries", 16, 8, ("smt-enabled=off", "smt-enabled=2",
                                "smt-enabled=on", "nosmt", "nosmt=force")),
            ("powernv10", 16, 4, ("smt-enabled=off", "smt-enabled=2",
                                  "nosmt")),
            ("q35", 8, 2, ("nosmt", "nosmt=force"))):
        for p in what:
            n = {"smt-enabled=2": 2, "smt-enabled=on": t}.get(p, 1)
            forced = "1" if p.endswith("force") else ""
            yield Case(f"{type_}-{cpus} {p}", _vm(type_, cpus, t, append=p),
                       JOB_BOOT, ("as asked", "stays so") if forced else on,
                       {"AT_BOOT": n, "FORCED": forced})
    # CPUs that powernv has not started spin, and take the host's time
    for type_, cpus, t in ("pseries", 16, 8), ("powernv10", 8, 2), \
            ("q35", 8, 2):
        for p in "maxcpus=2", "nosmt maxcpus=2":
            # x86 takes primary threads first, powerpc CPUs from 0 on
            cores = 2 if type_ == "q35" else 1
            yield Case(f"{type_}-{cpus} {p}", _vm(type_, cpus, t, append=p),
                       JOB_MAXCPUS, ("as asked", "SMT control leaves the "
                                     "other cores alone", "hotplug/online all",
                                     "all online", "off and on"),
                       {"LEAVE": 1 if p.startswith("nosmt") else t,
                        "CORES": cores, "FIRST": cores
                        if p.startswith("nosmt") else 2})
    for type_, t in ("pseries", 8), ("powernv10", 4):
        # Debian 12's, which writes the files of CPUs, and Debian 13's, which
        # writes smt/control
        for which, tool in ("", "ppc64_cpu"), (" of Debian 13",
                                               "/opt/newer/ppc64_cpu"):
            yield Case(f"{type_}-16 ppc64_cpu{which}", _vm(type_, 16, t),
                       JOB_PPC64_CPU,
                       ("ppc64_cpu --smt", "ppc64_cpu --cores-on",
                        "ppc64_cpu --cores-on with SMT 2",
                        "ppc64_cpu --cores-on, smt/control"), {"TOOL": tool})


def _same(ref):
    """Compares sysfs with what another case, which was given the same dict,
    or this one before SMT switching has left in it."""
    def judge(r):
        out = []
        for when in "boot", "again":
            got = r.files.get(when, b"").decode()
            diff = difflib.unified_diff(
                ref.setdefault("", got).splitlines(), got.splitlines(),
                lineterm="", n=0)
            detail = "\n".join(diff)
            out.append((f"sysfs is as ever, {when}",
                        "thread_siblings_list:" in got and not detail,
                        detail))
        return out
    return judge


def sysfs():
    """CPUs look the same in sysfs whether they came up in parallel or not."""
    for type_, cpus, t, cpu in (
            ("pseries", 16, 8, "power8"), ("pseries", 16, 4, "power10"),
            ("powernv9", 16, 4, ""), ("powernv10", 16, 4, ""),
            ("q35", 8, 2, "")):
        ref = {}
        for p in "cpuhp.parallel=0", "cpuhp.parallel=1":
            m = _vm(type_, cpus, t, cpu=cpu, append=p)
            yield Case(f"{type_}-{cpus} {m.model()} sysfs {p}", m,
                       check.JOB_SYSFS, (), judge=_same(ref))


def _plug(loops):
    """The host's side of JOB_PLUG."""
    def host(q, records):
        def wait(kind, n, again=None):
            t0 = last = time.monotonic()
            while sum(r["t"] == kind for r in records()) < n:
                if time.monotonic() - t0 > 400:
                    raise LabError(f"the guest gave no '{kind}' {n}")
                if again and time.monotonic() - last > 20:
                    again()
                    last = time.monotonic()
                time.sleep(.05)
        wait("ready", 1)
        spare = [c for c in q.execute("query-hotpluggable-cpus")
                 if "qom-path" not in c]
        for k, core in zip(range(1, loops + 1), reversed(spare)):
            q.execute("device_add", {"driver": core["type"], "id": f"c{k}",
                                     **core["props"]})
            wait("added", k)

            def remove():
                # while the guest still works on the last request QEMU
                # refuses another
                try:
                    q.execute("device_del", {"id": f"c{k}"})
                except LabError:
                    pass
            remove()
            wait("removed", k, remove)
    return host


def _plug_node(q, records):
    """The host's side of JOB_NODE."""
    t0 = time.monotonic()
    while not any(r["t"] == "ready" for r in records()):
        if time.monotonic() - t0 > 200:
            raise LabError("the guest gave no 'ready'")
        time.sleep(.05)
    for core in q.execute("query-hotpluggable-cpus"):
        if "qom-path" not in core:
            q.execute("device_add", {"driver": core["type"], "id": "new",
                                     **core["props"]})


def node():
    """A node without memory, and without CPUs until one is plugged in. Not on
    q35: Linux has no hot-added CPUs there without KVM."""
    cpus, t = 8, 4
    m = _vm("pseries", cpus, t, accel="mttcg", spare=1)
    options = ["-object", f"memory-backend-ram,id=mem0,size={m.memory}M",
               "-numa", "node,nodeid=0,memdev=mem0", "-numa", "node,nodeid=1"]
    for core in range(0, cpus + t, t):
        options += ["-numa", f"cpu,node-id={int(core >= cpus)},core-id={core}"]
    yield Case("pseries-8 a node without memory",
               dataclasses.replace(m, options=tuple(options)), JOB_NODE,
               ("a node is not there", "its core comes", "goes and comes",
                "goes and comes with SMT"), {}, host=_plug_node)


def dlpar():
    """Cores that come and go."""
    m = _vm("pseries", 32, 8)
    yield Case("pseries-32 DLPAR", m, JOB_DLPAR,
               ("remove and add", "remove and add, SMT 1",
                "remove and add, SMT 2", "all online at the end"), {},
               _counts(m))
    # not with icount: unplugged by its own hypercall, the thread of all CPUs
    # would have to wait for itself, and QEMU aborts
    loops = 12
    for switch in "", "1":
        m = _vm("pseries", 8, 4, accel="mttcg", spare=loops)
        yield Case("pseries-8 device_add and device_del" +
                   (", SMT switches" if switch else ""), m, JOB_PLUG,
                   ("SMT on", "all online at the end") +
                   (("SMT switched meanwhile",) if switch else ()),
                   {"LOOPS": loops, "SWITCH": switch}, host=_plug(loops))


def restarts():
    """kexec, a crash, suspend and hibernation."""
    for type_, cpus, t in ("pseries", 16, 8), ("powernv10", 8, 4), \
            ("q35", 4, 2):
        cases = [("SMT off", "put smt/control off && want 1"),
                 ("all but one off", "put hotplug/offline 1-$((CPUS - 1)) && "
                  "want $THREADS $(range 1 $CPUS)")]
        for before, how in cases:
            yield Case(f"{type_}-{cpus} kexec, {before}", _vm(type_, cpus, t),
                       JOB_KEXEC, (before, "the second kernel has all CPUs",
                                   "it switches SMT"),
                       {"BEFORE": before, "PREPARE": how}, disk="kernel")
        crash = {"q35": "nr_cpus=1 reset_devices"}.get(type_, "maxcpus=1")
        # those which spin in the old kernel have their share of the host
        cpus, t = min(cpus, 8), min(t, 4)
        # with icount they take turns with the second kernel, in its own time:
        # its watchdogs see CPUs that do nothing for longer than they allow
        accel = "icount"
        if type_ == "powernv10":
            cpus, accel = 4, "mttcg"
        for what, slow in ("wait", 1), ("are half up", cpus - 1):
            yield Case(f"{type_}-{cpus} crash while CPUs {what}",
                       _vm(type_, cpus, t, accel=accel,
                           append="crashkernel=512M"),
                       JOB_KDUMP, ("CPUs are on their way",
                                   "the crash kernel is up", "it has a dump"),
                       {"CRASH": crash, "SLOW": slow}, disk="kernel",
                       crash=True,
                       # emulated firmware, and CPUs that spin beside it
                       limit=1800 if type_ == "powernv10" else 900)
    yield Case("q35-8 suspend", _vm("q35", 8, 2, freq="acpi"), JOB_SUSPEND,
               ("suspend to idle, pm_test", "suspend-test.sh",
                "suspend to RAM, pm_test",
                "suspend to RAM, woken up while CPUs go",
                "suspend to RAM, pm_test core",
                "suspend to RAM under load", "hibernation, pm_test processors",
                "hibernation, pm_test core", "hibernation, test_resume",
                "all online at the end"), disk="swap")


def chunks():
    """Requests that take more than one operation."""
    for type_, cpus, t, batch in (("q35", 16, 2, 7), ("q35", 16, 2, 3),
                                  ("pseries", 16, 8, 3)):
        yield Case(f"{type_}-{cpus} cpuhp.batch={batch}",
                   _vm(type_, cpus, t, append=f"cpuhp.batch={batch}"),
                   JOB_CHUNKS,
                   ("a list", "SMT control",
                    "SMT control stops when a CPU fails",
                    "a writer is killed, CPUs come",
                    "a writer is killed, CPUs go",
                    "a writer of SMT control is killed",
                    "smt-test.sh", "cpulist-test.sh",
                    "all online at the end"), {"BATCH": batch})


def cpufreq():
    """A policy for each CPU, one for each core."""
    for type_, cpus, t, freq in ("q35", 8, 2, "acpi"), ("powernv10", 16, 4, ""):
        yield Case(f"{type_}-{cpus} schedutil", _vm(type_, cpus, t, freq=freq),
                   JOB_CPUFREQ,
                   ("governed as booted", "CPUs come and go",
                    "CPUs that are sent back",
                    "others set governors and limits"),
                   {"ROUNDS": 10, "SLOW": freq})


def late():
    """CPUs that do not come alive in time at boot. In host time: they spin."""
    for type_, cpus, t, which in (("q35", 8, 2, (3,)), ("pseries", 8, 4, (3,)),
                                  ("q35", 4, 2, (1, 2, 3))):
        append = "cpuhp.ap_delay_us=30000000"
        if len(which) == 1:
            append += f" cpuhp.ap_delay_cpu={which[0]}"
        yield Case(f"{type_}-{cpus} late {','.join(map(str, which))}",
                   _vm(type_, cpus, t, accel="mttcg", append=append), JOB_LATE,
                   ("the others came", "given up together", "they come later",
                    *(("15 s are not too long",) if type_ == "pseries"
                      else ())),
                   {"LATE": " ".join(map(str, which))},
                   expected="failed to report alive state")
    yield Case("q35-12 started again while they are late",
               _vm("q35", 12, 1, accel="mttcg"), JOB_AGAIN,
               ("started while they are late, round 1",
                "started while they are late, round 2",
                "all online at the end"),
               expected="failed to report alive state")
    yield Case("q35-8 machine check while CPUs wait",
               _vm("q35", 8, 2, accel="mttcg"), JOB_MCE,
               ("CPUs come, one after 8 s",
                "machine check while one was awaited", "all online at the end"),
               expected="Hardware Error|lock debugging due to kernel taint",
               host=_machine_check)


def deferred():
    """A bio that ends on a CPU which is about to wait for I/O."""
    disk = ("-blockdev", "null-co,node-name=uncached,size=67108864,"
            "read-zeroes=on", "-device",
            "virtio-blk-pci,drive=uncached,serial=uncached,vectors=0")
    for type_, cpus, t in ("q35", 4, 2), ("pseries", 4, 2):
        yield Case(f"{type_}-{cpus} deferred bio",
                   _vm(type_, cpus, t, options=disk), JOB_DEFERRED,
                   ("a CPU is half offline", "a deferred bio ends",
                    "all online at the end"))


def scarce():
    """What CPUs need is not to be had, for a while or at all."""
    # each read takes so long, in host time
    disk = ("-blockdev", "null-co,node-name=slow,size=67108864,read-zeroes=on,"
            "latency-ns=100000000", "-device",
            "virtio-blk-pci,drive=slow,serial=slow")
    for type_, cpus, t in ("q35", 8, 2), ("pseries", 8, 4):
        yield Case(f"{type_}-{cpus} hotplug is disabled for a while",
                   _vm(type_, cpus, t, accel="mttcg", options=disk), JOB_BUSY,
                   ("the file of a CPU waits", "hotplug/online waits",
                    "all online at the end"))
    # 64 queues and a change of its configuration; about 200 fit on a CPU
    serial = ("-device", "virtio-serial-pci,max_ports=31,vectors=65") * 4
    yield Case("q35-4 vectors run out", _vm("q35", 4, 2, options=serial),
               JOB_VECTORS,
               ("CPUs go one by one until there is no space", "a list",
                "SMT off", "all online at the end"))


def _machine_check(q, records):
    """The host's side of JOB_MCE: an uncorrected error of CPU 0, which need
    not be acted on. QEMU ends the guest if a CPU can't take it."""
    t0 = time.monotonic()
    while not any(r["t"] == "ready" for r in records()):
        if time.monotonic() - t0 > 400:
            raise LabError("the guest took no CPUs offline")
        time.sleep(.05)
    time.sleep(3)
    said = q.execute("human-monitor-command", {
        "command-line": "mce -b 0 8 0xbd00000000000000 7 0x12345000 0x8c"})
    if said:
        raise LabError(f"QEMU's monitor command mce: {said}")


def few():
    """The selftests where there is less than usual."""
    where = LINUX / "tools/testing/selftests/cpu-hotplug"
    tests = sorted(p.name for p in where.glob("*-test.sh")
                   if p.name != "suspend-test.sh")
    for name, m in (("1 CPU", _vm("q35", 1, 1)), ("no SMT", _vm("q35", 4, 1)),
                    ("no debugfs", _vm("q35", 4, 2, append="debugfs=off")),
                    ("CPU 0 isolated",
                     _vm("q35", 4, 2, append="isolcpus=0-1")),
                    ("softirqs in threads",
                     _vm("q35", 4, 2, append="threadirqs")),
                    ("1 CPU", _vm("pseries", 1, 1))):
        yield Case(f"{m.type}-{m.cpus} selftests, {name}", m, JOB_FEW,
                   (*tests, "skips have a reason"), {"TESTS": " ".join(tests)})
    # whose idle states count on a CPU that was offline
    idle = "cpuidle-test.sh"
    yield Case("powernv10-8 idle states", _vm("powernv10", 8, 4), JOB_FEW,
               (idle, "skips have a reason"), {"TESTS": idle})


def _grown(r):
    """Whether MORE cycles cost memory."""
    got = {x["when"]: x for x in r.of("memory")}
    if set(got) != {"10", "quarter", "more"}:
        return [("memory is as it was", False, "it was not looked at")]
    first, quarter, last = got["10"], got["quarter"], got["more"]
    text = ", ".join(f"{k} {first[k]} -> {quarter[k]} -> {last[k]}"
                     for k in first if k not in ("t", "when"))
    say(f"   memory, KiB: {text}\n{r.output()}")
    most = {**LEAK, "ioremaps": 8, "vmallocs": 8, "Free": LEAK_FREE}

    def grown(k, since):
        more = int(last[k]) - int(since[k])
        return -more if k == "Free" else more
    bad = [k for k in most
           if min(grown(k, quarter), grown(k, first)) > most[k]
           or grown(k, first) > 2 * most[k]]
    return [("memory is as it was", not bad, f"{', '.join(bad)}: {text}\n"
             + r.output())]


def leak():
    """A thousand cycles."""
    more = int(os.environ.get("CYCLES", 990))
    for type_, cpus, t in ("pseries", 8, 4), ("q35", 4, 2):
        yield Case(f"{type_}-{cpus} leak", _vm(type_, cpus, t), JOB_LEAK,
                   ("10 cycles", f"{more} cycles",
                    "no object for each cycle"), {"MORE": more},
                   judge=_grown, limit=3600)


GROUPS = {"matrix": matrix, "parameters": parameters, "sysfs": sysfs,
          "dlpar": dlpar, "node": node, "restarts": restarts, "chunks": chunks,
          "cpufreq": cpufreq, "late": late, "deferred": deferred,
          "scarce": scarce, "few": few, "leak": leak}


def _disk(case, image, tmp):
    """The machine with the disk that the case wants."""
    if not case.disk:
        return case.machine, {}
    path, size = os.path.join(tmp, case.disk), 0
    with open(path, "wb") as f:
        if case.disk == "kernel":
            data = (image / "kernel").read_bytes()
            size = f.write(data)
            f.write(b"\0" * (-size % 4096))
        else:
            f.truncate(1 << 30)
    m, serial = case.machine, "next" if case.disk == "kernel" else "swap"
    bus = ",bus=pcie.5" if m.type.startswith("powernv") else ""
    return dataclasses.replace(m, options=m.options + (
        "-drive", f"if=none,id={serial},file={path},format=raw", "-device",
        f"virtio-blk-pci,drive={serial},serial={serial}{bus}")), \
        {"SIZE": size}


def _ended_badly(case, r):
    """What the console of a case with a crash in it complains of after the
    second kernel has begun."""
    last = r.console.rpartition("Linux version")
    if not last[1]:
        return "no second kernel"
    return "\n".join(sum(console.splats(last[2]), []))


def run(case, image):
    """[(name, ok, detail)] of one case."""
    m = case.machine
    try:
        with tempfile.TemporaryDirectory(prefix="cpuhp-") as tmp:
            m, more = _disk(case, image, tmp)
            given = {"CPUS": m.cpus, "THREADS": m.threads, **case.vars, **more}
            job = "".join(f"{k}='{v}'\n" for k, v in given.items()) + case.job
            name = "machines-" + "".join(
                c if c.isalnum() else "-" for c in case.name)
            r = boot.run_job(m, image, job, name=name, limit=case.limit,
                             host=case.host, fail_on_splat=not (
                                 case.crash or case.expected))
    except LabError as e:
        r = getattr(e, "result", None)
        tail = "\n" + r.output()[-1500:] if r else ""
        return [("runs to its end, no splat", False, f"{e}{tail}")] + \
            [(x["name"], x["ok"] == "1", x.get("detail", ""))
             for x in (r.of("check") if r else [])]
    bad = _ended_badly(case, r) if case.crash else ""
    if case.expected:
        bad = "\n".join(sum(console.splats("".join(
            x for x in r.console.splitlines(True)
            if not re.search(case.expected, x))), []))
    out = [("runs to its end, no splat", not r.status and not bad,
            f"the job ended with {r.status}\n{bad}\n{r.output()[-1500:]}")]
    got = {x["name"]: x for x in r.of("check")}
    for x in dict.fromkeys((*case.results, *got)):
        ok = x in case.results and x in got and got[x]["ok"] == "1"
        out.append((x, ok, got[x].get("detail", "") if x in got else
                    "the job did not come to it"))
    if case.counts:
        calls = {c["op"]: tuple(sum(int(c.get(f, 0)) for f in bench.COUNTS[x])
                                for x in COUNTED) for c in r.of("counts")}
        out.append(("grace periods, expedited ones, stops and rebuilds",
                    calls == case.counts, f"{calls}, not {case.counts}"))
    return out + (case.judge(r) if case.judge else [])


def cases(arches, only=""):
    """The cases for these architectures: of the groups, or those in whose
    names a word of the comma list occurs; LabError for words that are in
    none."""
    every = [(g, c) for g, func in GROUPS.items() for c in func()]
    words = [w.strip() for w in only.split(",") if w.strip()]
    found = {w: {c.name for g, c in every
                 if (g == w if w in GROUPS else w in c.name)} for w in words}
    wrong = ",".join(w for w in words if not found[w])
    todo = [c for _, c in every if c.machine.arch in arches
            and (not only or c.name in set().union(*found.values()))]
    if wrong or not todo:
        raise LabError(f"ONLY={wrong or only} is no case"
                       + ("" if wrong else f" for {', '.join(arches)}")
                       + f"; use some of {', '.join(GROUPS)}, or a part of a "
                       "case's name as in docs/machines.md")
    return todo


class Report(check.Report):
    """Goes to out/machines.ktap, after each case."""
    ktap = "machines.ktap"


def inputs(case):
    """The digest of what defines a case's result but the kernel's code."""
    return digest(case.job, repr(sorted(case.vars.items())),
                  repr(case.machine), *kernels.fragments(case.machine.arch))


def keep(case, results, taken):
    """Put the results of a case, instead of those it had before, into
    bench/results/machines.json. taken: the stamp of the run."""
    path = record.RESULTS / "machines.json"
    doc = json.loads(path.read_text()) if path.exists() else {}
    doc[case.name] = {
        "stamp": {**taken, "inputs": inputs(case)},
        "passed": sum(ok for _, ok, _ in results),
        "failed": [f"{n}: {d}"[:300].replace(f"{TOP}/", "")
                   for n, ok, d in results if not ok]}
    record.save("machines", doc)


def table(doc, results):
    """The recorded cases in the order of the groups: what passed, when, on which
    tree, with a star where that is stale; then what failed."""
    out, bad = [f"{'case':<48}{'passed':>7}{'failed':>7}  {'date':<11}tree"], []
    for name in dict.fromkeys(c.name for f in GROUPS.values() for c in f()):
        r = doc.get(name)
        if not r:
            out.append(f"{name[:47]:<48}{'-':>7}{'-':>7}")
            continue
        out.append(f"{name[:47]:<48}{r['passed']:>7}{len(r['failed']):>7}  "
                   f"{r['stamp']['date'][:10]} {r['stamp']['tree'][:4]}"
                   f"{'*' if results[name].stale() else ''}")
        bad += [f"{name}: {x.splitlines()[0][:60]}" for x in r["failed"]]
    return "\n".join(out + (["", *bad] if bad else [])) + "\n"


def shown():
    """What is recorded of the cases."""
    now = {c.name: inputs(c) for f in GROUPS.values() for c in f()}

    def one(doc):
        results = {name: record.Result(f"machines: {name}", r["stamp"],
                                       now.get(name, ""))
                   for name, r in doc.items()}
        return record.Shown(list(results.values()), {
            "machines": record.fenced(table(doc, results))})
    return record.each("machines.json", one, "make machines RECORD=1")


def run_all(rep, todo, images, workers, taken=None):
    """Run the cases and report; the exit status. taken: the stamp of what is
    to be recorded."""
    lock = threading.Lock()
    for a in dict.fromkeys(c.machine.arch for c in todo):
        guest.rootfs(a), guest.lab_disk(a)      # make them beforehand

    def one(case):
        t0 = time.monotonic()
        results = run(case, images[case.machine.arch])
        if ending.is_set():
            return
        with lock:
            for name, ok, detail in results:
                rep.add(f"{case.name}: {name}", ok, detail)
            rep.write()
            if taken:
                keep(case, results, taken)
            say(f"   {case.name}: {human(time.monotonic() - t0)}")
    with step(f"{len(todo)} boots, {workers} at a time", len(todo) * 30):
        boot.side_by_side(one, [(c,) for c in todo], workers)
    return rep.finish()


def main(arch, only, rec=False):
    """Build what is to be booted and run the cases; with rec they go to
    bench/results/machines.json."""
    arches = [check_arch(arch)] if arch else list(ARCHES)
    todo, rep = cases(arches, only), Report()
    taken = record.stamp("") if rec else None
    images = {a: kernels.build("patched", a)
              for a in dict.fromkeys(c.machine.arch for c in todo)}
    return run_all(rep, todo, images, os.cpu_count() or 1, taken)
