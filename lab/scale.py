# SPDX-License-Identifier: GPL-2.0
"""The scale model: the counts of bench/results/smt.json as functions of N,
the CPUs that go or come, checked on the largest machine, which the fit does
not see; and what the counts mean for 1920 CPUs with unit costs that mails
measured on hardware (bench/hardware.toml): an estimate. What the patched
kernel pays for a slice or an activation is fitted to S or A, the numbers of
them."""

import json
import math
import re
import statistics
import tomllib

from . import bench, common, record
from .common import TOP, LabError, human

RESULTS = TOP / "bench" / "results" / "smt.json"
HARDWARE = TOP / "bench" / "hardware.toml"
CPU, DOMAINS = (RESULTS.with_name(f"{x}.json") for x in ("cpu", "domains"))
AGAIN = "'FULL=1 RECORD=1 make bench SCENARIO=smt' records them"
OPS = ("SMT off", "SMT on")

REBUILD = "partition_sched_domains"

SIZES = (16, 32, 64, 128, 256)  # of slices, at most, to compare

# row -> functions; parks are what stands for the steps of a single CPU
COUNTS = {**{c: bench.COUNTS[c] for c in ("GP", "GP exp", "stops", "rebuilds",
                                          "parks")},
          "idle IPIs": ("wake_up_all_idle_cpus",)}


# ---- the two levels -----------------------------------------------------

def slice_size():
    """The default of cpuhp.batch= of the kernel in linux/, or LabError."""
    text = "".join(p.read_text() for p in
                   sorted((common.LINUX / "kernel").glob("cpuhp*.c")))
    m = re.search(r"\bcpuhp_batch\b.* = (\d\d+);", text)
    if not m:
        raise LabError(f"no size of a slice in {common.LINUX}/kernel/"
                       "cpuhp*.c; mend slice_size() in lab/scale.py")
    return int(m[1])


def taken(size, core, op="SMT off"):
    """How many CPUs a slice of at most 'size' takes where 'core' threads of each
    core go or come: cpuhp_next_slice() does not cut the online threads of a
    core if it can be helped, and those that come are offline. (The mean, where a
    slice is smaller than a core.)"""
    if op == "SMT on":
        return size
    return size // core * core or core / -(-core // size)


def slices(n, size):
    """The slices of n CPUs where each takes that many."""
    return math.ceil(n / size)


def activations(cut):
    """How often a request for that many slices activates CPUs on the way up,
    each time with a rebuild: after the first slice, and when as many CPUs
    wait for it as are active, as cpuhp_bring_up() does."""
    return 1 + (cut - 1).bit_length()


def paid_for(row, op, treatment):
    """What a count grows with: 'N' CPUs, 'S' slices or 'A' activations. The
    rest of a request, a grace period and its rebuild on the way down, does
    not grow."""
    if treatment == "patched" and row == "GP exp" and op == "SMT off":
        return "S"
    if treatment == "patched" and row == "rebuilds" and op == "SMT on":
        return "A"
    if treatment == "patched" and row == "stops" and op == "SMT on":
        return "S"          # x86: the MTRRs, of 16 CPUs in a stop
    return "N"


def number(what, n, size):
    """That number for a request of n CPUs."""
    return {"N": n, "S": slices(n, size),
            "A": activations(slices(n, size))}[what]


# ---- the counts ---------------------------------------------------------

def load(path):
    """The recorded results of a scenario, or LabError."""
    again = AGAIN.replace("=smt'", f"={path.stem}'")
    try:
        doc = json.loads(path.read_text())
        doc["stamp"]["date"], doc["runs"][0]
    except FileNotFoundError:
        raise LabError(f"no {path.name}; {again}") from None
    except (ValueError, LookupError, TypeError):
        raise LabError(f"{path} is damaged; {again}") from None
    return doc


def measured(doc):
    """{(machine, op, treatment): {T: (N, {row: count}, threads of each core that
    go or come)}}"""
    out = {}
    for run in doc["runs"]:
        t = run["cpus"]
        for c in run["counts"]:
            if c["op"] in OPS:
                key = (run["machine"], c["op"], c["treatment"])
                out.setdefault(key, {})[t] = (t - t // run["threads"], {
                    row: sum(c["calls"].get(f, 0) for f in functions)
                    for row, functions in COUNTS.items()}, run["threads"] - 1)
    return out


def one_cpu(doc):
    """{row: count} of one CPU that goes offline alone with the series, by
    cpu.json, on its largest pseries machine; or LabError."""
    counts = {run["cpus"]: c["calls"] for run in doc["runs"]
              if run["machine"] == "pseries"
              for c in run["counts"]
              if (c["op"], c["treatment"]) == ("offline", "patched")}
    if not counts:
        raise LabError(f"{CPU.name} has no counts of one CPU offline, patched, "
                       "on pseries; 'RECORD=1 make bench SCENARIO=cpu' "
                       "records them")
    calls = counts[max(counts)]
    return {row: sum(calls.get(f, 0) for f in functions)
            for row, functions in COUNTS.items()}


def cheaper(doc):
    """(CPUs, times): how many times as long the unpatched kernel rebuilds the
    domains of the largest machine of domains.json, of virtual time; or
    LabError."""
    us = {}
    for run in doc["runs"]:
        us[run["cpus"], run["variant"]] = statistics.median(
            float(x["us"]) for x in run["stats"]
            if (x["verbose"], x["function"]) == ("N", REBUILD))
    cpus = max((n for n, variant in us
                if {(n, "base"), (n, "patched")} <= us.keys()), default=None)
    if cpus is None:
        raise LabError(f"{DOMAINS.name} has no machine with both kernels; "
                       "'FULL=1 RECORD=1 make bench SCENARIO=domains' records "
                       "it")
    return cpus, us[cpus, "base"] / us[cpus, "patched"]


def fit(doc, size):
    """{(machine, op, treatment): {row: {'a', 'b', 'of', 'predicted',
    'measured'}}}: a + b times the number of what 'of' says, by least squares
    over all sizes but the largest."""
    out = {}
    for key, sizes in measured(doc).items():
        *small, largest = sorted(sizes)
        if len(small) < 2:
            raise LabError(f"{RESULTS.name} has {len(sizes)} size(s) of "
                           f"{', '.join(key)}, a fit and its check take "
                           f"three; {AGAIN}")
        n, want, _ = sizes[largest]
        number_at = lambda of, t: number(of, sizes[t][0],
                                         taken(size, sizes[t][2], key[1]))
        rows = out[key] = {}
        for row in COUNTS:
            of = paid_for(row, *key[1:])
            x = [number_at(of, t) for t in small]
            y = [sizes[t][1][row] for t in small]
            if len(set(x)) > 1:
                b, a = statistics.linear_regression(x, y)
            elif of == "S" and any(y):      # no size with two slices: one for each
                b, a = 1, statistics.mean(y) - x[0]
            else:
                b, a = statistics.mean(y) / x[0], 0
            a, b = round(a, 6), round(b, 6)
            rows[row] = {"a": a, "b": b, "of": of,
                         "predicted": a + b * number_at(of, largest),
                         "measured": want[row]}
    return out


def formula(a, b, of="N"):
    """'1+2N'"""
    terms = [f"{a:.3g}"] if a or not b else []
    if b:
        terms.append(of if b == 1 else f"{b:.3g}{of}")
    return "+".join(terms).replace("+-", "-")


def at(rows, n, size):
    """Counts of n CPUs."""
    return {row: x["a"] + x["b"] * number(x["of"], n, size)
            for row, x in rows.items()}


# ---- 1920 CPUs ----------------------------------------------------------

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
    # an expedited one has to reach those CPUs that are busy, a stop all
    return {"GP": gp, "GP exp": stop, "step": step, "stop": stop,
            "files": (files, files), "rebuild": rebuild}


def the_hour(unit, base, n):
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


def estimate(unit, rows, n, size):
    """What it takes to bring n CPUs down in slices of 'size': (low, high) in
    seconds. 'stay': if one of them has to; 'waits': all grace periods; for a
    slice, one 'hold' of the hotplug lock. And the number of slices."""
    counts = at(rows, n, size)
    ends = []
    for i in (0, 1):
        cost = {name: pair[i] for name, pair in unit.items()}
        waits = counts["GP exp"] * cost["GP exp"]
        seconds = (counts["GP"] * cost["GP"] + waits + n * cost["step"]
                   + counts["stops"] * cost["stop"]
                   + counts["rebuilds"] * cost["rebuild"])
        ends.append({"seconds": seconds, "stay": seconds + cost["rebuild"],
                     "waits": waits,
                     "hold": cost["GP exp"] + size * cost["step"]})
    low, high = ends
    return {"slices": slices(n, size), **{k: (low[k], high[k]) for k in low}}


def alone(unit, counts, n, times):
    """The same for n CPUs that go one by one, each with those counts and as a
    slice of its own, (low, high) in seconds: 'as is', with what a rebuild
    takes today, and 'cheaper', with one that takes so many times less."""
    rows = {row: {"a": 0, "b": c, "of": "N"} for row, c in counts.items()}
    less = {**unit, "rebuild": tuple(x / times for x in unit["rebuild"])}
    return {what: estimate(u, rows, n, 1)["seconds"]
            for what, u in (("as is", unit), ("cheaper", less))}


def power9(p9, rows, way):
    """The 2023 mail's total from the counts of the lab. What a GP costs is
    from one difference in the mail, so this checks how many there are."""
    gps = at(rows, p9["going"], 1)["GP"]
    gp = (p9[f"{way}_s"] - p9[f"{way}_no_cpuidle_gp_s"]) / p9["going"]
    return {"GPs": gps, "GP": gp, "measured": p9[f"{way}_s"],
            "predicted": gps * gp + p9[f"{way}_expedited_s"]}


def ppc64(hw, rows, way):
    """The 2026 mail: what each grace period that the lab counts would have to
    cost, and all the rest for each CPU, a rebuild of the domains among it."""
    gps = at(rows, hw["going"], 1)["GP"]
    rest = hw[f"{way}_expedited_s"]
    return {"GPs": gps, "GP": (hw[f"{way}_s"] - rest) / gps,
            "rest": rest / hw["going"]}


def model(doc, hw, size, cpu, domains):
    """Everything that the report says, as a dict, from what smt, cpu and
    domains have recorded."""
    fits = fit(doc, size)
    like = {}           # pseries is like the machines of the mails
    for op in OPS:
        for t in bench.TREATMENTS:
            if ("pseries", op, t) not in fits:
                raise LabError(f"{RESULTS.name} has no counts of '{op}', {t}, "
                               f"on pseries; {AGAIN}")
            like[op, t] = fits["pseries", op, t]
    p10 = hw["power10"]
    n = p10["cpus"] - p10["cpus"] // p10["threads"]
    of_core = p10["threads"] - 1
    base = at(like["SMT off", "base"], n, size)
    unit = unit_costs(hw, base)
    bare, gps = p10["off_v6_0_reverted_s"], base["GP"]
    return {"fits": fits, "like": like,
            "sizes": {k: sorted(v) for k, v in measured(doc).items()},
            "cpus": p10["cpus"], "threads": p10["threads"], "n": n,
            "unit": unit, "bare": bare, "size": size,
            "slice": {op: taken(size, of_core, op) for op in OPS},
            "total": p10["off_v6_0_s"],
            "hour": the_hour(unit, base, n),
            "expedited": (bare - gps * unit["GP"][1],
                          bare - gps * unit["GP"][0]),
            "patched": {k: estimate(unit, like["SMT off", "patched"], n,
                                    taken(k, of_core))
                        for k in sorted({size, *SIZES, n})},
            "alone": alone(unit, one_cpu(cpu), n, cheaper(domains)[1]),
            "cheaper": cheaper(domains),
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
                cells.append(f"{formula(x['a'], x['b'], x['of']):<8} "
                             f"{x['predicted']:.4g}/{x['measured']}"
                             f"{'  !' if bad else ''}"
                             if bad or x["measured"] else "-")
            if set(cells) != {"-"}:
                out.append(line(row, cells))
    return out


def size_table(p):
    """One line for each size of a slice."""
    row = "{:>5}  {:>6}  {:>12}  {:>12}  {:>8}  {:>9}".format
    digits = lambda x: f"{x:.0f}" if x >= 10 or not x else f"{x:.1f}"
    span = lambda lo, hi: f"{digits(lo)} - {digits(hi)}"
    out = [row("", "", "one hold,", "all GPs,", "share,", "SMT off,"),
           row("slice", "slices", "ms", "s", "%", "s")]
    for size, x in p.items():
        share = (100 * a / b for a, b in zip(x["waits"], x["seconds"]))
        out.append(row(
            size, x["slices"], span(*(1e3 * v for v in x["hold"])),
            span(*x["waits"]), span(*share), span(*x["seconds"])))
    return out


def scale_text(m):
    """What it means for 1920 CPUs."""
    n, unit, size = m["n"], m["unit"], m["size"]
    p = m["patched"]
    out = ["", f"{m['cpus']} CPUs, SMT{m['threads']}, {n} go or come, patched "
           f"in slices of {m['slice']['SMT off']} and {m['slice']['SMT on']}: counts",
           "",
           line("", [f"{op}:" for op in OPS], 33),
           line("", [f"{t:<11}" for t in bench.TREATMENTS] * 2, 11)]
    for row in COUNTS:
        counts = [at(m["like"][op, t], n, m["slice"][op])
                  for op in OPS for t in bench.TREATMENTS]
        out.append(line(row, [f"{c[row]:.0f}" for c in counts], 11))
    out.append("Patched, off: one rebuild more if a CPU has to stay.")
    out += ["", "Unit costs", ""]
    for name, why in (
            ("GP", "low: 128 CPUs, high: 1600 CPUs (2023-03)"),
            ("step", "low: x86 (2023-04), high: POWER9 (2023-03)"),
            ("stop", "unknown; high: all of POWER9's times 15"),
            ("GP exp", "unknown; high: as a stop, which has to reach all"),
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
    out += ["", f"SMT{m['threads']} off on {m['cpus']} CPUs, without the files:"
            " ESTIMATE", ""]
    for name, what in (
            ("base (measured)", human(m["bare"])),
            ("base, rcu_expedited", between(m["expedited"])),
            (f"patched, {p[size]['slices']} slices of {m['slice']['SMT off']}",
             between(p[size]["seconds"])),
            ("patched, and a CPU has to stay", between(p[size]["stay"])),
            (f"patched, {n} writes of one CPU each",
             between(m["alone"]["as is"])),
            ("patched, so, and a rebuild takes less *",
             between(m["alone"]["cheaper"]))):
        out.append(f"{name:<46}{what}")
    cpus, times = m["cheaper"]
    out.append(f"* {times:.1f} times less, as of {cpus} CPUs in the lab "
               "(SCENARIO=domains)")
    out += ["", "What the size of a slice does to that, low - high: ESTIMATE", "",
            *size_table(p),
            "The first hold, of all CPUs, is a rebuild, "
            f"{between(unit['rebuild'])}, and a grace period."]
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
    m = model(doc, tomllib.loads(HARDWARE.read_text()), slice_size(),
              load(CPU), load(DOMAINS))
    return "\n".join((fit_text(m) + scale_text(m))[1:]) + "\n"


def shown():
    """The model is as stale as the counts it is made of; the unit costs are
    from mails, which do not change."""
    docs = [load(path) for path in (RESULTS, CPU, DOMAINS)]
    text = report(docs[0])
    return [record.Shown(
        [record.Result(f"model (bench SCENARIO={d['scenario']})", d["stamp"],
                       bench.inputs(bench.load(d["scenario"])))
         for d in docs],
        {"model": record.fenced(text)}, {"scale.txt": text})]


def main():
    """Print the report; 'make tables' puts it into docs/scale.md."""
    print(report(load(RESULTS)), end="", flush=True)
