# SPDX-License-Identifier: GPL-2.0
"""Off-CPU analysis: folded stacks, table, flame graphs."""

from xml.etree import ElementTree

import pytest

from lab import bench, kernels, offcpu, record
from lab.common import LabError

CALL = ("entry_SYSCALL_64_after_hwframe;vfs_write;kernfs_fop_write_iter;"
        "control_store;cpuhp_smt_disable;")
SLEEP = ";schedule_timeout;schedule;__schedule;finish_task_switch.isra.0"
FOLDED = (f"labctl;{CALL}_cpu_down;synchronize_rcu{SLEEP} 900\n"
          f"labctl;{CALL}_cpu_down;wait_for_completion{SLEEP} 1500\n"
          f"labctl;{CALL}_cpu_down;wait_for_completion;schedule 500\n"
          "labctl;do_exit;schedule 70\n"
          "cpuhp/1;kthread;smpboot_thread_fn;cpuhp_thread_fun;"
          "sched_cpu_deactivate;synchronize_rcu 40\n"
          "cpuhp/7;kthread;smpboot_thread_fn;cpuhp_thread_fun;"
          "sched_cpu_deactivate;synchronize_rcu 60\n"
          "cpuhp/7;kthread;smpboot_thread_fn;schedule 99999\n"
          "bash;do_wait;schedule 12345\n")
# the patched kernel's: who writes waits for a kthread
REQUEST = (f"labctl;{CALL}cpuhp_request_run;wait_for_completion{SLEEP} 800\n"
           "cpuhp_request;kthread;kthread_worker_fn;cpuhp_request_workfn;"
           "sched_cpus_deactivate;synchronize_rcu_expedited;schedule 700\n"
           "cpuhp_request;kthread;kthread_worker_fn;schedule 5555\n")


def doc(folded=FOLDED):
    """A document as main() makes it."""
    run = {"ns": 5_000_000, "online": "0-7", "folded":
           offcpu.fold(offcpu.of_hotplug(offcpu.parse(folded)))}
    kernel = {"release": "7.3.4-x", "tree": "f" * 40, "config_hash": "0",
              "compiler": "gcc 12", "bcc": "0.26.0", "ops": {op: run for op in offcpu.OPS}}
    return {"stamp": {"date": "2026-01-01T00:00:00Z", "tree": "f" * 40,
                      "kernel": "k", "inputs": "i"}, "arch": "x86_64",
            "machine": "q35", "cpus": 16, "threads": 2, "nodes": 2,
            "accel": "icount", "qemu": "10.0.0",
            "kernels": {v: kernel for v in kernels.VARIANTS}}


def test_only_the_operation_counts():
    got = offcpu.of_hotplug(offcpu.parse(FOLDED))
    total = {}
    for (task, *_), us in got.items():
        total[task] = total.get(task, 0) + us
    assert total == {offcpu.WRITER: 2900, offcpu.THREADS: 100}


def test_folded_stacks_survive_parse_and_fold():
    stacks = offcpu.parse("a;b c;d 3\na;b c;d 4\ne 9\n")
    assert stacks == {("a", "b c", "d"): 7, ("e",): 9}
    assert offcpu.fold(stacks) == "e 9\na;b c;d 7\n"


@pytest.mark.parametrize("line", ["a;b", "a;b x", "12", "Traceback: 1 x"])
def test_what_is_no_folded_stack_is_an_error(line):
    with pytest.raises(LabError, match="make offcpu") as e:
        offcpu.parse(line)
    assert "\n" not in str(e.value)


def test_top_is_innermost_first_and_merges_ways_to_sleep():
    stacks = offcpu.of_hotplug(offcpu.parse(FOLDED))
    call = ["_cpu_down", "cpuhp_smt_disable", "control_store"]
    assert offcpu.top(stacks, offcpu.WRITER) == [
        (2000, ["wait_for_completion", *call]),
        (900, ["synchronize_rcu", *call])]
    assert offcpu.top(stacks, offcpu.THREADS, 1) == [
        (100, ["synchronize_rcu", "sched_cpu_deactivate",
               "cpuhp_thread_fun"])]


def test_table_is_side_by_side_in_80_columns():
    d = doc()
    d["kernels"]["patched"] = doc(FOLDED.replace("synchronize_rcu", "x" * 90))[
        "kernels"]["patched"]
    text = offcpu.table(d)
    assert max(map(len, text.splitlines())) <= 80
    assert "base took 5.0 ms" in text and "2.0 ms  69%" in text
    assert any(" | " in x and "synchronize_rcu" in x and "xxx" in x
               for x in text.splitlines())


def test_table_has_the_kthread_where_there_is_one():
    d = doc()
    d["kernels"]["patched"] = doc(REQUEST)["kernels"]["patched"]
    lines = offcpu.table(d).splitlines()
    told = [x.split("|") for x in lines if "cpuhp_request blocked" in x]
    assert [x[1].strip() for x in told] == ["cpuhp_request blocked for 0.7 ms"] * 2
    assert not any("cpuhp_request" in x[0] for x in told)
    assert any("sched_cpus_deactivate" in x for x in lines)
    assert "5.6 ms" not in offcpu.table(d)


def test_table_where_nothing_was_blocked():
    d = doc()
    d["kernels"]["patched"] = doc(FOLDED.splitlines()[0])["kernels"]["patched"]
    assert f"{offcpu.THREADS} blocked for 0.0 ms" in offcpu.table(d)


def test_flame_graph_is_svg_with_a_box_for_each_frame():
    stacks = offcpu.parse("a;<b>&;c 300\na;d 100\n")
    top = ElementTree.fromstring(offcpu.flame(stacks, "t & u"))
    ns = "{http://www.w3.org/2000/svg}"
    boxes = {g.find(f"{ns}title").text: float(g.find(f"{ns}rect").get("width"))
             for g in top.findall(f"{ns}g")}
    assert boxes == {"a: 0.4 ms, 100.0%": 1200, "<b>&: 0.3 ms, 75.0%": 900,
                     "c: 0.3 ms, 75.0%": 900, "d: 0.1 ms, 25.0%": 300}


def test_what_is_recorded_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    record.save("offcpu-x86_64", doc())
    shown, = offcpu.shown()
    text = shown.blocks["offcpu:x86_64"]
    assert offcpu.table(doc()) in text and "bcc 0.26.0" in text
    assert shown.files["offcpu-x86_64-base-off.svg"].startswith("<svg")
    assert shown.results[0].inputs == offcpu.inputs("x86_64")
    record.save("offcpu-x86_64", {"arch": "x86_64"})
    with pytest.raises(LabError, match="offcpu-x86_64.json is damaged"):
        offcpu.shown()


def test_scenarios_do_not_take_these_results_for_theirs():
    assert "scenario" not in doc()
    assert "offcpu" not in [p.stem for p in bench.SCENARIOS.glob("*.toml")]


def test_the_profile_has_what_bcc_needs():
    text = "".join(p.read_text() for p in kernels.fragments("x86_64", "bpf"))
    for option in ("KPROBES", "BPF_SYSCALL", "BPF_EVENTS", "IKHEADERS"):
        assert f"CONFIG_{option}=y" in text
