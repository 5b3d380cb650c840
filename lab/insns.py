# SPDX-License-Identifier: GPL-2.0
"""'make insns': in which functions the instructions of SMT off and on are
executed, on base and patched, counted by a QEMU plugin (insns.c) without
touching the guest. In virtual time (icount) an instruction is a nanosecond, so
this is where the time is, to the last one."""

import bisect
import dataclasses
import os
import re
import tempfile
import textwrap

from . import bench, kernels, record
from .common import (TOP, LabError, cache_dir, digest, human, locked, run,
                     say)

SOURCE = TOP / "lab" / "insns.c"
OPS = ("off", "on")
# Both kernels hold the device hotplug lock for a write to smt/control, and
# hardly anybody else takes it.
FROM, TO = "lock_device_hotplug_sysfs", "unlock_device_hotplug"
# Once each way before, so that what is made for a CPU that comes up for the
# first time is there. Grace periods are expedited: how many there are is
# told elsewhere, this is about what is left.
JOB = """
echo 1 > /sys/kernel/rcu_expedited
for op in off on off on; do
	sleep 0.2
	labctl write $CPU/smt/control $op > ns || die "SMT $op failed"
	emit op op $op ns "$(cat ns)" online "$(cat $CPU/online)"
done
"""
ROWS = 25
# What is less than a five-thousandth of an operation is kept as one
FEW, REST = 5000, "all others"


def plugin():
    """Path of the plugin, compiled on first use; LabError when that fails."""
    path = cache_dir() / "plugin" / f"insns-{digest(SOURCE.read_bytes())}.so"
    with locked("plugin"):          # guests start side by side
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            new = path.with_suffix(".new")
            status, text = run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o",
                                str(new), str(SOURCE)], check=False)
            if status:
                raise LabError(f"lab/insns.c does not compile: {text[-500:]}; "
                               "run 'make deps'")
            new.rename(path)
    return path


def symbols(system_map):
    """([address], [name]) of the kernel's code, by address."""
    found = sorted((int(a, 16), name) for a, kind, name in
                   (x.split() for x in system_map.splitlines())
                   if kind in "tTwW")
    return [a for a, _ in found], [n for _, n in found]


def count(text, addresses, names, ops=len(OPS)):
    """[{function: instructions}] of an operation each, from the plugin's file.
    What is not the kernel's code is "user". A function that the compiler has
    split is one. Raises LabError for a file that is none."""
    out = [{} for _ in range(ops)]
    for x in text.splitlines():
        try:
            op, addr, insns, n = x.split()
            op, addr, n = int(op), int(addr, 16), int(insns) * int(n)
        except ValueError:
            raise LabError(f"no count of the plugin: '{x[:60]}'; run 'make "
                           "insns' again") from None
        i = bisect.bisect(addresses, addr) - 1
        # The first and the last symbol are those of the kernel's text
        inside = i >= 0 and addr < addresses[-1] + (1 << 20)
        name = re.sub(r"\.(part|constprop|isra|cold)\b.*", "", names[i]) \
            if inside else "user"
        if op < ops:
            out[op][name] = out[op].get(name, 0) + n
    return out


def trim(functions):
    """The same with those that hardly count as one."""
    least = sum(functions.values()) / FEW
    out = {f: n for f, n in sorted(functions.items()) if n >= least}
    return {**out, REST: sum(functions.values()) - sum(out.values())}


def _column(op, who):
    """One side of the table for an operation, as lines of at most 38."""
    total, cpus = sum(op["functions"].values()), op["cpus"]
    lines = [f"{who}: {total / 1e6:.3f} million,",
             f"{total / cpus / 1000:.1f} thousand for each of {cpus} CPUs", "",
             f"{'function':<25}{'/CPU':>7}{'%':>6}"]
    named = sorted(((f, n) for f, n in op["functions"].items() if f != REST),
                   key=lambda x: (-x[1], x[0]))
    for name, n in named[:ROWS]:
        if len(name) > 24:              # a line of its own
            lines += textwrap.wrap(name, 38)
            name = ""
        lines.append(f"{name:<25}{n / cpus:>7.0f}{n / total:>6.1%}")
    return lines


def table(doc):
    """The result as text, 80 columns: base left, patched right."""
    out = []
    for op in OPS:
        left, right = (_column(doc["kernels"][v]["ops"][op], v)
                       for v in kernels.VARIANTS)
        out += [f"SMT {op}, {doc['machine']}, {doc['cpus']} CPUs: instructions"
                " by function", "", *record.side_by_side(left, right), ""]
    return "\n".join(out).rstrip("\n") + "\n"


def boot_counted(m, image, job, name, options, ops):
    """Boot a kernel with the plugin and run a job; (the guest's Run, [{function:
    instructions}] of so many operations). options(names, addresses): where the
    plugin begins and ends. LabError when it left no counts."""
    addresses, names = symbols((image / "System.map").read_text())
    with tempfile.TemporaryDirectory(prefix="cpuhp-") as tmp:
        out = os.path.join(tmp, "counts")
        plug = f"{plugin()},{options(names, addresses)},out={out}"
        r = bench.run_to_end(
            dataclasses.replace(m, options=m.options + ("-plugin", plug)),
            image, job, name, append="nokaslr", limit=300 + 10 * m.cpus)
        try:
            with open(out, encoding="ascii") as f:
                counted = count(f.read(), addresses, names, ops)
        except OSError as e:
            raise LabError(f"{name}: the plugin left no counts ({e.strerror}); "
                           f"console: {r.console_path}") from None
    say(f"   {name}: {human(r.seconds)}")
    return r, counted


def _options(names, addresses):
    """What the plugin is told of FROM and TO; LabError without them."""
    where = dict(zip(names, addresses))
    for f in (FROM, TO):
        if f not in where:
            raise LabError(f"the kernel has no function {f}(), which begins or "
                           "ends an operation; mend lab/insns.py")
    return f"from={where[FROM]:x},to={where[TO]:x},skip={len(OPS)}"


def run_one(m, variant, image):
    """Boot a kernel, run the job; its part of the document."""
    name = f"insns-{m.name()}-{variant}"
    r, counted = boot_counted(m, image, JOB, name, _options, len(OPS))
    records = {x["op"]: x for x in r.of("op")}
    ops = {}
    for op, functions in zip(OPS, counted):
        if not functions:
            raise LabError(f"{name}: nothing was counted of SMT {op}; is "
                           f"{FROM}() where it begins?")
        ops[op] = {"ns": int(records[op]["ns"]),
                   "cpus": m.cpus - m.cpus // m.threads,
                   "functions": trim(functions)}
    return {"ops": ops}


def inputs(arch):
    """The digest of what defines a result but the kernel's code."""
    return digest(JOB, FROM, TO, SOURCE, *kernels.fragments(arch))


def shown():
    """What is recorded of each architecture."""
    def one(doc):
        name, text = f"insns-{doc['arch']}", table(doc)
        return record.Shown(
            [record.Result(f"insns ARCH={doc['arch']}", doc["stamp"],
                           inputs(doc["arch"]),
                           seconds=doc.get("host_seconds", 0))],
            {f"insns:{doc['arch']}": record.environment(
                doc, ", grace periods expedited in both") + "\n\n"
             + record.fenced(text)}, {f"{name}.txt": text})
    return record.each("insns-*.json", one, "make insns RECORD=1")


def check_machine(m):
    """LabError when on this machine nothing can be counted."""
    if m.accel != "icount":
        raise LabError(f"ACCEL={m.accel}: 'make insns' counts in icount only, "
                       "where an instruction is a nanosecond")
    if m.threads < 2:
        raise LabError(f"{m.name()} has no siblings that SMT off takes "
                       "offline; use THREADS=2 or more")


def main(m, rec=False):
    """Count on a machine, print the table, keep the JSON in out/insns/; with
    rec in bench/results/ too."""
    check_machine(m)
    doc = bench.both("instructions", m, inputs(m.arch), run_one)
    print("\n" + table(doc), flush=True)
    record.leave("insns", f"insns-{m.arch}", doc, {}, rec)
