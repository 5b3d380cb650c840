# SPDX-License-Identifier: GPL-2.0
"""What 'make foreign' decides without a compiler or QEMU."""

import pytest

from lab import foreign
from lab.common import LabError

PASSED = "Run /init as init process\r\nlab: booted: 0-7\r\nlab: passed\r\n"


def test_a_boot_passes_if_init_says_so_and_the_kernel_says_nothing_bad():
    assert foreign.told(PASSED) == ""


@pytest.mark.parametrize("text,why", [
    ("Run /init as init process\nlab: booted: 0-7\n", "booted: 0-7"),
    ("lab: 0-6 are online, not 0-7\nlab: failed\n", "0-6 are online"),
    ("VFS: Unable to mount root fs\n", "init did not start"),
    (PASSED + "WARNING: CPU: 1 PID: 2 at kernel/cpu.c:1 f+0x1/0x2\n",
     "kernel/cpu.c:1"),
])
def test_why_a_boot_does_not_pass(text, why):
    assert why in foreign.told(text)


def test_a_late_cpu_is_expected_where_it_was_asked_for():
    text = "CPU3 failed to report alive state\n" + PASSED
    assert "alive" in foreign.told(text)
    assert foreign.told(text, late=True) == ""
    assert foreign.told(text.replace("CPU3", "CPU4"), late=True) != ""


def test_a_boot_that_hangs_is_ended_and_told(monkeypatch, tmp_path):
    qemu = ("sh", "-c", "echo lab: booted: 0-7; exec sleep 60", "--")
    f = foreign.Foreign(foreign.FOREIGN[0].config, (), "", qemu, "ttyS0")
    monkeypatch.setattr(foreign, "OUT", tmp_path)
    monkeypatch.setattr(foreign, "LIMIT", 1)
    bad, text = foreign.boot_one(f, "Image", "maxcpus=2")
    assert "not done in 1 s" in bad and "booted: 0-7" in bad
    assert text == "lab: booted: 0-7\n"


OFF, ON = "stop_machine_cpuslocked", "build_sched_domains"
LIMITS = ({OFF: 0, ON: 1}, {ON: 1})


@pytest.mark.parametrize("text, bad", [
    (f"lab: count offline {OFF}=0 {ON}=1 us=50\r\n"
     f"lab: count online {OFF}=0 {ON}=1 us=50\r\nlab: passed\r\n", ""),
    (f"lab: count offline {OFF}=7 {ON}=1 us=5\n"
     f"lab: count online {OFF}=0 {ON}=7 us=5\n",
     f"offline: {OFF} 7 times, not 0, online: {ON} 7 times, not 1"),
    (f"lab: count offline {OFF}=0 {ON}=1 us=5\n", "it has not counted"),
])
def test_what_is_called_too_often_is_told(text, bad):
    assert foreign.too_many(foreign.counts(text), LIMITS) == bad


def test_the_base_may_call_as_often_as_it_does(gives, monkeypatch, tmp_path):
    class Build:
        out = tmp_path / "o"

        def __init__(self, f, src):
            pass

        def kernel(self):
            return "Image"
    monkeypatch.setattr(foreign, "Build", Build)
    monkeypatch.setattr(foreign, "boot_one", lambda *a: (
        "", f"lab: count offline {OFF}=7\nlab: count online {OFF}=7\n"))
    f = foreign.Foreign(foreign.FOREIGN[0].config, (), "", (), "ttyS0",
                        limits=({OFF: 0}, {OFF: 9}))
    assert [ok for _, ok in gives(foreign, f)] == [True, True, True, False]


@pytest.mark.parametrize("why, n", [("", 9), ("a warning", 1)])
def test_a_kernel_gives_a_result_for_each_boot(gives, monkeypatch, tmp_path,
                                               why, n):
    class Build:
        out = tmp_path / "o"

        def __init__(self, f, src):
            pass

        def kernel(self):
            if why:
                raise LabError(why)
    monkeypatch.setattr(foreign, "Build", Build)
    monkeypatch.setattr(foreign, "boot_one",
                        lambda f, image, x, more: (
                            "no" if "batch" in x else "", ""))
    said = gives(foreign, foreign.FOREIGN[0])
    assert len(said) == n and said[0][1] == (not why)
    assert [x for x, ok in said[1:] if not ok] == [
        "riscv64-small: CPUs go and come: cpuhp.batch=1"][:n - 1]
