# SPDX-License-Identifier: GPL-2.0
# A kernel with CONFIG_DEBUG_CPU_RETIRE and tests/unlock-told.patch: a slice is left
# between online and dead, and the kernel has to say so when the hotplug lock is
# released. make machines K=told
. /lab/prelude.sh
P=/sys/module/cpuhp/parameters

says() {
	[ $(dmesg | grep -c "WARNING: .* at cpuhp_retire_ended") = $1 ]
}

echo 4-7 > $CPU/hotplug/offline || die "CPUs 4-7 don't go"
echo 4-7 > $CPU/hotplug/online || die "CPUs 4-7 don't come"
result "nothing is said when they are dead, or online" says 0
echo 1 > $P/retire_skip_gp
echo 4-7 2> /dev/null > $CPU/hotplug/offline
result "a slice that is neither is told" says 1
