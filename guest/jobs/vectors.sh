# SPDX-License-Identifier: GPL-2.0
# More interrupts than one CPU has vectors for, on q35: make machines K=vectors
. /lab/prelude.sh

LAST=$((CPUS - 1))
TRACE=/sys/kernel/tracing
ACTIVE=$(sed -n 's/^ *\([0-9]*\): sched:active$/\1/p' $CPU/hotplug/states)
[ -n "$ACTIVE" ] && echo 1 > $TRACE/events/cpuhp/cpuhp_failed/enable ||
	die "no trace of CPUs that have to stay"

# interrupts: how many there are of the devices
interrupts() {
	grep -c virtio /proc/interrupts
}

# homeless: none of them is for CPUs that are offline only
homeless() {
	local d c

	expand_file $CPU/online
	for d in /proc/irq/*/virtio*; do
		read -r c < ${d%/*}/effective_affinity_list || return
		[[ " ${cpus[*]} " = *" $c "* ]] || { echo "$d: $c"; return 1; }
	done
}

# crowded FILE TEXT: no space for the vectors of all of them; only those go for
# which there is, and the others are told so before anybody has moved
crowded() {
	dmesg -C
	echo > $TRACE/trace
	labctl write $CPU/$1 "$2" > /dev/null 2> /tmp/full &&
		{ echo "$2 > $1 succeeds"; return 1; }
	grep "No space left" /tmp/full || { cat /tmp/full; return 1; }
	dmesg | grep "No room for the vectors of CPU $2 elsewhere" || return
	grep "cpuhp_failed: .* step: *$ACTIVE " $TRACE/trace || return
	grep cpuhp_failed: $TRACE/trace | grep -v " step: *$ACTIVE " && return 1
	[ $(interrupts) = $ALL ] || { echo "$(interrupts) interrupts"; return 1; }
	homeless && consistent || return
	# as many as would go one by one
	expand_file $CPU/online
	[ ${#cpus[@]} = $STAY ] || { echo "online: ${cpus[*]}"; return 1; }
}

alone() {
	local c

	for ((c = 1; c <= LAST; c++)); do
		labctl write $CPU/cpu$c/online 0 > /dev/null 2> /tmp/full || break
	done
	[ $c -le $LAST ] && grep "No space left" /tmp/full || return
	STAY=$((CPUS - c + 1))
	homeless && consistent && put hotplug/online all && want $THREADS
}

list() {
	crowded hotplug/offline 1-$LAST && all_on
}

smt() {
	put smt/control off && want 1 && homeless &&
		! labctl write $CPU/hotplug/offline 2-$LAST > /dev/null &&
		consistent && put smt/control on && want $THREADS
}

ALL=$(interrupts)
[ $ALL -gt 250 ] || die "$ALL interrupts are not enough"
result "CPUs go one by one until there is no space" alone
result "a list" list
result "SMT off" smt
result "all online at the end" all_on
