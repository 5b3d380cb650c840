# SPDX-License-Identifier: GPL-2.0
"""'make test': everything that must be true of the series and the lab."""

import difflib
import json
import os
import re
import sys
import textwrap
import time

from . import bench, boot, guest, kernels, ktap, patchcheck, series, vm
from .common import (ARCHES, OUT, TOP, LabError, check_arch, human, run, say,
                     step, usual, write_atomic)

# what the kernel says of CPUs that selftests in full length let be too slow
GIVEN_UP = r"CPU\d+ failed to report (alive|dead) state"
# tests that may skip inside the lab's guests: (machine, name, reason)
SKIP_ALLOWED = [
    ("q35-8-acpi-cpufreq", "the last CPU is refused",
     "CPU 0 is not asked on x86, so one always stays"),
    # with FULL=1
    ("pseries-16", "a CPU does not come alive",
     "the kernel waits 100 s there, and the delay is 20 s"),
    ("pseries-16", "a CPU does not say that it is dead",
     "the kernel waits longer than the delay there"),
]
# seconds: for compiling single patches, and for the whole run, which shortens
# the former when everything had to be built first
PER_PATCH_BUDGET = 15 * 60
WHOLE_BUDGET = 55 * 60
# ... when all was there already, which is known when the builds are done
CACHED_BUDGET = 14.25 * 60
CACHED_BUILDS = 3 * 60
# ... for which a second debug kernel may have to be left out, too. Usual times
# of its build and of all boots.
DEBUG_BUILD = 1.2               # of the build without
BOOTS_TAKE = 14 * 60

# what is booted: machine, CPUs, threads; two nodes
BOOTS = {"x86_64": ("q35", 8, 2), "ppc64le": ("pseries", 8, 4)}
# ... where that is short, and with FULL=1 in the environment always
BOOTS_SMT8 = {**BOOTS, "ppc64le": ("pseries", 16, 8)}

# through a pipe: the runner opens /dev/stdout a second time, which would
# overwrite a file
JOB_SELFTESTS = """
export KSELFTEST_CPU_ON_OFF_TEST_SH_ARGS=-a QUICK=%(quick)s
export FULL=%(full)s
# two of them let readers and writers loose on files for so long
[ -z "$QUICK" ] || export SECONDS_HAMMER=1
cd /lab/kselftest
./run_kselftest.sh 2>&1 | cat > /tmp/kselftest
file kselftest /tmp/kselftest
cat /sys/kernel/debug/kunit/*/results > /tmp/kunit
file kunit /tmp/kunit
"""
JOB_SMT = """
for i in 1 2 3; do
	timed off - $i labctl write $CPU/smt/control off || die "SMT off failed"
	timed on - $i labctl write $CPU/smt/control on || die "SMT on failed"
done
COUNTED_MORE=cpuidle_uninstall_idle_handler
counted off - labctl write $CPU/smt/control off
counted on - labctl write $CPU/smt/control on
"""
JOB_DEBUG = """
for i in 1 2; do
	timed off - $i labctl write $CPU/smt/control off || die "SMT off failed"
	timed on - $i labctl write $CPU/smt/control on || die "SMT on failed"
done
for c in $(ls -d $CPU/cpu[0-9]*); do
	[ -w $c/online ] && [ "${c##*/}" != cpu0 ] || continue
	labctl write $c/online 0 || die "$c: offline failed"
done
for c in $(ls -d $CPU/cpu[0-9]*); do
	[ -w $c/online ] && [ "$(cat $c/online)" = 0 ] || continue
	labctl write $c/online 1 || die "$c: online failed"
done
cd /lab/kselftest
export QUICK=%(quick)s
# when it is to be quick: the one with fault injection. The others pass without
# debug in the same run, and take minutes here (FULL=1, make torture)
for t in cpu-on-off cpuidle cpulist sched-domains smt stress; do
	skip+=" -S cpu-hotplug:$t-test.sh"
done
./run_kselftest.sh -o 1200 ${QUICK:+$skip} 2>&1 | cat > /tmp/kselftest
file kselftest /tmp/kselftest
emit checked online "$(cat $CPU/online)"
"""


# what sysfs says about the CPUs: however they came up, it is to be the same
JOB_SYSFS = """
# one program for hundreds of files
describe() {
	cd $CPU
	grep -s -d skip "" online present possible cpu[0-9]*/topology/* \
		cpu[0-9]*/cache/index*/* cpu[0-9]*/cpuidle/state*/name \
		../node/node*/cpulist
	find cpu[0-9]* | sort
	cd - > /dev/null
}
case $(cat /proc/cmdline) in
*maxcpus=*)
	# two of them: where bringup is parallel, primary threads come first
	[ "$(nproc --all)" -gt 2 ] && [ "$(nproc)" = 2 ] ||
		die "maxcpus=2: $(cat $CPU/online)"
	labctl write $CPU/hotplug/online all ;;
esac
# x86 has a list of features: four digits each, ascending, in the uevents too
if [ -e $CPU/modalias ]; then
	alias=$(cat $CPU/modalias)
	features=$(tr , '\\n' <<< "${alias##*:feature:,}")
	grep -qvxE '[0-9A-F]{4}' <<< "$features" &&
		die "modalias: $alias"
	[ "$features" = "$(sort -u <<< "$features")" ] ||
		die "modalias is not in order: $alias"
	grep -qxF "MODALIAS=$alias" $CPU/cpu0/uevent ||
		die "uevent: $(cat $CPU/cpu0/uevent)"
fi
describe > /tmp/boot
labctl write $CPU/smt/control off || die "SMT off failed"
labctl write $CPU/smt/control on || die "SMT on failed"
describe > /tmp/again
file boot /tmp/boot
file again /tmp/again
"""
SYSFS_BOOTS = ("", "cpuhp.parallel=0", "cpuhp.batch=1", "maxcpus=2")


def quick():
    """What jobs want to know: do the selftests make it quick? FULL=1 in the
    environment is for all of them."""
    full = bool(os.environ.get("FULL"))
    return {"quick": "" if full else "1", "full": "1" if full else ""}


class Report:
    """Counts and prints results; the KTAP of the whole run goes to
    out/test.ktap. What a run before left there is removed: it is not to be
    taken for the result of one that was ended."""

    ktap = "test.ktap"

    def __init__(self):
        self.lines = []
        self.passed = self.failed = 0
        (OUT / self.ktap).unlink(missing_ok=True)

    def add(self, name, ok, detail=""):
        n = self.passed + self.failed + 1
        self.passed += bool(ok)
        self.failed += not ok
        name = name.replace("#", "")
        self.lines.append(f"{'ok' if ok else 'not ok'} {n} {name}")
        if detail and not ok:
            self.lines += [f"# {x}" for x in str(detail).splitlines()[:40]]
        print(textwrap.fill(f"{'pass' if ok else 'FAIL'}  {name}", 80,
                            subsequent_indent=6 * " ",
                            break_on_hyphens=False), flush=True)
        if detail and not ok:
            for x in str(detail).splitlines()[:40]:
                print(f"      {x}", flush=True)

    def write(self, *plan):
        """Write what there is so far: without a plan more is to come."""
        write_atomic(OUT / self.ktap, "\n".join(
            ["KTAP version 1", *plan, *self.lines]) + "\n")

    def finish(self):
        self.write(f"1..{self.passed + self.failed}")
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


def check_builds(rep, arches, profile=""):
    """The tip builds, without warnings; returns {arch: image}."""
    images = {}
    for a in arches:
        name = f"build: {a}" + (f" {profile}" if profile else "")
        try:
            images[a] = kernels.build("patched", a, profile)
        except LabError as e:
            rep.add(name, False, e)
            continue
        meta = json.loads((images[a] / "meta.json").read_text())
        rep.add(f"{name}, no warnings", not meta["warnings"],
                "\n".join(meta["warnings"]))
    return images


def check_debug_builds(rep, arches, t0):
    """Like check_builds, of the debug profile: the first architecture, and the
    other one if it is there already, there is time to build it in this run,
    or FULL=1 says that time does not matter."""
    images = {}
    for a in arches:
        # the last one may have had nearly everything there
        need = DEBUG_BUILD * max(usual(f"kernel patched {a}", 420), 300)
        if a != arches[0] and quick()["quick"] and \
                not kernels.is_built("patched", a, "debug") and \
                time.monotonic() - t0 + need + BOOTS_TAKE > WHOLE_BUDGET:
            print(f"      left out: {a} debug, whose kernel takes about "
                  f"{human(need)}\n      to build; run it again, or with "
                  "FULL=1, to have it", flush=True)
            continue
        images |= check_builds(rep, [a], "debug")
    return images


def add_ktap(rep, where, text, what):
    """Every result in a KTAP text as a test of its own. A skip fails unless
    SKIP_ALLOWED names it."""
    for name, status, detail in ktap.results(ktap.unprefix(text)):
        name = re.sub(r"^selftests: ", "", name)
        ok = status == "pass"
        if status == "skip":
            ok = any(where in (w, f"{w}-debug") and n in name
                     for w, n, _ in SKIP_ALLOWED)
            detail = f"skipped in {where}: {detail or 'no reason given'}"
        rep.add(f"{where}: {what}: {name}", ok, detail)


class Boot:
    """One guest to boot, and what is to be true of its result: judge(rep, m,
    r) adds that to the report when the boot went well."""

    def __init__(self, name, m, image, job, judge, limit):
        self.name, self.m, self.image, self.job = name, m, image, job
        self.judge, self.limit = judge, limit

    def __call__(self):
        try:
            self.result = boot.run_job(self.m, self.image, self.job,
                                       name=f"test-{self.name}",
                                       limit=self.limit, expected=GIVEN_UP
                                       if os.environ.get("FULL") else "")
            say(f"   {self.name}: {human(self.result.seconds)}")
        except Exception as e:      # must not end the others
            self.result = e

    def report(self, rep):
        test, r = f"{self.name}: boots, no splat", self.result
        if isinstance(r, Exception):
            rep.add(test, False, r if isinstance(r, LabError) else repr(r))
        elif r.status:
            rep.add(test, False,
                    f"the job ended with {r.status}\n{r.output()[-2000:]}")
        else:
            rep.add(test, True)
            self.judge(rep, self.m, r)


def run_all(rep, todo):
    """Do all of todo, Boots and the like, as many side by side as there are
    CPUs: virtual time does not notice, and what is in pytest has time. The
    longest come first. Then the results, in the order of todo."""
    for a in dict.fromkeys(b.m.arch for b in todo if isinstance(b, Boot)):
        guest.rootfs(a), guest.lab_disk(a)      # make them beforehand
    with step(f"{len(todo)} boots and the like, {os.cpu_count() or 1} at a "
              "time"):
        boot.side_by_side(lambda b: b(),
                          [(b,) for b in sorted(todo, key=lambda b: -b.limit)],
                          os.cpu_count() or 1)
    for b in todo:
        b.report(rep)


def guest_machine(arch, smt8=False, **kw):
    """The machine that an architecture is booted on in make test."""
    type_, cpus, threads = (
        BOOTS_SMT8 if smt8 or os.environ.get("FULL") else BOOTS)[arch]
    if arch == "x86_64":
        kw["idle"] = kw["freq"] = "acpi"    # idle states and cpufreq to test
    return vm.topology(type_, cpus, threads, **kw)


def boots(images):
    """The patched kernels boot; selftests, KUnit, SMT and its counts."""
    for arch, image in images.items():
        m = guest_machine(arch, append="kunit.autorun=1")
        yield Boot(m.name(), m, image, JOB_SELFTESTS % quick() + JOB_SMT,
                   _judge_boot, 5400 if os.environ.get("FULL") else 1800)


def _judge_boot(rep, m, r):
    add_ktap(rep, m.name(), r.files.get("kselftest", b"").decode(),
             "kselftest")
    add_ktap(rep, m.name(), r.files.get("kunit", b"").decode(), "KUnit")
    bad = []
    for s in r.of("sample"):
        want = m.cpus // m.threads if s["op"] == "off" else m.cpus
        if len(bench.cpulist(s["online"])) != want:
            bad.append(f"after {s['op']}: {s['online']}")
    rep.add(f"{m.name()}: SMT off leaves a thread a core, on brings all",
            not bad and len(r.of("sample")) == 6, "\n".join(bad))
    counts = {c["op"]: c for c in r.of("counts")}
    off, on = counts.get("off", {}), counts.get("on", {})

    def calls(c, *names):
        return sum(int(c.get(n, 0)) for n in names)
    rebuilds = [calls(c, "build_sched_domains") for c in (off, on)]
    rep.add(f"{m.name()}: one domain rebuild for all CPUs going down, one "
            "for all coming up", rebuilds == [1, 1], rebuilds)
    stops = [calls(c, "stop_machine_cpuslocked",
                   "stop_machine_from_inactive_cpu") for c in (off, on)]
    rep.add(f"{m.name()}: SMT off stops the machine once, SMT on at most "
            "once", stops[0] == 1 and stops[1] <= 1, stops)
    gps = [(calls(c, "synchronize_rcu_normal"),
            calls(c, "synchronize_rcu_expedited")) for c in (off, on)]
    want = 2 if m.freq else 1
    rep.add(f"{m.name()}: SMT off waits for {want} expedited grace periods, "
            "SMT on for none", gps == [(0, want), (0, 0)], gps)
    got = {op: int(c.get("cpuidle_uninstall_idle_handler", 0))
           for op, c in counts.items()}
    if m.type == "pseries":
        rep.add(f"{m.name()}: SMT switching never uninstalls the idle "
                "handler", got == {"off": 0, "on": 0}, got)


def sysfs_boots(images):
    """CPUs look the same in sysfs in whatever way they came up: in parallel
    or not, one by one or together, at boot or by hotplug/online, and after
    SMT was off."""
    want = {}

    def judge(rep, m, r):
        for when in "boot", "again":
            got = r.files.get(when, b"").decode()
            ref = want.setdefault(m.arch, got)
            diff = [x for x in difflib.unified_diff(
                ref.splitlines(), got.splitlines(), lineterm="", n=0)]
            rep.add(f"{m.name()}: sysfs is as ever: {m.append or 'default'}, "
                    + ("SMT off and on" if when == "again" else "booted"),
                    "thread_siblings_list:" in got and not diff,
                    "\n".join(diff))
    for arch, image in images.items():
        for append in SYSFS_BOOTS:
            m = guest_machine(arch, smt8=True, append=append)
            yield Boot("-".join([m.name(), "sysfs",
                                 *re.findall(r"\w+", append)]), m, image,
                       JOB_SYSFS, judge, 600)


def debug_boots(images):
    """The debug profile: SMT and hotplug loops and selftests, no splat."""
    def judge(rep, m, r):
        add_ktap(rep, f"{m.name()}-debug",
                 r.files.get("kselftest", b"").decode(), "kselftest")
        online = [x["online"] for x in r.of("checked")]
        rep.add(f"{m.name()}-debug: all CPUs are online at the end",
                [len(bench.cpulist(x)) for x in online] == [m.cpus], online)
    for arch, image in images.items():
        m = guest_machine(arch)
        yield Boot(f"{m.name()}-debug", m, image, JOB_DEBUG % quick(), judge,
                   3000)


class Lab:
    """pytest of the lab itself, deliberate faults among it; a skip is a
    failure."""
    limit = 1200                # seconds

    def __call__(self):
        self.xml = OUT / "pytest.xml"
        self.xml.unlink(missing_ok=True)
        t0 = time.monotonic()
        try:
            self.status, self.output = run(
                [sys.executable, "-m", "pytest", "-q", "-p",
                 "no:cacheprovider", f"--junitxml={self.xml}", TOP / "tests"],
                cwd=TOP, check=False, limit=self.limit)
        except TimeoutError:
            self.status, self.output = None, f"not done in {self.limit} s"
        say(f"   pytest: {human(time.monotonic() - t0)}")

    def report(self, rep):
        import xml.etree.ElementTree as ET
        try:
            cases = list(ET.parse(self.xml).getroot().iter("testcase"))
        except (OSError, ET.ParseError) as e:
            rep.add("pytest", False, f"{e}\n{self.output[-4000:]}")
            return
        for c in cases:
            bad = [x for x in c if x.tag in ("failure", "error", "skipped")]
            text = "".join(f"{x.tag}: {x.get('message')}\n{x.text or ''}"
                           for x in bad)
            rep.add(f"lab: {c.get('classname').split('.')[-1]}: "
                    f"{c.get('name')}", not bad, text[-3000:])
        if self.status != 0 and not any(len(c) for c in cases):
            rep.add("pytest", False, self.output[-4000:])


PARTS = ("patches", "builds", "boots", "sysfs", "debug", "each", "lab")


def main(a):
    """Run the parts (all, or ONLY= a comma list of them)."""
    parts = a.only.split(",") if a.only else PARTS
    for p in parts:
        if p not in PARTS:
            raise LabError(f"unknown ONLY '{p}'; use some of: "
                           + ", ".join(PARTS))
    from . import perpatch
    arches = [check_arch(a.arch)] if a.arch else list(ARCHES)
    t0 = time.monotonic()
    rep = Report()
    try:
        series.make_tree(a.linux or None)
        series.check_tree()
    except LabError as e:
        rep.add("series: make tree", False, e)
        return rep.finish()
    images = {}

    def part(name, func, *args):
        if name not in parts:
            return None
        try:
            return func(*args)
        except LabError as e:
            rep.add(f"{name}: runs to its end", False, e)
            return None

    part("patches", patchcheck.check_patches, rep)
    if {"builds", "boots", "sysfs"} & set(parts):
        images = check_builds(rep, arches)
    debug = part("debug", check_debug_builds, rep, arches, t0) or {}
    whole = CACHED_BUDGET if time.monotonic() - t0 < CACHED_BUILDS and \
        quick()["quick"] else WHOLE_BUDGET
    todo = [*(boots(images) if "boots" in parts else ()),
            *(sysfs_boots(images) if "sysfs" in parts else ()),
            *(debug_boots(debug) if "debug" in parts else ()),
            *([Lab()] if "lab" in parts else ())]
    try:
        if todo:
            run_all(rep, todo)
    except LabError as e:
        rep.add("boots run to their end", False, e)
    part("each", perpatch.check_each_patch, rep, arches, lambda: min(
        PER_PATCH_BUDGET, whole - (time.monotonic() - t0)))
    say(f"   tests took {human(time.monotonic() - t0)}")
    return rep.finish()
