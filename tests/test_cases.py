# SPDX-License-Identifier: GPL-2.0
"""'make machines' without a guest: the cases, and that what is missing or
wrong in a boot is a failure."""

import re
import subprocess
import threading
import types

import pytest

from conftest import TOP
from lab import boot, cases, common, vm
from lab.common import LabError

EVERY = cases.cases(list(common.ARCHES))
GOOD = {"synchronize_rcu_expedited": "1", "stop_machine_cpuslocked": "1",
        "build_sched_domains": "1"}


def case(name):
    return next(c for c in EVERY if c.name == name)


def result(checks=(), counts=(), console="", status=0, **of):
    r = boot.Result()
    r.records = [{"t": "check", "name": n, "ok": ok} for n, ok in checks]
    r.records += [{"t": "counts", "op": op, **c} for op, c in counts]
    r.records += [{"t": t, **x} for t, xs in of.items() for x in xs]
    r.console, r.status = console, status
    return r


def bad(monkeypatch, c, r):
    """The names of what fails when a boot of the case gives r."""
    monkeypatch.setattr(boot, "run_job", lambda *a, **kw: r)
    image = types.SimpleNamespace()
    monkeypatch.setattr(cases, "_disk", lambda c, i, t: (c.machine, {}))
    return [name for name, ok, _ in cases.run(c, image) if not ok]


def test_names_are_unique():
    names = [c.name for c in EVERY]
    assert len(set(names)) == len(names)


def test_selection():
    def names(only, *arches):
        return [c.name for c in cases.cases(arches or common.ARCHES, only)]
    assert all("q35" in n for n in names("", "x86_64"))
    assert names("leak") == ["pseries-8 leak", "q35-4 leak"]
    assert names("powernv9-16,q35-8 suspend", "x86_64") == ["q35-8 suspend"]
    assert names("late,, ") == names(" late") == names("late")
    for only, says in (("no such thing", "ONLY=no such thing is no case; "),
                       ("leak,few,laek", "ONLY=laek is no case; use .*leak"),
                       (",", "ONLY=, is no case"),
                       ("powernv9-16", "no case for x86_64; use ")):
        with pytest.raises(LabError, match=says):
            names(only, "x86_64")


@pytest.mark.parametrize("job", sorted(
    n for n in dir(cases) if n.startswith("JOB_")))
def test_jobs_are_bash(job):
    subprocess.run(["bash", "-n"], input=getattr(cases, job), text=True,
                   check=True, cwd=TOP)


def test_every_case_has_a_command_line():
    for c in EVERY:
        assert vm.command(c.machine, "k", "r", "l", "j", "res", "q")


def test_what_was_interrupted_is_no_result(monkeypatch, tmp_path, out):
    recorded = []
    monkeypatch.setattr(cases.guest, "rootfs", lambda a: None)
    monkeypatch.setattr(cases.guest, "lab_disk", lambda a: None)
    monkeypatch.setattr(cases, "run", lambda c, i: [("runs", False, "")])
    monkeypatch.setattr(cases, "keep", lambda *a: recorded.append(
        (out / "machines.ktap").read_text()))
    ending = threading.Event()
    monkeypatch.setattr(cases, "ending", ending)
    c = case("q35-8 threads=2")
    images = {c.machine.arch: tmp_path}

    def run_all():
        return cases.run_all(cases.Report(), [c], images, 1, {"date": "d"})
    assert run_all() == 1 and len(recorded) == 1
    # with a plan when there is no more to come
    plan = "KTAP version 1\n1..1\n"
    assert "not ok 1 " in recorded[0] and plan not in recorded[0]
    assert (out / "machines.ktap").read_text().startswith(plan)
    ending.set()
    run_all()
    assert len(recorded) == 1


def test_good_and_bad_boots(monkeypatch):
    c = case("q35-8 threads=2")
    checks = [(n, "1") for n in c.results]
    counts = [("off", GOOD),
              ("on", {**GOOD, "synchronize_rcu_expedited": "0"})]
    what = "grace periods, expedited ones, stops and rebuilds"
    assert not bad(monkeypatch, c, result(checks, counts))
    # not told, told to be bad, not asked for
    assert bad(monkeypatch, c, result(checks[1:], counts)) == [c.results[0]]
    assert bad(monkeypatch, c, result([(n, "0") for n, _ in checks], counts)
               ) == list(c.results)
    assert bad(monkeypatch, c, result(checks + [("new", "1")], counts)
               ) == ["new"]
    assert bad(monkeypatch, c, result(checks, counts[:1])) == [what]
    more = [("off", {**GOOD, "synchronize_rcu_normal": "1"}), counts[1]]
    assert bad(monkeypatch, c, result(checks, more)) == [what]
    assert bad(monkeypatch, c, result(checks, counts, status=1)
               ) == ["runs to its end, no splat"]


def test_only_the_crash_may_complain(monkeypatch):
    c = case("q35-4 crash while CPUs wait")
    checks = [(n, "1") for n in c.results]
    first = "Linux version 1\nKernel panic - not syncing: sysrq\n"
    ends = ["runs to its end, no splat"]
    assert not bad(monkeypatch, c, result(
        checks, console=first + "Linux version 1\nall is well\n"))
    assert bad(monkeypatch, c, result(checks, console="nothing")) == ends
    assert bad(monkeypatch, c, result(
        checks, console=first + "Linux version 1\nBUG: no\n")) == ends


def test_what_is_expected_is_no_failure(monkeypatch):
    c = case("q35-8 late 3")
    checks = [(n, "1") for n in c.results]
    late = "[   10.1] CPU3 failed to report alive state\n"
    assert not bad(monkeypatch, c, result(checks, console=late))
    assert bad(monkeypatch, c, result(checks, console=late + "BUG: no\n")) \
        == ["runs to its end, no splat"]


def test_a_machine_check_is_broadcast_or_it_is_an_error(monkeypatch):
    c = case("q35-8 machine check while CPUs wait")
    said = []

    def execute(cmd, args):
        said.append(args["command-line"])
        return "no such CPU" if len(said) > 1 else ""
    monkeypatch.setattr(cases.time, "sleep", lambda s: None)
    q = types.SimpleNamespace(execute=execute)
    c.host(q, lambda: [{"t": "ready"}])
    assert said[0].startswith("mce -b 0 ")
    with pytest.raises(LabError, match="no such CPU"):
        c.host(q, lambda: [{"t": "ready"}])
    clock = iter(range(0, 1000, 300))
    monkeypatch.setattr(cases.time, "monotonic", lambda: next(clock))
    with pytest.raises(LabError, match="took no CPUs offline"):
        c.host(q, lambda: [])


def test_results_are_recorded_by_case(monkeypatch, tmp_path):
    monkeypatch.setattr(cases.record, "RESULTS", tmp_path)
    monkeypatch.setattr(cases.record, "code", lambda subjects=(): "k")
    c = case("q35-8 suspend")
    taken = {"date": "2026-01-02T", "tree": "123456789", "kernel": "k"}

    def shown():
        got, = cases.shown()
        return got.blocks["machines"], [r.stale() for r in got.results]
    cases.keep(c, [("one", True, ""), ("two", False, f"{TOP}/out: x")], taken)
    page, stale = shown()
    assert re.search(r"^q35-8 suspend +1 +1  2026-01-02 1234$", page, re.M)
    assert "q35-8 suspend: two: out: x" in page and stale == [""]
    assert re.search(r"^q35-4 leak +- +-$", page, re.M)
    assert max(map(len, page.splitlines())) <= 80
    # again, with another end and of another kernel
    cases.keep(c, [("one", True, ""), ("two", True, "")],
               {**taken, "kernel": "other"})
    page, stale = shown()
    assert re.search(r"^q35-8 suspend +2 +0 .* 1234[*]$", page, re.M)
    assert stale == ["other kernel code"]


def test_memory_that_grows(monkeypatch):
    c = case("q35-4 leak")
    checks = [(n, "1") for n in c.results]
    a = {k: "99000" for k in (*cases.LEAK, "ioremaps", "vmallocs",
                              "Free")}

    def judged(quarter={}, **more):
        return bad(monkeypatch, c, result(checks, memory=[
            {"when": "10", **a}, {"when": "quarter", **a, **quarter},
            {"when": "more", **a, **more}]))
    assert not judged()
    assert judged(SUnreclaim="102000") == ["memory is as it was"]
    assert judged(vmallocs="99100") == ["memory is as it was"]
    assert judged(Free="90000") == ["memory is as it was"]
    # in the beginning it may
    assert judged(Slab="99800") == ["memory is as it was"]
    assert not judged(quarter={"Slab": "99800"}, Slab="99900")
    assert judged(quarter={"Slab": "101000"}, Slab="101000") == \
        ["memory is as it was"]
    assert bad(monkeypatch, c, result(checks)) == ["memory is as it was"]


def test_sysfs_is_compared():
    judge = cases._same({})

    def failed(boot_, again):
        r = result()
        r.files = {"boot": boot_, "again": again}
        return [ok for _, ok, _ in judge(r)]
    one, two = (b"cpu1/topology/thread_siblings_list:%d\n" % n for n in (1, 2))
    assert failed(one, one) == [True, True]
    assert failed(one, two) == [True, False]
    assert failed(b"", one) == [False, True]
    # names without what is in them
    assert failed(b"cpu1/topology\n", b"cpu1/topology\n") == [False, False]
