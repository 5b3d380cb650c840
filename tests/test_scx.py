# SPDX-License-Identifier: GPL-2.0
"""What 'make scx' decides without a compiler or QEMU."""

import pytest

from lab import boot, scx

PASSED = """===== START =====
TEST: hotplug
OUTPUT:
EXIT: unregistered from BPF (hotplug event detected (1 going online))
ok 1 hotplug # 
=====  END  =====
ok 2 hotplug_list # 
state: disabled
"""


def test_both_tests_have_to_pass():
    assert [(n, ok) for n, ok, _ in scx.told(PASSED)] == [
        ("hotplug", True), ("hotplug_list", True),
        ("no scheduler is left", True)]


@pytest.mark.parametrize("old,new,which", [
    ("ok 1", "not ok 1", "hotplug"),
    ("hotplug_list # ", "hotplug_list # SKIP", "hotplug_list"),
    ("ok 2 hotplug_list", "", "hotplug_list"),
    ("disabled", "enabled", "no scheduler is left")])
def test_what_fails(old, new, which):
    assert [n for n, ok, _ in scx.told(PASSED.replace(old, new))
            if not ok] == [which]


@pytest.mark.parametrize("breaks", [True, False])
def test_a_boot_gives_a_result_for_each_test(gives, monkeypatch, breaks):
    result, jobs = boot.Result(), []
    result.files["output"], result.status = PASSED.encode(), 0

    def run_job(m, image, job, **kw):
        jobs.append((m.disks[0][0], job))
        if breaks:
            raise boot.BootFailed("the kernel complained", result)
        return result
    monkeypatch.setattr(boot, "run_job", run_job)
    monkeypatch.setattr(scx, "runner", lambda image, tmp: tmp / "runner")
    said = gives(scx)
    assert [ok for _, ok in said] == [not breaks, True, True, True]
    assert jobs[0][0] == "runner" and "-t hotplug" in jobs[0][1]
