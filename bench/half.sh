# SPDX-License-Identifier: GPL-2.0
# How long it takes until tasks run on half of the CPUs that come, and on all:
#   make run JOB=bench/half.sh ARCH=ppc64le CPUS=240
#   make run JOB=bench/half.sh ARCH=ppc64le CPUS=240 APPEND=maxcpus=2
# for a list, SMT control and, booted with maxcpus=2, hotplug/online. The whole is
# measured by itself: a write, in the same boot.
show() {
	echo "$1: half $(($2 / 1000)) us, all $(($3 / 1000)) us, $(($2 * 100 / $3)) %"
}
if [ "$(cat $CPU/online)" != "$(cat $CPU/present)" ]; then
	ns=$(labctl half $CPU/hotplug/online all) || die "no CPUs came"
	on=$(cat $CPU/online)
	labctl write $CPU/hotplug/offline 2-${on#*-} > /dev/null || die "offline"
	all=$(labctl write $CPU/hotplug/online all) || die "online"
	show "all but two" $ns $all
	exit
fi
last=$((CPUS - 1))
for i in 0 1 2; do
	labctl write $CPU/hotplug/offline 1-$last > /dev/null || die "offline"
	ns=$(labctl half $CPU/hotplug/online 1-$last) || die "online"
	labctl write $CPU/hotplug/offline 1-$last > /dev/null || die "offline"
	all=$(labctl write $CPU/hotplug/online 1-$last) || die "online"
	[ $i = 0 ] || show "a list" $ns $all
	labctl write $CPU/smt/control off > /dev/null || die "SMT off"
	ns=$(labctl half $CPU/smt/control on) || die "SMT on"
	labctl write $CPU/smt/control off > /dev/null || die "SMT off"
	all=$(labctl write $CPU/smt/control on) || die "SMT on"
	[ $i = 0 ] || show "SMT control" $ns $all
done
