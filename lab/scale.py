# SPDX-License-Identifier: GPL-2.0
"""The scale model: the counts of bench/results/smt.json as functions of N,
the CPUs that go or come, checked on the largest machine, which the fit does
not see; and what the counts mean for 1920 CPUs with unit costs that mails
measured on hardware (bench/hardware.toml): an estimate."""

import json
import math
import re
import statistics
import tomllib
import typing

from . import bench, common, record
from .common import TOP, LabError, human

RESULTS = TOP / "bench" / "results" / "smt.json"
HARDWARE = TOP / "bench" / "hardware.toml"
AGAIN = "'FULL=1 RECORD=1 make bench SCENARIO=smt' records them"
OPS = ("SMT off", "SMT on")

# row -> functions; parks are what stands for the steps of a single CPU
COUNTS = {**{c: bench.COUNTS[c] for c in ("GP", "GP exp", "stops", "rebuilds",
                                          "parks")},
          "idle IPIs": ("wake_up_all_idle_cpus",)}


# ---- the counts ---------------------------------------------------------

def load(path):
    """The recorded results of SMT control, or LabError."""
    try:
        doc = json.loads(path.read_text())
        doc["stamp"]["date"], doc["runs"][0]
    except FileNotFoundError:
        raise LabError(f"no {path.name}; {AGAIN}") from None
    except (ValueError, LookupError, TypeError):
        raise LabError(f"{path} is damaged; {AGAIN}") from None
    return doc


def measured(doc):
    """{(machine, op, treatment): {T: (N, {row: count})}}"""
    out = {}
    for run in doc["runs"]:
        t = run["cpus"]
        for c in run["counts"]:
            if c["op"] in OPS:
                key = (run["machine"], c["op"], c["treatment"])
                out.setdefault(key, {})[t] = (t - t // run["threads"], {
                    row: sum(c["calls"].get(f, 0) for f in functions)
                    for row, functions in COUNTS.items()})
    return out


def fit(doc):
    """{(machine, op, treatment): {row: {'a', 'b', 'predicted', 'measured'}}}:
    a + b*N, by least squares over all sizes but the largest."""
    out = {}
    for key, sizes in measured(doc).items():
        *small, largest = sorted(sizes)
        if len(small) < 2:
            raise LabError(f"{RESULTS.name} has {len(sizes)} size(s) of "
                           f"{', '.join(key)}, a fit and its check take "
                           f"three; {AGAIN}")
        n, want = sizes[largest]
        rows = out[key] = {}
        for row in COUNTS:
            b, a = statistics.linear_regression(
                [sizes[t][0] for t in small], [sizes[t][1][row] for t in small])
            a, b = round(a, 6), round(b, 6)
            rows[row] = {"a": a, "b": b, "predicted": a + b * n,
                         "measured": want[row]}
    return out


def formula(a, b):
    """'1+2N'"""
    terms = [f"{a:.3g}"] if a or not b else []
    if b:
        terms.append("N" if b == 1 else f"{b:.3g}N")
    return "+".join(terms).replace("+-", "-")


def at(rows, n, chunks=1):
    """Counts of n CPUs; what does not depend on n is for each chunk."""
    return {row: x["a"] * chunks + x["b"] * n for row, x in rows.items()}


# ---- 1920 CPUs ----------------------------------------------------------

class Bounds(typing.NamedTuple):
    """How the series cuts a request: at most so many CPUs in an operation, and
    when one takes longer than 'ms', fewer in the next, but not below
    'least'."""
    batch: int
    ms: int
    least: int


def bounds():
    """Those of the series in linux/; LabError where it has none."""
    text = "".join(p.read_text() for p in
                   sorted((common.LINUX / "kernel").glob("cpuhp*.c")))
    found = [re.search(x, text) for x in (
        r"\bbatch_max\b.* = (\d\d+);",
        r"CPUHP_CHUNK_NS\s+\((\d+) \* NSEC_PER_MSEC",
        r"CPUHP_CHUNK_MIN\s+(\d+)U\b")]
    if not all(found):
        raise LabError(f"no bounds of an operation in {common.LINUX}/kernel/"
                       "cpuhp*.c; mend bounds() in lab/scale.py")
    return Bounds(*(int(m[1]) for m in found))


def chunks(n, fixed_ms, each_ms, b):
    """The operations that n CPUs are cut into with the Bounds b, as
    cpuhp_fit_chunk() does by the time they take: 'batch' at first, then as
    many as would have fit. What it does for the time in which all CPUs are
    stopped is left out: nobody knows how long that is."""
    size, out = b.batch, []
    while n:
        out.append(min(size, n))
        n -= out[-1]
        took = fixed_ms + each_ms * out[-1]
        size = min(max(int(out[-1] * b.ms / took), b.least), b.batch)
    return out


def unit_costs(hw, base):
    """{name: (low, high)} in seconds, from the mails; 'base' has the counts
    of the operation which they are taken from. What one rebuild costs is what
    everything else leaves over of the total without the files."""
    p10, p9 = hw["power10"], hw["power9"]
    n = p10["cpus"] - p10["cpus"] // p10["threads"]
    bare = p10["off_v6_0_reverted_s"]
    gp = ((p9["off_s"] - p9["off_no_cpuidle_gp_s"]) / p9["going"],
          hw["large"]["share"] * bare / n)
    step = (hw["x86"]["total_ms"] / 1000 / hw["x86"]["going"],
            p9["off_expedited_s"] / p9["going"])
    stop = (0.0, step[1] * p10["cpus"] / p9["cpus"])
    # the high stop round has all of POWER9's operation in it, steps too
    rest = (n * step[0], n * stop[1])
    rebuild = tuple((bare - base["GP"] * gp[i] - rest[i]) / base["rebuilds"]
                    for i in (1, 0))
    files = (p10["off_v6_0_s"] - bare) / n
    return {"GP": gp, "step": step, "stop": stop, "files": (files, files),
            "rebuild": rebuild}


def the_hour(hw, unit, base, n):
    """The 59 minutes: [(term, low, high)] in seconds."""
    pair = lambda name, k: (unit[name][0] * k, unit[name][1] * k)
    return [("files of sched domains, each rebuild", *pair("files", n)),
            ("normal GPs of cpuidle", *pair("GP", n)),
            ("normal GPs of sched:active, write lock",
             *pair("GP", base["GP"] - n)),
            ("stop rounds and per-CPU steps",
             n * unit["step"][0], n * unit["stop"][1]),
            ("rebuilds of sched domains (what is left)",
             *pair("rebuild", base["rebuilds"]))]


def estimate(unit, rows, n, b):
    """Seconds to take n CPUs offline in chunks, and how many chunks: a dict
    of (low, high) pairs; 'whole': if all chunks are as large as may be."""
    out = {"seconds": [], "chunks": [], "whole": []}
    per = {"GP": "GP", "stops": "stop", "rebuilds": "rebuild"}
    for i in (0, 1):
        fixed, each = (sum(rows[row][k] * unit[u][i] for row, u in per.items())
                       for k in "ab")
        each += unit["step"][i]
        cut = len(chunks(n, fixed * 1e3, each * 1e3, b))
        out["chunks"].append(cut)
        out["seconds"].append(cut * fixed + n * each)
        out["whole"].append(math.ceil(n / b.batch) * fixed + n * each)
    return out


def power9(p9, rows, way):
    """The 2023 mail's total from the counts of the lab. What a GP costs is
    from one difference in the mail, so this checks how many there are."""
    gps = at(rows, p9["going"])["GP"]
    gp = (p9[f"{way}_s"] - p9[f"{way}_no_cpuidle_gp_s"]) / p9["going"]
    return {"GPs": gps, "GP": gp, "measured": p9[f"{way}_s"],
            "predicted": gps * gp + p9[f"{way}_expedited_s"]}


def ppc64(hw, rows, way):
    """The 2026 mail: what each grace period that the lab counts would have to
    cost, and all the rest for each CPU, a rebuild of the domains among it."""
    gps = at(rows, hw["going"])["GP"]
    rest = hw[f"{way}_expedited_s"]
    return {"GPs": gps, "GP": (hw[f"{way}_s"] - rest) / gps,
            "rest": rest / hw["going"]}


def model(doc, hw, b):
    """Everything that the report says, as a dict."""
    fits = fit(doc)
    like = {}           # pseries is like the machines of the mails
    for op in OPS:
        for t in bench.TREATMENTS:
            if ("pseries", op, t) not in fits:
                raise LabError(f"{RESULTS.name} has no counts of '{op}', {t}, "
                               f"on pseries; {AGAIN}")
            like[op, t] = fits["pseries", op, t]
    p10 = hw["power10"]
    n = p10["cpus"] - p10["cpus"] // p10["threads"]
    base = at(like["SMT off", "base"], n)
    unit = unit_costs(hw, base)
    bare, gps = p10["off_v6_0_reverted_s"], base["GP"]
    return {"fits": fits, "like": like,
            "sizes": {k: sorted(v) for k, v in measured(doc).items()},
            "cpus": p10["cpus"], "threads": p10["threads"], "n": n,
            "unit": unit, "bare": bare, "batch": b.batch, "total": p10["off_v6_0_s"],
            "hour": the_hour(hw, unit, base, n),
            "expedited": (bare - gps * unit["GP"][1],
                          bare - gps * unit["GP"][0]),
            "patched": estimate(unit, like["SMT off", "patched"], n, b),
            "traced": {"rebuild": p10["traced_build_sched_domains_s"],
                       "files": p10["traced_update_debugfs_s"]},
            "power9": {way: power9(hw["power9"], like[f"SMT {way}", "base"],
                                   way) for way in ("off", "on")},
            "ppc64": {way: ppc64(hw["ppc64"], like[f"SMT {way}", "base"], way)
                      for way in ("off", "on")}}


# ---- output -------------------------------------------------------------

def between(pair):
    lo, hi = map(human, pair)
    return lo if lo == hi else f"{lo} - {hi}"


def line(first, cells, width=23, last=""):
    return (f"{first:<11}" + "".join(f"{c:<{width}}" for c in cells)
            + last).rstrip()


def fit_text(m):
    """The fits and how they meet the size they have not seen."""
    out = []
    for mach, op in dict.fromkeys(k[:2] for k in m["fits"]):
        by = {t: m["fits"][mach, op, t] for t in bench.TREATMENTS
              if (mach, op, t) in m["fits"]}
        *small, largest = m["sizes"][mach, op, next(iter(by))]
        out += ["", f"{mach}, {op}: fit to {', '.join(map(str, small))} CPUs; "
                f"predicted/measured for {largest}", line("", by)]
        for row in COUNTS:
            cells = []
            for rows in by.values():
                x = rows[row]
                bad = abs(x["predicted"] - x["measured"]) >= 0.5
                cells.append(f"{formula(x['a'], x['b']):<9}"
                             f"{x['predicted']:.4g}/{x['measured']}"
                             f"{'  !' if bad else ''}"
                             if bad or x["measured"] else "-")
            if set(cells) != {"-"}:
                out.append(line(row, cells))
    return out


def scale_text(m):
    """What it means for 1920 CPUs."""
    n, unit = m["n"], m["unit"]
    whole = math.ceil(n / m["batch"])
    out = ["", f"{m['cpus']} CPUs, SMT{m['threads']}, {n} go or come: counts "
           f"as of pseries, patched in {whole} chunks", "",
           line("", [f"{op}:" for op in OPS], 33),
           line("", [f"{t:<11}" for t in bench.TREATMENTS] * 2, 11)]
    for row in COUNTS:
        counts = [at(m["like"][op, t], n, whole if t == "patched" else 1)
                  for op in OPS for t in bench.TREATMENTS]
        out.append(line(row, [f"{c[row]:.0f}" for c in counts], 11))
    out += ["", "Unit costs", ""]
    for name, why in (
            ("GP", "low: 128 CPUs, high: 1600 CPUs (2023-03)"),
            ("step", "low: x86 (2023-04), high: POWER9 (2023-03)"),
            ("stop", "unknown; high: all of POWER9's times 15"),
            ("files", "of all CPUs, for each rebuild (2022-10)"),
            ("rebuild", "what is left of the total")):
        out.append(line(name, [between(unit[name])], 21, why))
    out += ["", f"The 59 minutes (v6.0-rc4, {human(m['total'])}): ESTIMATE", ""]
    for name, *pair in m["hour"]:
        a, b = (round(100 * x / m["total"]) for x in pair)
        out.append(f"{name:<42}{between(pair):<27}"
                   f"{a}{'' if a == b else f'-{b}'} %")
    share = unit["files"][0] / m["traced"]["files"]
    out += ["For comparison: traced, a rebuild took "
            f"{human(m['traced']['rebuild'])} and the files "
            f"{human(m['traced']['files'])}.",
            f"Untraced the files take {share:.0%} of that; as much of a "
            f"rebuild is {human(share * m['traced']['rebuild'])}."]
    p = m["patched"]
    cut = " or ".join(map(str, dict.fromkeys(p["chunks"])))
    out += ["", f"SMT{m['threads']} off on {m['cpus']} CPUs, without the files:"
            " ESTIMATE", ""]
    for name, what in (
            ("base (measured)", human(m["bare"])),
            ("base, rcu_expedited", between(m["expedited"])),
            (f"patched, {cut} chunks", between(p["seconds"])),
            (f"patched, {whole} chunks of {m['batch']} if not cut by time",
             between(p["whole"]))):
        out.append(f"{name:<46}{what}")
    out += ["", "POWER9 of 2023-03, 127 of 128 CPUs, GPs as counted here", ""]
    for way, x in m["power9"].items():
        bad = abs(x["predicted"] / x["measured"] - 1) > .25
        out.append(f"{way:<4}{x['GPs']:.0f} GPs of {human(x['GP'])} and the "
                   f"expedited total: {human(x['predicted'])}; measured "
                   f"{human(x['measured'])}{': MISSED' if bad else ''}")
    out += ["", "PPC64 of 2026-01, 350 of 400 CPUs, GPs as counted here", ""]
    for way, x in m["ppc64"].items():
        bad = x["GP"] > 1.25 * m["ppc64"]["off"]["GP"]
        out.append(f"{way:<4}{x['GPs']:.0f} GPs would be of {human(x['GP'])}; "
                   f"all else {human(x['rest'])} for each CPU"
                   f"{': MISSED' if bad else ''}")
    return out


def report(doc):
    """The model of what is recorded as text, 80 columns."""
    m = model(doc, tomllib.loads(HARDWARE.read_text()), bounds())
    return "\n".join((fit_text(m) + scale_text(m))[1:]) + "\n"


def shown():
    """The model is as stale as the counts it is made of; the unit costs are
    from mails, which do not change."""
    doc = load(RESULTS)
    text = report(doc)
    s = bench.load(doc["scenario"])
    return [record.Shown(
        [record.Result("model (bench SCENARIO=smt)", doc["stamp"],
                       bench.inputs(s))],
        {"model": record.fenced(text)}, {"scale.txt": text})]


def main():
    """Print the report; 'make tables' puts it into docs/scale.md."""
    print(report(load(RESULTS)), end="", flush=True)
