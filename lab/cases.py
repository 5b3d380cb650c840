# SPDX-License-Identifier: GPL-2.0
"""What is booted to test the patched kernel: CPU models, boot parameters and
tools, DLPAR, kexec, a crash, suspend, a thousand cycles. One boot is one Case;
its job is in guest/jobs/, what judges its records in judge.py. The quick ones
are part of 'make test', the others are 'make machines'."""

import dataclasses
import functools
import itertools
import math
import pathlib

from . import boot, guest, judge, kernels, vm
from .common import (LINUX, MAIN, OUT, TOP, HostError, LabError,
                     write_atomic)
from .console import Splats

# what is booted in 'make test': machine, CPUs, threads; two nodes
BOOTS = {"x86_64": ("q35", 8, 2), "ppc64le": ("pseries", 8, 4),
         "arm64": ("virt", 8, 2)}
# ... where that is short, and in full length
BOOTS_SMT8 = {**BOOTS, "ppc64le": ("pseries", 16, 8)}
# what the kernel says of CPUs that selftests in full length let be too slow
GIVEN_UP = r"CPU\d+ failed to report (alive|dead) state"
KERNEL = pathlib.Path("kernel")     # of the image
# QEMU's options of a virt machine with firmware, of the package qemu-efi-aarch64
UEFI = ("-bios", "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd")
ENDS = "runs to its end, no splat"
ALL_ON = "all online at the end"


@dataclasses.dataclass(frozen=True)
class Case:
    """A boot: the machine, the job and what it is given as variables, and the
    names of the results it must give. Where it is not as told, that is a
    failure, and so is a result that is missing."""
    name: str
    machine: vm.Machine
    job: str                        # as of boot.job()
    results: tuple = ()
    vars: dict = dataclasses.field(default_factory=dict)
    counts: dict = None             # as of _counts()
    host: object = None             # a function for run_job()
    splats: Splats = Splats()
    judge: object = None            # (machine, Result) -> [(name, ok, detail)]
    limit: int = 900                # seconds
    profile: str = ""               # of the kernel
    together: str = ""              # one after the other: they are compared
    variant: str = "patched"        # the kernel
    patch: str = ""                 # ... with files in tests/, by name


def _case(type_, cpus, threads, what, job, results=(), vars={}, *, counts=None,
          host=None, splats=Splats(), judge=None, limit=900, profile="",
          together="", disk=None, intc="", **kw):
    """A Case; what it is called comes after the machine. kw: of the machine;
    disk: arguments of with_disk()."""
    if intc:
        kw["options"] = ("-machine", f"ic-mode={intc}")
    m = vm.topology(type_, cpus, threads, **kw)
    if disk:
        m = m.with_disk(*disk)
    return Case(f"{type_}-{cpus} {what}".strip(), m, job, tuple(results), vars,
                counts(m) if callable(counts) else counts, host, splats, judge,
                limit, profile, together)


# ---- make test ----------------------------------------------------------

def guest_machine(arch, smt8=False, **kw):
    """The machine that an architecture is booted on in 'make test'."""
    if arch == "x86_64":
        kw["idle"] = kw["freq"] = "acpi"    # idle states and cpufreq to test
    return vm.topology(*(BOOTS_SMT8 if smt8 else BOOTS)[arch], **kw)


def boots(full):
    """Selftests, KUnit, SMT and its counts."""
    for arch in BOOTS:
        m = guest_machine(arch, full, append="kunit.autorun=1")
        yield Case(m.name(), m, "selftests smt", (), {"FULL": full},
                   judge=judge.boot, limit=5400 if full else 1800,
                   splats=Splats(GIVEN_UP if full else ""))


def looks(full):
    """CPUs look the same in sysfs in whatever way they came up: in parallel or
    not, one by one or together, at boot or by hotplug/online, and after SMT
    was off."""
    for arch in BOOTS:
        ref = {}
        for append in ("", "cpuhp.parallel=0", "cpuhp.batch=1", "maxcpus=2"):
            m = guest_machine(arch, True, append=append)
            yield Case(f"{m.name()} sysfs {append or 'default'}", m, "sysfs",
                       judge=judge.same(ref, not append), limit=600,
                       together=f"sysfs {arch}")


def first(full):
    """CPUs that come for the first time: what is made for them, and without
    memory for it."""
    for arch in BOOTS:
        x86 = arch == "x86_64"
        yield _case(*BOOTS[arch], "first time", "first",
                    ("threads are made together", "no memory: one by one",
                     "no memory for threads: come later",
                     "a writer of low priority", ALL_ON,
                     *["KUnit: a wrong TSC is found"] * x86),
                    append="maxcpus=2" + " kunit.autorun=1 "
                    "kunit.filter_glob=tsc_sync" * x86)


def debug(full):
    """The debug profile: SMT and hotplug loops and selftests."""
    for arch in BOOTS:
        m = guest_machine(arch, full)
        yield Case(f"{m.name()}-debug", m, "debug", (), {"FULL": full},
                   judge=judge.debug, limit=3000, profile="debug",
                   splats=Splats(GIVEN_UP if full else ""))


# ---- make machines ------------------------------------------------------

def _matrix(type_, cpus, threads, what="", *, counts=None, levels="off on",
            given={}, **kw):
    """A machine and what every one has to do."""
    results = ["platform", "levels", "cores off by hand", "batches",
               "single CPUs",
               "memory types" if type_ == "q35" else "number of processors",
               ALL_ON]
    if threads == 1:
        results[1:3] = ["no SMT"]
    if kw.get("intc") == "xics":
        results += ["one walk of the interrupts", "each interrupt moves once"]
    if kw.get("intc") == "xive":
        results += ["interrupts move with their CPU"]
    return _case(type_, cpus, threads, what, "matrix", results,
                 {"LEVELS": levels, **given}, counts=counts or _counts, **kw)


def _counts(m):
    """The calls (judge.COUNTED) for taking all threads but one of each core of
    a machine offline and online, without SMT all CPUs but one."""
    freq = node = up = 0
    cut, ups = judge.cuts(m)
    if m.threads == 1 and m.nodes > 1:
        node = 1            # a node that had no CPUs; one that loses its
                            # last shares the grace period of the CPUs
    if m.type.startswith("powernv"):
        freq = 1            # schedutil's hooks; a policy is a core
    if m.type == "q35":
        # the MTRRs, of 16 CPUs in a stop
        up = math.ceil((m.cpus - m.cpus // m.threads or m.cpus - 1) / 16)
    # when they leave the scheduler, and when those of a slice have retired
    return {"off": (0, 1 + cut * (1 + freq), 0, 1),
            "on": (0, node + cut * freq, up, ups)}


def matrix():
    """CPU models, MMU, interrupt controller and threads of pseries; powernv;
    q35."""
    pseries = [("power8", "hash", "xics", 8)]
    pseries += [(*x, 8) for x in itertools.product(
        ("power9", "power10"), ("radix", "hash"), ("xive", "xics"))]
    pseries += [(*x, t) for x in (("power9", "hash", "xics"),
                                  ("power10", "radix", "xive")) for t in (1, 4)]
    for cpu, mmu, intc, t in pseries:
        yield _matrix("pseries", 16, t, f"{cpu} {mmu} {intc} threads={t}",
                      levels="off on 2 1 on 4 2 8 off 4 on", cpu=cpu, intc=intc,
                      given={"MMU": mmu.title(), "INTC": intc.upper()},
                      append="disable_radix"
                      if mmu == "hash" and cpu != "power8" else "")
    powernv = {"MMU": "Radix", "INTC": "XIVE", "IDLE": "powernv_idle"}
    for type_ in "powernv9", "powernv10":
        yield _matrix(type_, 16, 4, levels="off on 2 1 on 4 2 off 4 on",
                      given=powernv)
        yield _matrix(type_, 16, 4, "performance", given=powernv,
                      levels="off on 2 1 on 4 2 off 4 on",
                      counts={"off": (0, 2, 0, 1), "on": (0, 0, 0, 1)},
                      append="cpufreq.default_governor=performance")
    # more than 16 that come together
    for cpus, t in (8, 2), (20, 1):
        yield _matrix("q35", cpus, t, f"threads={t}", levels="off on off on")
    yield dataclasses.replace(_case(
        "q35", 8, 2, "", "odd-core",
        ("as booted", "SMT off and on", "lists", "primary threads offline",
         "as booted at the end"), options=("-smp", "cpus=7,maxcpus=8")),
        name="q35-7 threads=2, one core has one")


def parameters():
    """Boot parameters and tools."""
    on = ("as asked", "SMT on", "all online", "off and on")
    for type_, cpus, t, what in (
            ("pseries", 16, 8, ("smt-enabled=off", "smt-enabled=2",
                                "smt-enabled=on", "nosmt", "nosmt=force")),
            ("powernv10", 16, 4, ("smt-enabled=off", "smt-enabled=2", "nosmt")),
            ("q35", 8, 2, ("nosmt", "nosmt=force"))):
        for p in what:
            forced = "1" if p.endswith("force") else ""
            yield _case(type_, cpus, t, p, "smt-at-boot",
                        ("as asked", "stays so") if forced else on,
                        {"AT_BOOT": {"smt-enabled=2": 2,
                                     "smt-enabled=on": t}.get(p, 1),
                         "FORCED": forced}, append=p)
    # CPUs that powernv has not started spin: with icount and only one that does
    # not, the boot looks stuck, on the unpatched kernel as well; and in host
    # time any CPU may be the boot CPU
    come = ("as asked", "SMT control leaves the other cores alone",
            "hotplug/online all", "all online", "all have a fair_server",
            "off and on")
    for type_, cpus, t in ("pseries", 16, 8), ("powernv10", 8, 2), \
            ("q35", 8, 2):
        # x86 takes primary threads first, powerpc CPUs from 0 on
        cores = 2 if type_ == "q35" else 1
        for p, leave, first in (("maxcpus=2", t, 2),
                                ("nosmt maxcpus=2", 1, cores)):
            if type_ == "powernv10" and leave == 1:
                continue
            yield _case(type_, cpus, t, p, "maxcpus", come,
                        {"LEAVE": leave, "CORES": cores, "FIRST": first},
                        append=p)
    # with EFI the last new CPU ends what the others began (an ITS)
    yield _case("virt", 8, 2, "maxcpus=2, UEFI", "maxcpus",
                [r for r in come if "SMT" not in r], {"SMT": ""},
                append="maxcpus=2", accel="mttcg", options=UEFI)
    # Debian 12's, which writes the files of CPUs, and Debian 13's, which writes
    # smt/control
    for (type_, t), (which, tool) in itertools.product(
            (("pseries", 8), ("powernv10", 4)),
            (("", "ppc64_cpu"), (" of Debian 13", "/opt/newer/ppc64_cpu"))):
        yield _case(type_, 16, t, f"ppc64_cpu{which}", "ppc64-cpu",
                    ("ppc64_cpu --smt", "ppc64_cpu --cores-on",
                     "ppc64_cpu --cores-on with SMT 2",
                     "ppc64_cpu --cores-on, smt/control",
                     "requests of ppc64_cpu --cores-on"), {"TOOL": tool})
    for type_, cpus, t in ("pseries", 16, 8), ("q35", 8, 2):
        yield _case(type_, cpus, t, "chcpu", "chcpu",
                    ("off and on", "grace periods and rebuilds", "one fails",
                     "no permission", "a CPU that is not there"))


def sysfs():
    """CPUs look the same in sysfs whether they came up in parallel or not."""
    for type_, cpus, t, cpu in (
            ("pseries", 16, 8, "power8"), ("pseries", 16, 4, "power10"),
            ("powernv9", 16, 4, "power9"), ("powernv10", 16, 4, "power10"),
            ("q35", 8, 2, "Skylake-Server")):
        ref = {}
        for p in "cpuhp.parallel=0", "cpuhp.parallel=1":
            yield _case(type_, cpus, t, f"{cpu} sysfs {p}", "sysfs", cpu=cpu,
                        append=p, judge=judge.same(ref, p.endswith("0")),
                        together=f"sysfs {type_} {cpu}")


def shared():
    """CPUs that wait let others run which share their processor, as with icount
    all do. TCG takes it for a yield how POWER9 waits, but not how POWER10."""
    ref = {}
    for cpu in "power9", "power10":
        yield _case("pseries", 32, 8, f"{cpu} shared", "smt", cpu=cpu,
                    judge=judge.as_fast(ref, cpu == "power9"),
                    together="shared")


def node():
    """A node without memory, and without CPUs until one is plugged in. Not on
    q35: Linux has no hot-added CPUs there without KVM."""
    options = ["-object", "memory-backend-ram,id=mem0,size=2048M",
               "-numa", "node,nodeid=0,memdev=mem0", "-numa", "node,nodeid=1"]
    for core in 0, 4, 8:
        options += ["-numa", f"cpu,node-id={int(core == 8)},core-id={core}"]
    yield _case("pseries", 8, 4, "a node without memory", "node",
                ("a node is not there", "its core comes", "goes and comes",
                 "goes and comes with SMT"), host=judge.plug_node,
                accel="mttcg", spare=1, options=tuple(options))


def dlpar():
    """Cores that come and go."""
    yield _case("pseries", 32, 8, "DLPAR", "dlpar",
                ("remove and add", "remove and add, SMT 1",
                 "remove and add, SMT 2", "a core with a running thread stays",
                 ALL_ON),
                counts=lambda m: {"off": (0, 2, 0, 1), "on": (0, 0, 0, 1)})
    yield _case("pseries", 8, 4, "DLPAR, a thread stops late", "dlpar-late",
                ("a thread that stops late", ALL_ON), accel="mttcg")
    # not with icount: unplugged by its own hypercall, the thread of all CPUs
    # would have to wait for itself, and QEMU aborts
    loops, on = 12, ("SMT on", ALL_ON)
    for what, results, switch in (
            ("", on, ""),
            (", SMT switches", (*on, "SMT switched meanwhile"), "1")):
        yield _case("pseries", 8, 4, f"device_add and device_del{what}", "plug",
                    results, {"LOOPS": loops, "SWITCH": switch},
                    host=judge.plug(loops), accel="mttcg", spare=loops)


def restarts():
    """kexec, a crash, suspend and hibernation."""
    # With icount those which spin in the old kernel take turns with the second
    # one, in its own time: its watchdogs see CPUs that do nothing for longer
    # than they allow. powernv: emulated firmware, and CPUs that spin beside it.
    slow = {"powernv10": {"limit": 1800, "accel": "mttcg"}}
    for type_, cpus, t in ("pseries", 16, 8), ("powernv10", 8, 4), \
            ("q35", 4, 2):
        for before, how in (
                ("SMT off", "put smt/control off && want 1"),
                ("all but one off", "put hotplug/offline 1-$((CPUS - 1)) && "
                 "want $THREADS $(range 1 $CPUS)")):
            yield _case(type_, cpus, t, f"kexec, {before}", "kexec",
                        (before, "the second kernel has all CPUs",
                         "it switches SMT"),
                        {"BEFORE": before, "PREPARE": how},
                        disk=("next", KERNEL))
        cpus, t = {"pseries": (8, 4)}.get(type_, (4, t))
        for what, which in ("wait", 1), ("are half up", cpus - 1):
            yield _case(type_, cpus, t, f"crash while CPUs {what}", "crash",
                        ("CPUs are on their way", "the crash kernel is up",
                         "it has a dump"),
                        {"SLOW": which, "CRASH": "nr_cpus=1 reset_devices"
                         if type_ == "q35" else "maxcpus=1"},
                        append="crashkernel=512M", disk=("next", KERNEL),
                        splats=Splats(crash=True), **slow.get(type_, {}))
    # the others die in the old kernel's smp_shutdown_nonboot_cpus(). Without EFI
    # nothing keeps the tables of an ITS from the second kernel.
    for before, how in ("SMT off", "put smt/control off && want 1"), \
            ("all online", "want $THREADS"):
        yield _case("virt", 8, 2, f"kexec, {before}", "kexec",
                    (before, "the second kernel has all CPUs",
                     "it switches SMT"), {"BEFORE": before, "PREPARE": how},
                    disk=("next", KERNEL), options=("-machine", "its=off"))
    # ... and with it each CPU that is new has them reserved for that
    before = "all online"
    yield _case("virt", 8, 2, "kexec, UEFI", "kexec",
                (before, "the second kernel has all CPUs", "it switches SMT"),
                {"BEFORE": before, "PREPARE": "want $THREADS"},
                accel="mttcg", disk=("next", KERNEL), options=UEFI)
    before = "the timekeeper of nohz_full goes"
    yield _case("virt", 8, 2, "kexec, nohz_full", "kexec",
                (before, "the second kernel has all CPUs"),
                {"BEFORE": before, "SWITCH": "",
                 "PREPARE": "echo 4 > /sys/kernel/reboot/cpu && refused cpu0/online 0"},
                append="nohz_full=2-7", profile="nohz", disk=("next", KERNEL),
                options=("-machine", "its=off"))
    yield _case("pseries", 8, 4, "crash of a core that was added", "crash",
                ("SMT off and on copy no core",
                 "a core that is added is copied once", "SMT again",
                 "it goes and comes", "the crash kernel is up",
                 "it has a dump", "it has all cores in its device tree"),
                {"PLUG": 1}, append="crashkernel=512M", disk=("next", KERNEL),
                splats=Splats(crash=True))
    for type_, t in ("pseries", 4), ("q35", 2):
        yield _case(type_, 8, t, "shutdown of all CPUs but one", "shutdown",
                    ("all CPUs but one go, and come back",
                     "one refuses, all others go", ALL_ON))
    yield _case("q35", 8, 2, "suspend", "suspend",
                ("suspend to idle, pm_test", "suspend-test.sh",
                 "suspend to RAM, pm_test",
                 "suspend to RAM, woken up while CPUs go",
                 "a CPU does not come back on resume",
                 "suspend to RAM, pm_test core", "suspend to RAM under load",
                 "hibernation, pm_test processors", "hibernation, pm_test core",
                 "hibernation, test_resume", ALL_ON),
                freq="acpi", disk=("swap", 1 << 30))
    yield _case("q35", 8, 2, "suspend cpuhp.batch=2", "suspend",
                ("suspend to RAM, pm_test",
                 "suspend to RAM, woken up while CPUs go", ALL_ON),
                {"BATCH": 2}, append="cpuhp.batch=2")
    yield _case("q35", 32, 2, "suspend, 31 CPUs in two slices", "suspend",
                ("suspend to RAM, pm_test",
                 "suspend to RAM, woken up while CPUs go", ALL_ON),
                {"BATCH": 16, "REBUILDS": 4}, append="cpuhp.batch=16")
    for batch in "", " cpuhp.batch=1":
        yield _case("q35", 4, 1, f"CPU 0 is isolated{batch}", "isolated",
                    ("a housekeeping CPU stays",
                     "a housekeeping CPU stays beside a partition",
                     "suspend to RAM, pm_test", "suspend to RAM, pm_test, timers", ALL_ON),
                    append=f"isolcpus=domain,0-1{batch}")
    # only the debug profile has CONFIG_NO_HZ_FULL
    yield _case("q35", 8, 1, "CPU 0 is nohz_full", "nohz-full",
                ("housekeeping CPUs go one by one",
                 "housekeeping CPUs go together", "suspend to RAM, pm_test",
                 ALL_ON), append="nohz_full=0-3", profile="debug")
    for batch in "", " cpuhp.batch=1":
        yield _case("pseries", 8, 1, f"CPU 0 keeps the time{batch}", "timekeeper",
                    ("all housekeeping CPUs are to go together",
                     "the timekeeper is to be parked",
                     "the timekeeper is to go alone", ALL_ON),
                    append=f"nohz_full=2-7{batch}", profile="nohz")


def sched():
    """Who runs where, and what was promised to whom, while CPUs go."""
    yield _case("q35", 8, 1, "SCHED_DEADLINE", "deadline",
                ("asleep on an offline CPU, no limit",
                 "no DEADLINE task any more, its CPU offline",
                 "asleep on isolated CPUs, all offline, no limit",
                 "no admission while CPUs leave",
                 "a list is refused, tasks stay", ALL_ON),
                append="isolcpus=domain,4-7")
    for m, c, batch in ("q35", 8, ""), ("pseries", 8, ""), ("q35", 8, " cpuhp.batch=1"):
        yield _case(m, c, 1, f"cpuset partitions{batch}", "partitions",
                    ("two partitions are offline, and come back",
                     "a third is made while they are offline",
                     "another cgroup has their CPUs, too", "one is in another",
                     "one gets a CPU that another had",
                     *(["partitions are all that is left"] if m == "pseries" else []),
                     "all CPUs outside of one go offline", ALL_ON),
                    append=batch.strip())
    yield _case("q35", 16, 1, "tasks are spread", "spread",
                ("a node goes", "every other CPU goes",
                 "tasks of a few CPUs",
                 "a kthread of a node comes back to it", ALL_ON))
    yield _case("q35", 8, 1, "many cgroups", "groups",
                ("many groups", "each CPU sets its run queue offline", ALL_ON))
    for type_, cpus, t in ("q35", 8, 2), ("pseries", 32, 8):
        yield _case(type_, cpus, t, "core scheduling", "core",
                    ("a thread that idles by force goes", "whole cores go and come",
                     "a thread refuses to die", "a callback of a thread fails",
                     ALL_ON), limit=1800)


def migration():
    """A partition that suspends to be migrated: each CPU that is not stopped
    has to join, so it must not begin where one runs and is not online."""
    every = ("all CPUs join", "SMT off", "a parked CPU is noticed",
             "SMT switched meanwhile", ALL_ON)
    late = "cpuhp.ap_delay_us=30000000 cpuhp.ap_delay_cpu=3"
    for what, first, given, kw in (
            ("", (), {}, {}),
            (", host time", (), {}, {"accel": "mttcg"}),
            # in threads, a busy host may keep a CPU in kexec_wait() of the
            # old kernel until the next one is in its place
            (" after kexec", ("CPUs that kexec left are noticed",),
             {"KEXEC": 1}, {"disk": ("next", KERNEL)}),
            # which spins all the time
            (", a late CPU", ("a late CPU is noticed",), {"LATE": 3},
             {"append": late, "accel": "mttcg",
              "splats": Splats("failed to report alive state")})):
        yield _case("pseries", 8, 4, f"migration{what}", "migrate",
                    (*first, *every), given, host=judge.wake, **kw)


def slices():
    """Requests that take more than one slice."""
    for type_, t, batch in ("q35", 2, 7), ("q35", 2, 3), ("pseries", 8, 3):
        yield _case(type_, 16, t, f"cpuhp.batch={batch}", "batch",
                    ("a list", "SMT control",
                     "SMT control stops when a CPU fails",
                     "SMT control stops when a CPU can't be deactivated",
                     "a writer is killed, CPUs come",
                     "a writer is killed, CPUs go",
                     "a writer of SMT control is killed", "smt-test.sh",
                     "cpulist-test.sh", "request-test.sh", ALL_ON),
                    {"BATCH": batch}, append=f"cpuhp.batch={batch}")
    # threads do what others may wait for: one by one
    for p in "threadirqs", "rcutree.use_softirq=0", "thread_backlog_napi":
        yield _case("q35", 8, 2, p, "batch",
                    ("a list", "SMT control", "a writer is killed, CPUs come",
                     "a writer is killed, CPUs go",
                     "a writer of SMT control is killed", "smt-test.sh",
                     "cpulist-test.sh", "request-test.sh", ALL_ON),
                    {"BATCH": 1}, append=p)
    yield _case("q35", 8, 2, "PREEMPT_RT", "batch",
                ("a list", "SMT control", "a writer is killed, CPUs come",
                 "a writer is killed, CPUs go",
                 "a writer of SMT control is killed", "smt-test.sh",
                 "cpulist-test.sh", "request-test.sh", ALL_ON),
                {"BATCH": 1}, limit=3600, profile="rt")


def domains():
    """The sched domains after hundreds of random operations, single CPUs, lists,
    SMT and cpuset partitions, are those of the unpatched kernel."""
    # three hops from the first node to the last
    line = [("-numa", f"dist,src={a},dst={b},val={10 + 5 * abs(a - b)}")
            for a, b in itertools.product(range(4), repeat=2)]
    # one that has memory only
    bare = ("-m", "2560M", "-object", "memory-backend-ram,id=mem2,size=512M",
            "-numa", "node,nodeid=2,memdev=mem2")
    isolated = "isolcpus=domain,3,8-9"
    # a list may leave another level there than CPU by CPU, until the next rebuild
    # (docs/upstream.md)
    clusters, again = {"clusters": 2}, {"AGAIN": 1, "N": 1300}
    pointers = "domains-pointers.patch"
    for type_, threads, what, nodes, append, options, more in (
            *((*BOOTS[a][::2], *x) for a, x in itertools.product(MAIN, (
                ("two nodes", 2, "", (), {}),
                ("four nodes in a line", 4, "", sum(line, ()), {}),
                ("isolcpus", 2, isolated, (), {}),
                ("a node without CPUs", 2, "", bare, {})))),
            ("pseries", 8, "SMT8", 2, "", (), {}),
            # without SMT: of a core that is offline 7.3 takes any thread there
            # for the primary one
            ("virt", 1, "clusters", 2, "", (), clusters),
            ("virt", 1, "clusters, isolcpus", 2, isolated, (), clusters),
            ("virt", 1, "two capacities", 2, "", (),
             {**clusters, "capacity": 446})):
        m = vm.Machine(type_, nodes, 16 // threads // nodes, threads, nodes,
                       options=options, append=" ".join(filter(None, [
                           "sched_verbose log_buf_len=4M", append])), **more)
        ref = {}
        for variant in kernels.VARIANTS:
            yield Case(f"{m.name()} domains, {what}, {variant}", m, "domains",
                       vars={"N": 800, "KINDS": 5 if "isol" in append else 7,
                             **(again if m.clusters > 1 else {})},
                       limit=3600, variant=variant,
                       judge=judge.same_domains(ref, variant == "base"),
                       patch=pointers, together=f"{type_} domains, {what}")
        if what != "two nodes":
            continue
        # what must not pass
        ref = {}
        for name, variant, patch, judged in (
                ("as ever, base", "base", pointers, judge.same_domains(ref)),
                ("a stale group", "patched", "domains-stale.patch",
                 judge.other_domains(ref, "group")),
                ("a stale weight", "patched", pointers + " domains-stale-weight.patch",
                 judge.other_domains(ref, "weight", pointers=True))):
            yield Case(f"{m.name()} domains, {name}", m, "domains",
                       vars={"N": 100}, variant=variant, judge=judged,
                       patch=patch, together=f"{type_} domains, stale")


def cpufreq():
    """A policy for each CPU, one for each core."""
    for type_, cpus, t, freq in ("q35", 8, 2, "acpi"), ("powernv10", 16, 4, ""):
        yield _case(type_, cpus, t, "schedutil", "cpufreq",
                    ("governed as booted", "CPUs come and go",
                     "CPUs that are sent back",
                     "others set governors and limits"), {"SLOW": freq},
                    freq=freq)
    yield _case("q35", 8, 2, "boost", "boost", (
        "it can be disabled", "a CPU goes and comes", "a list", "SMT"),
        append="setcpuid=ida", freq="acpi")


def late():
    """CPUs that do not come alive in time at boot. In host time: they spin."""
    alive = Splats("failed to report alive state")
    # given up after 10 s: half a second before it comes, and a second after
    # it came and three before it can say so, which a busy host may need
    for type_, cpus, t, which, what, delay, race in (
            ("q35", 8, 2, "3", "", 30, 0), ("q35", 4, 2, "1 2 3", "", 30, 0),
            ("pseries", 8, 4, "3", "", 30, 0),
            ("powernv10", 4, 2, "3", "", 30, 0),
            ("pseries", 8, 4, "3", ", comes while given up", 10.5, 2),
            ("pseries", 8, 4, "3", ", given up while it comes", 9, 4)):
        one = f" cpuhp.ap_delay_cpu={which}" if " " not in which else ""
        ppc = type_ != "q35"
        yield _case(type_, cpus, t, f"late {which.replace(' ', ',')}{what}",
                    "late", ("the others came", "given up together",
                             *["they die"] * ppc, "they come later",
                             *["15 s are not too long"] * ppc),
                    {"LATE": which}, splats=alive, accel="mttcg",
                    append=f"cpuhp.ap_delay_us={delay * 1e6:.0f} "
                    f"cpuhp.race_delay_us={race * 1e6:.0f}{one}")
    yield _case("q35", 12, 1, "started again while they are late", "late-again",
                ("started while they are late, round 1",
                 "started while they are late, round 2", ALL_ON), splats=alive,
                accel="mttcg")
    yield _case("q35", 8, 2, "machine check while CPUs wait", "machine-check",
                ("CPUs come, one after 8 s",
                 "machine check while one was awaited", ALL_ON),
                splats=Splats("Hardware Error|lock debugging due to kernel "
                              "taint"), host=judge.machine_check,
                accel="mttcg")
    yield _case("q35", 8, 1, "timers of machine checks", "machine-check-timer",
                ("timers are started while CPUs go", ALL_ON), profile="debug",
                accel="mttcg")


def deferred():
    """A bio that ends on a CPU which is about to wait for I/O."""
    for type_ in "q35", "pseries":
        yield _case(type_, 4, 2, "deferred bio", "deferred-bio",
                    ("a CPU is half offline", "a deferred bio ends", ALL_ON),
                    disk=("uncached", "size=67108864", "vectors=0"))


def retire():
    """CPUs go offline while others are about to use them. Debug kernels make
    them slow, and break the protocol, which the tests have to see."""
    plain = ("nothing is refused or lost", "the others are stopped", ALL_ON)
    slow = (plain[0], "a missing grace period is seen",
            "a queue closed in two steps is seen",
            *(f"they stay in phase {n}" for n in range(5)), *plain[1:])
    for type_, t, what, kw in (
            ("q35", 2, "", {}), ("q35", 2, "rcu_normal",
                                 {"append": "rcupdate.rcu_normal=1"}),
            ("q35", 2, "rcu_expedited",
             {"append": "rcupdate.rcu_expedited=1"}),
            ("q35", 2, "nohz_full",
             {"append": "nohz_full=4-7", "profile": "nohz"}),
            ("q35", 2, "without NO_HZ", {"append": "nohz=off highres=off"}),
            ("pseries", 4, "", {}), ("pseries", 4, "xics", {"intc": "xics"}),
            ("pseries", 4, "hash", {"cpu": "power9", "append": "disable_radix"}),
            ("powernv10", 4, "", {})):
        yield _case(type_, 8, t, f"retire {what}".strip(), "retire", plain,
                    accel="mttcg", **kw)
    for type_, t in ("q35", 2), ("pseries", 4):
        yield _case(type_, 8, t, "retire debug", "retire", slow, limit=1800,
                    profile="debug", accel="mttcg")
    # PREEMPT_RT, with lockdep
    yield _case("q35", 8, 2, "retire PREEMPT_RT", "retire", slow, limit=1800,
                profile="rt", accel="mttcg")
    # a debug kernel which complains when cpuhp.retire_skip_gp takes away the
    # grace period; of another complaint "WARNING: " is not expected
    yield dataclasses.replace(_case(
        "q35", 8, 2, "retire told", "retire-told",
        ("nothing is said with a grace period", "who uses a retired CPU is told",
         ALL_ON), limit=1800, profile="debug", accel="mttcg",
        splats=Splats(r"WARNING: .* at cpuhp_retire_check\+|Call Trace:")),
        patch="retire-told.patch")
    # the same of a CPU that is dead and callable when the hotplug lock is released
    yield dataclasses.replace(_case(
        "q35", 8, 2, "unlock told", "unlock-told",
        ("nothing is said when the mask is right",
         "who is dead and callable is told", ALL_ON), limit=1800, profile="debug",
        splats=Splats(r"WARNING: .* at cpuhp_retire_ended\+|Call Trace:")),
        patch="unlock-told.patch")
    # IPIs that come too late: when the CPU is dying, and when it is there again
    yield dataclasses.replace(_case(
        "pseries", 8, 4, "late IPI", "late-ipi",
        ("an IPI for a CPU that went and came meanwhile",
         "the CPU takes IPIs afterwards",
         "an IPI that can't be configured at first", ALL_ON), accel="mttcg"),
        patch="late-ipi.patch")


def ends():
    """The system comes to its end while CPUs are on their way out, in each phase
    of that. What a delay is, a kernel with CONFIG_DEBUG_CPU_RETIRE knows."""
    for type_, cpus, t in ("q35", 4, 2), ("pseries", 8, 4):
        # none of the tests that start with it
        alone = "initcall_blacklist=rcu_torture_init,lock_torture_init," \
            "scf_torture_init"
        given = {"profile": "torture", "limit": 1800}
        for phase, (end, results, kw) in itertools.product(range(5), (
                ("kexec", ("the second kernel has all CPUs",),
                 {"disk": ("next", KERNEL), "append": alone}),
                ("crash", ("the crash kernel has a dump",),
                 {"disk": ("next", KERNEL), "append": f"crashkernel=512M {alone}",
                  "splats": Splats(crash=True)}),
                ("reboot", (), {"append": alone, "judge": judge.restarts}),
                ("off", (), {"append": alone}))):
            yield _case(type_, cpus, t, f"{end} in phase {phase}", "retire-ends",
                        (f"CPUs stay in phase {phase}", *results),
                        {"PHASE": phase, "END": end, "CRASH": "nr_cpus=1 "
                         "reset_devices" if type_ == "q35" else "maxcpus=1"},
                        **given, **kw)
    yield _case("pseries", 8, 4, "unbound while it dies", "unbind",
                ("its tick device is unbound while it dies",
                 "it comes back with a tick", ALL_ON), append=alone, **given)
    yield _case("q35", 4, 2, "suspend in each phase", "retire-ends",
                [f"suspended in phase {n}" for n in range(5)],
                {"END": "suspend"}, append=alone, **given)


def scarce():
    """What CPUs need is not to be had, for a while or at all."""
    for type_, t in ("q35", 2), ("pseries", 4):
        yield _case(type_, 8, t, "a rollback is refused", "refused",
                    ("it is refused on its way back down",
                     "it goes with the next request", "all work afterwards",
                     "it comes with a list",
                     "so it does when only sched:active fails",
                     "and by its own file", "no room for its interrupts",
                     "it dies, and is prepared anew to come",
                     "it dies, and is kicked anew", ALL_ON),
                    splats=Splats(r"WARNING: .* at cpuhp_fail\+|Call Trace:"))
        yield _case(type_, 8, t, "a sibling refuses, SMT off", "sibling",
                    ("it refuses to go", "all who may are brought online",
                     "it is not, by a list", "nor by its own file",
                     "it goes with a list", "it comes when SMT is on"),
                    append="nosmt maxcpus=1",
                    splats=Splats(r"WARNING: .* at cpuhp_fail\+|Call Trace:"))
        yield _case(type_, 8, t, "hotplug is disabled for a while", "busy",
                    ("the file of a CPU waits", "hotplug/online waits", ALL_ON),
                    accel="mttcg",
                    # each read takes so long, in host time
                    disk=("slow", "size=67108864,latency-ns=100000000"))
        yield _case(type_, 8, t, "a partition without memory",
                    "starved-partition", ("a partition without memory", ALL_ON))
    # 64 queues and a change of its configuration; about 200 fit on a CPU
    serial = ("-device", "virtio-serial-pci,max_ports=31,vectors=65") * 4
    yield _case("q35", 4, 2, "vectors run out", "vectors",
                ("CPUs go one by one until there is no space", "a list",
                 "SMT off", ALL_ON), options=serial)
    pin = ("-blockdev", "driver=null-co,node-name=pin,read-zeroes=on,"
           "size=67108864", "-device", "virtio-blk-pci,drive=pin,serial=pin,"
           "vectors=0,num-queues=1")
    for accel in "icount", "mttcg":
        yield _case("q35", 8, 2, f"irqload {accel}", "irqload",
                    ("both disks go on", "an interrupt moves once",
                     "a CPU gives away an interrupt, stays and gets it back",
                     "nothing is said", ALL_ON), accel=accel, options=pin,
                    disk=("msi", "size=67108864", "num-queues=2"))
    yield _case("q35", 4, 1, "a vector is not freed", "stuck-timer",
                ("its CPU goes", ALL_ON), options=pin, append="threadirqs")
    yield _case("q35", 4, 1, "timers of the HPET", "hpet",
                ("a channel for each CPU", "a CPU fails to go",
                 "CPUs go and come", ALL_ON), cpu="Skylake-Server,-arat",
                options=("-global", "hpet.msi=on", "-global", "hpet.timers=8"))


def _selftests():
    """The names of those that do not suspend the machine."""
    where = LINUX / "tools/testing/selftests/cpu-hotplug"
    every = sorted(p.name for p in where.glob("*-test.sh")
                   if p.name != "suspend-test.sh")
    if LINUX.exists() and not every:
        raise LabError(f"{where} has no *-test.sh; are the selftests elsewhere "
                       "now? mend _selftests() in lab/cases.py")
    return every


def selftests():
    """The selftests in full length: each alone, so that none takes more than an
    hour."""
    # arm64: what does not go this way on the others, a CPU that dies late
    for arch, profile, test in (
            *itertools.product(MAIN, ("", "debug"), _selftests()),
            ("arm64", "", "operation-test.sh")):
        m = guest_machine(arch, True)
        where = m.name() + "-debug" * bool(profile)
        yield Case(f"{where} {test}", m, "selftests", (),
                   {"FULL": 1, "TEST": test}, judge=judge.selftests,
                   limit=3600, splats=Splats(GIVEN_UP), profile=profile)


def few():
    """The selftests where there is less than usual."""
    every = _selftests()
    for type_, cpus, t, what, append, tests in (
            ("q35", 1, 1, "selftests, 1 CPU", "", every),
            ("q35", 4, 1, "selftests, no SMT", "", every),
            ("q35", 4, 2, "selftests, no debugfs", "debugfs=off", every),
            ("q35", 4, 2, "selftests, CPU 0 isolated", "isolcpus=0-1", every),
            ("q35", 4, 2, "selftests, softirqs in threads", "threadirqs",
             every),
            ("pseries", 1, 1, "selftests, 1 CPU", "", every),
            # whose idle states count on a CPU that was offline
            ("powernv10", 8, 4, "idle states", "", ["cpuidle-test.sh"])):
        yield _case(type_, cpus, t, what, "few",
                    (*tests, "skips have a reason"),
                    {"TESTS": " ".join(tests)}, append=append)
    # what runs on CPUs that rest: on nohz_full ones, too
    yield _case("q35", 8, 2, "requests, nohz_full", "selftests", (),
                {"FULL": "", "TEST": "request-test.sh"}, judge=judge.selftests,
                append="nohz_full=4-7", profile="nohz")


def odd():
    """The selftests as a CI may run them."""
    what = "the selftests",
    for type_, modes in ("q35", ("user", "bare", "held", "killed", "late")), \
            ("pseries", ("held", "killed", "late")):
        for o in modes:
            yield _case(type_, 8, 4 if type_ == "pseries" else 2,
                        f"run_kselftest.sh, {o}", "odd", what, {"ODD": o},
                        limit=2400, accel="mttcg")
    given = {"job": "odd", "results": what, "vars": {"ODD": "plain"},
             "limit": 2400, "accel": "mttcg"}
    for cpus, append in (1, ""), (2, "maxcpus=1"), (8, "nosmt"):
        yield _case("q35", cpus, min(cpus, 2),
                    f"run_kselftest.sh, {append or '1 CPU'}", append=append,
                    **given)
    yield _case("q35", 8, 2, "run_kselftest.sh, no state control or debugfs",
                profile="plain", **given)
    # which has bugs that 00-fixes and 02-sched-domain-files mend
    given["vars"] = {"ODD": "plain",
                     "FAILS": "sched-domains-test.sh smt-test.sh"}
    yield dataclasses.replace(
        _case("q35", 8, 2, "run_kselftest.sh, unpatched kernel", **given),
        variant="base")


def tracers():
    """Tracers with a thread on each CPU."""
    yield _case("q35", 8, 2, "tracers", "tracers",
                ("timerlat", "osnoise", "timerlat of user space",
                 "a CPU at rest has its osnoise thread",
                 "a CPU on its way down gets none", "hwlat", ALL_ON),
                profile="debug")


def xen():
    """dom0 of Xen, paravirtualised, where CPUs still go one at a time and in
    stop_machine()."""
    for variant, what in ("base", ", unpatched kernel"), ("patched", ""):
        yield dataclasses.replace(_case(
            "q35", 4, 1, f"Xen{what}", "xen",
            ("runs on Xen", "CPUs go and come",
             *["a list goes and comes", "a CPU fails to go"] * (not what),
             ALL_ON), {"SERIES": "" if what else 1}, profile="xen", accel="mttcg",
            nodes=1, xen=True), variant=variant)


def leak(cycles):
    """A thousand cycles."""
    for type_, cpus, t in ("pseries", 8, 4), ("q35", 4, 2):
        yield _case(type_, cpus, t, "leak", "leak",
                    ("10 cycles", f"{cycles} cycles",
                     "no object for each cycle"), {"MORE": cycles},
                    judge=judge.grown, limit=3600)


QUICK = {"boots": boots, "sysfs": looks, "first": first, "debug": debug}
FULL = {"selftests": selftests}
GROUPS = {f.__name__: f for f in (
    matrix, parameters, sysfs, shared, dlpar, node, restarts, migration,
    slices, sched, domains, cpufreq, late, deferred, retire, ends, scarce, few,
    odd, tracers, xen, leak)}


def table(full="", cycles=""):
    """(quick, group, Case) of all. full: '1' for selftests in full length, and
    for those that are only then; cycles: of the leak loop."""
    cycles = vm.number("CYCLES", cycles) or 990
    yield from ((True, g, c) for g, f in QUICK.items() for c in f(full))
    groups = GROUPS | (FULL if full else {})
    yield from ((False, g, c) for g, f in groups.items()
                for c in (f(cycles) if f is leak else f()))


def patches(names):
    """The files of Case.patch."""
    return [TOP / "tests" / n for n in names.split()]


@functools.cache
def _prepared(variant, arch, profile, patch):
    try:
        image = kernels.build(variant, arch, profile, kernels.with_patch(
            *patches(patch), variant=variant) if patch else None)
        guest.rootfs(arch, profile), guest.lab_disk(arch)
        return image
    except LabError as e:
        return e


def prepared(case):
    """The image of a case's kernel, with the guest's disks there. LabError if
    they can't be made, which is not tried again for each boot."""
    image = _prepared(case.variant, case.machine.arch, case.profile,
                      case.patch)
    if isinstance(image, LabError):
        raise image
    return image


def ktap(case):
    """Where the last boot of a case leaves what kselftest's runner printed."""
    return OUT / "ktap" / f"{_name(case)}.ktap"


def _name(case):
    """Its name for files."""
    return "".join(c if c.isalnum() else "-" for c in case.name)


def run(case, image):
    """[(name, ok, detail)] of one case. LabError when this machine is what is
    wrong: that is no result."""
    name = _name(case)
    ktap(case).unlink(missing_ok=True)
    try:
        r = boot.run_job(case.machine, image, boot.job(case.job, **case.vars),
                         name=name, limit=case.limit, host=case.host,
                         splats=case.splats)
    except LabError as e:
        said = e.lines() if isinstance(e, boot.BootFailed) else []
        r = getattr(e, "result", None)
        if isinstance(e, HostError) or r and r.log_error:
            raise
        return [(ENDS, False, "\n".join([str(e), *said] + (
                    [r.output()[-1500:]] if r else [])))] + \
            [(x["name"], x["ok"] == "1", x.get("detail", ""))
             for x in (r.of("check") if r else [])]
    if "kselftest" in r.files:
        write_atomic(ktap(case), r.files["kselftest"])
    out = [(ENDS, not r.status,
            f"the job ended with {r.status}\n{r.output()[-1500:]}")]
    got = {}
    for x in r.of("check"):
        got.setdefault(x["name"], []).append(x)
    for name in dict.fromkeys((*case.results, *got)):
        told = got.get(name, [])
        why = "the job did not come to it" if not told else \
            "lab/cases.py has no such result of this case" \
            if name not in case.results else \
            f"the job gave it {len(told)} times" if len(told) > 1 else ""
        out.append((name, not why and told[0]["ok"] == "1", "\n".join(
            filter(None, [why, *(x.get("detail", "") for x in told)]))))
    if case.counts:
        out.append(judge.counts(r, case.counts))
    # of a job that was not ended there is nothing more to say
    return out + (case.judge(case.machine, r)
                  if case.judge and not r.status else [])
