# SPDX-License-Identifier: GPL-2.0
# CPUs that were given up are started anew, out of what they are doing, on q35
# with ACCEL=mttcg. Without a sane preempt count more than half of them complained
# in the first round, in one boot of three; in two of two when they were 20 s
# late.
. /lab/prelude.sh

PARAM=/sys/module/cpuhp/parameters
again() {
	put hotplug/offline 1-$((CPUS - 1)) || return
	# longer than all tries take: who comes was started anew
	echo 60000000 > $PARAM/ap_delay_us
	! all_on && [ "$(cat $CPU/online)" = 0 ] ||
		{ echo "they were not late"; return 1; }
	echo 0 > $PARAM/ap_delay_us
	# a busy host may be late itself
	all_on || all_on || all_on
}
for round in 1 2; do
	result "started while they are late, round $round" again
done
result "all online at the end" want $THREADS
