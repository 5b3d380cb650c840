# SPDX-License-Identifier: GPL-2.0
"""What must be true of patches/ itself: checkpatch, titles and messages, that
it applies, the round trip."""

import email
import os
import re
import subprocess
import sys

from . import boot, kernels, series
from .common import LINUX, LabError, cache_dir, digest, git, locked, step

# characters of a title with its [PATCH]; some more than is usual
TITLE_MAX = 88
# checkpatch types that are not applied, with the reason
CHECKPATCH_IGNORE = {
    "FILE_PATH_CHANGES": "asks to look at MAINTAINERS for each new file; "
                         "reviewed by hand",
    "CAMELCASE": "fields of struct systemcfg, which user space sees",
}
# ... and those that are not in some files
CHECKPATCH_EXCEPT = [
    (r"include/trace/events/.*:(OPEN_ENDED_LINE|PARENTHESIS_ALIGNMENT):",
     "all trace events are written like this"),
    (r"kernel/sched/topology\.c:.*:PREFER_PR_LEVEL:",
     "pr_debug() prints nothing without DEBUG"),
]


def _checkpatch(patch):
    """What checkpatch --strict says about a patch, '' if it is content, which
    is remembered: the answer depends on the patch, the base and the lists
    above."""
    known = cache_dir() / "checked" / digest(
        patch, kernels.tree_of("base"), repr(CHECKPATCH_IGNORE),
        repr(CHECKPATCH_EXCEPT))
    if known.exists():
        return ""
    r = subprocess.run(
        ["perl", LINUX / "scripts/checkpatch.pl", "--strict", "--terse",
         "--show-types", "--showfile", "--color=never", f"--root={LINUX}",
         f"--ignore={','.join(CHECKPATCH_IGNORE)}", "-"],
        cwd=LINUX, capture_output=True, text=True, input=patch.read_text(),
        env={**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:"
             + os.environ["PATH"]})
    said = [x for x in r.stdout.splitlines() if not any(
        re.search(e, x) for e, _ in CHECKPATCH_EXCEPT)]
    # totals end what it says, if there is something to say; tracebacks of its
    # own helpers must not pass as a clean result
    if "Traceback" not in r.stderr and (
            r.returncode == 0 and not said or r.returncode == 1
            and len(said) == 1 and said[0].endswith("lines checked")):
        known.parent.mkdir(exist_ok=True)
        known.touch()
        return ""
    return "\n".join(said) + r.stderr or f"it ended with {r.returncode}"


def _title(patch):
    """The subject as git am and mail readers see it: all of the first
    paragraph where no empty line comes after the first."""
    return " ".join(email.message_from_bytes(
        patch.read_bytes())["subject"].split())


def check_patches(rep):
    """checkpatch --strict on every patch; the series applies; the round
    trip is exact."""
    patches = series.patch_files()
    with step(f"checkpatch on {len(patches)} patches", 110):
        found = boot.side_by_side(_checkpatch, [(p,) for p in patches],
                                  os.cpu_count() or 1)
    for p, said in zip(patches, found):
        rep.add(f"checkpatch: {p.name}", not said, said)
    long = [f"{p.name}: {len(_title(p))} characters" for p in patches
            if len(_title(p)) > TITLE_MAX]
    rep.add(f"series: titles have at most {TITLE_MAX} characters", not long,
            "no empty line after the title?\n" + "\n".join(long))
    with locked("kernel-bisect"), step("the series on a fresh base", 30):
        tree = kernels.slot("bisect")
        try:
            kernels.checkout(
                "bisect", git("rev-parse", "base^{commit}", cwd=LINUX).strip())
            series.apply(tree)
            same = kernels.tree_of("HEAD", tree) == kernels.tree_of(
                "HEAD", LINUX)
            rep.add(f"series: {len(patches)} patches apply with git am",
                    same, "the result differs from linux/: 'make patches' or "
                    "'make tree'")
        except LabError as e:
            rep.add("series: applies with git am", False, e)
    diff = series.round_trip()
    rep.add("series: make tree, make patches leaves no difference",
            not diff, ", ".join(diff))
