# SPDX-License-Identifier: GPL-2.0
# CPU 0 keeps the time for nohz_full CPUs, and may be asked to go, as on pseries: it
# stays, and CPU 1 finds somebody for its timers. Else it oopsed when it died:
# make run ARCH=ppc64le CPUS=8 THREADS=1 PROFILE=nohz APPEND=nohz_full=2-7
. /lab/prelude.sh

together() {
	refused hotplug/offline 0-1 && want 1 1 && all_on
}

# the unpatched kernel panics: CPU 0 is online, and not active
parked() {
	local n

	for n in $(sed -n '/sched:active/q; s/^ *\([0-9]*\): .*/\1/p' $CPU/hotplug/states); do
		refused cpu0/hotplug/target $n || return
	done
	put cpu1/online 0 && want 1 1 && all_on
}

alone() {
	put cpu1/online 0 && refused cpu0/online 0 && want 1 1 && all_on
}

[ "$(cat $CPU/nohz_full)" = 2-7 ] || die "nohz_full: $(cat $CPU/nohz_full)"
result "all housekeeping CPUs are to go together" together
result "the timekeeper is to be parked" parked
result "the timekeeper is to go alone" alone
result "all online at the end" all_on
