# SPDX-License-Identifier: GPL-2.0
"""Scenarios and their tables."""

import pathlib

import pytest

from lab import bench, boot, vm
from lab.common import LabError


@pytest.mark.parametrize("cpus", ["0", "-8", "x", "\u00b2"])
def test_bench_with_no_number_of_cpus(monkeypatch, cpus):
    monkeypatch.setattr(bench, "machines", lambda *a: pytest.fail("bench"))
    with pytest.raises(LabError, match=f"CPUS={cpus}: a number above 0"):
        bench.main("smt", cpus)


def _doc():
    runs = []
    for cpus in (8, 16):
        for variant, per in (("base", 10), ("patched", 1)):
            ts = ["base", "expedited"] if variant == "base" else ["patched"]
            runs.append({
                "machine": "q35", "cpus": cpus, "variant": variant,
                "samples": [{"op": "off", "treatment": t, "cycle": c,
                             "ns": cpus * per * 10**6 + c}
                            for t in ts for c in (1, 2, 3)],
                "counts": [{"op": "off", "treatment": t, "calls": {
                    "synchronize_rcu_normal": per * cpus}} for t in ts]})
    return {"scenario": "t", "title": "T", "runs": runs,
            "clock": "virtual (icount)"}


def test_rows_and_table():
    rows = bench.rows(_doc())
    assert rows[0]["ms"]["base"][0] == pytest.approx(80, rel=1e-3)
    assert rows[1]["counts"]["patched"]["GP"] == 16
    text = bench.table(_doc())
    # to base, to expedited
    assert text.splitlines()[3].split()[-2:] == ["10.0x", "10.0x"]
    assert "160/160/16" in text
    assert max(map(len, text.splitlines())) <= 80
    assert bench.plot(_doc())[1:4] == b"PNG"


def test_a_failing_guest_ends_the_measuring_with_its_own_error(monkeypatch):
    def fail(*a):
        raise LabError("the guest is broken")
    monkeypatch.setattr(bench, "run_one", fail)
    monkeypatch.setattr(bench.kernels, "build", lambda *a: None)
    monkeypatch.setattr(bench.boot.guest, "rootfs", lambda a: None)
    monkeypatch.setattr(bench.boot.guest, "lab_disk", lambda a: None)
    monkeypatch.setattr(bench.record, "stamp", lambda *a: {})
    s = bench.load("boot")
    with pytest.raises(LabError, match="the guest is broken"):
        bench.measure(s, bench.machines(s))


def test_counts_of_three_digits_fit_the_table():
    doc = _doc()
    for run in doc["runs"]:
        run["machine"] = "powernv10"
        for c in run["counts"]:
            c["calls"] = {f: 112 for fs in bench.COUNTS.values() for f in fs}
    text = bench.table(doc)
    assert text.splitlines()[-1].split()[-4:] == [
        "112/112/112", "112/112/112", "224/224/224", "112/112/112"]
    assert max(map(len, text.splitlines())) <= 80


def test_large_times_and_long_names_fit_and_are_not_cut():
    doc, name = _doc(), "what takes long at boot"
    for run in doc["runs"]:
        run["machine"] = "powernv10"
        for sample in run["samples"]:
            sample |= {"ns": 14408 * 10**6, "op": name}
        for c in run["counts"]:
            c |= {"ns": 14408 * 10**6, "gp_ns": 7 * 10**6, "op": name}
    text = bench.table(doc)
    assert max(map(len, text.splitlines())) <= 80 and text.count(name) == 6
    rows = [x.split()[7:] for x in text.splitlines()
            if x.startswith("powernv10")]
    assert rows[0] == [*["14408"] * 3, "1.0x", "1.0x"]
    # without waiting for grace periods
    assert rows[2] == ["14401"] * 3
    # what was recorded before that was measured
    for run in doc["runs"]:
        for c in run["counts"]:
            del c["gp_ns"]
    assert "Without" not in bench.table(doc)


def test_gains_are_to_both():
    times = {"base": (800, 1, 1), "expedited": (50, 1, 1)}
    assert bench.gains({**times, "patched": (10, 1, 1)}) == ["80.0x", "5.0x"]
    assert bench.gains({**times, "patched": (400, 1, 1)}) == ["2.0x", "0.12x"]
    assert bench.gains({"patched": (10, 1, 1)}) == ["-", "-"]
    assert bench.gains(times) == ["-", "-"]


def test_the_table_in_short_has_counts_and_times():
    doc = {"title": "T", "clock": "virtual", "runs": [
        {"machine": mach, "cpus": 32,
         "samples": [{"op": op, "treatment": t, "cycle": 1, "ns": 2 * 10**6}
                     for op in ops for t in bench.TREATMENTS],
         "counts": [{"op": op, "treatment": t, "calls": {
             "synchronize_rcu_" + ("normal" if t == "base" else "expedited"): 7,
             "stop_machine_cpuslocked": 3, "build_sched_domains": 4}}
             for op in ops for t in bench.TREATMENTS]}
        for mach, ops in (("q35", ("smt/control off", "smt/control on",
                                   "chcpu -d 16-31", "chcpu -e 16-31")),
                          ("pseries", ("smt/control off", "smt/control on",
                                       "ppc64_cpu --smt=off",
                                       "ppc64_cpu --smt=on",
                                       "new ppc64_cpu off",
                                       "new ppc64_cpu on")))]}
    rows = [[c.strip() for c in x.split("|")[1:-1]]
            for x in bench.in_short(doc).splitlines()]
    assert all(len(r) == 4 for r in rows) and len(rows) == 8
    assert rows[2][1:] == [f"7 {w} / 3 / 4" for w in
                           ("normal", "expedited", "expedited")]
    assert all(r[1:] == ["2.0 / 2.0"] * 3 for r in rows[3:])


def test_only_what_defines_a_scenario_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "SCENARIOS", tmp_path)
    text = ('title = "%s"\njob = "%s"\n[[machine]]\ntype = "q35"\ncpus = [8]'
            '\n# %s\n')

    def inputs(*words):
        (tmp_path / "x.toml").write_text(text % words)
        return bench.inputs(bench.load("x"))
    assert inputs("a", "b", "c") == inputs("other", "b", "other")
    assert inputs("a", "b", "c") != inputs("a", "other", "c")


def test_every_scenario_loads_and_fits():
    names = [p.stem for p in bench.SCENARIOS.glob("*.toml")]
    assert {"boot", "smt", "huge"} <= set(names)
    for n in names:
        s = bench.load(n)
        for m in bench.machines(s, full=True):
            assert m.boot or "labctl" in bench.job_text(s, m, "base")


def test_operations_of_a_cpu_model():
    s = bench.load("shared")
    nine, ten = bench.machines(s, cpus=32)
    assert (nine.model(), ten.model()) == ("power9", "power10")
    assert nine.name() != ten.name()
    for m, mine, other in (nine, "POWER9", "POWER10"), (ten, "POWER10",
                                                        "POWER9"):
        text = bench.job_text(s, m, "base")
        assert f"off, {mine}'" in text and f", {other}'" not in text


def test_a_machine_of_a_scenario_may_have_disks():
    m, = bench.machines(bench.load("kdump"))
    assert m.disks == (("next", pathlib.Path("kernel"), ""),)


def test_a_scenario_may_have_a_patch_of_its_own(monkeypatch):
    s = bench.load("one-lock")
    asked = []
    monkeypatch.setattr(bench.kernels, "build",
                        lambda *a, **kw: asked.append((*a, kw)))
    monkeypatch.setattr(bench.kernels, "with_patch", lambda p: p.name)
    for v in bench.variants(s):
        bench.image(s, v, "x86_64")
    assert asked == [("base", "x86_64", "", {}),
                     ("base", "x86_64", {"commit": "one-lock.patch"}),
                     ("patched", "x86_64", "", {})]
    was = bench.inputs(s)
    assert bench.inputs({**s, "patches": {}}) != was
    # the shell splits what it is called
    assert not any(" " in v for v in bench.variants(s))


def test_a_patch_to_the_base_applies_or_is_named(tmp_path):
    made = bench.kernels.with_patch(bench.TOP / "bench" / "one-lock.patch")
    assert made == bench.kernels.with_patch(
        bench.TOP / "bench" / "one-lock.patch")
    assert bench.kernels.tree_of(made) != bench.kernels.tree_of(
        bench.kernels.wanted_commit("base"))
    bad = tmp_path / "bad.patch"
    bad.write_text("--- a/kernel/cpu.c\n+++ b/kernel/cpu.c\n@@ -1 +1 @@\n-x\n+y\n")
    with pytest.raises(LabError, match="bad.patch"):
        bench.kernels.with_patch(bad)


def test_time_between_two_lines_of_the_console():
    r = boot.Result()
    r.console = ("[    0.5] Bye\n[   12.000100] kexec_core: Starting new kernel\r\n"
                 "[   12.345678] Bye!\r\n[    0.000000] Booting Linux\n")
    lines = "Starting new kernel", "Bye!"
    assert bench._between(r, lines, "x") == 345578000
    with pytest.raises(LabError, match="no line 'Bye, all'"):
        bench._between(r, ("Bye!", "Bye, all"), "x")


def test_fresh_scenario_boots_for_each_sample():
    s = bench.load("maxcpus")
    full, few, two = bench.machines(s)
    assert (few.append, two.cpus, two.threads) == ("maxcpus=2", 2, 1)
    assert bench.machines(s, cpus=16)[2].cpus == 2
    assert len({m.name() for m in (full, few)}) == 2
    assert len(bench.boots(s, full)) == 2 * s["repeat"]
    plan = bench.boots({**s, "repeat": 2}, few)
    assert plan[0] == ("base", "base", 1) and len(plan) == 9
    # times first: counts go to the rows which these make
    assert [c for _, _, c in plan] == [1] * 3 + [2] * 3 + [0] * 3
    base = bench.job_text(s, few, "base", "expedited", 2)
    assert "chcpu" in base and "counted" not in base
    assert base.count("timed '") == 1 and "as_treatment expedited" in base
    assert " expedited 2 " in base
    patched = bench.job_text(s, few, "patched", "patched", 0)
    assert "hotplug/online all" in patched and "timed '" not in patched
    assert "emit first ns" in patched and all(
        m.options == ("-global", "virtio-blk-pci.num-queues=2")
        for m in (full, few, two))
    assert "emit first" not in bench.job_text(bench.load("smt"), full, "base")
    bench._check_sample(s, few, {"op": few.boot, "online": "0,2"})
    bench._check_sample(s, full, {"op": full.boot, "online": "0-7"})
    bench._check_sample(s, few, {"op": "the rest online", "online": "0-7"})
    run = {"machine": "q35", "cpus": 8, "counts": [], "samples": [
        {"op": full.boot, "treatment": t, "cycle": 1, "ns": 10**9}
        for t in ("base", "patched")]}
    text = bench.table({"title": "t", "clock": "virtual", "runs": [run]})
    assert text.splitlines()[3].split()[-5:] == ["1000", "-", "1000", "1.0x",
                                                 "-"]
    assert "-/-/-" not in text
    with pytest.raises(LabError, match="8 CPUs are online, not 2"):
        bench._check_sample(s, few, {"op": few.boot, "online": "0-7"})


def test_unknown_scenario_and_wrong_file(monkeypatch, tmp_path):
    with pytest.raises(LabError, match="no SCENARIO 'nix'"):
        bench.load("nix")
    monkeypatch.setattr(bench, "SCENARIOS", tmp_path)
    (tmp_path / "x.toml").write_text("title = ")
    with pytest.raises(LabError, match="x.toml"):
        bench.load("x")
    for type_ in "", 'type = "pc"':
        (tmp_path / "x.toml").write_text(
            f'title = "t"\njob = "j"\n[[machine]]\n{type_}\ncpus = [8]\n')
        name = "pc" if type_ else ""
        with pytest.raises(LabError, match=f"x.toml: .* type '{name}', only q35"):
            bench.load("x")


def test_all_scenarios_with_so_many_cpus():
    for s, which in bench.plan("all", cpus="16"):
        assert all(m.cpus == 16 for m in which) or any(
            m.get("fixed") for m in s["machine"])


def test_a_part_of_a_scenario_is_not_recorded(monkeypatch):
    kept = []
    monkeypatch.setattr(bench, "measure", lambda s, which: {"scenario": "x"})
    monkeypatch.setattr(bench, "table", lambda doc: "")
    monkeypatch.setattr(bench, "files", lambda doc: {})
    monkeypatch.setattr(bench.record, "leave", lambda *a: kept.append(a[-1]))
    for part in ({"arch": "x86_64"}, {"accel": "mttcg"}, {"cpus": "16"}):
        with pytest.raises(LabError, match="not a part of it"):
            bench.main("smt", rec=True, **part)
        bench.main("smt", **part)
    bench.main("smt", rec=True)
    bench.main("huge", cpus="64", rec=True)
    assert kept == [False] * 3 + [True] * 2


def test_wrong_number_of_cpus_online_is_an_error():
    s = bench.load("smt")
    m = vm.topology("q35", 8)
    bench._check_sample(s, m, {"op": "SMT off", "online": "0,2,4,6"})
    with pytest.raises(LabError, match="online, not 4"):
        bench._check_sample(s, m, {"op": "SMT off", "online": "0-7"})


def test_cpulist():
    assert bench.cpulist("0-3,8\n") == {0, 1, 2, 3, 8}
    assert bench.cpulist("") == set()
    for bad in "3-1", "x", "0-3-5", "-1", "1 2", "0-3,\u00b2":
        with pytest.raises(LabError, match=f"^'{bad}' is no list of CPUs"):
            bench.cpulist(bad)
