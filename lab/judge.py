# SPDX-License-Identifier: GPL-2.0
"""What becomes of the records of guest jobs: [(name, ok, detail)] of a machine
and a boot.Result. And the host's side of jobs that need one."""

import contextlib
import difflib
import gzip
import re
import time

from . import bench, ktap, scale
from .common import LabError, say

# tests that may skip inside the lab's guests: (machine, name, reason)
SKIP_ALLOWED = [
    ("q35-8-acpi-cpufreq", "the last CPU is refused",
     "CPU 0 is not asked on x86, so one always stays"),
    ("q35-8-acpi-cpufreq", "tsc_sync",
     "its idle states make the TSC unstable; 'q35-8 first time' has it"),
    ("virt-8", "cpuidle-test.sh", "QEMU's virt has no idle states"),
    ("virt-8", "primary threads come first",
     "CPUs start up one after the other on arm64"),
    ("virt-8", "CPUs come: CPUs which come can't be made slow",
     "it takes parallel bringup"),
    # in full length
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


def restarts(m, r):
    """Of a job that ends with a reboot."""
    said = "reboot: Restarting system" in r.console
    return [("the kernel restarts the machine", said,
             "" if said else r.console[-500:])]


def selftests(m, r):
    """Of the job selftests."""
    return list(ktaps(m.name(), r, "kselftest"))


def cuts(m):
    """The slices of a request for all threads but one of each core, or for all
    CPUs but one without SMT; and the activations on the way up."""
    gone = m.cpus - m.cpus // m.threads or m.cpus - 1
    off, on = (scale.slices(gone, scale.taken(scale.slice_size(),
                                              m.threads - 1 or 1, op))
               for op in scale.OPS)
    return off, scale.activations(on)


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
    cut, ups = cuts(m)
    out.append((f"one domain rebuild for all CPUs going down, {ups} for all "
                "coming up", rebuilds == [1, ups], rebuilds))
    stops = [calls(c, "stop_machine_cpuslocked",
                   "stop_machine_from_inactive_cpu") for c in (off, on)]
    out.append(("SMT off does not stop the machine, SMT on at most once",
                stops[0] == 0 and stops[1] <= 1, stops))
    gps = [(calls(c, "synchronize_rcu_normal"),
            calls(c, "synchronize_rcu_expedited")) for c in (off, on)]
    # when they leave the scheduler, and when those of a slice can't be chosen any
    # more; before that for cpufreq
    want = 1 + cut * (2 if m.freq else 1)
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


def _reference(ref, key, got, first):
    """What cases are compared with which were given the same dict: what the
    first of them had, which leaves it there; None if that has not run."""
    return ref.setdefault(key, got) if first else ref.get(key)


NO_REFERENCE = "the case that this one is compared with has not run before it: " \
    "choose both with K="


def same(ref, first=True):
    """Compares sysfs with that of the first case which was given the same dict,
    at boot. That one: after SMT switching with before."""
    def judge(m, r):
        out = []
        for when in "boot", "again":
            got = r.files.get(when, b"").decode()
            want = _reference(ref, "", got, first)
            detail = NO_REFERENCE if want is None else "\n".join(
                difflib.unified_diff(want.splitlines(), got.splitlines(),
                                     lineterm="", n=0))
            out.append((f"sysfs is as ever, {when}",
                        "thread_siblings_list:" in got and not detail,
                        detail))
        return out
    return judge


POINTERS = re.compile(r"CPU(\d+) (refers|has \S+): ")


def _named(refers, online):
    """{cpu: [line]}, with "of CPU n" in place of the address of what the CPUs
    that are online share."""
    names = {}
    for c in sorted(online):
        for line in refers.get(c, []):
            for where in re.findall(r"=([0-9a-f]{16})\b", line):
                names.setdefault(where, "=none" if not int(where, 16) else
                                 f"=of CPU {c}")
    return {c: [re.sub(r"=([0-9a-f]{16})\b", lambda m: names[m[1]], line)
                for line in refers.get(c, [])] for c in online}


def domain_states(log):
    """[(operation, [line])] of what jobs/domains.sh logged: the sched domains of
    the CPUs that are online after each, and what debugfs says of them.

    A CPU keeps what was built for it last. The groups of a domain without
    overlap are taken from its first CPU, as the patched kernel does not log
    those of the others, unless it finds an error, which is kept. Interrupts and
    realtime tasks take from the capacity of a CPU, which is 1024 and not logged
    without them: to a quarter of that. The number of a NUMA level counts the
    distances there were when the domain was built, those that came to nothing as
    well; a domain that does not change keeps it when a node goes, so it depends
    on the order in which CPUs went. With tests/domains-pointers.patch: what a CPU
    refers to besides, with the first CPU that shares it for an address."""
    states, domains, root, files, refers = [], {}, {}, [], {}
    cpu, shown = None, False
    for line in log.splitlines():
        if m := re.match(r"CPU(\d+) attaching (NULL )?", line):
            cpu = int(m[1])
            domains[cpu] = [" none"] if m[2] else []
            if m[2]:
                root.pop(cpu, None)
        elif m := re.match(r" *domain-\d+: span=(\d+)\S* level=(\S+)", line):
            shown = m[2] == "NUMA" or int(m[1]) == cpu
            domains.setdefault(cpu, []).append(line)
        elif re.match(" *groups:", line):
            if shown:
                domains[cpu].append(re.sub(
                    r"(?: cap=(\d+))? }", lambda m: " cap="
                    f"{round(int(m[1] or 1024) / 256) * 256} }}", line))
        elif m := POINTERS.match(line):
            if m[2] == "refers":
                refers[int(m[1])] = []
            refers[int(m[1])].append(line)
        elif line.startswith("ERROR"):
            domains.setdefault(cpu, []).append(line)
        elif line.startswith("root domain span: "):
            root |= dict.fromkeys(bench.cpulist(line.split()[-1]), line)
        elif line.startswith("/"):
            files.append(line)
        elif line.startswith("== "):
            _, online, what = line.split(" ", 2)
            numa = {x.removesuffix("name:NUMA") + "level:" for x in files
                    if x.endswith("/name:NUMA")}
            cpus = sorted(bench.cpulist(online))
            named = _named(refers, cpus)
            states.append((f"{online} {what}", [
                text for c in cpus
                for text in (f"CPU{c}", root.get(c, ""), *domains.get(c, []),
                             *named[c])]
                + [x for x in files if x.rstrip("0123456789") not in numa]))
            files = []
    return states


def by_order(line):
    """Without what follows from the number of NUMA distances that there were when
    the domain was built, as its level does: imb_numa_nr, and the flags of groups,
    which are those of a level below that comes to nothing."""
    if not re.match(r"CPU\d+ has NUMA: ", line):
        return line
    line = re.sub(r"(imbalance=\d+)/\d+", r"\1", line)
    return re.sub(r" (\d+/\d+)/[0-9a-f]+/(\d+/)", r" \1/\2", line)


def _domains(r, nodes=0):
    states = domain_states(gzip.decompress(
        r.files.get("domains", gzip.compress(b""))).decode())
    if nodes <= 2:
        return states
    return [(what, [by_order(x) for x in lines]) for what, lines in states]


def other_domains(ref, stale, pointers=False):
    """A negative control: after one of the operations at least the sched domains
    are not those of the first case which was given the same dict. pointers: by
    what tests/domains-pointers.patch logs alone, otherwise without that."""
    def judge(m, r):
        got, want = ([(what, [x for x in lines
                              if bool(POINTERS.match(x)) == pointers])
                      for what, lines in states]
                     for states in (_domains(r),
                                    _reference(ref, "", None, False) or []))
        both = list(zip(got, want))
        # the same was done in both
        alike = all(a[0] == b[0] for a, b in both)
        bad = [n for n, (a, b) in enumerate(both) if a[1] != b[1]]
        return [(f"a stale {stale} is seen", alike and bool(bad) and bad[0] > 0,
                 f"{len(bad)} of {len(got) - 1} operations" + ("" if alike else
                 ", which are not the same") if want else NO_REFERENCE)]
    return judge


def same_domains(ref, first=True):
    """Compares the sched domains after each operation with those of the first
    case which was given the same dict."""
    def judge(m, r):
        got = _domains(r, m.nodes if m else 0)
        want = _reference(ref, "", got, first)
        detail = NO_REFERENCE if want is None else \
            "" if got else "nothing was logged"
        want = want or []
        for n, ((what, is_), (op, was)) in enumerate(zip(got, want)):
            if (what, is_) != (op, was):
                detail = f"after operation {n}, {op}, {what}:\n" + "\n".join(
                    difflib.unified_diff(was, is_, lineterm="", n=1))
                break
            if any(x.startswith("ERROR") for x in is_):
                detail = f"after operation {n}, {op}:\n" + "\n".join(is_)
                break
        if not detail and len(got) != len(want):
            detail = f"{len(got)} operations, not {len(want)}"
        if not detail and not all(
                any(POINTERS.match(x) for x in lines) for _, lines in got):
            detail = "no word of what the CPUs refer to"
        changed = sum(a[1] != b[1] for a, b in zip(got, got[1:]))
        if not detail and len(got) > 1 and not changed:
            detail = "no operation changed them"
        return [(f"sched domains after {len(got) - 1} operations, {changed} of "
                 "which changed them", not detail, detail)]
    return judge


def compared(results):
    """How many operations same_domains() compared, and how many of them changed
    sched domains, by the results of a case; None: it did not."""
    for name, *_ in results:
        if m := re.match(r"sched domains after (\d+) operations, (\d+) of", name):
            return [int(n) for n in m.groups()]
    return None


def as_fast(ref, first=True, factor=2):
    """Compares the times of SMT off and on, the medians, with those of the
    first case which was given the same dict."""
    def judge(m, r):
        out = []
        for op in "off", "on":
            ns = sorted(int(s["ns"]) for s in r.of("sample") if s["op"] == op)
            got = ns[len(ns) // 2] if ns else 0
            want = _reference(ref, op, got, first)
            less, more = sorted((got, want or 0))
            out.append((f"SMT {op} takes as long", 0 < more <= factor * less,
                        NO_REFERENCE if want is None else
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
