# SPDX-License-Identifier: GPL-2.0
"""'make test' and the other targets that pytest does: which tests, and how many
side by side. The tests themselves are in tests/, those of the patched kernel
in tests/test_guest.py."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext

from . import kernels, perpatch, record, series
from .common import (ARCHES, OUT, TOP, LabError, end_group, human, say, start,
                     step, usual)
from .report import Report

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


def no_time(arch, left):
    """Why the debug kernel of an architecture is not built when so many seconds
    are left; '' if it is."""
    # the last one may have had nearly everything there
    need = DEBUG_BUILD * max(usual(f"kernel patched {arch}", 420), 300)
    if need + BOOTS_TAKE <= left:
        return ""
    return f"the kernel takes about {human(need)} to build; run it again, or " \
           "with FULL=1, to have it"


def no_time_for_arm64(left):
    """Why the kernel for arm64 is not built when so many seconds are left; '' if
    it is. Where its compiler is missing it is to be installed as well."""
    cc = ARCHES["arm64"]["cross"] + "gcc"
    need = max(usual("kernel patched arm64", 420), 60) + 120
    if shutil.which(cc) and kernels.is_built("patched", "arm64") or need <= left:
        return ""
    return f"the kernel for arm64 takes about {human(need)}; 'make test " \
           "ARCH=arm64' builds and boots it"


def session(sums, name, marks, *, workers=0, k="", limit=None, **options):
    """Run the tests with some marks (and names, as of pytest's -k), and add up
    what they gave. options: those of lab/report.py. workers: so many side by
    side."""
    OUT.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("r", prefix="cpuhp-") as f:
        cmd = [sys.executable, "-m", "pytest", "-q", "--tb=short",
               f"--lines={f.name}", "-m", marks,
               f"--junitxml={OUT / name}.xml"]
        cmd += ["-k", k] if k else []
        cmd += ["tests/test_guest.py"] if "lab" not in marks else []
        # xdist's workers would end by themselves, and it with an internal error
        if k and subprocess.run([*cmd, "--collect-only"], cwd=TOP,
                                capture_output=True).returncode == 4:
            raise LabError(f"pytest takes no K='{k}'; use words, or, and, not, "
                           "(, )")
        if workers > 1:
            cmd += ["-n", workers, "--dist=loadgroup",
                    "--no-loadscope-reorder"]
        for o, value in options.items():
            if value:
                cmd += [f"--{o}"] if value is True else [f"--{o}={value}"]
        p = start(cmd, cwd=TOP, stdin=subprocess.DEVNULL)
        try:
            status = p.wait(limit)
        except subprocess.TimeoutExpired:
            status = f"not done in {human(limit)}"
        finally:
            end_group(p)
        passed, failed = map(int, f.read().split() or (0, 0))
    sums.passed += passed
    sums.failed += failed
    # 5: there was none
    if status not in (0, 5) and not failed:
        sums.add(f"pytest, {name}", False, f"it ended with {status}")


def done(sums, k):
    """The last line; the exit status."""
    if k and not sums.passed + sums.failed:
        say(f"   K={k} names no test; see pytest's -k and 'make help'")
    return sums.finish()


def main(a):
    """All of 'make test': what takes all CPUs by itself, then guests and the
    lab's own tests side by side (virtual time does not notice), then single
    patches in the time that is left."""
    t0, sums = time.monotonic(), Report()

    def left(whole):
        return round(whole - (time.monotonic() - t0))

    def part(name, marks, **kw):
        session(sums, f"test-{name}", marks, k=a.k, arch=a.arch, full=a.full,
                **kw)
    try:
        series.make_tree(a.linux or None)
        series.check_tree()
    except LabError as e:
        sums.add("series: make tree", False, e)
        return sums.finish()
    part("builds", "patches or builds", budget=left(WHOLE_BUDGET))
    cached = WHOLE_BUDGET - left(WHOLE_BUDGET) < CACHED_BUILDS and not a.full
    workers = os.cpu_count() or 1
    with nullcontext() if a.k else step(
            f"boots and the tests of the lab, {workers} at a time", 600):
        part("boots", "lab or boots or quick and (sysfs or first or debug)",
             workers=workers, limit=None if a.full else 2 * WHOLE_BUDGET)
    part("each", "each", budget=max(1, min(PER_PATCH_BUDGET, left(
        CACHED_BUDGET if cached else WHOLE_BUDGET))))
    missing = [] if a.k else perpatch.unrecorded()
    if missing:
        Report.line("no record", "that these tips of parts build and boot, as "
                    "they are now ('make bisect-check PART=tips'): "
                    + ", ".join(missing))
    say(f"   tests took {human(time.monotonic() - t0)}")
    return done(sums, a.k)


def others(a, marks, workers=1, **options):
    """The tests with some marks that are not part of 'make test'."""
    if options.get("record"):   # before the first boot
        record.read(record.RESULTS / f"{a.cmd}.json", {})
    sums = Report()
    session(sums, marks, marks, workers=workers, k=a.k, **options)
    return done(sums, a.k)
