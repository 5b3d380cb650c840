# SPDX-License-Identifier: GPL-2.0
"""'make bisect-check': what is built is what is booted, and what was done is
not done again."""

import contextlib

from lab import boot, check, perpatch, series
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


def test_bisect_goes_on_where_it_was_ended(toy, monkeypatch, tmp_path,
                                           capsys):
    """What was built and booted is not done again; what failed is."""
    monkeypatch.setattr(perpatch, "LINUX", toy.linux)
    monkeypatch.setattr(perpatch, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(perpatch.kernels, "LINUX", toy.linux)
    monkeypatch.setattr(perpatch.kernels, "compiler", lambda a: "cc")
    monkeypatch.setattr(perpatch, "compile_commit", lambda *a, **k: None)
    monkeypatch.setattr(check.Report, "finish", lambda self: self.failed)
    series.make_tree(toy.src)
    for n in (5, 15):
        lines = (toy.linux / "core.c").read_text().splitlines(True)
        lines[n] = f"changed {n}\n"
        toy.commit("core.c", "".join(lines), f"core: Change line {n}")
    booted, broken = [], ["bisect-2-q35-8-acpi-cpufreq"]

    def run_job(m, img, job, limit, name):
        booted.append(name)
        if name in broken:
            raise LabError("it died")
        return boot.Result()
    monkeypatch.setattr(perpatch.boot, "run_job", run_job)
    monkeypatch.setattr(boot.Result, "status", 0, raising=False)
    assert perpatch.main(["x86_64"]) == 1 and len(booted) == 2
    broken.clear()
    booted.clear()
    assert perpatch.main(["x86_64"]) == 0
    assert booted == ["bisect-2-q35-8-acpi-cpufreq"]
    assert "core: Change line 5 (done before)" in capsys.readouterr().out
