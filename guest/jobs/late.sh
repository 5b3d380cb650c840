# SPDX-License-Identifier: GPL-2.0
# CPUs do not come alive at boot until it is too late: ACCEL=mttcg
# APPEND='cpuhp.ap_delay_us=30000000 cpuhp.ap_delay_cpu=3'; LATE: these.
. /lab/prelude.sh
LATE=${LATE-3}

PARAM=/sys/module/cpuhp/parameters
given_up() {
	want $THREADS $LATE
}

# the primary threads at the same time, then the others, not one timeout of 10 s
# for each
together() {
	dmesg | grep 'failed to report alive' | sed 's/[^0-9.]*\([0-9.]*\).*/\1/' |
		awk -v n=$(wc -w <<< "$LATE") '
			{ if (!first) first = $1; last = $1 }
			END { print NR, first, last
			      exit NR != n || last - first > 12 }'
}

# where they can they stop when they come, and are seen dead a while later
died() {
	local c i

	for c in $LATE; do
		for i in $(seq 45); do
			! dmesg | grep -q "CPU$c was given up, and is dead" ||
				continue 2
			sleep 1
		done
		echo "CPU $c runs"
		return 1
	done
}

# they are dead or wait by now, and answer another kick
later() {
	[ $(uname -m) = ppc64le ] || sleep 25
	echo 0 > $PARAM/ap_delay_us
	echo 0 > $PARAM/race_delay_us
	all_on && put hotplug/offline 1-$((CPUS - 1)) && all_on
}

# more than the 10 s that others get: an LPAR may have to wait for a processor
patient() {
	echo 15000000 > $PARAM/ap_delay_us
	put hotplug/offline ${LATE// /,} && all_on
	local status=$?
	echo 0 > $PARAM/ap_delay_us
	return $status
}

result "the others came" given_up
result "given up together" together
[ $(uname -m) != ppc64le ] || result "they die" died
result "they come later" later
[ $(uname -m) != ppc64le ] || result "15 s are not too long" patient
