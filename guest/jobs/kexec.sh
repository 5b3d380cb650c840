# SPDX-License-Identifier: GPL-2.0
# kexec with CPUs offline: make run DISK=next=kernel
# BEFORE: what that is called. PREPARE: what takes them offline. SIZE: bytes of
# the kernel on the disk 'next', which the runner gives. SWITCH=: the second kernel
# boots on another CPU and numbers them otherwise, so which are threads of a core?
. /lab/prelude.sh
BEFORE=${BEFORE-SMT off}
PREPARE=${PREPARE-put smt/control off}
SWITCH=${SWITCH-1}

if grep -q lab.second /proc/cmdline; then
	result "the second kernel has all CPUs" want $THREADS
	[ ! $SWITCH ] || result "it switches SMT" eval 'put smt/control off && want 1 &&
		put smt/control on && want $THREADS'
	exit 0
fi

next_kernel

result "$BEFORE" eval "$PREPARE"
kexec -s -l /tmp/kernel --append="$second" || die "kexec -l: $?"
kexec -e -x
die "kexec -e came back"
