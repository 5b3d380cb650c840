# SPDX-License-Identifier: GPL-2.0
# Suspend for the migration of a partition, on pseries: the CPUs join, QEMU
# suspends. The host's side, which wakes up, is in lab/judge.py: make machines
# K=migration
# LATE: the CPU that was too late at boot. KEXEC: first into a kernel with
# maxcpus=1, which leaves the others running; SIZE: bytes of that kernel on the
# disk 'next', which the runner gives.
. /lab/prelude.sh
LATE=${LATE-}
KEXEC=${KEXEC-}
MIGRATION=../../../kernel/mobility/migration

if [ -n "$KEXEC" ] && ! grep -q lab.second /proc/cmdline; then
	next_kernel
	kexec -s -l /tmp/kernel --append="$second maxcpus=1" || die "kexec -l: $?"
	kexec -e -x
	die "kexec -e came back"
fi

# said PATTERN: by the kernel since dmesg -C
said() {
	dmesg | grep "$1" || { dmesg; echo "no '$1'"; return 1; }
}

# The decrementer ends QEMU's H_JOIN. If it does when another CPU asks for the
# suspend, that is refused with -9005, and after five times so is the write.
migrate() {
	local i

	for i in $(seq 20); do
		dmesg -C
		put $MIGRATION 1 && said "calling ibm,suspend-me on CPU" &&
			return
		said "ibm,suspend-me error: -9005" || return
	done
	return 1
}

# busy CPU: there is no migration, for this one runs
busy() {
	dmesg -C
	refused $MIGRATION 1 && said "hwid $1 runs but is not online" &&
		said "suspend attempt . of . error: -16"
}

smt_off() {
	put smt/control off && want 1 && migrate && want 1 &&
		put smt/control on && want $THREADS && migrate
}

parked() {
	local last=cpu$((CPUS - 1)) state

	state=$(state_of cpu:kick_ap)
	put $last/online 0 && put $last/hotplug/target $state &&
		busy $(($(cat $CPU/$last/physical_id))) && put $last/online 1 && want $THREADS &&
		migrate
}

switches() {
	local i s status=0

	touch /tmp/run
	while [ -e /tmp/run ]; do
		for s in off 2 on; do
			put smt/control $s
		done
		echo >> /tmp/switched
	done > /tmp/refused &
	for i in $(seq 20); do
		migrate || { status=1; break; }
	done
	rm /tmp/run
	wait $!
	echo "switched $(wc -l < /tmp/switched) times"
	cat /tmp/refused
	[ $status = 0 ] && [ ! -s /tmp/refused ] && want $THREADS
}

# of the CPUs $1 one is noticed, and they come later
later() {
	busy "$1" && sleep ${LATE:+30} 0 &&
		echo 0 > /sys/module/cpuhp/parameters/ap_delay_us && all_on
}

if [ -n "$KEXEC" ]; then
	result "CPUs that kexec left are noticed" later "[1-9][0-9]*"
elif [ -n "$LATE" ]; then
	result "a late CPU is noticed" later $LATE
fi
result "all CPUs join" migrate
result "SMT off" smt_off
result "a parked CPU is noticed" parked
result "SMT switched meanwhile" switches
result "all online at the end" want $THREADS
# the host's side is to see it before QEMU ends
emit done
sleep 1
