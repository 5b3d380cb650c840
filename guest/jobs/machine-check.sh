# SPDX-License-Identifier: GPL-2.0
# A machine check is broadcast while CPUs wait to be released, on q35. The host's
# side is in lab/cases.py: make machines K=machine_check
. /lab/prelude.sh

PARAM=/sys/module/cpuhp/parameters
FROM=$((CPUS / 2))
echo 8000000 > $PARAM/ap_delay_us
echo $FROM > $PARAM/ap_delay_cpu
put hotplug/offline $FROM-$((CPUS - 1))
dmesg -C
emit ready
result "CPUs come, one after 8 s" put hotplug/online $FROM-$((CPUS - 1))
echo 0 > $PARAM/ap_delay_us
result "machine check while one was awaited" awk '
	/Machine Check Exception/ { seen = NR }
	/Booting Node/ { booting = booting ? booting : NR }
	{ print }
	END { exit !(booting && seen > booting) }' <(dmesg | tail -n 50)
result "all online at the end" all_on
