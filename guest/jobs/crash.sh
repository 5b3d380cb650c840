# SPDX-License-Identifier: GPL-2.0
# A panic while CPUs come up, with crashkernel=512M: make run DISK=next=kernel
# The one that is SLOW has not called in: the others wait to be released if it is
# the first, half up for it if it is the last. CRASH: what the crash kernel is
# told. SIZE: bytes of the kernel on the disk 'next', which the runner gives.
. /lab/prelude.sh
SLOW=${SLOW-1}
CRASH=${CRASH-maxcpus=1}

if grep -q lab.second /proc/cmdline; then
	dumped() {
		[ -s /proc/vmcore ] &&
			[ "$(head -c 4 /proc/vmcore | tail -c 3)" = ELF ]
	}
	result "the crash kernel is up" true
	result "it has a dump" dumped
	exit 0
fi

next_kernel

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
