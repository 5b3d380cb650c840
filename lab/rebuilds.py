# SPDX-License-Identifier: GPL-2.0
"""'make insns WHAT=rebuild': the instructions of a rebuild of the sched domains,
by function, on base and patched, by number of CPUs, threads and nodes: at boot, and
when one CPU goes offline and comes online. Counted by the plugin of insns.py, so
nothing in the guest is traced; in virtual time an instruction is a nanosecond."""

import dataclasses
import os
import textwrap
import time

from . import bench, boot, insns, kernels, record, vm
from .common import LabError, digest, say

# (CPUs, threads a core, nodes)
SHAPES = {"ppc64le": ((32, 8, 1), (64, 8, 2), (128, 8, 4), (256, 8, 8),
                      (128, 1, 4), (128, 2, 4)),
          "x86_64": ((32, 2, 1), (64, 2, 2), (128, 2, 4), (128, 1, 4))}
# Where a rebuild begins, and the function from which it was called or that comes
# next, which is where it ends; the second is cpuset's for everybody
PAIRS = (("sched_init_smp", "workqueue_init_topology", False),
         ("partition_sched_domains", "rebuild_sched_domains_locked", True))
# The first two go by: a CPU is never the same again after its first time
OPS = ("boot", "first off", "first on", "off", "on")
JOB = """
for v in 0 1 0 1; do
	labctl write $CPU/cpu$((CPUS - 1))/online $v > /dev/null ||
		die "CPU $((CPUS - 1)): $v failed"
	sleep 0.2
done
"""
ROWS = 14
TITLES = {"boot": "at boot, until all CPUs have their domains",
          "off": "when one CPU goes offline", "on": "when one CPU comes online"}


def machine(arch, cpus, threads, nodes):
    """The Machine of a shape: a socket for each node, two where there is one."""
    m = vm.topology(vm.DEFAULT[arch], cpus, threads)
    sockets = max(nodes, m.sockets)
    return dataclasses.replace(m, sockets=sockets, nodes=nodes,
                               cores=cpus // threads // sockets)


def options(names, addresses):
    """What the plugin is told of PAIRS, for a kernel with these symbols.
    LabError when it has no such function."""
    out = []
    for first, last, caller in PAIRS:
        for f in (first, last):
            if f not in names:
                raise LabError(f"the kernel has no function {f}(), with which a "
                               "rebuild begins or ends; mend lab/rebuilds.py")
        i = names.index(last)
        out += [f"from={addresses[names.index(first)]:x}", f"to={addresses[i]:x}"]
        if caller:
            size = next(a for a in addresses[i:] if a > addresses[i])
            out.append(f"size={size - addresses[i]:x}")
    return ",".join([*out, "skip=0"])


def run_one(m, variant, image):
    """Boot a kernel; {operation: {function: instructions}}. LabError when not
    each operation was one rebuild."""
    name = f"rebuild-{m.name()}-{m.threads}-{m.nodes}-{variant}"
    r, counted = insns.boot_counted(m, image, JOB, name, options, len(OPS) + 1)
    n = sum(map(bool, counted))
    if n != len(OPS):
        raise LabError(f"{name}: {n} rebuilds where {len(OPS)} were due "
                       f"({', '.join(OPS)}); console: {r.console_path}")
    return {op: insns.trim(f) for op, f in zip(OPS, counted) if op in TITLES}


def _line(name, cells, width=32):
    """A row of a table; a name that is too long has a line of its own."""
    lines = [name] if len(name) > width else []
    return [*lines, f"{'' if lines else name:<{width}}"
            + "".join(f"{c:>8}" for c in cells)]


def table(doc):
    """The result as text, 80 columns."""
    shapes = doc["shapes"]
    out = ["Rebuild of the sched domains, thousand instructions "
           f"({doc['machine']})", ""]
    for i, what in enumerate(("CPUs", "threads a core", "nodes")):
        out += _line(what, [s["shape"][i] for s in shapes])
    for op, title in TITLES.items():
        sums = {v: [sum(s["kernels"][v][op].values()) / 1000 for s in shapes]
                for v in kernels.VARIANTS}
        out += ["", title]
        for v, cells in sums.items():
            out += _line(f"  {v}", [f"{c:.0f}" for c in cells])
        out += _line("  base / patched", [
            f"{a / b:.1f}" for a, b in zip(*sums.values())])
    for v in kernels.VARIANTS:
        out += ["", f"{TITLES['on']}, {v}, by function"]
        columns = [s["kernels"][v]["on"] for s in shapes]
        total = {}
        for c in columns:
            for f, n in c.items():
                if f != insns.REST:
                    total[f] = total.get(f, 0) + n
        first = sorted(total, key=lambda f: (-total[f], f))[:ROWS]
        for f in first:
            out += _line(f"  {f}", [f"{c.get(f, 0) / 1000:.1f}" for c in columns])
        out += _line("  all others", [
            f"{sum(n for f, n in c.items() if f not in first) / 1000:.1f}"
            for c in columns])
    return "\n".join(out) + "\n"


def inputs(arch):
    """The digest of what defines a result but the kernel's code."""
    return digest(JOB, repr((SHAPES[arch], PAIRS, OPS)), insns.SOURCE,
                  *kernels.fragments(arch))


def shown():
    """What is recorded of each architecture."""
    def one(doc):
        text = table(doc)
        k = doc["kernels"]
        what = textwrap.fill(
            f"QEMU {doc['qemu']} {doc['machine']}, {doc['accel']}; "
            f"{k['base']['release']} and {k['patched']['release']}, "
            f"{k['base']['compiler']}.", 80, break_on_hyphens=False)
        return record.Shown(
            [record.Result(f"insns WHAT=rebuild ARCH={doc['arch']}",
                           doc["stamp"], inputs(doc["arch"]),
                           seconds=doc.get("host_seconds", 0))],
            {f"rebuild:{doc['arch']}": f"{what}\n\n{record.fenced(text)}"},
            {f"rebuild-{doc['arch']}.txt": text})
    return record.each("rebuild-*.json", one,
                       "make insns WHAT=rebuild RECORD=1")


def shapes(arch, rec, cpus):
    """Those of an architecture, with cpus those with so many; LabError when
    there are none, or less than all are to be recorded."""
    if arch not in SHAPES:
        raise LabError(f"ARCH={arch}: WHAT=rebuild has " + ", ".join(SHAPES))
    some = [s for s in SHAPES[arch] if not cpus or s[0] == cpus]
    if not some:
        raise LabError(f"CPUS={cpus}: WHAT=rebuild has " + ", ".join(
            str(n) for n in sorted({s[0] for s in SHAPES[arch]})))
    if rec and len(some) < len(SHAPES[arch]):
        raise LabError("RECORD=1 records all numbers of CPUs; leave out CPUS=")
    return some


def main(arch, rec=False, cpus=0):
    """Count, print the table, keep the JSON in out/insns/; with rec in
    bench/results/ too. cpus: only the shapes with so many."""
    some = shapes(arch, rec, cpus)
    images = {v: kernels.build(v, arch) for v in kernels.VARIANTS}
    doc = {"stamp": record.stamp(inputs(arch), of=[(arch, "")]), "arch": arch,
           "machine": vm.DEFAULT[arch], "accel": "icount",
           "qemu": vm.qemu_version(arch),
           "kernels": {v: record.of_image(i) for v, i in images.items()}}
    calls = [(machine(arch, *s), v, images[v]) for s in some
             for v in kernels.VARIANTS]
    say(f"== rebuilds of sched domains on {doc['machine']}: {len(calls)} boots")
    t0 = time.monotonic()
    got = boot.side_by_side(run_one, calls, os.cpu_count() or 1)
    doc["shapes"] = [{"shape": list(s), "kernels": dict(zip(
        kernels.VARIANTS, got[2 * i:2 * i + 2]))} for i, s in enumerate(some)]
    doc["host_seconds"] = round(time.monotonic() - t0, 1)
    print("\n" + table(doc), flush=True)
    record.leave("insns", f"rebuild-{arch}", doc, {}, rec)
