# SPDX-License-Identifier: GPL-2.0
"""Which functions are CPU hotplug callbacks, and what they call: read from the
source, so that drivers which no kernel here has are among them.

It goes by how kernel source is written, not by what a compiler makes of it: a
function begins in the first column and ends with a '}' there, what stands
before a '(' is called, whatever #ifdef or 'if' is around it. So it finds too
much rather than too little, with exceptions: calls through a pointer are not
followed, but for those that are given to reach(), nor is what is opaque there,
nor a macro without arguments; and what is in ELSEWHERE and WITHOUT is not
there."""

import collections
import functools
import re
import subprocess
from pathlib import Path

from .common import LabError

# arguments that are callbacks, counted from 0: (startup, teardown)
REGISTER = {
    r"__cpuhp_setup_state(_cpuslocked)?": (3, 4),
    r"cpuhp_setup_state(_nocalls|_multi)?(_cpuslocked)?": (2, 3),
    r"cpuhp_set_mask_callbacks_cpuslocked": (1, 2),
    r"xen_cpuhp_setup": (0, 1),
    r"mpam_register_cpuhp_callbacks": (0, 1),
}
# parameters of functions that register what they are given, no callbacks
GIVEN = {
    "kernel/cpu.c": ("startup", "teardown"),
    "include/linux/cpuhotplug.h": ("startup", "teardown", "(void *) startup",
                                   "(void *) teardown"),
    "drivers/resctrl/mpam_devices.c": ("online", "offline"),
    "arch/x86/xen/enlighten.c": ("cpu_up_prepare_cb", "cpu_dead_cb"),
}
# parts of a kernel for RISC-V
RISCV = (
    *(f"drivers/clocksource/timer-{x}" for x in ("clint", "riscv")),
    "drivers/cpuidle/cpuidle-riscv", "drivers/perf/riscv",
    *(f"drivers/irqchip/irq-{x}" for x in (
        "aclint", "riscv", "sg2042", "sifive", "starfive")))
# what is no part of a kernel for x86-64, Book3S64 or arm64, COMPILE_TEST apart
ELSEWHERE = (
    *RISCV,
    *(f"arch/powerpc/{x}" for x in (
        "kvm/book3s_pr", "kvm/booke", "kvm/e500", "mm/book3s32/", "mm/nohash/",
        "perf/core-fsl", *(f"platforms/{y}" for y in (
            "4", "5", "8", "amigaone", "cell", "chrp", "embedded", "maple",
            "microwatt", "pasemi", "powermac", "ps3")))),
    *(f"drivers/clocksource/{x}" for x in (
        "arc", "ingenic", "jcore", "mips", *(f"timer-{y}" for y in (
            "armada", "gx6605s", "mp-csky", "qcom", "rtl", "vf-pit")))),
    "drivers/bus/mips_cdmm", "drivers/cpuidle/coupled",
    "drivers/cpuidle/cpuidle-s390",
    *(f"drivers/irqchip/irq-{x}" for x in (
        "armada", "h", "l", "mips", "rda", "realtek", "renesas", "sa", "sl",
        "sn", "sp", "st.", "stm", "sun")),
    "drivers/s390/", "drivers/watchdog/octeon",
    "net/iucv/")
# large, and without callbacks
WITHOUT = ("drivers/gpu/", "drivers/media/", "drivers/staging/", "sound/",
           "drivers/infiniband/", "drivers/net/wireless/", "drivers/iio/",
           "drivers/net/dsa/", "drivers/pinctrl/", "drivers/clk/")
CALL = re.compile(rf"\b({'|'.join(REGISTER)})\(")
# fields of an initialiser: (what it is of, field) -> direction
STEP = re.compile(r"\.(startup|teardown)(?:\.single|\.multi|_mask)\s*=\s*(\w+)")
THREAD = re.compile(r"struct smp_hotplug_thread \w+ = \{(.*?)\n\};", re.S)
THREAD_FIELD = re.compile(
    r"\.(create|setup|pre_unpark|unpark|cleanup|park)\s*=\s*(\w+)")
THREAD_UP = ("create", "setup", "pre_unpark", "unpark")
# run what they are given before they return
RUN = re.compile(
    r"\b(work_on_cpu(?:_safe)?|smp_call_function(?:_single|_many|_any)?|"
    r"smp_call_on_cpu|on_each_cpu(?:_mask|_cond)?|stop_one_cpu|"
    r"stop_machine(?:_cpuslocked|_from_inactive_cpu)?|"
    r"bus_for_each_dev|class_for_each_device|device_for_each_child)\(")
CALLED = re.compile(r"(->|\.)?\s*\b([A-Za-z_]\w*)\s*\(")
NOISE = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
BEGINS = (r"^(?:#[ \t]*define[ \t]+\w+\(|"
          r"[A-Za-z_](?:[A-Za-z0-9_ \t*]*[ \t*])?[A-Za-z0-9_]+\()")
NAME = re.compile(r"(\w+)\($")
KEYWORDS = frozenset("if for while switch return sizeof typeof do else case "
                     "__attribute__ __typeof__ defined offsetof alignof "
                     "_Static_assert static_assert asm".split())


class Callback(collections.namedtuple("Callback", "name file way state")):
    """A function, its file, 'up' or 'down', the state it is registered for."""


def blank(text):
    """Text without comments, strings and characters; lines stay lines."""
    return NOISE.sub(lambda m: "\n" * m[0].count("\n") or
                     ('""' if m[0][0] == '"' else " "), text)


def arguments(text, at):
    """The arguments of a call whose '(' is before text[at]; None if the text
    ends in them."""
    out, depth, begin = [], 0, at
    for i in range(at, len(text)):
        c = text[i]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            if not depth:
                return out + [text[begin:i].strip()]
            depth -= 1
        elif c == "," and not depth:
            out.append(text[begin:i].strip())
            begin = i + 1
    return None


class Source:
    """The C source of a kernel tree, of some architectures (directories of
    arch/). elsewhere: files and directories that are not looked at. without:
    those that must have no callbacks."""

    def __init__(self, top, arches=("x86", "powerpc", "arm64"), elsewhere=ELSEWHERE,
                 without=WITHOUT):
        self.top, self.arches, self.elsewhere = Path(top), arches, elsewhere
        self.leave_out = (*elsewhere, *without)

    def grep(self, *args, leave_out=()):
        """Lines of git grep in C files of the tree."""
        p = subprocess.run(
            ["git", "grep", *args, "--", "*.[ch]",
             *(f":!{x}" for x in ("tools", "samples", "scripts",
                                  "Documentation", *leave_out))], cwd=self.top,
            text=True, errors="replace", capture_output=True)
        if p.returncode > 1:
            raise LabError(f"git grep in {self.top}: {p.stderr.strip()}")
        return p.stdout.splitlines()

    def arch_of(self, file):
        """'x86' of arch/x86/...; '' of all others."""
        return file.split("/")[1] if file.startswith("arch/") else ""

    def used(self, file):
        """Whether a file is of one of the architectures and not left out."""
        return not file.startswith(self.elsewhere) and self.arch_of(file) in (
            "", *self.arches)

    @functools.cache
    def text(self, file):
        """Text of a file without comments and strings."""
        return blank((self.top / file).read_text(errors="replace"))

    @functools.cache
    def lines(self, file):
        return (self.top / file).read_text(errors="replace").split("\n")

    @functools.cached_property
    def index(self):
        """{name: [(file, line)]} of what looks like the first line of a
        function or a macro with arguments."""
        out = collections.defaultdict(list)
        for x in self.grep("-nP", "-o", BEGINS, leave_out=self.leave_out):
            file, line, text = x.split(":", 2)
            if self.used(file):
                out[NAME.search(text)[1]].append((file, int(line)))
        return out

    @functools.cache
    def function(self, file, line):
        """(is static, text) of the function or macro that begins in a line;
        None if nothing does."""
        lines = self.lines(file)
        first = lines[line - 1]
        i = line - 1
        if first.startswith("#"):
            while lines[i].endswith("\\") and i + 1 < len(lines):
                i += 1
            return True, blank("\n".join(lines[line - 1:i + 1])
                               .partition("(")[2])
        # it ends its head with a '{' before a ';'
        head = ""
        for i in range(line - 1, min(line + 30, len(lines))):
            head += blank(lines[i]) + "\n"
            m = re.search(r"[;{]", head)
            if m:
                break
        else:
            return None
        if m[0] == ";" or "=" in head[:m.start()]:
            return None
        end = i
        if "}" not in head[m.end():] or head[m.end():].count("{") >= \
                head[m.end():].count("}"):
            while end + 1 < len(lines) and not lines[end].startswith("}"):
                end += 1
        before = lines[line - 2] if line > 1 else ""
        static = re.match(r"\s*(static|.*\binline)\b", first) or (
            re.match(r"(static|.*\binline)\b", before)
            and not re.search(r"[;{}]", before))
        text = head[m.end():] + blank("\n".join(lines[i + 1:end + 1]))
        return bool(static), text

    @functools.cache
    def defined(self, name, by, arch):
        """[(file, line)] of the functions that a call in the file 'by' may
        mean on an architecture: its own if it has one, else all that it could
        see."""
        def seen(file, line):
            if file.endswith(".h"):
                return file.startswith(("include/", f"arch/{arch}/include/")) \
                    or file.split("/")[:2] == by.split("/")[:2]
            # a header beside it may be a part of it
            return not self.function(file, line)[0] or by.endswith(".h") and \
                Path(by).parent == Path(file).parent
        every = self.anywhere(name, arch)
        return [x for x in every if x[0] == by] or [
            x for x in every if seen(*x)]

    @functools.cache
    def anywhere(self, name, arch):
        """[(file, line)] of all functions of a name."""
        return [x for x in self.index.get(name, ())
                if self.arch_of(x[0]) in ("", arch) and self.function(*x)]

    @functools.cache
    def calls(self, file, line):
        """Names of what a function calls directly, and of the functions that
        it gives to somebody who runs them at once."""
        _, text = self.function(file, line)
        out = {}
        for m in CALLED.finditer(text):
            if not m[1] and m[2] not in KEYWORDS:
                out[m[2]] = None
        for m in RUN.finditer(text):
            for a in arguments(text, m.end()) or ():
                if re.fullmatch(r"[a-z_]\w+", a) and any(
                        f == file and self.function(f, n)
                        for f, n in self.index.get(a, ())):
                    out[a] = None
        return list(out)

    def callbacks(self):
        """(callbacks, [what is registered but is no function]), in all of the
        tree that is used."""
        found, odd = {}, []

        def add(name, file, way, state):
            name = name.lstrip("&")
            if name in ("NULL", "0", *GIVEN.get(file, ())):
                return
            if "->" in name:        # whatever is the value of this field
                field = name.split("->")[-1]
                for x in self.grep("-P", rf"\.{field}\s*=\s*\w+,?$"):
                    where, _, value = x.partition(":")
                    if self.used(where):
                        add(re.search(r"(\w+),?$", value)[1], where, way,
                            state)
                return
            if any(self.defined(name, file, a) for a in self.arches):
                found[Callback(name, file, way, state)] = None
            else:
                odd.append(f"{file}: {name}")
        for file in self.grep("-lF", *(
                x for w in ("cpuhp_setup_state", "xen_cpuhp_setup",
                            "cpuhp_set_mask_callbacks", "cpuhp_hp_states",
                            "struct smp_hotplug_thread") for x in ("-e", w))):
            if not self.used(file):
                continue
            text = self.text(file)
            for m in CALL.finditer(text):
                args = arguments(text, m.end())
                # the declaration or definition of one of these
                if not args or " " in args[-1]:
                    continue
                at = next(v for k, v in REGISTER.items()
                          if re.fullmatch(k, m[1]))
                for i, way in zip(at, ("up", "down")):
                    add(args[i], file, way, args[0])
            if "cpuhp_hp_states[] =" in text:
                for m in STEP.finditer(text):
                    add(m[2], file, "up" if m[1] == "startup" else "down",
                        "table")
            for t in THREAD.finditer(text):
                for m in THREAD_FIELD.finditer(t[1]):
                    add(m[2], file, "up" if m[1] in THREAD_UP else "down",
                        "thread")
        return list(found), odd

    def reach(self, callback, arch, wanted, calls=(), opaque=None,
              came=None):
        """Where a callback reaches a call of one of the names 'wanted' on an
        architecture: {(wanted, file of the caller, caller): chain of names}.
        What is wanted is not looked into. calls: {caller: [names]} for calls
        through pointers. opaque: whether a name is not to be looked into.
        came: a set that gets the names of all that was looked into."""
        calls = dict(calls)
        todo = collections.deque(
            (x, callback.name, (callback.name,))
            for x in self.defined(callback.name, callback.file, arch))
        seen, out = {x for x, *_ in todo}, {}
        while todo:
            (file, line), name, chain = todo.popleft()
            if came is not None:
                came.add(name)
            next_ = [(c, self.anywhere(c, arch)) for c in calls.get(name, ())]
            for c in self.calls(file, line):
                if c in wanted:
                    out.setdefault((c, file, name), (*chain, c))
                elif not opaque or not opaque(c):
                    next_.append((c, self.defined(c, file, arch)))
            for c, found in next_:
                for x in found:
                    if x not in seen:
                        seen.add(x)
                        todo.append((x, c, (*chain, c)))
        return out
