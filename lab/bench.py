# SPDX-License-Identifier: GPL-2.0
"""Scenarios: what is measured, side by side on base, base with
rcu_expedited=1 and patched; the table, JSON and plot of a run."""

import io
import itertools
import json
import os
import pathlib
import re
import shlex
import statistics
import threading
import time
import tomllib

from . import boot, kernels, mailtables, record, vm
from .common import TOP, LabError, check_arch, digest, human, ms, say

SCENARIOS = TOP / "bench" / "scenarios"
TREATMENTS = ("base", "expedited", "patched")
# column -> the functions whose calls it sums (see guest/lib.sh)
COUNTS = {
    "GP": ("synchronize_rcu_normal",),
    "GP exp": ("synchronize_rcu_expedited",),
    "stops": ("stop_machine_cpuslocked", "stop_machine_from_inactive_cpu"),
    "rebuilds": ("build_sched_domains",),
    "IPI all": ("wake_up_all_idle_cpus", "smp_call_function_many_cond"),
    "parks": ("kthread_park",),
}
# What tells when the kernel started the first process, in nanoseconds of its
# log's clock: before the guest's scripts read from disks, for which QEMU takes
# as long as it takes
FIRST = r"""emit first ns "$(dmesg | sed -n \
	's/^\[ *\([0-9]*\)\.\([0-9]*\)\] Run .* as init process$/\1\2000/p')"
"""
_print_lock = threading.Lock()


def load(name):
    """The scenario of a name: a dict with title, machine, op, repeat. Raises
    LabError for a name or a file that is wrong."""
    path = SCENARIOS / f"{name}.toml"
    if not path.exists():
        have = ", ".join(sorted(p.stem for p in SCENARIOS.glob("*.toml")))
        raise LabError(f"no SCENARIO '{name}'; there are: all, {have}")
    try:
        s = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as e:
        raise LabError(f"{path}: {e}") from None
    s.setdefault("op", [])
    for key in ("title", "machine", "job" if "job" in s else "op"):
        if not s.get(key):
            raise LabError(f"{path} has no '{key}'")
    for m in s["machine"]:
        if m.get("type") not in vm.MACHINES:
            raise LabError(f"{path}: there is no machine type "
                           f"'{m.get('type', '')}', only "
                           + ", ".join(vm.MACHINES))
    if s.get("report", "") not in ("", *mailtables.TABLES):
        raise LabError(f"{path}: there is no report '{s['report']}', only "
                       + ", ".join(mailtables.TABLES))
    for op in s["op"]:
        if "name" not in op or "run" not in op:
            raise LabError(f"{path}: every op needs 'name' and 'run'")
    s["name"] = name
    return s


def of(scenario):
    """The pairs of architecture and profile that it boots."""
    profiles = (scenario.get("profile", ""),
                *scenario.get("profiles", {}).values())
    arches = sorted({vm.MACHINES[m["type"]]["arch"]
                     for m in scenario["machine"]})
    return [*itertools.product(arches, profiles)]


def inputs(scenario):
    """The digest of what defines a result but the kernel's code: the scenario
    without its title and comments, and the configurations that it boots."""
    return digest(
        json.dumps({k: v for k, v in scenario.items()
                    if k not in ("name", "title")}, sort_keys=True),
        *(TOP / p for p in scenario.get("patches", {}).values()),
        *(f for x in of(scenario) for f in kernels.fragments(*x)))


def machines(scenario, cpus=None, arch=None, full=False, accel=""):
    """The Machines of a scenario, in its order; accel instead of its own."""
    out = []
    for m in scenario["machine"]:
        if arch and vm.MACHINES[m["type"]]["arch"] != arch:
            continue
        sizes = m["cpus"] + (m.get("more", []) if full else [])
        for n in ([cpus] if cpus and not m.get("fixed") else sizes):
            how = vm.check_accel(accel or m.get("accel", "icount"),
                                 vm.MACHINES[m["type"]]["arch"])
            own = {m.get("boot", ""): ""}
            for name, append in scenario.get("boots", own).items():
                if name in m.get("without", ()):
                    continue
                append = f"{m.get('append', '')} {append}".strip()
                one = vm.topology(
                    m["type"], n, m.get("threads", 0), m.get("nodes", 0),
                    accel=how, append=append, cpu=m.get("cpu", ""),
                    idle=m.get("idle", ""), freq=m.get("freq", ""), boot=name,
                    options=tuple(m.get("options", ())))
                for serial, path in m.get("disks", {}).items():
                    one = one.with_disk(serial, pathlib.Path(path))
                out.append(one)
    if not out:
        raise LabError(f"scenario {scenario['name']} has no machine for "
                       f"ARCH={arch}")
    return out


def _ops(scenario, m, variant=""):
    """The operations which a machine of the scenario does, in order, with any
    kernel or this one."""
    return [op for op in scenario["op"]
            if op.get("machine", m.type) == m.type
            and op.get("boot", m.boot) == m.boot
            and op.get("cpu", m.cpu) == m.cpu
            and (not variant or op.get("variant", variant) == variant)]


def variants(scenario, boot=None):
    """The kernels of a scenario, or of one of its boots."""
    usual, own = scenario.get("variants", kernels.VARIANTS), \
        scenario.get("kernels", {})
    return tuple(own.get(boot, usual) if boot is not None else
                 dict.fromkeys([*usual, *(v for o in own.values() for v in o)]))


def image(scenario, variant, arch):
    """The image of a variant, which may be one that the scenario defines: the
    series up to the patch of that subject, all of it with a profile, or the
    base with a patch of its own. The other ones have the scenario's profile."""
    patch = scenario.get("patches", {}).get(variant)
    if patch:
        return kernels.build("base", arch,
                             commit=kernels.with_patch(TOP / patch))
    subject = scenario.get("commits", {}).get(variant)
    if subject:
        return kernels.build("base", arch, commit=kernels.patch(subject))
    profile = scenario.get("profiles", {}).get(variant)
    if profile:
        return kernels.build("patched", arch, profile)
    return kernels.build(variant, arch, scenario.get("profile", ""))


def boots(scenario, m):
    """What has to be booted for a machine: (variant, treatment, cycle) for
    each boot. One boot of a variant serves all its treatments and counts,
    unless the scenario is 'fresh': then each has its own, 'repeat' of them
    with times and one with counts. treatment is '' for all of them; cycle: 0
    counts calls, None is for all cycles."""
    if not scenario.get("fresh"):
        return [(v, "", None) for v in variants(scenario, m.boot)]
    cycles = range(1, scenario.get("repeat", 1) + 1)
    if not _ops(scenario, m):       # nothing but the time to user space
        return [(t, t, c) for c in cycles for t in ("base", "patched")]
    return [("patched" if t == "patched" else "base", t, c)
            for c in (*cycles, 0) for t in TREATMENTS]


def job_text(scenario, m, variant, treatment="", cycle=None):
    """The bash job for one boot: a warm-up cycle, 'repeat' timed cycles with
    the treatments taking turns, one counted cycle each. With a treatment
    given, one cycle of that one, timed or (0) counted, and no warm-up. A
    scenario may have a job of its own instead."""
    if "job" in scenario:
        return scenario["job"]
    ops = _ops(scenario, m, variant)
    run = lambda op: op.get("run_base", op["run"]) if variant == "base" \
        else op["run"]
    treatments = [treatment] if treatment else \
        ["base", "expedited"] if variant == "base" else [variant]
    cycles = range(scenario.get("repeat", 3) + 1) if cycle is None \
        else [cycle] if cycle else []
    more = [f for fs in scenario.get("counts", {}).values() for f in fs]
    lines = [FIRST] if scenario.get("until") == "first process" else []
    lines += [f"COUNTED_MORE='{' '.join(more)}'", scenario.get("setup", "")]
    for c in cycles:
        for t in treatments:
            lines.append(f"as_treatment {t}")
            for op in ops:
                failed = shlex.quote(f"{op['name']} failed: ")
                lines.append(f"timed {shlex.quote(op['name'])} {t} {c} "
                             f"{run(op)} || die {failed}"
                             '"$(cat /tmp/timed.err)"')
    for t in () if cycle else treatments:
        lines.append(f"as_treatment {t}")
        for op in ops:
            lines.append(f"counted {shlex.quote(op['name'])} {t} {run(op)}")
    return "\n".join(lines) + "\n"


def cpulist(text):
    """The set of CPU numbers in a cpulist such as '0-3,8'; LabError if the text
    is none."""
    out = set()
    for part in filter(None, text.strip().split(",")):
        m = re.fullmatch(r"(\d+)(?:-(\d+))?", part, re.A)
        cpus = m and range(int(m[1]), int(m[2] or m[1]) + 1)
        if not cpus:
            raise LabError(f"'{text.strip()}' is no list of CPUs such as '0-3,8'")
        out |= set(cpus)
    return out


def _check_sample(scenario, m, rec):
    """Raise LabError when an operation left other CPUs online than its 'op'
    says, or a boot than its 'machine': 'cores', 'all', a number, which for
    an operation that takes CPUs offline is negative."""
    what = next(o for o in scenario["op"] + scenario["machine"]
                if rec["op"] in (o.get("name"), o.get("boot"))
                and ("type" in o) == (rec["op"] == m.boot)) \
        if "job" not in scenario else {}
    want = what.get("online")
    if want is None:
        return
    n = {"all": m.cpus, "cores": m.cpus // m.threads}.get(want)
    if n is None:
        n = m.cpus + want if want < 0 else want
    got = len(cpulist(rec["online"]))
    if got != n:
        raise LabError(f"{scenario['name']} on {m.name()}: after "
                       f"'{rec['op']}' {got} CPUs are online, not {n}")


def run_to_end(m, image, job, name, **kw):
    """boot.run_job() of a job that is to end well: LabError otherwise."""
    r = boot.run_job(m, image, job, name=name, **kw)
    if r.status:
        raise LabError(f"{name}: the job ended with status {r.status}: "
                       f"{r.output().strip().splitlines()[-1:]}; console: "
                       f"{r.console_path}")
    return r


def _between(r, lines, name):
    """Nanoseconds from one line of the kernel's log to another, which begin
    with these texts, but for who says it, by the console: of a kernel that
    ends. LabError when one is not there."""
    at = []
    for text in lines:
        found = re.search(r"\[ *(\d+)\.(\d{6})\] (?:\S+: )?" + re.escape(text),
                          r.console)
        if not found:
            raise LabError(f"{name}: there is no line '{text}' on the console: "
                           f"{r.console_path}")
        at.append(int(found[1] + found[2]) * 1000)
    return at[1] - at[0]


def both(what, m, inputs, run_one, profile=""):
    """Boot base and patched one after the other with run_one(m, variant,
    image); the document, with what each returned in 'kernels'."""
    doc = {"stamp": record.stamp(inputs, of=[(m.arch, profile)]),
           "arch": m.arch, "machine": m.type, "cpus": m.cpus,
           "threads": m.threads, "nodes": m.nodes,
           "accel": m.accel, "qemu": vm.qemu_version(m.arch)}
    images = {v: kernels.build(v, m.arch, profile) for v in kernels.VARIANTS}
    say(f"== {what} on {m.name()}: 2 boots")
    t0 = time.monotonic()
    doc["kernels"] = {v: record.of_image(i) | run_one(m, v, i)
                      for v, i in images.items()}
    return doc | {"host_seconds": round(time.monotonic() - t0, 1)}


def run_one(scenario, m, variant, image, treatment="", cycle=None):
    """Boot one machine and return its result as a dict, ready for JSON."""
    name = f"{scenario['name']}-{m.name()}-{treatment or variant}"
    name += f"-{cycle or 'counted'}" if cycle is not None else ""
    limit = scenario.get("limit", 180 + 12 * m.cpus)
    job = job_text(scenario, m, variant, treatment, cycle)
    r = run_to_end(m, image, job, name, limit=limit)
    samples, counts = [], []
    boot_rec = r.of("boot")[0]
    # the expedited one is the same boot once more: it begins in user space
    if m.boot and cycle != 0 and treatment != "expedited":
        rec = {"op": m.boot, "online": boot_rec["online"]}
        _check_sample(scenario, m, rec)
        ns = boot_rec["uptime_ns"]
        if scenario.get("until") == "first process":
            ns = r.of("first")[0]["ns"]
            if not ns.isdigit():
                raise LabError(f"{name}: the kernel's log does not tell when "
                               f"it ran init; console: {r.console_path}")
        samples.append({"op": m.boot, "treatment": treatment or variant,
                        "cycle": cycle or 1, "ns": int(ns)})
    for rec in r.of("sample"):
        _check_sample(scenario, m, rec)
        if int(rec["cycle"]):           # 0 warms up
            samples.append({"op": rec["op"], "treatment": rec["treatment"],
                            "cycle": int(rec["cycle"]), "ns": int(rec["ns"])})
    # what these return is not how long the operation was
    others = {op["name"] for op in scenario["op"]
              if op["run"].startswith(("labctl gap", "labctl lockwait",
                                       "labctl membarrier", "labctl half",
                                       "suspended"))}
    for rec in r.of("counts"):
        calls = {k: int(v) for k, v in rec.items()
                 if k not in ("t", "op", "treatment", "status", "ns", "gp_ns")}
        counts.append({"op": rec["op"], "treatment": rec["treatment"],
                       "calls": calls, "ns": int(rec["ns"])}
                      | ({} if rec["op"] in others
                         else {"gp_ns": int(rec["gp_ns"])}))
    stats = [{k: v for k, v in rec.items() if k != "t"}
             for rec in r.of("stats")]
    if "console" in scenario:
        stats.append({"ns": str(_between(r, scenario["console"], name))})
    if not samples and not counts and not stats:
        raise LabError(f"{name}: no sample came back; console: "
                       f"{r.console_path}")
    with _print_lock:
        say(f"   {name}: {human(r.seconds)}")
    return {"machine": m.type, "cpus": m.cpus, "threads": m.threads,
            "sockets": m.sockets, "nodes": m.nodes, "accel": m.accel,
            "cpu": m.model(),
            "append": m.append, "idle": m.idle, "freq": m.freq,
            "boot": m.boot,
            "variant": variant, **record.of_image(image),
            "host_seconds": round(r.seconds, 1), "samples": samples,
            "counts": counts} | ({"stats": stats} if stats else {})


def subjects(scenario):
    """Of the patches up to which it has kernels of their own."""
    return tuple(scenario.get("commits", {}).values())


def workers(virtual):
    """How many guests of a scenario run at a time: virtual time does not
    notice."""
    return min(os.cpu_count() or 1, 4) if virtual else 1


def measure(scenario, which):
    """Run a scenario on base and patched, on 'which' machines, taking turns;
    return the result document."""
    taken = record.stamp(inputs(scenario), subjects(scenario), of(scenario))
    arches = dict.fromkeys(m.arch for m in which)
    images = {(v, a): image(scenario, v, a)
              for a in arches for v in variants(scenario)}
    for a in arches:                    # make them beforehand
        boot.guest.rootfs(a), boot.guest.lab_disk(a)
    work = [(m, *b) for m in which for b in boots(scenario, m)]
    virtual = all(m.accel == "icount" for m in which)
    n = workers(virtual)
    say(f"== {scenario['title']}: {len(work)} boots, {n} at a time")
    runs = boot.side_by_side(
        run_one, [(scenario, m, v, images[v, m.arch], t, c)
                  for m, v, t, c in work], n)
    return {"scenario": scenario["name"], "title": scenario["title"],
            "stamp": taken,
            "unit": "ns", "clock": "CLOCK_MONOTONIC of the guest"
            + (", virtual (icount)" if virtual else ""),
            "counts": scenario.get("counts", {}),
            "report": scenario.get("report", ""),
            "qemu": {a: vm.qemu_version(a) for a in arches},
            "runs": runs}


def rows(doc):
    """One row for each machine, size and operation: {'machine', 'cpus',
    'op', 'n': samples, 'ms': {treatment: (median, min, max)}, 'counts':
    {treatment: {column: n}}, 'rest': {treatment: ms without the time in which
    grace periods are waited for, of the run that was counted; {} with
    rcu_normal}}."""
    out = {}
    for run in doc["runs"]:
        for s in run["samples"]:
            key = (run["machine"], run["cpus"], s["op"])
            row = out.setdefault(key, {"machine": key[0], "cpus": key[1],
                                       "op": key[2], "all": {}, "counts": {},
                                       "rest": {}})
            row["all"].setdefault(s["treatment"], []).append(s["ns"] / 1e6)
        for c in run["counts"]:
            row = out[run["machine"], run["cpus"], c["op"]]
            row["counts"][c["treatment"]] = {
                col: sum(c["calls"].get(f, 0) for f in funcs)
                for col, funcs in {**COUNTS,
                                   **doc.get("counts", {})}.items()}
            # an expedited one waits in a normal one, and would count twice
            if "gp_ns" in c and "rcu_normal=1" not in run.get("append", ""):
                row["rest"][c["treatment"]] = (c["ns"] - c["gp_ns"]) / 1e6
    for row in out.values():
        row["n"] = max(map(len, row["all"].values()), default=0)
        row["ms"] = {t: (statistics.median(v), min(v), max(v))
                     for t, v in row.pop("all").items()}
    return list(out.values())


def columns(rs):
    """The treatments of rows, in order: the usual ones, or those of a scenario
    with kernels of its own."""
    seen = dict.fromkeys(t for r in rs for t in r["ms"])
    return TREATMENTS if set(seen) <= set(TREATMENTS) else tuple(seen)


def gains(times, last="patched"):
    """['69.5x', '4.2x']: how much faster the last treatment is than base and
    than expedited, of a row's 'ms'; '-' where one is not there, or too
    short."""
    new = times.get(last, (0,))[0]
    all_ = [times[t][0] / new if new >= .1 and t in times else None
            for t in TREATMENTS[:2]]
    return ["-" if x is None else f"{x:.{1 if x >= 1 else 2}f}x" for x in all_]


def table(doc):
    """The result as text, 80 columns: times, the same without the time in which
    grace periods were waited for, counts. Some scenarios have a table of their
    own."""
    if doc.get("report"):
        return mailtables.TABLES[doc["report"]](doc)
    rs = rows(doc)
    treatments = columns(rs)
    n = max((r["n"] for r in rs), default=0)
    kind = "virtual ms" if "virtual" in doc["clock"] else "ms"
    head = ["machine", "CPUs", "operation"]
    who = {id(r): [r["machine"], str(r["cpus"]), r["op"]] for r in rs}
    out = [f"{doc['title']} ({kind}, median of {n})", "",
           *record.grid([[*head, *treatments, "to base", "to exp."]] + [
               who[id(r)] + [ms(r["ms"].get(t, (None,))[0])
                             for t in treatments] + gains(r["ms"], treatments[-1])
               for r in rs])]
    rest = [who[id(r)] + [ms(r["rest"].get(t)) for t in treatments]
            for r in rs if r["rest"]]
    if rest:
        out += ["", "Without waiting for grace periods (one run)", "",
                *record.grid([[*head, *treatments]] + rest)]
    # what a scenario counts by itself is more to the point than these
    own = tuple(doc.get("counts", {}))
    cols = ("rebuilds", *own) if own else ("GP", "GP exp", "stops", "rebuilds")
    counted = [who[id(r)] + ["/".join(
        str(r["counts"].get(t, {}).get(col, "-")) for t in treatments)
        for col in cols] for r in rs if r["counts"]]
    if counted:
        out += ["", "Calls per operation: " + " / ".join(treatments), "",
                *record.grid([[*head, *cols]] + counted)]
    return "\n".join(out) + "\n"


def in_short(doc):
    """The README's table, from the results of 'make boot': Markdown."""
    at = {(r["machine"], r["op"]): r for r in rows(doc)}
    cpus = {mach: r["cpus"] for (mach, _), r in at.items()}

    def counts(op, *cols, mach="pseries"):
        return [" / ".join(str(at[mach, op]["counts"][t][c]) for c in cols)
                for t in TREATMENTS]

    def times(*ops, mach="pseries"):
        return [" / ".join(ms(at[mach, op]["ms"][t][0]) for op in ops)
                for t in TREATMENTS]
    off, on = "smt/control off", "smt/control on"
    waited = [f"{c['GP']} normal" if c["GP"] else f"{c['GP exp']} expedited"
              for c in (at["pseries", off]["counts"][t] for t in TREATMENTS)]
    lines = [
        [f"SMT off on pseries, {cpus['pseries']} CPUs (QEMU, virtual ms)",
         "7.3", "7.3 + rcu_expedited", "patched"], ["---"] * 4,
        ["grace periods / `stop_machine()` / rebuilds of the sched domains",
         *(" / ".join(x) for x in zip(waited, counts(off, "stops", "rebuilds")))],
        ["off / on by a write to `smt/control`", *times(off, on)],
        ["by `ppc64_cpu` 1.3.13 (Debian 13 or later), which writes there",
         *times("new ppc64_cpu off", "new ppc64_cpu on")],
        ["by `ppc64_cpu` 1.3.10 (Debian 12), CPU by CPU",
         *times("ppc64_cpu --smt=off", "ppc64_cpu --smt=on")],
        [f"x86-64, {cpus['q35']} CPUs, by a write to `smt/control`",
         *times(off, on, mach="q35")],
        ["16 of them by `chcpu -d` / `-e` (util-linux 2.38, Debian 12)",
         *times("chcpu -d 16-31", "chcpu -e 16-31", mach="q35")]]
    return "".join(f"| {' | '.join(x)} |\n" for x in lines)


def plot(doc):
    """Cost against the number of CPUs, as the bytes of a PNG; one panel an
    operation. b'' when there is only one size, so nothing to plot."""
    own = {"stop": mailtables.stop_plot,
           "latency": mailtables.latency_plot}.get(doc.get("report"))
    if doc.get("report") and not own:
        return b""
    rs = [] if doc.get("report") else rows(doc)
    sizes = {}
    for r in rs:
        sizes.setdefault(r["machine"], set()).add(r["cpus"])
    if rs and max(map(len, sizes.values()), default=0) < 2:
        return b""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    if own:
        return _png(plt, own(doc, plt), doc)
    ops = list(dict.fromkeys(r["op"] for r in rs))
    fig, axes = plt.subplots(1, len(ops), figsize=(5 * len(ops), 4),
                             squeeze=False, layout="constrained")
    style = {"base": "-", "expedited": ":", "patched": "--"}
    colour = {}
    for ax, op in zip(axes[0], ops):
        for mach in dict.fromkeys(r["machine"] for r in rs):
            colour.setdefault(mach, f"C{len(colour)}")
            for t in TREATMENTS:
                pts = sorted((r["cpus"], r["ms"][t][0]) for r in rs
                             if r["machine"] == mach and r["op"] == op
                             and t in r["ms"])
                if pts:
                    ax.plot(*zip(*pts), style[t], marker="o", markersize=3,
                            color=colour[mach], label=f"{mach} {t}")
        ax.set(title=op, xlabel="CPUs", ylabel="ms", xscale="log",
               yscale="log")
        sizes = sorted({r["cpus"] for r in rs})
        ax.set_xticks(sizes, [str(s) for s in sizes])
        ax.minorticks_off()
        ax.grid(alpha=.3)
    axes[0][-1].legend(fontsize=7)
    return _png(plt, fig, doc)


def _png(plt, fig, doc):
    fig.suptitle(doc["title"])
    png = io.BytesIO()
    fig.savefig(png, dpi=110)
    plt.close(fig)
    return png.getvalue()


def files(doc):
    """What is made of a document: the table and, of several sizes, a plot."""
    png = plot(doc)
    return {f"{doc['scenario']}.txt": table(doc)} | (
        {f"{doc['scenario']}.png": png} if png else {})


def shown():
    """What is recorded of each scenario, and a place for those that are not."""
    def one(doc):
        name = doc["scenario"]
        try:
            s = load(name)
            now = inputs(s), subjects(s)
        except LabError:                # there is no such scenario now
            now = "", ()
        took = [r.get("host_seconds", 0) for r in doc["runs"]]
        result = record.Result(
            f"bench SCENARIO={name}", doc["stamp"], *now,
            max(sum(took) / workers("virtual" in doc["clock"]), *took, 0))
        return record.Shown(
            [result], {f"results:{name}": record.fenced(table(doc))}
            | ({"results:readme": in_short(doc)} if name == "boot" else {}),
            files(doc))
    again = "make bench RECORD=1 SCENARIO="
    out = [s for s in record.each(
        "*.json", lambda doc: one(doc) if "scenario" in doc else None,
        f"{again}its name") if s]
    have = {b for s in out for b in s.blocks}
    return out + [
        record.Shown([], {f"results:{p.stem}": f"`{again}{p.stem}` does it.\n"})
        for p in sorted(SCENARIOS.glob("*.toml"))
        if f"results:{p.stem}" not in have]


def plan(name, cpus=None, arch=None, full=False, rec=False, accel=""):
    """[(scenario, its Machines)] of what main() is given; LabError for what
    there is not, or cannot be together."""
    if arch:
        check_arch(arch)
    cpus = vm.number("CPUS", cpus)
    part = arch or accel or cpus and not (
        name not in ("", "all") and load(name).get("needs_cpus"))
    if rec and part:
        raise LabError("RECORD=1 keeps what the scenario says, not a part of it; "
                       "run it without ARCH=, ACCEL= and CPUS=")
    if name and name != "all":
        todo = [load(name)]
        if todo[0].get("needs_cpus") and not cpus:
            raise LabError(f"SCENARIO={name} needs CPUS=, for example "
                           "CPUS=256")
    else:
        todo = [s for s in (load(p.stem)
                            for p in sorted(SCENARIOS.glob("*.toml")))
                if (s.get("default") or name and s.get("in_all"))
                and (not arch or any(vm.MACHINES[m["type"]]["arch"] == arch
                                     for m in s["machine"]))]
    return [(s, machines(s, cpus, arch, full or name == "all"
                         and s.get("default"), accel)) for s in todo]


def main(name, cpus=None, arch=None, full=False, rec=False, accel=""):
    """Run scenario 'name' ('' is the default set, 'all' that with all sizes
    and the others; with full those get all of theirs), print tables, write
    out/bench/NAME.{json,png}; with rec also bench/results/NAME.json."""
    for s, which in plan(name, cpus, arch, full, rec, accel):
        doc = measure(s, which)
        print("\n" + table(doc), flush=True)
        record.leave("bench", s["name"], doc, files(doc), rec)
