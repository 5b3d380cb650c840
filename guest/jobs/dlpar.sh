# SPDX-License-Identifier: GPL-2.0
# The guest's side of DLPAR, on pseries with two cores or more of four threads:
# the second core leaves the kernel, not QEMU.
. /lab/prelude.sh

core=$(second_core)
second=$(range $THREADS $((2 * THREADS)))

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

# One that was kicked and not released runs, until it is given up. It must not be
# taken from below Linux, nor does the core lose the others.
running() {
	local c=$((THREADS + 1)) kick

	kick=$(state_of cpu:kick_ap)
	put hotplug/offline $c && put cpu$c/hotplug/target $kick || return
	! echo "cpu remove index 0x$core" > /sys/kernel/dlpar ||
		{ echo "removed while CPU $c runs"; return 1; }
	dmesg | grep "hwid $c of .* runs" && want $THREADS $c &&
		put cpu$c/hotplug/target 0 || return
	put cpu$c/online 1 && cycle $THREADS
}

result "remove and add" cycle $THREADS
result "remove and add, SMT 1" level 1
result "remove and add, SMT 2" level 2
result "a core with a running thread stays" running
counted off - eval 'echo "cpu remove index 0x$core" > /sys/kernel/dlpar'
counted on - eval 'echo "cpu add index 0x$core" > /sys/kernel/dlpar'
result "all online at the end" want $THREADS
