# SPDX-License-Identifier: GPL-2.0
"""What is made once and kept: kernels, guests."""

import os
import subprocess
import time

import pytest

from conftest import TOP
from lab import common, guest, kernels, source
from lab.common import LabError


@pytest.mark.parametrize("said, says", [
    ("Err:1 Could not resolve 'deb.example.org'", "cannot be reached"),
    ("E: Unable to locate package nix", "status 7"),
    ("tar: write error: No space left on device", "is full")])
def test_why_no_guest_was_made(monkeypatch, tmp_path, said, says):
    fake = tmp_path / "mmdebstrap"
    fake.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 7\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CPUHP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(LabError, match=says) as e:
        guest._mmdebstrap("x86_64", "bookworm")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("name, text, cached", [
    ("a.c", "int x;", True), ("a.S", "nop", False),
    ("b.c", 'asm(".incbin \\"config\\"");', False)])
def test_what_takes_in_other_files_is_not_cached(tmp_path, name, text, cached):
    for tool in "ccache", "gcc":
        f = tmp_path / tool
        f.write_text(f"#!/bin/sh\necho {tool} $*\n")
        f.chmod(0o755)
    src = tmp_path / name
    src.write_text(text)
    out = subprocess.check_output(
        ["cc.sh", "gcc", "-c", src], text=True,
        env={"PATH": f"{tmp_path}:{TOP / 'lab'}:{os.environ['PATH']}"})
    assert out == ("ccache " if cached else "") + f"gcc -c {src}\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("CPUHP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def aged(path, days):
    """As if it had last been used so many days ago."""
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def test_what_nobody_uses_is_pruned(tmp_path):
    for name, days in (("old", 15), ("kept", 15), ("new", 13)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
        (tmp_path / f"{name}.img").touch()
        aged(tmp_path / name, days)
        aged(tmp_path / f"{name}.img", days)
    common.prune(tmp_path, tmp_path / "kept")
    assert {p.name for p in tmp_path.iterdir()} == {"kept", "new", "new.img"}


def test_an_image_in_use_is_not_pruned(cache, monkeypatch, capsys):
    """Made long ago and found up to date: the images that are made next leave
    it where it is."""
    for name, value in (("wanted_commit", "c"), ("tree_of", "t"),
                        ("build_key", "key")):
        monkeypatch.setattr(kernels, name, lambda *a, v=value: v)
    used, other = (kernels.image_dir("patched", "x86_64", p, "key")
                   for p in ("", "debug"))
    for d in used, other:
        d.mkdir(parents=True)
        (d / "meta.json").write_text('{"key": "key", "release": "7"}')
        (d / "sources").touch()
        aged(d, 20)
    assert kernels.build("patched", "x86_64") == used
    common.prune(used.parent, None)
    assert used.exists() and not other.exists()


@pytest.mark.parametrize("make, name", [
    (guest.rootfs, "root"), (guest.lab_disk, "lab")])
def test_clones_leave_each_other_their_disks(cache, monkeypatch, capsys, make,
                                             name):
    """Two clones want different disks of one cache."""
    def run(cmd, **kw):
        for x in cmd:
            if str(x).endswith(".squashfs"):
                x.touch()
    monkeypatch.setattr(guest, "run", run)
    monkeypatch.setattr(guest, "_check_unshare", lambda: None)
    monkeypatch.setattr(guest, "_mirror", lambda: "")
    monkeypatch.setattr(guest, "_mmdebstrap", lambda arch, *a: a[-2].touch())
    monkeypatch.setattr(guest, "git", lambda *a, **k: "")
    monkeypatch.setattr(kernels, "wanted_commit", lambda v: "c")
    monkeypatch.setattr(kernels, "compiler", lambda a: "cc")
    keys = iter(("mine", "theirs", "mine", "new"))
    monkeypatch.setattr(guest, "digest", lambda *a: next(keys))
    mine, theirs = make("x86_64"), make("x86_64")
    assert mine.exists() and theirs.exists()
    aged(mine, 20)
    aged(theirs, 20)
    assert make("x86_64") == mine
    make("x86_64")
    assert {p.name for p in (cache / "guest").iterdir()} == {
        f"{name}-x86_64-{k}.squashfs" for k in ("mine", "new")}


def test_a_release_out_of_step_is_passed_over(capsys):
    tried = []

    def unpack(suite):
        tried.append(suite)
        if suite != "good":
            raise LabError("mirror sync in progress?")
    assert guest._first_of(("bad", "good", "newer"), unpack) == "good"
    assert tried == ["bad", "good"]
    assert "Debian bad: mirror sync" in capsys.readouterr().err
    with pytest.raises(LabError, match="mirror sync"):
        guest._first_of(("bad", "worse"), unpack)


def test_on_a_full_disk_nothing_else_is_tried():
    tried = []

    def unpack(suite):
        tried.append(suite)
        raise common.DiskFull("the disk of x is full")
    for call in (lambda: guest._first_of(("one", "two"), unpack),
                 lambda: source._try("x", unpack, "three")):
        with pytest.raises(common.DiskFull):
            call()
    assert tried == ["one", "three"]
