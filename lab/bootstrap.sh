#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Make a fresh Debian able to run the lab: packages, QEMU >= 10, a Python
# environment. Prints the interpreter to use on its last line of stdout;
# everything else goes to stderr. Changes nothing when all is there.
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

packages="acpica-tools arch-test gpg procps uidmap git gcc g++ libc6-dev flex bison bc ccache libelf-dev libssl-dev
	gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross mmdebstrap
	squashfs-tools squashfs-tools-ng cpio xz-utils rsync perl curl kmod
	make python3 python3-venv debian-archive-keyring ca-certificates"

# two first runs must not install into each other
exec 9>"$cache/lock-bootstrap"
flock 9

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

as_root() {
	if [ "$(id -u)" = 0 ]; then
		DEBIAN_FRONTEND=noninteractive "$@"
	elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
		sudo DEBIAN_FRONTEND=noninteractive "$@"
	else
		die "packages are missing and there is neither root nor sudo here. Run as root: $*"
	fi
}

apt_quiet() {
	as_root "$@" > "$cache/apt.log" 2>&1 || {
		tail -n 5 "$cache/apt.log" >&2
		die "'$*' failed (log: $cache/apt.log); see that the network and apt's sources work, then run it again"
	}
}

if [ -z "${CPUHP_NO_DEPS:-}" ]; then
	command -v dpkg-query >/dev/null ||
		die "this is no Debian; install by hand:" $packages \
		    "and QEMU >= 10 for x86 and ppc, then set CPUHP_NO_DEPS=1"
	# shellcheck disable=SC2086
	need=$(missing $packages)
	if [ -n "$need" ]; then
		echo "== packages:$need (usually 1 min)" >&2
		# as_root dies in a subshell only through apt_quiet's log, so
		# ask for the right first
		if [ "$(id -u)" != 0 ] && ! { command -v sudo >/dev/null &&
		   { [ -t 0 ] || sudo -n true 2>/dev/null; }; }; then
			die "packages are missing and there is neither root nor sudo. Run as root: apt-get install -y --no-install-recommends$need"
		fi
		# a third-party source which fails must not stop Debian's own
		as_root apt-get update >"$cache/apt.log" 2>&1 || true
		apt_quiet apt-get install -y --no-install-recommends $need
	fi

	if [ "$(qemu_major qemu-system-ppc64)" -lt 10 ] ||
	   [ "$(qemu_major qemu-system-x86_64)" -lt 10 ]; then
		codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
		q="qemu-system-x86 qemu-system-ppc"
		echo "== packages: $q, version 10 or newer, from $codename or $codename-backports (usually 1 min)" >&2
		if [ "$(id -u)" != 0 ] && ! { command -v sudo >/dev/null &&
		   { [ -t 0 ] || sudo -n true 2>/dev/null; }; }; then
			die "QEMU >= 10 is missing and there is neither root nor sudo. Run as root: $here/apt-private.sh $cache/apt-qemu amd64 $codename $codename-backports -- sh -c 'apt-get update; apt-get install -y --no-install-recommends -t $codename-backports $q'"
		fi
		arch=$(dpkg --print-architecture)
		apt_quiet "$here/apt-private.sh" "$cache/apt-qemu" "$arch" \
			"$codename" "$codename-updates" "$codename-backports" -- sh -c \
			"apt-get update || true
			 apt-get install -y --no-install-recommends -t $codename-backports $q ||
			 apt-get install -y --no-install-recommends $q"
	fi
fi

for q in qemu-system-ppc64 qemu-system-x86_64; do
	m=$(qemu_major $q)
	[ "$m" -ge 10 ] ||
		die "$q is version $m, 10 or newer is needed (7.2 cannot do SMT on pseries); install it from your release's backports"
done

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
