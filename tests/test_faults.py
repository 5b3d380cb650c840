# SPDX-License-Identifier: GPL-2.0
"""Deliberate faults in real guests: each must turn a run red."""

import pytest

from lab import boot, check, kernels, machine
from lab.common import LabError


@pytest.fixture(scope="module")
def image():
    return kernels.build("patched", "x86_64")


def run(image, job, **kw):
    m = machine.topology("q35", 2)
    kw.setdefault("limit", 120)
    return boot.run_job(m, image, job, name="fault", expect_crash=True, **kw)


def test_a_quiet_job_passes(image):
    r = run(image, "echo hello; emit note answer 42\n")
    assert r.status == 0 and r.output() == "hello\n"
    assert r.of("note") == [{"t": "note", "answer": "42"}]
    assert not r.splats


def test_a_warning_fails(image):
    with pytest.raises(boot.BootFailed, match="WARNING") as e:
        run(image, "echo WARNING > /sys/kernel/debug/provoke-crash/DIRECT\n")
    around = "\n".join(e.value.result.splats[0])
    assert "lkdtm" in around


def test_a_panic_fails(image):
    with pytest.raises(boot.BootFailed, match="panic|crash"):
        run(image, "echo c > /proc/sysrq-trigger\n")


def test_a_hang_fails(image):
    with pytest.raises(boot.BootFailed, match="hung: not finished after 30"):
        run(image, "labctl now; while :; do :; done\n", limit=30)


def test_a_failing_job_and_an_early_end_are_seen(image):
    assert run(image, "exit 3\n").status == 3
    with pytest.raises(boot.BootFailed, match="ended early"):
        run(image, "labctl poweroff\n")


def test_a_job_that_gives_up_says_why(image):
    with pytest.raises(boot.BootFailed, match="no such thing"):
        run(image, 'die "no such thing"\n')


def test_an_unknown_counted_function_is_an_error_not_a_zero(image):
    with pytest.raises(boot.BootFailed, match="no traceable function"):
        run(image, "COUNTED_MORE=no_such_function; counted x base true\n")


def test_a_failing_selftest_fails(image):
    """A selftest that fails in the guest, through the kernel's runner and
    the lab's reading of it."""
    r = run(image, """
cp -r /lab/kselftest /tmp/k
cat > /tmp/k/cpu-hotplug/cpu-on-off-test.sh <<'X'
#!/bin/bash
echo "TAP version 13"; echo "1..2"; echo "ok 1 fine"; echo "not ok 2 broken"
exit 1
X
cd /tmp/k && ./run_kselftest.sh -t cpu-hotplug:cpu-on-off-test.sh | cat > /tmp/o
file kselftest /tmp/o
""")
    rep = check.Report()
    check.add_ktap(rep, "vm", r.files["kselftest"].decode(), "kselftest")
    assert rep.passed == 1 and rep.failed >= 1


def test_qmp_reaches_the_guest(image):
    """device_add and device_del, as DLPAR tests use them."""
    seen = []

    def host(q, records):
        seen.append(q.execute("query-status")["status"])
        with pytest.raises(LabError, match="refuses"):
            q.execute("device_del", {"id": "nothing"})
        seen.append("refused")

    run(image, "sleep 1\n", host=host)
    assert seen == ["running", "refused"]
