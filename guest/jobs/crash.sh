# SPDX-License-Identifier: GPL-2.0
# A panic while CPUs come up, with crashkernel=512M: make run DISK=next=kernel
# The one that is SLOW has not called in: the others wait to be released if it is
# the first, half up for it if it is the last. CRASH: what the crash kernel is
# told. SIZE: bytes of the kernel on the disk 'next', which the runner gives.
# PLUG: instead, on pseries, a core panics that was added after the crash kernel
# was loaded; and how often what comes online is copied to its device tree.
. /lab/prelude.sh
SLOW=${SLOW-1}
CRASH=${CRASH-maxcpus=1}
PLUG=${PLUG-}

if grep -q lab.second /proc/cmdline; then
	dumped() {
		[ -s /proc/vmcore ] &&
			[ "$(head -c 4 /proc/vmcore | tail -c 3)" = ELF ]
	}
	result "the crash kernel is up" true
	result "it has a dump" dumped
	[ -z "$PLUG" ] || result "it has all cores in its device tree" \
		[ $(ls -d /proc/device-tree/cpus/PowerPC* | wc -l) = \
			$((CPUS / THREADS)) ]
	exit 0
fi

next_kernel

second+=" $CRASH loglevel=6"
if [ -n "$PLUG" ]; then
	core=$(second_core)
	dlpar remove || die "no core to plug in"
fi
kexec -s -p /tmp/kernel --append="$second" || die "kexec -p: $?"
[ "$(cat /sys/kernel/kexec_crash_loaded)" = 1 ] || die "not loaded"

# copies N CMD...: while CMD runs all cores are copied so often
copies() {
	local n want=$1

	shift
	COUNTED=update_cpus_node counts_start
	"$@" || return
	n=$(counts_stop | sed -n 's/^update_cpus_node \([0-9]*\) .*/\1/p')
	[ ${n:-0} = $want ] || { echo "$n times, not $want"; return 1; }
}
if [ -n "$PLUG" ]; then
	smt="put smt/control off && put smt/control on"
	result "SMT off and on copy no core" copies 0 eval "$smt"
	result "a core that is added is copied once" copies 1 dlpar add
	result "SMT again" copies 0 eval "$smt"
	result "it goes and comes" copies 1 eval 'dlpar remove && dlpar add'
	sync
	taskset -c $((THREADS + 1)) sh -c 'echo c > /proc/sysrq-trigger'
	die "alive after a crash of the core"
fi
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
