# SPDX-License-Identifier: GPL-2.0
"""What 'make machines' keeps: bench/results/machines.json, docs/machines.md."""

import json
import re
import time

from . import bench, cases
from .common import TOP, locked, write_atomic

RECORD = bench.RESULTS / "machines.json"
PAGE = TOP / "docs" / "machines.md"


def record(case, results, image):
    """Put the results of a case, instead of those it had before, into
    bench/results/machines.json, and make docs/machines.md anew."""
    meta = json.loads((image / "meta.json").read_text())
    with locked("record"):          # boots side by side
        doc = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        doc[case.name] = {
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "tree": meta["tree"], "passed": sum(ok for _, ok, _ in results),
            "failed": [f"{n}: {d}"[:300].replace(f"{TOP}/", "")
                       for n, ok, d in results if not ok]}
        write_atomic(RECORD, json.dumps(doc, indent=1) + "\n")
        tables()


def table(doc):
    """The recorded cases in the order of the groups: what passed, when, on which
    tree; then what failed."""
    out, bad = [f"{'case':<48}{'passed':>7}{'failed':>7}  {'date':<11}tree"], []
    for name in [c.name for quick, _, c in cases.table() if not quick]:
        r = doc.get(name)
        if not r:
            out.append(f"{name[:47]:<48}{'-':>7}{'-':>7}")
            continue
        out.append(f"{name[:47]:<48}{r['passed']:>7}{len(r['failed']):>7}  "
                   f"{r['date']:<11}{r['tree'][:5]}")
        bad += [f"{name}: {x.splitlines()[0][:60]}" for x in r["failed"]]
    return "\n".join(out + (["", *bad] if bad else [])) + "\n"


def tables():
    """Make docs/machines.md anew from what is recorded."""
    if RECORD.exists():
        write_atomic(PAGE, re.sub(
            r"(<!-- machines -->\n).*?(<!-- end -->)",
            lambda m: f"{m[1]}```\n{table(json.loads(RECORD.read_text()))}"
                      f"```\n{m[2]}", PAGE.read_text(), flags=re.S))
