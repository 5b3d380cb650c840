#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Run an apt command against Debian suites the machine itself does not use,
# with sources, lists and archives in a directory of their own.
#
#   apt-private.sh --mirror                  print the machine's own mirror
#   apt-private.sh DIR ARCH SUITE... -- CMD  e.g. -- apt-get update
#
# The mirror is the one the machine's own sources name for its own release,
# or $CPUHP_MIRROR (on a machine which is no Debian).
# With PRIVATE_STATUS=empty the private apt sees no installed package, which
# foreign-architecture look-ups want. Exit status: that of CMD; 2 for usage.
set -eu

mirror() {
	if [ -n "${CPUHP_MIRROR:-}" ]; then
		echo "$CPUHP_MIRROR"
		return
	fi
	# apt parses its own sources; nothing is fetched. Once it has its lists
	# it knows which are Debian's; before, the path of the release tells.
	mirror_codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	{
		apt-get indextargets --format '$(REPO_URI)' \
			'Created-By: Packages' 'Origin: Debian' \
			"Codename: $mirror_codename" 2>/dev/null || true
		apt-get -o Debug::NoLocking=1 update --print-uris 2>/dev/null |
			sed -n "s,^'\([^']*\)/dists/$mirror_codename/InRelease'.*,\1,p" |
			grep '/debian/*$'
		apt-get -o Debug::NoLocking=1 update --print-uris 2>/dev/null |
			sed -n "s,^'\([^']*\)/dists/$mirror_codename/InRelease'.*,\1,p"
	} | sed 's,/*$,,' | grep '^https*://' | head -n 1
}

keyring() {
	for k in /usr/share/keyrings/debian-archive-keyring.gpg \
		 /usr/share/keyrings/debian-archive-keyring.pgp; do
		[ -e "$k" ] && { echo "$k"; return; }
	done
}

if [ "${1:-}" = --mirror ]; then
	mirror
	exit
fi
[ $# -ge 5 ] || { sed -n '3,12p' "$0" >&2; exit 2; }

dir=$1 arch=$2
shift 2
mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
url=$(mirror)
[ -n "$url" ] || {
	echo "apt-private: no Debian mirror in this machine's apt sources;" \
	     "add one for its release to /etc/apt" >&2
	exit 2
}
key=$(keyring)
: > "$dir/sources.list"
while [ "$1" != -- ]; do
	echo "deb [arch=$arch${key:+ signed-by=$key}] $url $1 main" \
		>> "$dir/sources.list"
	shift
done
shift
cat > "$dir/apt.conf" <<CONF
Dir::Etc::sourcelist "$dir/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::Lists "$dir/lists";
Dir::Cache "$dir/cache";
APT::Sandbox::User "";
APT::Get::List-Cleanup "false";
Acquire::Retries "2";
Acquire::Languages "none";
CONF
if [ "${PRIVATE_STATUS:-}" = empty ]; then
	: > "$dir/status"
	cat >> "$dir/apt.conf" <<-CONF
	Dir::State::status "$dir/status";
	APT::Architecture "$arch";
	APT::Architectures { "$arch"; };
	CONF
fi
APT_CONFIG="$dir/apt.conf" exec "$@"
