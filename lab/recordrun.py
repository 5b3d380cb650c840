# SPDX-License-Identifier: GPL-2.0
"""'make record': what is stale or was never recorded, one after the other. Each
is kept when it is done, so that a run which was ended goes on."""

import dataclasses
import errno
import os
import threading
import time
import traceback

from . import (bench, boot, caserecord, cases, insns, offcpu, perpatch, rebuilds,
               record, series, torture, vm)
from .common import MAIN, DiskFull, LabError, human, say
from .report import Report

MINUTES = 30                    # of torture, for each profile
TORTURE = {"": MAIN, "debug": MAIN, "kcsan": ("x86_64",), "tree03": MAIN}
SIDES = {"insns": insns, "offcpu": offcpu}
# seconds of what was not recorded with its time, or never, without kernels
USUAL = {"bench": 900, "insns": 300, "offcpu": 300, "machines": 90,
         "selftests": 900, "foreign": 450, "litmus": 30, "scx": 300,
         "compile-matrix": 150, "tips": 420, "torture": 60 * MINUTES}


@dataclasses.dataclass
class Item:
    """Something to record: run(rep) does it. side: it may be done beside others
    of its kind. words: what K= may also call it."""
    name: str
    run: object
    side: bool = False
    words: str = ""
    why: str = "not recorded"
    seconds: float = 0

    def usual(self):
        return USUAL.get(self.words) or USUAL[self.name.split()[0].rstrip(":")]


def _status(func, *args, **kw):
    """A run() of a command that prints, and maybe counts, by itself."""
    def run(rep, name):
        rep.add(name, not func(*args, **kw), "see above")
    return run


def _scenario(name):
    s = bench.load(name)
    cpus = s["machine"][0]["cpus"][0] if s.get("needs_cpus") else None
    return _status(bench.main, name, cpus, full=True, rec=True)


def _side(what, arch):
    """On the machine that was recorded last, or the usual one."""
    type_ = vm.DEFAULT[arch]
    doc = record.read(record.RESULTS / f"{what}-{arch}.json", {})
    m = vm.topology(type_, doc.get("cpus") or vm.DEFAULT_CPUS[type_],
                    doc.get("threads") or 0, doc.get("nodes") or 0)
    return _status(SIDES[what].main, m, True)


def _cases(group):
    """Cases that are compared with each other, or one."""
    def run(rep, name):
        caserecord.stamp()
        for c in group:
            image, t0 = cases.prepared(c), time.monotonic()
            results = cases.run(c, image)
            caserecord.keep(c, results, time.monotonic() - t0)
            for what, ok, detail in results:
                rep.add(f"{c.name}: {what}", ok, detail)
    return run


def _torture(profile):
    def run(rep, name):
        _status(torture.main, MINUTES, list(TORTURE[profile]), profile,
                rec=True)(rep, name)
        torture.forget(torture.full_profile(profile))
    return run


def every():
    """All that can be recorded, {name of its result: Item}; cases that belong
    together are one Item."""
    out = {}

    def add(name, run, *more):
        out[name] = Item(name, run, *more)
    for p in sorted(bench.SCENARIOS.glob("*.toml")):
        add(f"bench SCENARIO={p.stem}", _scenario(p.stem))
    for what in SIDES:
        for a in MAIN:
            add(f"{what} ARCH={a}", _side(what, a))
    for a in MAIN:
        add(f"insns WHAT=rebuild ARCH={a}", _status(rebuilds.main, a, True))
    together = {}
    for quick, group, c in cases.table("1"):
        if not quick:
            together.setdefault(c.together or c.name, (group, []))[1].append(c)
    for group, cs in together.values():
        item = Item(f"machines: {cs[0].name}", _cases(cs), True, group)
        out |= {f"machines: {c.name}": item for c in cs}
    for c in caserecord.checks():
        add(f"{c.what}: {c.name}", lambda rep, name, c=c: c.record(rep))
    for p in TORTURE:
        add(f"torture: {torture.full_profile(p)}", _torture(p))
    for part, _, tip in series.part_ranges():
        for a in MAIN:
            add(f"tips: {part} {a}", lambda rep, name, w=part, c=tip, a=a:
                perpatch.one(rep, name, w, c, a))
    return out


def _state():
    """{name: [(why it is stale, seconds)]} of what is recorded."""
    out = {}
    for m in (bench, insns, rebuilds, offcpu, caserecord, torture):
        for s in m.shown():
            for r in s.results:
                name = r.name.partition(", SEED=")[0]
                out.setdefault(name, []).append((r.stale(), r.seconds))
    left = perpatch.unrecorded()
    for part, _, _ in series.part_ranges():
        for a in MAIN:
            if f"{part} {a}" not in left:
                out[f"tips: {part} {a}"] = [("", 0)]
    return out


def due(words=""):
    """The Items that are stale or missing, of those which have one of the words
    in their name. LabError when none is called so, stale or not."""
    items, state, out = every(), _state(), {}
    words = [w for w in words.lower().split() if w != "or"]
    called = {n: i for n, i in items.items() if not words or any(
        w in f"{n} {i.words}".lower() for w in words)}
    if not called:
        raise LabError(f"K={' '.join(words)} is in no name; 'make record "
                       "LIST=1' has them")
    for name, item in called.items():
        was = state.get(name, [("not recorded", 0)])
        item.seconds += was[-1][1] or item.usual()
        why = [w for w, _ in was if w]
        if why:
            item.why = why[0]
            out[id(item)] = item
    return list(out.values())


def left(items):
    """What is left and how long it takes, as text: cases of one command that
    are so for one reason are a line."""
    lines, n = {}, os.cpu_count() or 1
    for i in items:
        name = i.name.partition(": ")[0]
        lines.setdefault((name, i.why), []).append(
            i.seconds / (n if i.side else 1))
    if not lines:
        return "nothing is stale or missing\n"
    return "\n".join([f"{'to be recorded':<36}{'why':<26}about"] + [
        f"{name + (f' ({len(s)})' if len(s) > 1 else ''):<36}{why:<26}"
        f"{round(sum(s) / 60):>4} min" for (name, why), s in lines.items()] + [
        f"{sum(map(sum, lines.values())) / 3600:.1f} hours in all, and kernels "
        "that are not built yet"]) + "\n"


class Locked(Report):
    """Results of several threads."""
    lock = threading.Lock()

    def add(self, *args):
        with self.lock:
            super().add(*args)


def main(words="", limit="", only_list=False):
    """Record what is due(), until that is done or so many minutes are over:
    then nothing more is begun. Says what is left."""
    limit = 60 * vm.number("LIMIT", limit)
    todo = due(words)
    print(left(todo), end="", flush=True)
    if only_list or not todo:
        return 0
    rep, t0, tree = Locked(), time.monotonic(), record.stamp("")["tree"]

    def work(item):
        if limit and time.monotonic() - t0 >= limit:
            return
        record.check_tree(tree)
        try:
            item.run(rep, item.name)
        except DiskFull:            # the others would say the same
            raise
        except LabError as e:
            rep.add(item.name, False, "\n".join(
                [str(e), *getattr(e, "lines", list)()]))
        except Exception as e:
            if getattr(e, "errno", 0) in (errno.ENOSPC, errno.EDQUOT):
                raise
            rep.add(item.name, False,
                    "".join(traceback.format_exception_only(e)).strip())
    for i in todo:
        if not i.side:
            work(i)
    boot.side_by_side(work, [(i,) for i in todo if i.side],
                      os.cpu_count() or 1)
    say(f"   that took {human(time.monotonic() - t0)}")
    print(left(due(words)), end="", flush=True)
    return rep.finish()
