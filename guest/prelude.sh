# SPDX-License-Identifier: GPL-2.0
# What jobs that give results begin with: '. /lab/prelude.sh'. Siblings are
# neighbours on all of the lab's machines.

# Without a program where it goes: one takes as long as a hotplug operation.
# expand LIST: ${cpus[@]} of 0-2,5 are 0 1 2 5
expand() {
	local r c

	cpus=()
	for r in ${1//,/ }; do
		for ((c = ${r%-*}; c <= ${r#*-}; c++)); do
			cpus+=($c)
		done
	done
}

# expand_file FILE: its list
expand_file() {
	local list

	read -r list < $1
	expand "$list"
}

# consistent: all of sysfs and procfs says the same about who is online
consistent() {
	local c is on stat=

	expand_file $CPU/online
	on=" ${cpus[*]} "
	expand_file $CPU/present
	for c in ${cpus[@]}; do
		read -r is 2> /dev/null < $CPU/cpu$c/online || continue
		if [[ $on = *" $c "* ]]; then [ $is = 1 ]; else [ $is = 0 ]; fi ||
			{ echo "cpu$c/online: $is, all: $on"; return 1; }
	done
	while read -r c is; do
		[[ $c != cpu[0-9]* ]] || stat+=" ${c#cpu}"
	done < /proc/stat
	[ "$stat " = "$on" ] ||
		{ echo "/proc/stat: $stat, online: $on"; return 1; }
}

# want LEVEL [CPU...]: so many threads of each core are online, but not CPU
want() {
	local c n=$1 list=()

	shift
	for ((c = 0; c < CPUS; c++)); do
		[ $((c % THREADS)) -ge $n ] || [[ " $* " = *" $c "* ]] || list+=($c)
	done
	expand_file $CPU/online
	[ "${cpus[*]}" = "${list[*]}" ] ||
		{ echo "online: ${cpus[*]}, wanted: ${list[*]}"; return 1; }
	consistent
}

# put FILE TEXT: a write to a file below $CPU which must succeed
put() {
	labctl write $CPU/$1 "$2" > /dev/null || { echo "$2 > $1"; return 1; }
}

# refused FILE TEXT: ... and one which must fail
refused() {
	! labctl write $CPU/$1 "$2" > /dev/null 2>&1 ||
		{ echo "$2 > $1 succeeds"; return 1; }
}

# result NAME CMD...: a test of this boot
result() {
	local name=$1

	shift
	if "$@" > /tmp/why 2>&1; then
		emit check name "$name" ok 1
	else
		emit check name "$name" ok 0 detail "$(tail -c 1000 /tmp/why)"
	fi
}

# state_of NAME: the number of a hotplug state
state_of() {
	sed -n "s,^ *\([0-9]*\): $1\$,\1,p" $CPU/hotplug/states | grep . ||
		die "no state $1"
}

# range A B: the CPUs from A on, before B
range() { seq $1 $(($2 - 1)); }

# next_kernel: what kexec goes on with, SIZE bytes of the disk 'next', is
# /tmp/kernel then; its parameters are $second
next_kernel() {
	local disk

	disk=$(disk next) || die "no disk 'next'"
	head -c $SIZE $disk > /tmp/kernel
	second="$(sed 's/crashkernel=[^ ]*//' /proc/cmdline) lab.second"
}

# second_core: the DRC index of the second core of pseries
second_core() {
	local c

	for c in /proc/device-tree/cpus/PowerPC*; do
		echo $((16#${c##*@})) \
			$(od -An -tx1 $c/ibm,my-drc-index | tr -d ' \n')
	done | sort -n | sed -n '2s/.* //p'
}

# dlpar add|remove: the core with DRC index $core
dlpar() {
	put ../../../kernel/dlpar "cpu $1 index 0x$core"
}

all_on() {
	put hotplug/online all && want $THREADS
}

# CPUS, THREADS a core: the runner knows; where it did not say, those present
if [ -z "$CPUS" ]; then
	expand_file $CPU/present
	CPUS=${#cpus[@]}
fi
if [ -z "$THREADS" ]; then
	expand_file $CPU/cpu0/topology/thread_siblings_list
	THREADS=${#cpus[@]}
fi

# no_port CMD...: run it without the port of the records, which does not outlive
# a suspend that QEMU knows nothing of
no_port() {
	local status p i port driver=/sys/bus/virtio/drivers/virtio_console

	port=$(cd $driver && echo virtio*)
	echo $port > $driver/unbind
	"$@"
	status=$?
	echo $port > $driver/bind
	for i in $(seq 100); do
		for p in /sys/class/virtio-ports/*; do
			[ "$(cat $p/name 2> /dev/null)" = lab ] || continue
			LAB_PORT=/dev/${p##*/}
			return $status
		done
		sleep 0.1
	done
	echo "no port" > /dev/kmsg
	return 1
}
