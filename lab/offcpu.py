# SPDX-License-Identifier: GPL-2.0
"""Off-CPU analysis of SMT off and on, as in the mail of March 2023: bcc's
offcputime on base and patched, the top stacks side by side, flame graphs."""

import re
from xml.sax.saxutils import escape

from . import bench, kernels, record
from .common import OUT, TOP, LabError, digest, human, ms, say, write_atomic

JOB = TOP / "bench" / "offcpu.sh"
OPS = ("off", "on")
# The task that writes to smt/control, the kthread it has the work done by on the
# patched kernel, and the hotplug threads
WRITER, REQUEST, THREADS = "writer", "cpuhp_request", "cpuhp/N"
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
    """What belongs to the operation: the writer in its system call, the kthread
    of requests while it has one, and all cpuhp threads as one while they run
    callbacks."""
    out = {}
    for (task, *frames), us in stacks.items():
        if task == "labctl" and "kernfs_fop_write_iter" in frames:
            task = WRITER
        elif task == REQUEST and "cpuhp_request_workfn" in frames:
            pass
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


def _column(run, task):
    """One side of the table for a task, as lines of at most 38: its longest
    stacks without those below a hundredth."""
    stacks = parse(run["folded"])
    total = sum(us for s, us in stacks.items() if s[0] == task)
    if not total and task == REQUEST:   # the unpatched kernel has none
        return []
    lines = [f"{task} blocked for {ms(total / 1e3)} ms", ""]
    for us, frames in top(stacks, task):
        if us < total / 100:
            break
        lines.append(f"{ms(us / 1e3) + ' ms':>10} {us / total:>4.0%}")
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
        rows = [([f"base took {ms(base['ns'] / 1e6)} ms"],
                 [f"patched took {ms(patched['ns'] / 1e6)} ms"])]
        rows += [(_column(base, t), _column(patched, t))
                 for t in (WRITER, REQUEST, THREADS)]
        for left, right in rows:
            out += record.side_by_side(left, right)
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
           f'<text x="4" y="13">{escape(title)}: {ms(total / 1e3)} ms blocked</text>']
    for x, level, us, name in boxes:
        w = us / total * width
        if w < 0.3:
            continue
        y = height - (level + 1) * row
        hue = 200 + sum(name.encode()) % 40     # blue: off the CPU
        label = escape(name[:int(w / 6.7)]) if w > 20 else ""
        out.append(
            f'<g><title>{escape(name)}: {ms(us / 1e3)} ms, {us / total:.1%}</title>'
            f'<rect x="{x / total * width:.1f}" y="{y}" width="{w:.1f}" '
            f'height="{row - 1}" fill="hsl({hue},70%,75%)"/>'
            f'<text x="{x / total * width + 2:.1f}" y="{y + 12}">{label}'
            '</text></g>')
    return "\n".join(out + ["</svg>", ""])


def run_one(m, variant, image):
    """Boot a kernel, run the job; its part of the document."""
    name = f"offcpu-{m.name()}-{variant}"
    r = bench.run_to_end(m, image, JOB.read_text(), name,
                         limit=240 + 15 * m.cpus)
    got = {rec["op"]: rec for rec in r.of("offcpu")}
    if set(got) != set(OPS):
        raise LabError(f"{name}: the job told of {', '.join(got) or 'nothing'}"
                       f", not of {', '.join(OPS)}; console: {r.console_path}")
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
    return {"bcc": r.of("tool")[0]["bcc"], "ops": ops}


def inputs(arch):
    """The digest of what defines a result but the kernel's code."""
    return digest(JOB, *kernels.fragments(arch, "bpf"))


def files(doc):
    """What is made of a document: the table and the flame graphs."""
    name = f"offcpu-{doc['arch']}"
    return {f"{name}.txt": table(doc)} | {
        f"{name}-{v}-{op}.svg": flame(parse(k["ops"][op]["folded"]),
                                      f"SMT {op}, {v}")
        for v, k in doc["kernels"].items() for op in OPS}


def shown():
    """What is recorded of each architecture."""
    def one(doc):
        bcc = doc["kernels"]["base"]["bcc"]
        return record.Shown(
            [record.Result(f"offcpu ARCH={doc['arch']}", doc["stamp"],
                           inputs(doc["arch"]),
                           seconds=doc.get("host_seconds", 0))],
            {f"offcpu:{doc['arch']}": record.environment(
                doc, f", profile bpf; offcputime of bcc {bcc}; times are with "
                "the tracer attached") + "\n\n" + record.fenced(table(doc))},
            files(doc))
    return record.each("offcpu-*.json", one, "make offcpu RECORD=1")


def main(m, rec=False):
    """Measure on a machine, print the table, keep stacks and JSON in
    out/offcpu/; with rec in bench/results/ too."""
    doc = bench.both("offcputime", m, inputs(m.arch), run_one, "bpf")
    print("\n" + table(doc), flush=True)
    record.leave("offcpu", f"offcpu-{m.arch}", doc, files(doc), rec)
