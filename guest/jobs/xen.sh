# SPDX-License-Identifier: GPL-2.0
# CPUs of a paravirtualised dom0 of Xen: make machines K=Xen
# LISTS: 1 if the kernel takes them.
LISTS=${LISTS-}
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

result "runs on Xen" on_xen
result "CPUs go and come" singles
[ -z "$LISTS" ] || [ "$LISTS" = 0 ] || result "a list goes and comes" lists
result "all online at the end" want 1
