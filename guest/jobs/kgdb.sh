# SPDX-License-Identifier: GPL-2.0
# The kernel debugger stops all CPUs, at breakpoints and at each of some hundred
# single steps, while a slice goes and comes, which stays for 2 ms in each phase.
# It asks CPUs that have retired as well, and goes on without those that don't come.
# LASTS: its length.
#   make run JOB=guest/jobs/kgdb.sh PROFILE=kgdb ACCEL=mttcg
. /lab/prelude.sh
LASTS=${LASTS-60}
K=/sys/module/kgdbts/parameters/kgdbts
P=/sys/module/cpuhp/parameters/retire_delay_us
[ -e $K ] || die "no kgdbts: PROFILE=kgdb"
rest=$((CPUS / 2))-$((CPUS - 1))
echo 2000 > $P || die "no DEBUG_CPU_RETIRE"

switch() {
	local n=0

	while [ ! -e /tmp/end ]; do
		echo $rest > $CPU/hotplug/offline && echo $rest > $CPU/hotplug/online ||
			return
		n=$((n + 2))
	done
	echo $n
}
said() {
	dmesg | grep -c "$1"
}
switch > /tmp/switched &
end=$((SECONDS + LASTS)) runs=0
while [ $SECONDS -lt $end ]; do
	echo V1I100 > $K || die "kgdbts: $?"
	runs=$((runs + 1))
done
touch /tmp/end
wait $! && read -r n < /tmp/switched || n=0
echo "# $n operations, $runs times the tests of kgdb"
result "CPUs go and come while the debugger stops them" [ $n -ge 10 ]
# each run says so ten times and more
result "the debugger's own tests pass" \
	[ $(said "kgdbts:RUN") -ge $((runs * 5)) -a $(said "kgdbts: ERROR") = 0 ]
result "all CPUs come to it" [ $(said "Timed out waiting for secondary") = 0 ]
echo 0 > $P
result "all online at the end" want $THREADS
