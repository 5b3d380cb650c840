# SPDX-License-Identifier: GPL-2.0
"""What 'make scx' decides without a compiler or QEMU."""

import pytest

from lab import scx

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
