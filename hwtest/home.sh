#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# First program of the distribution's own initramfs, once, after the tests: the
# report is in that initramfs and is to be in /run when the distribution is up.
# Whatever goes wrong here, it goes on with the distribution's init. There may be
# no cp.
bring='mkdir -p /run/cpuhp-hwtest; for f in cpuhp-hwtest.json.gz cpuhp-hwtest.txt; do cat /cpuhp-hwtest/$f > /run/cpuhp-hwtest/$f; done'
if [ -e /scripts/init-bottom/ORDER ]; then
	# initramfs-tools: its init mounts /run and hands it on; this is near the end
	echo "$bring" >> /scripts/init-bottom/ORDER
else
	# dracut, or another with systemd: a /run which is there stays
	mkdir -p /run
	mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /run && eval "$bring"
fi
exec /init "$@"
