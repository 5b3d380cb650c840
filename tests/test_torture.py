# SPDX-License-Identifier: GPL-2.0
"""What 'make torture' decides by itself: the plan, and who has passed."""

import subprocess

import pytest

from lab import torture
from lab.common import ARCHES, LabError

GOOD = """TAP version 13
# SEED=2, 20 s
1..2
ok 1 consistent before
# 10 rounds: 300 writes together, 40 alone, 51 checks, 21 s
ok 2 what is read is what is there # SKIP no read-only disk
"""


def test_the_seed_decides_about_everything():
    for arch in ARCHES:
        once = [torture.plan(7, n, arch) for n in range(24)]
        assert once == [torture.plan(7, n, arch) for n in range(24)]
        assert once != [torture.plan(8, n, arch) for n in range(24)]
        assert {p["what"] for p in once} == set(torture.TURNS)
        assert {p["accel"] for p in once} == {"icount", "mttcg"}
        assert all(p["threads"] > 1 for p in once if p["what"] == "smt")


def test_a_kernel_test_is_told_when_to_end():
    for p in (torture.plan(1, n, "ppc64le", slow=True) for n in range(30)):
        if p["what"] in torture.KERNEL:
            assert f"{p['what']}.shutdown_secs={p['seconds']}" in p["append"]
            assert f"{p['what']}.onoff_interval=" in p["append"]
        else:
            assert not p["append"]


@pytest.mark.parametrize("job", [torture.JOB_STRESS, torture.JOB_SMT,
                                 torture.JOB_WAIT, torture.JOB_LISTS])
def test_jobs_are_bash(job):
    text = job % torture.plan(1, 0, "x86_64")
    assert not subprocess.run(["bash", "-n"], input=text, text=True,
                              capture_output=True).stderr
    assert "%" not in text.replace("RANDOM %", "")


def test_the_end_of_a_kernel_test():
    ok = "x\n[ 9] rcu-torture:--- End of test: SUCCESS: nreaders=7\n"
    hot = ok.replace("SUCCESS", "RCU_HOTPLUG")
    assert torture.judge_kernel(ok, False) == ""
    assert "RCU_HOTPLUG" in torture.judge_kernel(hot, False)
    assert torture.judge_kernel(hot, True) == ""
    assert "FAILURE" in torture.judge_kernel(
        ok.replace("SUCCESS", "FAILURE"), True)
    assert "no 'End" in torture.judge_kernel("", True)


def test_the_result_of_the_stress_test():
    assert torture.judge_stress(GOOD) == ""
    bad = GOOD.replace("ok 1", "# irqs are wrong in round 4; online: 0\n"
                       "not ok 1")
    assert "consistent before" in torture.judge_stress(bad)
    assert "irqs are wrong in round 4" in torture.judge_stress(bad)
    assert torture.judge_stress("")


def test_numbers_are_needed():
    with pytest.raises(LabError, match="MINUTES=x"):
        torture.main("x", ["x86_64"])
