# SPDX-License-Identifier: GPL-2.0
"""Boots with a shell script in QEMU's place."""

import contextlib
import pathlib
import re
import threading
import time

import pytest

from lab import boot, common, console, vm
from lab.common import LabError


@pytest.mark.parametrize("error", [KeyboardInterrupt, LabError])
def test_a_guest_that_starts_late_is_ended_too(monkeypatch, error):
    """One call fails while another has not come to its program yet."""
    def late():
        time.sleep(0.5)
        common.run(["sleep", "30"])

    def fail():
        raise error
    monkeypatch.setattr(common, "ending", threading.Event())
    t0 = time.monotonic()
    with pytest.raises(error):
        boot.side_by_side(lambda f: f(), [(late,), (fail,), (late,)], 2)
    assert time.monotonic() - t0 < 15
    # what others do after an error is no end of the lab
    assert common.ending.is_set() == (error is KeyboardInterrupt)


@pytest.mark.parametrize("socket", ["touch $qmp", "true"])
def test_a_host_side_without_qemu_is_no_hang(guest_vm, monkeypatch, socket):
    pause = time.sleep
    monkeypatch.setattr(boot.time, "sleep", lambda s: pause(s / 10))
    with pytest.raises(LabError, match="QEMU does not answer") as e:
        guest_vm(f"{socket}; sleep 60", host=lambda q, records: None)
    assert not isinstance(e.value, boot.BootFailed)


def test_what_ends_qemu_is_told_not_what_its_host_side_makes_of_it(guest_vm):
    with pytest.raises(boot.BootFailed, match="ended early .QEMU status 7") as e:
        guest_vm("echo bad option; exit 7", host=lambda q, records: None)
    assert e.value.lines() == ["   | bad option"]


REGISTERS = """
CPU#{n}
NIP c00000000000{nip}   LR c0000000000c34d0 CTR 0 XER 0000000000000004 CPU#{n}
MSR 800000000000{msr} HID0 0000000000000000  HF 2400003d iidx 1 didx 1
"""


@pytest.mark.parametrize("m, told", [
    (vm.topology("pseries", 4, accel="mttcg"), "CPU 2: a doorbell came"),
    (vm.topology("pseries", 4), None)])
def test_a_hang_tells_of_a_doorbell_that_woke_nobody(guest_vm, monkeypatch, m,
                                                     told):
    """CPUs 0 and 1 only pass there, 3 has interrupts on."""
    where = [["4a00", "1031"], ["4a00", "1031"], ["4a00", "1031"],
             ["4a00", "9031"]]

    class Monitor:
        def __init__(self, path):
            pass

        def execute(self, cmd, args):
            text = "".join(REGISTERS.format(n=n, nip=nip, msr=msr)
                           for n, (nip, msr) in enumerate(where))
            where[0][0], where[1][0] = "c398", "4a04"
            return text.replace("\n", "\r\n")

        def close(self):
            pass
    monkeypatch.setattr(boot, "Qmp", Monitor)
    with pytest.raises(boot.BootFailed, match="hung") as e:
        guest_vm("sleep 60", m=m, limit=1)
    assert [told] * bool(told) == re.findall("CPU .*a doorbell came",
                                             str(e.value))


def test_a_guest_that_hangs_is_asked_what_it_does(guest_vm):
    """What it says then is no complaint of its own."""
    with pytest.raises(boot.BootFailed, match="hung: .* SysRq w and l") as e:
        guest_vm("head -c 4 | od -An -tx1; echo 'BUG: me'; sleep 60",
                 m=vm.topology("pseries", 4), limit=1)
    said = e.value.result
    assert " 0f 77 0f 6c\nBUG: me\n" in said.console and not said.splats


END = """echo '{"t": "end", "status": "0"}' >> $rec;"""


def test_what_the_host_side_finds_in_the_end_is_not_lost(guest_vm, monkeypatch):
    def host(q, records):
        while not records():
            time.sleep(0.1)
        raise LabError("it is not as it should be")
    monkeypatch.setattr(boot, "Qmp", lambda path: contextlib.ExitStack())
    with pytest.raises(LabError, match="not as it should be"):
        guest_vm("touch $qmp; sleep 1;" + END, host=host)


def test_what_is_no_record_is_left_out(guest_vm):
    lines = ("1", "null", "[]", '"t"', "{}", '{"t": "file"}', '{"t": "fi',
             '{"t": "file", "name": "a", "base64": 1}',
             '{"t": "file", "name": "b", "base64": "eA=="}', '{"t": "note"}')
    r = guest_vm("".join(f"echo '{x}' >> $rec;" for x in lines)
           + END)
    assert r.files == {"b": b"x"} and r.of("note") == [{"t": "note"}]
    assert [x["t"] for x in r.records] == ["note", "end"]


@pytest.mark.parametrize("script, says", [
    (END, "vm: console: .*vm.log, which is not whole: .*No space left"),
    ("echo 'BUG: no'; sleep 60", "complained: BUG: no.* not whole"),
    ("yes | head -c 200000;", "ended early .* not whole")])
def test_a_full_disk_hides_nothing_of_a_guest(guest_vm, tmp_path, monkeypatch,
                                              capsys, script, says):
    (tmp_path / "console").mkdir()
    (tmp_path / "console" / "vm.log").symlink_to("/dev/full")
    monkeypatch.setattr(boot, "_AFTER_SPLAT", 1)
    with pytest.raises(boot.BootFailed, match=says) as e:
        guest_vm("echo hello; " + script)
    assert e.value.result.console.startswith("hello\n")
    assert not e.value.result.timed_out and e.value.result.log_error


SPLAT = "echo 'WARNING: kernel/x.c:1 at f'; sleep 1;"


def test_a_splat_ends_a_boot_unless_it_is_expected(guest_vm, monkeypatch):
    monkeypatch.setattr(boot, "_AFTER_SPLAT", 0.5)
    t0 = time.monotonic()
    with pytest.raises(boot.BootFailed, match="WARNING: kernel/x.c:1") as e:
        guest_vm(SPLAT + "sleep 60;" + END)
    assert time.monotonic() - t0 < 20
    assert any("WARNING" in x for x in e.value.lines())
    assert not guest_vm(SPLAT + END, splats=console.Splats("WARNING")).splats
    with pytest.raises(boot.BootFailed, match="no second kernel"):
        guest_vm(SPLAT + END, splats=console.Splats(crash=True))
    guest_vm(SPLAT + "echo Linux version 2;" + END,
             splats=console.Splats(crash=True))


def test_a_job_knows_its_machine_and_disks(tmp_path, monkeypatch):
    """CPUS, THREADS and SIZE; a file is padded, one of the image may be meant."""
    (tmp_path / "kernel").write_bytes(b"12345")
    args = []
    monkeypatch.setattr(boot.guest, "rootfs", lambda *a: None)
    monkeypatch.setattr(boot.guest, "lab_disk", lambda a: None)
    monkeypatch.setattr(vm, "command", lambda *a: args.append(a) or ["true"])
    m = vm.topology("q35", 4).with_disk("next", pathlib.Path("kernel")) \
        .with_disk("zeros", "size=4096")
    for machine, size in ((m, 5), (m.with_disk("swap", 8192), 8192)):
        tmp = tmp_path / str(size)
        tmp.mkdir()
        boot.Guest(machine, tmp_path, "echo", "x", tmp, "", console.Splats())
        assert (tmp / "job").read_bytes().startswith(
            f"CPUS=4\nTHREADS=2\nSIZE={size}\necho\n\n".encode())
        assert (tmp / "next").read_bytes() == b"12345" + 4091 * b"\0"
        assert args[-1][0].disks[1] == ("zeros", "size=4096", "")
    assert (tmp / "swap").stat().st_size == 8192
