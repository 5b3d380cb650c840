# SPDX-License-Identifier: GPL-2.0
"""The table of boots, and that what is missing or wrong in one is a failure."""

import dataclasses
import gzip
import json
import re
import subprocess
import threading
import sys
import types

import pytest

from conftest import TOP
from lab import (boot, caserecord, cases, check, codekey, guest, judge, kernels,
                 record, torture, vm)
from lab.common import HostError, LabError
from lab.record import check_tree

@pytest.fixture(autouse=True)
def going_on(monkeypatch):
    """Nobody ends the lab, though other tests have, or edits linux/."""
    monkeypatch.setattr(caserecord, "ending", threading.Event())
    monkeypatch.setattr(record, "check_tree", lambda tree: None)


EVERY = [*(c for _, _, c in cases.table()),
         *(c for _, g, c in cases.table("1") if g in cases.FULL)]
JOBS = sorted((TOP / "guest" / "jobs").glob("*.sh"))
GOOD = {"synchronize_rcu_expedited": "2", "stop_machine_cpuslocked": "0",
        "build_sched_domains": "1"}
KTAP = """TAP version 13
1..1
# selftests: cpu-hotplug: x.sh
# KTAP version 1
# 1..2
# ok 1 off and on
# # core 8-15 has 2 threads online
# not ok 2 levels
not ok 1 selftests: cpu-hotplug: x.sh
"""


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
    return [name for name, ok, _ in cases.run(c, TOP) if not ok]


def test_names_are_unique():
    names = [c.name for c in EVERY]
    assert len(set(names)) == len(names)


def test_groups_are_markers():
    known = re.findall(r"^    (\w+): ", (TOP / "pytest.ini").read_text(), re.M)
    assert {*cases.QUICK, *cases.GROUPS, *cases.FULL} <= set(known)


def test_cycles_of_the_leak_loop():
    assert [c.results[1] for _, g, c in cases.table(cycles="10")
            if g == "leak"] == ["10 cycles"] * 2
    for bad in "x", "0", "-1":
        with pytest.raises(LabError, match=f"CYCLES={bad}: a number above 0"):
            list(cases.table(cycles=bad))


def test_no_selftests_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(cases, "LINUX", tmp_path)
    with pytest.raises(LabError, match="has no [*]-test.sh.*mend _selftests"):
        list(cases.few())
    # not made yet: nothing can be booted either
    monkeypatch.setattr(cases, "LINUX", tmp_path / "linux")
    assert [c for c in cases.few() if c.job == "few"]


@pytest.mark.parametrize("path", [
    *JOBS, *(TOP / "guest").glob("*.sh"), TOP / "guest" / "init",
    TOP / "guest" / "lab-init", *(TOP / "bench").glob("*.sh")],
    ids=lambda p: p.name)
def test_scripts_are_bash(path):
    subprocess.run(["bash", "-n", path], check=True)


@pytest.mark.parametrize("path", JOBS, ids=lambda p: p.stem)
def test_a_job_says_what_it_takes(path):
    """Each variable that a case sets has a default in the file, and the
    beginning says what it is."""
    text = path.read_text()
    head = re.match("(#.*\n)+", text)[0]
    assert len(head.splitlines()) > 1
    given = {k for c in EVERY for k in c.vars if path.stem in c.job.split()}
    for name in given | set(re.findall(r"\b([A-Z_]+)=\$\{\1-", text)):
        if (path.stem, name) == ("smt", "FULL"):
            continue                # of selftests, before it in one shell
        assert f"{name}=${{{name}-" in text and name in head


def test_no_job_is_left_over():
    used = {j for c in EVERY for j in c.job.split()}
    by_hand = {"doorbell"}      # docs/lab.md
    assert {p.stem for p in JOBS} - used == by_hand | {
        "scx", "torture-lists", "torture-smt", "torture-stress"}


def test_what_a_job_is_given_may_have_any_character():
    text = boot.job("smt-at-boot", A="it's $HOME", B=5, C="")
    said = subprocess.run(
        ["bash", "-c", text.split("#")[0] + 'echo "$A|$B|$C"'], text=True,
        capture_output=True, check=True).stdout
    assert said == "it's $HOME|5|\n"


def test_names_of_jobs_are_in_the_table_of_cases():
    for c in EVERY:
        assert boot.job(c.job, **c.vars)


def test_every_case_has_a_command_line():
    for c in EVERY:
        assert vm.command(c.machine, "k", "r", "l", "j", "res", "q")


def test_good_and_bad_boots(monkeypatch):
    c = case("q35-8 threads=2")
    checks = [(n, "1") for n in c.results]
    counts = [("off", GOOD),
              ("on", {**GOOD, "synchronize_rcu_expedited": "0",
                      "stop_machine_cpuslocked": "1"})]
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


def test_a_result_that_fails_says_why(monkeypatch):
    c = case("q35-8 threads=2")
    first, *others = c.results
    checks = [(n, "1") for n in (first, *others, "new", first)][1:]
    r = result([(first, "0"), *checks])
    r.of("check")[0]["detail"] = "it is so"
    monkeypatch.setattr(boot, "run_job", lambda *a, **kw: r)
    why = {n: d for n, ok, d in cases.run(c, TOP) if not ok}
    assert why[first] == "the job gave it 2 times\nit is so"
    assert why["new"] == "lab/cases.py has no such result of this case"
    r.records = r.records[1:-1]
    why = {n: d for n, ok, d in cases.run(c, TOP) if not ok}
    assert why[first] == "the job did not come to it"


def test_a_boot_that_breaks_tells_what_it_gave(monkeypatch):
    c, r = case("q35-8 threads=2"), result([("platform", "1")])
    r.splats = [["WARNING: at x"]]

    def run_job(*a, **kw):
        raise boot.BootFailed("the kernel complained", r)
    monkeypatch.setattr(boot, "run_job", run_job)
    (ends, ok, why), *others = cases.run(c, TOP)
    assert (ends, ok) == (cases.ENDS, False) and "WARNING: at x" in why
    assert others == [("platform", True, "")]


def test_what_the_host_lacks_is_no_result(monkeypatch):
    c, r = case("q35-8 threads=2"), result()
    r.log_error = "No space left on device"
    for error in HostError("no program qemu"), boot.BootFailed("BUG: x", r):
        def run_job(*a, error=error, **kw):
            raise error
        monkeypatch.setattr(boot, "run_job", run_job)
        with pytest.raises(type(error)):
            cases.run(c, TOP)


def test_a_machine_check_is_broadcast_or_it_is_an_error(monkeypatch):
    c = case("q35-8 machine check while CPUs wait")
    said = []

    def execute(cmd, args):
        said.append(args["command-line"])
        return "no such CPU" if len(said) > 1 else ""
    monkeypatch.setattr(judge.time, "sleep", lambda s: None)
    q = types.SimpleNamespace(execute=execute)
    c.host(q, lambda: [{"t": "ready"}])
    assert said[0].startswith("mce -b 0 ")
    with pytest.raises(LabError, match="no such CPU"):
        c.host(q, lambda: [{"t": "ready"}])
    clock = iter(range(0, 1000, 300))
    monkeypatch.setattr(judge.time, "monotonic", lambda: next(clock))
    with pytest.raises(LabError, match="gave no .ready. 1"):
        c.host(q, lambda: [])


def test_a_patch_of_a_case_applies_and_counts(monkeypatch, tmp_path):
    c = case("q35-8 retire told")
    assert kernels.with_patch(*cases.patches(c.patch), variant=c.variant)
    was = caserecord.inputs(c)
    monkeypatch.setattr(cases, "TOP", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / c.patch).write_text("another")
    assert caserecord.inputs(c) != was


def test_jobs_that_run_kunit_depend_on_its_tests(monkeypatch):
    for job, runs in ("selftests", 1), ("retire", 1), ("vectors", 0):
        c = dataclasses.replace(case("q35-8 suspend"), job=job)
        was = caserecord.inputs(c), torture.inputs("")
        with monkeypatch.context() as m:
            m.setattr(codekey, "kunit", lambda commit: "another")
            assert (caserecord.inputs(c) != was[0]) == runs
            assert torture.inputs("") != was[1]


@pytest.mark.parametrize("job, runs", [("few", True), ("batch", True),
                                       ("vectors", False)])
def test_jobs_that_run_the_selftests_depend_on_them(monkeypatch, job, runs):
    ids = guest.tests_of(boot.job(job))
    assert bool(ids) == runs
    assert not ids or ids[0].strip() == kernels.git(
        "rev-parse", "HEAD:tools/testing/selftests/cpu-hotplug",
        cwd=kernels.LINUX).strip()
    c = dataclasses.replace(case("q35-8 suspend"), job=job)
    was = caserecord.inputs(c), torture.inputs("")
    monkeypatch.setattr(guest, "git", lambda *a, **kw: "another\n")
    monkeypatch.setattr(kernels, "wanted_commit", lambda v: "c")
    kunit = codekey.kunit("HEAD")
    monkeypatch.setattr(codekey, "kunit", lambda commit: kunit)
    assert (caserecord.inputs(c) != was[0]) == runs
    assert torture.inputs("") != was[1]


def test_results_are_recorded_by_case(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "code", lambda subjects=(), of=(): "k")
    taken = {"date": "2026-01-02T", "tree": "123456789", "kernel": "k"}
    monkeypatch.setattr(caserecord, "stamp", lambda: taken)
    monkeypatch.setattr(cases, "OUT", tmp_path)
    c = case("q35-8 suspend")

    def shown():
        got, *others = caserecord.shown()
        assert [s.results for s in others] == [[]] * 4
        return got.blocks["machines"], [r.stale() for r in got.results]
    caserecord.keep(c, [("one", True, ""), ("two", False, f"{TOP}/out: x")], 5)
    page, stale = shown()
    assert re.search(r"^q35-8 suspend +1 +1  2026-01-02 1234$", page, re.M)
    assert "q35-8 suspend: two: out: x" in page and stale == [""]
    assert re.search(r"^q35-4 leak +- +-$", page, re.M)
    assert max(map(len, page.splitlines())) <= 80
    # again, with another end and of another kernel
    monkeypatch.setattr(record, "code", lambda subjects=(), of=(): f"other {of}")
    caserecord.keep(c, [("one", True, ""), ("two", True, "")], 5)
    assert shown()[1] == [""]
    monkeypatch.setattr(record, "code", lambda subjects=(), of=(): "k")
    page, stale = shown()
    assert re.search(r"^q35-8 suspend +2 +0 .* 1234[*]$", page, re.M)
    assert stale == ["other kernel code"]


def test_operations_after_which_domains_were_compared_are_counted(monkeypatch,
                                                                  tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "code", lambda subjects=(), of=(): "k")
    monkeypatch.setattr(caserecord, "stamp", lambda: {
        "date": "2026-01-02T", "tree": "123456789", "kernel": "k"})
    monkeypatch.setattr(cases, "OUT", tmp_path)
    told = "sched domains after {} operations, {} of which changed them"
    for what, n, ok in ("two nodes, base", (9, 8), True), \
            ("two nodes, patched", (9, 8), True), \
            ("isolcpus, patched", (5, 3), True), \
            ("four nodes in a line, patched", (2, 1), False):
        caserecord.keep(case(f"pseries-16 domains, {what}"),
                        [("the end", True, ""), (told.format(*n), ok, "")], 5)
    page = caserecord.shown()[0].blocks["machines"]
    assert "\nsched domains of pseries: 14 operations compared, 11 of which " \
        "changed them\n" in page


def test_what_an_interrupt_ended_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(caserecord, "stamp", lambda: {"tree": "t"})
    monkeypatch.setattr(cases, "OUT", tmp_path)
    c = case("q35-8 suspend")
    caserecord.keep(c, [("one", True, "")], 5)
    before = (tmp_path / "machines.json").read_text()
    caserecord.ending.set()
    caserecord.keep(c, [("one", False, "ended early")], 5)
    assert (tmp_path / "machines.json").read_text() == before


def test_what_cannot_be_kept_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(caserecord, "stamp", lambda: {"tree": "t"})
    monkeypatch.setattr(cases, "OUT", tmp_path)
    (tmp_path / "machines.json").write_text("{")
    c = dataclasses.replace(case("q35-8 suspend"), job="vectors")
    with pytest.raises(LabError, match="machines.json is damaged: .*checkout"):
        caserecord.keep(c, [], 5)
    with pytest.raises(LabError, match="machines.json is damaged: .*checkout"):
        check.others(types.SimpleNamespace(cmd="machines", k=""), "machines",
                     record=True)
    # somebody has edited linux/ meanwhile
    monkeypatch.setattr(record, "check_tree", check_tree)
    monkeypatch.setattr(kernels, "wanted_commit", lambda v: "c")
    for tree in "other", "t":
        monkeypatch.setattr(kernels, "tree_of", lambda c, tree=tree: tree)
        with pytest.raises(LabError, match="linux/ is another one now"
                           if tree == "other" else "is damaged"):
            caserecord.keep(c, [], 5)


def test_ktap_of_a_case_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(cases, "OUT", tmp_path)
    monkeypatch.setattr(caserecord, "stamp", lambda: {"tree": "t"})
    c, r = case("pseries-16-debug smt-test.sh"), result(status=0)
    r.files["kselftest"] = KTAP.encode()
    monkeypatch.setattr(boot, "run_job", lambda *a, **kw: r)
    results = cases.run(c, TOP)
    assert [(n, ok) for n, ok, _ in results] == [
        (cases.ENDS, True), ("kselftest: cpu-hotplug: x.sh: off and on", True),
        ("kselftest: cpu-hotplug: x.sh: levels", False)]
    caserecord.keep(c, results, 5)

    def kept():
        return json.loads((tmp_path / "machines.json").read_text())[c.name]
    assert kept()["ktap"] == KTAP.splitlines() and kept()["passed"] == 2
    # of this boot, not of one before
    r.files.clear()
    caserecord.keep(c, cases.run(c, TOP), 5)
    assert "ktap" not in kept()


def test_results_of_checks_are_recorded(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "code", lambda subjects=(), of=(): "k")
    monkeypatch.setattr(caserecord, "stamp", lambda: {
        "date": "2026-01-02T", "tree": "123456789", "kernel": "k"})
    said = []
    rep = types.SimpleNamespace(add=lambda *a: said.append(a))
    first, *_ = caserecord.checks()
    dataclasses.replace(first, run=lambda rep: (
        rep.add("builds", True), rep.add("boots", False, "no"))).record(rep)
    assert said == [("builds", True, ""), ("boots", False, "no")]
    shown = {next(iter(s.blocks)): s for s in caserecord.shown()}
    assert set(shown) == {
        "machines", "foreign", "litmus", "scx", "compile-matrix"}
    assert re.search(r"^riscv64-small +1 +1 .* 1234$",
                     shown["foreign"].blocks["foreign"], re.M)
    got, = shown["foreign"].results
    assert got.name == "foreign: riscv64-small" and not got.stale()


def test_no_case_takes_hours():
    assert max(c.limit for c in EVERY) <= 3600


def test_memory_that_grows(monkeypatch):
    c = case("q35-4 leak")
    checks = [(n, "1") for n in c.results]
    a = {k: "99000" for k in (*judge.LEAK, "ioremaps", "vmallocs",
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


def test_times_are_compared():
    compare = judge.as_fast({})

    def failed(off, on):
        r = result(sample=[{"op": op, "ns": str(ns)} for op, ns in
                           (("off", off), ("on", on))])
        return [ok for _, ok, _ in compare(None, r)]
    assert failed(100, 50) == [True, True]
    assert failed(199, 24) == [True, False]
    assert failed(201, 25) == [False, True]
    assert [ok for _, ok, _ in judge.as_fast({})(None, result())] == [False] * 2


def test_nothing_passes_without_what_it_is_compared_with():
    r = result(sample=[{"op": op, "ns": "9"} for op in ("off", "on")])
    r.files = dict.fromkeys(("boot", "again"), b"thread_siblings_list:0\n") | {
        "domains": gzip.compress(b"CPU0 refers: llc=0\n== 0 boot\n")}
    for compare in judge.same, judge.as_fast, judge.same_domains:
        ref = {}
        assert not any(ok for _, ok, _ in compare(ref, False)(None, r))
        assert all(ok for _, ok, _ in compare(ref)(None, r))
        assert all(ok for _, ok, _ in compare(ref, False)(None, r))


def test_cases_that_are_compared_run_in_one_process(tmp_path):
    (tmp_path / "test_it.py").write_text("""
import pathlib, os, pytest, time
@pytest.mark.parametrize("case", [
    pytest.param(f"{g}{n}", marks=[pytest.mark.xdist_group(g)])
    for g in "ab" for n in range(3)])
def test_it(case):
    time.sleep(0.3)
    pathlib.Path(case).write_text(os.environ["PYTEST_XDIST_WORKER"])
""")
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "2",
                    "--dist=loadgroup", "--no-loadscope-reorder"],
                   cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    where = {p.name: p.read_text() for p in tmp_path.glob("[ab]?")}
    assert len(where) == 6
    for g in "ab":
        assert len({w for name, w in where.items() if name[0] == g}) == 1


def test_sched_domains_are_compared():
    def log(groups, level="NUMA", last="0-1", extra="",
            at="ffff000000000001", at1="ffff000000000001"):
        return f"""CPU0 attaching NULL sched-domain.
CPU0 attaching sched-domain(s):
 domain-0: span=0-1 level={level}
  groups: 0:{{ span=0 }}, 1:{{ span=1 }}
CPU1 attaching sched-domain(s):
 domain-0: span=0-1 level={level}
{extra}  groups: {groups}
CPU0 refers: llc=0-1 shared={at} balance=0000000000000000
CPU0 has {level}: weight=2 shared={at} groups: 1/1/0/0/0
CPU1 refers: llc=0-1 shared={at1} balance=0000000000000000
root domain span: {last}
/sys/kernel/debug/sched/domains/cpu0/domain0/imbalance_pct:110
/sys/kernel/debug/sched/domains/cpu0/domain0/level:2
/sys/kernel/debug/sched/domains/cpu0/domain0/name:{level}
== 0-1 boot
"""
    ok = "1:{ span=1 }, 0:{ span=0 }"

    def compare(*logs):
        ref = {}
        for text in logs:
            r = result()
            r.files = {"domains": gzip.compress(text.encode())}
            out = [ok for _, ok, _ in judge.same_domains(ref)(None, r)]
        return out[0]
    assert compare(log(ok), log(ok))
    # a group, its order, a root domain, a file, a CPU's state is another one
    assert not compare(log(ok), log("1:{ span=1 }, 0:{ span=0-1 }"))
    assert not compare(log(ok), log("0:{ span=0 }, 1:{ span=1 }"))
    assert not compare(log(ok), log("1:{ span=1 cap=2048 }, 0:{ span=0 }"))
    assert compare(log(ok), log("1:{ span=1 cap=1023 }, 0:{ span=0 }"))
    assert not compare(log(ok), log(ok, last="0"))
    # where it is does not matter, who shares it does
    moved = "ffff000000000002"
    assert compare(log(ok), log(ok, at=moved, at1=moved))
    assert not compare(log(ok), log(ok, at1=moved))
    assert not compare(log(ok), log(ok, at="0" * 16))
    assert not compare(log(ok), log(ok).replace("llc=0-1", "llc=0"))
    assert not compare(*["".join(x for x in log(ok).splitlines(True)
                                 if " refers" not in x and " has" not in x)] * 2)
    assert not compare(log(ok), log(ok).replace("110", "117"))
    assert compare(log(ok), log(ok).replace("level:2", "level:4"))
    assert not compare(log(ok, "PKG"), log(ok, "PKG").replace("level:2", "level:4"))
    assert not compare(log(ok), log(ok) + log(ok))
    assert not compare(log(ok), log(ok) + "CPU1 attaching NULL sched-domain.\n"
                       "== 0-1 boot\n")
    assert not compare("")
    # nothing was done
    assert not compare(*[log(ok) * 2] * 2)
    assert compare(*[log(ok) + log(ok, last="0")] * 2)
    # an error is one in both, too
    assert not compare(*[log(ok, extra="ERROR: empty group\n")] * 2)
    # without overlap groups are those of the first CPU, wherever they begin
    assert compare(log(ok, "MC"), log("", "MC").replace("  groups: \n", ""))
    assert not compare(log(ok, "MC"), log(ok, "MC").replace("0:{ span=0 }", ""))


def test_what_depends_on_the_order_in_which_nodes_went():
    line = "CPU0 has NUMA: weight=4 imbalance=117/4 child=0-2 shared=none " \
        "groups: 3/2/1217/0/0-2 1/1/2417/0/13"
    assert judge.by_order(line) == judge.by_order(
        line.replace("117/4", "117/1").replace("2417", "1017")) != line
    for same in line.replace(" NUMA", " MC"), "CPU0 refers: llc=0-2 size=3":
        assert judge.by_order(same) == same
    for other in ("weight=4", "weight=5"), ("117/", "110/"), ("1/1/2", "2/1/2"), \
            ("/0/13", "/1/13"), ("/0/13", "/0/12"):
        assert judge.by_order(line.replace(*other)) != judge.by_order(line)


def test_a_stale_group_has_to_be_seen():
    def told(*texts, pointers=False):
        ref = {}
        for judges, text in zip((judge.same_domains(ref),
                                 judge.other_domains(ref, "group", pointers)), texts):
            r = result()
            r.files = {"domains": gzip.compress(text.encode())}
            out = [ok for _, ok, _ in judges(None, r)]
        return out == [True]
    boot, one, other = "== 0-1 boot\n", "/x:1\n== 0 cpu1 0\n", "/x:2\n== 0 cpu1 0\n"
    assert told(boot + one, boot + other)
    # the kernel without the group tells more than that with it
    more = "CPU0 refers: llc=0\n"
    assert told(more + boot + one, boot + other)
    assert not told(more + boot + one, boot + one)
    assert not told(boot + one, boot + one) and not told(boot + one, "")
    less = more.replace("llc=0", "llc=1")
    pointers = [more + boot + x + one for x in (more, less)]
    assert told(*pointers, pointers=True) and not told(*pointers)
    assert not told(pointers[0], pointers[0].replace("/x:1", "/x:2"), pointers=True)
    # as booted it is not there yet
    assert not told(boot, "/x:1\n" + boot)
    r = result()
    assert not judge.other_domains({}, "group")(None, r)[0][1]


def test_sysfs_is_compared():
    compare = judge.same({})

    def failed(boot_, again):
        r = result()
        r.files = {"boot": boot_, "again": again}
        return [ok for _, ok, _ in compare(None, r)]
    one, two = (b"cpu1/topology/thread_siblings_list:%d\n" % n for n in (1, 2))
    assert failed(one, one) == [True, True]
    assert failed(one, two) == [True, False]
    assert failed(b"", one) == [False, True]
    # names without what is in them
    assert failed(b"cpu1/topology\n", b"cpu1/topology\n") == [False, False]
