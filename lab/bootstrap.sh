#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Make a fresh Debian able to run the lab: 'bootstrap.sh [SET]...', with sets
#   base     packages, QEMU >= 10, a Python environment
#   cross    compilers for other architectures: make compile-matrix
#   foreign  compiler and QEMU for RISC-V: make foreign
#   arm64    compiler, QEMU and firmware for arm64: ARCH=arm64
#   scx      what sched_ext's tests are made with: make scx
#   hwtest   what makes packages: make hwtest PACKAGES=1
# With base (or nothing) it prints the interpreter to use on its last line of
# stdout; everything else goes to stderr. Changes nothing when all is there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${CPUHP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cpuhp-lab}

die() {
	# whatever failed on a full disk failed because of that
	free=$(df -Pk "$cache" 2>/dev/null | sed -n '$s/^\([^ ]* *\)\{3\}\([0-9]*\).*/\2/p') || free=
	[ "${free:-102400}" -ge 102400 ] ||
		set -- "the disk of $cache is full; free some space or set CPUHP_CACHE to another disk"
	echo "error: $*" >&2
	exit 1
}

mkdir -p "$cache" || die "cannot write $cache; set CPUHP_CACHE to a directory with 20 GB free"

base="acpica-tools arch-test gpg procps uidmap git gcc g++ libc6-dev flex bison bc ccache libelf-dev libssl-dev
	gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross mmdebstrap
	squashfs-tools squashfs-tools-ng cpio xz-utils rsync perl curl kmod
	make python3 python3-venv debian-archive-keyring ca-certificates"
cross="gcc-aarch64-linux-gnu gcc-arm-linux-gnueabihf gcc-riscv64-linux-gnu
	gcc-mipsel-linux-gnu gcc-s390x-linux-gnu gcc-hppa-linux-gnu"
foreign=gcc-riscv64-linux-gnu
arm64="device-tree-compiler gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-efi-aarch64"
hwtest="dpkg-dev debhelper rpm"
scx="clang-19 llvm-19 dwarves libelf-dev libzstd-dev zlib1g-dev"

# two first runs must not install into each other
exec 9>"$cache/lock-bootstrap"
flock -n 9 || {
	echo "   another run of the lab holds $cache/lock-bootstrap; waiting for it" >&2
	flock 9
}

missing() {
	for p; do
		dpkg-query -W -f='${Status}' "$p" 2>/dev/null |
			grep -q '^install ok installed' || printf ' %s' "$p"
	done
}

# the first number of the version, 0 without the program
qemu_major() {
	v=$("$1" --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p')
	echo "${v:-0}"
}

# who may install: root, or sudo; the command that somebody else may run
may_install() {
	[ "$(id -u)" = 0 ] || { command -v sudo >/dev/null &&
		{ [ -t 0 ] || sudo -n true 2>/dev/null; }; } ||
		die "packages are missing and there is neither root nor sudo here. Run as root: $*"
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		DEBIAN_FRONTEND=noninteractive "$@" >"$cache/apt.log" 2>&1
	else
		sudo DEBIAN_FRONTEND=noninteractive "$@" >"$cache/apt.log" 2>&1
	fi
}

apt_quiet() {
	as_root "$@" || {
		tail -n 5 "$cache/apt.log" >&2
		die "'$*' failed (log: $cache/apt.log); see that the network and apt's sources work, then run it again"
	}
}

# install SET PACKAGE...: those that are missing
install() {
	set=$1
	shift
	need=$(missing "$@")
	[ -n "$need" ] || return 0
	cmd="apt-get install -y --no-install-recommends$need"
	if [ -n "${CPUHP_NO_DEPS:-}" ]; then
		[ "$set" = base ] && return
		die "packages are missing; run as root: $cmd"
	fi
	may_install "$cmd"
	echo "== packages:$need (usually 1 min)" >&2
	# a third-party source which fails must not stop Debian's own
	as_root apt-get update || true
	if [ "$set" = cross ]; then
		# a release may not have all of them: who needs one says so
		for p in $need; do
			apt-cache show "$p" >/dev/null 2>&1 && known="${known:-} $p"
		done
		cmd="apt-get install -y --no-install-recommends${known:-}"
	fi
	apt_quiet $cmd
}

# install_qemu "PROGRAM..." "PACKAGE...": version 10 or newer, from the
# release's backports if need be
install_qemu() {
	programs=$1 packages=$2
	for q in $programs; do
		[ "$(qemu_major "$q")" -ge 10 ] || break
		q=
	done
	[ -n "$q" ] || return 0
	if [ -z "${CPUHP_NO_DEPS:-}" ]; then
		codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
		get="apt-get install -y --no-install-recommends"
		set -- "$here/apt-private.sh" "$cache/apt-qemu" \
			"$(dpkg --print-architecture)" "$codename" \
			"$codename-updates" "$codename-backports" -- sh -c \
			"apt-get update || true; $get -t $codename-backports $packages || $get $packages"
		may_install "$*"
		echo "== packages: $packages, version 10 or newer, from $codename or $codename-backports (usually 1 min)" >&2
		apt_quiet "$@"
	fi
	for q in $programs; do
		m=$(qemu_major "$q")
		[ "$m" -ge 10 ] ||
			die "$q is version $m, 10 or newer is needed (7.2 cannot do SMT on pseries); install $packages from your release's backports"
	done
}

[ -n "${CPUHP_NO_DEPS:-}" ] || command -v dpkg-query >/dev/null ||
	die "this is no Debian; install by hand:" $base \
	    "and QEMU >= 10 for x86 and ppc, then set CPUHP_NO_DEPS=1"
for set in ${*:-base}; do
	case $set in
	base)
		install base $base
		install_qemu "qemu-system-ppc64 qemu-system-x86_64" \
			"qemu-system-x86 qemu-system-ppc" ;;
	cross)
		install cross $cross ;;
	foreign)
		install foreign $foreign
		install_qemu qemu-system-riscv64 "qemu-system-riscv opensbi" ;;
	arm64)
		install arm64 $arm64
		install_qemu qemu-system-aarch64 qemu-system-arm ;;
	scx)
		install scx $scx ;;
	hwtest)
		install hwtest $hwtest ;;
	*)
		die "unknown set '$set'; use some of: base cross foreign arm64 scx hwtest" ;;
	esac
done
case " ${*:-base} " in
*" base "*)	;;
*)		exit ;;
esac

py=
for p in /usr/bin/python3 python3; do
	if "$p" -c 'import sys, tomllib, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
		py=$p
		break
	fi
done
[ -n "$py" ] || die "Python 3.11 or newer with venv is needed; apt-get install python3 python3-venv"

venv=$cache/venv-$( { cat "$here/requirements.txt"; "$py" --version; } | sha256sum | cut -c1-12)
if [ ! -e "$venv/ready" ]; then
	echo "== python environment (usually 20 s)" >&2
	rm -rf "$venv" "$venv.part"
	"$py" -m venv "$venv" >&2 || die "cannot make a virtual environment; apt-get install python3-venv"
	"$venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" >&2 || {
		rm -rf "$venv"
		die "pip could not install $(grep -v '^#' "$here/requirements.txt" | tr '\n' ' '); see that the Python package index can be reached"
	}
	touch "$venv/ready"
fi
echo "$venv/bin/python"
