# SPDX-License-Identifier: GPL-2.0
# CPUs whose APIC timers stop get timers of the HPET instead, one each, also when a
# CPU fails to go: q35 with CPU model Skylake-Server,-arat and, of QEMU, -global
# hpet.msi=on -global hpet.timers=8
. /lab/prelude.sh

# channels: all CPUs that are online have one, and one only
channels() {
	local d have

	have=$(for d in /proc/irq/*/hpet[0-9]*; do
		cat ${d%/*}/effective_affinity_list
	done | sort -n | paste -sd " ")
	expand_file $CPU/online
	[ "$have" = "${cpus[*]}" ] ||
		{ echo "channels of CPUs $have, online: ${cpus[*]}"; return 1; }
}

# while the channel of another CPU is free, which then comes
sent_back() {
	local state last=$((CPUS - 1))

	state=$(state_of workqueue:online)
	put cpu$last/online 0 && channels &&
		echo $((state)) > $CPU/cpu1/hotplug/fail || return
	refused cpu1/online 0 && channels && all_on && channels
}

come_and_go() {
	put hotplug/offline 1-$((CPUS - 1)) && channels && all_on && channels
}

result "a channel for each CPU" channels
result "a CPU fails to go" sent_back
result "CPUs go and come" come_and_go
result "all online at the end" want $THREADS
