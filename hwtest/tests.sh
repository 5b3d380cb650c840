#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The tests of one kernel: tests.sh STAGE QUICK. Records of the lab's jobs to
# /reports/STAGE.jsonl; the short ones to the kernel log as well, which outlives
# the kernel where firmware keeps it. Siblings need not be neighbours here, so
# nothing of /lab/prelude.sh that counts on it.
export PATH=/hwtest:/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LAB_PORT=/tmp/port
STAGE=$1 QUICK=$2
REPORT=/reports/$STAGE.jsonl

mkfifo $LAB_PORT
while read -r line; do
	echo "$line" >> $REPORT
	[ ${#line} -gt 700 ] || echo "cpuhp-hwtest: $STAGE $line" > /dev/kmsg
done <> $LAB_PORT &
writer=$!

. /lab/lib.sh
. /lab/prelude.sh
SMT=$CPU/smt/control

# begins NAME: what a crash is told by
begins() {
	echo "cpuhp-hwtest: $STAGE begins $1" > /dev/kmsg
}

# skip NAME WHY: a test that can't be run here returns what this does
skip() {
	emit skip name "$1" why "$2"
	return 77
}

# judge TEST: run it, and say how it went
judge() {
	local status=0

	begins $1
	($1) > /tmp/judged 2>&1 || status=$?
	case $status in
	0)	emit check name $1 ok 1 ;;
	77)	;;
	*)	emit check name $1 ok 0 detail "$(tail -c 1000 /tmp/judged)" ;;
	esac
}

# times N M: N, or M with --quick
times() {
	[ $QUICK = 1 ] && echo $2 || echo $1
}

# set_smt OP TREATMENT CYCLE VALUE
set_smt() {
	timed $1 $2 $3 labctl write $SMT $4
}

all_online() {
	[ "$(cat $CPU/online)" = "$ALL" ] || { cat $CPU/online; return 1; }
	consistent
}

# primaries_online: the first of each core and no other
primaries_online() {
	local c want=()

	expand "$ALL"
	for c in "${cpus[@]}"; do
		[[ ${SIBLINGS[c]} != "$c" && ${SIBLINGS[c]} != "$c"[,-]* ]] ||
			want+=("$c")
	done
	expand_file $CPU/online
	[ "${cpus[*]}" = "${want[*]}" ] ||
		{ echo "online: ${cpus[*]}, wanted: ${want[*]}"; return 1; }
	consistent
}

# second_half: ${cpus[@]}
second_half() {
	expand "$ALL"
	cpus=("${cpus[@]:$((${#cpus[@]} / 2))}")
}

# switch off|on: SMT, or the last CPU where there is none
switch() {
	if [ $HAS_SMT = 1 ]; then
		echo $1 > $SMT
	else
		[ $1 = off ]
		echo $? > $CPU/cpu$LAST/online
	fi
}

boot() {
	emit stage name ${STAGE#*-} release "$(uname -r)" cmdline "$(cat /proc/cmdline)" \
		online "$ALL" uptime_ns "$(labctl now)" threads $THREADS
	emit note name smp text "$(dmesg | grep -m 1 -E 'smp: Brought up|SMP: Total')"
	[ ! -e /proc/powerpc/vcpudispatch_stats ] || emit note name lparcfg text \
		"$(grep -E 'shared_processor_mode|entitled_capacity|purr' /proc/powerpc/lparcfg)"
}

# how SMT goes off and on: of each treatment, then by the function profiler
smt() {
	local t i treatments=-

	[ ${STAGE#*-} != base ] || treatments="- expedited"
	for t in $treatments; do
		as_treatment $t
		for i in $(seq $(times 5 2)); do
			set_smt off $t $i off || die "SMT off failed"
			[ $t$i != -1 ] || result "SMT off: primary threads" primaries_online
			set_smt on $t $i on || die "SMT on failed"
			[ $t$i != -1 ] || result "SMT on: all CPUs" all_online
		done
	done
	as_treatment base
	counted off - labctl write $SMT off
	counted on - labctl write $SMT on
	for i in 2 4; do
		[ $i -lt $THREADS ] || break
		set_smt "level $i" - 1 $i && set_smt "level $i, on" - 1 on
	done
}

# one CPU, again and again; several, file by file: what old tools do
one() {
	local i c off=() on=()

	for i in $(seq $(times 20 3)); do
		timed "one off" - $i labctl write $CPU/cpu$LAST/online 0 &&
			timed "one on" - $i labctl write $CPU/cpu$LAST/online 1 ||
			die "cpu$LAST/online failed"
	done
	second_half
	for c in "${cpus[@]:0:100}"; do
		off+=($CPU/cpu$c/online 0)
		on+=($CPU/cpu$c/online 1)
	done
	timed "half off, CPU by CPU" - 1 labctl write "${off[@]}" &&
		timed "half on, CPU by CPU" - 1 labctl write "${on[@]}" ||
		die "half of the CPUs failed"
}

# the files of the series, with other slices
lists() {
	local n list

	second_half
	list=$(IFS=,; echo "${cpus[*]}")
	[ -e $CPU/hotplug/offline ] || { skip lists "not on this kernel"; return 77; }
	for n in 16 8 32 256; do
		echo $n > /sys/module/cpuhp/parameters/batch
		timed "half off, slices of $n" - 1 labctl write $CPU/hotplug/offline $list
		timed "half on, slices of $n" - 1 labctl write $CPU/hotplug/online $list
	done
	echo 16 > /sys/module/cpuhp/parameters/batch
	result "a list: all CPUs" all_online
}

# what others feel: the longest that a task on CPU 0 does not run, or waits
gap() {
	local dir ns

	for dir in off on; do
		ns=$(labctl gap $SMT $dir) || die "SMT $dir failed"
		emit sample op "gap on CPU 0, $dir" treatment - cycle 1 ns $ns status 0
		sleep 0.2
	done
	for dir in off on; do
		ns=$(labctl lockwait $SMT $dir) || die "SMT $dir failed"
		emit sample op "wait for the lock, $dir" treatment - cycle 1 ns $ns status 0
	done
}

# where the time goes: bench/where.sh
where() {
	[ -e $T/events/cpuhp/cpuhp_request_start ] ||
		{ skip where "not on this kernel"; return 77; }
	(. /hwtest/where.sh) > /tmp/where
	file where /tmp/where
	echo 0 > $T/events/cpuhp/enable
}

# beside CMD...: SMT off and on, or the last CPU, until it ends; $cycles
beside() {
	local pid status

	"$@" &
	pid=$!
	cycles=0
	while [ -d /proc/$pid ] && [ $cycles -lt 10000 ]; do
		switch off && switch on || return
		cycles=$((cycles + 1))
		# a zombie is a directory too
		[ "$(cut -d ' ' -f 3 /proc/$pid/stat 2> /dev/null)" != Z ] || break
	done
	wait $pid
	status=$?
	echo "$cycles cycles of SMT, status $status"
	return $status
}

# nobody reads a page after it was unmapped
tlb() {
	beside hwctl tlb $(times 30 5) && all_online
}

# sums: of the first MiB of each disk, read past the page cache
sums() {
	local d

	for d in /sys/block/*; do
		[ -e $d/device ] && [ "$(cat $d/size)" -gt 0 ] || continue
		echo ${d##*/} $(dd if=/dev/${d##*/} bs=1M count=$(times 256 8) \
			iflag=direct 2> /dev/null | sha256sum)
	done
}

disks() {
	sums > /tmp/sums.before
	[ -s /tmp/sums.before ] || { skip disks "no disk"; return 77; }
	beside eval 'sums > /tmp/sums.during' &&
		cmp /tmp/sums.before /tmp/sums.during &&
		awk 'END { print NR, "disks" }' /tmp/sums.before
}

# what sysfs says of the topology: the same sum in all stages
topology() {
	(cd $CPU && grep -s . cpu*/topology/* cpu*/cache/index*/shared_cpu_list \
		../node/node*/cpulist) | sort | sha256sum | cut -c 1-16
}

topologies() {
	emit topology when boot sum $AT_BOOT
	[ $(topology) = $AT_BOOT ] || { echo "now $(topology)"; return 1; }
}

hogs() {
	local i pids=() bad=0

	expand "$ALL"
	for i in "${cpus[@]}"; do
		taskset -c $i sh -c "while :; do :; done" &
		pids+=($!)
	done
	for i in $(seq $(times 20 3)); do
		switch off && switch on || { bad=1; break; }
	done
	kill "${pids[@]}"
	wait "${pids[@]}" 2> /dev/null
	[ $bad = 0 ] && all_online
}

# with a crash kernel, whose device tree or segments follow the CPUs
crash_kernel() {
	hwctl load-crash /kit/kernel-${STAGE_KERNEL} /kit/root.cpio.gz "maxcpus=1" ||
		{ skip "crash kernel" "it cannot be loaded"; return 77; }
	if [ $HAS_SMT = 1 ]; then
		set_smt "off, crash kernel" - 1 off && set_smt "on, crash kernel" - 1 on
	else
		switch off && switch on
	fi
	hwctl unload-crash
	all_online
}

# two guests of this host, each with a CPU: their steal time and exits meanwhile
guests() {
	local seconds

	seconds=$(times 20 5)
	[ -e /dev/kvm ] || { skip "KVM guests" "no /dev/kvm"; return 77; }
	hwctl guests $seconds > /tmp/guests.quiet 2> /tmp/guests.err ||
		{ skip "KVM guests" "$(tail -n 1 /tmp/guests.err)"; return 77; }
	beside eval "hwctl guests $seconds > /tmp/guests" || return
	emit guests when quiet $(cat /tmp/guests.quiet)
	emit guests when "SMT switches" cycles $cycles $(cat /tmp/guests)
}

# those of the kernel's tree that are for the patched one
selftests() {
	[ -e $CPU/hotplug/offline ] || { skip selftests "not on this kernel"; return 77; }
	[ $QUICK = 0 ] || [ ${STAGE#*-} = patched ] ||
		{ skip selftests "with --quick in one stage only"; return 77; }
	(export KSELFTEST_CPU_ON_OFF_TEST_SH_ARGS=-a
	 if [ $QUICK = 1 ]; then
		 export QUICK SECONDS_HAMMER=1
	 else
		 unset QUICK
	 fi
	 cd /lab/kselftest && ./run_kselftest.sh -o 900) > /tmp/kselftest 2>&1
	file kselftest /tmp/kselftest
	! grep -B 8 '^not ok' /tmp/kselftest
}

# the kernel has not complained
quiet_log() {
	! dmesg | grep -vE 'cpuhp-hwtest:|Spectre|Speculative' | grep -E -A 3 'BUG:|WARNING:|Call [Tt]race|Oops|stall|soft lockup|hard LOCKUP|failed to report|didn.t die|blocked for more than|unstable'
}

ALL=$(cat $CPU/online)
expand "$ALL"
for c in "${cpus[@]}"; do
	SIBLINGS[c]=$(cat $CPU/cpu$c/topology/thread_siblings_list)
done
LAST=${ALL##*[-,]}
HAS_SMT=$(cat $CPU/smt/active)
AT_BOOT=$(topology)
[[ $(uname -r) = *-base ]] && STAGE_KERNEL=base || STAGE_KERNEL=patched

boot
tests="one lists"
if [ $HAS_SMT = 1 ]; then
	tests="smt one lists gap where"
else
	skip SMT "smt/control: $(cat $SMT)"
fi
for test in $tests tlb disks topologies hogs crash_kernel guests selftests; do
	judge $test
done
begins end
result "the kernel's log" quiet_log
emit note name uptime text "$(cut -d ' ' -f 1 /proc/uptime)"
# addresses are nobody's business
dmesg | sed -E 's/([0-9a-fA-F]{2}:){5,7}[0-9a-fA-F]{2}/xx:xx/g' | gzip -9 > /tmp/dmesg.gz
file dmesg.gz /tmp/dmesg.gz
sleep 1		# of the writer
kill $writer
