# SPDX-License-Identifier: GPL-2.0
"""Scenarios with a table of their own: what a mail measured on hardware, done
again here and printed with the mail's numbers (bench/reference.toml)."""

import statistics
import tomllib

from .common import TOP, ms

REFERENCE = TOP / "bench" / "reference.toml"


def reference(name):
    """What the mail has, a table of bench/reference.toml."""
    return tomllib.loads(REFERENCE.read_text())[name]


def _kind(doc):
    return "virtual ms" if "virtual" in doc["clock"] else "ms"


# ---- slow CPUs at bringup -----------------------------------------------

# Two of ours make one of the mail's, which have a star
MAIL = {"prepare*": ("prepare", "kick"), "online*": ("bringup", "online")}
SECTIONS = ("prepare", "kick", "bringup", "online", "total", *MAIL)


def sections(run, when, who="all"):
    """{section: (total, avg/CPU, min, max)} in ms of a boot, 'boot' or
    'runtime', of all CPUs, of 'primaries' or of their 'siblings'. What is a sum for the mail's sections has no min and max: those
    of its parts may be of different CPUs."""
    out = {}
    for s in run["stats"]:
        n = int(s["count"])
        if s["when"] == when and s.get("who", "all") == who and n:
            total, low, high = (int(s[k]) / 1e6
                                for k in ("total", "min", "max"))
            out[s["section"]] = (total, total / n, low, high)
    for star, parts in MAIL.items():
        if all(p in out for p in parts):
            out[star] = (*map(sum, zip(*(out[p][:2] for p in parts))),
                         None, None)
    return out


def _pair(rows, width=36):
    """Lines of two tables side by side, each {section: (4 numbers)}."""
    out = [(f"{'':<8}" + "".join(f"{side + ':':<{width}}" for side in rows)
            ).rstrip()]
    out.append(f"{'':<8}" + "".join(
        f"{'total':>9}{'avg/CPU':>9}{'min':>8}{'max':>8}  " for _ in rows)
        .rstrip())
    for s in SECTIONS:
        if any(s in r for r in rows.values()):
            out.append(f"{s:<8}" + "".join(
                "".join(f"{ms(x, 3):>{w}}" for x, w in
                        zip(r.get(s, [None] * 4), (9, 9, 8, 8))) + "  "
                for r in rows.values()).rstrip())
    return out


def bringup(doc):
    """How long CPUs that answer late take, one by one and side by side; by
    section for the largest delay of the smallest machines."""
    runs = {}
    for run in doc["runs"]:
        delay, how = run["boot"].split(", ")
        runs.setdefault((run["machine"], run["cpus"], run["threads"]),
                        {}).setdefault(delay, {})[how] = run
    out = [f"{doc['title']} ({_kind(doc)})", "",
           f"{'':<28}{'boot:':<26}{'runtime:'}".rstrip(),
           f"{'machine':<10}{'CPUs':>5}{'delay':>7}" + 2 * (
               f"{'serial':>10}{'parallel':>10}{'':>6}")]
    out[-1] = out[-1].rstrip()
    for (mach, cpus, _), delays in runs.items():
        for delay, pair in delays.items():
            cells = [sections(pair.get(how, {"stats": ()}), when).get(
                        "operation", [None])[0]
                     for when in ("boot", "runtime")
                     for how in ("serial", "parallel")]
            a, b, c, d = (f"{ms(x, 1):>10}" for x in cells)
            out.append(f"{mach:<10}{cpus:>5}{delay:>7}{a}{b}{'':>6}{c}{d}")
    small = {}
    for (mach, cpus, threads), delays in runs.items():
        small.setdefault(mach, (cpus, threads, delays))
    for mach, (cpus, threads, delays) in small.items():
        delay, pair = list(delays.items())[-1]
        for when in ("boot", "runtime"):
            out += ["", f"{mach}, {cpus} CPUs, {threads} threads a core, "
                    f"delay {delay}, {when}"]
            out += _pair({how: sections(run, when)
                          for how, run in pair.items()})
            for who in "primaries", "siblings":
                by = {how: sections(run, when, who) for how, run in pair.items()}
                if any(by.values()):
                    out += ["", f"of the {who}:", *_pair(by)]
    mail = reference("bringup")
    out += ["", f"2023-04 mail: {mail['cpus']} CPUs of an x86 at boot, before "
            "and with parallel bringup"]
    out += _pair({how: mail[how] for how in ("serial", "parallel")})
    for who, which in ("primaries", "55"), ("siblings", "56"):
        out += ["", f"of the {which} {who}:", *_pair(mail[who])]
    out += ["", "with tsc=reliable, all, the primaries:"]
    out += _pair({"parallel, all": mail["reliable"]["all"],
                  "parallel, primaries": mail["reliable"]["primaries"]})
    return "\n".join(out) + "\n"


def boot_time(doc):
    """One time of each way to boot, one run of each."""
    by = {}
    for run in doc["runs"]:
        for s in run["stats"]:
            by.setdefault((run["machine"], run["cpus"]), {})[
                run["boot"], run["variant"]] = int(s["ns"]) / 1e6
    cells = [(b, v) for b in dict.fromkeys(r["boot"] for r in doc["runs"])
             for v in ("base", "patched")]
    out = [f"{doc['title']} ({_kind(doc)})", "",
           f"{'':<14}" + "".join(f"{b:>20}" for b, v in cells if v == "base"),
           f"{'machine':<9}{'CPUs':>5}" + "".join(f"{v:>10}" for _, v in cells)]
    for (mach, cpus), found in by.items():
        out.append(f"{mach:<9}{cpus:>5}" + "".join(
            f"{ms(found.get(c), 1):>10}" for c in cells))
    return "\n".join(out) + "\n"


def early(doc):
    """Until the first process runs, and until the rest of the CPUs is online
    when it asks for them, by how late CPUs answer; one run of each."""
    by, sides = {}, ("base", "patched")
    for run in doc["runs"]:
        side = "patched" if run["variant"] == "patched" else "base"
        for s in run["stats"]:
            by.setdefault((run["machine"], run["cpus"], run["boot"]), {}).update(
                {(side, what): int(s[what]) / 1e6 for what in ("first", "rest")})
    cells = [(v, what) for what in ("first", "rest") for v in sides]
    out = [f"{doc['title']} ({_kind(doc)})", "",
           f"{'':<33}{'first process':>20}{'the rest online':>20}",
           f"{'machine':<9}{'CPUs':>5}  {'they answer':<17}" + "".join(
               f"{v:>10}" for v, _ in cells)]
    for (mach, cpus, how), found in by.items():
        out.append(f"{mach:<9}{cpus:>5}  {how:<17}" + "".join(
            f"{ms(found.get(c), 1):>10}" for c in cells))
    out += ["", "base: with bench/ap-delay.patch"]
    return "\n".join(out) + "\n"


# ---- all CPUs but one, under treatments ---------------------------------

TREATMENTS = {"base": "base",
              "cpuidle-without": "no grace period in cpuidle",
              "cpuidle-expedited-there": "expedited in cpuidle",
              "expedited": "base, rcu_expedited",
              "patched": "patched",
              "one write": "patched, in one write"}


def treatments(doc):
    """All CPUs but one: ours beside the mail's, and what each gains. GPs are
    the grace periods waited for: normal/expedited."""
    mail = reference("treatments")
    by, gps = {}, {}
    for run in doc["runs"]:
        mach = (run["machine"], run["cpus"])
        for s in run["samples"]:
            way, _, one = s["op"].partition(", ")
            by.setdefault(mach, {}).setdefault(way, {}).setdefault(
                one or s["treatment"], []).append(s["ns"] / 1e6)
        for c in run["counts"]:
            way, _, one = c["op"].partition(", ")
            gps[mach, way, one or c["treatment"]] = "/".join(
                str(c["calls"].get(f"synchronize_rcu_{kind}", 0))
                for kind in ("normal", "expedited"))
    out = [f"{doc['title']}: lab in {_kind(doc)}, POWER9 (2023-03 mail) in s"]
    for mach, ways in by.items():
        for way, found in ways.items():
            out += ["", f"{f'{mach[1] - 1} CPUs {way}':<28}"
                    f"{f'{mach[0]} {mach[1]}':>12}{'less by':>9}{'GPs':>9}"
                    f"{'POWER9 ' + str(mail['cpus']):>13}{'less by':>9}"]
            base = statistics.median(found["base"])
            for t, name in TREATMENTS.items():
                x = statistics.median(found[t]) if t in found else None
                y = mail[way].get(t)
                less = lambda v, b: "" if v is None or v == b else \
                    f"{100 * (1 - v / b):.1f} %"
                out.append((f"{name:<28}{ms(x, 1):>12}{less(x, base):>9}"
                            f"{gps.get((mach, way, t), '-'):>9}"
                            f"{ms(y, 3):>13}{less(y, mail[way]['base']):>9}"
                            ).rstrip())
    return "\n".join(out) + "\n"


# ---- one CPU, and the others --------------------------------------------

STOP = "stop_machine_cpuslocked"


def stopped(doc):
    """{(irq, CPUs): {(what, loaded): [ms]}}: 'held', what a CPU spent in
    multi_cpu_stop(), the mean of all, on the unpatched kernel; of the patched
    one 'also', the same, which should not be there, and of the CPU that goes:
    'off', interrupts off, 'dead', from retired to dead without 'wait', what
    it waited for."""
    by = {}
    for run in doc["runs"]:
        for s in run["stats"]:
            loaded = s.get("load", "0") != "0"
            found = by.setdefault((s.get("irq", "0"), run["cpus"]), {})
            if s["function"] == "multi_cpu_stop":
                what = "held" if run["variant"] == "base" else "also"
                x = {what: float(s["us"]) / 1e3 / int(s["calls"])}
            elif s["function"] == "retired":
                x = {"off": int(s["off"]) / 1e6, "wait": int(s["wait"]) / 1e6,
                     "dead": (int(s["ns"]) - int(s["wait"])) / 1e6}
            else:
                continue
            for what, t in x.items():
                found.setdefault((what, loaded), []).append(t)
    return by


def stop(doc):
    """One CPU that goes, by the number of CPUs, idle and under load, with and
    without an interrupt to move; the mail's beside it. Medians."""
    mail = reference("stop")
    by = stopped(doc)
    stops = {"base": 0, "patched": 0}
    for run in doc["runs"]:
        stops[run["variant"]] += sum(int(s["calls"]) for s in run["stats"]
                                     if s["function"] == STOP)
    cols = [(w, load) for w in ("held", "also", "off", "dead", "wait")
            for load in (False, True)]
    out = [f"{doc['title']}: {doc['runs'][0]['machine']} ({_kind(doc)})"]
    for irq, name in (("0", "no interrupt to move"),
                      ("1", "an interrupt to move")):
        rows = sorted((n, found) for (i, n), found in by.items() if i == irq)
        if not rows:
            continue
        out += ["", f"{name:<20}" + "".join(f"{x:>12}" for x in (
            "patched:", "dying CPU,", "retired,", "")) + f"{'POWER7':>11}",
            f"{'':>6}{'base: held':>13}" + "".join(f"{x:>12}" for x in (
                "held", "irqs off", "no waits", "waits")) + f"{'(2013)':>12}",
            f"{'CPUs':>6} " + f"{'idle':>6}{'load':>6}" * 5
            + f"{'main':>6}{'there':>7}"]
        for cpus, found in rows:
            ours = (ms(statistics.median(found[k]),
                       3 if k[0] in ("off", "dead") else 2)
                    if k in found else "-" for k in cols)
            theirs = (ms(x, 1) for x in mail.get(str(cpus), (None, None)))
            out.append(f"{cpus:>6} " + "".join(f"{x:>6}" for x in ours)
                       + "".join(f"{x:>{w}}" for x, w in zip(theirs, (6, 7))))
    out += ["", f"{STOP}(), all operations together, idle and loaded: base "
            f"{stops['base']},", f"patched {stops['patched']}"]
    return "\n".join(out) + "\n"


def stop_plot(doc, plt):
    """A figure of the same over the number of CPUs, idle and loaded."""
    by, mail = stopped(doc), reference("stop")
    fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True,
                             layout="constrained")
    sizes = sorted({n for _, n in by})
    for ax, loaded in zip(axes, (False, True)):
        for what, style, label in (
                ("held", "C0-", "7.3: all are held in stop_machine()"),
                ("dead", "C1-", "patched: from retired to dead, no waits"),
                ("off", "C1--", "patched: the dying CPU has interrupts off")):
            pts = [(n, statistics.median(by["0", n][what, loaded]))
                   for n in sizes if (what, loaded) in by.get(("0", n), ())]
            if pts:
                ax.plot(*zip(*pts), style, marker="o", markersize=3,
                        label=label)
        for i, label in enumerate(("POWER7 2013: mainline", "that series")):
            if loaded:
                ax.plot([int(n) for n in mail], [x[i] for x in mail.values()],
                        f"C{2 + i}:", marker="x", label=label)
        ax.set(title="under load" if loaded else "idle", xlabel="CPUs",
               ylabel=_kind(doc), xscale="log", yscale="log")
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.minorticks_off()
        ax.grid(alpha=.3)
        ax.legend(fontsize=7)
    return fig


# ---- sched domains ------------------------------------------------------

def domains(doc):
    """A rebuild of the sched domains and its files, without them (verbose N)
    and with; the mail's beside it."""
    mail = reference("domains")
    by, machines = {}, {}
    for run in doc["runs"]:
        key = (run["machine"], run["cpus"])
        machines[key] = None
        for s in run["stats"]:
            by.setdefault((s.get("verbose", "Y"), s["function"], *key,
                           run["variant"]), []).append(float(s["us"]) / 1e3)
    out = [f"{doc['title']} ({_kind(doc)})"]
    for verbose in dict.fromkeys(k[0] for k in by):
        with_ = mail["seconds"] if verbose == "Y" else \
            dict.fromkeys(mail["seconds"], ())
        out += ["", f"{'verbose ' + verbose:<28}" + "".join(
            f"{f'{m} {n}':>16}" for m, n in machines)
            + (f"{str(mail['cpus']) + ' CPUs, s':>18}" if verbose == "Y"
               else ""),
            f"{'function':<28}" + "".join(f"{'base':>8}{'patched':>8}"
                                          for _ in machines)
            + (f"{'sysctl':>9}{'debugfs':>9}" if verbose == "Y" else "")]
        for function, theirs in with_.items():
            out.append(f"{function:<28}" + "".join(
                f"{ms(statistics.median(by[k]) if k in by else None, 2):>8}"
                for k in ((verbose, function, *m, v) for m in machines
                          for v in ("base", "patched")))
                + "".join(f"{ms(x or None, 3):>{w}}"
                          for x, w in zip(theirs, (9, 9))))
    return "\n".join(out) + "\n"


# ---- one CPU, under load ------------------------------------------------

SECTIONS_OF_ONE = (("up", "CPU up"), ("arch_up", "  arch up"),
                   ("down", "CPU down"), ("disable", "  arch disable"),
                   ("die", "  arch die"))
TASKS = (("made", "threads made"), ("parked", "threads that park"),
         ("woken", "wakeups"), ("kthreadd", "  of kthreadd"),
         ("hotplug", "  of hotplug threads"))


def _of_one(doc):
    """{(machine, what): {variant: [stats]}} of the scenario one-cpu: 'again',
    'first', 'tasks, down' and others."""
    by = {}
    for run in doc["runs"]:
        for s in run["stats"]:
            key = run.get("machine", ""), s.get("what", "again")
            by.setdefault(key, {}).setdefault(run["variant"], []).append(s)
    return by


def latency(doc):
    """Shortest and longest offline and online of one CPU, and of the
    architecture's part of it, for CPUs that come for the first time and others;
    the page's too. And which tasks that takes."""
    page, by = reference("latency"), _of_one(doc)
    out = [f"{doc['title']} ({_kind(doc)})"]
    for machine, what in by:
        if what not in ("first", "again"):
            continue
        stats = by[machine, what]
        title = f"{machine}, {'up, first time' if what == 'first' else what}"
        out += ["", f"{title.lstrip(', '):<23}{'base':>11}" + "".join(
            f"{x:>20}" for x in ("patched", "ARM (2013-08), ms")),
            f"{f'of {min(map(len, stats.values()))}':<14}"
            + f"{'min':>12}{'max':>8}" * 3]
        for key, name in SECTIONS_OF_ONE:
            if key not in next(iter(stats.values()))[0]:
                continue
            cells = []
            for v in ("base", "patched"):
                ns = [int(s[key]) / 1e6 for s in stats.get(v, ())]
                cells += [min(ns), max(ns)] if ns else [None] * 2
            digits = 3 if key in ("arch_up", "disable", "die") else 1
            out.append(f"{name:<14}" + "".join(
                f"{ms(x, digits):>{w}}" for x, w in zip(cells + page[key],
                                                       3 * (12, 8))))
    ops = {"first": "up, first time", "down": "down", "again": "up again"}
    for machine in dict.fromkeys(m for m, what in by if "tasks" in what):
        out += ["", f"{f'{machine}, times a CPU':<23}" + "".join(
            f"{x:>18}" for x in ops.values()),
            " " * 23 + f"{'base':>9}{'patched':>9}" * 3]
        for key, name in TASKS:
            cells = [by.get((machine, f"tasks, {op}"), {}).get(v)
                     for op in ops for v in ("base", "patched")]
            out.append(f"{name:<23}" + "".join(
                f"{ms(statistics.mean(int(s[key]) for s in c) if c else None, 1):>9}"
                for c in cells))
        threads = {int(s["count"]) for v in by.get((machine, "threads"), {}).values()
                   for s in v}
        if threads:
            out.append(f"a CPU has {'/'.join(map(str, sorted(threads)))} threads "
                       "of its own")
    return "\n".join(out) + "\n"


def latency_plot(doc, plt):
    """A figure of the same over the number of cyclictest: shortest and longest of
    each, b'' of a record which has no machines."""
    by = {k: v for k, v in _of_one(doc).items() if k[0] and k[1] in ("first", "again")}
    machines = list(dict.fromkeys(m for m, _ in by))
    panels = (("first", "up", "up, first time"), ("again", "up", "up again"),
              ("again", "down", "down"))
    fig, axes = plt.subplots(len(machines), 3, figsize=(12, 3.2 * len(machines)),
                             squeeze=False, layout="constrained")
    for row, machine in zip(axes, machines):
        for ax, (what, key, title) in zip(row, panels):
            for v, colour in ("base", "C0"), ("patched", "C1"):
                loads = {}
                for s in by.get((machine, what), {}).get(v, ()):
                    loads.setdefault(int(s["load"]), []).append(int(s[key]) / 1e6)
                for f, style in (min, ":"), (max, "-"):
                    ax.plot(list(loads), [f(x) for x in loads.values()],
                            colour + style, marker="o", markersize=3,
                            label=f"{v}, {f.__name__}")
            ax.set(title=f"{machine}, {title}", xlabel="cyclictest",
                   ylabel=_kind(doc), yscale="log")
            ax.grid(alpha=.3)
    axes[0][-1].legend(fontsize=7)
    return fig


def idle(doc):
    """How long CPUs are in which idle state, on average at a time, and how often
    in a second they enter it, by how many are online; the page's too."""
    by = {}
    for run in doc["runs"]:
        for s in run["stats"]:
            seconds, n = int(s["seconds"]), int(s["usage"])
            by.setdefault((run["machine"], int(s["online"]), s["state"]), {})[
                run["variant"]] = (
                    int(s["us"]) / 1e4 / seconds / int(s["online"]),
                    int(s["us"]) / 1e3 / n if n else None, n / seconds)
    for online, states in reference("idle").items():
        for state, values in states.items():
            by["ARM (2013)", int(online), state] = {"base": values}
    out = [f"{doc['title']} ({_kind(doc)})", "",
           f"{'':<30}" + "".join(f"{v:>24}" for v in ("base", "patched")),
           f"{'machine':<11}{'online':>6}  {'state':<11}"
           + f"{'%':>9}{'ms':>8}{'a s':>7}" * 2]
    for (machine, online, state), found in by.items():
        out.append(f"{machine:<11}{online:>6}  {state:<11}" + "".join(
            f"{ms(x, 1):>{w}}" for v in ("base", "patched")
            for x, w in zip(found.get(v, [None] * 3), (9, 8, 7))))
    return "\n".join(out) + "\n"


def load(doc):
    """Shortest, middle and longest time of a CPU that comes for the first time,
    goes, and comes again, by machine and by what runs meanwhile. Where the
    unpatched kernel hangs, as 'base' one with the patch that mends it."""
    ns, busy, names = {}, {}, {"nothing": "nothing", "cyclictest": "cyclictest",
                               "busy": "4 tasks a CPU",
                               "fifo": "a FIFO task*"}
    for run in doc["runs"]:
        for s in run["stats"]:
            key = (run["machine"], s["load"],
                   "patched" if run["variant"] == "patched" else "base")
            if s["what"] == "busy":
                busy.setdefault(key[:2], []).append(int(s["percent"]))
            else:
                ns.setdefault((*key, s["what"]), []).append(int(s["ns"]) / 1e6)
    out = [f"{doc['title']} ({_kind(doc)})"]
    for machine, what in dict.fromkeys((k[0], k[3]) for k in ns):
        title = {"first": "up, first time", "up": "up again",
                 "down": "down"}[what]
        out += ["", f"{f'{machine}, {title}':<26}" + "".join(
            f"{x:>26}" for x in ("base", "patched")),
            f"{'':<18}{'busy, %':>8}" + f"{'min':>10}{'median':>8}{'max':>8}" * 2]
        for key, name in names.items():
            found = [ns.get((machine, key, v, what)) for v in ("base", "patched")]
            if not any(found):
                continue
            cells = [x for f in found for x in (
                (min(f), statistics.median(f), max(f)) if f else (None,) * 3)]
            out.append(f"{name:<18}{min(busy[machine, key]):>8}" + "".join(
                f"{ms(x, 1):>{w}}" for x, w in zip(cells, 2 * (10, 8, 8))))
    if any(k[1] == "fifo" for k in ns):
        out += ["", "* base hangs; with 'sched/deadline: Initialize the servers "
                "of CPUs that", "  come online later' of 00-fixes"]
    return "\n".join(out) + "\n"


def survivors(doc):
    """Worst latency on the CPUs that stay, by the number of those that go or
    come: in us, of real-time tasks (cyclictest), of timerlat's threads and
    (lockwait) of somebody who needs cpus_read_lock().
    'list' is hotplug/offline or online, 'single' one write for each CPU."""
    ways = (("base", "single"), ("patched", "single"), ("patched", "list"))
    us, cpus = {}, set()
    for run in doc["runs"]:
        for s in run["stats"]:
            n = int(s["cpus"])
            cpus.add(n)
            us[run["variant"], s["how"], s["dir"], s["tool"], n] = int(s["us"])
    out = [f"{doc['title']} (virtual us)" if "virtual" in doc["clock"]
           else f"{doc['title']} (us)"]
    tools = {k[3]: None for k in us}
    for tool in tools:
        out += ["", f"{tool:<10}" + "".join(
            f"{v + ', ' + how:>22}" for v, how in ways),
            f"{'CPUs':<10}" + f"{'down':>14}{'up':>8}" * 3]
        for n in sorted(cpus):
            cells = "".join(
                f"{us.get((v, how if n else 'none', d, tool, n), '-'):>{w}}"
                for v, how in ways for d, w in (("down", 14), ("up", 8)))
            out.append(f"{n:<10}{cells}")
    return "\n".join(out) + "\n"


def quiet(doc):
    """How often CPUs that stay were disturbed while others went offline, and by
    what: means over the operations of a boot, without the first. And the worst
    latency of real-time tasks meanwhile, in microseconds."""
    n, ops, gaps, machines, causes, seen = {}, {}, {}, {}, {}, set()
    for run in doc["runs"]:
        where = run["machine"]
        machines.setdefault(where)
        for s in run["stats"]:
            at = (where, s["what"], f"{run['variant']} {s['how']}")
            if s["who"] == "operations":
                ops[at] = int(s["n"])
            elif s["who"] == "gap":
                gaps[at] = s["n"]
            elif s["who"] == "all":
                seen.add((*at, s["window"]))
            else:
                key = (*at, s["window"], s["who"], s["kind"], s["cause"])
                n[key] = n.get(key, 0) + int(s["n"])    # of each operation
                if s["kind"] == "cause":
                    causes.setdefault((*at[:2], s["window"]), set()).add(s["cause"])
    ways = {"base now": "base", "base expedited": "exp.", "patched now": "patched"}

    def row(label, cell):
        # a long name has a line of its own
        name = f"  {label:<29}" if len(label) <= 29 else f"  {label}\n{'':<31}"
        return name + "".join(
            f"{cell(way, kind):>8}" for kind in ("idle", "user") for way in ways)

    out = [f"{doc['title']} (times each)"]
    for where in machines:
        for what, title in (("one", "one CPU"), ("list", "4 CPUs")):
            out += ["", f"{where + ', ' + title:<31}{'idle':>24}{'user':>24}",
                    f"{'':<31}" + "".join(f"{w:>8}" for w in ways.values()) * 2]
            for window, of in (("dying", "while CPUs die"),
                               ("request", "in the whole request")):
                out.append(of)
                for kind, cause, label in [
                        ("count", "irq", "interrupts"),
                        ("count", "woken", "ends of idle"),
                        ("count", "timer", "interrupts of timers"),
                        *(("cause", c, c) for c in
                          sorted(causes.get((where, what, window), ())))]:
                    def mean(way, who):
                        at = (where, what, way)
                        if at not in ops or (*at, window) not in seen:
                            return "-"
                        x = n.get((*at, window, who, kind, cause), 0)
                        return f"{x / ops[at]:.1f}" if x else "0"
                    out.append(row(label, mean))
    out += ["", f"{'The worst of cyclictest (us)':<31}"
            + "".join(f"{w:>8}" for w in ways.values())]
    for where in machines:
        for what, title in (("none", "nothing happens"), ("one", "one CPU"),
                            ("list", "4 CPUs")):
            out.append(f"  {where + ', ' + title:<29}" + "".join(
                f"{gaps.get((where, what, way), '-'):>8}" for way in ways))
    return "\n".join(out) + "\n"


TABLES = {"bringup": bringup, "boot_time": boot_time, "early": early,
          "treatments": treatments, "stop": stop, "domains": domains,
          "latency": latency, "survivors": survivors, "quiet": quiet,
          "load": load, "idle": idle}
