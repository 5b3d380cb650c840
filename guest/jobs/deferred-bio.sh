# SPDX-License-Identifier: GPL-2.0
# The last CPU has gone so far that the next it would do is to wait for I/O. Bios
# that complete there and whose end is deferred are not left alone. The disk has
# no MSI-X: make machines K=deferred
. /lab/prelude.sh

LAST=$((CPUS - 1))
disk=$(disk uncached) || die "no disk 'uncached'"
sysfs=/sys/block/${disk##*/}
# not a managed interrupt, and who gets it completes the request
pci=$(readlink -f $sysfs/device/..)
echo 0 > $sysfs/queue/rq_affinity || die "no rq_affinity"
state=$(state_of workqueue:online)
interrupts() {
	awk -v irq=$(cat $pci/irq): -v n=$((LAST + 2)) \
		'$1 == irq { print $n }' /proc/interrupts
}
leave() {
	put cpu$LAST/hotplug/target $state &&
		echo $LAST > /proc/irq/$(cat $pci/irq)/smp_affinity_list &&
		[ $(cat $CPU/cpu$LAST/hotplug/state) = $state ] &&
		# the next interrupt moves there, the one after it comes there
		dd if=$disk of=/dev/null bs=4096 count=4 iflag=direct
}
uncached() {
	local n=$(interrupts) i

	taskset -c 0 labctl uncached $disk &
	for ((i = 0; i < 100; i++)); do
		[ -e /proc/$! ] || break
		sleep .1
	done
	[ $(interrupts) -gt $n ] || { echo "no interrupt on $LAST"; return 1; }
	[ ! -e /proc/$! ] || { echo "not done after 10 s"; return 1; }
	wait $!
}
result "a CPU is half offline" leave
result "a deferred bio ends" uncached
result "all online at the end" all_on
