# SPDX-License-Identifier: GPL-2.0
"""The guest: Debian's user space as a read-only squashfs (disk 'root') and a
small disk with what is ours: scripts, labctl, the kernel's selftests (disk
'lab'). Both are cached by content."""

import os
import pwd
import re
import shutil
import subprocess

from . import codekey, kernels
from .common import (ARCHES, LINUX, TOP, DiskFull, LabError, cache_dir, check_arch,
                     digest, disk_full, fresh_dir, git, locked, need_space, prune,
                     run, say, step)

GUEST = TOP / "guest"
SUITE = "bookworm"
PACKAGES = ("base-files bash coreutils diffutils findutils gawk grep gzip "
            "hostname kexec-tools kmod mount perl-base procps rt-tests sed "
            "stress-ng tar trace-cmd util-linux").split()
PACKAGES_ARCH = {"x86_64": [], "ppc64le": ["powerpc-utils"], "arm64": []}
# A newer ppc64_cpu beside that: it writes smt/control, not the files of CPUs.
# With the C library of its release, in a directory of its own. The first of
# these releases that the mirror serves: it may be out of step with itself for
# hours, for one architecture of one release.
NEWER = ("trixie", "forky", "sid")
PACKAGES_NEWER = {"x86_64": [], "ppc64le": ["powerpc-ibm-utils"], "arm64": []}
FILES_NEWER = {"ppc64le": ("./usr/sbin/ppc64_cpu",
                           "./usr/lib/powerpc64le-linux-gnu/*.so*")}
# for kernels of the profile bpf: LLVM makes the guest twice as large
PACKAGES_BPF = "bpfcc-tools bpftrace xz-utils".split()
SELFTESTS = ("cpu-hotplug",)


def _mirror():
    """The Debian mirror of this machine's own apt sources."""
    out = subprocess.run([str(TOP / "lab" / "apt-private.sh"), "--mirror"],
                         capture_output=True, text=True)
    url = out.stdout.strip()
    if not url:
        raise LabError("no Debian mirror in this machine's apt sources; add "
                       "one for its release to /etc/apt")
    return url


def _log(name):
    path = cache_dir() / "logs" / f"{name}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    return path


def _mmdebstrap(arch, *args):
    """Run mmdebstrap; LabError says which of its usual problems it is."""
    log = _log(f"mmdebstrap-{arch}")
    status, out = run(["mmdebstrap", *args], log=log, check=False)
    if not status:
        return
    disk_full(out, "mmdebstrap", cache_dir())
    say("\n".join("   | " + x for x in out.splitlines()[-15:]))
    net = re.search(r"Could not (?:resolve|connect)|Temporary failure resolving"
                    r"|Unable to connect|Connection (?:failed|timed out)", out)
    raise LabError(("the Debian mirror of this machine's apt sources cannot be "
                    "reached; see that the network works, or set CPUHP_MIRROR "
                    "to another one" if net else
                    f"mmdebstrap failed with status {status}")
                   + f"; the log is {log}")


def _check_unshare():
    """mmdebstrap without root maps the user's subordinate ids."""
    name = pwd.getpwuid(os.geteuid()).pw_name
    try:
        ok = any(line.startswith((f"{name}:", f"{os.geteuid()}:"))
                 for line in open("/etc/subuid"))
    except OSError:
        ok = False
    if not ok:
        raise LabError(f"user {name} has no subordinate ids, which making the "
                       "guest without root needs; run as root: usermod "
                       f"--add-subuids 100000-165535 --add-subgids "
                       f"100000-165535 {name}")


def unpack(arch, suite, pkgs, tar):
    """Write packages of a Debian suite, and all they need, into the file tar,
    unpacked. None of their scripts runs."""
    _debian(arch, suite, pkgs, tar, "--variant=extract")


def install(arch, suite, pkgs, tar, *hooks):
    """Write a Debian that boots into the file tar: essential packages and pkgs,
    installed; then mmdebstrap's customize hooks."""
    _debian(arch, suite, pkgs, tar, "--variant=minbase",
            *[f"--customize-hook={h}" for h in hooks])


def _debian(arch, suite, pkgs, tar, *options):
    # unshare is for the user who is not root
    mode = "root" if os.geteuid() == 0 else "unshare"
    if mode == "unshare":
        _check_unshare()
    _mmdebstrap(arch, f"--mode={mode}", *options,
                f"--architectures={ARCHES[arch]['debian']}",
                f"--include={','.join(pkgs)}", "--format=tar",
                "--aptopt=Acquire::Retries \"3\"",
                # a mirror that lags is good enough
                "--aptopt=Acquire::Check-Valid-Until \"false\"",
                suite, tar, f"deb {_mirror()} {suite} main")


def _first_of(suites, unpack):
    """Call unpack with one suite after the other until one does not raise
    LabError, and return that one; the last one's error is raised."""
    for suite in suites[:-1]:
        try:
            unpack(suite)
            return suite
        except DiskFull:            # nor is there space for another
            raise
        except LabError as e:
            say(f"   Debian {suite}: {e}; trying the next release")
    unpack(suites[-1])
    return suites[-1]


def _newer(arch, tar, add):
    """Take what the guest wants of a newer release out of tar, into a directory
    below add; its name. /opt/newer/NAME starts the program of that name."""
    top = add / "opt" / "newer"
    for d in ("all", "lib"):
        (top / d).mkdir(parents=True)
    run(["tar", "-xf", tar, "-C", top / "all", "--wildcards",
         "--no-wildcards-match-slash", *FILES_NEWER[arch]])
    for f in sorted((top / "all").rglob("*")):
        if f.is_dir():
            continue
        shutil.move(f, top / "lib" / f.name)
        if "sbin" not in f.parts:
            continue
        (top / f.name).write_text(
            "#!/bin/sh\nexec /opt/newer/lib/ld64.so.2 --library-path "
            f'/opt/newer/lib /opt/newer/lib/{f.name} "$@"\n')
        (top / f.name).chmod(0o755)
    shutil.rmtree(top / "all")
    return "opt"


def rootfs(arch, profile=""):
    """Path of the squashfs with Debian's user space for arch, the larger one
    for kernels of the profile bpf; made on first use. Packages are unpacked,
    none of their scripts runs."""
    check_arch(arch)
    name, pkgs = "root", PACKAGES + PACKAGES_ARCH[arch]
    if "bpf" in profile.split("+"):
        name, pkgs = "bpf", pkgs + PACKAGES_BPF
    newer = PACKAGES_NEWER[arch]
    key = digest(SUITE, " ".join(pkgs), GUEST / "lab-init", "4",
                 *[*NEWER, *newer, *FILES_NEWER[arch]] if newer else ())
    path = cache_dir() / "guest" / f"{name}-{arch}-{key}.squashfs"
    with locked(f"guest-{arch}"):
        if path.exists():
            os.utime(path)          # prune() is to spare it
            return path
        need_space(cache_dir(), 2, "the guest")
        deb = ARCHES[arch]["debian"]
        with step(f"guest: Debian {SUITE} {deb}, {len(pkgs + newer)} packages",
                  35):
            with fresh_dir(cache_dir() / "guest" / f".make-{arch}") as tmp:
                tar = tmp / "root.tar"
                unpack(arch, SUITE, pkgs, tar)
                add = tmp / "add"
                for d in ("lab", "proc", "sys", "dev", "tmp", "run", "root",
                          "usr/bin", "etc"):
                    (add / d).mkdir(parents=True)
                shutil.copy2(GUEST / "lab-init", add / "lab-init")
                # what the packages' scripts would have linked
                (add / "bin").mkdir()
                (add / "bin/sh").symlink_to("bash")
                (add / "usr/bin/awk").symlink_to("gawk")
                (add / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
                (add / "etc/group").write_text("root:x:0:\n")
                (add / "etc/mtab").symlink_to("/proc/self/mounts")
                names = ["lab-init", "lab", "bin/sh", "usr/bin/awk",
                         "etc/passwd", "etc/group", "etc/mtab"]
                if newer:
                    _first_of(NEWER, lambda suite: unpack(
                        arch, suite, newer, tmp / "newer.tar"))
                    names.append(_newer(arch, tmp / "newer.tar", add))
                run(["tar", "-rf", tar, "--owner=0", "--group=0",
                     "-C", add, *[f"./{n}" for n in names]])
                with open(tar, "rb") as f:
                    run(["tar2sqfs", "-q", "-f", "-c", "lz4",
                         tmp / "root.squashfs"], stdin=f)
                os.replace(tmp / "root.squashfs", path)
            shutil.rmtree(cache_dir() / "guest" / f".make-{arch}",
                          ignore_errors=True)
        prune(path.parent, path)
    return path


def tests_of(job):
    """The patched tree's selftests, as git's ids of their directories, and the
    digest of its KUnit tests, if the text of a job runs them: what it says depends
    on them, which are no code of the kernel that others run."""
    commit = kernels.wanted_commit("patched")
    ids = [codekey.kunit(commit)] if "/debug/kunit/" in job else []
    if "/lab/kselftest" in job:
        ids += [git("rev-parse", f"{commit}:tools/testing/selftests/{t}", cwd=LINUX)
                for t in SELFTESTS]
    return ids


def lab_disk(arch):
    """Path of the squashfs with guest/, labctl and the kernel's selftests of
    the patched tree, built for arch; made anew when one of them changed."""
    check_arch(arch)
    commit = kernels.wanted_commit("patched")
    cross = ARCHES[arch]["cross"]
    # only what the selftests' makefiles read, so that no kernel build has to
    # be waited for
    tests = "tools/testing/selftests"
    files = ["scripts/subarch.include", "tools/scripts", f"{tests}/kselftest",
             *[f"{tests}/{t}" for t in SELFTESTS],
             *[f for f in git("ls-tree", "--name-only", commit, f"{tests}/",
                              cwd=LINUX).split()
               if git("cat-file", "-t", f"{commit}:{f}",
                      cwd=LINUX).strip() == "blob"]]
    # jobs come on a disk of their own, each to its boot
    ours = [f for f in sorted(GUEST.iterdir()) if f.is_file()]
    key = digest(*ours, kernels.compiler(arch),
                 git("ls-tree", commit, *files, cwd=LINUX))
    path = cache_dir() / "guest" / f"lab-{arch}-{key}.squashfs"
    with locked(f"guest-{arch}"):
        if path.exists():
            os.utime(path)          # prune() is to spare it
            return path
        with step(f"guest: scripts and selftests for {arch}", 5), \
                fresh_dir(cache_dir() / "guest" / f".lab-{arch}") as tmp:
            top = tmp / "lab"
            (top / "bin").mkdir(parents=True)
            for f in ours:
                shutil.copy2(f, top)
            run([cross + "gcc", "-O2", "-Wall", "-Werror", "-static", "-o",
                 top / "bin" / "labctl", GUEST / "labctl.c"])
            src = tmp / "src"
            src.mkdir()
            run(["git", "archive", "-o", tmp / "src.tar", commit, "--",
                 *files], cwd=LINUX)
            run(["tar", "-xf", tmp / "src.tar", "-C", src])
            run(["make", "-s", "-C", src / tests,
                 f"O={tmp / 'kselftest-build'}",
                 f"ARCH={ARCHES[arch]['kernel']}",
                 f"CROSS_COMPILE={cross}", f"TARGETS={' '.join(SELFTESTS)}",
                 "FORCE_TARGETS=1",
                 f"INSTALL_PATH={top / 'kselftest'}", "install"],
                log=_log(f"kselftest-{arch}"))
            run(["mksquashfs", top, tmp / "lab.squashfs", "-all-root",
                 "-no-progress", "-quiet", "-comp", "lz4", "-mkfs-time", "0",
                 "-all-time", "0"])
            os.replace(tmp / "lab.squashfs", path)
        shutil.rmtree(cache_dir() / "guest" / f".lab-{arch}",
                      ignore_errors=True)
        prune(path.parent, path)
    return path
