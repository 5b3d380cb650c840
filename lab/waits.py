# SPDX-License-Identifier: GPL-2.0
"""Where hotplug callbacks wait for others: each call that waits for a grace
period, for a thread or work, for time to pass, or that interrupts or stops all
CPUs has a verdict in waits.toml, or 'make test' fails."""

import functools
import re
import tomllib

from . import kernels
from .callbacks import Source
from .common import LINUX, TOP, LabError, cache_dir, digest, step, write_atomic

TABLE = TOP / "lab" / "waits.toml"
WORDS = ("once", "group", "each", "own", "use", "error", "never")
LISTS = ("names", "to", "what", "callbacks")


def _words(x):
    """Whether it is a list of words, and not empty."""
    return isinstance(x, list) and x and all(isinstance(y, str) for y in x)


def read_table(path=TABLE):
    """The rules and verdicts; LabError when one is not as it must be."""
    try:
        t = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as e:
        raise LabError(f"{path}: {e}") from None
    seen = set()
    for kind, keys in (("opaque", "names why"), ("calls", "by to"),
                       ("verdict", "what by callbacks word why")):
        for row in t.setdefault(kind, []):
            if not isinstance(row, dict) or set(row) != set(keys.split()) \
                    or not all(_words(row[k]) if k in LISTS else row[k]
                               for k in row):
                raise LabError(f"{path}: [[{kind}]] {row}: it needs {keys}; "
                               f"{', '.join(LISTS)} are lists of names")
            if kind != "verdict":
                continue
            if row["word"] not in WORDS:
                raise LabError(f"{path}: {row['by']}: '{row['word']}' is none "
                               f"of {', '.join(WORDS)}")
            for what in row["what"]:
                if (what, row["by"]) in seen:
                    raise LabError(f"{path}: {what} in {row['by']} is there "
                                   "twice")
                seen.add((what, row["by"]))
    if not _words(t.get("waits")):
        raise LabError(f"{path}: 'waits' is to be a list of names")
    return t


def find(src, table):
    """({(wait, 'file: function'): {callback: chain of names}}, what is wrong
    with the rules) of a Source."""
    callbacks, odd = src.callbacks()
    opaque = [re.compile(n) for o in table["opaque"] for n in o["names"]]
    used, called = set(), set()

    @functools.cache
    def is_opaque(name):
        hit = [o for o in opaque if o.fullmatch(name)]
        used.update(hit)
        return bool(hit)
    calls = {c["by"]: c["to"] for c in table.get("calls", ())}
    out = {}
    for cb in callbacks:
        for arch in src.arches:
            if src.arch_of(cb.file) not in ("", arch):
                continue
            reached = src.reach(cb, arch, frozenset(table["waits"]), calls,
                                is_opaque, called)
            for (what, file, name), chain in reached.items():
                out.setdefault((what, f"{file}: {name}"), {}).setdefault(
                    cb.name, chain)
    stale = [f"opaque: {o.pattern}: no callback comes there" for o in opaque
             if o not in used]
    stale += [f"calls: no callback comes to {x}" for x in calls
              if x not in called]
    return out, stale + [
        f"{x} is registered, and no function is found; say in GIVEN or REGISTER "
        "of lab/callbacks.py what it is, or take its directory out of WITHOUT"
        for x in odd]


def faults(found, table, path=TABLE):
    """What is wrong: waits without a verdict, verdicts without a wait."""
    verdicts = {(what, v["by"]): v for v in table["verdict"]
                for what in v["what"]}
    for (what, by), callbacks in sorted(found.items()):
        v = verdicts.get((what, by))
        new = sorted(set(callbacks) - set(v["callbacks"] if v else ()))
        if not new:
            continue
        yield "\n".join([
            f"{what}() has no verdict for {', '.join(new)}:",
            *(f"    {' -> '.join(callbacks[c])}" for c in new[:8]),
            f"  write one to {path.relative_to(path.parents[1])}" + (
                f", or add to callbacks of this one, which says '{v['word']}: "
                f"{v['why']}'" if v else ""),
            *([] if v else [
                "    [[verdict]]", f'    what = ["{what}"]',
                f'    by = "{by}"', f"    callbacks = {new}".replace("'", '"'),
                f'    word = ""      # {" ".join(WORDS)}', '    why = ""'])])
    for (what, by), v in verdicts.items():
        gone = set(v["callbacks"]) - set(found.get((what, by), ()))
        if gone:
            yield (f"verdict for {what} in {by}: "
                   + ("it is not called there any more"
                      if (what, by) not in found else
                      f"not reached from {', '.join(sorted(gone))} any more")
                   + f"; take it out of {path.name}")


def check(rep):
    """One result for all callbacks of linux/. A tree in which nothing was wrong
    is not read again."""
    here = [TOP / "lab" / f for f in ("waits.py", "callbacks.py", TABLE.name)]
    known = cache_dir() / "checked" / digest(
        *here, kernels.source_key(kernels.wanted_commit("patched")))
    bad = []
    if not known.exists():
        with step("what hotplug callbacks wait for", 60):
            table = read_table()
            found, stale = find(Source(LINUX), table)
            bad = [*faults(found, table), *stale]
    rep.add("waits: each wait of a hotplug callback has a verdict", not bad,
            "\n".join(bad))
    if not bad:
        write_atomic(known, "")
