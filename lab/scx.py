# SPDX-License-Identifier: GPL-2.0
"""'make scx': CPUs go and come while a BPF scheduler is loaded. The kernel's
own hotplug test of sched_ext, and that of the series for several CPUs in one
operation, on a patched x86-64 kernel with types and lockdep (PROFILE=scx)."""

import dataclasses
import os
import re
import shutil
import tempfile

from . import boot, check, kernels, vm
from .common import (LINUX, LabError, cache_dir, fresh_dir, need_space, run,
                     say, step)

TESTS = ("hotplug", "hotplug_list")
CLANG = "clang-19"              # sched_ext wants one of 2023 or later
# what makes bpftool, the BPF programs and the types
PACKAGES = {CLANG: CLANG, "llvm-strip-19": "llvm-19", "pahole": "dwarves"}
LIBRARIES = ("libelf-dev", "libzstd-dev", "zlib1g-dev")
STATIC = "-static -lelf -lz -lpthread -lzstd"
LIMIT = 900                     # seconds, for the boot
JOB = r"""
for d in /sys/block/vd*; do
	[ "$(cat $d/serial)" != next ] ||
		head -c $SIZE /dev/${d##*/} > /tmp/runner
done
chmod +x /tmp/runner
/tmp/runner -t hotplug
echo "state: $(cat /sys/kernel/sched_ext/state)"
"""


class Report(check.Report):
    """Goes to out/scx.ktap."""
    ktap = "scx.ktap"


def told(text):
    """[(name, ok, detail)] of what the runner printed: each of TESTS has to be
    there and to pass, and no scheduler to be left."""
    said = {m[2]: (not m[1], m[3]) for m in re.finditer(
        r"^(not )?ok \d+ (\S+) #[ ]*(\S*)", text, re.M)}
    out = []
    for t in TESTS:
        ok, directive = said.get(t, (False, ""))
        out.append((t, ok and not directive, text[-2000:]))
    out.append(("no scheduler is left", "\nstate: disabled" in text,
                text[-300:]))
    return out


def install():
    """Install what is missing, where that is allowed."""
    need = [p for tool, p in PACKAGES.items() if not shutil.which(tool)]
    _, has = run(["dpkg-query", "-W", "-f=${Package} ${Status}\n", *LIBRARIES],
                 check=False)
    need += [p for p in LIBRARIES if f"{p} install ok installed" not in has]
    if not need:
        return
    cmd = ["apt-get", "install", "-y", "--no-install-recommends", *need]
    if os.geteuid() or os.environ.get("CPUHP_NO_DEPS"):
        raise LabError("packages are missing; run as root: " + " ".join(cmd))
    say(f"== packages: {' '.join(need)}")
    for c in ["apt-get", "update"], cmd:
        run(c, env={"DEBIAN_FRONTEND": "noninteractive"})


def runner(image, tmp):
    """Build the tests against the types of a kernel image; the program's
    path. It is static, since the guest has no libraries for it."""
    commit = kernels.wanted_commit("patched")
    run(["git", "archive", "-o", tmp / "src.tar", commit, "--", "scripts",
         "tools", "include", "kernel/bpf", "arch/x86"], cwd=LINUX)
    (tmp / "src").mkdir()
    run(["tar", "-xf", tmp / "src.tar", "-C", tmp / "src"])
    (tmp / "out").mkdir()
    program = tmp / "out" / "runner"
    # what it is linked with must not be static: a second time for that
    for more in [], [f"LDFLAGS={STATIC}"]:
        program.unlink(missing_ok=True)
        run(["make", "-s", f"-j{kernels.jobs()}", "-C",
             tmp / "src/tools/testing/selftests/sched_ext",
             f"VMLINUX_BTF={image / 'btf'}", f"CLANG={CLANG}",
             "LLVM_STRIP=llvm-strip-19", f"OUTPUT={tmp / 'out'}", *more],
            log=cache_dir() / "logs" / "scx-runner.log")
    return program


def main():
    """Build, boot, judge."""
    install()
    rep = Report()
    image = kernels.build("patched", "x86_64", "scx")
    need_space(cache_dir(), 2, "the tests of sched_ext")
    with step("tests of sched_ext", 40), \
            fresh_dir(cache_dir() / "scx") as tmp, \
            tempfile.NamedTemporaryFile(prefix="cpuhp-") as disk:
        data = runner(image, tmp).read_bytes()
        disk.write(data + b"\0" * (-len(data) % 4096))
        disk.flush()
        m = vm.topology("q35", 8, 2)
        m = dataclasses.replace(m, options=(
            *m.options, "-drive", f"if=none,id=next,file={disk.name},"
            "format=raw", "-device", "virtio-blk-pci,drive=next,serial=next"))
        try:
            r = boot.run_job(m, image, f"SIZE={len(data)}\n{JOB}", name="scx",
                             limit=LIMIT)
            bad = "" if not r.status else f"the job ended with {r.status}"
        except boot.BootFailed as e:
            r, bad = e.result, str(e)
        rep.add("scx: runs to its end, no splat", not bad, bad)
        for name, ok, detail in told(r.output()):
            rep.add(f"scx: {name}", ok, detail)
    return rep.finish()
