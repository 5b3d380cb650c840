# SPDX-License-Identifier: GPL-2.0
"""Deliberate faults in real guests: each must turn a run red."""

import sys
import time

import pexpect
import pytest

from conftest import TOP
from lab import boot, judge, kernels, vm
from lab.common import LabError


@pytest.fixture(scope="module")
def image():
    return kernels.build("patched", "x86_64")


def run(image, job, **kw):
    m = vm.topology("q35", 2)
    kw.setdefault("limit", 120)
    return boot.run_job(m, image, job, name="fault", **kw)


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
    said = [ok for _, ok, _ in judge.ktaps("vm", r, "kselftest")]
    assert said.count(True) == 1 and said.count(False) >= 1


def test_qmp_plugs_a_core_in_and_out():
    """device_add and device_del of a pseries core, which the kernel brings
    online and takes offline by itself (DLPAR)."""
    m = vm.topology("pseries", 8, accel="mttcg", spare=1)
    name = "power10_v2.0-spapr-cpu-core"

    def host(q, records):
        def wait_for(kind):
            for _ in range(1200):
                if any(r["t"] == kind for r in records()):
                    return
                time.sleep(0.1)
            raise LabError(f"no record '{kind}' came")
        with pytest.raises(LabError, match="refuses device_del"):
            q.execute("device_del", {"id": "nothing"})
        wait_for("ready")
        q.execute("device_add", {"driver": name, "core-id": 8, "id": "c1"})
        wait_for("added")
        q.execute("device_del", {"id": "c1"})
        wait_for("removed")

    r = boot.run_job(m, kernels.build("patched", "ppc64le"), """
wait_cpus() {
	for i in $(seq 600); do
		[ "$(cat $CPU/online)" = $1 ] && break
		sleep 0.1
	done
	emit $2 online "$(cat $CPU/online)"
}
emit ready
wait_cpus 0-15 added
wait_cpus 0-7 removed
""", name="fault-dlpar", limit=240, host=host)
    assert r.status == 0
    assert [x["online"] for x in r.of("added") + r.of("removed")] == [
        "0-15", "0-7"]


def test_an_exception_on_the_host_side_is_not_lost(image):
    def host(q, records):
        raise LabError("the host side is broken")
    with pytest.raises(LabError, match="host side is broken"):
        run(image, "sleep 1\n", host=host)


def test_the_shell_takes_what_is_typed(image):
    """'make shell' on a terminal: the guest answers, and 'exit' ends it."""
    c = pexpect.spawn(sys.executable, ["-m", "lab", "shell", "--arch",
                                       "x86_64", "--cpus", "4"],
                      cwd=TOP, timeout=120, encoding="utf-8")
    try:
        c.expect("CPUs 0-3")
        c.expect("[#$] ")
        c.sendline("echo 3 > /sys/devices/system/cpu/hotplug/offline; "
                   "echo left: $(nproc)")
        c.expect(r"left: 3\s")
        c.sendline("exit")
        c.expect(pexpect.EOF)
        c.close()
        assert c.exitstatus == 0
    finally:
        c.close(force=True)
