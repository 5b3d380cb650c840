# SPDX-License-Identifier: GPL-2.0
# What the distribution's shell runs; lib.sh and what the kit is (KIT_ARCH, KIT_ID,
# KIT_LINE, KIT_SUM, KIT_MB) come before it in the file, a tar.gz after it.

ROOT=${CPUHP_ROOT:-}		# the lab's tests: files of another machine
WORK=$ROOT/run/cpuhp-hwtest-kit	# a tmpfs of its own: /run may be noexec
BACK=$ROOT/run/cpuhp-hwtest	# where the report is when all is over
STAGES="base patched serial stop"

usage() {
	cat <<-END
	usage: sh $0 [--yes] [--quick] [--stages "NAME..."] [--limit SECONDS]
	             [--kernel FILE --initrd FILE]
	       sh $0 --collect | --tests [--quick] | --show

	Measures and tests CPU hotplug on this machine with kernels that it boots
	by kexec from memory, unpatched and patched, and comes back. Nothing is
	installed, no disk is written. Without --yes it only says what it will do.

	--yes      do it: the machine shuts down like for a reboot
	--quick    less of everything
	--stages   some of: $STAGES
	--limit    seconds that a stage may take (1800, with --quick 600)
	--kernel, --initrd   what to come back to, of the running kernel
	--collect  the report of a run, also of one that ended with a crash
	--tests    the tests on the kernel that runs: one of the kit's packages
	--show     what is known of this machine, as it goes into the report
	END
}

die() {
	echo "error: $*" >&2
	exit 1
}

say() {
	echo "cpuhp-hwtest: $*"
}

# content FILE: its first line, nothing if it is not there
content() {
	head -n 1 "$ROOT$1" 2> /dev/null
}

# ---- what this machine is -------------------------------------------------

# machine: JSON. No names, addresses or serial numbers.
machine() {
	cpuinfo=$ROOT/proc/cpuinfo
	model=$(sed -n 's/^\(model name\|cpu\)[ \t]*: *//p' "$cpuinfo" | head -n 1)
	virt=none
	command -v systemd-detect-virt > /dev/null && virt=$(systemd-detect-virt)
	distro=$(. "$ROOT/etc/os-release" 2> /dev/null && echo "$PRETTY_NAME")
	product=$(content /sys/class/dmi/id/product_name)
	[ -n "$product" ] || product=$(tr -d '\0' 2> /dev/null \
		< "$ROOT/proc/device-tree/model")
	cat <<-END
	{"arch": $(string "$KIT_ARCH"), "model": $(string "$model"),
	 "product": $(string "$product"), "virtual": $(string "$virt"),
	 "distribution": $(string "$distro"), "kernel": $(string "$(uname -r)"),
	 "cpus": $(string "$(content /sys/devices/system/cpu/online)"),
	 "present": $(string "$(content /sys/devices/system/cpu/present)"),
	 "smt": $(string "$(content /sys/devices/system/cpu/smt/control)"),
	 "siblings": $(string "$(content /sys/devices/system/cpu/cpu0/topology/thread_siblings_list)"),
	 "nodes": $(string "$(content /sys/devices/system/node/online)"),
	 "memory_mb": $(string "$(memory MemTotal)"),
	 "firmware": $(string "$(content /sys/class/dmi/id/bios_version)"),
	 "lpar": $(string "$(grep -E '^(shared_processor_mode|capped|partition_entitled_capacity|system_active_processors|partition_active_processors)=' "$ROOT/proc/powerpc/lparcfg" 2> /dev/null)"),
	 "crash_kernel": $(string "$(content /sys/kernel/kexec_crash_loaded)")}
	END
}

# memory NAME: MiB
memory() {
	awk -v name="$1:" '$1 == name { print int($2 / 1024) }' "$ROOT/proc/meminfo"
}

# ---- whether it can be done -----------------------------------------------

by_hand="or install the kernels' packages and run the tests by hand: docs/hardware.md, 'Without kexec'"

check_machine() {
	arch=$(uname -m)
	[ "$arch" = "$KIT_ARCH" ] ||
		die "this kit is for $KIT_ARCH and this machine is $arch; take cpuhp-hwtest-$arch.run, if there is one ('make hwtest ARCH=$arch')"
	[ "$(id -u)" = 0 ] || die "this needs root; run it with sudo"
}

check_kexec() {
	[ -e "$ROOT/proc/sys/kernel/kexec_load_disabled" ] ||
		die "the running kernel has no kexec; boot the distribution's own one, $by_hand"
	case $(content /sys/kernel/security/lockdown) in
	*'[none]'* | '') ;;
	*)
		die "the kernel is locked down (Secure Boot) and takes only signed kernels; switch Secure Boot off in the firmware's setup for the test, $by_hand" ;;
	esac
	[ "$(content /proc/sys/kernel/kexec_load_disabled)" = 0 ] ||
		die "kexec was switched off until the next boot (kernel.kexec_load_disabled); look in /etc/sysctl.d, reboot, $by_hand"
	if guests=$(grep -lE '^(qemu|kvm$)' "$ROOT"/proc/[0-9]*/comm 2> /dev/null); then
		die "virtual machines run here (process $(echo "$guests" | tr -dc '0-9\n' | tr '\n' ' ')); shut them down first"
	fi
}

# find_home: $kernel and $initrd, the files that the running kernel was booted with
find_home() {
	v=$(uname -r)
	for f in "/boot/vmlinuz-$v" "/boot/vmlinux-$v" "/boot/Image-$v" \
		 "/lib/modules/$v/vmlinuz" "/usr/lib/modules/$v/vmlinuz"; do
		[ -n "$kernel" ] || [ ! -r "$ROOT$f" ] || kernel=$ROOT$f
	done
	for f in "/boot/initrd.img-$v" "/boot/initramfs-$v.img" "/boot/initrd-$v"; do
		[ -n "$initrd" ] || [ ! -r "$ROOT$f" ] || initrd=$ROOT$f
	done
	[ -r "$kernel" ] || die "the file of the running kernel, $v, was not found in /boot; name it with --kernel, and its initrd with --initrd"
	[ -r "$initrd" ] || die "the initrd of the running kernel, $v, was not found in /boot; name it with --initrd (there has to be one: the report comes back in it)"
	# what a stage unpacks, keeps, puts together and loads for the next one
	mb=$((KIT_MB + ($(wc -c < "$kernel") + $(wc -c < "$initrd")) / 1048576))
	[ "$(memory MemAvailable)" -ge $((mb * 6 + 768)) ] ||
		die "$(memory MemAvailable) MiB of memory are free and $((mb * 6 + 768)) are needed; stop what uses it, or give the virtual machine more"
}

# parameters: those of the running kernel which are about the machine and not
# about the distribution
parameters() {
	for p in $(cat "$ROOT/proc/cmdline"); do
		case $p in
		console=* | earlycon* | earlyprintk* | reboot=* | acpi* | pci=* | \
		pcie_* | iommu* | intel_iommu=* | amd_iommu=* | noapic | nox2apic | \
		efi=* | tsc=* | lpj=* | mitigations=* | nosmt* | disable_radix* | \
		xive=* | ramoops.* | memmap=* | nvme* | sched_*)
			printf '%s ' "$p" ;;
		esac
	done
}

# home_parameters: of the distribution, and what hands over the report
home_parameters() {
	for p in $(cat "$ROOT/proc/cmdline"); do
		case $p in
		BOOT_IMAGE=* | initrd=* | rdinit=*) ;;
		*)	printf '%s ' "$p" ;;
		esac
	done
	echo rdinit=/cpuhp-hwtest/init
}

# plan: a line for each stage: name, kernel, parameters
plan() {
	for s in $stages; do
		case $s in
		base)		set -- kernel-base ;;
		patched)	set -- kernel-patched ;;
		serial)		set -- kernel-patched cpuhp.parallel=0 ;;
		stop)		set -- kernel-patched cpuhp.stop=1 ;;
		*)		die "there is no stage '$s'; some of: $STAGES" ;;
		esac
		[ "$s" != "$hang" ] || set -- "$@" hwtest.hang
		echo "$s $* hwtest.limit=$limit${quick:+ hwtest.quick}"
	done
}

# ---- doing it -------------------------------------------------------------

# unpack: the kit into memory
unpack() {
	! mountpoint -q "$WORK" || umount "$WORK" || die "$WORK is in use; umount it"
	mkdir -p "$WORK"
	mount -t tmpfs -o "mode=700,size=$((${mb:-$KIT_MB} * 6 + 512))m" tmpfs "$WORK" ||
		die "cannot mount a tmpfs on $WORK"
	mkdir "$WORK/kit" "$WORK/reports"
	tail -n "+$KIT_LINE" "$0" > "$WORK/kit.tar.gz"
	[ "$(sha256sum < "$WORK/kit.tar.gz" | cut -d ' ' -f 1)" = "$KIT_SUM" ] ||
		{ umount "$WORK"; die "$0 is damaged; copy it again (as binary)"; }
	tar -xzf "$WORK/kit.tar.gz" -C "$WORK/kit" ||
		{ umount "$WORK"; die "cannot unpack the kit; tar and gzip are needed"; }
	rm "$WORK/kit.tar.gz"
	machine > "$WORK/kit/machine.json"
}

begin() {
	unpack
	kit=$WORK/kit
	cp "$kernel" "$kit/home-kernel" && cp "$initrd" "$kit/home-initrd" ||
		die "cannot read $kernel and $initrd"
	home_parameters > "$kit/home-parameters"
	parameters > "$kit/parameters"
	plan > "$kit/plan"
	# shellcheck disable=SC2034 # word 2 of the first line
	read -r name file rest < "$kit/plan"
	stage_initrd "$kit" "$WORK/reports" > "$WORK/initrd" ||
		{ umount "$WORK"; die "no memory for the initrd in $WORK"; }
	load "$kit/$file" "$WORK/initrd" "$(stage_parameters 1 "$kit")" || {
		umount "$WORK"
		die "the running kernel refuses kexec; switch off Secure Boot, $by_hand"
	}
	rm "$WORK/initrd"
	say "shutting down, and into the first stage, $name"
	sync
	if [ -d /run/systemd/system ]; then
		systemctl kexec
	else
		echo u > /proc/sysrq-trigger	# all file systems read-only
		"$kit/hwctl" kexec
	fi
}

# load KERNEL INITRD PARAMETERS
load() {
	"$kit/hwctl" load "$@" && return
	command -v kexec > /dev/null || return
	kexec -l "$1" --initrd="$2" --append="$3"
}

# ---- afterwards -----------------------------------------------------------

# last_words: of the kernel log that firmware kept, in order: /sys/fs/pstore, or
# where systemd puts it
last_words() {
	for f in $(find "$ROOT/sys/fs/pstore" "$ROOT/var/lib/systemd/pstore" \
			-type f -name '*dmesg*' ! -name '*.enc.z' 2> /dev/null); do
		# Panic#1 Part7: the last one comes first in time
		sed -n '1s/.*Part\([0-9]*\).*/\1/p' "$f" | sed "s,\$, $f,"
	done | sort -rn | cut -d ' ' -f 2- | while read -r f; do
		sed 1d "$f"
	done
}

# from_words FILE DIRECTORY: the records of stages in a kernel log
from_words() {
	sed -n 's/.*cpuhp-hwtest: \([0-9]*-[a-z]*\) \({.*}\).*/\1 \2/p' "$1" |
		while read -r name record; do
			echo "$record" >> "$2/$name.jsonl"
		done
}

# died FILE: where the one that the kernel log is from ended
died() {
	sed -n 's/.*cpuhp-hwtest: \([0-9]*-[a-z]*\) begins \(.*\)/died in stage \1, test \2/p' \
		"$1" | tail -n 1
}

collect() {
	if [ -e "$BACK/cpuhp-hwtest.json.gz" ]; then
		cat "$BACK/cpuhp-hwtest.txt"
		say "the report: $BACK/cpuhp-hwtest.json.gz"
		return
	fi
	tmp=$(mktemp -d "$ROOT/run/cpuhp-hwtest-XXXXXX") || exit
	mkdir "$tmp/reports"
	last_words > "$tmp/log"
	end=$(died "$tmp/log")
	[ -n "$end" ] || {
		rm -r "$tmp"
		die "no report in $BACK, and no kernel log of a stage in /sys/fs/pstore or /var/lib/systemd/pstore; where firmware keeps none (no ERST, NVRAM or EFI variables), attach a serial console and run it again"
	}
	from_words "$tmp/log" "$tmp/reports"
	printf '{"t": "file", "name": "dmesg", "base64": "%s"}\n' \
		"$(gzip -9 < "$tmp/log" | base64 | tr -d '\n')" > "$tmp/reports/99-pstore.jsonl"
	machine > "$tmp/machine.json"
	echo "$KIT_ID" > "$tmp/id.json"
	mkdir -p "$BACK"
	report "$tmp" "$tmp/reports" "$end" | gzip -9 > "$BACK/cpuhp-hwtest.json.gz"
	summary "$tmp" "$tmp/reports" "$end" > "$BACK/cpuhp-hwtest.txt"
	rm -r "$tmp"
	collect
	say "$end. The stages after it: --stages. Empty /sys/fs/pstore first."
}

# by_hand_tests: on a kernel that was booted from disk
by_hand_tests() {
	check_machine
	command -v cpio > /dev/null || die "no cpio here; install it"
	unpack
	kit=$WORK/kit
	root=$WORK/root
	mkdir "$root"
	(cd "$root" && gzip -dc "$kit/root.cpio.gz" | cpio -idm --quiet) || die "cpio failed"
	for d in proc sys dev; do
		mount --rbind "/$d" "$root/$d" && mount --make-rslave "$root/$d"
	done
	mkdir -p "$root/kit" "$root/reports"
	cp "$kit/machine.json" "$kit/id.json" "$root/kit/"
	chroot "$root" /hwtest/tests.sh "01-$(uname -r | sed 's/.*-//')" \
		"${quick:-0}"
	end="by hand, $(uname -r)"
	mkdir -p "$BACK"
	report "$kit" "$root/reports" "$end" | gzip -9 > "$BACK/cpuhp-hwtest.json.gz"
	summary "$kit" "$root/reports" "$end" > "$BACK/cpuhp-hwtest.txt"
	for d in proc sys dev; do
		umount -R "$root/$d"
	done
	umount "$WORK"
	collect
}

yes='' quick='' stages=$STAGES limit='' kernel='' initrd='' hang='' todo=run
while [ $# -gt 0 ]; do
	case $1 in
	--yes)		yes=1 ;;
	--quick)	quick=1 ;;
	--collect | --tests | --show)
			todo=${1#--} ;;
	--stages | --limit | --kernel | --initrd | --hang)
		[ $# -gt 1 ] || die "$1 needs a value; see --help"
		case $1 in
		--stages)	stages=$2 ;;
		--limit)	limit=$2 ;;
		--kernel)	kernel=$2 ;;
		--initrd)	initrd=$2 ;;
		--hang)		hang=$2 ;;	# the lab's: a stage that stops
		esac
		shift ;;
	--help)		usage; exit ;;
	*)		die "there is no option $1; see --help" ;;
	esac
	shift
done
limit=${limit:-$([ -n "$quick" ] && echo 600 || echo 1800)}
case $limit in
*[!0-9]* | '' | ?????*) die "--limit $limit: seconds, below 10000" ;;
esac
plan > /dev/null || exit

case $todo in
collect)	collect; exit ;;
tests)		by_hand_tests; exit ;;
show)		machine; exit ;;
esac
check_machine
check_kexec
find_home
cat <<END
This will, on this machine ($(content /sys/devices/system/cpu/online) online, $(memory MemTotal) MiB):
 - unpack itself to memory ($WORK) and read $kernel
   and $initrd, to come back to them;
 - shut down as for a reboot, and boot these one after the other, by kexec,
   from memory: $stages;
 - in each take CPUs offline and online, at most $limit seconds long. Disks are
   read, never written or mounted. A stage that hangs ends in a panic and a reset;
 - come back to the running kernel, $(uname -r), with the report in
   $BACK. 'sh $0 --collect' shows it, or finds what is
   left of a run that crashed.
Nothing is installed. Whatever runs here is ended by the shutdown. Should firmware
itself hang, only its service processor (BMC, HMC) or the power switch helps.
END
if [ -z "$yes" ]; then
	echo "Nothing was changed. To do it: sh $0 --yes"
	exit
fi
begin
