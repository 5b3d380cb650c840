# SPDX-License-Identifier: GPL-2.0
"""The scale model: fits, the size kept out, the estimate; `make tables`."""

import json
import tomllib

import pytest

from lab import bench, common, scale
from lab.common import LabError

SIZE = 32
HW = tomllib.loads(scale.HARDWARE.read_text())


def calls(treatment, way, n):
    """What the kernels of the lab do on pseries."""
    if treatment == "patched":
        cut = scale.slices(n, scale.taken(SIZE, 7, f"SMT {way}"))
        return {"synchronize_rcu_expedited": (1 + cut) * (way == "off"),
                "stop_machine_cpuslocked": 0,
                "build_sched_domains": 1 if way == "off" else
                scale.activations(cut)}
    gp = "synchronize_rcu_" + ("normal" if treatment == "base"
                               else "expedited")
    return {gp: 1 + 2 * n if way == "off" else 1 + n,
            "stop_machine_cpuslocked": n if way == "off" else 0,
            "build_sched_domains": n, "kthread_park": 2 * n}


def doc(sizes=(8, 16, 32), machine="pseries"):
    """Results as bench writes them."""
    runs = []
    for t in sizes:
        for treatment in bench.TREATMENTS:
            runs.append({
                "machine": machine, "cpus": t, "threads": 8, "tree": "p" * 40,
                "variant": "patched" if treatment == "patched" else "base",
                "counts": [{"op": op, "treatment": treatment, "calls":
                            calls(treatment, op[4:], t - t // 8)}
                           for op in scale.OPS]})
    return {"scenario": "smt", "runs": runs, "stamp": {
        "date": "2026-01-01T00:00:00Z", "tree": "p" * 40, "kernel": "k",
        "inputs": "i"}}


CPU = {"runs": [
    {"machine": "pseries", "cpus": t, "counts": [
        {"op": "offline", "treatment": "patched", "calls": {
            "synchronize_rcu_expedited": gps, "build_sched_domains": 1}}]}
    for t, gps in ((8, 9), (32, 2), (16, 9))]}
# a rebuild of 16 CPUs takes a fourth
DOMAINS = {"runs": [
    {"cpus": t, "variant": variant, "stats": [
        {"verbose": v, "function": scale.REBUILD, "us": us}
        for v, us in (("N", fast), ("Y", "999"), ("N", fast))]}
    for t, variant, fast in ((8, "base", "20"), (8, "patched", "10"),
                             (16, "base", "80"), (16, "patched", "20"),
                             (32, "base", "80"))]}


def model(d):
    return scale.model(d, HW, SIZE, CPU, DOMAINS)


def record(monkeypatch, path, text):
    path.write_text(text)
    monkeypatch.setattr(scale, "RESULTS", path)


@pytest.mark.parametrize("sizes", [(8, 16, 32), (8, 16, 32, 64, 128)])
def test_the_largest_size_is_predicted_and_not_in_the_fit(
        sizes, monkeypatch, tmp_path):
    bad = doc(sizes)
    for run in bad["runs"]:
        if run["cpus"] == sizes[-1]:
            run["counts"][0]["calls"]["build_sched_domains"] = 999
    good, off = (scale.fit(d, SIZE)["pseries", "SMT off", "base"]
                 for d in (doc(sizes), bad))
    n = sizes[-1] * 7 // 8
    assert good["GP"] == {"a": 1, "b": 2, "of": "N", "predicted": 1 + 2 * n,
                          "measured": 1 + 2 * n}
    assert off["rebuilds"] == {**good["rebuilds"], "measured": 999}
    monkeypatch.setattr(scale, "slice_size", lambda: SIZE)
    text = scale.report(bad)
    assert f"{n}/999  !" in text
    assert f"16 CPUs; predicted/measured for {sizes[-1]}" in text \
        or f"64 CPUs; predicted/measured for {sizes[-1]}" in text
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("ESTIMATE") == 3


def test_one_by_one_costs_a_rebuild_for_each_cpu():
    """Of the largest machine each: two grace periods, a rebuild, steps."""
    unit = {k: (1.0, 2.0) for k in ("GP", "GP exp", "step", "stop", "rebuild")}
    assert scale.one_cpu(CPU)["GP exp"] == 2
    assert scale.cheaper(DOMAINS) == (16, 4)
    assert scale.alone(unit, scale.one_cpu(CPU), 10, 4) == {
        "as is": (40, 80), "cheaper": (32.5, 65)}
    text = "\n".join(scale.scale_text(model(doc())))
    assert "patched, 1680 writes of one CPU each" in text
    assert "* 4.0 times less, as of 16 CPUs" in text


@pytest.mark.parametrize("func, runs, error", [
    (scale.one_cpu, [], "cpu.json has no counts of one CPU"),
    (scale.cheaper, DOMAINS["runs"][4:], "domains.json has no machine with b")])
def test_records_which_lack_what_the_model_asks_for(func, runs, error):
    with pytest.raises(LabError, match=error):
        func({"runs": runs})


def test_formula():
    for (a, b), text in {(0, 0): "0", (1, 0): "1", (0, 1): "N", (1, 2): "1+2N",
                         (-2, .5): "-2+0.5N", (3, -1): "3-1N"}.items():
        assert scale.formula(a, b) == text
    assert scale.formula(0, 1, "S") == "S"


def test_slices_and_activations_follow_the_rule_of_the_kernel():
    assert [scale.slices(n, 32) for n in (1, 32, 33, 1680)] == [1, 1, 2, 53]
    # whole cores, of which 7 threads go; or a core in as many slices as it takes
    assert [scale.taken(x, 7) for x in (16, 32, 8, 7)] == [14, 28, 7, 7]
    assert [scale.slices(70, scale.taken(x, 7)) for x in (6, 3, 1)] == [20, 30, 70]
    assert scale.taken(16, 1) == 16
    assert scale.taken(16, 7, "SMT on") == 16
    for cut in range(1, 70):
        waits = active = times = 0
        for left in range(cut)[::-1]:
            waits += 1
            if waits >= active or not left:
                active, waits, times = active + waits, 0, times + 1
        assert scale.activations(cut) == times
    assert scale.activations(53) == 7


@pytest.mark.parametrize("sizes", [(8, 16, 32), (8, 16, 32, 64, 128)])
def test_what_a_record_says_of_the_largest_machine(sizes):
    m = model(doc(sizes))
    for rows in m["fits"].values():
        assert all(x["predicted"] == pytest.approx(x["measured"])
                   for x in rows.values())
    off, on = (scale.at(m["like"][op, "patched"], 1680, m["slice"][op])
               for op in scale.OPS)
    assert (off["GP exp"], off["stops"], off["rebuilds"]) == (61, 0, 1)
    assert (on["GP exp"], on["stops"], on["rebuilds"]) == (0, 0, 7)


def test_the_size_of_a_slice_is_that_of_the_kernel(monkeypatch, tmp_path):
    monkeypatch.setattr(common, "LINUX", tmp_path)
    with pytest.raises(LabError, match="no size of a slice"):
        scale.slice_size()
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "cpuhp_x.c").write_text(
        "static unsigned int cpuhp_batch __read_mostly = 48;\n"
        "static const unsigned int cpuhp_batch = 1;\n")
    assert scale.slice_size() == 48


def test_the_hour_adds_up():
    m = model(doc())
    *others, rebuilds = m["hour"]
    for i, j in ((1, 2), (2, 1)):
        assert sum(t[i] for t in others) + rebuilds[j] == pytest.approx(
            HW["power10"]["off_v6_0_s"])
    assert all(0 <= lo <= hi for _, lo, hi in m["hour"])
    p = m["patched"][SIZE]
    assert p["seconds"][1] < m["expedited"][0] < m["bare"]
    # what each CPU pays is not paid once for a request
    rows = {r: {"a": 0, "b": 0, "of": "N"} for r in scale.COUNTS}
    cost = lambda row, a, b: scale.estimate(
        m["unit"], {**rows, row: {"a": a, "b": b, "of": "N"}}, 1680, SIZE)
    none, each, wait = (cost(*x)["seconds"][1] for x in (
        ("rebuilds", 0, 0), ("rebuilds", 0, 1), ("GP exp", 54, 0)))
    assert each - none == pytest.approx(1680 * m["unit"]["rebuild"][1])
    assert wait - none == pytest.approx(54 * m["unit"]["GP exp"][1])
    assert p["stay"][0] - p["seconds"][0] == pytest.approx(
        m["unit"]["rebuild"][0])


def test_larger_slices_hold_longer_and_take_less_in_all():
    p = list(model(doc())["patched"].values())
    assert [x["slices"] for x in p] == [120, 60, 27, 14, 7, 1]
    for a, b in zip(p, p[1:]):
        assert b["seconds"][1] < a["seconds"][1]
        for i in 0, 1:
            assert b["hold"][i] > a["hold"][i]
            assert b["waits"][i] <= a["waits"][i]


def test_grace_periods_that_the_lab_does_not_count():
    off, on = model(doc())["ppc64"].values()
    assert (off["GPs"], on["GPs"]) == (701, 351)
    assert off["GP"] == pytest.approx(.102, .01)
    assert on["GP"] == pytest.approx(.414, .01)
    last = scale.scale_text(model(doc()))[-2:]
    assert ["MISSED" in x for x in last] == [False, True]


@pytest.mark.parametrize("text,error", [
    (None, "no smt.json; .*RECORD=1 make bench"),
    ("{", "smt.json is damaged"), ("[]", "damaged"), ('{"runs": []}',
                                                      "damaged"),
    (json.dumps(doc((8, 16))), "2 size.*three.*RECORD=1"),
    (json.dumps(doc(machine="q35")), "no counts of 'SMT off', base, on ps")])
def test_results_that_do_not_do(monkeypatch, tmp_path, text, error):
    record(monkeypatch, tmp_path / "smt.json", text or "")
    monkeypatch.setattr(scale, "slice_size", lambda: SIZE)
    if text is None:
        scale.RESULTS.unlink()
    with pytest.raises(LabError, match=error):
        scale.report(scale.load(scale.RESULTS))


def test_every_unit_cost_names_its_mail():
    for name in ("power10", "power9", "ppc64", "large", "x86"):
        assert HW[name]["mail"] in HW["mail"]
