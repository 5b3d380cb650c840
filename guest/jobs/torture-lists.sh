# SPDX-License-Identifier: GPL-2.0
# Lists and SMT at random, which SEED decides about, without end: make run LIMIT=60
. /lab/prelude.sh
SEED=${SEED-1}

RANDOM=$SEED
while sleep 0.$((RANDOM % 10)); do
	list=
	for ((cpu = 1; cpu < $CPUS; cpu++)); do
		[ $((RANDOM % 2)) = 0 ] || list+=,$cpu
	done
	case $((RANDOM % 6)) in
	0|1)
		echo ${list#,} > $CPU/hotplug/offline ;;
	2|3)
		echo ${list#,} > $CPU/hotplug/online ;;
	4)
		echo off > $CPU/smt/control ;;
	*)
		echo on > $CPU/smt/control ;;
	esac
done 2>/dev/null
