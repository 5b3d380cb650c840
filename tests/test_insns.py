# SPDX-License-Identifier: GPL-2.0
"""Instructions by function: the plugin, its counts, the table."""

import pathlib
import subprocess
import time

import pytest

from lab import boot, insns, kernels, record
from lab.common import LabError
from lab.vm import Machine

MAP = ("ffffffff81000000 T _text\n"
       "ffffffff81000100 t mt_find\n"
       "ffffffff81000100 T __pfx_alias\n"
       "ffffffff81000200 t kernfs_put.part.0\n"
       "ffffffff81000300 T kernfs_put\n"
       "ffffffff81000350 D not_code\n"
       "ffffffff81000400 T _etext\n")
COUNTS = ("0 ffffffff81000104 5 10\n"       # mt_find
          "0 ffffffff81000200 3 2\n"        # kernfs_put.part.0
          "1 ffffffff81000310 7 1\n"        # kernfs_put
          "0 ffffffff81000380 1 4\n"
          "1 7f0000001000 2 50\n"           # user space
          "2 ffffffff81000104 1 1\n")       # an operation too many


def doc(off, on):
    """A document as main() makes it."""
    run = {"off": {"ns": 5, "cpus": 2, "functions": off},
           "on": {"ns": 5, "cpus": 2, "functions": on}}
    kernel = {"release": "7.3.4-x", "tree": "f" * 40, "config_hash": "0",
              "compiler": "gcc 12", "ops": run}
    return {"stamp": {"date": "2026-01-01T00:00:00Z", "tree": "f" * 40,
                      "kernel": "k", "inputs": "i"}, "arch": "x86_64",
            "machine": "q35", "cpus": 4, "threads": 2, "nodes": 1,
            "accel": "icount", "qemu": "10.0.0",
            "kernels": {v: kernel for v in kernels.VARIANTS}}


def counted():
    return insns.count(COUNTS, *insns.symbols(MAP))


def test_blocks_are_put_to_functions():
    off, on = counted()
    assert off["kernfs_put"] == 6 + 4           # its part counts as it
    assert sum(off.values()) == 60 and off.get("not_code") is None
    assert on == {"kernfs_put": 7, "user": 100}


def test_of_two_names_for_an_address_one_gets_it():
    off, _ = counted()
    assert off.get("mt_find", 0) + off.get("__pfx_alias", 0) == 50


@pytest.mark.parametrize("line", ["0 xyz 1 1", "0 ff 1", "no count at all"])
def test_a_line_that_is_no_count_is_named(line):
    with pytest.raises(LabError, match="make insns") as e:
        insns.count(line, *insns.symbols(MAP))
    assert line in str(e.value)


def test_trim_loses_nothing():
    functions = {f"f{i}": 1 for i in range(100)} | {"big": 1000000}
    got = insns.trim(functions)
    assert got == {"big": 1000000, insns.REST: 100}


def test_the_table_is_80_columns_with_totals_of_all():
    off, on = ({"a_function_with_a_very_long_name_indeed": 3000000,
                insns.REST: 1000000}, {"b": 4})
    text = insns.table(doc(off, on))
    assert max(map(len, text.splitlines())) <= 80
    assert "base: 4.000 million" in text and "2000.0 thousand" in text
    assert insns.REST not in text and " 75.0%" in text


def test_what_is_recorded_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    d = doc({"f": 1}, {"g": 2})
    record.save("insns-x86_64", d)
    shown, = insns.shown()
    text = shown.blocks["insns:x86_64"]
    assert insns.table(d) in text and "QEMU 10.0.0 q35, 4 CPUs" in text
    assert shown.results[0].inputs == insns.inputs("x86_64")
    record.save("insns-x86_64", {})
    with pytest.raises(LabError, match="insns-x86_64.json is damaged"):
        insns.shown()


@pytest.mark.parametrize("change, words", [
    ({"accel": "mttcg"}, "ACCEL=mttcg"), ({"threads": 1}, "no siblings")])
def test_a_machine_that_cannot_be_counted(change, words):
    m = Machine(**{"type": "q35", "sockets": 1, "cores": 4, "threads": 2,
                   **change})
    with pytest.raises(LabError, match=words):
        insns.main(m)


def test_guests_side_by_side_compile_the_plugin_once(monkeypatch, tmp_path):
    monkeypatch.setenv("CPUHP_CACHE", str(tmp_path))
    made = []

    def run(cmd, **kw):
        made.append(cmd)
        time.sleep(0.3)
        pathlib.Path(cmd[cmd.index("-o") + 1]).touch()
        return 0, ""
    monkeypatch.setattr(insns, "run", run)
    one, two = boot.side_by_side(insns.plugin, [(), ()], 2)
    assert one == two and one.exists() and len(made) == 1


def test_the_plugin_compiles_and_is_known_to_qemu():
    """QEMU loads it, and what it is not told is said."""
    lib = insns.plugin()
    got = subprocess.run(
        ["qemu-system-x86_64", "-display", "none", "-M", "none", "-plugin",
         f"{lib},from=0,to=1,out=x"], capture_output=True, text=True,
        timeout=60, check=False)
    assert got.returncode and "from=, to= and out= are needed" in got.stderr
