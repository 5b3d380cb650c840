# SPDX-License-Identifier: GPL-2.0
"""'make hwtest': one file for somebody with a machine, which boots both kernels
there by kexec from memory, tests and measures CPU hotplug, and comes back with a
report. hwtest/ has what is in it."""

import hashlib
import json
import shutil
import subprocess
import time

from . import guest, kernels
from .common import (ARCHES, OUT, TOP, LabError, cache_dir, check_arch, digest,
                     fresh_dir, git, install, locked, prune, run, say, step,
                     write_atomic)

SRC = TOP / "hwtest"
PROFILE = "hwtest"              # of the kernels, without the drivers
DRIVERS = "hwtest+drivers"      # what is handed out
PACKAGES = ("base-files bash coreutils diffutils findutils gawk grep gzip "
            "hostname mount perl-base procps sed util-linux").split()
# of Debian's packages, what no test reads
LEFT_OUT = ("usr/share", "usr/include", "usr/games", "usr/src", "var/lib",
            "var/cache", "var/log", "boot", "home", "dev", "etc/init.d")
KITS = ("x86_64", "ppc64le")
UNAME = {"arm64": "aarch64"}


def user_space(arch):
    """Path of the root file system of a stage, a compressed cpio archive: some of
    Debian, guest/ and the selftests in /lab, hwtest/ with /init. About 20 MB."""
    lab = guest.lab_disk(arch)
    ours = [p for p in sorted(SRC.iterdir()) if p.is_file()]
    key = digest(guest.SUITE, " ".join((*PACKAGES, *LEFT_OUT)), lab.name, *ours,
                 TOP / "bench" / "where.sh")
    path = cache_dir() / "guest" / f"hwtest-{arch}-{key}.cpio.gz"
    with locked(f"guest-hwtest-{arch}"):
        if not path.exists():
            with step(f"kit: user space for {arch}", 40), fresh_dir(
                    cache_dir() / "guest" / f".hwtest-{arch}") as tmp:
                root = tmp / "root"
                debian = _debian(arch)
                root.mkdir()
                run(["tar", "-xf", debian, "-C", root, "--no-same-owner",
                     *[f"--exclude=./{n}" for n in LEFT_OUT]])
                _link(root)
                run(["unsquashfs", "-q", "-n", "-d", root / "lab", lab])
                (root / "hwtest").mkdir()
                for f in (*ours, TOP / "bench" / "where.sh"):
                    if f.suffix == ".sh":
                        shutil.copy2(f, root / "hwtest")
                        (root / "hwtest" / f.name).chmod(0o755)
                shutil.copy2(hwctl(arch, tmp), root / "hwtest" / "hwctl")
                (root / "init").symlink_to("hwtest/stage.sh")
                _cpio(root, tmp / "root.cpio.gz")
                (tmp / "root.cpio.gz").replace(path)
            shutil.rmtree(cache_dir() / "guest" / f".hwtest-{arch}",
                          ignore_errors=True)
    prune(path.parent, path)
    return path


def _debian(arch):
    """Path of a tar of the packages, unpacked; kept, as it takes the network."""
    path = cache_dir() / "guest" / (
        f"hwtest-{arch}-{digest(guest.SUITE, *PACKAGES)}.tar")
    if not path.exists():
        with fresh_dir(path.parent / f".hwtest-tar-{arch}") as tmp:
            guest.unpack(arch, guest.SUITE, PACKAGES, tmp / "root.tar")
            (tmp / "root.tar").replace(path)
        shutil.rmtree(path.parent / f".hwtest-tar-{arch}", ignore_errors=True)
    return path


def _link(root):
    """What the packages' scripts would have made."""
    (root / "bin/sh").unlink(missing_ok=True)
    (root / "bin/sh").symlink_to("bash")
    (root / "usr/bin/awk").symlink_to("gawk")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/mtab").symlink_to("/proc/self/mounts")
    for d in ("dev", "reports", "kit"):
        (root / d).mkdir(exist_ok=True)


def _cpio(root, path):
    """A directory as an initramfs. Everything in it belongs to root."""
    with open(path, "wb") as out:
        p = subprocess.run(
            "find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet "
            "--reproducible | gzip -9n", shell=True, cwd=root, stdout=out)
    if p.returncode:
        raise LabError(f"cpio failed with status {p.returncode}; see that cpio "
                       "and gzip are installed ('make deps') and the disk has "
                       "space")


def hwctl(arch, tmp):
    """Build hwtest/hwctl.c for arch, static, in the directory tmp; its path."""
    kernels.compiler(arch)      # says so if there is none
    run([ARCHES[arch]["cross"] + "gcc", "-O2", "-Wall", "-Werror", "-static",
         "-pthread", "-o", tmp / "hwctl", SRC / "hwctl.c"])
    return tmp / "hwctl"


def identity(images):
    """What a report says of its kit: one line of JSON, flat. images: variant to
    directory."""
    metas = {v: json.loads((d / "meta.json").read_text())
             for v, d in images.items()}
    some = metas["patched"]
    return json.dumps({
        "arch": some["arch"], "project": git("rev-parse", "--short=12", "HEAD",
                                             cwd=TOP).strip(),
        "base": metas["base"]["release"], "patched": some["release"],
        "tree": some["tree"][:12], "config": some["config_hash"],
        "compiler": some["compiler"]})


def assemble(arch, files, id_json):
    """The kit as bytes: a shell script and, after it, a tar.gz of files (name to
    path)."""
    with fresh_dir(OUT / f".hwtest-{arch}") as tmp:
        for name, path in files.items():
            shutil.copy2(path, tmp / name)
        (tmp / "id.json").write_text(id_json + "\n")
        mb = -(-sum(f.stat().st_size for f in tmp.iterdir()) // 2**20)
        run(["tar", "-c", "-f", tmp / "kit.tar", "-C", tmp, "--sort=name",
             "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner",
             *[f.name for f in sorted(tmp.iterdir())]])
        run(["gzip", "-9n", tmp / "kit.tar"])
        payload = (tmp / "kit.tar.gz").read_bytes()
    shutil.rmtree(OUT / f".hwtest-{arch}", ignore_errors=True)
    body = (SRC / "lib.sh").read_text() + (SRC / "run.sh").read_text() + "exit\n"

    def head(line):
        return ("#!/bin/sh\n"
                "# Tests of CPU hotplug for a machine that somebody has: sh FILE "
                "--help\n"
                f"KIT_ARCH={UNAME.get(arch, arch)} KIT_MB={mb} KIT_LINE={line}\n"
                f"KIT_SUM={hashlib.sha256(payload).hexdigest()}\n"
                f"KIT_ID='{id_json}'\n")
    lines = (head(0) + body).count("\n") + 1
    return (head(lines) + body).encode() + payload


def check_kit(arch):
    """LabError for an architecture that there is no kit for."""
    if check_arch(arch) not in KITS:
        raise LabError(f"there is no kit for {arch}; use one of: "
                       + ", ".join(KITS))


def kit(arch, profile=DRIVERS):
    """Build the kit of an architecture; its path, out/cpuhp-hwtest-ARCH.run.
    LabError if there can be none for it, or a build fails."""
    check_kit(arch)
    images = {v: kernels.build(v, arch, profile) for v in kernels.VARIANTS}
    files = {f"kernel-{v}": d / "kernel" for v, d in images.items()}
    files |= {"root.cpio.gz": user_space(arch), "home.sh": SRC / "home.sh"}
    with fresh_dir(cache_dir() / "guest" / f".hwctl-{arch}") as tmp:
        files["hwctl"] = hwctl(arch, tmp)
        data = assemble(arch, files, identity(images))
    shutil.rmtree(cache_dir() / "guest" / f".hwctl-{arch}", ignore_errors=True)
    path = OUT / (f"cpuhp-hwtest-{UNAME.get(arch, arch)}.run" if profile == DRIVERS
                  else f"cpuhp-hwtest-{arch}-check.run")
    write_atomic(path, data)
    return path


def packages(arch, profile=DRIVERS):
    """Make packages of both kernels, .deb and .rpm, in out/packages/; their paths.
    The kernel's own targets do it, in the output directory of the build."""
    install("hwtest")
    dest, made = OUT / "packages", []
    dest.mkdir(parents=True, exist_ok=True)
    for variant in kernels.VARIANTS:
        kernels.build(variant, arch, profile)
        with locked(f"kernel-{variant}"), \
                step(f"packages of the {variant} kernel for {arch}", 120):
            src = kernels.checkout(variant, kernels.wanted_commit(variant))
            out = src / kernels.output_name(arch, profile)
            log = cache_dir() / "logs" / f"packages-{variant}-{arch}.log"
            kernels.configure(src, out, arch, profile, log)
            before = time.time()
            # not together: both install the headers
            for target in "bindeb-pkg", "binrpm-pkg":
                run(kernels.make_cmd(src, out, arch, target,
                                     extra=[f"LOCALVERSION=-{variant}",
                                            "DPKG_FLAGS=-d", "RPMOPTS=--nodeps"]),
                    env=kernels.make_env(), log=log)
            for f in [*src.glob("linux-image-*.deb"),
                      *out.glob("rpmbuild/RPMS/*/kernel-[0-9]*.rpm")]:
                if f.stat().st_mtime >= before:
                    made.append(shutil.copy2(f, dest))
    return made


def main(arches, with_packages=False):
    """Build the kits and say what to do with them."""
    for arch in arches:
        path = kit(arch)
        say(f"   {path.relative_to(TOP)}: {path.stat().st_size >> 20} MB; on the "
            "machine, as root: sh " + path.name)
        for p in packages(arch) if with_packages else ():
            say(f"   {p.relative_to(TOP)}")
