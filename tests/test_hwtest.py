# SPDX-License-Identifier: GPL-2.0
"""The kit of 'make hwtest' without a machine: what it refuses, and why; its cpio
archives, its report, and what the lab makes of one."""

import gzip
import json
import os
import shutil
import subprocess

import pytest

from lab import hwcheck, hwreport, hwtest
from lab.common import LabError

SHELLS = [s for s in ("dash", "bash") if shutil.which(s)]
STAGE = [
    {"t": "stage", "name": "base", "release": "7.3.4-base"},
    {"t": "sample", "op": "off", "treatment": "-", "cycle": "1",
     "ns": "9000000", "status": "0"},
    {"t": "sample", "op": "off", "treatment": "-", "cycle": "2",
     "ns": "7000000", "status": "0"},
    {"t": "sample", "op": "off", "treatment": "-", "cycle": "3",
     "ns": "1", "status": "1"},
    {"t": "sample", "op": "off", "treatment": "expedited", "cycle": "1",
     "ns": "3000000", "status": "0"},
    {"t": "counts", "op": "off", "treatment": "-", "status": "0",
     "synchronize_rcu_normal": "57", "synchronize_rcu_expedited": "2",
     "stop_machine_cpuslocked": "28", "build_sched_domains": "28"},
    {"t": "topology", "when": "boot", "sum": "abc"},
    {"t": "check", "name": "tlb", "ok": "1"},
    {"t": "check", "name": "hogs", "ok": "0", "detail": "a \"quoted\" word"},
    {"t": "skip", "name": "disks", "why": "no disk"}]
MACHINE = {"arch": "x86_64", "model": "Some CPU", "product": "Box 1",
           "virtual": "none", "present": "0-7", "nodes": "0", "cpus": "0-7",
           "memory_mb": "4000", "distribution": "Some 1"}
KIT = '{"arch": "x86_64", "patched": "7.3.4-patched", "tree": "0123456789ab"}'


@pytest.fixture
def kit_file(tmp_path):
    """A kit of three small files."""
    f = tmp_path / "some"
    f.write_text("some\n")
    kit = tmp_path / "kit.run"
    kit.write_bytes(hwtest.assemble(
        "x86_64", {"hwctl": f, "home.sh": f, "root.cpio.gz": f}, KIT))
    return kit


@pytest.fixture
def there(tmp_path):
    """Files of a machine on which the kit could run."""
    root = tmp_path / "machine"
    release = os.uname().release
    for name, text in {
            "proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 8000000 kB\n",
            "proc/cpuinfo": "model name\t: Some CPU\n",
            "proc/cmdline": "BOOT_IMAGE=/x root=/dev/sda1 console=ttyS0 quiet\n",
            "proc/sys/kernel/kexec_load_disabled": "0\n",
            "proc/77/comm": "bash\n",
            "etc/os-release": 'PRETTY_NAME="Some 1"\n',
            "sys/kernel/security/lockdown": "[none] integrity\n",
            "sys/devices/system/cpu/online": "0-7\n",
            "run/x": "", f"boot/vmlinuz-{release}": "k", f"boot/initrd.img-{release}": "i",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def start(kit, root, *args, shell="sh", uname="x86_64", uid="0"):
    """Run the kit where another machine's files are; (status, output)."""
    bin_ = root.parent / "bin"
    bin_.mkdir(exist_ok=True)
    for name, text in (("uname", f'[ "$1" != -m ] && exec /bin/uname "$@"\n'
                                 f"echo {uname}"),
                       ("id", f"echo {uid}")):
        (bin_ / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_ / name).chmod(0o755)
    p = subprocess.run([shell, kit, *args], text=True, capture_output=True,
                       env={"PATH": f"{bin_}:{os.environ['PATH']}",
                            "CPUHP_ROOT": str(root)})
    return p.returncode, p.stdout + p.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_without_yes_it_says_what_it_would_do(kit_file, there, shell):
    status, said = start(kit_file, there, shell=shell)
    assert status == 0 and "Nothing was changed" in said
    assert "base patched serial stop" in said and "0-7 online" in said


@pytest.mark.parametrize("change,said", [
    ({"uname": "aarch64"}, "take cpuhp-hwtest-aarch64.run"),
    ({"uid": "1000"}, "run it with sudo"),
    ({"rm": "proc/sys/kernel/kexec_load_disabled"}, "has no kexec"),
    ({"proc/sys/kernel/kexec_load_disabled": "1\n"}, "until the next boot"),
    ({"sys/kernel/security/lockdown": "none [integrity] x\n"}, "Secure Boot"),
    ({"proc/meminfo": "MemTotal: 9\nMemAvailable: 600000 kB\n"},
     "585 MiB of memory are free and"),
    ({"proc/77/comm": "qemu-system-x86\n"}, "shut them down first"),
    ({"rm": f"boot/initrd.img-{os.uname().release}"}, "name it with --initrd"),
    ({"rm": f"boot/vmlinuz-{os.uname().release}"}, "name it with --kernel")])
def test_a_machine_that_cannot_is_told_why(kit_file, there, change, said):
    kw = {k: change.pop(k) for k in ("uname", "uid") if k in change}
    if "rm" in change:
        (there / change.pop("rm")).unlink()
    for name, text in change.items():
        (there / name).write_text(text)
    status, out = start(kit_file, there, "--yes", **kw)
    assert status == 1 and said in out and out.startswith("error: "), out


@pytest.mark.parametrize("args,said", [
    (["--stages", "base best"], "there is no stage 'best'"),
    (["--limit", "long"], "--limit long: seconds"),
    (["--limit"], "--limit needs a value"),
    (["--fast"], "there is no option --fast")])
def test_bad_options(kit_file, there, args, said):
    status, out = start(kit_file, there, *args)
    assert status == 1 and said in out


def sh(script, *args, shell="sh"):
    """Run a script after lib.sh; its output, bytes."""
    return subprocess.run(
        [shell, "-c", f". {hwtest.SRC}/lib.sh; {script}", "sh", *map(str, args)],
        check=True, capture_output=True).stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_cpio_takes_its_archives(tmp_path, shell):
    d = tmp_path / "d"
    d.mkdir()
    for n in range(6):
        (d / f"f{n}").write_bytes(b"x\0" * n + b"y" * (n % 2))
    data = sh('cpio_files "$1" kit; cpio_file init "$1/f1" 0100755; cpio_end',
              d, shell=shell)
    assert len(data) % 4 == 0
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["cpio", "-id", "--quiet"], input=data, cwd=out, check=True)
    for n in range(6):
        assert (out / f"kit/f{n}").read_bytes() == (d / f"f{n}").read_bytes()
    assert (out / "init").stat().st_mode & 0o777 == 0o755


def stages(tmp_path, **of):
    """A directory of a kit, and one of reports."""
    kit, reports = tmp_path / "k", tmp_path / "r"
    kit.mkdir(), reports.mkdir()
    (kit / "id.json").write_text(KIT + "\n")
    (kit / "machine.json").write_text(json.dumps(MACHINE) + "\n")
    for name, records in of.items():
        (reports / f"{name.replace('_', '-')}.jsonl").write_text(
            "".join(json.dumps(r) + "\n" for r in records))
    return kit, reports


@pytest.mark.parametrize("shell", SHELLS)
def test_a_report_is_json_and_its_summary_short(tmp_path, shell):
    patched = [{**STAGE[0], "name": "patched"}] + STAGE[1:] + [
        {"t": "check", "name": f"c{n}", "ok": "0"} for n in range(60)]
    kit, reports = stages(tmp_path, **{"01_base": STAGE, "02_patched": patched})
    doc = json.loads(sh('report "$1" "$2" complete', kit, reports, shell=shell))
    assert [s["name"] for s in doc["stages"]] == ["01-base", "02-patched"]
    assert doc["stages"][0]["records"] == STAGE and doc["machine"] == MACHINE
    text = sh('summary "$1" "$2" complete', kit, reports, shell=shell).decode()
    assert len(text.splitlines()) <= 40
    assert "57+2/28/28" in text and "    7.00" in text
    assert "off, rcu_expedited" in text and "base: hogs" in text


def test_a_crash_is_told_by_what_firmware_kept(kit_file, there):
    pstore = there / "var/lib/systemd/pstore/1"
    pstore.mkdir(parents=True)
    lines = [f"<6>[    1.0] cpuhp-hwtest: 01-base {json.dumps(r)}"
             for r in STAGE[:3]] + [
        "<6>[    9.0] cpuhp-hwtest: 02-patched begins smt",
        "<0>[   10.0] Kernel panic - not syncing: Software Watchdog"]
    for part, some in ((2, lines[:3]), (1, lines[3:])):
        (pstore / f"dmesg-erst-{part}").write_text(
            f"Panic#1 Part{part}\n" + "\n".join(some) + "\n")
    status, out = start(kit_file, there, "--collect")
    assert status == 0 and "died in stage 02-patched, test smt" in out, out
    doc = hwreport.load(there / "run/cpuhp-hwtest/cpuhp-hwtest.json.gz")
    assert doc["end"] == "died in stage 02-patched, test smt"
    assert doc["stages"][0]["records"] == STAGE[:3]


def test_nothing_to_collect(kit_file, there):
    status, out = start(kit_file, there, "--collect")
    assert status == 1 and "no report in " in out and "pstore" in out


def doc_of(*names):
    return {"format": 1, "kit": json.loads(KIT), "end": "complete",
            "machine": MACHINE,
            "stages": [{"name": n, "records": STAGE} for n in names]}


def test_the_lab_keeps_and_shows_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hwreport, "RESULTS", tmp_path / "hw")
    monkeypatch.setattr(hwreport, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(hwreport, "TOP", tmp_path)
    hwreport.PAGE.write_text("a\n<!-- hw -->\nold\n<!-- end hw -->\nb\n")
    f = tmp_path / "r.json.gz"
    f.write_bytes(gzip.compress(json.dumps(doc_of("01-base")).encode()))
    hwreport.main(f)
    said = capsys.readouterr().out
    assert "| off | 8.00 |" in said and "| off: GP / GP exp / stops / rebuilds " \
        "| 57 / 2 / 28 / 28 |" in said
    assert "| off, rcu_expedited | 3.00 |" in said
    assert [p.name for p in (tmp_path / "hw").iterdir()] == [
        "x86_64-box-1-8-0123456789ab.json"]
    page = hwreport.PAGE.read_text()
    assert page.startswith("a\n") and page.endswith("\nb\n")
    assert "Box 1" in page and "old" not in page and not hwreport.page()


@pytest.mark.parametrize("data", [
    b"", b"{}", b"\x1f\x8b\x08broken", b"text",
    json.dumps({**doc_of("01-base"), "format": 2}).encode(),
    json.dumps({**doc_of("01-base"), "stages": []}).encode(),
    json.dumps({**doc_of("01-base"), "machine": {"arch": "x"}}).encode(),
    json.dumps({**doc_of("01-base"), "machine": {
        **MACHINE, "product": 1}}).encode(),
    json.dumps({**doc_of("01-base"), "stages": [{"name": "01-base", "records": [
        {"t": "sample"}]}]}).encode()])
def test_no_report(tmp_path, data):
    f = tmp_path / "x"
    f.write_bytes(data)
    with pytest.raises(LabError, match="is no report"):
        hwreport.load(f)
    with pytest.raises(LabError, match="cpuhp-hwtest.json.gz"):
        hwreport.load(tmp_path / "absent")


def test_a_report_is_kept_where_reports_are():
    doc = doc_of("01-base")
    doc["machine"] = {**MACHINE, "arch": "../../x"}
    doc["kit"]["tree"] = "a/b c"
    assert hwreport.name(doc) == "..-..-x-box-1-8-a-b-c"


def test_a_report_has_to_be_named():
    with pytest.raises(LabError, match="FILE= is needed"):
        hwreport.main("")


def test_no_kit_for_an_architecture():
    with pytest.raises(LabError, match="there is no kit for arm64"):
        hwtest.kit("arm64")


def came(doc, console="only said: 0", out=b"x\n"):
    c = hwcheck.Came("", console, 1)
    if doc:
        import base64
        c = hwcheck.Came("\n".join(json.dumps(
            {"t": "file", "name": n, "base64": base64.b64encode(d).decode()})
            for n, d in (("out", out), ("cpuhp-hwtest.json.gz", gzip.compress(
                json.dumps(doc).encode())))), console, 1)
    return c


def test_the_check_fails_for_what_is_missing():
    good = doc_of("01-base")
    good["stages"][0]["records"] = [r for r in STAGE if r.get("ok") != "0"]
    assert all(ok for _, ok, _ in hwcheck.through(came(good), ["base"]))
    for bad, stages_, console in (
            (None, ["base"], ""), (good, ["base", "patched"], "only said: 0"),
            (good, ["base"], "only said: 1"), (doc_of("01-base"), ["base"],
                                               "only said: 0"),
            ({**good, "end": "died"}, ["base"], "only said: 0")):
        assert not all(ok for _, ok, _ in hwcheck.through(
            came(bad, console), stages_))
    assert not any(ok for _, ok, _ in hwcheck.hung(came(None), "02-patched"))
