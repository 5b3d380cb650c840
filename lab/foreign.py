# SPDX-License-Identifier: GPL-2.0
"""'make foreign': the series boots, and CPUs go and come, where there is no
Debian guest: RISC-V, whose parallel bringup goes through the shared code, and
big-endian pseries. Small kernels with lockdep, and an init of our own
(guest/small-init.c) in their initramfs."""

import os
import re
import shutil
from dataclasses import dataclass

from . import boot, console, kernels, portability
from .common import (OUT, TOP, LabError, cache_dir, install, locked, need_space,
                     run, step)

# Options on top of allnoconfig. Lockdep brings what looks for sleeping in
# the wrong places with it.
SMALL = ("SMP=y HOTPLUG_CPU=y PRINTK=y TTY=y BINFMT_ELF=y BLK_DEV_INITRD=y "
         "PROC_FS=y SYSFS=y DEBUG_KERNEL=y PROVE_LOCKING=y "
         "DEBUG_ATOMIC_SLEEP=y")
LIMIT = 600                     # seconds, for a boot


@dataclass
class Foreign:
    """One kernel: 'cc' are flags for the init, 'image' is in the build
    directory, 'qemu' what boots it."""
    config: portability.Config
    cc: tuple
    image: str
    qemu: tuple
    console: str

    @property
    def name(self):
        return self.config.name


FOREIGN = (
    Foreign(portability.Config(
        "riscv64-small", "riscv", "allnoconfig", SMALL + " MMU=y 64BIT=y "
        "NR_CPUS=8 RISCV_SBI=y SERIAL_8250=y SERIAL_8250_CONSOLE=y "
        "SERIAL_OF_PLATFORM=y"), (), "arch/riscv/boot/Image",
        ("qemu-system-riscv64", "-M", "virt", "-smp", "8"), "ttyS0"),
    Foreign(portability.Config(
        "ppc64be-small", "powerpc", "allnoconfig", SMALL + " PPC64=y "
        "PPC_BOOK3S_64=y CPU_BIG_ENDIAN=y PPC_PSERIES=y NR_CPUS=16 "
        "PPC_OF_BOOT_TRAMPOLINE=y "
        "SCHED_SMT=y HVC_CONSOLE=y"), ("-m64", "-mbig-endian"), "vmlinux",
        ("qemu-system-ppc64", "-M", "pseries", "-cpu", "power9", "-smp",
         "16,cores=2,threads=8"), "hvc0"),
)
APPEND = ("", "cpuhp.parallel=0", "cpuhp.batch=1", "maxcpus=2")
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


def told(text):
    """What is wrong with the console of a boot, '' if nothing."""
    said = re.findall(r"^lab: (.*)$", text.replace("\r", ""), re.M)
    bad = ["\n".join(x) for x in console.splats(text)]
    if said[-1:] != ["passed"]:
        bad.append("\n".join(said[-3:]) or "init did not start\n"
                   + text[-1500:])
    return "\n".join(bad)


def boot_one(f, image, append):
    """Boot a kernel with a parameter; what went wrong, '' if nothing."""
    log = OUT / "console" / f"foreign-{f.config.name}-{append or 'default'}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    args = f"console={f.console} panic=-1 {append}"
    try:
        # virtual time: a host with less CPUs than the guest makes RCU stalls
        # out of nothing
        _, text = run([*f.qemu, "-accel", "tcg,thread=single", "-icount",
                       "shift=0,sleep=off", "-m", "1024", "-display", "none",
                       "-nodefaults", "-serial", "stdio", "-no-reboot",
                       "-kernel", image, "-append", args], log=log,
                      check=False, limit=LIMIT)
        return told(text)
    except TimeoutError:
        return f"not done in {LIMIT} s\n{log.read_text()[-1500:]}"


def check(rep, f):
    """Build a kernel and boot it in all ways."""
    install("foreign")
    need_space(cache_dir(), 2, "small kernels")
    with step(f"kernel {f.config.name}", 180), locked("kernel-patched"):
        build = Build(f, kernels.checkout(
            "patched", kernels.wanted_commit("patched")))
        try:
            image, bad = build.kernel(), ""
        except LabError as e:
            bad = e
    rep.add(f"{f.config.name}: builds without warnings", not bad, bad)
    if bad:
        return
    with step(f"{len(APPEND)} boots of {f.config.name}", 60):
        for append, bad in zip(APPEND, boot.side_by_side(
                boot_one, [(f, image, x) for x in APPEND],
                os.cpu_count() or 1)):
            rep.add(f"{f.config.name}: CPUs go and come: "
                    + (append or "default"), not bad, bad)
    shutil.rmtree(build.out, ignore_errors=True)
