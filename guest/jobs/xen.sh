# SPDX-License-Identifier: GPL-2.0
# CPUs of a paravirtualised dom0 of Xen: make machines K=Xen
# SERIES: 1 for a kernel which takes lists, and does not warn of a CPU that fails.
SERIES=${SERIES-}
. /lab/prelude.sh

on_xen() { dmesg | grep "Hypervisor detected: Xen PV"; }

singles() {
	local i c

	for i in 1 2 3; do
		for c in $(range 1 $CPUS); do
			put cpu$c/online 0 && want 1 $(range 1 $((c + 1))) || return
		done
		for c in $(range 1 $CPUS); do
			put cpu$c/online 1 || return
		done
		want 1 || return
	done
}

lists() {
	local i

	for i in 1 2 3; do
		put hotplug/offline 1-$((CPUS - 1)) && want 1 $(range 1 $CPUS) &&
			all_on || return
	done
}

# a CPU that fails to go has the kicker of its spinlocks, one
kicker() {
	put cpu1/hotplug/fail $(state_of workqueue:online) &&
		refused cpu1/online 0 && put cpu1/hotplug/fail -1 || return
	grep "spinlock1$" /proc/interrupts
	[ "$(grep -c "spinlock1$" /proc/interrupts)" = 1 ] && want 1 &&
		put cpu1/online 0 && put cpu1/online 1 && want 1
}

result "runs on Xen" on_xen
result "CPUs go and come" singles
if [ -n "$SERIES" ]; then
	result "a list goes and comes" lists
	result "a CPU fails to go" kicker
fi
result "all online at the end" want 1
