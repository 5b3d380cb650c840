# SPDX-License-Identifier: GPL-2.0
# SMT off and on: times of three cycles, calls for one.

for i in 1 2 3; do
	timed off - $i labctl write $CPU/smt/control off || die "SMT off failed"
	timed on - $i labctl write $CPU/smt/control on || die "SMT on failed"
done
COUNTED_MORE=cpuidle_uninstall_idle_handler
counted off - labctl write $CPU/smt/control off
counted on - labctl write $CPU/smt/control on
