# SPDX-License-Identifier: GPL-2.0
# Cores come and go through QEMU, on pseries. The host's side is in lab/cases.py:
# make machines K=device_add. TCG can't plug a core in again that was unplugged,
# so each time is another.
# LOOPS: so many cores. SWITCH: SMT is switched meanwhile.
. /lab/prelude.sh
LOOPS=${LOOPS-12}
SWITCH=${SWITCH-}

touch /tmp/lock /tmp/run
if [ -n "$SWITCH" ]; then
	while [ -e /tmp/run ]; do
		for s in off on 2 1 4 on; do
			[ -e /tmp/run ] || break
			flock /tmp/lock labctl write $CPU/smt/control $s \
				> /dev/null 2>>/tmp/refused
			echo >> /tmp/switched
		done
	done &
fi

# settled in|out: the core is there as SMT has it, or gone
settled() {
	local c n=0 level

	read -r level < $CPU/smt/control
	expand_file $CPU/online
	for c in ${cpus[@]}; do
		n=$((n + (c >= CPUS)))
	done
	if [ $1 = out ]; then
		[ $n = 0 ] && [ "$(cat $CPU/present)" = 0-$((CPUS - 1)) ] && consistent
	else
		case $level in
		off) level=1 ;;
		on) level=$THREADS ;;
		esac
		[ $n = $level ] && consistent
	fi
}

wait_for() {
	local i

	for i in $(seq 1500); do
		(flock 9; settled $1) 9>/tmp/lock && return
		sleep 0.1
	done
	echo "online $(cat $CPU/online) present $(cat $CPU/present)" \
		"smt $(cat $CPU/smt/control)"
	return 1
}

emit ready
for k in $(seq $LOOPS); do
	wait_for in > /tmp/why || die "plugged in, $k: $(tail -3 /tmp/why)"
	emit added online "$(cat $CPU/online)"
	wait_for out > /tmp/why || die "unplugged, $k: $(tail -3 /tmp/why)"
	emit removed online "$(cat $CPU/online)"
done
rm /tmp/run
wait
result "SMT on" put smt/control on
result "all online at the end" want $THREADS
switched() {
	echo "switched $(wc -l < /tmp/switched) times"
	cat /tmp/refused
	[ "$(wc -l < /tmp/switched)" -gt $LOOPS ] && [ ! -s /tmp/refused ]
}
[ -z "$SWITCH" ] || result "SMT switched meanwhile" switched
