# SPDX-License-Identifier: GPL-2.0
"""Rebuilds of the sched domains by function: where they begin and end, and the
table."""

import pytest

from lab import bench, insns, kernels, rebuilds, record
from lab.common import LabError

NAMES = {"sched_init_smp": 0x100, "partition_sched_domains": 0x200,
         "rebuild_sched_domains_locked": 0x300, "next": 0x380,
         "workqueue_init_topology": 0x400}
SYMBOLS = [list(NAMES.values()), list(NAMES)]


def doc():
    """A document as main() makes it, of two shapes."""
    ops = {v: {op: {"a_function_with_quite_a_long_name_indeed": n,
                    insns.REST: 1000} for op in rebuilds.TITLES}
           for v, n in zip(kernels.VARIANTS, (8999000, 1999000))}
    kernel = {"release": "7.3.4-x", "tree": "f" * 40, "config_hash": "0",
              "compiler": "gcc 12"}
    return {"stamp": {"date": "2026-01-01T00:00:00Z", "tree": "f" * 40,
                      "kernel": "k", "inputs": "i"}, "arch": "ppc64le",
            "machine": "pseries", "accel": "icount", "qemu": "10.0.0",
            "kernels": {v: kernel for v in kernels.VARIANTS},
            "shapes": [{"shape": [n, 8, 1], "kernels": ops} for n in (32, 64)]}


@pytest.mark.parametrize("arch", rebuilds.SHAPES)
def test_each_shape_is_a_machine_with_so_many_nodes(arch):
    for cpus, threads, nodes in rebuilds.SHAPES[arch]:
        m = rebuilds.machine(arch, cpus, threads, nodes)
        assert (m.cpus, m.threads, m.nodes) == (cpus, threads, nodes)
        assert not m.sockets % nodes


def test_the_second_ends_anywhere_in_its_caller():
    assert rebuilds.options(SYMBOLS[1], SYMBOLS[0]) == (
        "from=100,to=400,from=200,to=300,size=80,skip=0")


def test_a_kernel_without_such_a_function_is_told():
    with pytest.raises(LabError, match="partition_sched_domains"):
        rebuilds.options(["sched_init_smp", "workqueue_init_topology"], [1, 2])


@pytest.mark.parametrize("seen", [4, 6])
def test_each_operation_is_one_rebuild(monkeypatch, tmp_path, seen):
    """One that had none, or two, would be taken for another."""
    (tmp_path / "System.map").write_text("".join(
        f"{a:x} T {n}\n" for n, a in NAMES.items()))

    class Ran:
        seconds, console_path = 1, "console"

    def run(m, *a, **kw):
        out = m.options[-1].rpartition("out=")[2]
        with open(out, "w", encoding="ascii") as f:
            f.writelines(f"{op} 200 5 1\n" for op in range(seen))
        return Ran()
    monkeypatch.setattr(bench, "run_to_end", run)
    monkeypatch.setattr(insns, "plugin", lambda: "insns.so")
    with pytest.raises(LabError, match=f"{seen} rebuilds where 5 were due"):
        rebuilds.run_one(rebuilds.machine("ppc64le", 32, 8, 1), "base", tmp_path)


def test_the_table_is_80_columns_with_totals_of_all():
    text = rebuilds.table(doc())
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("    9000    9000\n") == 3       # base, in each operation
    assert text.count("     4.5     4.5\n") == 3
    assert "  a_function_with_quite_a_long_name_indeed\n" in text


def test_what_is_recorded_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    record.save("rebuild-ppc64le", doc())
    shown, = rebuilds.shown()
    assert rebuilds.table(doc()) in shown.blocks["rebuild:ppc64le"]
    assert shown.results[0].name == "insns WHAT=rebuild ARCH=ppc64le"
    record.save("rebuild-ppc64le", {})
    with pytest.raises(LabError, match="rebuild-ppc64le.json is damaged"):
        rebuilds.shown()


@pytest.mark.parametrize("args, words", [
    (("arm64",), "ARCH=arm64"), (("ppc64le", False, 33), "CPUS=33"),
    (("ppc64le", True, 32), "leave out CPUS=")])
def test_what_cannot_be_counted_is_told(args, words):
    with pytest.raises(LabError, match=words):
        rebuilds.main(*args)
