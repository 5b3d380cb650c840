# SPDX-License-Identifier: GPL-2.0
"""What 'make machines' keeps: bench/results/machines.json."""

import functools
import json

from . import boot, cases, guest, kernels, record
from .common import TOP, digest, locked


def inputs(case):
    """The digest of what defines a case's result but the kernel's code."""
    return digest(boot.job(case.job, **case.vars), repr(case.machine),
                  *(guest.GUEST / f for f in ("lib.sh", "prelude.sh")),
                  *kernels.fragments(case.machine.arch, case.profile))


@functools.cache
def stamp():
    """The stamp of this run, to be taken before its first boot."""
    return record.stamp("")


def keep(case, results):
    """Put the results of a case, instead of those it had before, into
    bench/results/machines.json."""
    path = record.RESULTS / "machines.json"
    with locked("record"):          # boots side by side
        doc = json.loads(path.read_text()) if path.exists() else {}
        doc[case.name] = {
            "stamp": {**stamp(), "inputs": inputs(case)},
            "passed": sum(ok for _, ok, _ in results),
            "failed": [f"{n}: {d}"[:300].replace(f"{TOP}/", "")
                       for n, ok, d in results if not ok]}
        record.save("machines", doc)


def shown():
    """What is recorded of the cases, in their order: what passed, when, on
    which tree, with a star where that is stale; then what failed."""
    now = {c.name: inputs(c) for quick, _, c in cases.table() if not quick}

    def one(doc):
        results = {name: record.Result(f"machines: {name}", r["stamp"],
                                       now.get(name, ""))
                   for name, r in doc.items()}
        out, bad = [f"{'case':<48}{'passed':>7}{'failed':>7}  {'date':<11}"
                    "tree"], []
        for name in now:
            if name not in doc:
                out.append(f"{name[:47]:<48}{'-':>7}{'-':>7}")
                continue
            r, star = doc[name], "*" if results[name].stale() else ""
            out.append(f"{name[:47]:<48}{r['passed']:>7}{len(r['failed']):>7}  "
                       f"{r['stamp']['date'][:10]} {r['stamp']['tree'][:4]}"
                       + star)
            bad += [f"{name}: {x.splitlines()[0][:60]}" for x in r["failed"]]
        return record.Shown(list(results.values()), {
            "machines": record.fenced("\n".join(
                out + (["", *bad] if bad else [])) + "\n")})
    return record.each("machines.json", one, "make machines RECORD=1")
