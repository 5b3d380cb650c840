# SPDX-License-Identifier: GPL-2.0
"""The scale model: fits, the size kept out, the estimate; `make tables`."""

import json
import tomllib

import pytest

from lab import bench, common, scale
from lab.common import LabError

BOUNDS = scale.Bounds(256, 100, 32)
HW = tomllib.loads(scale.HARDWARE.read_text())


def calls(treatment, way, n):
    """What the kernels of the lab do on pseries."""
    if treatment == "patched":
        return {"synchronize_rcu_expedited": int(way == "off"),
                "stop_machine_cpuslocked": int(way == "off"),
                "build_sched_domains": 1}
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
    good, off = (scale.fit(d)["pseries", "SMT off", "base"]
                 for d in (doc(sizes), bad))
    n = sizes[-1] * 7 // 8
    assert good["GP"] == {"a": 1, "b": 2, "predicted": 1 + 2 * n,
                          "measured": 1 + 2 * n}
    assert off["rebuilds"] == {**good["rebuilds"], "measured": 999}
    monkeypatch.setattr(scale, "bounds", lambda: BOUNDS)
    text = scale.report(bad)
    assert f"{n}/999  !" in text
    assert f"16 CPUs; predicted/measured for {sizes[-1]}" in text \
        or f"64 CPUs; predicted/measured for {sizes[-1]}" in text
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("ESTIMATE") == 2


def test_formula():
    for (a, b), text in {(0, 0): "0", (1, 0): "1", (0, 1): "N", (1, 2): "1+2N",
                         (-2, .5): "-2+0.5N", (3, -1): "3-1N"}.items():
        assert scale.formula(a, b) == text


def test_chunks_follow_the_rule_of_the_kernel():
    assert scale.chunks(1680, 10, .01, BOUNDS) == [256] * 6 + [144]
    assert scale.chunks(1680, 1000, 1, BOUNDS) == [256] + [32] * 44 + [16]
    # 256 take 200 ms: half of them next
    assert scale.chunks(600, 72, .5, BOUNDS) == [256, 128, 94, 78, 44]


def test_bounds_are_those_of_the_kernel(monkeypatch, tmp_path):
    monkeypatch.setattr(common, "LINUX", tmp_path)
    with pytest.raises(LabError, match="no bounds of an operation"):
        scale.bounds()
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "cpuhp_x.c").write_text(
        "static unsigned int batch_max __ro_after_init = 128;\n"
        "#define CPUHP_CHUNK_NS\t\t(50 * NSEC_PER_MSEC)\n"
        "#define CPUHP_CHUNK_MIN\t\t16U\n"
        "static const unsigned int batch_max = 1;\n")
    assert scale.bounds() == (128, 50, 16)


def test_the_hour_adds_up():
    m = scale.model(doc(), HW, BOUNDS)
    *others, rebuilds = m["hour"]
    for i, j in ((1, 2), (2, 1)):
        assert sum(t[i] for t in others) + rebuilds[j] == pytest.approx(
            HW["power10"]["off_v6_0_s"])
    assert all(0 <= lo <= hi for _, lo, hi in m["hour"])
    assert m["patched"]["seconds"][1] < m["expedited"][0] < m["bare"]
    assert m["patched"]["whole"][1] < m["patched"]["seconds"][0]
    # what each CPU pays is not paid once for a chunk
    rows = {r: {"a": 0, "b": 0} for r in scale.COUNTS}
    none, each = (scale.estimate(m["unit"], {**rows, "rebuilds": {
        "a": 0, "b": b}}, 1680, BOUNDS)["whole"][0] for b in (0, 1))
    assert each - none == pytest.approx(1680 * m["unit"]["rebuild"][0])


def test_grace_periods_that_the_lab_does_not_count():
    off, on = scale.model(doc(), HW, BOUNDS)["ppc64"].values()
    assert (off["GPs"], on["GPs"]) == (701, 351)
    assert off["GP"] == pytest.approx(.102, .01)
    assert on["GP"] == pytest.approx(.414, .01)
    last = scale.scale_text(scale.model(doc(), HW, BOUNDS))[-2:]
    assert ["MISSED" in x for x in last] == [False, True]


@pytest.mark.parametrize("text,error", [
    (None, "no smt.json; .*RECORD=1 make bench"),
    ("{", "smt.json is damaged"), ("[]", "damaged"), ('{"runs": []}',
                                                      "damaged"),
    (json.dumps(doc((8, 16))), "2 size.*three.*RECORD=1"),
    (json.dumps(doc(machine="q35")), "no counts of 'SMT off', base, on ps")])
def test_results_that_do_not_do(monkeypatch, tmp_path, text, error):
    record(monkeypatch, tmp_path / "smt.json", text or "")
    if text is None:
        scale.RESULTS.unlink()
    with pytest.raises(LabError, match=error):
        scale.report(scale.load(scale.RESULTS))


def test_every_unit_cost_names_its_mail():
    for name in ("power10", "power9", "ppc64", "large", "x86"):
        assert HW[name]["mail"] in HW["mail"]
