# SPDX-License-Identifier: GPL-2.0
"""The patched kernel: it builds, boots and does what lab/cases.py says; and
what 'make foreign', 'make litmus', 'make scx', 'make compile-matrix' and 'make
hwtest-check' do.
Each gives many results, which are tests of their own (lab/report.py). One that
is not chosen by a mark, as 'make test' and the others do, is not run."""

import json
import time

import pytest

from lab import (caserecord, cases, check, codekey, common, foreign, hwcheck,
                 kernels, looks, patchcheck, perpatch, portability, waits)
from lab.common import MAIN, human, say
from lab.report import left_out


def chosen(config):
    """The architectures."""
    return [config.getoption("arch")] if config.getoption("arch") else \
        list(MAIN)


def pytest_generate_tests(metafunc):
    arches, option = chosen(metafunc.config), metafunc.config.getoption
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", [
            pytest.param(c, id=c.name, marks=[
                getattr(pytest.mark, m) for m in (
                    group, *(["quick"] if quick else ["full", "machines"]))]
                + [pytest.mark.xdist_group(c.together)] * bool(c.together))
            for quick, group, c in cases.table(
                "1" if option("full") else "", option("cycles"))
            if c.machine.arch in arches])
    if "profile" in metafunc.fixturenames:
        metafunc.parametrize("arch, profile", [
            pytest.param(a, p, id=f"build: {a} {p}".strip())
            for p in ("", "debug") for a in arches])
    for name, every in (("kernel", foreign.FOREIGN),
                        ("configuration", portability.CONFIGS)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, every, ids=lambda x: x.name)


@pytest.fixture
def left(request):
    """A function that returns how many seconds are left of the --budget."""
    t0 = request.config.stash[check_began]
    return lambda: int(request.config.getoption("budget") or 10**6) - (
        time.monotonic() - t0)


check_began = pytest.StashKey()


@pytest.fixture(autouse=True, scope="session")
def began(pytestconfig):
    pytestconfig.stash[check_began] = time.monotonic()


@pytest.mark.quick
@pytest.mark.patches
def test_patches(rep):
    patchcheck.check_patches(rep)


@pytest.mark.quick
@pytest.mark.patches
def test_waits(rep):
    waits.check(rep)


@pytest.mark.quick
@pytest.mark.patches
def test_looks(rep):
    looks.check(rep)
    looks.check_picks(rep)


def built(rep, arch, profile=""):
    """The result of a build."""
    image = kernels.build("patched", arch, profile)
    warnings = json.loads((image / "meta.json").read_text())["warnings"]
    rep.add(f"build: {arch} {profile}".strip() + ", no warnings", not warnings,
            "\n".join(warnings))
    wrong = set(codekey.noted().get(arch, {}).get(profile, ())) - set(
        codekey.unbuilt(arch, profile))
    rep.add(f"build: {arch} {profile}".strip() + ": lab/unbuilt.json is right",
            not wrong, f"it has {', '.join(sorted(wrong))}, which is compiled, or not "
            "changed any more; 'make kernels NOTE=1' with ARCH= and PROFILE= notes it")


@pytest.mark.quick
@pytest.mark.builds
def test_build(rep, left, arch, profile, pytestconfig):
    """It builds, without warnings; the second debug kernel when there is time
    for it."""
    if profile and arch != chosen(pytestconfig)[0] and not \
            pytestconfig.getoption("full") and not \
            kernels.is_built("patched", arch, profile):
        why = check.no_time(arch, left())
        if why:
            left_out(why)
    built(rep, arch, profile)


def test_case(rep, case, pytestconfig):
    """One boot."""
    arch = case.machine.arch
    if case.profile and arch != chosen(pytestconfig)[0] and not \
            pytestconfig.getoption("full") and not \
            kernels.is_built("patched", arch, case.profile):
        left_out("its kernel is not built")
    keep = pytestconfig.getoption("record")
    if keep:
        caserecord.stamp()
    image, t0 = cases.prepared(case), time.monotonic()
    results = cases.run(case, image)
    for name, ok, detail in results:
        rep.add(f"{case.name}: {name}", ok, detail)
    took = time.monotonic() - t0
    say(f"   {case.name}: {human(took)}")
    if keep:
        caserecord.keep(case, results, took)


@pytest.mark.quick
@pytest.mark.each
def test_arm64(rep, left, pytestconfig):
    """It builds for arm64 as well, when there is time for it."""
    if pytestconfig.getoption("arch"):
        left_out("ARCH= is given")
    if why := check.no_time_for_arm64(left()):
        left_out(why)
    try:
        common.need_packages("arm64")
    except common.LabError as e:        # what the others need is there
        left_out(e)
    built(rep, "arm64")


@pytest.mark.quick
@pytest.mark.each
def test_each(rep, left, pytestconfig):
    """Single patches build."""
    perpatch.check_each_patch(rep, chosen(pytestconfig), left)
    if not rep.used:
        left_out("there was no time for one")


@pytest.fixture
def checked(rep, pytestconfig):
    """A function that runs a caserecord.Check, and keeps its results if that
    is wanted."""
    return lambda c: c.record(rep) if pytestconfig.getoption("record") else \
        c.run(rep)


@pytest.mark.full
@pytest.mark.foreign
def test_foreign(checked, kernel):
    checked(caserecord.of_foreign(kernel))


@pytest.mark.full
@pytest.mark.litmus
def test_litmus(checked):
    checked(caserecord.of_litmus())


@pytest.mark.full
@pytest.mark.scx
def test_scx(checked):
    checked(caserecord.of_scx())


@pytest.mark.full
@pytest.mark.hwtest
def test_hwtest(rep, pytestconfig):
    for arch in chosen(pytestconfig):
        hwcheck.check(rep, arch)


@pytest.mark.full
@pytest.mark.compile
def test_compile(checked, configuration):
    checked(caserecord.of_compile(configuration))
