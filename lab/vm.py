# SPDX-License-Identifier: GPL-2.0
"""Virtual machines: from a topology to QEMU's command line."""

import dataclasses
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from .common import (HostError, LabError, apt, apt_dir, cache_dir, check_arch,
                     fresh_dir, locked, need_packages, run)

# machine type -> what it needs. off: whether the guest's poweroff ends QEMU
# (powernv hangs in it). append: for every boot; q35's takes the place of
# calibrate_delay(), 80 ms for each CPU of TCG, which has no constant TSC.
MACHINES = {
    "q35": {"arch": "x86_64", "cpu": "Skylake-Server", "threads": (1, 2),
            "console": "ttyS0", "off": True, "numa": True,
            "append": "lpj=4000000 tsc=reliable",
            "default_threads": 2},
    # In one TCG thread a CPU that waits for another has to let it run: 'or
    # 1,1,1' of POWER9 does, pause_short of POWER10 is a nop and burns the
    # whole slice. 31 CPUs in stop_machine() then cost 10 ms of virtual time
    # whenever the one that works does a hypercall.
    "pseries": {"arch": "ppc64le", "cpu": "power10", "icount_cpu": "power9",
                "threads": (1, 2, 4, 8),
                "console": "hvc0", "off": True, "numa": True,
                "default_threads": 8},
    "powernv10": {"arch": "ppc64le", "cpu": "power10",
                  "threads": (1, 2, 4), "console": "hvc0", "off": False,
                  "numa": False, "default_threads": 4},
    "powernv9": {"arch": "ppc64le", "cpu": "power9", "threads": (1, 2, 4),
                 "console": "hvc0", "off": False, "numa": False,
                 "default_threads": 4},
    # not 'max': pointer authentication is slow in TCG
    "virt": {"arch": "arm64", "cpu": "neoverse-n1", "threads": (1, 2, 4),
             "console": "ttyAMA0", "off": True, "numa": True,
             "default_threads": 2},
}
DEFAULT = {"x86_64": "q35", "ppc64le": "pseries", "arm64": "virt"}
DEFAULT_CPUS = {"q35": 16, "pseries": 32, "virt": 32}
ACCELS = ("icount", "mttcg", "kvm")
# the lab's own disks, and files beside those that with_disk() adds
OWN_DISKS = ("root", "lab", "job", "results", "qmp")
QEMU = {"x86_64": "qemu-system-x86_64", "ppc64le": "qemu-system-ppc64",
        "arm64": "qemu-system-aarch64"}


@dataclasses.dataclass(frozen=True)
class Machine:
    """A virtual machine. cpus = sockets * cores * threads; nodes divides
    sockets; memory is in MiB; accel is 'icount' (virtual time: 1 ns an
    instruction, idle time skipped, CPUs take turns), 'mttcg' (real threads,
    wall clock) or 'kvm'."""
    type: str
    sockets: int
    cores: int
    threads: int
    nodes: int = 1
    memory: int = 2048
    accel: str = "icount"
    cpu: str = ""
    append: str = ""
    idle: str = ""              # 'acpi': q35 gets C-states, so acpi_idle
    freq: str = ""              # 'acpi': q35 gets P-states, so acpi-cpufreq
    boot: str = ""              # what the time to user space is called
    spare: int = 0              # cores that device_add may plug in later
    disks: tuple = ()           # more of them, by with_disk()
    options: tuple = ()         # further QEMU arguments
    net: str = "hubport,hubid=0"        # what the network card is on: nothing
    # the kernel is dom0 of Xen, with all but 512 MiB; not in what a record was
    # made of, which is older
    xen: bool = dataclasses.field(default=False, repr=False)
    clusters: int = dataclasses.field(default=1, repr=False)    # virt: a socket's
    # virt: capacity-dmips-mhz of the CPUs of the second half, where the others
    # have 1024
    capacity: int = dataclasses.field(default=1024, repr=False)

    @property
    def arch(self):
        return MACHINES[self.type]["arch"]

    @property
    def cpus(self):
        return self.sockets * self.cores * self.threads

    def with_disk(self, serial, source, props=""):
        """This machine with one more disk, which guests find by its serial
        number ('disk' in guest/lib.sh). source: the Path of a file (relative:
        of the kernel's image), of which the guest gets a copy, and its job
        SIZE, the bytes without what is added to fill sectors; a number of
        bytes, empty ones; or a text, options of QEMU's null-co, a disk of
        zeros. props: options of virtio-blk-pci. LabError for a serial number that
        cannot be, or is there already: QEMU and a file are called so, too."""
        if not re.fullmatch(r"[A-Za-z][\w-]{0,19}", serial, re.A):
            raise LabError(f"a disk's serial number is a letter and up to 19 "
                           f"letters, digits, '-' and '_', not '{serial}'")
        if serial in (*OWN_DISKS, *(d[0] for d in self.disks)):
            raise LabError(f"there is a disk '{serial}' already; give the other "
                           "one another serial number")
        return dataclasses.replace(
            self, disks=(*self.disks, (serial, source, props)))

    def model(self):
        """QEMU's name of the CPU model."""
        info = MACHINES[self.type]
        return self.cpu or (self.accel == "icount" and
                            info.get("icount_cpu")) or info["cpu"]

    def name(self):
        """'pseries-32' or 'q35-16-mttcg'."""
        extra = "" if self.accel == "icount" else f"-{self.accel}"
        extra += f"-{self.cpu}" if self.cpu else ""
        extra += f"-{self.idle}" if self.idle else ""
        extra += "-cpufreq" if self.freq else ""
        extra += "-xen" if self.xen else ""
        if self.boot:
            extra += "-" + re.sub(r"[^a-z0-9]+", "-", self.boot.lower())
        return f"{self.type}-{self.cpus}{extra}"


def ssdt(m):
    """Path of an ACPI table for each CPU of a q35 machine. m.idle: a _CST with
    one state, C1, which acpi_idle enters with HLT. m.freq: two P-states, 2 and
    1 GHz, a policy for each CPU; setting one is a write to port 0x80, where
    nothing is, and reads as the first. Compiled with iasl on first use;
    LabError when that fails."""
    cst = """
Name (_CST, Package () { 1, Package () {
  ResourceTemplate () { Register (FFixedHW, 1, 2, 0x0, 1) }, 1, 1, 1000 } })"""
    pss = """
Name (_PCT, Package () {
  ResourceTemplate () { Register (SystemIO, 8, 0, 0x80, 1) },
  ResourceTemplate () { Register (SystemIO, 8, 0, 0x80, 1) } })
Name (_PSS, Package () {
  Package () { 2000, 20000, 10, 10, 0xff, 0xff },
  Package () { 1000, 10000, 10, 10, 1, 1 } })
Name (_PPC, 0)"""
    body = (cst if m.idle else "") + (pss if m.freq else "")
    asl = "".join(f"External (\\_SB.CPUS.C{i:03X}, DeviceObj)\n"
                  f"Scope (\\_SB.CPUS.C{i:03X}) {{{body}\n}}\n"
                  for i in range(m.cpus))
    asl = f'DefinitionBlock ("", "SSDT", 2, "LAB", "LABCPU", 1) {{\n{asl}}}\n'
    key = hashlib.sha256(asl.encode()).hexdigest()[:16]
    path = cache_dir() / "acpi" / f"{key}.aml"
    # guests start side by side
    with locked("acpi"):
        if not path.exists():
            with fresh_dir(path.parent / f".{key}") as tmp:
                (tmp / "cpu.asl").write_text(asl)
                run(["iasl", "-p", tmp / "cpu", tmp / "cpu.asl"])
                os.replace(tmp / "cpu.aml", path)
    return path


def dtb(m, args):
    """Path of the device tree of a virt machine, QEMU's arguments args, whose
    CPUs have m.capacity. Made by QEMU and fdtput on first use; LabError when
    that fails."""
    key = hashlib.sha256(repr((m.capacity, args)).encode()).hexdigest()[:16]
    path = cache_dir() / "acpi" / f"{key}.dtb"
    with locked("acpi"):
        if not path.exists():
            need_packages(m.arch)
            with fresh_dir(path.parent / f".{key}") as tmp:
                args = [f"{a},dumpdtb={tmp / 'dtb'}" if b == "-M" else a
                        for a, b in zip(args, ["", *args])]
                run(args)
                # as QEMU names them, by affinity: 16 CPUs share the next level
                _, nodes = run(["fdtget", "-l", tmp / "dtb", "/cpus"])
                cpus = [n for n in nodes.split() if n.startswith("cpu@")]
                cpus.sort(key=lambda n: int(n[4:], 16))
                if len(cpus) != m.cpus:
                    raise LabError(f"QEMU's device tree has {len(cpus)} CPUs, "
                                   f"not {m.cpus}")
                for i, n in enumerate(cpus):
                    run(["fdtput", "-t", "i", tmp / "dtb", f"/cpus/{n}",
                         "capacity-dmips-mhz",
                         str(m.capacity if i >= m.cpus // 2 else 1024)])
                os.replace(tmp / "dtb", path)
    return path


def xen():
    """Path of Debian's Xen for x86-64, from the first suite that has one;
    HostError when none does."""
    path = cache_dir() / "xen" / "xen"
    with locked("xen"):
        if path.exists():
            return path
        for suite in "trixie", "forky", "sid", "bookworm":
            apt("xen", suite, "apt-get", "update")
            for name in re.findall(
                    r"^xen-hypervisor-[\d.]+-amd64$", apt(
                        "xen", suite, "apt-cache", "pkgnames",
                        "xen-hypervisor")[1], re.M):
                apt("xen", suite, "apt-get", "download", name)
            for deb in apt_dir("xen", suite).glob("*.deb"):
                with fresh_dir(path.parent) as tmp:
                    run(["dpkg-deb", "-x", deb, tmp / "deb"])
                    for z in (tmp / "deb" / "boot").glob("xen-*.gz"):
                        (tmp / "xen").write_bytes(gzip.decompress(
                            z.read_bytes()))
                    shutil.rmtree(tmp / "deb")
                if path.exists():
                    return path
    raise HostError("no suite of Debian serves xen-hypervisor-*-amd64; try again "
                    "later, or leave Xen out with K=")


def kvm_usable(arch):
    """Whether the host can run guests of arch under KVM. That it really does
    (some hosts open /dev/kvm and then hang) only a boot shows."""
    return (os.uname().machine == arch and os.access("/dev/kvm", os.R_OK |
                                                      os.W_OK))


def number(name, value):
    """The number that a variable has, 0 if it is not given ('' or 0); LabError
    for anything else than a number above 0."""
    try:
        n = int(value or 0)
    except ValueError:
        n = -1
    if value and n < 1:
        raise LabError(f"{name}={value}: a number above 0 is needed")
    return n


def topology(type_, cpus, threads=0, nodes=0, **kw):
    """A Machine of that type with that many CPUs, spread over two sockets
    (and nodes) where they fit; LabError when they do not fit."""
    if type_ not in MACHINES:
        raise LabError(f"unknown MACHINE '{type_}'; use one of: "
                       + ", ".join(MACHINES))
    m = MACHINES[type_]
    cpus, threads, nodes = (number("CPUS", cpus), number("THREADS", threads),
                            number("NODES", nodes))
    threads = threads or min(m["default_threads"], max(cpus, 1))
    if threads not in m["threads"]:
        raise LabError(f"{type_} has no {threads} threads a core; use one of "
                       + ", ".join(map(str, m["threads"])))
    if cpus < 1 or cpus % threads:
        raise LabError(f"CPUS={cpus} does not fit: it must be a multiple of "
                       f"the {threads} threads a core of {type_} has "
                       "(or give THREADS=)")
    if type_ == "q35" and cpus > 255:
        raise LabError(f"CPUS={cpus} is too many for q35, which ends at 255; "
                       "use ARCH=ppc64le for more")
    if type_ == "virt" and cpus > 512:
        raise LabError(f"CPUS={cpus} is too many for virt, which ends at 512; "
                       "use ARCH=ppc64le for more")
    if cpus > 2048:
        raise LabError(f"CPUS={cpus} is too many: the kernels are built for "
                       "2048")
    cores = cpus // threads
    sockets = 2 if cores % 2 == 0 else 1
    if not m["numa"] and nodes > 1:
        raise LabError(f"NODES={nodes}: QEMU's {type_} has no NUMA; use "
                       "MACHINE=pseries")
    nodes = nodes or (sockets if m["numa"] else 1)
    if sockets % nodes:
        raise LabError(f"NODES={nodes} does not divide the {sockets} sockets "
                       f"of {cpus} CPUs")
    kw.setdefault("memory", 2048 if cpus <= 64 else 4096 if cpus <= 256 else 8192)
    return Machine(type_, sockets, cores // sockets, threads, nodes, **kw)


def check_accel(accel, arch):
    """Return accel, or raise LabError."""
    if accel not in ACCELS:
        raise LabError(f"unknown ACCEL '{accel}'; use one of: "
                       + ", ".join(ACCELS))
    if accel == "kvm" and not kvm_usable(arch):
        raise LabError(f"ACCEL=kvm: this host has no usable KVM for {arch}; "
                       "use ACCEL=mttcg or ACCEL=icount")
    return accel


def qemu_version(arch):
    """'10.0.2'; HostError when QEMU is missing or older than 10."""
    q = QEMU[check_arch(arch)]
    need_packages(arch)
    if not shutil.which(q):
        raise HostError(f"{q} is not installed; run 'make deps'")
    out = subprocess.run([q, "--version"], capture_output=True, text=True)
    m = re.search(r"version (\d+)\.(\S+)", out.stdout)
    if not m or int(m[1]) < 10:
        raise HostError(f"{q} is {m[0] if m else 'of no known version'}; 10 or "
                        "newer is needed: run 'make deps'")
    return f"{m[1]}.{m[2]}"


def parameters(info, *more):
    """The kernel parameters of a machine type and more of them. One that is
    given takes the place of the machine's own: tsc=watchdog that of tsc=reliable."""
    more = " ".join(more)
    given = {w.partition("=")[0] for w in more.split()}
    own = [w for w in info.get("append", "").split()
           if w.partition("=")[0] not in given]
    return " ".join([*own, more])


def command(m, kernel, root, lab, job, results, qmp, append="", shell=False):
    """QEMU's argument list. kernel, root, lab, job: files; results: the file
    of the guest's records; qmp: a socket path."""
    info = MACHINES[m.type]
    smp = f"{m.cpus},sockets={m.sockets},cores={m.cores},threads={m.threads}"
    if m.spare:
        cores = m.sockets * m.cores + m.spare
        smp = (f"{m.cpus},maxcpus={cores * m.threads},sockets=1,"
               f"cores={cores},threads={m.threads}")
    if m.clusters > 1:
        smp = smp.replace(f",cores={m.cores}", f",clusters={m.clusters},"
                          f"cores={m.cores // m.clusters}")
    mtype = {"q35": "q35,kernel-irqchip=split",
             "virt": "virt,gic-version=3"}.get(m.type, m.type)
    # QEMU loses doorbells of siblings with mttcg; a decrementer of 32 bits wakes up
    # idle CPUs every four seconds (docs/lab.md)
    if m.type == "pseries" and m.accel == "mttcg" and m.threads > 1:
        mtype += ",cap-large-decr=off"
    # powernv makes its PCI host bridges only with the defaults
    bare = ["-vga", "none", "-net", "none", "-monitor", "none"] \
        if m.type.startswith("powernv") else ["-nodefaults"]
    args = [QEMU[m.arch], *bare, "-no-user-config", "-display",
            "none", "-M", mtype, "-cpu", m.model(),
            "-smp", smp, "-m", f"{m.memory}M", "-no-reboot"]
    if m.accel == "icount":
        args += ["-accel", "tcg,thread=single", "-icount",
                 "shift=0,sleep=off"]
    elif m.accel == "mttcg":
        args += ["-accel", "tcg,thread=multi"]
    else:
        args += ["-accel", "kvm"]
        if m.arch == "x86_64":
            args[args.index("-cpu") + 1] = "host"
    if m.idle or m.freq:
        if m.type != "q35" or {m.idle, m.freq} - {"", "acpi"}:
            raise LabError(f"idle = '{m.idle}', freq = '{m.freq}': 'acpi' is "
                           f"what there is, for q35; this is {m.type}")
        args += ["-acpitable", f"file={ssdt(m)}"]
    # pci bus for the disks: powernv wants its root ports named
    bus = (lambda i: f",bus=pcie.{i}") if m.type.startswith("powernv") \
        else (lambda i: "")
    if m.nodes > 1 and not m.spare:
        each = m.memory // m.nodes
        for n in range(m.nodes):
            args += ["-object",
                     f"memory-backend-ram,id=mem{n},size={each}M",
                     "-numa", f"node,nodeid={n},memdev=mem{n}"]
        if m.type in ("q35", "virt"):
            for s in range(m.sockets):
                args += ["-numa", f"cpu,node-id={s * m.nodes // m.sockets},"
                                  f"socket-id={s}"]
        elif m.type == "pseries":
            for c in range(m.sockets * m.cores):
                node = c * m.nodes // (m.sockets * m.cores)
                args += ["-numa", f"cpu,node-id={node},"
                                  f"core-id={c * m.threads}"]

    if m.capacity != 1024:
        args += ["-dtb", str(dtb(m, args))]

    def disk(i, name, source, props="", ro="off"):
        if isinstance(source, str):
            back = ["-blockdev", f"null-co,node-name={name},read-zeroes=on,"
                                 f"{source}"]
        else:
            back = ["-drive", f"if=none,id={name},file={source},format=raw,"
                              f"readonly={ro}"]
        return [*back, "-device", ",".join(filter(None, (
            f"virtio-blk-pci,drive={name},serial={name}", props))) + bus(i)]
    for i, (name, path) in enumerate((("root", root), ("lab", lab),
                                      ("job", job))):
        if path:
            args += disk(i, name, pathlib.Path(path), ro="on")
    if results:
        args += ["-device", "virtio-serial-pci" + bus(3),
                 "-chardev", f"file,id=results,path={results}",
                 "-device", "virtserialport,chardev=results,name=lab"]
    if m.type == "q35":
        args += ["-serial", "stdio"]
    elif m.type == "pseries":
        args += ["-chardev", "stdio,id=con,signal=off", "-device",
                 "spapr-vty,chardev=con"]
    else:
        args += ["-serial", "stdio"]
    args += ["-device", "virtio-net-pci,netdev=n0,mq=on,vectors=10" + bus(4),
             "-netdev", f"{m.net},id=n0"]
    for i, d in enumerate(m.disks, 5):
        args += disk(i, *d)
    args += ["-qmp", f"unix:{qmp},server=on,wait=off"]
    line = (f"root=/dev/vda rootfstype=squashfs ro init=/lab-init "
            f"console={info['console']} panic=-1 oops=panic "
            f"printk.time=1 {parameters(info, m.append, append)}")
    if shell:
        line += " lab.shell"
    else:
        line += " quiet loglevel=5"
    line = " ".join(line.split())
    if m.xen:
        # Xen is what QEMU starts, and dom0's kernel its module
        line = line.replace(f"console={info['console']}", "console=hvc0")
        args += ["-kernel", str(xen()), "-append",
                 "xen com1=115200,8n1 console=com1 noreboot "
                 f"dom0_mem={m.memory - 512}M",
                 "-initrd", f"{kernel} {line}".replace(",", ",,")]
    else:
        args += ["-kernel", str(kernel), "-append", line]
    return args + list(m.options)
