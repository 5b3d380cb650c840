# SPDX-License-Identifier: GPL-2.0
# What every machine has to do: SMT levels, cores that were taken off by hand,
# lists, single CPUs, what the platform counts; then the calls for one operation.
# LEVELS: of SMT, in this order. MMU, INTC, IDLE: what the machine has to have in
# /proc/cpuinfo, /proc/interrupts, cpuidle; empty: anything.
. /lab/prelude.sh
LEVELS=${LEVELS-off on}
MMU=${MMU-}
INTC=${INTC-}
IDLE=${IDLE-}

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

# calls FUNCTION LIST: how often CPUs that go offline call it. Not by its entry:
# ftrace is off for them.
calls() {
	local n

	echo "p:call $1+0x20" > $T/kprobe_events &&
		echo 1 > $T/events/kprobes/call/enable &&
		put hotplug/offline $2 || return
	n=$(awk '$1 == "call" { print $2 }' $T/kprobe_profile)
	echo 0 > $T/events/kprobes/call/enable
	echo > $T/kprobe_events
	all_on > /dev/null && echo $n
}

# once for all CPUs firmware is asked where the interrupts go
one_walk() {
	local one all f=ics_rtas_get_server

	one=$(calls $f 1) && all=$(calls $f 1-$((CPUS - 1))) || return
	echo "$one calls for one CPU, $all for the others together"
	[ "$one" -gt 0 ] && [ "$one" = "$all" ]
}

pin_to() {
	local f

	for f in /proc/irq/[0-9]*/smp_affinity_list; do
		echo $1 2> /dev/null > $f
	done
	return 0
}

# CPU 1 is the first to take over when CPU 0 goes, but goes with the next slice.
# It has those that can't be pinned.
one_move() {
	local zero one both f=ics_rtas_set_affinity
	local batch=/sys/module/cpuhp/parameters/batch was

	was=$(cat $batch)
	echo 1 > $batch && pin_to 0 && one=$(calls $f 1) && pin_to 0 &&
		zero=$(calls $f 0) && pin_to 0 && both=$(calls $f 0-1)
	local status=$?
	echo $was > $batch
	echo "$zero move from CPU 0, $one from CPU 1, $both together"
	[ $status = 0 ] && [ "$zero" -gt 0 ] && [ "$both" -le $((zero + one)) ]
}

# Interrupts on the last CPU, which might be on any, move when it goes, not with
# those of the first slice, and none moves twice. Those of a CPU that idles are the IPI's.
with_their_cpu() {
	local last=$((CPUS - 1)) i c n=0 leave=0 first moves all status
	local batch=/sys/module/cpuhp/parameters/batch was

	pin_to $last
	pin_to 0-$last
	for i in /proc/irq/*/effective_affinity_list; do
		compgen -G "${i%/*}/*/" > /dev/null && read -r c < $i && [ -n "$c" ] ||
			continue
		[ "$c" = 0 ] || leave=$((leave + 1))
		[ "$c" != $last ] || n=$((n + 1))
	done
	[ $n -gt 0 ] || { echo "no interrupt on CPU $last"; return 1; }

	was=$(cat $batch)
	echo 1 > $batch
	echo > $T/trace
	echo "p:move xive_spapr_configure_irq+0x20" > $T/kprobe_events &&
		echo 1 > $T/events/kprobes/move/enable &&
		echo 1 > $T/events/cpuhp/cpuhp_retired/enable &&
		put hotplug/offline 1-$last
	status=$?
	read -r first moves all <<< "$(awk '/<idle>/ { next }
		/ move: / { moves[stops + 0]++; all++ } / cpuhp_retired: / { stops++ }
		END { print moves[0] + 0, moves[stops - 1] + 0, all + 0 }' $T/trace)"
	echo 0 > $T/events/cpuhp/cpuhp_retired/enable
	echo 0 > $T/events/kprobes/move/enable
	echo > $T/kprobe_events
	echo $was > $batch
	echo "$n on CPU $last; $first move with CPU 1, $moves with CPU $last;" \
		"$leave have to leave, $all moves"
	[ $status = 0 ] && [ $moves -ge $n ] && [ $all -le $leave ]
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
if [ "$INTC" = XICS ]; then
	result "one walk of the interrupts" one_walk
	result "each interrupt moves once" one_move
fi
if [ "$INTC" = XIVE ] && grep -q pSeries /proc/cpuinfo; then
	result "interrupts move with their CPU" with_their_cpu
	all_on
fi
if [ $THREADS != 1 ]; then
	counted off - labctl write $CPU/smt/control off
	counted on - labctl write $CPU/smt/control on
else
	counted off - labctl write $CPU/hotplug/offline 1-$((CPUS - 1))
	counted on - labctl write $CPU/hotplug/online all
fi
result "all online at the end" want $THREADS
