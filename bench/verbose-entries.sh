# SPDX-License-Identifier: GPL-2.0
# Files and directories made and removed below sched/domains in debugfs by one
# SMT off and one SMT on, with verbose on; one cycle where the scenario
# 'verbose', which measures time as well, takes very long:
#   make run JOB=bench/verbose-entries.sh ARCH=ppc64le CPUS=128 [VARIANT=base]
COUNTED_MORE="debugfs_start_creating remove_one"
# with Y once more, which waits until the files are up to date
V=/sys/kernel/debug/sched/verbose
echo Y > $V
counted off - labctl write $CPU/smt/control off $V Y
counted on - labctl write $CPU/smt/control on $V Y
