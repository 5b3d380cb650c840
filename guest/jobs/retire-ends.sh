# SPDX-License-Identifier: GPL-2.0
# All CPUs but the first go, and stay in one PHASE of it (enum cpuhp_retire_phase) for
# 1.5 s together, or, when they die, for 0.3 s each: there the system comes to its
# END, by kexec, by a crash (with crashkernel=512M), by a reboot, with which QEMU ends, or
# by power off, which is the end of the job:
#   make run PROFILE=torture VARS="PHASE=2 END=kexec" DISK=next=kernel
# END=suspend, with CONFIG_PM_DEBUG: it is suspended in each phase.
# CRASH: what the crash kernel is told.
# SIZE: bytes of the kernel on the disk 'next', which the runner gives.
. /lab/prelude.sh
PHASE=${PHASE-0}
END=${END-kexec}
CRASH=${CRASH-maxcpus=1}
P=/sys/module/cpuhp/parameters

if grep -q lab.second /proc/cmdline; then
	if [ $END = crash ]; then
		result "the crash kernel has a dump" test -s /proc/vmcore
	else
		result "the second kernel has all CPUs" want $THREADS
	fi
	exit 0
fi

# stay PHASE: CPUs are on their way, and stay there
stay() {
	# 0.3 s is longer than one udelay() of x86 can be
	echo $1 > $P/retire_delay_phase &&
		echo $(($1 < 3 ? 1500000 : 300000)) > $P/retire_delay_us || return
	put hotplug/offline 1-$((CPUS - 1)) &
	writer=$!
	until [ "$(cat $CPU/online)" = 0 ]; do
		kill -0 $writer || return
	done
	sleep 0.2
	kill -0 $writer
}

# It waits until they are gone, and they stay so
suspended() {
	stay $1 || return
	no_port suspend || return
	wait $writer || return
	[ "$(cat $CPU/online)" = 0 ] || { cat $CPU/online; return 1; }
	echo 0 > $P/retire_delay_us
	all_on
}

suspend() {
	echo platform > /sys/power/pm_test && echo mem > /sys/power/state
}

if [ $END = suspend ]; then
	echo 0 > /sys/module/suspend/parameters/pm_test_delay
	for phase in 0 1 2 3 4; do
		result "suspended in phase $phase" suspended $phase
	done
	exit
fi

case $END in
kexec | crash)	next_kernel ;;
esac
case $END in
kexec)	kexec -s -l /tmp/kernel --append="$second" || die "kexec -l: $?" ;;
crash)	kexec -s -p /tmp/kernel --append="$second $CRASH loglevel=6" || die "kexec -p: $?" ;;
esac
result "CPUs stay in phase $PHASE" stay $PHASE
case $END in
kexec)	kexec -e -x
	die "kexec -e came back" ;;
crash)	echo c > /proc/sysrq-trigger
	die "alive after a crash" ;;
reboot)	# what the end of a job says
	emit end status 0 uptime_ns "$(labctl now)"
	sync
	[ $(uname -m) = x86_64 ] && n=169 || n=88
	perl -e "syscall($n, 0xfee1dead, 672274793, 0x1234567, 0)"
	die "reboot(2) came back" ;;
esac
