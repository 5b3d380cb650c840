# SPDX-License-Identifier: GPL-2.0
"""'lab hwreport FILE': a report of the kit (make hwtest) from somebody's machine.
It is checked, kept in bench/results/hw/, and its table printed; docs/hardware.md
shows all of them."""

import gzip
import json
import pathlib
import re
import statistics
import zlib

from . import bench, record
from .common import TOP, LabError, ms, say, write_atomic

RESULTS = record.RESULTS / "hw"
PAGE = TOP / "docs" / "hardware.md"
BLOCK = re.compile(r"(?m)^<!-- hw -->\n(.*?)^<!-- end hw -->$", re.S)


def load(path):
    """The report in a file, which may be compressed; LabError if it is none."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as e:
        raise LabError(f"{path}: {e.strerror}; name the file that the kit left, "
                       "cpuhp-hwtest.json.gz") from None
    try:
        doc = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b"
                         else data)
        for s in doc["stages"]:
            for r in s["records"]:
                r["t"]
        doc["machine"]["arch"], doc["kit"]["patched"], doc["end"], s["name"]
        if doc["format"] != 1:
            raise ValueError(f"format {doc['format']}")
        # what cannot be shown is not to be kept
        name(doc), title(doc), table(doc)
    except (ValueError, LookupError, TypeError, AttributeError, EOFError,
            ArithmeticError, zlib.error, UnboundLocalError, OSError) as e:
        raise LabError(f"{path} is no report of the kit ({e!r}); ask for the "
                       "file again, as an attachment") from None
    return doc


def name(doc):
    """What its file is called: date-less, as a machine is asked once per tree:
    'power10-1920-3f2a…'; without what is no part of a file's name, as anybody
    may have written the report."""
    m = doc["machine"]
    model = re.sub(r"[^a-z0-9]+", "-", (m["product"] or m["model"]).lower())
    cpus = m["present"].rpartition("-")[2]
    n = int(cpus) + 1 if cpus.isdigit() else 0
    return re.sub(r"[^\w.-]", "-", "-".join((
        m["arch"], model.strip("-")[:30] or "unknown", str(n),
        doc["kit"]["tree"])))


def _stages(doc):
    """{stage without its number: its records}; what pstore had is left out."""
    return {s["name"].partition("-")[2]: s["records"] for s in doc["stages"]
            if not s["name"].endswith("-pstore")}


def _medians(records):
    """{(operation, treatment): (median in ns, number of samples)}."""
    got = {}
    for r in records:
        if r["t"] == "sample" and r["status"] == "0":
            got.setdefault((r["op"], r["treatment"]), []).append(int(r["ns"]))
    return {k: (statistics.median(v), len(v)) for k, v in got.items()}


def table(doc):
    """Lines of Markdown: the median of each operation in each stage, in ms, and
    what it cost; then what failed or was not run."""
    stages = _stages(doc)
    medians = {s: _medians(r) for s, r in stages.items()}
    ops = list(dict.fromkeys(k for m in medians.values() for k in m))
    out = ["| ms, median | " + " | ".join(stages) + " |",
           "| --- |" + " --- |" * len(stages)]
    for op, treatment in ops:
        cells = [medians[s].get((op, treatment)) for s in stages]
        label = op + (", rcu_expedited" if treatment == "expedited" else "")
        out.append(f"| {label} | " + " | ".join(
            ms(c[0] / 1e6, 2) if c else "-" for c in cells) + " |")
    for op in ("off", "on"):
        counts = {s: next((r for r in records if r["t"] == "counts"
                           and r["op"] == op), None)
                  for s, records in stages.items()}
        if any(counts.values()):
            columns = ("GP", "GP exp", "stops", "rebuilds")
            out.append(f"| {op}: {' / '.join(columns)} | " + " | ".join(
                " / ".join(str(sum(int(c.get(f, 0)) for f in bench.COUNTS[n]))
                           for n in columns) if c else "-"
                for c in counts.values()) + " |")
    out.append("")
    sums = {r["sum"] for records in stages.values() for r in records
            if r["t"] == "topology"}
    if sums:
        out.append("The topology in sysfs is " + (
            "the same in all stages." if len(sums) == 1 else
            f"**not the same** in all stages: {', '.join(sorted(sums))}."))
    checks = [(s, r) for s, records in stages.items() for r in records
              if r["t"] == "check"]
    bad = [(s, r) for s, r in checks if r["ok"] != "1"]
    out.append(f"{len(checks)} checks, {len(bad)} failed.")
    out += [f"- {s}: {r['name']}: {' '.join(r.get('detail', '').split())[:200]}"
            for s, r in bad]
    skipped = dict.fromkeys((r["name"], r["why"]) for records in stages.values()
                            for r in records if r["t"] == "skip")
    out += [f"- not run: {n}: {why}" for n, why in skipped]
    for s, records in stages.items():
        for r in records:
            if r["t"] == "guests":
                out.append(f"- {s}, two KVM guests, {r['when']}: " + ", ".join(
                    f"{k} {v}" for k, v in r.items() if k not in ("t", "when")))
    return out


def title(doc):
    """One line: which machine, which kernels, how it ended."""
    m, kit = doc["machine"], doc["kit"]
    virtual = "" if m["virtual"] in ("", "none") else f", {m['virtual']} guest"
    return (f"{m['product'] or m['model']} ({m['arch']}{virtual}), CPUs "
            f"{m['present']}, {m['nodes']} nodes, {m['memory_mb']} MiB, "
            f"{m['distribution']}; tree {kit['tree']}; {doc['end']}")


def shown():
    """The text of docs/hardware.md's block: all that was kept."""
    paths = sorted(RESULTS.glob("*.json"))
    if not paths:
        return "No report yet.\n"
    out = []
    for path in paths:
        doc = load(path)
        out += [f"**{title(doc)}**", "", *table(doc), ""]
    return "\n".join(out)


def page():
    """Write that block; True if it changed."""
    text = PAGE.read_text()
    new = BLOCK.sub(lambda _: f"<!-- hw -->\n{shown()}<!-- end hw -->", text)
    if new != text:
        write_atomic(PAGE, new)
    return new != text


def main(path):
    """Keep a report and show it."""
    if not path:
        raise LabError("FILE= is needed: the file that the kit left, "
                       "cpuhp-hwtest.json.gz")
    doc = load(path)
    dest = RESULTS / f"{name(doc)}.json"
    write_atomic(dest, json.dumps(doc, indent=1) + "\n")
    page()
    print("\n".join([title(doc), "", *table(doc)]))
    say(f"   kept in {dest.relative_to(TOP)}, and shown in docs/hardware.md")
