# SPDX-License-Identifier: GPL-2.0
# A driver that probes keeps CPUs where they are for a while, with a slow disk:
# make machines K=disabled
. /lab/prelude.sh

LAST=$((CPUS - 1))
disk=$(disk slow) || die "no disk 'slow'"
sysfs=/sys/block/${disk##*/}
pci=$(readlink -f $sysfs/device/..)
pci=${pci##*/}
driver=/sys/bus/pci/drivers/virtio-pci

# meanwhile FILE TEXT: written while the disk's driver reads from it
meanwhile() {
	local i bind ret=0

	echo $pci > $driver/unbind || return
	echo $pci > $driver/bind &
	bind=$!
	for ((i = 0; i < 100000; i++)); do
		[ ! -e $driver/$pci ] || break
	done
	# nobody tries again when a CPU is to go
	labctl write $CPU/hotplug/offline 1 > /dev/null 2> /tmp/busy
	grep -q busy /tmp/busy || { echo "not busy: $i"; ret=1; }
	put $1 "$2" || ret=1
	wait $bind || ret=1
	return $ret
}

one() {
	put hotplug/offline $LAST && meanwhile cpu$LAST/online 1 && want $THREADS
}

list() {
	put hotplug/offline 2-$LAST && meanwhile hotplug/online 2-$LAST &&
		want $THREADS
}

result "the file of a CPU waits" one
result "hotplug/online waits" list
result "all online at the end" all_on
