# SPDX-License-Identifier: GPL-2.0
# How long it takes until tasks run on half of the CPUs that come, and until the write
# that brings them returns:
#   make run JOB=bench/half.sh ARCH=ppc64le CPUS=240 LIMIT=1500
#   make run JOB=bench/half.sh ARCH=ppc64le CPUS=240 APPEND=maxcpus=2 LIMIT=1500
# for a list, SMT control and, booted with maxcpus=2, hotplug/online. Who asks 5000 times
# a second which CPUs take a task shares the host's core with those CPUs, and makes
# all of it slower: "alone" is what the same write takes without it.
show() {
	echo "$1: half $(($2 / 1000)) us of $(($3 / 1000)), $(($2 * 100 / $3)) %;" \
		"alone $(($4 / 1000)) us"
}
if [ "$(cat $CPU/online)" != "$(cat $CPU/present)" ]; then
	on=$(cat $CPU/online)
	ns=$(labctl halves $CPU/hotplug/online all) || die "no CPUs came"
	labctl write $CPU/hotplug/offline $((${on#*-} + 1))-$((CPUS - 1)) > /dev/null ||
		die "offline"
	show "all but $on" $ns $(labctl write $CPU/hotplug/online all)
	exit
fi
last=$((CPUS - 1))
for i in 0 1 2; do
	labctl write $CPU/hotplug/offline 1-$last > /dev/null || die "offline"
	ns=$(labctl halves $CPU/hotplug/online 1-$last) || die "online"
	labctl write $CPU/hotplug/offline 1-$last > /dev/null || die "offline"
	all=$(labctl write $CPU/hotplug/online 1-$last) || die "online"
	[ $i = 0 ] || show "a list" $ns $all
	labctl write $CPU/smt/control off > /dev/null || die "SMT off"
	ns=$(labctl halves $CPU/smt/control on) || die "SMT on"
	labctl write $CPU/smt/control off > /dev/null || die "SMT off"
	all=$(labctl write $CPU/smt/control on) || die "SMT on"
	[ $i = 0 ] || show "SMT control" $ns $all
done
