# SPDX-License-Identifier: GPL-2.0
# After nosmt, smt-enabled= and the like (APPEND=).
# AT_BOOT: so many threads a core are online. FORCED: there are never more.
. /lab/prelude.sh
AT_BOOT=${AT_BOOT-1}
FORCED=${FORCED-}

at_boot() {
	want $AT_BOOT
}

forced() {
	refused smt/control on && want $AT_BOOT && refused hotplug/online 1 &&
		want $AT_BOOT
}

back() {
	put smt/control off && want 1 && put smt/control on && want $THREADS
}

result "as asked" at_boot
if [ -n "$FORCED" ]; then
	result "stays so" forced
else
	result "SMT on" put smt/control on
	result "all online" want $THREADS
	result "off and on" back
fi
