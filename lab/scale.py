# SPDX-License-Identifier: GPL-2.0
"""The scale model: the counts of bench/results/smt.json as functions of N,
the CPUs that go or come, checked on the largest machine, which the fit does
not see; and what the counts mean for 1920 CPUs with unit costs that mails
measured on hardware (bench/hardware.toml): an estimate."""

import json
import math
import os
import re
import statistics
import tomllib

from . import bench
from .common import TOP, LabError, write_atomic

RESULTS = TOP / "bench" / "results" / "smt.json"
HARDWARE = TOP / "bench" / "hardware.toml"
PAGE = TOP / "docs" / "scale.md"
AGAIN = "'FULL=1 RECORD=1 make bench SCENARIO=smt' records them"
OPS = ("SMT off", "SMT on")
# the series' bounds: cpuhp.batch=, and cpuhp_fit_chunk() in cpuhp_batch.c
BATCH, BOUND_MS, LEAST = 256, 100, 32

# row -> functions; parks are what stands for the steps of a single CPU
COUNTS = {**{c: bench.COUNTS[c] for c in ("GP", "GP exp", "stops", "rebuilds",
                                          "parks")},
          "idle IPIs": ("wake_up_all_idle_cpus",)}


# ---- the counts ---------------------------------------------------------

def load(path):
    """The recorded results of SMT control, or LabError."""
    try:
        doc = json.loads(path.read_text())
        doc["date"], doc["runs"][0]
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

def chunks(n, fixed_ms, each_ms):
    """The operations that n CPUs are cut into, as cpuhp_fit_chunk() does by
    the time they take: BATCH at first, then as many as would have fit into the
    bound, but at least LEAST and at most BATCH. What it does for the time in
    which all CPUs are stopped is left out: nobody knows how long that is."""
    size, out = BATCH, []
    while n:
        out.append(min(size, n))
        n -= out[-1]
        took = fixed_ms + each_ms * out[-1]
        size = min(max(int(out[-1] * BOUND_MS / took), LEAST), BATCH)
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


def estimate(unit, rows, n):
    """Seconds to take n CPUs offline in chunks, and how many chunks: a dict
    of (low, high) pairs; 'whole': if all chunks have BATCH CPUs."""
    out = {"seconds": [], "chunks": [], "whole": []}
    per = {"GP": "GP", "stops": "stop", "rebuilds": "rebuild"}
    for i in (0, 1):
        fixed, each = (sum(rows[row][k] * unit[u][i] for row, u in per.items())
                       for k in "ab")
        each += unit["step"][i]
        cut = len(chunks(n, fixed * 1e3, each * 1e3))
        out["chunks"].append(cut)
        out["seconds"].append(cut * fixed + n * each)
        out["whole"].append(math.ceil(n / BATCH) * fixed + n * each)
    return out


def power9(p9, rows, way):
    """The 2023 mail's total from the counts of the lab. What a GP costs is
    from one difference in the mail, so this checks how many there are."""
    gps = at(rows, p9["going"])["GP"]
    gp = (p9[f"{way}_s"] - p9[f"{way}_no_cpuidle_gp_s"]) / p9["going"]
    return {"GPs": gps, "GP": gp, "measured": p9[f"{way}_s"],
            "predicted": gps * gp + p9[f"{way}_expedited_s"]}


def model(doc, hw):
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
    return {"date": doc["date"], "fits": fits, "like": like,
            "sizes": {k: sorted(v) for k, v in measured(doc).items()},
            "cpus": p10["cpus"], "threads": p10["threads"], "n": n,
            "unit": unit, "bare": bare,
            "tree": next((r["tree"] for r in doc["runs"]
                          if r.get("variant") == "patched"), "?"),
            "total": p10["off_v6_0_s"],
            "hour": the_hour(hw, unit, base, n),
            "expedited": (bare - gps * unit["GP"][1],
                          bare - gps * unit["GP"][0]),
            "patched": estimate(unit, like["SMT off", "patched"], n),
            "traced": {"rebuild": p10["traced_build_sched_domains_s"],
                       "files": p10["traced_update_debugfs_s"]},
            "power9": {way: power9(hw["power9"], like[f"SMT {way}", "base"],
                                   way) for way in ("off", "on")}}


# ---- output -------------------------------------------------------------

def human(s):
    """Seconds as '59 min 30 s', '7.3 s' or '61 ms'."""
    if s < 1:
        return f"{s * 1e3:.3g} ms"
    if s < 59.95:
        return f"{s:.2f} s" if s < 10 else f"{s:.1f} s"
    return f"{round(s) // 60} min {round(s) % 60:02d} s"


def between(pair):
    lo, hi = map(human, pair)
    return lo if lo == hi else f"{lo} - {hi}"


def line(first, cells, width=23, last=""):
    return (f"{first:<11}" + "".join(f"{c:<{width}}" for c in cells)
            + last).rstrip()


def fit_text(m):
    """The fits and how they meet the size they have not seen."""
    out = [f"Recorded {m['date'][:10]}, patched tree {m['tree'][:12]}"]
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
    whole = math.ceil(n / BATCH)
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
            (f"patched, {whole} chunks of {BATCH} if not cut by time",
             between(p["whole"]))):
        out.append(f"{name:<46}{what}")
    out += ["", "POWER9 of 2023-03, 127 of 128 CPUs, GPs as counted here", ""]
    for way, x in m["power9"].items():
        bad = abs(x["predicted"] / x["measured"] - 1) > .25
        out.append(f"{way:<4}{x['GPs']:.0f} GPs of {human(x['GP'])} and the "
                   f"expedited total: {human(x['predicted'])}; measured "
                   f"{human(x['measured'])}{': MISSED' if bad else ''}")
    return out


def report():
    """The model of what is recorded as text, 80 columns."""
    m = model(load(RESULTS), tomllib.loads(HARDWARE.read_text()))
    return "\n".join(fit_text(m) + scale_text(m)) + "\n"


def in_page(page, text):
    """A page with what is between its marks replaced by the report."""
    return re.sub(r"(<!-- model -->\n).*?(<!-- end -->)",
                  lambda m: f"{m[1]}```\n{text}```\n{m[2]}", page, flags=re.S)


def record():
    """Put the report into docs/scale.md."""
    write_atomic(PAGE, in_page(PAGE.read_text(), report()))


def main():
    """Print the report; with RECORD=1 in the environment record it, too."""
    print(report(), end="", flush=True)
    if os.environ.get("RECORD"):
        record()
