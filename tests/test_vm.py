# SPDX-License-Identifier: GPL-2.0
"""From a topology to QEMU's command line."""

import pytest

from lab import vm
from lab.common import LabError


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


def test_sockets_have_clusters():
    m = vm.Machine("virt", 2, 4, 1, 2, clusters=2)
    args = vm.command(m, "k", "r", "l", "j", "res", "q")
    assert args[args.index("-smp") + 1] == (
        "8,sockets=2,clusters=2,cores=2,threads=1")
    assert "-dtb" not in args


def test_half_of_the_cpus_have_another_capacity(monkeypatch):
    asked = []
    monkeypatch.setattr(vm, "dtb", lambda m, args: asked.append([*args]) or "tree")
    m = vm.Machine("virt", 2, 4, 1, 2, capacity=446)
    args = vm.command(m, "k", "r", "l", "j", "res", "q")
    assert args[args.index("-dtb") + 1] == "tree"
    # CPUs and nodes are known by then, disks are of no interest
    assert "-numa" in asked[0] and "-drive" not in asked[0]


@pytest.mark.parametrize("threads, accel, wakes_up", [
    (2, "mttcg", True), (1, "mttcg", False), (2, "icount", False)])
def test_who_loses_a_doorbell_is_woken_up(threads, accel, wakes_up):
    m = vm.topology("pseries", 8, threads, accel=accel)
    args = vm.command(m, "k", "r", "l", "j", "res", "q")
    assert ("cap-large-decr=off" in args[args.index("-M") + 1]) == wakes_up
