# SPDX-License-Identifier: GPL-2.0
# A kernel with CONFIG_DEBUG_CPU_RETIRE and tests/unlock-told.patch: a CPU that is
# dead is callable when the hotplug lock is released, and the kernel has to say so.
# make machines K=told
. /lab/prelude.sh
P=/sys/module/cpuhp/parameters

says() {
	[ $(dmesg | grep -c "WARNING: .* at cpuhp_retire_ended") = $1 ]
}

for n in 0 1; do
	[ $n = 0 ] || echo 1 > $P/retire_skip_gp
	echo 4-7 > $CPU/hotplug/offline || die "CPUs 4-7 don't go"
	[ $n = 0 ] || echo 0 > $P/retire_skip_gp
	echo 4-7 > $CPU/hotplug/online || die "CPUs 4-7 don't come"
	[ $n = 1 ] || result "nothing is said when the mask is right" says 0
done
result "who is dead and callable is told" says 1
result "all online at the end" want $THREADS
