# SPDX-License-Identifier: GPL-2.0
# What sysfs says about the CPUs: however they came up, it is to be the same.

# one program for hundreds of files
describe() {
	cd $CPU
	grep -s -d skip "" online present possible cpu[0-9]*/topology/* \
		cpu[0-9]*/cache/index*/* cpu[0-9]*/cpuidle/state*/name \
		../node/node*/cpulist
	find cpu[0-9]* | sort
	cd - > /dev/null
}
case $(cat /proc/cmdline) in
*maxcpus=*)
	# two of them: where bringup is parallel, primary threads come first
	[ "$(nproc --all)" -gt 2 ] && [ "$(nproc)" = 2 ] ||
		die "maxcpus=2: $(cat $CPU/online)"
	labctl write $CPU/hotplug/online all ;;
esac
# x86 has a list of features: four digits each, ascending, in the uevents too
if [ -e $CPU/modalias ]; then
	alias=$(cat $CPU/modalias)
	features=$(tr , '\n' <<< "${alias##*:feature:,}")
	grep -qvxE '[0-9A-F]{4}' <<< "$features" &&
		die "modalias: $alias"
	[ "$features" = "$(sort -u <<< "$features")" ] ||
		die "modalias is not in order: $alias"
	grep -qxF "MODALIAS=$alias" $CPU/cpu0/uevent ||
		die "uevent: $(cat $CPU/cpu0/uevent)"
fi
describe > /tmp/boot
labctl write $CPU/smt/control off || die "SMT off failed"
labctl write $CPU/smt/control on || die "SMT on failed"
describe > /tmp/again
file boot /tmp/boot
file again /tmp/again
