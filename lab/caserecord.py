# SPDX-License-Identifier: GPL-2.0
"""What is kept of commands that give results which pass or fail: 'make
machines', 'foreign', 'litmus', 'scx' and 'compile-matrix', each in a file of
bench/results/."""

import dataclasses
import functools
import textwrap
import time

from . import (boot, cases, foreign, guest, judge, kernels, litmus, portability,
               record, scx)
from .common import TOP, digest, ending, locked


def inputs(case):
    """The digest of what defines a case's result but the kernel's code."""
    job = boot.job(case.job, **case.vars)
    return digest(job, repr(case.machine), *guest.tests_of(job),
                  *(guest.GUEST / f for f in ("lib.sh", "prelude.sh")),
                  *kernels.fragments(case.machine.arch, case.profile),
                  *cases.patches(case.patch))


@functools.cache
def stamp():
    """The stamp of this run, to be taken before its first boot."""
    return record.stamp("")


def _keep(what, name, digest_, results, seconds, of, **more):
    """Put results, of these kernels, instead of those it had before into
    bench/results/, unless somebody ended the lab meanwhile: what fails then is not
    the kernel. LabError when linux/ is not what the stamp says, or the file is
    damaged."""
    if ending.is_set():
        return
    record.check_tree(stamp()["tree"])
    with locked("record"):          # boots side by side
        doc = record.read(record.RESULTS / f"{what}.json", {})
        doc[name] = {
            "stamp": {**stamp(), "of": [*map(list, of)],
                      "kernel": record.code((), tuple(of)), "inputs": digest_},
            "host_seconds": round(seconds, 1),
            "passed": sum(ok for _, ok, _ in results),
            "failed": [f"{n}: {d}"[:300].replace(f"{TOP}/", "")
                       for n, ok, d in results if not ok], **more}
        record.save(what, doc)


def keep(case, results, seconds):
    """Keep the results of a case, what kselftest printed, if it has, and how
    often sched domains were compared with the unpatched kernel's."""
    text, more = cases.ktap(case), {}
    if text.exists():
        more["ktap"] = text.read_text().splitlines()
    if case.variant != "base" and (n := judge.compared(results)):
        more["compared"] = n
    _keep("machines", case.name, inputs(case), results, seconds,
          [(case.machine.arch, case.profile)], **more)


class Both:
    """A report that keeps what it passes on."""

    def __init__(self, rep):
        self.rep, self.results = rep, []

    def add(self, name, ok, detail=""):
        self.results.append((name, bool(ok), str(detail)))
        self.rep.add(name, ok, detail)


@dataclasses.dataclass(frozen=True)
class Check:
    """A function of a report, run(rep), which gives it results: of what command
    and name."""
    what: str
    name: str
    inputs: str
    run: object
    of: tuple = ()

    def record(self, rep):
        """Run it and keep what it gives."""
        both, t0 = Both(rep), time.monotonic()
        stamp()
        self.run(both)
        _keep(self.what, self.name, self.inputs, both.results,
              time.monotonic() - t0, self.of)


def of_compile(cfg):
    return Check("compile-matrix", cfg.name, digest(
        repr(cfg), portability.ALWAYS, str(portability.PER_CPU)),
        lambda rep: portability.check(rep, cfg))


def of_foreign(f):
    return Check("foreign", f.name, digest(
        repr(f), repr(foreign.APPEND), guest.GUEST / "small-init.c"),
        lambda rep: foreign.check(rep, f), ((f.config.arch, f.name),))


def of_scx():
    return Check("scx", "x86_64", digest(
        boot.job("scx"), repr(scx.TESTS), *kernels.fragments("x86_64", "scx")),
        scx.check, (("x86_64", "scx"),))


def of_litmus():
    return Check("litmus", "herd7", digest(litmus.SUITE), litmus.check)


def checks():
    """All but the cases."""
    return [*map(of_foreign, foreign.FOREIGN), of_litmus(), of_scx(),
            *map(of_compile, portability.CONFIGS)]


def compared(doc):
    """How often sched domains were compared, by type of machine: lines."""
    sums = {}
    for name, r in doc.items():
        if "compared" in r and not r["failed"]:
            n = sums.setdefault(name.partition("-")[0], [0, 0])
            n[:] = map(sum, zip(n, r["compared"]))
    return [""] * bool(sums) + [
        f"sched domains of {type_}: {n} operations compared, {changed} of which "
        "changed them" for type_, (n, changed) in sums.items()]


def _shown(what, now, again):
    """What is recorded of the names in 'now', {name: inputs}, in their order:
    what passed, when, on which tree, with a star where that is stale; then how
    often sched domains were compared, and what failed."""
    def one(doc):
        results = {name: record.Result(
            f"{what}: {name}", r["stamp"], now[name],
            seconds=r.get("host_seconds", 0)) for name, r in doc.items()
            if name in now}         # others are no more
        out, bad = [f"{'case':<48}{'passed':>7}{'failed':>7}  {'date':<11}"
                    "tree"], []
        for name in now:
            if len(name) > 47:          # a line of its own, as names are not cut
                out.append(name)
            short = name if len(name) <= 47 else ""
            if name not in doc:
                out.append(f"{short:<48}{'-':>7}{'-':>7}")
                continue
            r, star = doc[name], "*" if results[name].stale() else ""
            out.append(f"{short:<48}{r['passed']:>7}{len(r['failed']):>7}  "
                       f"{r['stamp']['date'][:10]} {r['stamp']['tree'][:4]}"
                       + star)
            bad += [line for x in r["failed"] for line in textwrap.wrap(
                f"{name}: {x.splitlines()[0]}", 80, subsequent_indent="  ")]
        return record.Shown(list(results.values()), {
            what: record.fenced("\n".join(
                out + compared({k: r for k, r in doc.items() if k in now})
                + (["", *bad] if bad else [])) + "\n")})
    return record.each(f"{what}.json", one, again) or [one({})]


def shown():
    """What is recorded of all."""
    out = _shown("machines", {c.name: inputs(c) for quick, _, c in
                              cases.table("1") if not quick},
                 "make machines RECORD=1")
    names = {}
    for c in checks():
        names.setdefault(c.what, {})[c.name] = c.inputs
    for what, now in names.items():
        out += _shown(what, now, f"make {what} RECORD=1")
    return out
