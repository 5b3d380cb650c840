# SPDX-License-Identifier: GPL-2.0
"""What the lab's tests share. None may skip: 'make test' counts a skip as a
failure."""

import pathlib
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP))

from lab import boot, common, order, patchcheck, series, vm  # noqa: E402

MAKEFILE = """# SPDX-License-Identifier: GPL-2.0
VERSION = 7
PATCHLEVEL = 3
SUBLEVEL = 4
EXTRAVERSION =
NAME = Toy
"""


def sh(*cmd, cwd=None):
    """Run a command, return its output, fail the test if it fails."""
    return subprocess.run(cmd, cwd=cwd, check=True, text=True,
                          capture_output=True).stdout


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A project with a toy kernel: .src is the source directory, .linux,
    .patches, .cache are where the lab looks in this test."""
    class Toy:
        pass
    t = Toy()
    t.src = tmp_path / "src"
    t.linux, t.patches = tmp_path / "linux", tmp_path / "patches"
    t.cache = tmp_path / "cache"
    t.src.mkdir(), t.patches.mkdir()
    (t.src / "Makefile").write_text(MAKEFILE)
    (t.src / "core.c").write_text("".join(f"line {i}\n" for i in range(40)))
    monkeypatch.setenv("CPUHP_CACHE", str(t.cache))
    monkeypatch.setattr(order, "LINUX", t.linux)
    for m in (series, common, patchcheck):
        monkeypatch.setattr(m, "LINUX", t.linux)
        monkeypatch.setattr(m, "PATCHES", t.patches)
        monkeypatch.setattr(m, "TOP", tmp_path, raising=False)

    def commit(name, text, message, part="00-toy"):
        """Commit a change to a file of linux/, at the end of a part."""
        (t.linux / name).write_text(text)
        sh("git", "add", name, cwd=t.linux)
        sh("git", "-c", "user.name=T", "-c", "user.email=t@example.org",
           "commit", "-q", "-m", message, cwd=t.linux)
        if part:
            sh("git", "branch", "-q", "-f", f"part/{part}", cwd=t.linux)
    t.commit = commit
    return t


@pytest.fixture
def guest_vm(monkeypatch, tmp_path):
    """run_job() as a function of a shell script, which it runs in place of
    QEMU: $rec is the file of records, $qmp QMP's socket."""
    monkeypatch.setattr(boot, "OUT", tmp_path)
    monkeypatch.setattr(boot.guest, "rootfs", lambda *a: None)
    monkeypatch.setattr(boot.guest, "lab_disk", lambda a: None)
    monkeypatch.setattr(vm, "qemu_version", lambda a: "10")

    def run_job(script, m=vm.topology("q35", 2), **kw):
        monkeypatch.setattr(vm, "command", lambda *a: [
            "sh", "-c", f"rec={a[5]} qmp={a[6]}; {script}"])
        kw.setdefault("limit", 20)
        return boot.run_job(m, tmp_path, "", name="vm", **kw)
    return run_job


class Rep:
    """What a check says: a list of (name, ok)."""

    def __init__(self):
        self.said = []

    def add(self, name, ok, detail=""):
        self.said.append((name, bool(ok)))


@pytest.fixture
def gives(monkeypatch, tmp_path):
    """A function that runs check() of a module which installs and builds
    nothing, and returns what it says."""
    def run(module, *args):
        for name in "install", "need_space":
            monkeypatch.setattr(module, name, lambda *a: None,
                                raising=False)
        monkeypatch.setenv("CPUHP_CACHE", str(tmp_path / "cache"))
        for name, value in (("build", tmp_path), ("wanted_commit", "c"),
                            ("checkout", tmp_path)):
            monkeypatch.setattr(module.kernels, name,
                                lambda *a, v=value, **kw: v)
        rep = Rep()
        module.check(rep, *args)
        return rep.said
    return run
