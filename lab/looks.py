# SPDX-License-Identifier: GPL-2.0
"""Functions that look at the online mask twice: each has a verdict in looks.toml,
or 'make test' fails.

Who has seen a CPU online in a region in which CPUs can't go offline can use it
until that ends. If CPUs leave cpu_online_mask while others run, who looks again
may find something else, and must not make anything of it."""

import re
import tomllib

from . import kernels
from .callbacks import BEGINS, NAME, Source
from .common import LINUX, TOP, LabError, cache_dir, digest, step, write_atomic

TABLE = TOP / "lab" / "looks.toml"
WORDS = ("lock", "callable", "apart", "count", "same", "self", "never")
LOOK = re.compile(
    r"\b(?:cpu_online|cpu_is_offline|num_online_cpus)\s*\(|\bcpu_online_mask\b|"
    r"\bfor_each_online_cpu(?:_wrap)?\b")


def read_table(path=TABLE):
    """{'file: function': verdict}; LabError when one is not as it must be."""
    try:
        rows = tomllib.loads(path.read_text()).get("verdict", [])
    except tomllib.TOMLDecodeError as e:
        raise LabError(f"{path}: {e}") from None
    out = {}
    for row in rows:
        if set(row) != {"at", "word", "why"} or not all(row.values()):
            raise LabError(f"{path}: {row}: it needs at, word and why")
        if row["word"] not in WORDS:
            raise LabError(f"{path}: {row['at']}: '{row['word']}' is none of "
                           f"{', '.join(WORDS)}")
        if row["at"] in out:
            raise LabError(f"{path}: {row['at']} is there twice")
        out[row["at"]] = row
    return out


def find(src):
    """{'file: function': how many looks} of a Source, for two and more."""
    out = {}
    for file in src.grep("-lP", LOOK.pattern.replace("(?:", "("),
                         leave_out=src.elsewhere):
        if not src.used(file):
            continue
        for n, line in enumerate(src.lines(file), 1):
            head = re.match(BEGINS, line)
            if not head or line.startswith("#"):
                continue
            body = src.function(file, n)
            looks = len(LOOK.findall(body[1])) if body else 0
            if looks > 1:
                out[f"{file}: {NAME.search(head[0])[1]}"] = looks
    return out


def faults(found, table, path=TABLE):
    """What is wrong: functions without a verdict, verdicts without one."""
    for at, n in sorted(found.items()):
        if at not in table:
            yield (f"{at}() looks at the online mask {n} times and has no "
                   f"verdict; write one to {path.relative_to(path.parents[1])}:"
                   f'\n    [[verdict]]\n    at = "{at}"'
                   f'\n    word = ""      # {" ".join(WORDS)}\n    why = ""')
    for at in table:
        if at not in found:
            yield (f"verdict for {at}: it does not look twice any more; take it "
                   f"out of {path.name}")


def check(rep):
    """One result for all of linux/. A tree in which nothing was wrong is not
    read again."""
    here = [TOP / "lab" / f for f in ("looks.py", "callbacks.py", TABLE.name)]
    known = cache_dir() / "checked" / digest(
        *here, kernels.source_key(kernels.wanted_commit("patched")))
    bad = []
    if not known.exists():
        with step("who looks at the online mask twice", 20):
            bad = [*faults(find(Source(LINUX)), read_table())]
    rep.add("looks: who looks at the online mask twice has a verdict", not bad,
            "\n".join(bad))
    if not bad:
        write_atomic(known, "")
