# SPDX-License-Identifier: GPL-2.0
# Interrupts without remapping move while they come: two disks under load, one
# with MSI-X, one with a pin of the IO-APIC: make machines K=irqload
# ROUNDS: how often CPUs go and come.
. /lab/prelude.sh

LAST=$((CPUS - 1))
msi=$(disk msi) || die "no disk 'msi'"
pin=$(disk pin) || die "no disk 'pin'"

reads() { awk '{ print $1 }' /sys/block/${1##*/}/stat; }

load() {
	while :; do
		dd if=$1 of=/dev/null bs=512 count=4096 iflag=direct 2> /dev/null
	done
}

# irqs DISK: of its queues, or the one of the pin
irqs() {
	local d=$(readlink -f /sys/block/${1##*/}/device)
	if [ -d $d/../msi_irqs ]; then
		ls $d/../msi_irqs
	else
		cat $d/../irq
	fi
}

moves=0
others=0
# how often an interrupt had to leave the CPUs of LIST
leaving() {
	local i c

	expand "$1"
	for i in $(irqs $msi) $(irqs $pin); do
		read -r c < /proc/irq/$i/effective_affinity_list || continue
		[[ " ${cpus[*]} " = *" $c "* ]] || continue
		moves=$((moves + 1))
		[ $c = ${cpus[0]} ] || others=$((others + 1))
	done
}

# both go on after each step
goes_on() {
	local d before now i

	for d in $msi $pin; do
		before=$(reads $d)
		for ((i = 0; i < 300; i++)); do
			now=$(reads $d)
			[ $((now - before)) -ge 20 ] && break
			sleep .1
		done
		[ $((now - before)) -ge 20 ] || { echo "$d: $before $now"; return 1; }
	done
}

rounds() {
	local i l list

	for ((i = 0; i < ROUNDS; i++)); do
		for list in 1-$LAST 1-$((LAST / 2)) \
			$((LAST / 2 + 1))-$LAST; do
			# put an interrupt where it has to go
			expand "$list"
			echo "${cpus[(i + 1) % ${#cpus[@]}]}" \
				> /proc/irq/$(irqs $pin)/smp_affinity_list
			# it moves with the next interrupt only
			goes_on
			leaving "$list"
			put hotplug/offline "$list" || return
			goes_on || { echo "after offline $list"; return 1; }
			all_on || return
			goes_on || { echo "after online"; return 1; }
		done
		# and one by one
		for ((l = 1; l <= LAST; l++)); do
			leaving $l
			put cpu$l/online 0 || return
		done
		goes_on || return
		all_on || return
	done
}

ROUNDS=${ROUNDS:-1}
for d in $msi $msi $msi $pin $pin; do
	load $d &
done
result "both disks go on" rounds
echo "moves: $moves, not from the first CPU: $others" > /dev/console

# counts IRQ: how often it came on CPUs from 2 on
counts() {
	tr , ' ' < /sys/kernel/irq/$1/per_cpu_count |
		awk '{ for (i = 3; i <= NF; i++) n += $i; print n }'
}

# once: from CPU 1 to CPU 0, and not to one which goes in a later slice
once() {
	local irq=$(irqs $pin) n i

	read -r batch < /sys/module/cpuhp/parameters/batch
	echo 2 > /sys/module/cpuhp/parameters/batch
	for i in 1 2 3 4; do
		echo 1 > /proc/irq/$irq/smp_affinity_list
		goes_on
		echo 0-$LAST > /proc/irq/$irq/smp_affinity_list
		goes_on
		[ $(cat /proc/irq/$irq/effective_affinity_list) = 1 ] ||
			{ echo "not on CPU 1"; return 1; }
		n=$(counts $irq)
		put hotplug/offline 1-$LAST || return
		echo "$i: $n $(counts $irq)" > /dev/console
		[ $(counts $irq) = $n ] ||
			{ echo "moved to one that goes"; return 1; }
		goes_on && all_on || return
	done
	echo $batch > /sys/module/cpuhp/parameters/batch
}
result "an interrupt moves once" once

# stays: CPU 1 gives away the interrupt and can't go after all; then it gets it back,
# most likely with the vector that it had, which must not be in use any more
stays() {
	local irq=$(irqs $pin) full=/sys/module/cpuhp/parameters/full_cpu i on

	for i in 1 2 3 4; do
		for on in 1 0-$LAST; do
			echo $on > /proc/irq/$irq/smp_affinity_list
			goes_on || return
		done
		[ $(cat /proc/irq/$irq/effective_affinity_list) = 1 ] ||
			{ echo "not on CPU 1"; return 1; }
		echo 1 > $full
		! labctl write $CPU/cpu1/online 0 || { echo "CPU 1 went"; return 1; }
		echo -1 > $full
		[ $(cat /proc/irq/$irq/effective_affinity_list) != 1 ] ||
			{ echo "still on CPU 1"; return 1; }
		goes_on && all_on || return
	done
}
result "a CPU gives away an interrupt, stays and gets it back" stays
kill $(jobs -p)
BAD='offline CPUs|No irq handler|set affinity failed|move in progress'
BAD+='|WARNING|nobody cared'
result "nothing is said" eval '! dmesg | grep -E "$BAD"'
result "all online at the end" all_on
