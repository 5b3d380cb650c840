# SPDX-License-Identifier: GPL-2.0
# The job of 'make offcpu': bcc's offcputime while one task writes off and on to
# smt/control; folded stacks of all tasks come back as off.folded, on.folded.

KPROBES=/sys/kernel/debug/kprobes/list

# bcc's clang sees the headers of a kernel that GCC built, and does not know
# what powerpc's inline assembly asks GCC for
tool=$(command -v offcputime-bpfcc)
[ "$(uname -m)" != ppc64le ] || {
	define='#undef DS_FORM_CONSTRAINT\n#define DS_FORM_CONSTRAINT "m"'
	sed "s,#include <uapi/linux/ptrace.h>,#include <asm/asm-compat.h>\n$define\n&," \
		$tool > offcputime
	grep -q '^#undef DS_FORM' offcputime || die "offcputime is another one now"
	tool="python3 offcputime"
}

# offcpu OP: trace everything, then write
offcpu() {
	local op=$1 tracer writer
	while grep -qs finish_task_switch $KPROBES; do	# the one before
		sleep 0.1
	done
	rm -f go && mkfifo go
	( read -r < go; exec labctl write $CPU/smt/control $op ) > ns 2> err &
	writer=$!
	# bash lets what it starts in the background ignore Ctrl-C
	env --default-signal=INT $tool -K -f \
		--stack-storage-size 16384 > $op.folded 2> tracer.err &
	tracer=$!
	until grep -qs finish_task_switch $KPROBES; do
		kill -0 $tracer 2> /dev/null ||
			die "offcputime ended: $(tail -n 3 tracer.err)"
		sleep 0.1
	done
	sleep 1
	echo > go
	wait $writer || die "SMT $op failed: $(cat err)"
	kill -INT $tracer
	wait $tracer || die "offcputime failed: $(tail -n 3 tracer.err)"
	grep WARNING tracer.err
	emit offcpu op $op ns "$(cat ns)" online "$(cat $CPU/online)"
	file $op.folded $op.folded
}

emit tool bcc "$(python3 -c "import bcc; print(bcc.__version__)")"
offcpu off
offcpu on
