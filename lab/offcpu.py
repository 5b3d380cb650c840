# SPDX-License-Identifier: GPL-2.0
"""Off-CPU analysis of SMT off and on, as in the mail of March 2023: bcc's
offcputime on base and patched, the top stacks side by side, flame graphs."""

import json
import os
import re
import textwrap
import time
from xml.sax.saxutils import escape

from . import boot, common, kernels, vm
from .common import OUT, TOP, LabError, human, say, write_atomic

JOB = TOP / "bench" / "offcpu.sh"
PAGE = TOP / "docs" / "offcpu.md"
RESULTS = TOP / "bench" / "results"
OPS = ("off", "on")
# The task that writes to smt/control, and those it has the work done by.
WRITER, THREADS = "writer", "cpuhp/N"
# Frames around those that differ: what leads into the kernel's device model
# or a cpuhp thread, and how any task goes to sleep.
_OUTER = ("kernfs_fop_write_iter", "sysfs_kf_write", "dev_attr_store",
          "smpboot_thread_fn")
_INNER = re.compile(r"(finish_task_switch|__schedule|schedule|schedule_timeout"
                    r"|schedule_preempt_disabled|preempt_schedule\w*"
                    r"|__wait_for_common)(\.\w+)*$")


def parse(text):
    """{(task, frame, …): microseconds} of folded stacks, outermost frame
    first. Raises LabError for a line which is none."""
    out = {}
    for line in text.splitlines():
        stack, _, us = line.rpartition(" ")
        if not stack or not us.isdigit():
            raise LabError(f"no folded stack: '{line[:60]}'; look at the "
                           "*.folded files in out/offcpu/ and run 'make "
                           "offcpu' again")
        frames = tuple(stack.split(";"))
        out[frames] = out.get(frames, 0) + int(us)
    return out


def fold(stacks):
    """The text of such a dict, longest first."""
    return "".join(f"{';'.join(s)} {us}\n" for s, us in
                   sorted(stacks.items(), key=lambda x: (-x[1], x[0])))


def of_hotplug(stacks):
    """What belongs to the operation: the writer in its system call, and all
    cpuhp threads as one while they run callbacks."""
    out = {}
    for (task, *frames), us in stacks.items():
        if task == "labctl" and "kernfs_fop_write_iter" in frames:
            task = WRITER
        elif task.startswith("cpuhp/") and "cpuhp_thread_fun" in frames:
            task = THREADS
        else:
            continue
        key = (task, *frames)
        out[key] = out.get(key, 0) + us
    return out


def short(frames):
    """A stack's telling part, innermost frame first."""
    start = max((i + 1 for i, f in enumerate(frames) if f in _OUTER),
                default=0)
    frames = list(frames[start:])
    while frames and _INNER.match(frames[-1]):
        frames.pop()
    return frames[::-1]


def top(stacks, task, n=3):
    """The n longest of a task: (microseconds, short stack) each. Stacks which
    only differ in what is left out are one."""
    out = {}
    for (who, *frames), us in stacks.items():
        if who == task:
            key = tuple(short(frames))
            out[key] = out.get(key, 0) + us
    return sorted(((us, list(s)) for s, us in out.items()),
                  key=lambda x: (-x[0], x[1]))[:n]


def _ms(us):
    return f"{us / 1000:.1f} ms"


def _column(run, task):
    """One side of the table for a task, as lines of at most 38: its longest
    stacks without those below a hundredth."""
    stacks = parse(run["folded"])
    total = sum(us for s, us in stacks.items() if s[0] == task)
    lines = [f"{task} blocked for {_ms(total)}", ""]
    for us, frames in top(stacks, task):
        if us < total / 100:
            break
        lines.append(f"{_ms(us):>10} {us / total:>4.0%}")
        lines += [("  " + f)[:38] for f in frames] + [""]
    return lines


def table(doc):
    """The result as text, 80 columns: base left, patched right."""
    virtual = "virtual " if doc["accel"] == "icount" else ""
    out = []
    for op in OPS:
        base, patched = (doc["kernels"][v]["ops"][op]
                         for v in kernels.VARIANTS)
        out += [f"SMT {op}, {doc['machine']}, {doc['cpus']} CPUs "
                f"({virtual}time): where tasks were blocked", ""]
        rows = [(["base took " + _ms(base["ns"] / 1000)],
                 ["patched took " + _ms(patched["ns"] / 1000)])]
        rows += [(_column(base, t), _column(patched, t))
                 for t in (WRITER, THREADS)]
        for left, right in rows:
            n = max(len(left), len(right))
            for a, b in zip(left + [""] * (n - len(left)),
                            right + [""] * (n - len(right))):
                out.append(f"{a:<38} | {b}".rstrip())
    return "\n".join(out).rstrip(" |\n") + "\n"


def flame(stacks, title, width=1200, row=17):
    """A flame graph as SVG: the wider, the longer; innermost frames on top.
    The mouse shows names and times."""
    tree = {}
    for frames, us in stacks.items():
        node = tree
        for f in frames:
            sub = node.setdefault(f, [0, {}])
            sub[0] += us
            node = sub[1]
    total = sum(stacks.values())
    boxes, depth = [], [0]

    def place(node, x, level):
        depth[0] = max(depth[0], level)
        for name, (us, sub) in sorted(node.items()):
            boxes.append((x, level, us, name))
            place(sub, x, level + 1)
            x += us

    place(tree, 0, 0)
    height = (depth[0] + 2) * row
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
           f'height="{height}" font-family="monospace" font-size="11">',
           '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="4" y="13">{escape(title)}: {_ms(total)} blocked</text>']
    for x, level, us, name in boxes:
        w = us / total * width
        if w < 0.3:
            continue
        y = height - (level + 1) * row
        hue = 200 + sum(name.encode()) % 40     # blue: off the CPU
        label = escape(name[:int(w / 6.7)]) if w > 20 else ""
        out.append(
            f'<g><title>{escape(name)}: {_ms(us)}, {us / total:.1%}</title>'
            f'<rect x="{x / total * width:.1f}" y="{y}" width="{w:.1f}" '
            f'height="{row - 1}" fill="hsl({hue},70%,75%)"/>'
            f'<text x="{x / total * width + 2:.1f}" y="{y + 12}">{label}'
            '</text></g>')
    return "\n".join(out + ["</svg>", ""])


def environment(doc):
    """What the numbers were taken with, as one paragraph."""
    k = doc["kernels"]
    return textwrap.fill(
        f"{doc['date'][:10]}; QEMU {doc['qemu']} {doc['machine']}, "
        f"{doc['cpus']} CPUs with {doc['threads']} threads a core, "
        f"{doc['accel']}; {k['base']['release']} and "
        f"{k['patched']['release']} (tree {k['patched']['tree'][:12]}), "
        f"profile bpf, {k['base']['compiler']}; offcputime of bcc "
        f"{doc['bcc']}. Times are with the tracer attached.", 80,
        break_on_hyphens=False)


def run_one(m, variant, image):
    """Boot a kernel, run the job; its part of the document."""
    name = f"offcpu-{m.name()}-{variant}"
    r = boot.run_job(m, image, JOB.read_text(), name=name,
                     limit=240 + 15 * m.cpus)
    got = {rec["op"]: rec for rec in r.of("offcpu")}
    if r.status or set(got) != set(OPS):
        raise LabError(f"{name}: the job ended with status {r.status}: "
                       f"{r.output().strip().splitlines()[-1:]}; console: "
                       f"{r.console_path}")
    say(f"   {name}: {human(r.seconds)}")
    ops = {}
    for op, rec in got.items():
        raw = r.files[f"{op}.folded"]
        write_atomic(OUT / "offcpu" / f"{m.arch}-{variant}-{op}.folded", raw)
        stacks = of_hotplug(parse(raw.decode(errors="replace")))
        if not any(s[0] == WRITER for s in stacks):
            raise LabError(f"{name}: no stack of the task which wrote '{op}'; "
                           f"the console is {r.console_path}, the stacks of "
                           "all tasks are in out/offcpu/")
        ops[op] = {"ns": int(rec["ns"]), "online": rec["online"],
                   "folded": fold(stacks)}
    meta = json.loads((image / "meta.json").read_text())
    return {"release": meta["release"], "tree": meta["tree"],
            "config_hash": meta["config_hash"], "compiler": meta["compiler"],
            "bcc": r.of("tool")[0]["bcc"], "ops": ops}


def record(doc, directory):
    """Write table, JSON and flame graphs of a document to a directory."""
    name = f"offcpu-{doc['arch']}"
    write_atomic(directory / f"{name}.json", json.dumps(doc, indent=1) + "\n")
    write_atomic(directory / f"{name}.txt", table(doc))
    for variant, k in doc["kernels"].items():
        for op in OPS:
            write_atomic(directory / f"{name}-{variant}-{op}.svg",
                         flame(parse(k["ops"][op]["folded"]),
                               f"SMT {op}, {variant}"))


def in_page(page, doc):
    """The text of docs/offcpu.md with the block of doc's architecture."""
    block = (f"{environment(doc)}\n\n```\n{table(doc)}```\n\nFlame graphs:\n"
             + ",\n".join(f"[{v} {op}](../bench/results/offcpu-{doc['arch']}-"
                          f"{v}-{op}.svg)" for op in OPS
                          for v in kernels.VARIANTS) + "\n")
    return common.in_page(page, f"offcpu:{doc['arch']}", block,
                          "docs/offcpu.md")


def tables():
    """Make docs/offcpu.md and the flame graphs anew from what is recorded."""
    def anew(doc):
        record(doc, RESULTS)
        write_atomic(PAGE, in_page(PAGE.read_text(), doc))

    common.for_each_recorded(RESULTS.glob("offcpu-*.json"), anew,
                             "RECORD=1 make offcpu")


def main(m):
    """Measure on a machine, print the table, keep stacks, JSON and flame
    graphs in out/offcpu/; with RECORD=1 in bench/results/ and docs/ too."""
    images = {v: kernels.build(v, m.arch, "bpf") for v in kernels.VARIANTS}
    say(f"== offcputime on {m.name()}: 2 boots")
    runs = {v: run_one(m, v, images[v]) for v in kernels.VARIANTS}
    bcc = {r.pop("bcc") for r in runs.values()}
    doc = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
           "arch": m.arch, "machine": m.type, "cpus": m.cpus,
           "threads": m.threads, "nodes": m.nodes, "accel": m.accel,
           "qemu": vm.qemu_version(m.arch), "bcc": ", ".join(bcc),
           "kernels": runs}
    record(doc, OUT / "offcpu")
    print("\n" + table(doc), flush=True)
    say("   stacks, flame graphs, JSON: out/offcpu/")
    if os.environ.get("RECORD"):
        record(doc, RESULTS)
        tables()
