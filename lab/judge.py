# SPDX-License-Identifier: GPL-2.0
"""What becomes of the records of guest jobs: [(name, ok, detail)] of a machine
and a boot.Result. And the host's side of jobs that need one."""

import contextlib
import difflib
import re
import time

from . import bench, ktap
from .common import LabError, say

# tests that may skip inside the lab's guests: (machine, name, reason)
SKIP_ALLOWED = [
    ("q35-8-acpi-cpufreq", "the last CPU is refused",
     "CPU 0 is not asked on x86, so one always stays"),
    # in full length
    ("pseries-16", "a CPU does not come alive",
     "the kernel waits 100 s there, and the delay is 20 s"),
    ("pseries-16", "a CPU does not say that it is dead",
     "the kernel waits longer than the delay there"),
]
# calls for an operation
COUNTED = ("GP", "GP exp", "stops", "rebuilds")
# KiB that the last three quarters of a thousand cycles may cost, with all of
# them (or the first quarter has freed what they took), and all of them twice as
# much. 118 bytes for each CPU that goes and comes would be 512
# KiB on the pseries machine.
#
# The system still warms up after ten cycles. On the pseries machine, which
# has pages of 64 KiB, Slab grows by 2.5 MB until there have been 500 cycles
# and then no more: caches keep partial slabs and sheaves of free objects for
# each CPU. When they are shrunk before each look that is 0.9 MB in the first
# 100 cycles and nothing in the 2900 after them. And MemFree falls by 20 MB or
# more: pages in the lists of each CPU are not in it, and there is no way to ask
# for those of a CPU that stays online to be emptied. They were 605 pages
# after 10 cycles, 1031 after 250 and 929 after 1000, as the high marks of the
# lists adapt. Free has these pages too. It must come from one reading of
# zoneinfo, as they go to and fro; it then is the same within 3.5 MB in 3000
# cycles.
#
# On q35 each cycle frees two thread stacks. Their areas are unmapped, but the
# vmap_area objects stay until there are many: 0.3 MB of Slab.
LEAK = {"Slab": 512, "SUnreclaim": 512, "VmallocUsed": 64, "Percpu": 256,
        "KernelStack": 128}
LEAK_FREE = 4 << 10


def ktaps(where, r, *files):
    """Every result in files of KTAP. A skip fails unless SKIP_ALLOWED names
    it."""
    for what in files:
        text = r.files.get(what, b"").decode()
        for name, status, detail in ktap.results(ktap.unprefix(text)):
            name = re.sub(r"^selftests: ", "", name)
            ok = status == "pass"
            if status == "skip":
                ok = any(where in (w, f"{w}-debug") and n in name
                         for w, n, _ in SKIP_ALLOWED)
                detail = f"skipped in {where}: {detail or 'no reason given'}"
            yield f"{'KUnit' if what == 'kunit' else what}: {name}", ok, detail


def selftests(m, r):
    """Of the job selftests."""
    return list(ktaps(m.name(), r, "kselftest"))


def boot(m, r):
    """Of the jobs selftests and smt."""
    out, bad = [*ktaps(m.name(), r, "kselftest", "kunit")], []
    for s in r.of("sample"):
        want = m.cpus // m.threads if s["op"] == "off" else m.cpus
        if len(bench.cpulist(s["online"])) != want:
            bad.append(f"after {s['op']}: {s['online']}")
    out.append(("SMT off leaves a thread a core, on brings all",
                not bad and len(r.of("sample")) == 6, "\n".join(bad)))
    got = {c["op"]: c for c in r.of("counts")}
    off, on = got.get("off", {}), got.get("on", {})

    def calls(c, *names):
        return sum(int(c.get(n, 0)) for n in names)
    rebuilds = [calls(c, "build_sched_domains") for c in (off, on)]
    out.append(("one domain rebuild for all CPUs going down, one for all "
                "coming up", rebuilds == [1, 1], rebuilds))
    stops = [calls(c, "stop_machine_cpuslocked",
                   "stop_machine_from_inactive_cpu") for c in (off, on)]
    out.append(("SMT off stops the machine once, SMT on at most once",
                stops[0] == 1 and stops[1] <= 1, stops))
    gps = [(calls(c, "synchronize_rcu_normal"),
            calls(c, "synchronize_rcu_expedited")) for c in (off, on)]
    want = 2 if m.freq else 1
    out.append((f"SMT off waits for {want} expedited grace periods, SMT on "
                "for none", gps == [(0, want), (0, 0)], gps))
    handler = {op: int(c.get("cpuidle_uninstall_idle_handler", 0))
               for op, c in got.items()}
    if m.type == "pseries":
        out.append(("SMT switching never uninstalls the idle handler",
                    handler == {"off": 0, "on": 0}, handler))
    return out


def debug(m, r):
    """Of the job debug."""
    online = [x["online"] for x in r.of("checked")]
    return [*ktaps(f"{m.name()}-debug", r, "kselftest"),
            ("all CPUs are online at the end",
             [len(bench.cpulist(x)) for x in online] == [m.cpus], online)]


def counts(r, want):
    """The calls of one operation each way, as the case wants them."""
    calls = {c["op"]: tuple(sum(int(c.get(f, 0)) for f in bench.COUNTS[x])
                            for x in COUNTED) for c in r.of("counts")}
    return ("grace periods, expedited ones, stops and rebuilds",
            calls == want, f"{calls}, not {want}")


def same(ref):
    """Compares sysfs with what another case, which was given the same dict,
    or this one before SMT switching has left in it."""
    def judge(m, r):
        out = []
        for when in "boot", "again":
            got = r.files.get(when, b"").decode()
            detail = "\n".join(difflib.unified_diff(
                ref.setdefault("", got).splitlines(), got.splitlines(),
                lineterm="", n=0))
            out.append((f"sysfs is as ever, {when}",
                        "thread_siblings_list:" in got and not detail,
                        detail))
        return out
    return judge


def as_fast(ref, factor=2):
    """Compares the times of SMT off and on, the medians, with those of another
    case, which was given the same dict."""
    def judge(m, r):
        out = []
        for op in "off", "on":
            ns = sorted(int(s["ns"]) for s in r.of("sample") if s["op"] == op)
            got = ns[len(ns) // 2] if ns else 0
            less, more = sorted((got, ref.setdefault(op, got)))
            out.append((f"SMT {op} takes as long", 0 < more <= factor * less,
                        f"{less / 1e6:.1f} and {more / 1e6:.1f} ms"))
        return out
    return judge


def grown(m, r):
    """Whether the cycles of the job leak cost memory."""
    name = "memory is as it was"
    got = {x["when"]: x for x in r.of("memory")}
    if set(got) != {"10", "quarter", "more"}:
        return [(name, False, "it was not looked at")]
    first, quarter, last = got["10"], got["quarter"], got["more"]
    text = ", ".join(f"{k} {first[k]} -> {quarter[k]} -> {last[k]}"
                     for k in first if k not in ("t", "when"))
    say(f"   memory, KiB: {text}\n{r.output()}")
    most = {**LEAK, "ioremaps": 8, "vmallocs": 8, "Free": LEAK_FREE}

    def more(k, since):
        n = int(last[k]) - int(since[k])
        return -n if k == "Free" else n
    bad = [k for k in most
           if min(more(k, quarter), more(k, first)) > most[k]
           or more(k, first) > 2 * most[k]]
    return [(name, not bad, f"{', '.join(bad)}: {text}\n{r.output()}")]


# ---- the host's side ----------------------------------------------------

def _wait(records, kind, n=1, limit=400, again=None):
    """Until the guest has given so many records of a kind, for limit seconds.
    again: called every 20 s."""
    t0 = last = time.monotonic()
    while sum(r["t"] == kind for r in records()) < n:
        if time.monotonic() - t0 > limit:
            raise LabError(f"the guest gave no '{kind}' {n}")
        if again and time.monotonic() - last > 20:
            again()
            last = time.monotonic()
        time.sleep(.05)


def _spare(q):
    """The cores that are not plugged in."""
    return [c for c in q.execute("query-hotpluggable-cpus")
            if "qom-path" not in c]


def _add(q, core, name):
    q.execute("device_add", {"driver": core["type"], "id": name,
                             **core["props"]})


def plug(loops):
    """Of the job plug."""
    def host(q, records):
        _wait(records, "ready")
        for k, core in zip(range(1, loops + 1), reversed(_spare(q))):
            _add(q, core, f"c{k}")
            _wait(records, "added", k)

            def remove():
                # while the guest still works on the last request QEMU
                # refuses another
                with contextlib.suppress(LabError):
                    q.execute("device_del", {"id": f"c{k}"})
            remove()
            _wait(records, "removed", k, again=remove)
    return host


def plug_node(q, records):
    """Of the job node."""
    _wait(records, "ready")
    for core in _spare(q):
        _add(q, core, "new")


def wake(q, records):
    """Of the job migrate: the guest is woken up whenever it is suspended."""
    while not any(r["t"] in ("done", "error", "end") for r in records()):
        if q.execute("query-status")["status"] == "suspended":
            q.execute("system_wakeup")
        time.sleep(.05)


def machine_check(q, records):
    """Of the job machine-check: an uncorrected error of CPU 0, which need not
    be acted on. QEMU ends the guest if a CPU can't take it."""
    _wait(records, "ready")
    time.sleep(3)
    said = q.execute("human-monitor-command", {
        "command-line": "mce -b 0 8 0xbd00000000000000 7 0x12345000 0x8c"})
    if said:
        raise LabError(f"QEMU's monitor command mce: {said}")
