# SPDX-License-Identifier: GPL-2.0
"""The scale model: fits, the size kept out, the estimate; `make tables`."""

import json
import re
import tomllib

import pytest

from conftest import TOP
from lab import bench, scale
from lab.common import LabError

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
    return {"scenario": "smt", "date": "2026-01-01T00:00:00Z", "runs": runs}


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
    record(monkeypatch, tmp_path / "smt.json", json.dumps(bad))
    text = scale.report()
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
    assert scale.chunks(1680, 10, .01) == [256] * 6 + [144]
    assert scale.chunks(1680, 1000, 1) == [256] + [32] * 44 + [16]
    # 256 take 200 ms: half of them next
    assert scale.chunks(600, 72, .5) == [256, 128, 94, 78, 44]
    src = TOP / "linux" / "kernel" / "cpuhp_batch.c"
    if src.exists():
        text = src.read_text()
        assert re.search(rf"batch_max\b.* = {scale.BATCH};", text)
        assert re.search(rf"CPUHP_CHUNK_NS\s+\({scale.BOUND_MS} \*", text)
        assert re.search(rf"CPUHP_CHUNK_MIN\s+{scale.LEAST}U\b", text)


def test_the_hour_adds_up():
    m = scale.model(doc(), HW)
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
        "a": 0, "b": b}}, 1680)["whole"][0] for b in (0, 1))
    assert each - none == pytest.approx(1680 * m["unit"]["rebuild"][0])


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
        scale.report()


def test_every_unit_cost_names_its_mail():
    for name in ("power10", "power9", "large", "x86"):
        assert HW[name]["mail"] in HW["mail"]


def test_the_page_shows_what_the_recorded_results_give():
    text, page = scale.report(), scale.PAGE.read_text()
    assert max(map(len, text.splitlines())) <= 80
    assert scale.in_page(page, "x\n") != page
    assert scale.in_page(page, text) == page, \
        "other results were recorded; 'make tables' updates the page"


def test_tables_come_from_what_is_recorded(monkeypatch, tmp_path):
    results, page = tmp_path / "results", tmp_path / "README.md"
    for d in ("results", "docs"):
        (tmp_path / d).mkdir()
    for name, path in (("TOP", tmp_path), ("RESULTS", results),
                       ("OUT", tmp_path / "out")):
        monkeypatch.setattr(bench, name, path)
    d = {**doc(), "title": "T", "clock": "virtual"}
    for run in d["runs"]:
        run["samples"] = [{"op": c["op"], "treatment": c["treatment"],
                           "cycle": 1, "ns": 10**6} for c in run["counts"]]
    (results / "smt.json").write_text(json.dumps(d))
    page.write_text("a\n<!-- results:smt -->\nold\n<!-- end -->\nb\n")
    bench.tables()
    text = (results / "smt.txt").read_text()
    assert text == bench.table(d)
    assert page.read_text() == ("a\n<!-- results:smt -->\n```\n" + text
                                + "```\n<!-- end -->\nb\n")
    assert (results / "smt.png").exists()
    page.write_text("<!-- results:gone -->\n<!-- end -->\n")
    with pytest.raises(LabError, match="'gone', which is not recorded"):
        bench.tables()
    (results / "x.json").write_text("{")
    with pytest.raises(LabError, match="x.json is damaged"):
        bench.tables()
