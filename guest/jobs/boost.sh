# SPDX-License-Identifier: GPL-2.0
# acpi-cpufreq with boost disabled: a CPU that goes offline allows it again on
# itself, so that it keeps nobody else from boosting, and on no other. To be booted
# with setcpuid=ida: QEMU's CPUs have the bit, and do not say what it is for.
# make machines K=boost
. /lab/prelude.sh

# off: boost is disabled on all CPUs that are online, by their MISC_ENABLE
off() {
	local c msr

	expand_file $CPU/online
	for c in ${cpus[@]}; do
		# at 0x1a0, which is 52 times 8
		msr=$(dd if=/dev/cpu/$c/msr bs=8 skip=52 count=1 status=none |
			od -An -td8) && [ $msr ] || { echo "no MSR"; return 1; }
		[ $((msr >> 38 & 1)) = 1 ] ||
			{ echo "CPU $c may boost: $msr"; return 1; }
	done
}

result "it can be disabled" eval 'put cpufreq/boost 0 && off'
result "a CPU goes and comes" eval 'put cpu3/online 0 && off && put cpu3/online 1 && off'
result "a list" eval 'put hotplug/offline 1-2,5 && off && all_on && off'
result "SMT" eval 'put smt/control off && off && put smt/control on && off'
