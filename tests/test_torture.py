# SPDX-License-Identifier: GPL-2.0
"""What 'make torture' decides by itself: the plan, and who has passed."""

import threading

import pytest

from lab import boot, console, torture
from lab.common import ARCHES, TOP, LabError

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
        # with KASAN virtual time is too slow
        assert {torture.plan(7, n, arch, slow=True)["accel"]
                for n in range(24)} == {"mttcg"}


@pytest.fixture
def boots(monkeypatch, tmp_path):
    """torture.one() boots nothing: what it would have, as (machine, kernel
    parameters)."""
    result = boot.Result()
    result.status, result.splats = 0, []
    result.console = "End of test: SUCCESS: x"
    result.seconds, result.console_path = 1, tmp_path / "c"

    class Boots(list):
        pass
    boots = Boots()
    boots.result = result

    def run_job(m, image, job, **kwargs):
        boots.append((m, kwargs["append"]))
        boots.job = job
        return result

    monkeypatch.setattr(boot, "run_job", run_job)
    monkeypatch.setattr(boot.Result, "output", lambda self: GOOD +
                        "# 52 writes of 256 KiB came back\n")
    return boots


def test_what_a_boot_did_is_in_its_numbers(boots, tmp_path):
    p = torture.one(torture.plan(7, 0, "x86_64"), tmp_path, 10)
    assert p["ok"] and "52 writes of" in p["numbers"]
    assert torture.operations(p) == 340
    # a disk to write to, and a network
    m = boots[0][0]
    assert [d[:2] for d in m.disks] == [("scratch", torture.SCRATCH)]
    assert m.net.startswith("user")


def test_cpus_of_locktorture_are_counted(boots, tmp_path):
    p = torture.plan(5, 0, "x86_64")
    assert p["what"] == "locktorture" and "verbose=2" in p["append"]
    assert "nwriters" not in p["append"]
    slow = torture.plan(5, 0, "x86_64", slow=True)
    assert f"nwriters_stress={slow['cpus'] // 2} " in slow["append"]
    boots.result.console = "".join(
        f"[ 1.0] x-torture: torture_onoff task: {x} 3\n"
        for x in ("offlining", "offlined", "onlining", "onlined")) \
        + boots.result.console
    p = torture.one(p, tmp_path, 10)
    assert p["ok"] and torture.operations(p) == 2


def test_a_boot_in_which_no_cpu_moved_failed(boots, tmp_path):
    p = torture.one(torture.plan(5, 0, "x86_64"), tmp_path, 10)
    assert not p["ok"] and "no CPU went or came" in p["error"]


def test_threadirqs_is_left_out_of_tree03_in_some_boots():
    plans = [torture.plan(6, n, "x86_64", tree03="a threadirqs "
                          "rcutree.use_softirq=0 b.c=1")
             for n in range(30)]
    with_it = [p for p in plans if "threadirqs" in p["tree03"]]
    assert 0 < len(with_it) < 30
    for p in plans:
        assert ("threadirqs" in torture.describe(p)) == (p in with_it)
        assert p in with_it or p["tree03"] == "a b.c=1"
        if p["what"] == "rcutorture" and p not in with_it:
            assert p["lists"]


def test_what_a_boot_wants_comes_after_what_tree03_says(boots, tmp_path):
    tree03 = "rcutorture.onoff_interval=200 a.b"
    p = torture.plan(6, 0, "x86_64", tree03=tree03)
    assert (p["what"], p["cpus"]) == ("rcutorture", 16)
    torture.one(p, tmp_path, 10)
    args = boots[0][1].split()
    assert "a.b" in args and [x for x in args if "onoff_interval" in x] == [
        "rcutorture.onoff_interval=200", "rcutorture.onoff_interval=20"]
    assert {torture.plan(7, n, "ppc64le", tree03=tree03)["what"]
            for n in range(4)} == {"rcutorture", "stress"}


def test_a_kernel_test_is_told_when_to_end():
    for p in (torture.plan(1, n, "ppc64le", slow=True) for n in range(30)):
        if p["what"] in torture.KERNEL:
            assert f"{p['what']}.shutdown_secs={p['seconds']}" in p["append"]
            assert f"{p['what']}.onoff_interval=" in p["append"]
        else:
            assert not p["append"]


def test_a_round_of_slow_kernels_ends():
    """Under load few writes, else those that there is time for."""
    for n in range(40):
        for slow in (False, True):
            p = torture.plan(1, n, "x86_64", slow=slow)
            if p["what"] == "stress":
                assert p["writes"] == (6 if p["load"] else 96 if slow else 24)
                assert p["seconds"] == (300 if slow else
                                        60 if p["accel"] == "mttcg" else 20)


def test_a_test_of_retiring_fails_with_its_results(boots, tmp_path):
    p = torture.plan(6, 0, "x86_64")
    assert p["what"] == "retire" and p["accel"] == "mttcg"
    boots.result.records = [
        {"t": "retired", "counts": "52 requests, 0 refused;"},
        {"t": "retired", "counts": "8 requests, 0 refused;"},
        {"t": "check", "name": "lost", "ok": "1"}]
    got = torture.one(dict(p), tmp_path, 10)
    assert got["ok"] and torture.operations(got) == 60
    boots.result.records[-1]["ok"] = "0"
    got = torture.one(dict(p), tmp_path, 10)
    assert not got["ok"] and "lost" in got["error"]


def test_in_half_of_the_boots_cpus_stay_on_their_way(boots, tmp_path):
    plans = [torture.plan(3, n, "x86_64") for n in range(40)]
    slow = [p for p in plans if p.get("delay")]
    assert 10 < len(slow) < 30
    torture.one(slow[0], tmp_path, 10)
    assert "cpuhp.retire_delay_us=" in boots[0][1]


@pytest.mark.parametrize("seed", range(3))
def test_a_job_is_told_what_is_planned(boots, tmp_path, seed):
    p = next(p for p in (torture.plan(seed, n, "x86_64") for n in range(7))
             if p["what"] == "stress")
    torture.one(p, tmp_path, 10)
    for x in (f"SEED={p['seed']}", f"LASTS={p['seconds']}",
              f"FAULTS={int(p['faults'])}", "stress-test.sh"):
        assert x in boots.job


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
    for bad in "x", "0", "-1", "nan", "inf", "1e999":
        with pytest.raises(LabError, match=f"^MINUTES={bad}: a number above 0"):
            torture.main(bad, ["x86_64"])
    with pytest.raises(LabError, match="^SEED=1.5: a whole number"):
        torture.main("1", ["x86_64"], seed="1.5")
    assert torture.numbers("", "0") == (30, 0)
    assert torture.numbers("0.5", "")[1] != torture.numbers("0.5", None)[1]


def test_the_profile_has_the_tests_once():
    assert [torture.full_profile(p) for p in ("", "debug", "torture")] == [
        "torture", "debug+torture", "torture"]


@pytest.mark.parametrize("text", ["{", "{}"])
def test_a_damaged_record_is_named_before_the_first_boot(monkeypatch, tmp_path,
                                                         text):
    monkeypatch.setattr(torture.record, "RESULTS", tmp_path)
    (tmp_path / "torture.json").write_text(text)
    monkeypatch.setattr(torture.kernels, "build", lambda *a: pytest.fail("boots"))
    for func, args in ((torture.main, (1, ["x86_64"], "", 1, True)),
                       (torture.keep, ({},)), (torture.forget, ("torture",))):
        with pytest.raises(LabError, match="torture.json is damaged: .*checkout"):
            func(*args)


STAMP = {"date": "2026-11-21T00:00:00Z", "tree": "0123456789abcd", "kernel": "",
         "inputs": ""}


def test_table_of_what_was_run():
    def boot(what, numbers, ok=True, arch="x86_64"):
        return {**torture.plan(7, 0, arch), "what": what, "numbers": numbers,
                "ok": ok, "error": "" if ok else "a splat\nand more",
                "host_seconds": 90}
    doc = {"stamp": STAMP, "seed": 5, "profile": "debug+torture", "boots": [
               boot("stress", "10 rounds: 300 writes together, 40 alone, 5 s"),
               boot("stress", "", ok=False),
               boot("smt", "12 rounds"),
               boot("rcutorture", "onoff: 3/4:2/5", arch="ppc64le")]}
    new = {**doc, "stamp": {**STAMP, "kernel": "89abcdef01", "date": "2026-11-22"},
           "boots": [boot("stress", "1 rounds: 3 writes together, 4 alone, 5 s")]}
    text = torture.table([doc, new, new])
    rows = {tuple(x.split()[:3]): x.split()[3:] for x in text.splitlines()}
    # boots, failed, stress, smt, retire, single CPUs, minutes
    assert rows["older", "debug+torture", "x86_64"] == [
        "3", "1", "340", "24", "0", "0", "4"]
    assert rows["older", "debug+torture", "ppc64le"][5] == "9"
    assert rows["89abcdef", "debug+torture", "x86_64"][2] == "14"
    assert text.index("89abcdef") < text.index("older")
    assert "SEED=5" in text and "a splat" in text
    assert all(len(x) <= 80 for x in text.splitlines())


def test_a_run_is_added(monkeypatch, tmp_path):
    monkeypatch.setattr(torture.record, "RESULTS", tmp_path)
    # one that failed is described, which is recorded without 'append'
    p = {**torture.plan(6, 0, "x86_64"), "ok": False, "numbers": "",
         "error": f"a splat; console: {TOP}/out/x", "host_seconds": 1,
         "console": "x"}
    doc = {"stamp": STAMP, "seed": 1, "profile": "torture", "boots": [p]}
    torture.keep(doc)
    torture.keep({**doc, "seed": 2})
    shown, = torture.shown()
    assert len(shown.results) == 2
    text = shown.blocks["torture"]
    assert "SEED=1," in text and "SEED=2," in text
    assert "console: out/x" in text
    assert str(TOP) not in (tmp_path / "torture.json").read_text()


@pytest.mark.parametrize("keep", [True, False])
def test_what_ctrl_c_ends_is_kept(monkeypatch, tmp_path, capsys, keep):
    monkeypatch.setattr(torture, "OUT", tmp_path)
    monkeypatch.setattr(torture.kernels, "build", lambda *a: tmp_path)
    monkeypatch.setattr(torture.record, "stamp", lambda i, of: STAMP)
    turns, kept = [], []
    monkeypatch.setattr(torture, "keep", kept.append)
    monkeypatch.setattr(torture, "ending", threading.Event())

    def one(p, image, limit):
        turns.append(p)
        if len(turns) == 2:
            raise KeyboardInterrupt
        return p | {"ok": True, "error": "", "numbers": "", "host_seconds": 1}
    monkeypatch.setattr(torture, "one", one)
    with pytest.raises(KeyboardInterrupt):
        torture.main(1, ["x86_64"], seed=1, rec=keep)
    assert [len(x["boots"]) for x in kept] == [1] * keep
    assert "pass  0: " in capsys.readouterr().out
    turns.append("one more, which is not the second")
    assert torture.main(1e-9, ["x86_64"], seed=1) == 0
    assert capsys.readouterr().out.endswith("1 passed, 0 failed\n")


def test_no_architecture_waits_for_the_other(monkeypatch, tmp_path):
    """One boot of ppc64le lasts as long as three of x86-64."""
    monkeypatch.setattr(torture, "OUT", tmp_path)
    monkeypatch.setattr(torture.kernels, "build", lambda *a: tmp_path)
    monkeypatch.setattr(torture.record, "stamp", lambda i, of: STAMP)
    monkeypatch.setattr(torture, "ending", threading.Event())
    turns, now, three = [], [0], threading.Event()

    def one(p, image, limit):
        turns.append((p["arch"], p["turn"]))
        if turns.count(("x86_64", 2)):
            three.set()
        assert p["arch"] == "x86_64" or three.wait(60)
        if three.is_set():
            now.append(99)
        return p | {"ok": True, "error": "", "numbers": "", "host_seconds": 1}
    monkeypatch.setattr(torture, "one", one)
    monkeypatch.setattr(torture.time, "monotonic", lambda: now[-1])
    assert torture.main(1, ["x86_64", "ppc64le"], seed=1) == 0
    assert sorted(turns) == [("ppc64le", 0), *(("x86_64", n) for n in range(3))]


@pytest.mark.parametrize("before, after, ok", [
    ("", "Kernel panic - not syncing: Requested init failed", True),
    ("WARNING: kernel/smp.c:1 at x", "", False),
    ("WARNING: kernel/smp.c:1 at x", "Kernel panic - not syncing: y", False)])
def test_power_off_of_a_kernel_test_is_no_splat(monkeypatch, tmp_path,
                                                before, after, ok):
    """The kernel's own tests power off, and init may find no disk then."""
    result = boot.Result()
    result.console = (f"{before}\nscftorture: onoff: 2/2:1/1 x\n"
                      "scftorture: --- End of test: SUCCESS: x\n"
                      f"{after}\n")
    result.splats = console.splats(result.console)
    result.status, result.seconds = None, 1
    result.timed_out, result.console_path = False, tmp_path / "c"

    def run_job(*args, **kwargs):
        raise boot.BootFailed("the kernel complained", result)

    monkeypatch.setattr(boot, "run_job", run_job)
    p = next(p for p in (torture.plan(1, n, "x86_64") for n in range(6))
             if p["what"] == "scftorture")
    assert torture.one(p, tmp_path, 10)["ok"] == ok


def test_what_tests_of_cpus_that_retire_count_is_summed_up():
    says = ("calls: 1381 queued, 1381 ran;works: 9 queued, 9 ran;6 requests, 0 "
            "refused, 0 lost, 0 elsewhere;", "14 requests, 0 refused")
    text = torture.in_all(says)
    assert text == "20 requests, 1390 queued" and torture.in_all([]) == ""
    assert torture.operations({"what": "retire", "numbers": text}) == 20
