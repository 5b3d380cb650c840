# SPDX-License-Identifier: GPL-2.0
"""Tables beside those of mails, and that the pages show what is recorded."""

import itertools
import pytest

from lab import bench, kernels, mailtables, series
from lab.common import LabError


def stats(n, ms):
    """What the guest sends of a boot and of a write: n CPUs, each ms long."""
    return [{"when": when, "section": s, "count": str(1 if s == "operation"
                                                      else n),
             "total": str(int(n * ms * 1e6)), "min": str(int(ms * 1e6)),
             "max": str(int(2 * ms * 1e6))}
            for when in ("boot", "runtime")
            for s in ("prepare", "bringup", "online", "total", "operation")]


def bringup_doc():
    return {"scenario": "x", "title": "T", "report": "bringup",
            "clock": "virtual (icount)", "runs": [
                {"machine": "pseries", "cpus": 16, "threads": 4,
                 "boot": f"8 ms, {how}", "samples": [], "counts": [],
                 "stats": stats(15, ms)}
                for how, ms in (("serial", 8.5), ("parallel", 0.5))]}


def test_bringup_has_both_ways_side_by_side_and_the_mail():
    text = bench.table(bringup_doc())
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[4].split() == ["pseries", "16", "8", "ms", "127.5", "7.5",
                                "127.5", "7.5"]
    row = next(x for x in lines if x.startswith("prepare"))
    assert row.split() == ["prepare", "127.500", "8.500", "8.500", "17.000",
                           "7.500", "0.500", "0.500", "1.000"]
    assert "total 785.960 7.081 3.752 36.098 84.274 0.759 0.408 21.240" in [
        " ".join(x.split()) for x in lines]
    assert lines[-1].split() == ["total", "64.167", "0.578", "0.400", "4.339",
                                 "29.298", "0.543", "0.400", "1.232"]
    assert "of the primaries:" not in lines
    # of those who tell them apart
    doc = bringup_doc()
    for run in doc["runs"]:
        run["stats"] += [s | {"who": "siblings"} for s in stats(12, 3)
                         if s["section"] == "total"]
    lines = bench.table(doc).splitlines()
    assert "of the primaries:" not in lines
    assert lines[lines.index("of the siblings:") + 3].split() == [
        "total", *2 * ["36.000", "3.000", "3.000", "6.000"]]
    assert not any(x.startswith("kick") for x in lines)
    assert not bench.plot(bringup_doc())


def test_sections_of_the_mail_are_sums_of_ours():
    def stat(section, total):
        return {"when": "boot", "section": section, "count": "2",
                "total": total, "min": "1", "max": "2"}
    run = {"stats": [stat("prepare", "3000000"), stat("kick", "1000000"),
                     stat("online", "7000000")]}
    got = mailtables.sections(run, "boot")
    assert got["prepare*"] == (4.0, 2.0, None, None)
    assert "online*" not in got             # without bringup
    assert "prepare*" in "\n".join(mailtables._pair({"x": got}))


def test_bringup_that_takes_too_long_one_by_one_is_a_dash():
    doc = bringup_doc()
    doc["runs"] = [r for r in doc["runs"] if "parallel" in r["boot"]]
    assert bench.table(doc).splitlines()[4].split() == [
        "pseries", "16", "8", "ms", "-", "7.5", "-", "7.5"]
    # ... which is what is not booted
    s = bench.load("ap-delay")
    boots = [(m.cpus, m.boot) for m in bench.machines(s, full=True)]
    assert (128, "8 ms, parallel") in boots
    assert (128, "8 ms, serial") not in boots and (32, "8 ms, serial") in boots


def test_treatments_are_printed_with_those_of_the_mail():
    took = {"base": 100, "expedited": 10, "cpuidle-without": 60,
            "cpuidle-expedited-there": 70, "patched": 20}
    doc = {"scenario": "x", "title": "T", "report": "treatments",
           "clock": "virtual (icount)", "runs": [{
               "machine": "pseries", "cpus": 32, "counts": [
                   {"op": "off", "treatment": "base", "calls": {
                       "synchronize_rcu_normal": 64}}], "samples": [
                   {"op": way, "treatment": t, "cycle": 1, "ns": ms * 10**6}
                   for way in ("off", "on") for t, ms in took.items()]
               + [{"op": "off, one write", "treatment": "patched",
                   "cycle": 1, "ns": 2 * 10**6}]}]}
    text = bench.table(doc)
    assert max(map(len, text.splitlines())) <= 80
    find = lambda s: [x[len(s):].split() for x in text.splitlines()
                      if x.startswith(s)]
    assert find("31 CPUs off")[0][:2] == ["pseries", "32"]
    assert find("base  ")[0] == ["100.0", "64/0", "17.945"]
    assert find("no grace period in cpuidle")[0] == [
        "60.0", "40.0", "%", "-", "10.259", "42.8", "%"]
    assert find("patched, in one write") == [["2.0", "98.0", "%", "-", "-"],
                                             ["-", "-", "-"]]


def test_stop_takes_the_mean_of_all_cpus_and_the_median_of_rounds():
    def stats(v):
        for k, load, irq in itertools.product((1, 2, 30), (0, 2), (0, 1)):
            same = {"load": str(load), "irq": str(irq)}
            for f in ("multi_cpu_stop", "other"):
                if v == "base":
                    yield {**same, "function": f, "calls": "8",
                           "us": str(4000 * k * (1 + load))}
            if v == "base":
                yield {**same, "function": mailtables.STOP, "calls": "1",
                       "us": "1"}
            if v == "patched":
                yield {**same, "function": "retired", "off": str(k * 4000),
                       "ns": str(k * 1040000), "wait": str(k * 1000000)}
    doc = {"scenario": "x", "title": "T", "report": "stop",
           "clock": "virtual (icount)", "runs": [
               {"machine": "q35", "cpus": n, "variant": v,
                "stats": list(stats(v))}
               for n in (8, 16) for v in ("base", "patched")]}
    lines = bench.table(doc).splitlines()
    assert max(map(len, lines)) <= 80
    row = "1.00 3.00 - - 0.008 0.008 0.080 0.080 2.00 2.00".split()
    assert lines[-5].split() == ["8", *row, "17.0", "7.7"]
    assert " ".join(lines[-2:]).endswith("base 24, patched 0")
    assert [x.split()[1:11] for x in lines if x.split()[:1] == ["16"]
            ] == [row] * 2
    # nobody is held on the patched kernel, and it is seen if somebody is
    assert bench.plot(doc)[1:4] == b"PNG"
    doc["runs"][1]["stats"].append(doc["runs"][0]["stats"][0])
    assert "0.50" in bench.table(doc)


def test_domains_and_latency_have_both_kernels_and_theirs():
    functions = mailtables.reference("domains")["seconds"]
    doc = {"scenario": "x", "title": "T", "report": "domains",
           "clock": "virtual (icount)", "runs": [
               {"machine": "pseries", "cpus": n, "variant": v, "stats": [
                   {"function": f, "calls": "1", "verbose": verbose,
                    "us": str(n * 1000 * (1 + (verbose == "Y")))}
                   for verbose in "NY" for f in functions]}
               for n in (8, 32) for v in ("base", "patched")]}
    lines = bench.table(doc).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-2].split() == ["update_sched_domain_debugfs", "16.00",
                                 "16.00", "64.00", "64.00", "-", "2.791"]
    assert "update_sched_domain_debugfs 8.00 8.00 32.00 32.00" in [
        " ".join(x.split()) for x in lines]


def latencies():
    again = [{"what": "again", "load": str(ms), "down": str(ms * 10**6),
              "up": "1500000", "arch_up": "9000", "disable": "8000",
              "die": str(ms * 1000)} for ms in (3, 1, 2)]
    first = [{"what": "first", "load": "0", "up": str(ms * 10**6),
              "arch_up": "9000"} for ms in (7, 9)]
    tasks = [{"what": f"tasks, {op}", "made": str(n), "parked": "7", "woken": "20",
              "kthreadd": "1", "hotplug": "2"}
             for op, n in (("first", 8), ("first", 9), ("again", 0), ("down", 0))]
    return {"scenario": "x", "title": "T", "report": "latency",
            "clock": "virtual (icount)", "runs": [
                {"machine": m, "variant": v, "stats": s} for m in ("q35", "pseries")
                for v in ("base", "patched") for s in (
                    again, first, first + tasks
                    + [{"what": "threads", "count": "9"}])]}


def test_latency_has_cpus_that_come_first_and_again():
    lines = bench.table(latencies()).splitlines()
    assert max(map(len, lines)) <= 80
    text = [" ".join(x.split()) for x in lines]
    assert text[2] == "q35, again base patched ARM (2013-08), ms"
    assert text[3] == "of 3 min max min max min max"
    assert "CPU down 1.0 3.0 1.0 3.0 54.8 1526" in text
    assert "arch die 0.001 0.003 0.001 0.003 0.023 1.963" in text
    first = text.index("pseries, up, first time base patched ARM (2013-08), ms")
    assert text[first + 1].startswith("of 4 ")
    assert text[first + 2] == "CPU up 7.0 9.0 7.0 9.0 95.5 4165"
    assert "down" not in text[first + 4]
    assert text[-7:] == ["base patched base patched base patched",
                         "threads made 8.5 8.5 0.0 0.0 0.0 0.0",
                         "threads that park 7.0 7.0 7.0 7.0 7.0 7.0",
                         "wakeups 20.0 20.0 20.0 20.0 20.0 20.0",
                         "of kthreadd 1.0 1.0 1.0 1.0 1.0 1.0",
                         "of hotplug threads 2.0 2.0 2.0 2.0 2.0 2.0",
                         "a CPU has 9 threads of its own"]
    assert bench.plot(latencies()).startswith(b"\x89PNG")


def test_load_has_the_range_of_all_boots_and_the_least_busy_one():
    doc = {"scenario": "x", "title": "T", "report": "load",
           "clock": "virtual (icount)", "runs": [
               {"machine": m, "variant": v, "stats": [
                   {"load": kind, "what": "busy", "percent": str(busy)}] + [
                   {"load": kind, "what": what, "ns": str(n * 10**6)}
                   for what in ("first", "down", "up") for n in times]}
               for m in ("q35", "pseries") for v in ("base", "patched")
               for kind, busy, times in (("busy", 99, (9000, 2, 30)),
                                         ("busy", 98, (1, 20, 40)),
                                         ("nothing", 3, (1, 2)))]}
    lines = bench.table(doc).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].split() == ["q35,", "up,", "first", "time", "base",
                                "patched"]
    assert lines[4].split() == ["nothing", "3", *2 * ["1.0", "1.5", "2.0"]]
    assert lines[5].split() == ["4", "tasks", "a", "CPU", "98",
                                *2 * ["1.0", "25.0", "9000"]]
    assert len(lines) == 1 + 6 * 5
    # with FIFO tasks base hangs
    doc["runs"] += [{"machine": "q35", "variant": v, "stats": [
        {"load": "fifo", "what": "busy", "percent": "99"},
        {"load": "fifo", "what": "first", "ns": "7000000"}]}
        for v in ("servers", "patched")]
    lines = bench.table(doc).splitlines()
    assert lines[6].split() == ["a", "FIFO", "task*", "99", *["7.0"] * 6]
    assert lines[-2].startswith("* base hangs")
    s = bench.load("load")
    assert bench.variants(s) == ("base", "patched", "servers")
    assert {m.boot: [v for v, _, _ in bench.boots(s, m)]
            for m in bench.machines(s, arch="x86_64")
            if m.boot in ("busy, 1", "fifo, 1")} == {
        "busy, 1": ["base", "patched"], "fifo, 1": ["servers", "patched"]}


def test_survivors_have_all_ways_side_by_side():
    doc = {"scenario": "x", "title": "T", "report": "survivors",
           "clock": "virtual (icount)", "runs": [
               {"variant": v, "stats": [
                   {"cpus": str(n), "how": how, "dir": d, "tool": tool,
                    "us": str(100 * n + (d == "up"))}
                   for n in (0, 16)
                   for how in ({"base": ["single"],
                                "patched": ["single", "list"]}[v]
                               if n else ["none"])
                   for d in ("down", "up")
                   for tool in ("cyclictest", "timerlat", "lockwait")]}
               for v in ("base", "patched")]}
    lines = bench.table(doc).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(x.startswith("lockwait") for x in lines)
    assert lines[-1].split() == ["16", *3 * ["1600", "1601"]]
    assert lines[-2].split() == ["0", *3 * ["0", "1"]]


def test_quiet_has_means_of_all_ways_by_window_and_cause():
    def stats(n, how):
        return [{"what": w, "how": how, "window": win, "who": "idle", "kind": kind,
                 "cause": c, "n": str(1 if how == "now" else n)}
                for w in ("one", "list") for win in ("dying", "request")
                for kind, c in (("count", "irq"), ("cause", "ipi:f"))
                for _ in range(n if how == "now" else 1)] + [
            {"what": w, "how": how, "who": who, "n": "5"}
            for w in ("one", "list") for who in ("operations", "gap")] + [
            {"what": w, "how": how, "window": win, "who": "all",
             "kind": "windows", "cause": "-", "n": "5"} for w in ("one", "list")
            for win in ("dying", "request") if n == 1 or win == "request"]
    doc = {"title": "T", "report": "quiet", "clock": "virtual (icount)",
           "runs": [{"machine": "q35", "variant": v, "stats": stats(n, how)}
                    for v, how, n in (("base", "now", 10), ("patched", "now", 1),
                                      ("base", "expedited", 20))]}
    lines = bench.table(doc).splitlines()
    assert max(map(len, lines)) <= 80
    i = lines.index("in the whole request")
    assert [x.split() for x in lines[i + 1:i + 5]] == [
        ["interrupts", "2.0", "4.0", "0.2", "0", "0", "0"],
        ["ends", "of", "idle", *6 * ["0"]],
        ["interrupts", "of", "timers", *6 * ["0"]],
        ["ipi:f", "2.0", "4.0", "0.2", "0", "0", "0"]]
    # the unpatched kernel is said to have no 'dying'
    assert lines[i - 4].split() == ["interrupts", "-", "-", "0.2", "-", "-", "0"]
    assert lines[-2].split() == ["q35,", "one", "CPU", "5", "5", "5"]
    assert lines[-3].split()[-3:] == 3 * ["-"]


def test_early_has_both_kernels_beside_each_other():
    runs = [{"machine": "q35", "cpus": 16, "variant": v, "boot": how,
             "stats": [{"first": str(a * 1000000), "rest": str(b * 1000000)}]}
            for v, how, a, b in (("ap-delay", "8 ms, busy", 480, 3000),
                                 ("patched", "8 ms, busy", 481, 60),
                                 ("patched", "at once", 482, 7))]
    text = mailtables.early({"title": "T", "clock": "virtual (icount)",
                             "runs": runs})
    assert max(map(len, text.splitlines())) <= 80
    rows = [x.split() for x in text.splitlines()]
    assert ["q35", "16", "8", "ms,", "busy", "480.0", "481.0", "3000",
            "60.0"] in rows
    assert ["q35", "16", "at", "once", "-", "482.0", "-", "7.0"] in rows


def test_boot_time_has_all_ways_side_by_side():
    doc = {"title": "T", "report": "boot_time", "clock": "virtual (icount)",
           "runs": [{"machine": "pseries", "cpus": 128, "boot": b,
                     "variant": v, "stats": [{"ns": str(ns * 1000000)}]}
                    for b, v, ns in (("side by side", "base", 1140),
                                     ("side by side", "patched", 2),
                                     ("one by one", "patched", 3))]}
    lines = bench.table(doc).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].split() == ["pseries", "128", "1140", "2.0", "-", "3.0"]


def test_a_scenario_may_have_jobs_boots_and_kernels_of_its_own(monkeypatch):
    s = bench.load("ap-delay")
    ms = bench.machines(s, arch="ppc64le")
    assert {m.boot for m in ms} == set(s["boots"])
    assert ms[-1].append == ("trace_event=cpuhp:* trace_buf_size=2M "
                             "cpuhp.ap_delay_us=8000")
    assert len({m.name() for m in ms}) == len(ms)
    assert bench.boots(s, ms[0]) == [("patched", "", None)]
    assert bench.job_text(s, ms[0], "patched") == s["job"]
    bench._check_sample(s, ms[0], {"op": ms[0].boot, "online": "0-3"})

    s = bench.load("treatments")
    m = bench.machines(s)[0]
    assert "one write" in bench.job_text(s, m, "patched")
    only = bench.job_text(s, m, "cpuidle-without")
    assert "one write" not in only and "as_treatment cpuidle-without" in only
    assert set(mailtables.TREATMENTS) - {"one write"} == {
        "expedited", *bench.variants(s)}
    built = []
    monkeypatch.setattr(kernels, "build", lambda v, a, profile="", commit=None:
                        built.append((v, commit, profile)))
    monkeypatch.setattr(kernels, "patch", lambda subject: subject[:8])
    for v in bench.variants(s):
        bench.image(s, v, "ppc64le")
    assert built == [("base", None, ""), ("base", "cpuidle:", ""),
                     ("base", "cpuidle:", ""), ("patched", None, "")]
    del built[:]
    for v in bench.variants(bench.load("quiet")):
        bench.image(bench.load("quiet"), v, "x86_64")
    assert built == [(v, None, "nohz") for v in kernels.VARIANTS]


def test_patches_of_a_scenario_are_in_the_series():
    have = [series.title(p) for p in series.patch_files()]
    for path in bench.SCENARIOS.glob("*.toml"):
        for subject in bench.load(path.stem).get("commits", {}).values():
            assert subject in have


def test_wrong_report_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "SCENARIOS", tmp_path)
    (tmp_path / "x.toml").write_text(
        'title = "x"\nreport = "nix"\njob = "true"\n'
        '[[machine]]\ntype = "q35"\ncpus = [8]\n')
    with pytest.raises(LabError, match="no report 'nix'"):
        bench.load("x")


def test_a_patch_is_found_by_its_subject(toy, monkeypatch):
    monkeypatch.setattr(kernels, "LINUX", toy.linux)
    from conftest import sh
    toy.linux.mkdir()
    sh("git", "init", "-q", cwd=toy.linux)
    toy.commit("core.c", "a\n", "base")
    sh("git", "tag", "base", cwd=toy.linux)
    toy.commit("core.c", "b\n", "one: two")
    assert kernels.patch("one: two") == sh("git", "rev-parse", "HEAD",
                                           cwd=toy.linux).strip()
    with pytest.raises(LabError, match="no patch 'one'"):
        kernels.patch("one")


def test_idle_states_are_shares_of_all_cpus_that_are_online():
    doc = {"scenario": "x", "title": "T", "report": "idle",
           "clock": "virtual (icount)", "runs": [
               {"machine": "q35", "variant": v, "stats": [
                   {"online": n, "state": state, "usage": usage, "us": us,
                    "seconds": "10"}
                   for n in ("8", "4") for state, usage, us in (
                       ("POLL", "0", "0"), ("C1", "100", "20000000"))]}
               for v in ("base", "patched")]}
    lines = bench.table(doc).splitlines()
    assert max(map(len, lines)) <= 80
    text = [" ".join(x.split()) for x in lines]
    assert "q35 8 POLL 0.0 - 0.0 0.0 - 0.0" in text
    assert "q35 8 C1 25.0 200.0 10.0 25.0 200.0 10.0" in text
    assert "q35 4 C1 50.0 200.0 10.0 50.0 200.0 10.0" in text
    assert text[-1] == "ARM (2013) 1 Retention 98.0 222.0 4.0 - - -"
