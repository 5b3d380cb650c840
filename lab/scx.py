# SPDX-License-Identifier: GPL-2.0
"""'make scx': CPUs go and come while a BPF scheduler is loaded. The kernel's
own hotplug test of sched_ext, and that of the series for several CPUs in one
operation, on a patched x86-64 kernel with types and lockdep (PROFILE=scx)."""

import re

from . import boot, kernels, vm
from .common import (LINUX, cache_dir, fresh_dir, install, need_space, run,
                     step)

TESTS = ("hotplug", "hotplug_list")
CLANG = "clang-19"              # sched_ext wants one of 2023 or later
STATIC = "-static -lelf -lz -lpthread -lzstd"
LIMIT = 900                     # seconds, for the boot


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


def check(rep):
    """Build, boot, judge."""
    install("scx")
    image = kernels.build("patched", "x86_64", "scx")
    need_space(cache_dir(), 2, "the tests of sched_ext")
    with step("tests of sched_ext", 40), fresh_dir(cache_dir() / "scx") as tmp:
        m = vm.topology("q35", 8, 2).with_disk("runner", runner(image, tmp))
        try:
            r = boot.run_job(m, image, boot.job("scx"), name="scx", limit=LIMIT)
            bad = "" if not r.status else f"the job ended with {r.status}"
        except boot.BootFailed as e:
            r, bad = e.result, "\n".join([str(e), *e.lines()])
        rep.add("scx: runs to its end, no splat", not bad, bad)
        for name, ok, detail in told(r.output()):
            rep.add(f"scx: {name}", ok, detail)
