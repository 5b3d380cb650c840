# SPDX-License-Identifier: GPL-2.0
"""What 'make foreign' decides without a compiler or QEMU."""

import pytest

from lab import foreign

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


def test_a_boot_that_hangs_is_ended_and_told(monkeypatch, tmp_path):
    qemu = ("sh", "-c", "echo lab: booted: 0-7; exec sleep 60", "--")
    f = foreign.Foreign(foreign.FOREIGN[0].config, (), "", qemu, "ttyS0")
    monkeypatch.setattr(foreign, "OUT", tmp_path)
    monkeypatch.setattr(foreign, "LIMIT", 1)
    bad = foreign.boot_one(f, "Image", "maxcpus=2")
    assert "not done in 1 s" in bad and "booted: 0-7" in bad
