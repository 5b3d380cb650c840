# SPDX-License-Identifier: GPL-2.0
# A thread of the second core is given up and takes 16 s to stop, or longer, on pseries.
. /lab/prelude.sh

core=$(second_core)

# One that is late even then keeps nobody from anything else for long. And when it
# is ready to stop, nobody has to wait until somebody looks after it.
late() {
	local c=$((THREADS + 1)) before kick param=/sys/module/cpuhp/parameters

	kick=$(state_of cpu:kick_ap)
	put hotplug/offline $c && put cpu$c/hotplug/target $kick &&
		echo $c > $param/ap_delay_cpu &&
		echo 16000000 > $param/dead_delay_us || return
	before=$SECONDS
	put cpu$c/hotplug/target 0 && put cpu1/online 0 &&
		put cpu1/online 1 || return
	[ $((SECONDS - before)) -lt 10 ] ||
		{ echo "$((SECONDS - before)) s for CPU $c to be given up"; return 1; }
	! echo "cpu remove index 0x$core" > /sys/kernel/dlpar ||
		{ echo "removed while CPU $c runs"; return 1; }
	want $THREADS $c || return
	echo 0 > $param/dead_delay_us
	# the kernel looks 1, 3, 7, 15 and 31 s after
	sleep $((before + 29 - SECONDS))
	dlpar remove && dlpar add && want $THREADS
}

result "a thread that stops late" late
result "all online at the end" want $THREADS
