# SPDX-License-Identifier: GPL-2.0
"""'make litmus': the memory model's answer to the litmus tests of the series,
by herd7 of Debian's newest suite, in a root of its own. What a test says of
itself has to be true; those with a barrier or a grace period less say that what
is forbidden becomes possible."""

import re

from . import guest, kernels
from .common import (LINUX, LabError, cache_dir, fresh_dir, git, locked,
                     need_space, run, step)

SUITE = "sid"                   # herdtools7 is in no release
TESTS = "Documentation/litmus-tests/hotplug"
MODEL = "tools/memory-model"
LOADER = {"x86_64": "usr/lib64/ld-linux-x86-64.so.2"}
ARCH = "x86_64"                 # of the machine that runs it


def herd():
    """The command that starts herd7, made on first use: about 300 MB in the
    cache."""
    top = cache_dir() / "herd"
    lib = top / "usr/lib" / f"{ARCH}-linux-gnu"
    with locked("herd"):
        if not (top / "done").exists():
            need_space(cache_dir(), 1, "herdtools7")
            with step(f"herdtools7 of Debian {SUITE}", 15), \
                    fresh_dir(top) as tmp:
                guest.unpack(ARCH, SUITE, ["herdtools7"], tmp / "root.tar")
                run(["tar", "-xf", tmp / "root.tar", "-C", tmp, "--wildcards",
                     "./usr/bin/herd7", "./usr/share/herdtools7/herd/*",
                     f"./{lib.relative_to(top)}/*", "./usr/lib64/*"])
                (tmp / "root.tar").unlink()
                (tmp / "done").touch()
    return [top / LOADER[ARCH], "--library-path", lib, top / "usr/bin/herd7",
            "-set-libdir", top / "usr/share/herdtools7/herd"]


def tests(commit):
    """The paths of the series' litmus tests."""
    return [p for p in git("ls-tree", "--name-only", commit, f"{TESTS}/",
                           cwd=LINUX).split() if p.endswith(".litmus")]


def judged(text, said):
    """(whether herd's answer is what the test says of itself, what is wrong)
    of a test's text and of what herd7 said."""
    want = re.search(r"\* Result: (Never|Sometimes|Always)$", text, re.M)
    if not want:
        return False, "it does not say 'Result: Never', Sometimes or Always"
    got = re.search(r"^Observation \S+ (\w+)", said, re.M)
    if not got:
        return False, said[-500:] or "herd7 said nothing"
    return got[1] == want[1], f"{got[1]}, and it says {want[1]}"


def check(rep):
    """A result for each test; and that of those which differ in a barrier or
    a grace period some are forbidden and some are possible."""
    commit = kernels.wanted_commit("patched")
    paths, cmd, seen = tests(commit), herd(), set()
    if not paths:
        raise LabError(f"no litmus tests in {TESTS} of linux/; make "
                       "tree, and see that part 15 is there")
    with fresh_dir(cache_dir() / "litmus") as tmp:
        run(["git", "archive", "-o", tmp / "src.tar", commit, "--", TESTS,
             MODEL], cwd=LINUX)
        run(["tar", "-xf", tmp / "src.tar", "-C", tmp])
        for p in paths:
            text = (tmp / p).read_text()
            _, said = run([*cmd, "-conf", "linux-kernel.cfg", tmp / p],
                          cwd=tmp / MODEL, check=False)
            ok, why = judged(text, said)
            seen.update(re.findall(r"^Observation \S+ (\w+)", said, re.M))
            rep.add(f"litmus: {p.rpartition('/')[2]}", ok, why)
    rep.add("litmus: some are forbidden, and some are possible",
            {"Never", "Sometimes"} <= seen, str(sorted(seen)))
