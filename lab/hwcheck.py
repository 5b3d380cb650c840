# SPDX-License-Identifier: GPL-2.0
"""'make hwtest-check': the kit on a Debian in QEMU that knows nothing of it. It
has to come back with the report of its stages, and once more with what firmware
kept of a stage that was made to hang. Of another architecture no Debian can be
installed here: an initramfs of the lab plays it, without systemd."""

import base64
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from . import guest, hwreport, hwtest, kernels, vm
from .common import (OUT, LabError, cache_dir, digest, fresh_dir, locked, prune,
                     run, start, end_group, step)

# systemd and initramfs-tools, as a user has them
PACKAGES = ("systemd-sysv udev initramfs-tools kmod zstd gzip cpio procps "
            "mount").split()
KERNEL = {"x86_64": "linux-image-amd64"}
UNIT = """[Unit]
Description=the job of the lab
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c "tr -d '\\\\0' < /dev/disk/by-id/virtio-job > /run/job; exec sh /run/job > /dev/console 2>&1"
"""
# first program of the initramfs that plays a distribution: its disks are there by
# name, the kernel and the initramfs that it was booted with are in /boot
PLAYED = """#!/bin/bash
export PATH=/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mountpoint -q /run || mount -t tmpfs tmpfs /run
mount -t pstore pstore /sys/fs/pstore
mkdir -p /dev/shm /dev/virtio-ports /dev/disk/by-id /boot /var/lib
mount -t tmpfs -o size=90% shm /dev/shm
exec < /dev/null > /dev/console 2>&1
ln -s /proc/self/fd /dev/fd
for p in /sys/class/virtio-ports/*; do
	ln -s /dev/${p##*/} /dev/virtio-ports/$(cat $p/name)
done
for d in /sys/block/vd*; do
	ln -s /dev/${d##*/} /dev/disk/by-id/virtio-$(cat $d/serial)
done
cat /dev/disk/by-id/virtio-root > /boot/initrd.img-$(uname -r)
cat /dev/disk/by-id/virtio-kernel > /boot/vmlinuz-$(uname -r)
tr -d '\\0' < /dev/disk/by-id/virtio-job > /run/job
sh /run/job
labctl poweroff
"""
# what somebody does who was given the kit, and once more after it
JOB = """exec 2>&1
port=$(ls /dev/virtio-ports/lab)
cd /dev/shm
head -c %(size)d /dev/disk/by-id/virtio-lab > kit.run
grep -q rdinit= /proc/cmdline && back=1 || back=
! grep -rq cpuhp-hwtest /sys/fs/pstore /var/lib/systemd/pstore 2> /dev/null || back=1
if [ -n "$back" ]; then
	sh kit.run --collect > out; status=$?
	cat out
	{ printf '{"t": "home", "status": "%%s", "cmdline": "%%s"}\\n' $status \\
		"$(cat /proc/cmdline)"
	  for f in out /run/cpuhp-hwtest/cpuhp-hwtest.json.gz; do
		printf '{"t": "file", "name": "%%s", "base64": "%%s"}\\n' \\
			"${f##*/}" "$(base64 -w 0 $f)"
	  done; } > $port
	sync
	systemctl poweroff || labctl poweroff
else
	sh kit.run %(options)s > out
	echo "only said: $?"
	sh kit.run %(options)s --yes || systemctl poweroff || labctl poweroff
fi
"""


def debian(arch):
    """(root, kernel, initrd): the files of a Debian of arch, made on first use;
    the root is a squashfs, so nothing can write to it."""
    key = digest(guest.SUITE, " ".join(PACKAGES), UNIT, "1")
    top = cache_dir() / "guest" / f"distribution-{arch}-{key}"
    with locked(f"guest-distribution-{arch}"):
        if not top.exists():
            with step(f"a Debian {arch} for the kit to come back to", 120), \
                    fresh_dir(top) as tmp:
                (tmp / "unit").write_text(UNIT)
                etc = "$1/etc/systemd/system"
                guest.install(
                    arch, guest.SUITE, [*PACKAGES, KERNEL[arch]],
                    tmp / "root.tar",
                    f"upload {tmp}/unit /etc/systemd/system/lab.service",
                    f"mkdir -p {etc}/multi-user.target.wants && ln -s "
                    f"../lab.service {etc}/multi-user.target.wants/",
                    'printf "squashfs\\nvirtio_blk\\nvirtio_pci\\n" >> '
                    '$1/etc/initramfs-tools/modules; '
                    'chroot $1 update-initramfs -u',
                    f"copy-out /boot {tmp}")
                for want, name in (("vmlinu", "kernel"), ("initrd", "initrd")):
                    shutil.copy2(next(tmp.glob(f"boot/{want}*")), tmp / name)
                with open(tmp / "root.tar", "rb") as f:
                    run(["tar2sqfs", "-q", "-f", "-c", "lz4",
                         tmp / "root.squashfs"], stdin=f)
                (tmp / "root.tar").unlink()
                shutil.rmtree(tmp / "boot")
        os.utime(top)
    prune(top.parent, top)
    return tuple(top / n for n in ("root.squashfs", "kernel", "initrd"))


def played(arch, directory):
    """The same of the initramfs that plays a distribution, with the patched kernel;
    its root is the disk with that initramfs."""
    kernel = kernels.build("patched", arch, hwtest.PROFILE) / "kernel"
    init, initrd = directory / "init", directory / "initrd"
    init.write_text(PLAYED)
    run(["sh", "-c", '. "$1"; { first "$2"; cpio_file init "$3" 0100755; cpio_end; '
         '} > "$4"', "sh", hwtest.SRC / "lib.sh", hwtest.user_space(arch), init,
         initrd])
    return initrd, kernel, initrd


def machine(arch, keeps, smt=True):
    """The Machine for the kit. keeps: the file in which its firmware keeps the
    last words of a kernel. smt: of x86-64, either SMT or SVM, for KVM guests; TCG
    has no processor with both."""
    if arch == "x86_64":
        options = ("-object", f"memory-backend-file,id=erst,mem-path={keeps},"
                              "size=512K,share=on",
                   "-device", "acpi-erst,memdev=erst")
        return vm.topology("q35", 4, 2 if smt else 1, accel="mttcg",
                           memory=3072, cpu="" if smt else "EPYC",
                           options=options)
    options = ("-drive", f"if=pflash,file={keeps},format=raw")
    return vm.topology("pseries", 8, 4, accel="mttcg", memory=4096,
                       options=options)


def command(m, files, kit, job, results, qmp):
    """QEMU's command line: vm.command() with a distribution in place of the lab's
    guest, which may be reset."""
    root, kernel, initrd = files
    cmd = [str(c) for c in vm.command(m, kernel, root, kit, job, results, qmp)]
    cmd.remove("-no-reboot")
    at = cmd.index("-append") + 1
    cmd[at] = re.sub(r" init=\S*| panic=\S*| oops=\S*", "", cmd[at]) + \
        " systemd.volatile=state systemd.show_status=0"
    return [*cmd, "-initrd", str(initrd)]


class Came:
    """What a machine gave: records of the job, files (name to bytes), console,
    seconds."""

    def __init__(self, results, console, seconds):
        self.records = [json.loads(x) for x in results.splitlines() if x]
        self.files = {r["name"]: base64.b64decode(r["base64"])
                      for r in self.records if r["t"] == "file"}
        self.console, self.seconds = console, seconds

    def report(self):
        """The report, or {}."""
        data = self.files.get("cpuhp-hwtest.json.gz")
        return json.loads(gzip.decompress(data)) if data else {}


def play(arch, kit, options, limit, name, smt=True):
    """Give the kit to a Debian of arch, with options; Came when it powers off.
    LabError when that takes more than limit seconds."""
    console = OUT / "console" / f"hwtest-{arch}-{name}.txt"
    console.parent.mkdir(parents=True, exist_ok=True)
    t0 = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cpuhp-") as d:
        d = pathlib.Path(d)
        files = debian(arch) if arch in KERNEL else played(arch, d)
        keeps, disk, job = d / "keeps", d / "kit", d / "job"
        keeps.write_bytes(bytes(512 << 10 if arch == "x86_64" else 128 << 10))
        data = kit.read_bytes()
        disk.write_bytes(data + bytes(-len(data) % 512))
        text = (JOB % {"size": len(data), "options": options}).encode()
        job.write_bytes(text + bytes(-len(text) % 512))
        (d / "results").touch()
        m = machine(arch, keeps, smt).with_disk("kernel", files[1])
        vm.qemu_version(arch)
        with open(console, "wb") as out:
            p = start(command(m, files, disk, job, d / "results", d / "qmp"),
                      stdout=out, stderr=out, stdin=subprocess.DEVNULL)
            try:
                p.wait(limit)
            except Exception:
                raise LabError(f"the kit was not through after {limit} s; the "
                               f"console is {console}") from None
            finally:
                end_group(p)
        return Came((d / "results").read_text(), console.read_text(
            errors="replace"), time.monotonic() - t0)


def through(came, stages):
    """[(what, whether it is so, detail)] of a machine that went through all
    stages and came back."""
    r = came.report()
    got = [s["name"].partition("-")[2] for s in r.get("stages", [])]
    out = [("it comes back with a report", bool(r),
            "\n".join(came.console.splitlines()[-20:])),
           ("it only says what it will do without --yes",
            "only said: 0" in came.console, ""),
           ("all stages are in it", got == stages, str(got)),
           ("it is complete", r.get("end") == "complete", str(r.get("end")))]
    for stage in r.get("stages", []):
        checks = [x for x in stage["records"] if x["t"] == "check"]
        bad = [f"{x['name']}: {x.get('detail', '')}" for x in checks
               if x["ok"] != "1"]
        out.append((f"{stage['name']}: {len(checks)} checks", checks and not bad,
                    "; ".join(bad)))
    out.append(("its summary has at most 40 lines",
                0 < came.files.get("out", b"").count(b"\n") <= 41, ""))
    out.append(("the lab reads it", bool(r) and bool(hwreport.table(r)), ""))
    return out


def hung(came, stage):
    """... of one with a stage that hangs."""
    r = came.report()
    names = [s["name"] for s in r.get("stages", [])]
    return [("it comes back with what firmware kept", bool(r),
             "\n".join(came.console.splitlines()[-20:])),
            ("it says where it died", r.get("end", "").startswith(
                f"died in stage {stage}, test hang"), str(r.get("end"))),
            ("the stage before is in it", any(
                x["t"] == "sample" for s in r.get("stages", [])
                for x in s["records"]), str(names)),
            ("why: the watchdog's panic", any(
                x.get("name") == "dmesg" and b"Software Watchdog Timer expired"
                in gzip.decompress(base64.b64decode(x["base64"]))
                for s in r.get("stages", []) for x in s["records"]), "")]


def check(rep, arch):
    """A result for each thing that must be so."""
    kit = hwtest.kit(arch, hwtest.PROFILE)
    with step(f"the kit on {arch}", 900):
        stages = ["base", "patched"]
        came = play(arch, kit, "--quick", 3600, "all")
        for what, ok, detail in through(came, ["base", "patched", "serial",
                                               "stop"]):
            rep.add(f"hwtest {arch}: {what}", ok, detail)
        came = play(arch, kit, "--quick --hang patched --stages "
                    f"'{' '.join(stages)}'", 1800, "hang", smt=False)
        for what, ok, detail in hung(came, "02-patched"):
            rep.add(f"hwtest {arch}, a stage hangs: {what}", ok, detail)
