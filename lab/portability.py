# SPDX-License-Identifier: GPL-2.0
"""'make compile-matrix': what the series touches compiles elsewhere too.

For each configuration below the touched files are compiled, as far as the
configuration has them, and the files that use what a touched header declares
in another way than before. Nothing is linked: that what the series newly
calls exists, and is exported where a module calls it, is looked up in the
objects."""

import functools
import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from . import kernels, perpatch
from .common import (LINUX, HostError, LabError, cache_dir, git, install,
                     locked, need_space, run, step)

# Debian's compilers. That for ppc64le makes code for every powerpc.
CROSS = {"x86": "", "powerpc": "powerpc64le-linux-gnu-",
         "arm64": "aarch64-linux-gnu-", "arm": "arm-linux-gnueabihf-",
         "riscv": "riscv64-linux-gnu-", "mips": "mipsel-linux-gnu-",
         "s390": "s390x-linux-gnu-", "parisc": "hppa-linux-gnu-"}
# bytes: what the series may add to the per-CPU area, and the least of a
# grown stack frame that is told. Five cache lines: two are tsc_sync's, which
# two CPUs write at the same time, each its own.
PER_CPU, FRAME = 320, 512


@dataclass
class Config:
    """One configuration: a defconfig and options on top; 'sizes': tell what
    the series adds per CPU, to static data and on stacks."""
    name: str
    arch: str
    target: str
    options: str = ""
    sizes: bool = False


X86, PPC = "x86_64_defconfig", "ppc64_defconfig"
# what the series has for tests, and what that depends on
TESTS = "DEBUG_KERNEL=y RUNTIME_TESTING_MENU=y CPU_HOTPLUG_STATE_CONTROL=y"
KUNIT = (TESTS + " FTRACE=y BLK_DEV_IO_TRACE=y KUNIT=y "
         "CPUHP_BATCH_KUNIT_TEST=y")
# Without HOTPLUG_CPU there is no x86 with SMP: powerpc has that.
CONFIGS = (
    Config("x86-up", "x86", X86, "SMP=n"),
    Config("ppc64-nohotplug", "powerpc", PPC,
           "PPC_PSERIES=n SUSPEND=n HIBERNATION=n HOTPLUG_CPU=n"),
    Config("ppc64-up", "powerpc", PPC, "PPC_PSERIES=n PPC_POWERNV=n SMP=n"),
    Config("pmac32", "powerpc", "pmac32_defconfig"),
    Config("ppc44x", "powerpc", "ppc44x_defconfig"),
    Config("corenet64", "powerpc", "corenet64_smp_defconfig"),
    Config("riscv64", "riscv", "defconfig", sizes=True),
    Config("mips-cps", "mips", "maltasmvp_defconfig",
           "MIPS_CPS=y HOTPLUG_CPU=y " + KUNIT),
    Config("arm64", "arm64", "defconfig", "ARM_PSCI_CHECKER=y"),
    Config("x86-maxsmp", "x86", X86,
           "DEBUG_KERNEL=y MAXSMP=y CPUMASK_OFFSTACK=y NR_CPUS=8192", True),
    Config("i386", "x86", "i386_defconfig", "SMP=y " + KUNIT),
    Config("s390", "s390", "defconfig"),
    Config("arm", "arm", "multi_v7_defconfig",
           "HOTPLUG_CPU=y CACHE_L2X0_PMU=y " + KUNIT),
    Config("ppc64", "powerpc", PPC, sizes=True),
    Config("ppc64-8192", "powerpc", PPC,
           "DEBUG_KERNEL=y CPUMASK_OFFSTACK=y NR_CPUS=8192", True),
    Config("x86-modules", "x86", "allmodconfig"),
    Config("x86-guest", "x86", X86,
           "HYPERVISOR_GUEST=y PARAVIRT=y XEN=y XEN_PV=y HYPERV=y "
           "KVM_GUEST=y CPU_IDLE_GOV_HALTPOLL=y HALTPOLL_CPUIDLE=y"),
    Config("x86-rt", "x86", X86, "EXPERT=y PREEMPT_RT=y"),
    Config("x86-tiny", "x86", "allnoconfig", "64BIT=y SMP=y"),
    Config("i386-up", "x86", "i386_defconfig", "SMP=n"),
    Config("ppc64e", "powerpc", "ppc64e_defconfig"),
    Config("pmac32-smp", "powerpc", "pmac32_defconfig",
           "SMP=y HOTPLUG_CPU=y " + KUNIT),
    Config("corenet32", "powerpc", "corenet32_smp_defconfig"),
    Config("pseries-only", "powerpc", PPC, "PPC_POWERNV=n PPC_PMAC=n"),
    Config("powernv-only", "powerpc", "powernv_defconfig", "PPC_PSERIES=n"),
    Config("g5", "powerpc", "g5_defconfig"),
    Config("parisc", "parisc", "generic-32bit_defconfig", "SMP=y"),
)
# a division of 64 bits, which 32-bit kernels do not have; parisc does
DIVISIONS = {"__divdi3", "__moddi3", "__udivdi3", "__umoddi3",
             "__aeabi_ldivmod", "__aeabi_uldivmod"}
# on top of all: quicker, and every warning is seen
ALWAYS = "DEBUG_INFO_NONE=y WERROR=n PPC_DISABLE_WERROR=y"

LIST_OBJECTS = """
-include include/config/auto.conf
include $(srctree)/scripts/Kbuild.include
src := $(srctree)/$(dir)
obj := $(dir)
include $(firstword $(wildcard $(src)/Kbuild $(src)/Makefile))
lab-parts = $(foreach m,$1,$($(m:.o=-objs)) $($(m:.o=-y)) $($(m:.o=-m)))
lab-0 := $(obj-y) $(obj-m) $(lib-y)
lab-1 := $(call lab-parts,$(lab-0))
$(info $(lab-0) $(lab-1) $(call lab-parts,$(lab-1)))
.PHONY: lab-list
lab-list: ; @:
"""


class Build:
    """One configuration of one source tree."""

    def __init__(self, cfg, src):
        self.cfg, self.src = cfg, Path(src)
        self.out = self.src / ".o-matrix" / cfg.name
        self.cross = CROSS[cfg.arch]
        self.bits, self.log = "64", ""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)

    def set_by_linker(self):
        """Symbols that the kernel's linker script sets, as jiffies."""
        text = (self.src / "arch" / self.cfg.arch / "kernel/vmlinux.lds.S").read_text()
        return set(re.findall(r"^\s*(?:PROVIDE\()?(\w+)\s*=[^=]", text, re.M))

    def make(self, *args):
        """Returns the status; the output is added to the log."""
        status, text = run(
            ["make", "-C", self.src, f"O={self.out}", f"ARCH={self.cfg.arch}",
             f"CROSS_COMPILE={self.cross}", *kernels.compilers(self.cross),
             "-s", "-k", f"-j{kernels.jobs()}", *args],
            env=kernels.make_env(), check=False)
        self.log += text
        return status

    def configure(self, strict=True):
        """Write .config and make what every object needs; the base does not
        have all options: not 'strict'."""
        for what in (self.cfg.target, "olddefconfig"):
            if self.make(what):
                raise LabError(f"make {what} failed\n{self.log[-1000:]}")
            if what == self.cfg.target:
                with open(self.out / ".config", "a") as f:
                    for x in f"{self.cfg.options} {ALWAYS}".split():
                        f.write(f"CONFIG_{x}\n")
        got = kernels._read_config(self.out / ".config")
        bad = [x for x in self.cfg.options.split()
               if got.get("CONFIG_" + x.split("=")[0], "n")
               != x.split("=")[1]]
        if bad and strict:
            raise LabError("the kernel does not take " + " ".join(bad))
        self.bits = "64" if got.get("CONFIG_64BIT") == "y" else "32"
        self.log = ""               # messages of kconfig are no warnings
        if self.make("prepare"):
            raise LabError(f"make prepare failed\n{self.log[-2000:]}")

    def _list(self, directory):
        """Objects and subdirectories that a directory's makefile names."""
        mk = self.out / "lab-list.mk"
        mk.write_text(LIST_OBJECTS)
        _, text = run(
            ["make", "-s", "-C", self.out, "-f", mk, f"srctree={self.src}",
             "objtree=.", f"dir={directory}", f"BITS={self.bits}",
             f"ARCH={self.cfg.arch}", f"SRCARCH={self.cfg.arch}",
             f"CC={self.cross}gcc", "lab-list"])
        return text.split()

    def objects(self, files):
        """The objects of those source files that the configuration has."""
        stems = {os.path.splitext(f)[0] for f in files
                 if f.endswith((".c", ".S")) and (self.src / f).exists()}
        # the topmost makefiles that name what is below them
        todo = {s.split("/")[0] for s in stems} - {"arch"}
        # its library is not among what the makefile there has in obj-y
        todo |= {f"arch/{self.cfg.arch}", f"arch/{self.cfg.arch}/lib"}
        found, seen = set(), set()
        while todo:
            d = todo.pop()
            seen.add(d)
            if not any(s.startswith(d + "/") for s in stems) or not any(
                    (self.src / d / x).exists() for x in ("Kbuild",
                                                          "Makefile")):
                continue
            for x in self._list(d):
                path = os.path.normpath(f"{d}/{x}")
                if x.endswith("/"):
                    todo |= {path} - seen
                elif path.removesuffix(".o") in stems:
                    found.add(path)
        return found

    def compile(self, objects, *flags):
        """Returns the objects that did not come out."""
        if objects:
            self.make(*flags, *sorted(objects))
        return {o for o in objects if not (self.out / o).exists()}

    def warnings(self):
        """Warnings and errors, by what does not differ between two trees."""
        seen = {}
        for w in kernels.warnings_in(self.log):
            w = w.replace(f"{self.src}/", "").replace("../", "")
            if "make[" not in w and "make:" not in w:
                seen.setdefault(re.sub(r":\d+", "", w), w)
        return seen

    def symbols(self, objects):
        """(object, section, size, symbol) of every symbol."""
        for o in sorted(objects):
            out = subprocess.run([self.cross + "objdump", "-t", self.out / o],
                                 capture_output=True, text=True).stdout
            for line in out.splitlines():
                m = re.match(r"[0-9a-f]+ .{7} (\S+)\s+([0-9a-f]+) "
                             r"(?:(?:\.\w+|0x\w+) )?(\S+)$", line)
                if m:
                    yield o, m[1], int(m[2], 16), m[3].lstrip(".")

    def is_module(self, obj):
        """Whether an object is compiled for a module."""
        d, name = os.path.split(obj)
        cmd = self.out / d / f".{name}.cmd"
        return cmd.exists() and " -DMODULE " in cmd.read_text()

    def memory(self, objects):
        """({symbol: bytes} per CPU, {symbol: bytes} of other static data)."""
        cpu, static = Counter(), Counter()
        for o, section, size, s in self.symbols(objects):
            s = f"{o}:{s.split('.')[0]}"    # static ones have a number
            if "percpu" in section:
                cpu[s] += size
            elif re.match(r"\.s?(data|bss)", section):
                static[s] += size
        return cpu, static

    def frames(self, objects):
        """{file:function: bytes} of stack, by -fstack-usage."""
        got = {}
        for o in objects:
            su = self.out / (o.removesuffix(".o") + ".su")
            for line in su.read_text().splitlines() if su.exists() else ():
                where, size, _ = line.split("\t")
                # without .isra, .constprop, .part
                name = f"{o}:{where.split(':')[-1].split('.')[0]}"
                got[name] = max(got.get(name, 0), int(size))
        return got


def words(lines, sign):
    """Identifiers in the lines of a diff that begin with one of 'sign';
    those of comments in blocks are not."""
    text = "\n".join(x[1:] for x in lines if x[:1] in sign
                     and not re.match(r"[-+ ]\s*/?\*", x))
    return set(re.findall(r"[A-Za-z_]\w+", re.sub(r"/\*.*?\*/", "", text)))


# functions, macros, members and constants that a line of a diff takes away
DECLARED = re.compile(r"^-(?:#\s*define (\w+)|[A-Za-z].*?\b(\w+)\(|"
                      r"\s+(?:.*[\s*])?(\w+)[,;])")


def from_diff(diff):
    """Of a diff with whole files as context: (identifiers that a file did
    not have before; those which have gone from a header or are declared in
    another way)."""
    new, changed = set(), set()
    for part in re.split(r"^diff --git ", diff, flags=re.M)[1:]:
        lines = part.splitlines()[4:]
        new |= words(lines, "+") - words(lines, " -")
        if part.split(None, 1)[0].endswith(".h"):
            was = {w for x in lines for m in [DECLARED.match(x)] if m
                   for w in m.groups() if w and "_" in w.strip("_")}
            changed |= was - words(lines, " ")
    return new, changed


def grep(src, names, outermost=False):
    """Source files of a checkout which have one of the words; 'outermost':
    in a line that is not indented, as where it is defined or exported."""
    out = git("grep", "-wF", *(x for n in sorted(names) for x in ("-e", n)),
              "--", "*.[chS]", ":!tools", ":!samples", cwd=src,
              check=False) or ""
    return with_includers(src, {
        x.split(":", 1)[0] for x in out.splitlines()
        if not outermost or re.match(r"[^:]+:[A-Za-z_]", x)})


@functools.cache
def includes(src):
    """(file, what it includes from its own directory) of a checkout."""
    out = git("grep", '^#include "[^/]*[.][ch]"', "--", "*.c", ":!tools",
              cwd=src)
    return [re.match(r'(.*):#include "(.*)"', x).groups()
            for x in out.splitlines()]


def with_includers(src, files):
    """The files, and those next to them that include one of them."""
    return files | {by for by, name in includes(src)
                    if f"{os.path.dirname(by)}/{name}" in files}


@functools.cache
def sources(src, base, commit):
    """(touched source files and the users of changed declarations, new
    names)."""
    touched = set(perpatch.compiled_paths(base, commit))
    new, changed = from_diff(git("diff", "-U99999", base, commit, "--",
                                 "*.[chS]", ":!tools", cwd=LINUX))
    if changed:
        touched |= grep(src, changed)
    return with_includers(src, touched), new


def unresolved(build, objects, names):
    """Symbols new in the series that neither an object nor the linker script
    defines, or that none exports for a module. What defines them is compiled
    now unless it was touched."""
    undef, defined = {}, build.set_by_linker()

    def look(objs):
        for o, section, _, s in build.symbols(objs):
            if section == "*UND*":
                if s in names:
                    undef.setdefault(s, set()).add(o)
            else:
                defined.add(s)
    look(objects)
    need = {s for s, by in undef.items() if s not in defined
            or any(build.is_module(o) for o in by)}
    if need:
        more = build.objects(grep(build.src, need, True)) - set(objects)
        build.compile(more)
        look(o for o in more if (build.out / o).exists())
    for s in sorted(need):
        for o in sorted(undef[s]):
            if s not in defined:
                yield f"{o}: nothing defines {s}"
            elif build.is_module(o) and f"__export_symbol_{s}" not in defined:
                yield f"{o}: nothing exports {s}"


def sizes(new, old, objects, had):
    """What grew: (what is too much, lines to print)."""
    def delta(a, b):
        return {k: a[k] - b[k] for k in {*a, *b} if a[k] != b[k]}

    def line(what, d):
        return f"{what}: {sum(d.values()):+d} bytes: " + ", ".join(
            f"{k.split(':')[-1]} {v:+d}" for k, v in sorted(
                d.items(), key=lambda x: (-abs(x[1]), x[0]))[:12])
    cpu, static = (delta(a, b) for a, b in zip(new.memory(objects),
                                               old.memory(had)))
    was = old.frames(had)
    grew = {k: v for k, v in new.frames(objects).items()
            if v > was.get(k, 0) and v >= FRAME}
    bad = [f"{k}: stack frame of {was.get(k, 0)} bytes is {v} now"
           for k, v in sorted(grew.items()) if v >= was.get(k, 0) + FRAME]
    if sum(cpu.values()) > PER_CPU:
        bad.append(f"{sum(cpu.values())} bytes more for each CPU")
    return bad, [line("per CPU", cpu), line("static", static),
                 f"stack frames of {FRAME} bytes and more that grew: "
                 + (", ".join(f"{k} {was.get(k, 0)} -> {v}" for k, v in
                              sorted(grew.items())) or "none")]


def one(rep, cfg, trees, files, names):
    """Compile one configuration; one line of the report."""
    if not shutil.which(CROSS[cfg.arch] + "gcc"):
        rep.add(f"{cfg.name}: has a compiler", False,
                "'sh lab/bootstrap.sh cross' did not find it")
        return
    flags = ["KCFLAGS=-fstack-usage"] if cfg.sizes else []
    new, lines, n = Build(cfg, trees[0]), [], 0
    try:
        new.configure()
        objects = new.objects(files)
        n = len(objects)
        missing = new.compile(objects, *flags)
        warn = new.warnings()
        if cfg.arch != "parisc":
            names = names | DIVISIONS
        bad = list(unresolved(new, objects - missing, names))
        if missing or warn or cfg.sizes:    # was it so before?
            old = Build(cfg, trees[1])
            old.configure(strict=False)
            had = old.objects(files) & objects
            missing -= old.compile(had, *flags)
            was = old.warnings()
            bad += [w for k, w in warn.items() if k not in was]
            if cfg.sizes:
                too_much, lines = sizes(new, old, objects, had)
                bad += too_much
        bad = [f"not compiled: {o}" for o in sorted(missing)] + bad
    except HostError:
        raise
    except LabError as e:
        bad = [str(e)]
    log = cache_dir() / "logs" / f"matrix-{cfg.name}.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text(new.log)
    rep.add(f"{cfg.name}: {n} objects compile, no new warning, no name is "
            "missing", not bad, "\n".join(bad))
    for x in lines:
        print(f"      {x}", flush=True)
    for t in trees:
        shutil.rmtree(Path(t) / ".o-matrix" / cfg.name, ignore_errors=True)


def check(rep, cfg):
    """Compile one configuration."""
    install("cross")
    need_space(cache_dir(), 5, "a build of many configurations")
    base, commit = (kernels.wanted_commit(x) for x in ("base", "patched"))
    with step(f"compile {cfg.name}", 120), locked("kernel-patched"), \
            locked("kernel-base"):
        trees = (kernels.checkout("patched", commit),
                 kernels.checkout("base", base))
        one(rep, cfg, trees, *sources(trees[0], base, commit))
