# SPDX-License-Identifier: GPL-2.0
"""Files and processes."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from conftest import TOP
from lab import common
from lab.common import LabError


def test_fresh_dir_appears_whole_or_not_at_all(tmp_path):
    d = tmp_path / "d"
    with pytest.raises(KeyboardInterrupt):
        with common.fresh_dir(d) as t:
            (t / "half").write_text("x")
            raise KeyboardInterrupt
    assert not d.exists() and not list(tmp_path.iterdir())
    with common.fresh_dir(d) as t:
        (t / "whole").write_text("1")
    with pytest.raises(ValueError):
        with common.fresh_dir(d) as t:
            raise ValueError
    assert (d / "whole").read_text() == "1"


def test_fresh_dir_interrupted_between_two_renames_keeps_the_old_one(
        tmp_path, monkeypatch):
    d, real = tmp_path / "d", os.replace
    with common.fresh_dir(d) as t:
        (t / "old").touch()

    def replace(a, b):
        if b == d and str(a).endswith(".part"):
            raise KeyboardInterrupt
        real(a, b)
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        with common.fresh_dir(d) as t:
            (t / "new").touch()
    assert [p.name for p in tmp_path.rglob("*")] == ["d", "old"]


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "d" / "full").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        common.write_atomic(tmp_path / "d", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_disk_full_is_said_before_it_happens(tmp_path):
    with pytest.raises(LabError, match="CPUHP_CACHE"):
        common.need_space(tmp_path, 10**9, "a test")


def test_disk_full_is_said_when_it_happens(tmp_path):
    full = "import sys; sys.exit('cp: error: No space left on device')"
    with pytest.raises(LabError, match="disk of .* is full"):
        common.run([sys.executable, "-c", full])
    with pytest.raises(LabError, match="disk of here is full .*git add"):
        common.disk_full("fatal: sha1 file '<stdout>' write error. Out of "
                         "diskspace", "git add", "here")
    common.disk_full("fatal: bad object", "git add", "here")


def test_what_is_wrong_with_the_machine_is_another_error():
    assert issubclass(common.DiskFull, common.HostError)
    with pytest.raises(common.HostError, match="no program nix; run 'make d"):
        common.run(["nix"])
    with pytest.raises(common.DiskFull):
        common.need_space("/", 10**9, "a test")


def test_run_tells_the_command_and_ends_it():
    with pytest.raises(LabError, match="'false' failed with status 1"):
        common.run(["false"])
    with pytest.raises(TimeoutError):
        common.run(["sleep", "60"], limit=0.3)


def test_a_full_disk_stops_no_program_that_has_a_log():
    """It says more than fits into a pipe."""
    say = [sys.executable, "-c", "print('x\\n' * 99999)"]
    with pytest.raises(LabError, match="disk of /dev/full is full"):
        common.run(say, log="/dev/full", limit=20)


def test_interrupt_ends_children_and_leaves_nothing(tmp_path):
    code = ("import sys; sys.path.insert(0, %r)\n"
            "from lab import common\n"
            "with common.fresh_dir(%r) as t:\n"
            "    (t / 'half').write_text('x')\n"
            "    print('ready', flush=True)\n"
            "    common.run(['sleep', '987'])\n") % (
                str(TOP), str(tmp_path / "image"))
    # a shell's background job, which this may run in, ignores SIGINT
    p = subprocess.Popen([sys.executable, "-c", code], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=lambda: signal.signal(signal.SIGINT,
                                                          signal.SIG_DFL))
    assert p.stdout.readline() == "ready\n"
    time.sleep(0.3)
    kids = subprocess.run(["pgrep", "-P", str(p.pid)], text=True,
                          capture_output=True).stdout.split()
    assert kids
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=20)
    assert not list(tmp_path.iterdir())
    assert not any(pathlib.Path(f"/proc/{k}").exists() for k in kids)


def test_who_waits_for_a_lock_can_be_ended(tmp_path, monkeypatch):
    """In a thread, which no signal interrupts."""
    monkeypatch.setenv("CPUHP_CACHE", str(tmp_path))
    monkeypatch.setattr(common, "ending", threading.Event())
    got = []

    def wait():
        try:
            with common.locked("x"):
                got.append("the lock")
        except KeyboardInterrupt:
            got.append("ended")
    threads = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    with common.locked("x"):
        threads[0].start()
        time.sleep(0.2)
        common.ending.set()
        threads[0].join(5)
    assert got == ["ended"]
    common.ending.clear()
    with common.locked("x"):
        threads[1].start()
        time.sleep(0.2)
    threads[1].join(5)
    assert got == ["ended", "the lock"]


def test_a_port_that_there_is_not_and_a_command_without_ports(monkeypatch):
    common.check_port("tree")                   # none is asked for
    monkeypatch.setattr(common, "PORT", "6.13")
    with pytest.raises(LabError, match=r"no port PORT=6\.13; use one of: 6\."):
        common.check_port("tree")
    monkeypatch.setattr(common, "PORT", "6.12")
    common.check_port("tree")
    with pytest.raises(LabError, match="'make record' does not take PORT="):
        common.check_port("record")


def test_a_port_is_a_tree_and_a_base_of_its_own():
    out = subprocess.run(
        [sys.executable, "-c", "from lab import common, kernels, source\n"
         "print(common.LINUX.name, common.PATCHES.name, source.WANT, "
         "source.SUITES, kernels.slot('base').name)"], cwd=TOP,
        env={**os.environ, "PORT": "6.12"}, text=True, check=True,
        capture_output=True).stdout
    assert out == "linux-6.12 6.12 (6, 12) ('trixie',) base-6.12\n"
