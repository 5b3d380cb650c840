# SPDX-License-Identifier: GPL-2.0
# The last CPU is called to unbind its tick device while it dies, when it has given
# that up: make run JOB=guest/jobs/unbind.sh ARCH=ppc64le PROFILE=torture
. /lab/prelude.sh
LAST=$((CPUS - 1))
P=/sys/module/cpuhp/parameters
D=/sys/devices/system/clockevents/clockevent$LAST

# The name is that of all of them, and the one which came last is found
unbound() {
	local name writer

	put cpu$LAST/online 0 && put cpu$LAST/online 1 || return
	read -r name < $D/current_device || return
	# in phase 3 it has its interrupts off, and its tick device is there
	echo 3 > $P/retire_delay_phase && echo 800000 > $P/retire_delay_us || return
	put cpu$LAST/online 0 &
	writer=$!
	until [[ $(< $CPU/online) != *[-,]$LAST ]]; do
		kill -0 $writer || return
	done
	sleep 0.3
	labctl write $D/unbind_device $name
	local ret=$?
	wait $writer || return
	echo 0 > $P/retire_delay_us
	[ $ret = 0 ] || { echo "the CPU was not called in time: $ret"; return 1; }
}
result "its tick device is unbound while it dies" unbound

again() {
	put cpu$LAST/online 1 && taskset -c $LAST sleep 0.1 && want $THREADS
}
result "it comes back with a tick" again
result "all online at the end" want $THREADS
