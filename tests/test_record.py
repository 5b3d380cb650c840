# SPDX-License-Identifier: GPL-2.0
"""Recorded results: which are stale, and that pages show them and say so."""

import json

import pytest

from conftest import TOP
from lab import (bench, caserecord, common, insns, kernels, offcpu, rebuilds,
                 record, scale, torture)
from lab.common import LabError

MODULES = (bench, insns, rebuilds, offcpu, torture, caserecord)
TAKEN = {"date": "2026-01-02T03:04:05Z", "tree": "1234567890abcdef",
         "kernel": "k", "inputs": "i"}


def result(**stamp):
    return record.Result("bench SCENARIO=x", {**TAKEN, **stamp}, "i")


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A project with a page, a kernel whose digest is 'k', and nothing
    recorded."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(
        "a\n<!-- x -->\nold\n<!-- end -->\nb\n")
    for name, path in (("TOP", tmp_path), ("RESULTS", tmp_path / "results"),
                       ("OUT", tmp_path / "out")):
        monkeypatch.setattr(record, name, path)
    monkeypatch.setattr(record, "code", lambda subjects=(), of=(): "k")
    record.code.cache_clear = lambda: None
    return tmp_path


class Module:
    """One that has recorded these results."""

    def __init__(self, *results, blocks=None, files=None):
        self._shown = record.Shown(
            list(results), {"x": "table\n"} if blocks is None else blocks,
            files or {})

    def shown(self):
        return [self._shown]


@pytest.mark.parametrize("stamp, why", [
    ({}, ""), ({"kernel": "other"}, "other kernel code"),
    ({"inputs": "other"}, "other inputs"),
    ({"kernel": "", "inputs": ""}, "recorded before digests")])
def test_stale_is_listed_and_marked(lab, capsys, stamp, why):
    record.tables([Module(result(**stamp))])
    page = (lab / "README.md").read_text()
    bad = json.loads((lab / "out" / "stale.json").read_text())
    said = capsys.readouterr().out
    assert page == ("a\n<!-- x -->\nRecorded 2026-01-02, tree 1234567890ab"
                    + (f"; stale: {why}" if why else "")
                    + "\n\ntable\n<!-- end -->\nb\n")
    if why:
        assert [(r["name"], r["date"], r["tree"], r["why"]) for r in bad] == [
            ("bench SCENARIO=x", "2026-01-02", TAKEN["tree"], why)]
        assert "1 of 1 results are stale" in said and said.count(why) == 1
    else:
        assert bad == [] and said == "none of 1 results is stale\n"
    assert max(map(len, said.splitlines())) <= 80
    record.tables([Module(result(**stamp))])
    assert (lab / "README.md").read_text() == page


def test_results_of_one_file_are_one_line_unless_they_differ(lab, capsys):
    cases_ = [record.Result(f"machines: {n}", {**TAKEN, **s}, "i")
              for n, s in (("a", {}), ("b", {"kernel": "1"}),
                           ("c", {"kernel": "2"}), ("d", {"inputs": "3"}))]
    record.tables([Module(*cases_)])
    said = capsys.readouterr().out
    assert "3 of 4 results are stale" in said
    assert "machines (2)" in said and said.count("machines") == 2
    assert "; 3 of 4 stale\n" in (lab / "README.md").read_text()
    assert len(json.loads((lab / "out" / "stale.json").read_text())) == 3


def test_a_kernel_of_a_patch_that_is_gone_is_stale(lab, monkeypatch):
    def code(subjects=(), of=()):
        if subjects:
            raise LabError("linux/ has no patch")
        return "k"
    monkeypatch.setattr(record, "code", code)
    assert record.Result("x", TAKEN, "i").stale() == ""
    assert record.Result("x", TAKEN, "i", ("gone",)).stale() == \
        "other kernel code"


def test_the_digest_is_of_what_is_compiled(toy, monkeypatch):
    from conftest import sh
    monkeypatch.setattr(kernels, "LINUX", toy.linux)
    monkeypatch.setattr(kernels, "wanted_commit", lambda v: "HEAD")
    toy.linux.mkdir()
    sh("git", "init", "-q", cwd=toy.linux)
    for d in ("Documentation", "tools/testing", "tools/objtool"):
        (toy.linux / d).mkdir(parents=True)
        toy.commit(f"{d}/file", "a\n", "base")
    toy.commit("core.c", "a\n", "one")
    sh("git", "tag", "base", cwd=toy.linux)

    def after(name):
        toy.commit(name, f"{name}\n", "two")
        return record.stamp("i")
    first = record.stamp("i")
    assert first["kernel"] and first["inputs"] == "i"
    for name in ("Documentation/file", "tools/testing/file", "MAINTAINERS"):
        now = after(name)
        assert now["kernel"] == first["kernel"] and now["tree"] != first["tree"]
    assert after("core.c")["kernel"] != first["kernel"]
    other = record.stamp("i")["kernel"]
    assert after("tools/objtool/file")["kernel"] != other
    # of the series up to a patch as well
    assert record.stamp("i", ["two"])["kernel"] not in (other, first["kernel"])


def test_a_block_without_an_end_is_named_and_loses_nothing(lab):
    page = lab / "README.md"
    blocks = {"x": "t\n", "y": "t\n"}
    for text, says in (
            ("<!-- x -->\nprose\n<!-- y -->\nold\n<!-- end -->\n",
             "README.md: block 'x' has no end before 'y'"),
            ("<!-- x -->\nold\n<!-- end -->\n<!-- y -->\nprose\n",
             "README.md: block 'y' has no end")):
        page.write_text(text)
        with pytest.raises(LabError, match=says):
            record.tables([Module(result(), blocks=blocks)])
        assert page.read_text() == text


def test_places_and_results_belong_together(lab):
    with pytest.raises(LabError, match="no page has a place for y"):
        record.tables([Module(result(), blocks={"x": "t", "y": "t"})])
    with pytest.raises(LabError, match="README.md has a block 'x', of which "
                       "nothing is recorded"):
        record.tables([Module(result(), blocks={})])
    # a place may be there before, and need not
    for name in "x", "y":
        record.tables([Module(blocks={name: "`make it` does.\n"}),
                       Module(result(), blocks={"x": "t\n"}) if name == "y"
                       else Module(blocks={})])
        assert ("Not recorded yet.\n\n`make it`" in (
            lab / "README.md").read_text()) == (name == "x")


def test_what_is_derived_is_not_beside_the_data(lab):
    record.tables([Module(result(), files={"x.txt": "t", "x.png": b"\x89"})])
    assert (lab / "out" / "results" / "x.png").read_bytes() == b"\x89"
    assert not (lab / "results").exists()
    kept = common.git("ls-files", "bench/results", cwd=TOP).split()
    assert kept and all(x.endswith(".json") for x in kept)


def test_damaged_results_are_named(lab):
    (lab / "results").mkdir()
    for text in ("{", "[]", '{"runs": []}'):
        (lab / "results" / "x.json").write_text(text)
        with pytest.raises(LabError, match="x.json is damaged.*'again'"):
            record.each("x.json", lambda d: d["stamp"]["date"], "again")


def test_what_is_recorded_and_left(lab):
    record.leave("bench", "x", {"a": 1}, {"x.txt": "t"}, False)
    assert (lab / "out" / "bench" / "x.txt").read_text() == "t"
    assert not (lab / "results").exists()
    record.leave("bench", "x", {"a": 2}, {}, True)
    for d in ("out/bench", "results"):
        assert json.loads((lab / d / "x.json").read_text()) == {"a": 2}


def test_pages_show_what_is_recorded(monkeypatch):
    """As 'make tables' writes them, but for what is stale, which depends on
    linux/, as does the size of a slice."""
    if not common.LINUX.exists():
        monkeypatch.setattr(scale, "slice_size", lambda: 16)
    shown = [s for m in (*MODULES, scale) for s in m.shown()]
    plain = lambda text: record.STALE.sub("", text)
    for page, text in record.rendered(shown).items():
        assert plain(page.read_text()) == plain(text), \
            f"{page.name} does not show what is recorded; make tables"
        for block in record.BLOCK.findall(text):
            assert all(len(x) <= 80 or x.startswith("| ")
                       for x in block[1].splitlines()), block[0]
    for s in shown:
        for name, data in s.files.items():
            assert data, name


def test_every_result_has_a_stamp_and_a_command():
    seen = [r for m in MODULES for s in m.shown() for r in s.results]
    assert len(seen) > 100
    for r in seen:
        assert set(r.stamp) - {"of"} == set(TAKEN)
        assert r.name.split(":")[0].split()[0] in (
            "bench", "insns", "offcpu", "machines", "torture", "foreign",
            "litmus", "scx", "compile-matrix")


def test_two_columns_and_a_grid():
    assert record.side_by_side(["a"], ["b", "c"], 3) == ["a   | b", "    | c"]
    assert record.grid([["a", "1", "x y"], ["bb", "22", "z"]]) == [
        "a    1  x y", "bb  22  z"]
    wide = record.grid([["a" * 39, "b", "c" * 39]])
    assert wide == ["a" * 39 + " b " + "c" * 39]
