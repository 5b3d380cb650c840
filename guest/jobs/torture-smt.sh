# SPDX-License-Identifier: GPL-2.0
# SMT levels at random under load for LASTS; SEED decides about them. With
# ACCEL=mttcg: busy CPUs take the host ten times as long in virtual time.
. /lab/prelude.sh
LASTS=${LASTS-20}
SEED=${SEED-1}

RANDOM=$SEED
nice -n 19 stress-ng --quiet --temp-path /tmp --fork 1 --mmap 1 --mmap-bytes 8m \
	--timer 1 --switch 2 --affinity 1 > /dev/null 2>&1 &
load=$!
end=$((SECONDS + $LASTS)) n=0
while [ $SECONDS -lt $end ]; do
	n=$((n + 1))
	level=$((1 << RANDOM % 4))
	[ $level -le $THREADS ] && [ $(uname -m) = ppc64le ] || level=1
	[ $level = 1 ] && level=off
	echo $level > $CPU/smt/control || die "SMT $level failed in round $n"
	want=$((CPUS / THREADS * ${level/off/1}))
	[ "$(grep -c '^cpu[0-9]' /proc/stat)" = $want ] ||
		die "SMT $level: $(cat $CPU/online) in round $n"
	echo on > $CPU/smt/control || die "SMT on failed in round $n"
	[ "$(grep -c '^cpu[0-9]' /proc/stat)" = $CPUS ] ||
		die "SMT on: $(cat $CPU/online) in round $n"
done
kill $load
wait
echo "# $n rounds"
