# SPDX-License-Identifier: GPL-2.0
"""'make bisect-check': what is built is what is booted, and what was done is
not done again."""

import contextlib

import pytest

from conftest import sh
from lab import common, perpatch, series
from lab.common import LabError


def test_bisect_boots_what_it_has_built(monkeypatch, tmp_path):
    """The image of a commit that was compiled before must not be taken from
    what was built last, nor from what others build then."""
    made = []
    (tmp_path / "image").mkdir()
    kernel = tmp_path / ".o-x86_64" / "arch" / "x86" / "boot" / "bzImage"
    kernel.parent.mkdir(parents=True)

    @contextlib.contextmanager
    def locked(name):
        yield
        kernel.write_text("of another commit")
    monkeypatch.setattr(perpatch, "locked", locked)
    monkeypatch.setattr(perpatch, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(perpatch.kernels, "build_key", lambda c, a: "key")
    monkeypatch.setattr(perpatch.kernels, "checkout", lambda s, c: tmp_path)
    monkeypatch.setattr(perpatch.kernels, "configure", lambda *a: None)
    monkeypatch.setattr(perpatch, "run", lambda *a, **k: (
        made.append(a), kernel.write_text("built")) and (0, ""))
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled" / "key").touch()
    perpatch.compile_commit("c", ["x86_64"])
    assert not made
    perpatch.compile_commit("c", ["x86_64"], image=tmp_path / "image")
    assert len(made) == 1
    assert (tmp_path / "image" / "kernel").read_text() == "built"


@pytest.fixture
def lines(toy, monkeypatch, tmp_path):
    """A series of two parts, whose builds and boots are not done: .booted has
    their names, those in .broken fail."""
    monkeypatch.setattr(perpatch, "LINUX", toy.linux)
    monkeypatch.setattr(perpatch, "STATE", tmp_path / "bisect.json")
    monkeypatch.setattr(perpatch.kernels, "LINUX", toy.linux)
    monkeypatch.setattr(perpatch.kernels, "compiler", lambda a: "cc")
    monkeypatch.setattr(perpatch.Report, "finish", lambda self: self.failed)
    series.make_tree(toy.src)
    toy.booted, toy.broken = [], []

    def change(n, part):
        text = (toy.linux / "core.c").read_text().splitlines(True)
        text[n] = f"changed {n}\n"
        toy.commit("core.c", "".join(text), f"core: Change line {n}\n\nSo.",
                   part)

    def build_and_boot(what, commit, arch):
        toy.booted.append((what, arch))
        if what in toy.broken:
            raise LabError("it died")
    monkeypatch.setattr(perpatch, "build_and_boot", build_and_boot)
    for n, part in (5, "00-toy"), (15, "00-toy"), (25, "01-more"):
        change(n, part)
    series.make_patches()
    return toy


def test_bisect_goes_on_where_it_was_ended(lines, capsys):
    """What was built and booted is not done again; what failed is."""
    perpatch.STATE.write_text('{"renamed": {"x86_64": {"key": "", "result": ""}}}')
    lines.broken.append("core: Change line 15")
    assert perpatch.main(["x86_64"], "00") == 1
    assert [w for w, _ in lines.booted] == ["core: Change line 5",
                                            "core: Change line 15"]
    state = perpatch.read_state()
    assert "renamed" not in state
    assert state["core: Change line 15"]["x86_64"]["result"] == "it died"
    lines.broken.clear(), lines.booted.clear()
    assert perpatch.main(["x86_64"], "0") == 0
    assert lines.booted == [("core: Change line 15", "x86_64")]
    assert "core: Change line 5 (done before)" in capsys.readouterr().out


def test_a_full_disk_is_no_result_of_a_patch(lines, monkeypatch):
    def build_and_boot(what, commit, arch):
        raise common.DiskFull("the disk of x is full")
    monkeypatch.setattr(perpatch, "build_and_boot", build_and_boot)
    with pytest.raises(common.DiskFull):
        perpatch.main(["x86_64"], "tips")
    assert not perpatch.read_state()
    monkeypatch.setattr(perpatch, "compile_commit", build_and_boot)
    monkeypatch.setattr(perpatch.kernels, "build", lambda *a: None)
    rep = perpatch.Report()
    with pytest.raises(common.DiskFull):
        perpatch.check_each_patch(rep, ["x86_64"], lambda: 900)
    assert not rep.failed


def test_two_architectures_side_by_side(lines, monkeypatch):
    """What another run has done meanwhile stays."""
    def build_and_boot(what, commit, arch):
        if arch == "x86_64":
            perpatch.one(perpatch.Report(), "n", what, commit, "ppc64le")
    monkeypatch.setattr(perpatch, "build_and_boot", build_and_boot)
    perpatch.main(["x86_64"], "tips")
    assert perpatch.unrecorded() == []


def test_tips_and_which_have_no_record(lines):
    assert perpatch.unrecorded() == [
        f"{p} {a}" for p in ("00-toy", "01-more") for a in ("x86_64",
                                                            "ppc64le")]
    lines.broken.append("01-more")
    assert perpatch.main(["x86_64"], "tips") == 1
    assert perpatch.unrecorded() == ["00-toy ppc64le", "01-more x86_64",
                                     "01-more ppc64le"]
    # the last patch of a part is its tip: one record serves both
    lines.booted.clear()
    perpatch.main(["x86_64"], "00")
    assert lines.booted == [("core: Change line 5", "x86_64")]
    # documents and selftests do not change a kernel, all else does
    (lines.linux / "Documentation").mkdir()
    lines.commit("Documentation/x.rst", "x", "doc: Add x\n\nSo.", "00-toy2")
    sh("git", "branch", "-D", "part/01-more", cwd=lines.linux)
    assert perpatch.unrecorded()[0] == "00-toy ppc64le"
    lines.commit("core.c", "x", "core: Cut it\n\nSo.", "00-toy2")
    assert "00-toy2 x86_64" in perpatch.unrecorded()


def test_parts_alone(lines, monkeypatch):
    monkeypatch.setattr(perpatch, "ALONE", {"01-more": ()})
    (what, commit), = perpatch.points("alone")
    assert what == "01-more alone"
    text = sh("git", "show", f"{commit}:core.c", cwd=lines.linux)
    assert "changed 25" in text and "changed 5\n" not in text
    monkeypatch.setattr(perpatch, "ALONE", {
        "01-more": ("core: Change line 5",)})
    (_, commit), = perpatch.points("alone")
    assert "changed 5\n" in sh("git", "show", f"{commit}:core.c",
                               cwd=lines.linux)
    monkeypatch.setattr(perpatch, "ALONE", {"01-more": ("core: Gone",)})
    with pytest.raises(LabError, match="01-more needs core: Gone"):
        perpatch.points("alone")
    (lines.patches / "01-more/0002-x.patch").write_text("diff --git a/x b/x\n")
    monkeypatch.setattr(perpatch, "ALONE", {"01-more": ()})
    with pytest.raises(LabError, match="01-more/0002-x.patch does not apply"):
        perpatch.points("alone")


def test_parts_that_are_sent_alone_are_there():
    assert set(perpatch.ALONE) <= set(series.parts())
    titles = {series.title(p) for p in series.patch_files()}
    assert titles >= {t for need in perpatch.ALONE.values() for t in need}


def test_a_damaged_state_is_named(lines):
    perpatch.STATE.write_text("{")
    with pytest.raises(LabError, match="bisect.json is damaged"):
        perpatch.unrecorded()
