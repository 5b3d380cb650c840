# SPDX-License-Identifier: GPL-2.0
"""'make foreign': the series boots, and CPUs go and come, where there is no
Debian guest: RISC-V and big-endian pseries.
Small kernels with lockdep, and an init of our own (guest/small-init.c) in their
initramfs. On RISC-V a kernel without lockdep counts what a list costs, beside
the same of the base."""

import os
import re
import shutil
from dataclasses import dataclass

from . import boot, console, kernels, portability
from .common import (OUT, TOP, HostError, LabError, cache_dir, install, locked,
                     need_space, run, say, step)

# Options on top of allnoconfig. Lockdep brings what looks for sleeping in
# the wrong places with it.
SMALL = ("SMP=y HOTPLUG_CPU=y PRINTK=y TTY=y BINFMT_ELF=y BLK_DEV_INITRD=y "
         "PROC_FS=y SYSFS=y DEBUG_KERNEL=y PROVE_LOCKING=y "
         "DEBUG_ATOMIC_SLEEP=y CPU_ISOLATION=y")
LIMIT = 600                     # seconds, for a boot


@dataclass
class Foreign:
    """One kernel: 'cc' are flags for the init, 'image' is in the build
    directory, 'qemu' what boots it. lab: what else the init does. more: boots
    with other options of QEMU. limits: it counts, on the base as well, and the
    patched kernel may have no more than this, for offline and for online."""
    config: portability.Config
    cc: tuple
    image: str
    qemu: tuple
    console: str
    lab: str = ""
    more: tuple = ()
    limits: tuple = ()

    @property
    def name(self):
        return self.config.name


RISCV = (" MMU=y 64BIT=y RISCV_SBI=y SERIAL_8250=y SERIAL_8250_CONSOLE=y "
         "SERIAL_OF_PLATFORM=y ")
FOREIGN = (
    Foreign(portability.Config(
        "riscv64-small", "riscv", "allnoconfig", SMALL + RISCV +
        "NR_CPUS=8 KEXEC=y CPU_HOTPLUG_STATE_CONTROL=y RUNTIME_TESTING_MENU=y "
        "DEBUG_CPU_RETIRE=y"),
        (), "arch/riscv/boot/Image",
        ("qemu-system-riscv64", "-M", "virt", "-smp", "8"), "ttyS0",
        lab="lab.cpu0 lab.kexec",
        more=(("-M", "virt,aia=aplic"), ("-M", "virt,aia=aplic-imsic"))),
    # gcc 12 has ftrace without compressed instructions only
    Foreign(portability.Config(
        "riscv64-count", "riscv", "allnoconfig", "SMP=y HOTPLUG_CPU=y PRINTK=y "
        "TTY=y BINFMT_ELF=y BLK_DEV_INITRD=y PROC_FS=y SYSFS=y FTRACE=y "
        "FUNCTION_TRACER=y FUNCTION_PROFILER=y NONPORTABLE=y EFI=n "
        "RISCV_ISA_C=n" + RISCV +
        "NR_CPUS=32"), (), "arch/riscv/boot/Image",
        ("qemu-system-riscv64", "-M", "virt", "-smp", "32"), "ttyS0",
        lab="lab.count", limits=(
            {"synchronize_rcu_normal": 0, "synchronize_rcu_expedited": 3,
             "stop_machine_cpuslocked": 0, "build_sched_domains": 1},
            {"stop_machine_cpuslocked": 0, "build_sched_domains": 2})),
    Foreign(portability.Config(
        "ppc64be-small", "powerpc", "allnoconfig", SMALL + " PPC64=y "
        "PPC_BOOK3S_64=y CPU_BIG_ENDIAN=y PPC_PSERIES=y NR_CPUS=16 "
        "PPC_OF_BOOT_TRAMPOLINE=y "
        "SCHED_SMT=y HVC_CONSOLE=y"), ("-m64", "-mbig-endian"), "vmlinux",
        ("qemu-system-ppc64", "-M", "pseries", "-cpu", "power9", "-smp",
         "16,cores=2,threads=8"), "hvc0"),
)
APPEND = ("", "cpuhp.parallel=0", "cpuhp.batch=1", "maxcpus=2", "isolcpus=3")
FILES = """dir /dev 0755 0 0
nod /dev/console 0600 0 0 c 5 1
file /init {} 0755 0 0
"""


class Build(portability.Build):
    """One small kernel with its init."""

    def __init__(self, f, src):
        super().__init__(f.config, src)
        self.f, self.files = f, self.out / "initramfs.list"

    def kernel(self):
        """Configure and build; the image's path. LabError if that fails or
        warns."""
        self.files.write_text("")
        self.configure()
        if self.make("headers"):
            raise LabError(f"make headers failed\n{self.log[-2000:]}")
        init = self.out / "small-init"
        nolibc = self.src / "tools" / "include" / "nolibc"
        run([self.cross + "gcc", *self.f.cc, "-Os", "-Wall", "-Werror",
             "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector",
             "-fno-asynchronous-unwind-tables", "-include",
             nolibc / "nolibc.h", "-I", self.out / "usr" / "include", "-o",
             init, TOP / "guest" / "small-init.c"])
        self.files.write_text(FILES.format(init))
        status = self.make(os.path.basename(self.f.image))
        image = self.out / self.f.image
        if status or not image.exists():
            raise LabError(f"it does not build\n{self.log[-2000:]}")
        warnings = self.warnings()
        if warnings:
            raise LabError("\n".join(warnings.values()))
        return image

    def configure(self, strict=True):
        self.cfg = portability.Config(
            self.f.config.name, self.f.config.arch, self.f.config.target,
            f'{self.f.config.options} INITRAMFS_SOURCE="{self.files}"')
        super().configure(strict)


def counts(text):
    """[{function: calls} of CPUs going offline, the same of coming online], with
    'us'; [] if it did not get that far."""
    return [{k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line)}
            for line in re.findall(r"^lab: count \w+ (.*)$",
                                   text.replace("\r", ""), re.M)]


def too_many(got, limits):
    """What was called more often than it may be, '' if nothing."""
    if len(got) != len(limits):
        return "it has not counted"
    return ", ".join(f"{way}: {k} {n[k]} times, not {most}" for way, n, limit in
                     zip(("offline", "online"), got, limits)
                     for k, most in limit.items() if n[k] > most)


def told(text, late=False):
    """What is wrong with the console of a boot, '' if nothing. late: CPU 3 is
    to be given up."""
    said = re.findall(r"^lab: (.*)$", text.replace("\r", ""), re.M)
    splats = console.Splats("CPU3 failed to report alive state" if late else "")
    bad = ["\n".join(x) for x in splats.of(text)]
    if said[-1:] != ["passed"]:
        bad.append("\n".join(said[-3:]) or "init did not start\n"
                   + text[-1500:])
    return "\n".join(bad)


def boot_one(f, image, append, more=(), variant=""):
    """Boot a kernel with a parameter, or more options of QEMU; (what went wrong,
    '' if nothing, the console)."""
    what = " ".join(filter(None, (variant, append, *more))) or "default"
    log = OUT / "console" / f"foreign-{f.config.name}-{what.replace(' ', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    args = f"console={f.console} panic=-1 {f.lab} {append}"
    try:
        # virtual time: a host with less CPUs than the guest makes RCU stalls
        # out of nothing
        _, text = run([*f.qemu, *more, "-accel", "tcg,thread=single",
                       *(() if "-icount" in more else
                         ("-icount", "shift=0,sleep=off")), "-m", "1024", "-display", "none",
                       "-nodefaults", "-serial", "stdio", "-no-reboot",
                       "-kernel", image, "-append", args], log=log,
                      check=False, limit=LIMIT)
        return told(text, "lab.late" in append), text
    except TimeoutError:
        text = log.read_text()
        return f"not done in {LIMIT} s\n{text[-1500:]}", text


def check_boots(rep, f, image):
    """Boot a kernel in all ways."""
    ways = [(x, ()) for x in APPEND] + [("", x) for x in f.more]
    if f.lab:
        # a CPU spins for 11 s: not in virtual nanoseconds. With 16 ns an
        # instruction the ticks of CPUs that come, beside others that spin
        # until they are released, take all of their time
        ways.append(("lab.late", ("-icount", "shift=2,sleep=off")))
    with step(f"{len(ways)} boots of {f.name}", 60):
        for (append, more), (bad, _) in zip(ways, boot.side_by_side(
                boot_one, [(f, image, *x) for x in ways], os.cpu_count() or 1)):
            rep.add(f"{f.name}: CPUs go and come: "
                    + (append or " ".join(more) or "default"), not bad, bad)


def check_counts(rep, f, image, variant):
    """Boot a kernel that counts."""
    bad, text = boot_one(f, image, "", (), variant)
    for way, n in zip(("offline", "online"), counts(text)):
        say(f"   {f.name} {variant} {way}: "
            + " ".join(f"{k}={v}" for k, v in n.items()))
    # the base is to compare with
    if not bad and variant == "patched":
        bad = too_many(counts(text), f.limits)
    rep.add(f"{f.name}: a list is one operation" if variant == "patched" else
            f"{f.name}: the base counts", not bad, bad)


def check(rep, f):
    """Build a kernel, of the base as well if it counts, and boot it."""
    install("foreign")
    need_space(cache_dir(), 2, "small kernels")
    for variant in kernels.VARIANTS if f.limits else ("patched",):
        what = f"{f.name} {variant}" if f.limits else f.name
        with step(f"kernel {what}", 180), locked(f"kernel-{variant}"):
            build = Build(f, kernels.checkout(
                variant, kernels.wanted_commit(variant)))
            try:
                image, bad = build.kernel(), ""
            except HostError:
                raise
            except LabError as e:
                bad = e
        rep.add(f"{what}: builds without warnings", not bad, bad)
        if not bad and f.limits:
            check_counts(rep, f, image, variant)
        elif not bad:
            check_boots(rep, f, image)
        if not bad:
            shutil.rmtree(build.out, ignore_errors=True)
