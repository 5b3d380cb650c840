# SPDX-License-Identifier: GPL-2.0
"""What of a console makes a run fail."""

import pytest

from lab import console


@pytest.mark.parametrize("line", [
    "[    1.0] Kernel panic - not syncing: Attempted to kill init!",
    "[    1.0] WARNING: CPU: 0 PID: 1 at kernel/cpu.c:1 foo+0x1/0x2",
    "[    1.0] WARNING: kernel/cpu.c:1 at foo+0x1/0x2, CPU#0: bash/1",
    "[    1.0] WARNING: possible circular locking dependency detected",
    "[    1.0] WARNING: suspicious RCU usage",
    "[    1.0] BUG: sleeping function called from invalid context at x.c:1",
    "[    1.0] BUG: KASAN: slab-use-after-free in foo",
    "[    1.0] BUG: KCSAN: data-race in foo / bar",
    "[    1.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    "[    1.0] rcu: INFO: rcu_sched self-detected stall on CPU",
    "[    1.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s!",
    "[    1.0] INFO: task bash:77 blocked for more than 122 seconds.",
    "[    1.0] Oops: Kernel access of bad area, sig: 11 [#1]",
    "[    1.0] ODEBUG: free active (active state 0) object: 0",
    "[    1.0] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks",
    "[    1.0] CPU7 didn't die...", "[    1.0] Processor 3 is stuck.",
    "[    1.0] watchdog: CPU 3 self-detected hard LOCKUP @ foo",
    "[    1.0] BUG: Unable to handle kernel data access at 0x0"])
def test_console_sees(line):
    assert console.is_bad(line)
    text = "a\nb\nc\nd\n" + line + "\nx\ny\n"
    assert console.splats(text)[0][:5] == ["b", "c", "d", line, "x"]


def test_known_data_races_are_no_splat_but_others_are():
    rule = "[    1.0] " + 66 * "="
    race = [rule, "[    1.0] BUG: KCSAN: data-race in set_nlink / set_nlink",
            "[    1.0] write to 0xff of 4 bytes by task 1 on cpu 1:", rule]
    assert not console.splats("\n".join(["a", *race, "b"]))
    mine = [x.replace("/ set_nlink", "/ cpuhp_batch_down") for x in race]
    assert len(console.splats("\n".join([*race, *mine, "b"]))) == 1
    # a report which is cut off, and a splat after one that is known
    assert console.splats("\n".join(race[:3]))
    assert console.splats("\n".join([*race, "WARNING: kernel/x.c:1"]))


@pytest.mark.parametrize("line", [
    "[    1.0] smpboot: CPU 3 is now offline", "[    1.0] Call me",
    "[    1.0] rcu: Hierarchical RCU implementation.",
    "[    1.0] Spectre V2 : WARNING: Unprivileged eBPF is enabled"])
def test_console_stays_quiet(line):
    assert not console.is_bad(line)


PANIC = "Linux version 1\nKernel panic - not syncing: sysrq\n"


@pytest.mark.parametrize("text, good", [
    (PANIC + "Linux version 1\nall is well\n", True), ("nothing", False),
    (PANIC + "Linux version 1\nBUG: no\n", False)])
def test_only_the_crash_may_complain(text, good):
    crash = console.Splats(crash=True)
    assert not crash.ends("Kernel panic - not syncing: sysrq")
    assert (crash.of(text) == []) == good
    assert console.Splats().of(PANIC) and console.Splats().ends(
        "Kernel panic - not syncing: sysrq")


def test_what_is_expected_is_no_failure():
    late = "[   10.1] CPU3 failed to report alive state\n"
    expected = console.Splats("failed to report alive state")
    assert not expected.of(late) and not expected.ends(late)
    assert expected.of(late + "BUG: no\n") and expected.ends("BUG: no")
    assert console.Splats().of(late)
