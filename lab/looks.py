# SPDX-License-Identifier: GPL-2.0
"""Functions that look at the online mask twice, and those that pick a CPU in place
of another one: each has a verdict in looks.toml or picks.toml, or 'make test' fails.

Who has seen a CPU online in a region in which CPUs can't go offline can use it
until that ends. If CPUs leave cpu_online_mask while others run, who looks again
may find something else, and must not make anything of it.

A hotplug callback that picks another CPU, for what the one that goes offline has
done, must not pick one that goes in the same request. Of all architectures, as
most of these are in drivers that x86-64 and Book3S64 do not build."""

import re
import tomllib

from . import kernels
from .callbacks import BEGINS, ELSEWHERE, NAME, RISCV, Source
from .common import LINUX, TOP, LabError, cache_dir, digest, step, write_atomic

TABLE = TOP / "lab" / "looks.toml"
WORDS = ("lock", "callable", "apart", "count", "same", "self", "never")
LOOK = re.compile(
    r"\b(?:cpu_online|cpu_is_offline|num_online_cpus)\s*\(|\bcpu_online_mask\b|"
    r"\bfor_each_online_cpu(?:_wrap)?\b")


PICKS = TOP / "lab" / "picks.toml"
PICK_WORDS = ("mask", "members", "survivor", "never")
PICK = re.compile(r"\bcpumask_any(?:_and)?_but\s*\(")


def read_table(path=TABLE, words=WORDS):
    """{'file: function': verdict}; LabError when one is not as it must be."""
    try:
        rows = tomllib.loads(path.read_text()).get("verdict", [])
    except tomllib.TOMLDecodeError as e:
        raise LabError(f"{path}: {e}") from None
    out = {}
    for row in rows:
        if set(row) != {"at", "word", "why"} or not all(row.values()):
            raise LabError(f"{path}: {row}: it needs at, word and why")
        if row["word"] not in words:
            raise LabError(f"{path}: {row['at']}: '{row['word']}' is none of "
                           f"{', '.join(words)}")
        if row["at"] in out:
            raise LabError(f"{path}: {row['at']} is there twice")
        out[row["at"]] = row
    return out


def find(src, what=LOOK, least=2):
    """{'file: function': how many looks} of a Source, for two and more; or of
    something else."""
    out = {}
    for file in src.grep("-lP", what.pattern.replace("(?:", "("),
                         leave_out=src.elsewhere):
        if not src.used(file):
            continue
        for n, line in enumerate(src.lines(file), 1):
            head = re.match(BEGINS, line)
            if not head or line.startswith("#"):
                continue
            body = src.function(file, n)
            looks = len(what.findall(body[1])) if body else 0
            if looks >= least:
                out[f"{file}: {NAME.search(head[0])[1]}"] = looks
    return out


def faults(found, table, path=TABLE, does="looks at the online mask {} times",
           gone="it does not look twice", words=WORDS):
    """What is wrong: functions without a verdict, verdicts without one."""
    for at, n in sorted(found.items()):
        if at not in table:
            yield (f"{at}() {does.format(n)} and has no "
                   f"verdict; write one to {path.relative_to(path.parents[1])}:"
                   f'\n    [[verdict]]\n    at = "{at}"'
                   f'\n    word = ""      # {" ".join(words)}\n    why = ""')
    for at in table:
        if at not in found:
            yield (f"verdict for {at}: {gone} any more; take it out of "
                   f"{path.name}")


def _check(rep, what, table, seconds, bad_of):
    """One result for all of linux/. A tree in which nothing was wrong is not
    read again."""
    here = [TOP / "lab" / f for f in ("looks.py", "callbacks.py", table.name)]
    known = cache_dir() / "checked" / digest(
        *here, kernels.source_key(kernels.wanted_commit("patched")))
    bad = []
    if not known.exists():
        with step(what, seconds):
            bad = [*bad_of()]
    rep.add(f"looks: {what} has a verdict", not bad, "\n".join(bad))
    if not bad:
        write_atomic(known, "")


def retiring(top):
    """The Source of a tree, of the architectures whose CPUs retire."""
    return Source(top, ("x86", "powerpc", "arm64", "riscv"),
                  tuple(x for x in ELSEWHERE if x not in RISCV))


def check(rep):
    """Two looks at the online mask."""
    _check(rep, "who looks at the online mask twice", TABLE, 20,
           lambda: faults(find(retiring(LINUX)), read_table()))


def check_picks(rep):
    """Who picks a CPU other than one."""
    arches = [p.name for p in (LINUX / "arch").iterdir() if p.is_dir()]
    _check(rep, "who picks a CPU other than one", PICKS, 5, lambda: faults(
        find(Source(LINUX, arches, (), ()), PICK, 1),
        read_table(PICKS, PICK_WORDS), PICKS, "picks a CPU other than one",
        "it does not pick one", PICK_WORDS))
