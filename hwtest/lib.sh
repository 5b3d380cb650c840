# SPDX-License-Identifier: GPL-2.0
# What the distribution's shell, whichever it is, and that of a stage share: cpio
# archives without a cpio, the report, its summary. POSIX sh and awk.

# pad BYTES: zeros up to a multiple of 4
pad() {
	head -c $(((4 - $1 % 4) % 4)) /dev/zero
}

# cpio_entry NAME MODE SIZE: what comes before the content of a file ('newc')
cpio_entry() {
	printf '070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\0' \
		0 $(($2)) 0 0 1 0 "$3" 0 0 0 0 $((${#1} + 1)) 0 "$1"
	pad $((110 + ${#1} + 1))
}

# cpio_dir NAME
cpio_dir() {
	cpio_entry "$1" 040755 0
}

# cpio_file NAME FILE [MODE]
cpio_file() {
	cpio_size=$(wc -c < "$2")
	cpio_entry "$1" "${3:-0100644}" "$cpio_size"
	cat "$2"
	pad "$cpio_size"
}

cpio_end() {
	cpio_entry 'TRAILER!!!' 0 0
}

# cpio_files DIRECTORY NAME: the files in it, as NAME/...
cpio_files() {
	cpio_dir "$2"
	for cpio_each in "$1"/*; do
		[ ! -f "$cpio_each" ] ||
			cpio_file "$2/${cpio_each##*/}" "$cpio_each"
	done
}

# first FILE: the file, as the beginning of an initrd that others are added to
first() {
	cat "$1"
	pad "$(wc -c < "$1")"
}

# stage_initrd KIT REPORTS: of the next stage. The kit is in it once more, for the
# stages after that.
stage_initrd() {
	first "$1/root.cpio.gz"
	cpio_files "$1" kit
	cpio_files "$2" reports
	cpio_end
}

# home_initrd KIT REPORT...: of the distribution, with the report, and with what
# hands it on to /run
home_initrd() {
	first "$1/home-initrd"
	cpio_dir cpuhp-hwtest
	cpio_file cpuhp-hwtest/init "$1/home.sh" 0100755
	shift
	for home_each; do
		cpio_file "cpuhp-hwtest/${home_each##*/}" "$home_each"
	done
	cpio_end
}

# stage_parameters NUMBER KIT: the kernel parameters of a stage, the first is 1.
# Whatever hangs is to end in a panic, whose text firmware keeps, and a reset.
stage_parameters() {
	sed -n "$1s/^[^ ]* [^ ]* *//p" "$2/plan" | tr '\n' ' '
	echo "$(cat "$2/parameters") hwtest.stage=$1" \
		"panic=20 oops=panic nmi_watchdog=panic softlockup_panic=1" \
		"softdog.soft_panic=1 printk.devkmsg=on loglevel=5" \
		"crashkernel=2G-:384M pstore.kmsg_bytes=65536 pstore.compress=none"
}

# string TEXT: of JSON
string() {
	printf '%s' "$1" | tr '\n\t' '  ' | sed 's/[\\"]/\\&/g; s/.*/"&"/'
	[ -n "$1" ] || printf '""'
}

# report KIT REPORTS END: the whole of it, JSON. END: how it ended.
report() {
	printf '{"format": 1, "kit": %s, "end": %s,\n"machine": ' \
		"$(cat "$1/id.json")" "$(string "$3")"
	cat "$1/machine.json"
	printf ',\n"stages": ['
	report_sep=
	for report_each in "$2"/*.jsonl; do
		[ -f "$report_each" ] || continue
		report_name=${report_each##*/}
		printf '%s\n{"name": "%s", "records": [\n' "$report_sep" \
			"${report_name%.jsonl}"
		sed '$!s/$/,/' "$report_each"
		printf ']}'
		report_sep=,
	done
	printf ']}\n'
}

# summary KIT REPORTS END: 40 lines of it, for people
summary() {
	{
		echo "cpuhp-hwtest, $(sed 's/[{}"]//g' "$1/id.json")"
		sed 's/[{}"]//g' "$1/machine.json" | tr '\n' ' ' | fold -s -w 76
		echo
		echo "It ended: $3"
		for summary_each in "$2"/*.jsonl; do
			[ ! -f "$summary_each" ] ||
				sed "s,^,${summary_each##*/} ," "$summary_each"
		done | awk '
		function get(key,	m) {
			if (!match($0, "\"" key "\": \"[^\"]*\""))
				return ""
			m = substr($0, RSTART, RLENGTH)
			return substr(m, length(key) + 6, RLENGTH - length(key) - 6)
		}
		{
			sub(/\.jsonl$/, "", $1)
			stage = $1
			sub(/^[0-9]*-/, "", stage)
			kind = get("t")
		}
		kind == "stage" && !(stage in seen) {
			seen[stage] = 1
			names[++stages] = stage
		}
		kind == "sample" && get("status") == 0 {
			op = get("op")
			if (get("treatment") == "expedited")
				op = op ", rcu_expedited"
			if (!(op in known)) {
				known[op] = 1
				ops[++nops] = op
			}
			k = stage SUBSEP op
			ns = get("ns") + 0
			if (!(k in least) || ns < least[k])
				least[k] = ns
		}
		kind == "counts" {
			costs[stage, get("op")] = get("synchronize_rcu_normal") + 0 \
				"+" get("synchronize_rcu_expedited") + 0 "/" \
				get("stop_machine_cpuslocked") + 0 "/" \
				get("build_sched_domains") + 0
		}
		kind == "check" && get("ok") != "1" {
			failed[++nfailed] = stage ": " get("name") " " get("detail")
		}
		kind == "check" { checks++ }
		kind == "skip" { skips[get("name") ": " get("why")] = 1 }
		function row(name,	i) {
			printf "%-26s", name
			for (i = 1; i <= stages; i++)
				printf " %11s", names[i]
			print ""
		}
		function costrow(op,	i) {
			printf "%-26s", op
			for (i = 1; i <= stages; i++)
				printf " %11s", costs[names[i], op]
			print ""
		}
		END {
			row("shortest, ms")
			for (j = 1; j <= nops; j++) {
				printf "%-26s", ops[j]
				for (i = 1; i <= stages; i++) {
					k = names[i] SUBSEP ops[j]
					if (k in least)
						printf " %11.2f", least[k] / 1e6
					else
						printf " %11s", "-"
				}
				print ""
			}
			print "Grace periods normal+expedited/stops/rebuilds:"
			costrow("off")
			costrow("on")
			print checks - nfailed " checks passed, " nfailed + 0 " failed"
			for (i = 1; i <= nfailed && i <= 8; i++)
				print "  " substr(failed[i], 1, 150)
			for (s in skips)
				print "not run: " s
		}'
	} | head -n 40
}
