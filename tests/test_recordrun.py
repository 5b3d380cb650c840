# SPDX-License-Identifier: GPL-2.0
"""'make record': what it does, in which case it ends, and that it goes on."""

import json

import pytest

from lab import cases, common, kernels, record, recordrun, torture
from lab.common import LabError


@pytest.fixture
def lab(monkeypatch):
    """Three things to record, of which .done are; what was .run in this test;
    those in .broken can't be measured."""
    class Lab:
        done, run, broken, tree, now = {}, [], [], "t", 0
        error = LabError("no sample came back")
    lab = Lab()

    def run(rep, name):
        lab.run.append(name)
        lab.now += 60
        if name in lab.broken:
            raise lab.error
        rep.add(name, True)
        lab.done[name] = [("", 30)]
    monkeypatch.setattr(recordrun, "every", lambda: {i.name: i for i in (
        recordrun.Item("bench SCENARIO=a", run),
        recordrun.Item("machines: b", run, True, "matrix"),
        recordrun.Item("machines: c", run, True, "selftests"))})
    monkeypatch.setattr(recordrun, "_state", lambda: lab.done)
    monkeypatch.setattr(recordrun.os, "cpu_count", lambda: 1)
    monkeypatch.setattr(recordrun.time, "monotonic", lambda: lab.now)
    monkeypatch.setattr(recordrun.record, "stamp", lambda i: {"tree": "t"})
    monkeypatch.setattr(kernels, "wanted_commit", lambda v: "c")
    monkeypatch.setattr(kernels, "tree_of", lambda c: lab.tree)
    return lab


def test_what_is_stale_or_missing_is_done_once(lab, capsys):
    lab.done.update({"bench SCENARIO=a": [("", 30)],
                     "machines: b": [("other inputs", 120)]})
    assert recordrun.main() == 0
    assert lab.run == ["machines: b", "machines: c"]
    said = capsys.readouterr().out
    assert "machines                            other inputs" \
        "                 2 min\n" in said
    assert "machines                            not recorded" \
        "                15 min\n0.3 hours" in said
    assert said.endswith("nothing is stale or missing\n2 passed, 0 failed\n")
    assert recordrun.main() == 0 and len(lab.run) == 2


def test_a_list_runs_nothing(lab, capsys):
    assert recordrun.main(only_list=True) == 0 and not lab.run
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_what_fails_is_left_and_ends_nothing(lab, capsys):
    lab.broken.append("bench SCENARIO=a")
    assert recordrun.main() == 1 and len(lab.run) == 3
    said = capsys.readouterr().out
    assert "FAIL  bench SCENARIO=a\n      no sample came back\n" in said
    assert said.count("bench SCENARIO=a") == 3      # and before and after
    lab.broken.clear()
    assert recordrun.main() == 0 and lab.run[3:] == ["bench SCENARIO=a"]


def test_a_bug_in_one_is_its_result(lab, capsys):
    lab.error = KeyError("off")
    lab.broken.append("machines: b")
    assert recordrun.main() == 1 and len(lab.run) == 3
    assert "FAIL  machines: b\n      KeyError: 'off'\n" in capsys.readouterr().out


@pytest.mark.parametrize("error", [OSError(28, "No space left", "/x"),
                                   common.DiskFull("the disk of x is full")])
def test_a_full_disk_ends_it(lab, error):
    lab.error = error
    lab.broken.append("bench SCENARIO=a")
    with pytest.raises(type(error)):
        recordrun.main()
    assert lab.run == ["bench SCENARIO=a"]


def test_nothing_is_begun_after_the_limit(lab):
    assert recordrun.main(limit="2") == 0
    assert lab.run == ["bench SCENARIO=a", "machines: b"]
    assert recordrun.main(limit="2") == 0 and lab.run[2:] == ["machines: c"]
    with pytest.raises(LabError, match="LIMIT=x"):
        recordrun.main(limit="x")


def test_nothing_is_begun_on_another_tree(lab):
    lab.tree = "other"
    with pytest.raises(LabError, match="linux/ is another one now"):
        recordrun.main()
    assert not lab.run


def test_words_choose(lab):
    recordrun.main("Matrix or scenario=A")
    assert lab.run == ["bench SCENARIO=a", "machines: b"]
    with pytest.raises(LabError, match="K=nix is in no name"):
        recordrun.main("nix")


def test_a_profile_of_torture_is_run_again_for_its_stale_runs(
        monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "code", lambda subjects=(), of=(): "k")

    def doc(profile, seed, kernel="k"):
        return {"profile": profile, "seed": seed, "boots": [], "stamp": {
            "date": "2026-01-02", "tree": "t", "kernel": kernel,
            "inputs": torture.inputs(profile)}}

    def main(minutes, arches, profile, rec):
        assert (minutes, arches, rec) == (30, ["x86_64"], True)
        torture.keep(doc("kcsan+torture", 3))
        return 1
    monkeypatch.setattr(torture, "main", main)
    record.save("torture", [doc("kcsan+torture", 1, "old"),
                            doc("torture", 2, "old")])
    rep = recordrun.Report()
    recordrun._torture("kcsan")(rep, "torture: kcsan+torture")
    assert (rep.passed, rep.failed) == (0, 1)
    left = json.loads((tmp_path / "torture.json").read_text())
    assert [d["seed"] for d in left] == [2, 3]


def test_all_that_is_shown_can_be_recorded(monkeypatch):
    """Each result has an Item, and cases that are compared are one."""
    monkeypatch.setattr(recordrun.series, "part_ranges", lambda: [
        ("00-toy", "base", "c")])
    monkeypatch.setattr(recordrun.perpatch, "unrecorded",
                        lambda: ["00-toy x86_64"])
    if not common.LINUX.exists():
        monkeypatch.setattr(cases, "_selftests", lambda: ["x-test.sh"])
    items, state = recordrun.every(), recordrun._state()
    assert set(state) <= set(items)
    assert "tips: 00-toy ppc64le" in state
    assert "tips: 00-toy x86_64" in set(items) - set(state)
    for i in items.values():
        assert i.usual()
    a, b = (items[f"machines: pseries-32 power{n} shared"] for n in (9, 10))
    assert a is b and a.usual() == recordrun.USUAL["machines"]
    assert items["machines: pseries-16-debug smt-test.sh"].usual() == 900 \
        or not common.LINUX.exists()
