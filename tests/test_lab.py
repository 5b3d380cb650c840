# SPDX-License-Identifier: GPL-2.0
"""The parts of the lab that need no guest."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import TOP
from lab import __main__ as main
from lab import (bench, boot, common, console, guest, judge, kernels, ktap, vm)
from lab.common import LabError


# ---- machines -----------------------------------------------------------

def test_topology():
    m = vm.topology("pseries", 32)
    assert (m.sockets, m.cores, m.threads, m.nodes) == (2, 2, 8, 2)
    m = vm.topology("q35", 6)
    assert (m.sockets, m.cores, m.threads, m.cpus) == (1, 3, 2, 6)
    assert vm.topology("pseries", 1).threads == 1


@pytest.mark.parametrize("kind, cpus, threads, says", [
    ("q35", 7, 0, "multiple of the 2 threads"),
    ("pseries", 12, 0, "multiple of the 8 threads"),
    ("q35", 8, 4, "has no 4 threads"),
    ("q35", 300, 0, "too many"),
    ("pseries", 4096, 0, "too many"),
    ("pseries", 0, 1, "does not fit"),
    ("pseries", "0", 1, "CPUS=0: a number above 0"),
    ("pseries", "many", 0, "CPUS=many: a number above 0"),
    ("pseries", 8, "-2", "THREADS=-2: a number above 0"),
    ("vax", 8, 0, "unknown MACHINE")])
def test_topology_that_does_not_fit(kind, cpus, threads, says):
    with pytest.raises(LabError, match=says) as e:
        vm.topology(kind, cpus, threads)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("nodes, says", [
    ("x", "NODES=x: a number above 0"), (-1, "NODES=-1: a number above 0"),
    ("3", "NODES=3 does not divide")])
def test_nodes_that_do_not_fit(nodes, says):
    with pytest.raises(LabError, match=says):
        vm.topology("pseries", 16, 0, nodes)


@pytest.mark.parametrize("cpus", ["0", "-8", "x", "\u00b2"])
def test_bench_with_no_number_of_cpus(monkeypatch, cpus):
    monkeypatch.setattr(bench, "machines", lambda *a: pytest.fail("bench"))
    with pytest.raises(LabError, match=f"CPUS={cpus}: a number above 0"):
        bench.main("smt", cpus)


def test_numa_covers_every_cpu_and_all_memory():
    m = vm.topology("pseries", 32)
    args = vm.command(m, "k", "r", "l", "j", "res", "q")
    assert sum(a.startswith("cpu,node-id=") for a in args) == 4
    mem = [a for a in args if a.startswith("memory-backend-ram")]
    assert sum(int(a.split("size=")[1][:-1]) for a in mem) == m.memory


def test_kvm_only_where_it_works(monkeypatch):
    monkeypatch.setattr(vm, "kvm_usable", lambda arch: False)
    with pytest.raises(LabError, match="no usable KVM"):
        vm.check_accel("kvm", "x86_64")
    with pytest.raises(LabError, match="unknown ACCEL"):
        vm.check_accel("xen", "x86_64")


def test_old_or_missing_qemu(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="not installed"):
        vm.qemu_version("x86_64")
    fake = tmp_path / "qemu-system-x86_64"
    fake.write_text("#!/bin/sh\necho QEMU emulator version 7.2.17\n")
    fake.chmod(0o755)
    with pytest.raises(LabError, match="10 or newer"):
        vm.qemu_version("x86_64")


# ---- console ------------------------------------------------------------

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


# ---- KTAP ---------------------------------------------------------------

RUNNER = """TAP version 13
1..2
# timeout set to 45
# selftests: cpu-hotplug: a.sh
ok 1 selftests: cpu-hotplug: a.sh
# timeout set to 45
# selftests: cpu-hotplug: b.sh
# TAP version 13
# 1..3
# ok 1 one
# # it is not as it should be
# not ok 2 two
# ok 3 three # SKIP no reason
not ok 2 selftests: cpu-hotplug: b.sh # exit=1
"""


def test_ktap_nested_in_the_runner():
    got = {n.split(": ")[-1]: (s, d) for n, s, d in
           ktap.results(ktap.unprefix(RUNNER))}
    assert got["a.sh"] == got["one"] == ("pass", "")
    assert got["two"] == ("fail", "it is not as it should be")
    assert got["three"][0] == "skip"


@pytest.mark.parametrize("text", [
    "", "nothing", "TAP version 13\n1..2\nok 1 a\n",
    "TAP version 13\n1..1\nnot ok 1 a\n",
    RUNNER.replace("not ok", "ok").replace("1..3", "1..4")])
def test_ktap_missing_short_or_failing(text):
    assert any(s in ("fail", "error")
               for _, s, _ in ktap.results(ktap.unprefix(text)))


def test_skip_is_a_failure_unless_allowed(monkeypatch):
    r = boot.Result()
    r.files = {"t": RUNNER.encode()}

    def oks():
        return [ok for _, ok, _ in judge.ktaps("vm", r, "t")]
    assert (oks().count(True), oks().count(False)) == (2, 2)
    monkeypatch.setattr(judge, "SKIP_ALLOWED", [("vm", "three", "why")])
    assert (oks().count(True), oks().count(False)) == (3, 1)


# ---- bench --------------------------------------------------------------

def _doc():
    runs = []
    for cpus in (8, 16):
        for variant, per in (("base", 10), ("patched", 1)):
            ts = ["base", "expedited"] if variant == "base" else ["patched"]
            runs.append({
                "machine": "q35", "cpus": cpus, "variant": variant,
                "samples": [{"op": "off", "treatment": t, "cycle": c,
                             "ns": cpus * per * 10**6 + c}
                            for t in ts for c in (1, 2, 3)],
                "counts": [{"op": "off", "treatment": t, "calls": {
                    "synchronize_rcu_normal": per * cpus}} for t in ts]})
    return {"scenario": "t", "title": "T", "runs": runs,
            "clock": "virtual (icount)"}


def test_rows_and_table(tmp_path):
    rows = bench.rows(_doc())
    assert rows[0]["ms"]["base"][0] == pytest.approx(80, rel=1e-3)
    assert rows[1]["counts"]["patched"]["GP"] == 16
    text = bench.table(_doc())
    assert "10.0x" in text and "160/160/16" in text
    assert max(map(len, text.splitlines())) <= 80
    assert bench.plot(_doc(), tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes()[1:4] == b"PNG"


def test_readme_shows_the_recorded_results():
    readme = (TOP / "README.md").read_text()
    names = re.findall(r"<!-- results:(\S+) -->", readme)
    assert names
    for name in names:
        text = (TOP / "bench" / "results" / f"{name}.txt").read_text()
        doc = json.loads((TOP / "bench" / "results" /
                          f"{name}.json").read_text())
        assert bench.table(doc) == text
        assert bench.in_readme(readme, name, text) == readme
        assert bench.in_readme(readme, name, "x\n") != readme


def test_a_failing_guest_ends_the_measuring_with_its_own_error(monkeypatch):
    def fail(*a):
        raise LabError("the guest is broken")
    monkeypatch.setattr(bench, "run_one", fail)
    monkeypatch.setattr(bench.kernels, "build", lambda *a: None)
    monkeypatch.setattr(bench.boot.guest, "rootfs", lambda a: None)
    monkeypatch.setattr(bench.boot.guest, "lab_disk", lambda a: None)
    with pytest.raises(LabError, match="the guest is broken"):
        bench.measure(bench.load("boot"))


def test_counts_of_three_digits_fit_the_table():
    doc = _doc()
    for run in doc["runs"]:
        run["machine"] = "powernv10"
        for c in run["counts"]:
            c["calls"] = {f: 112 for fs in bench.COUNTS.values() for f in fs}
    text = bench.table(doc)
    assert text.splitlines()[-1].split()[-4:] == [
        "112/112/112", "112/112/112", "224/224/224", "112/112/112"]
    assert max(map(len, text.splitlines())) <= 80


def test_large_times_with_brackets_fit_the_table():
    doc = _doc()
    for run in doc["runs"]:
        run["machine"] = "powernv10"
        for sample in run["samples"]:
            sample["ns"] = 14408 * 10**6
        for c in run["counts"]:
            c |= {"ns": 14408 * 10**6, "gp_ns": 7 * 10**6}
    lines = bench.table(doc).splitlines()
    assert max(map(len, lines)) <= 80
    row = next(x for x in lines if x.startswith("powernv10"))
    assert row.split()[3:9] == ["14408", "(14401)"] * 3


def test_every_scenario_loads_and_fits():
    names = [p.stem for p in bench.SCENARIOS.glob("*.toml")]
    assert {"boot", "smt", "huge"} <= set(names)
    for n in names:
        s = bench.load(n)
        for m in bench.machines(s, full=True):
            assert m.boot or "labctl" in bench.job_text(s, m, "base")


def test_fresh_scenario_boots_for_each_sample():
    s = bench.load("maxcpus")
    full, few, two = bench.machines(s)
    assert (few.append, two.cpus, two.threads) == ("maxcpus=2", 2, 1)
    assert bench.machines(s, cpus=16)[2].cpus == 2
    assert len({m.name() for m in (full, few)}) == 2
    assert len(bench.boots(s, full)) == 2 * s["repeat"]
    plan = bench.boots({**s, "repeat": 2}, few)
    assert plan[0] == ("base", "base", 1) and len(plan) == 9
    # times first: counts go to the rows which these make
    assert [c for _, _, c in plan] == [1] * 3 + [2] * 3 + [0] * 3
    base = bench.job_text(s, few, "base", "expedited", 2)
    assert "chcpu" in base and "counted" not in base
    assert base.count("timed '") == 1 and "as_treatment expedited" in base
    assert " expedited 2 " in base
    patched = bench.job_text(s, few, "patched", "patched", 0)
    assert "hotplug/online all" in patched and "timed '" not in patched
    assert "emit first ns" in patched and all(
        m.options == ("-global", "virtio-blk-pci.num-queues=2")
        for m in (full, few, two))
    assert "emit first" not in bench.job_text(bench.load("smt"), full, "base")
    bench._check_sample(s, few, {"op": few.boot, "online": "0,2"})
    bench._check_sample(s, full, {"op": full.boot, "online": "0-7"})
    bench._check_sample(s, few, {"op": "the rest online", "online": "0-7"})
    run = {"machine": "q35", "cpus": 8, "counts": [], "samples": [
        {"op": full.boot, "treatment": t, "cycle": 1, "ns": 10**9}
        for t in ("base", "patched")]}
    text = bench.table({"title": "t", "clock": "virtual", "runs": [run]})
    assert text.splitlines()[3].split()[-4:] == ["1000", "-", "1000", "1.0x"]
    assert "-/-/-" not in text
    with pytest.raises(LabError, match="8 CPUs are online, not 2"):
        bench._check_sample(s, few, {"op": few.boot, "online": "0-7"})


def test_unknown_scenario_and_wrong_file(monkeypatch, tmp_path):
    with pytest.raises(LabError, match="no SCENARIO 'nix'"):
        bench.load("nix")
    monkeypatch.setattr(bench, "SCENARIOS", tmp_path)
    (tmp_path / "x.toml").write_text("title = ")
    with pytest.raises(LabError, match="x.toml"):
        bench.load("x")


def test_wrong_number_of_cpus_online_is_an_error():
    s = bench.load("smt")
    m = vm.topology("q35", 8)
    bench._check_sample(s, m, {"op": "SMT off", "online": "0,2,4,6"})
    with pytest.raises(LabError, match="online, not 4"):
        bench._check_sample(s, m, {"op": "SMT off", "online": "0-7"})


def test_cpulist():
    assert bench.cpulist("0-3,8\n") == {0, 1, 2, 3, 8}
    assert bench.cpulist("") == set()


# ---- files and the command line -----------------------------------------

def test_fresh_dir_appears_whole_or_not_at_all(tmp_path):
    d = tmp_path / "d"
    with pytest.raises(KeyboardInterrupt):
        with common.fresh_dir(d) as t:
            (t / "half").write_text("x")
            raise KeyboardInterrupt
    assert not d.exists() and not list(tmp_path.iterdir())
    with common.fresh_dir(d) as t:
        (t / "whole").write_text("1")
    with pytest.raises(ValueError):
        with common.fresh_dir(d) as t:
            raise ValueError
    assert (d / "whole").read_text() == "1"


def test_disk_full_is_said_before_it_happens(tmp_path):
    with pytest.raises(LabError, match="CPUHP_CACHE"):
        common.need_space(tmp_path, 10**9, "a test")


def test_disk_full_is_said_when_it_happens(tmp_path):
    full = "import sys; sys.exit('cp: error: No space left on device')"
    with pytest.raises(LabError, match="disk of .* is full"):
        common.run([sys.executable, "-c", full])
    with pytest.raises(LabError, match="disk of here is full .*git add"):
        common.disk_full("fatal: sha1 file '<stdout>' write error. Out of "
                         "diskspace", "git add", "here")
    common.disk_full("fatal: bad object", "git add", "here")


@pytest.mark.parametrize("said, says", [
    ("Err:1 Could not resolve 'deb.example.org'", "cannot be reached"),
    ("E: Unable to locate package nix", "status 7"),
    ("tar: write error: No space left on device", "is full")])
def test_why_no_guest_was_made(monkeypatch, tmp_path, said, says):
    fake = tmp_path / "mmdebstrap"
    fake.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 7\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CPUHP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(LabError, match=says) as e:
        guest._mmdebstrap("x86_64", "bookworm")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("name, text, cached", [
    ("a.c", "int x;", True), ("a.S", "nop", False),
    ("b.c", 'asm(".incbin \\"config\\"");', False)])
def test_what_takes_in_other_files_is_not_cached(tmp_path, name, text, cached):
    for tool in "ccache", "gcc":
        f = tmp_path / tool
        f.write_text(f"#!/bin/sh\necho {tool} $*\n")
        f.chmod(0o755)
    src = tmp_path / name
    src.write_text(text)
    out = subprocess.check_output(
        ["cc.sh", "gcc", "-c", src], text=True,
        env={"PATH": f"{tmp_path}:{TOP / 'lab'}:{os.environ['PATH']}"})
    assert out == ("ccache " if cached else "") + f"gcc -c {src}\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("CPUHP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def aged(path, days):
    """As if it had last been used so many days ago."""
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def test_what_nobody_uses_is_pruned(tmp_path):
    for name, days in (("old", 15), ("kept", 15), ("new", 13)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
        (tmp_path / f"{name}.img").touch()
        aged(tmp_path / name, days)
        aged(tmp_path / f"{name}.img", days)
    common.prune(tmp_path, tmp_path / "kept")
    assert {p.name for p in tmp_path.iterdir()} == {"kept", "new", "new.img"}


def test_an_image_in_use_is_not_pruned(cache, monkeypatch, capsys):
    """Made long ago and found up to date: the images that are made next leave
    it where it is."""
    for name, value in (("wanted_commit", "c"), ("tree_of", "t"),
                        ("build_key", "key")):
        monkeypatch.setattr(kernels, name, lambda *a, v=value: v)
    used, other = (kernels.image_dir("patched", "x86_64", p, "key")
                   for p in ("", "debug"))
    for d in used, other:
        d.mkdir(parents=True)
        (d / "meta.json").write_text('{"key": "key", "release": "7"}')
        aged(d, 20)
    assert kernels.build("patched", "x86_64") == used
    common.prune(used.parent, None)
    assert used.exists() and not other.exists()


@pytest.mark.parametrize("make, name", [
    (guest.rootfs, "root"), (guest.lab_disk, "lab")])
def test_clones_leave_each_other_their_disks(cache, monkeypatch, capsys, make,
                                             name):
    """Two clones want different disks of one cache."""
    def run(cmd, **kw):
        for x in cmd:
            if str(x).endswith(".squashfs"):
                x.touch()
    monkeypatch.setattr(guest, "run", run)
    monkeypatch.setattr(guest, "_check_unshare", lambda: None)
    monkeypatch.setattr(guest, "_mirror", lambda: "")
    monkeypatch.setattr(guest, "_mmdebstrap", lambda arch, *a: a[-2].touch())
    monkeypatch.setattr(guest, "git", lambda *a, **k: "")
    monkeypatch.setattr(kernels, "wanted_commit", lambda v: "c")
    monkeypatch.setattr(kernels, "compiler", lambda a: "cc")
    keys = iter(("mine", "theirs", "mine", "new"))
    monkeypatch.setattr(guest, "digest", lambda *a: next(keys))
    mine, theirs = make("x86_64"), make("x86_64")
    assert mine.exists() and theirs.exists()
    aged(mine, 20)
    aged(theirs, 20)
    assert make("x86_64") == mine
    make("x86_64")
    assert {p.name for p in (cache / "guest").iterdir()} == {
        f"{name}-x86_64-{k}.squashfs" for k in ("mine", "new")}


def test_run_tells_the_command_and_ends_it():
    with pytest.raises(LabError, match="'false' failed with status 1"):
        common.run(["false"])
    with pytest.raises(TimeoutError):
        common.run(["sleep", "60"], limit=0.3)


def test_a_guest_that_starts_late_is_ended_too():
    """One call fails while another has not come to its program yet."""
    def late():
        time.sleep(0.5)
        common.run(["sleep", "30"])

    def fail():
        raise KeyboardInterrupt
    t0 = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        boot.side_by_side(lambda f: f(), [(late,), (fail,), (late,)], 2)
    assert time.monotonic() - t0 < 15


def test_a_full_disk_stops_no_program_that_has_a_log():
    """It says more than fits into a pipe."""
    say = [sys.executable, "-c", "print('x\\n' * 99999)"]
    with pytest.raises(LabError, match="disk of /dev/full is full"):
        common.run(say, log="/dev/full", limit=20)


@pytest.fixture
def guest_vm(monkeypatch, tmp_path):
    """run_job() as a function of a shell script, which it runs in place of
    QEMU: $rec is the file of records, $qmp QMP's socket."""
    monkeypatch.setattr(boot, "OUT", tmp_path)
    monkeypatch.setattr(boot.guest, "rootfs", lambda *a: None)
    monkeypatch.setattr(boot.guest, "lab_disk", lambda a: None)
    monkeypatch.setattr(vm, "qemu_version", lambda a: "10")

    def run_job(script, **kw):
        monkeypatch.setattr(vm, "command", lambda *a: [
            "sh", "-c", f"rec={a[5]} qmp={a[6]}; {script}"])
        kw.setdefault("limit", 20)
        return boot.run_job(vm.topology("q35", 2), tmp_path, "",
                            name="vm", **kw)
    return run_job


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


END = """echo '{"t": "end", "status": "0"}' >> $rec;"""


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
    assert not e.value.result.timed_out


def lab(*args, **env):
    """The lab's command line as a user would meet it."""
    return subprocess.run([sys.executable, "-m", "lab", *args], cwd=TOP,
                          env={**os.environ, **env}, text=True,
                          capture_output=True)


@pytest.mark.parametrize("args, says", [
    (("kernels", "--arch", "s390x"), "unknown ARCH 's390x'"),
    (("bisect-check", "--arch", "s390x"), "unknown ARCH 's390x'"),
    (("run", "/does/not/exist"), "JOB=/does/not/exist"),
    (("run", sys.executable), "it is no text"),
    (("kernels", "--profile", "rt", "--arch", "ppc64le"), "x86_64 only"),
    (("kernels", "--profile", "kcsan", "--arch", "ppc64le"), "x86_64 only"),
    (("kernels", "--profile", "fast"), "unknown PROFILE"),
    (("shell", "--cpus", "7"), "does not fit"),
    (("shell", "--arch", "x86_64", "--machine", "pseries"), "not x86_64"),
    (("bench", "--scenario", "nix"), "no SCENARIO"),
    (("bench", "--scenario", "huge"), "needs CPUS="),
    (("shell", "--variant", "best"), "unknown VARIANT"),
    (("tree", "--linux", "/does/not/exist"), "does not exist"),
    (("test", "--arch", "s390x"), "unknown ARCH 's390x'"),
    (("machines", "--arch", "s390x"), "unknown ARCH 's390x'"),
    (("run", "x", "--disk", "swap"), "DISK=swap: a serial number, '='")])
def test_bad_input_is_one_line(args, says):
    r = lab(*args)
    lines = [x for x in r.stderr.splitlines() if x.startswith("error: ")]
    assert r.returncode == 1 and len(lines) == 1 and says in lines[0]
    assert "Traceback" not in r.stderr


@pytest.mark.parametrize("error, says", [
    ("13, 'Permission denied', '/x'", "error: /x: Permission denied"),
    ("122, 'Disk quota exceeded', '/x'", "error: the disk is full (/x); "),
    ("28, 'No space left on device'", "error: the disk is full ([Errno 28] "),
    ("'a bug'", "Traceback")])
def test_a_file_that_makes_trouble_is_named(error, says):
    code = ("import runpy; from lab import common\n"
            f"def check_arch(arch): raise OSError({error})\n"
            "common.check_arch = check_arch\n"
            "runpy.run_module('lab', run_name='__main__')")
    r = subprocess.run([sys.executable, "-c", code, "run", "x"], cwd=TOP,
                       text=True, capture_output=True)
    assert r.returncode == 1 and r.stderr.startswith(says)


def test_who_runs_into_the_limit_is_told_of_it(monkeypatch, guest_vm, tmp_path,
                                               capsys):
    script = ["sleep 60"]
    monkeypatch.setattr(main, "_tree", lambda a: None)
    monkeypatch.setattr(kernels, "build", lambda *a: tmp_path)
    monkeypatch.setattr(vm, "command", lambda *a: ["sh", "-c", *script])
    args = argparse.Namespace(
        arch="", profile="", machine="", cpus="", threads="", nodes="",
        accel="icount", variant="patched", append="", limit="1",
        job="/dev/null", disk="", vars="")
    with pytest.raises(LabError, match="after 1 s.*; LIMIT= gives it more"):
        main.cmd_run(args)
    script[0] = "true"
    with pytest.raises(boot.BootFailed) as e:
        main.cmd_run(args)
    assert "LIMIT" not in str(e.value)
    args.limit = "-1"
    with pytest.raises(LabError, match="LIMIT=-1: a number above 0"):
        main.cmd_run(args)


@pytest.fixture
def fresh(tmp_path):
    """bootstrap.sh on a machine that has next to nothing: call it with the
    programs that it has besides, {name: shell text}."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for tool in ("sh", "sed", "grep", "cut", "cat", "dirname", "mkdir", "df",
                 "uname", "tail", "sha256sum", "printf", "tr", "rm", "touch"):
        (bin / tool).symlink_to(subprocess.check_output(
            ["sh", "-c", f"command -v {tool} || echo /bin/{tool}"],
            text=True).strip())

    def bootstrap(programs, **env):
        for tool, text in {"flock": "exit 0", **programs}.items():
            f = bin / tool
            f.write_text(f"#!/bin/sh\n{text}\n")
            f.chmod(0o755)
        return subprocess.run(
            ["sh", str(TOP / "lab" / "bootstrap.sh")], text=True,
            env={"PATH": str(bin), "HOME": str(tmp_path),
                 "CPUHP_CACHE": str(tmp_path / "c"), **env},
            capture_output=True)
    return bootstrap


def test_no_root_and_no_sudo_names_the_packages(fresh):
    r = fresh({"dpkg-query": "exit 1", "id": "echo 1000"})
    assert r.returncode == 1
    assert "neither root nor sudo" in r.stderr
    assert "apt-get install -y --no-install-recommends acpica-tools arch-test" in r.stderr


def test_an_old_qemu_is_named(fresh):
    old = "echo 'QEMU emulator version 7.2.13 (Debian)'"
    r = fresh({"qemu-system-x86_64": old, "qemu-system-ppc64": old},
              CPUHP_NO_DEPS="1")
    assert r.returncode == 1
    assert "qemu-system-ppc64 is version 7, 10 or newer is needed" in r.stderr
    assert "backports" in r.stderr


def test_without_pip_nothing_half_made_is_used(fresh, tmp_path):
    qemu = "echo 'QEMU emulator version 10.0.2'"
    r = fresh({"qemu-system-x86_64": qemu, "qemu-system-ppc64": qemu,
               "python3": f'exec {sys._base_executable} "$@"'},
              CPUHP_NO_DEPS="1", PIP_INDEX_URL="http://127.0.0.1:9/",
              PIP_RETRIES="0", PIP_NO_CACHE_DIR="1")
    assert r.returncode == 1
    assert "pip could not install" in r.stderr and "index" in r.stderr
    assert not list((tmp_path / "c").glob("venv-*"))


def test_interrupt_ends_children_and_leaves_nothing(tmp_path):
    code = ("import sys; sys.path.insert(0, %r)\n"
            "from lab import common\n"
            "with common.fresh_dir(%r) as t:\n"
            "    (t / 'half').write_text('x')\n"
            "    print('ready', flush=True)\n"
            "    common.run(['sleep', '987'])\n") % (
                str(TOP), str(tmp_path / "image"))
    # a shell's background job, which this may run in, ignores SIGINT
    p = subprocess.Popen([sys.executable, "-c", code], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=lambda: signal.signal(signal.SIGINT,
                                                          signal.SIG_DFL))
    assert p.stdout.readline() == "ready\n"
    time.sleep(0.3)
    kids = subprocess.run(["pgrep", "-P", str(p.pid)], text=True,
                          capture_output=True).stdout.split()
    assert kids
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=20)
    assert not list(tmp_path.iterdir())
    assert not any(pathlib.Path(f"/proc/{k}").exists() for k in kids)


def test_every_entry_of_the_makefile_is_in_its_help():
    text = (TOP / "Makefile").read_text()
    phony = text.split(".PHONY:")[1].split("help:")[0]
    help_ = subprocess.run(["make", "-s", "help"], cwd=TOP, text=True,
                           capture_output=True).stdout
    for target in phony.replace("\\", " ").split():
        if target != "help":
            assert f"make {target} " in help_
    for variable in re.findall(r"\$\(if \$\((\w+)\)", text):
        assert f"{variable}=" in help_
    assert max(map(len, help_.splitlines())) <= 80
