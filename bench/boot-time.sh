# SPDX-License-Identifier: GPL-2.0
# How long boot takes to bring all CPUs up, from the kernel's own time stamps:
#   make run JOB=bench/boot-time.sh CPUS=64 [ARCH=ppc64le] [VARIANT=base]
# APPEND=cpuhp.parallel=0 is one after the other.
dmesg | awk '
	/smp: Bringing up secondary/ { from = $0 }
	/smp: Brought up/ { to = $0 }
	function at(s) { match(s, /[0-9]+\.[0-9]+/); return substr(s, RSTART, RLENGTH) }
	END {
		if (!from || !to) { print "no time stamps"; exit 1 }
		printf "%d CPUs up after %.1f ms\n", n, (at(to) - at(from)) * 1000
	}' n="$(nproc --all)" || die "dmesg does not say when CPUs came up"
