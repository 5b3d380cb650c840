# SPDX-License-Identifier: GPL-2.0
"""Command line of the lab; the Makefile is its front."""

import argparse
import errno
import os
import re
import signal
import subprocess
import sys

from . import common
from .common import MAIN, LabError, say


def _arches(value):
    return [common.check_arch(value)] if value else list(MAIN)


def cmd_tree(a):
    from . import series
    series.make_tree(a.linux or None, a.force)


def cmd_patches(a):
    from . import series
    series.make_patches()


def _tree(a):
    """Every command that needs linux/ makes it when it is not there."""
    from . import series
    if a.linux or not common.LINUX.exists() or series.stale():
        series.make_tree(a.linux or None)
    series.check_tree()


def cmd_kernels(a):
    from . import kernels
    arches = _arches(a.arch)
    for x in arches:
        common.check_profile(a.profile, x)
    _tree(a)
    kernels.build_all(arches, profile=a.profile)
    if a.note:
        from . import codekey
        codekey.note(arches, a.profile)


def cmd_guest(a):
    from . import guest
    arches = _arches(a.arch)
    _tree(a)
    for arch in arches:
        print(guest.rootfs(arch))
        print(guest.lab_disk(arch))


def _machine(a, arch):
    from . import vm
    type_ = a.machine or vm.DEFAULT[arch]
    m = vm.topology(
        type_, a.cpus or vm.DEFAULT_CPUS.get(type_, 16),
        a.threads, a.nodes, accel=vm.check_accel(a.accel, arch))
    if m.arch != arch:
        raise LabError(f"MACHINE={type_} is not {arch}; use ARCH={m.arch}")
    return m


def cmd_shell(a):
    from . import boot, kernels
    arch = common.check_arch(a.arch or "x86_64")
    common.check_profile(a.profile, arch)
    if not a.accel_given:
        a.accel = "mttcg"       # someone types: real time, please
    m = _machine(a, arch)
    _tree(a)
    return boot.shell(m, kernels.build(a.variant, arch, a.profile), a.append)


def cmd_run(a):
    """Boot, run a job file, print its output and records."""
    import json
    import pathlib
    import shlex
    from . import boot, kernels, vm
    arch = common.check_arch(a.arch or "x86_64")
    common.check_profile(a.profile, arch)
    m = _machine(a, arch)
    for serial, _, source in (x.partition("=") for x in a.disk.split()):
        if not source:
            raise LabError(f"DISK={serial}: a serial number, '=' and a file or "
                           "a number of bytes are needed")
        if not source.isdecimal() and source != "kernel":
            try:
                open(source).close()
            except OSError as e:
                raise LabError(f"DISK={serial}={source}: {e.strerror}; name a "
                               "file, or give a number of bytes") from None
        m = m.with_disk(serial, int(source) if source.isdecimal() else
                        pathlib.Path("kernel" if source == "kernel" else
                                     os.path.abspath(source)))
    try:
        words = shlex.split(a.vars)
    except ValueError as e:
        raise LabError(f"VARS={a.vars}: {e}; quote as a shell would") from None
    for x in words:
        if not re.match(r"[A-Za-z_]\w*=", x, re.A):
            raise LabError(f"VARS={a.vars}: '{x}' sets no variable; give "
                           "NAME=value, in quotes if it has blanks")
    given = dict(x.partition("=")[::2] for x in words)
    limit = vm.number("LIMIT", a.limit) or 300
    try:
        with open(a.job) as f:
            job = boot.assign(given) + f.read()
    except (OSError, UnicodeDecodeError) as e:
        why = getattr(e, "strerror", "it is no text")
        raise LabError(f"JOB={a.job}: {why}; give a bash file to run in the "
                       "guest") from None
    _tree(a)
    image = kernels.build(a.variant, arch, a.profile)

    def show(r):
        for rec in r.records:
            print(json.dumps(rec))
        print(r.output(), end="", flush=True)
    try:
        r = boot.run_job(m, image, job, name=f"run-{m.name()}",
                         append=a.append, limit=limit)
    except boot.BootFailed as e:
        show(e.result)              # what came until then
        if not e.result.timed_out:
            raise
        raise boot.BootFailed(f"{e}; LIMIT= gives it more",
                              e.result) from None
    show(r)
    return r.status


def cmd_hwtest(a):
    """The kit for a machine that somebody has."""
    from . import hwtest
    arches = _arches(a.arch)
    for x in arches:
        hwtest.check_kit(x)
    _tree(a)
    hwtest.main(arches, a.packages)


def cmd_hwreport(a):
    """Keep and show a report of the kit."""
    from . import hwreport
    hwreport.main(a.file)


def cmd_hwcheck(a):
    """The kit in QEMU."""
    from . import check, hwtest
    for x in _arches(a.arch):
        hwtest.check_kit(x)
    _tree(a)
    return check.others(a, "hwtest", arch=a.arch)


def cmd_bench(a):
    from . import bench
    what = a.scenario, a.cpus, a.arch, a.full, a.record, a.accel
    bench.plan(*what)
    _tree(a)
    bench.main(*what)


def cmd_sides(a):
    """SMT off and on, base and patched side by side; or a rebuild."""
    from . import insns, offcpu, rebuilds, vm
    arch = common.check_arch(a.arch or "x86_64")
    what = getattr(a, "what", "")
    if what not in ("", "rebuild"):
        raise LabError(f"unknown WHAT '{what}'; leave it out (SMT off and on) or "
                       "use rebuild")
    if what:
        if a.threads or a.nodes or a.machine or a.accel != "icount":
            raise LabError("WHAT=rebuild has its own machines: of THREADS, NODES, "
                           "MACHINE and ACCEL it takes none, only ARCH and CPUS")
        cpus = vm.number("CPUS", a.cpus)
        rebuilds.shapes(arch, a.record, cpus)
        _tree(a)
        return rebuilds.main(arch, a.record, cpus)
    m = _machine(a, arch)
    if a.cmd == "insns":
        insns.check_machine(m)
    _tree(a)
    {"insns": insns, "offcpu": offcpu}[a.cmd].main(m, a.record)


def cmd_model(a):
    from . import scale
    _tree(a)
    scale.main()


def cmd_tables(a):
    """Everything that shows what is recorded, and what of that is stale."""
    from . import bench, caserecord, findings, hwreport, insns, offcpu, \
        rebuilds, record, scale, torture
    findings.write()
    hwreport.page()
    _tree(a)
    record.tables((bench, insns, rebuilds, offcpu, scale, torture, caserecord))


def cmd_record(a):
    """Record what is stale or missing."""
    from . import recordrun, vm
    vm.number("LIMIT", a.limit)
    _tree(a)
    status = recordrun.main(a.k, a.limit, a.list)
    if not a.list:
        cmd_tables(a)
    return status


def cmd_machines(a):
    from . import check, vm
    _arches(a.arch)
    if vm.number("CYCLES", a.cycles) and a.record:
        raise LabError("RECORD=1 keeps what the cases say; run it without CYCLES=")
    _tree(a)
    return check.others(a, "machines", os.cpu_count() or 1, arch=a.arch,
                        cycles=a.cycles, record=a.record, full=a.full)


def _others(marks):
    def cmd(a):
        from . import check
        _tree(a)
        return check.others(a, marks, record=a.record)
    return cmd


def cmd_boot(a):
    from . import bench
    arches = _arches(a.arch)
    _tree(a)
    if set(arches) <= set(MAIN):
        bench.main("boot", None, a.arch or None)
    else:
        bench.main("arm64")


def cmd_test(a):
    from . import check
    _arches(a.arch)
    return check.main(a)


def cmd_torture(a):
    from . import torture
    arches = _arches(a.arch)
    minutes, seed = torture.numbers(a.minutes, a.seed)
    for x in arches:
        common.check_profile(a.profile, x)
    _tree(a)
    return torture.main(minutes, arches, a.profile, seed, a.record)


def cmd_bisect(a):
    from . import perpatch
    arches = _arches(a.arch)
    perpatch.check_part(a.part)
    _tree(a)
    return perpatch.main(arches, a.part)


def main():
    p = argparse.ArgumentParser(prog="lab", description=__doc__)
    sub = p.add_subparsers(dest="cmd", required=True)

    def add(name, func, *opts):
        s = sub.add_parser(name, help=func.__doc__)
        s.set_defaults(func=func)
        s.add_argument("--linux", default="")
        for o in opts:
            if o in ("--force", "--full", "--record", "--list", "--note"):
                s.add_argument(o, action="store_true")
            else:
                s.add_argument(o, default="")
        return s

    add("tree", cmd_tree, "--force")
    add("patches", cmd_patches)
    add("kernels", cmd_kernels, "--arch", "--profile", "--note")
    add("guest", cmd_guest, "--arch")
    which = ("--arch", "--cpus", "--threads", "--nodes", "--machine",
             "--accel")
    vm = (*which, "--profile", "--variant", "--append")
    add("shell", cmd_shell, *vm)
    s = add("run", cmd_run, *vm, "--limit", "--disk", "--vars")
    s.add_argument("job")
    add("boot", cmd_boot, "--arch")
    s = add("hwtest", cmd_hwtest, "--arch")
    s.add_argument("--packages", action="store_true")
    add("hwtest-check", cmd_hwcheck, "--arch", "-k")
    s = add("hwreport", cmd_hwreport)
    s.add_argument("file")
    add("bench", cmd_bench, "--scenario", "--cpus", "--arch", "--accel",
        "--full", "--record")
    add("offcpu", cmd_sides, *which, "--record")
    add("insns", cmd_sides, *which, "--what", "--record")
    add("model", cmd_model)
    add("tables", cmd_tables)
    add("test", cmd_test, "--arch", "-k", "--full")
    add("record", cmd_record, "-k", "--limit", "--list")
    add("machines", cmd_machines, "--arch", "-k", "--cycles", "--record",
        "--full")
    add("compile-matrix", _others("compile"), "-k", "--record")
    add("foreign", _others("foreign"), "-k", "--record")
    add("litmus", _others("litmus"), "-k", "--record")
    add("scx", _others("scx"), "-k", "--record")
    add("torture", cmd_torture, "--minutes", "--arch", "--profile", "--seed",
        "--record")
    add("bisect-check", cmd_bisect, "--arch", "--part")
    a = p.parse_args()
    common.check_port(a.cmd)
    if common.PORT and getattr(a, "record", False):
        raise LabError(f"RECORD=1 is for the series itself, not PORT="
                       f"{common.PORT}; bench leaves its results in out/bench/")
    if hasattr(a, "accel") and a.cmd != "bench":
        a.accel_given = bool(a.accel)
        a.accel = a.accel or "icount"
    if hasattr(a, "variant"):
        a.variant = a.variant or "patched"
        if a.variant not in ("base", "patched"):
            raise LabError(f"unknown VARIANT '{a.variant}'; use base or "
                           "patched")
    status = a.func(a) or 0
    if getattr(a, "record", False):
        cmd_tables(a)
    return status


def _term(signum, frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _term)
    signal.signal(signal.SIGHUP, _term)
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # of 'make ... | head'; nor is there anybody for what is not printed yet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    except LabError as e:
        for line in getattr(e, "lines", list)():
            say(line)
        say(f"error: {e}")
        status = 1
    except subprocess.CalledProcessError as e:
        say(f"error: '{' '.join(map(str, e.cmd[:4]))}' failed with status "
            f"{e.returncode}: {str(e.stderr or '').strip()[-200:]}")
        status = 1
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            say(f"error: the disk is full ({e.filename or e}); free some "
                "space or set CPUHP_CACHE to another disk")
        elif e.filename:
            say(f"error: {e.filename}: {e.strerror}")
        else:
            raise
        status = 1
    except KeyboardInterrupt:
        say("interrupted; what was half made is thrown away")
        status = 130
    finally:
        common.end_children()
    sys.exit(status)
