# SPDX-License-Identifier: GPL-2.0
"""Paths, errors, progress and processes, shared by the whole lab."""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
# PORT=6.12 in the environment: that kernel, and what ports/6.12 has for it
PORT = os.environ.get("PORT", "")
LINUX = TOP / (f"linux-{PORT}" if PORT else "linux")
PATCHES = TOP / (f"ports/{PORT}" if PORT else "patches")
OUT = TOP / "out"
APT = pathlib.Path(__file__).with_name("apt-private.sh")

ARCHES = {
    "x86_64": {"kernel": "x86", "cross": "", "image": "bzImage",
               "path": "arch/x86/boot/bzImage", "debian": "amd64"},
    "ppc64le": {"kernel": "powerpc", "cross": "powerpc64le-linux-gnu-",
                "image": "vmlinux", "path": "vmlinux", "debian": "ppc64el"},
    "arm64": {"kernel": "arm64", "cross": "aarch64-linux-gnu-",
              "image": "Image", "path": "arch/arm64/boot/Image",
              "debian": "arm64", "packages": "arm64"},   # of bootstrap.sh
}
# those that everything is done for; the others are asked for with ARCH=
MAIN = ("x86_64", "ppc64le")
PROFILES = ("", "debug", "kcsan", "rt", "nohz", "scx", "torture", "tree03", "bpf",
            "hwtest", "drivers", "plain", "xen")


class LabError(Exception):
    """Something the user can act on: one line which names the thing and the
    next step. The command line prints it and exits with 1."""


class HostError(LabError):
    """What is wrong with this machine, and says nothing of the kernel: it is
    no result of a patch or a case."""


class DiskFull(HostError):
    """There is no space left."""


def cache_dir():
    """The directory of everything that can be made again (sources, builds,
    guests): $CPUHP_CACHE, or cpuhp-lab below the user's cache directory."""
    d = os.environ.get("CPUHP_CACHE")
    if not d:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        d = os.path.join(base, "cpuhp-lab")
    d = pathlib.Path(d).resolve()
    d.mkdir(parents=True, exist_ok=True)
    return d


def check_arch(arch):
    """Return arch, or raise LabError for a name the lab does not know."""
    if arch not in ARCHES:
        raise LabError(f"unknown ARCH '{arch}'; use one of: "
                       + ", ".join(ARCHES))
    return arch


def check_port(cmd):
    """Raise LabError for a PORT that there is not, or a command that does not
    take one."""
    if not PORT:
        return
    have = sorted(p.name for p in (TOP / "ports").glob("[0-9]*.[0-9]*"))
    if PORT not in have:
        raise LabError(f"there is no port PORT={PORT}; use one of: "
                       + ", ".join(have))
    able = ("tree", "patches", "kernels", "guest", "shell", "run", "boot",
            "bench")
    if cmd not in able:
        raise LabError(f"'make {cmd}' does not take PORT=; these do: "
                       + ", ".join(able))


def check_profile(profile, arch):
    """Return profile ('' is the normal one, 'debug+torture' is both), or raise
    LabError."""
    parts = profile.split("+")
    if profile and (len(set(parts)) < len(parts) or
                    not set(parts) <= set(PROFILES) - {""}):
        raise LabError(f"unknown PROFILE '{profile}'; use one of: "
                       + ", ".join(p for p in PROFILES if p))
    for only in "kcsan", "rt", "scx", "xen":
        if only in parts and arch != "x86_64":
            raise LabError(f"PROFILE={only} exists for x86_64 only, not "
                           f"{arch}; give ARCH=x86_64, or PROFILE=debug")
    return profile


def need_space(path, gib, what):
    """Raise DiskFull unless gib GiB are free where path is."""
    free = shutil.disk_usage(path).free / 2**30
    if free < gib:
        raise DiskFull(f"{what} needs {gib:g} GiB in {path}, {free:.1f} are "
                       "free; free some, or set CPUHP_CACHE to another disk "
                       "if it is the cache's")


def disk_full(text, what, path):
    """Raise DiskFull if text, what a program said when it failed, is about a
    disk that is full; path is where it wrote."""
    if re.search(r"No space left on device|[Oo]ut of diskspace|"
                 r"Disk quota exceeded", text):
        raise DiskFull(f"the disk of {path} is full ({what} failed); free some "
                       "space, or set CPUHP_CACHE to another disk if it is "
                       "the cache's")


# ---- progress -----------------------------------------------------------

def usual(what, default):
    """The seconds that a step took the last time on this machine."""
    return _durations().get(what, default)


def _durations_file():
    return cache_dir() / "durations.json"


def _durations():
    try:
        return json.loads(_durations_file().read_text())
    except (OSError, ValueError):
        return {}


def human(s):
    """Seconds as '59 min 30 s', '12.3 s', '3 s' or '61 ms'."""
    if s < 59.95:
        return f"{s:.3g} s" if s >= 1 or not s else f"{s * 1e3:.3g} ms"
    return f"{round(s) // 60} min {round(s) % 60:02d} s"


def ms(x, digits=1):
    """Milliseconds with so many digits after the point, less where that would
    be more than six in all: '0.352', '785.960', '1234.6'; '-' for None."""
    if x is None:
        return "-"
    return f"{x:.{digits}f}" if x < 1000 else f"{x:.{int(digits > 1)}f}"


def say(text):
    """One line of progress on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(what, usual=None):
    """Announce a long step with how long it usually takes: what it took the
    last time on this machine, else the given number of seconds."""
    last = _durations().get(what, usual)
    hint = f" (usually {human(last)})" if last and last >= 2 else ""
    say(f"== {what}{hint}")
    t0 = time.monotonic()
    yield
    took = time.monotonic() - t0
    d = _durations()
    d[what] = round(took, 1)
    write_atomic(_durations_file(), json.dumps(d, indent=1))
    if took >= 2:
        say(f"   done in {human(took)}")


# ---- files --------------------------------------------------------------

def write_atomic(path, text):
    """Write text to path so that a reader, or an interrupt, never meets half
    of it."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    tmp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    data = text if isinstance(text, bytes) else text.encode()
    try:
        tmp.write_bytes(data)
        os.replace(tmp, path)
    except BaseException:
        tmp.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def fresh_dir(path):
    """Yield an empty directory that becomes path when the block ends well,
    and disappears when it does not. Replaces what was at path."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    tmp, old = (path.with_name(f".{path.name}.{os.getpid()}.{x}")
                for x in ("part", "old"))
    shutil.rmtree(tmp, ignore_errors=True)
    tmp.mkdir()
    try:
        yield tmp
        if path.exists():
            os.replace(path, old)
        os.replace(tmp, path)
    finally:
        if old.exists() and not path.exists():
            os.replace(old, path)   # interrupted between the two
        for d in old, tmp:
            shutil.rmtree(d, ignore_errors=True)


def prune(directory, keep):
    """Remove what is in a directory of the cache and nobody has used for two
    weeks, but not 'keep'. Who uses something there touches it: another clone
    may be the only one that still needs it."""
    for p in directory.iterdir():
        # another run may be faster
        with contextlib.suppress(FileNotFoundError):
            if p == keep or time.time() - p.stat().st_mtime < 14 * 86400:
                continue
            if p.is_dir():
                shutil.rmtree(p, ignore_errors=True)
            else:
                p.unlink()


@contextlib.contextmanager
def locked(name):
    """Hold the cache's lock of that name; two runs of the lab on one cache
    wait for each other where they must."""
    path = cache_dir() / f"lock-{name}"
    with open(path, "w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"   another run of the lab holds {path}; waiting for it")
            _wait_for(f)
        yield


def _wait_for(f):
    """Lock a file that somebody else holds. Only the main thread would be
    interrupted where it waits for it in the kernel; KeyboardInterrupt when the
    lab is ended."""
    while not ending.wait(1):
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    raise KeyboardInterrupt


def digest(*parts):
    """A short content key of strings, bytes, files and directories (names
    and contents, not times)."""
    h = hashlib.sha256()
    for p in parts:
        if isinstance(p, pathlib.Path):
            files = [p] if p.is_file() else sorted(
                q for q in p.rglob("*")
                if q.is_file() and "__pycache__" not in q.parts)
            for q in files:
                h.update(str(q.relative_to(p.parent)).encode() + b"\0")
                h.update(oct(q.stat().st_mode & 0o111).encode())
                h.update(q.read_bytes() + b"\0")
        else:
            h.update(p if isinstance(p, bytes) else str(p).encode())
            h.update(b"\0")
    return h.hexdigest()[:16]


# ---- processes ----------------------------------------------------------

class Log:
    """A file that gets the output of a program as it comes. When that fails,
    on a full disk say, .error has the reason and the rest is left out: who
    reads the output must go on, or the program would wait for good."""

    def __init__(self, path, mode):
        self.error = None
        self._file = open(path, mode)

    def write(self, data):
        if not self.error:
            try:
                self._file.write(data)
                self._file.flush()
            except (OSError, ValueError) as e:      # closed: ValueError
                self.error = e

    def close(self):
        with contextlib.suppress(OSError):  # of what it could not write
            self._file.close()


_children = set()
ending = threading.Event()      # what fails from then on says nothing


def end_group(proc):
    """End a process that the lab started, with its children."""
    for sig, wait in ((signal.SIGTERM, 3), (signal.SIGKILL, 10)):
        if proc.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(proc.pid, sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            proc.wait(wait)
    _children.discard(proc)


def end_children():
    """End whatever run() and start() left behind; used at exit."""
    ending.set()
    for p in list(_children):
        end_group(p)


def start(cmd, **kw):
    """Popen in a process group of its own, ended when the lab ends, however
    it ends."""
    kw.setdefault("start_new_session", True)
    if shutil.which("setpriv"):
        cmd = ["setpriv", "--pdeathsig", "TERM", "--", *cmd]
    p = subprocess.Popen([str(c) for c in cmd], **kw)
    _children.add(p)
    return p


def run(cmd, *, cwd=None, env=None, log=None, heartbeat=None, check=True,
        stdin=None, limit=None):
    """Run a command to its end and return (status, output).

    log: a file that gets the output as it comes. heartbeat: called every
    30 s with the seconds gone; what it returns is shown. check: raise
    LabError with the last lines when the status is not 0. limit: seconds,
    then the command is ended and TimeoutError raised."""
    e = dict(os.environ)
    # what 'make VAR=… -jN' hands down is not for the makes started here
    for k in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"):
        e.pop(k, None)
    e.update(env or {})
    if not shutil.which(str(cmd[0])):
        raise HostError(f"there is no program {cmd[0]}; run 'make deps'")
    logf = Log(log, "ab") if log else None
    p = start(cmd, cwd=cwd, env=e, stdin=stdin or subprocess.DEVNULL,
              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out = []

    def reader():
        for line in p.stdout:
            out.append(line)
            if logf:
                logf.write(line)

    t = threading.Thread(target=reader, daemon=True)
    t.start()
    t0 = time.monotonic()
    try:
        while True:
            try:
                left = limit - (time.monotonic() - t0) if limit else 30
                p.wait(max(0.1, min(30, left)))
                break
            except subprocess.TimeoutExpired:
                if limit and time.monotonic() - t0 >= limit:
                    raise TimeoutError(str(cmd[0])) from None
                if heartbeat:
                    gone = time.monotonic() - t0
                    say(f"   … {human(gone)}  {heartbeat(gone) or ''}".rstrip())
        t.join(5)
    finally:
        end_group(p)
        if logf:
            logf.close()
    if logf and logf.error:
        disk_full(str(logf.error), "the log", log)
        raise LabError(f"cannot write {log}: {logf.error}")
    text = b"".join(out).decode(errors="replace")
    if check and p.returncode:
        tail = "\n".join("   | " + x for x in text.splitlines()[-15:])
        disk_full(text, f"'{cmd[0]}'", cwd or cache_dir())
        say(tail)
        where = f"; the log is {log}" if log else ""
        raise LabError(f"'{' '.join(map(str, cmd[:6]))}' failed with "
                       f"status {p.returncode}{where}")
    return p.returncode, text


def apt(what, suite, *cmd):
    """(status, output) of an apt command on Debian's index of a suite, for
    amd64, in cache/apt-WHAT/SUITE, where a download is left: nothing of the
    host's own configuration but its mirror is used."""
    d = apt_dir(what, suite)
    return run([APT, d, "amd64", suite, "--", *cmd], cwd=d, check=False,
               env={"PRIVATE_STATUS": "empty"})


def apt_dir(what, suite):
    """That directory."""
    d = cache_dir() / f"apt-{what}" / suite
    d.mkdir(parents=True, exist_ok=True)
    return d


def install(*sets):
    """Have bootstrap.sh install sets of packages, where that is allowed;
    HostError says what a user may do where it is not."""
    p = subprocess.run(["sh", TOP / "lab" / "bootstrap.sh", *sets], text=True,
                       capture_output=True)
    said = p.stderr.strip().splitlines()
    if p.returncode:
        raise HostError((said or ["bootstrap.sh failed"])[-1]
                        .removeprefix("error: "))
    for line in said:
        say(line)


@functools.cache
def need_packages(arch):
    """Have the packages installed that only this architecture needs."""
    if sets := ARCHES[arch].get("packages"):
        install(sets)


def git(*args, cwd=None, check=True, env=None, stdin=None):
    """Run git and return what it printed; raises LabError when it fails and
    check is set, otherwise returns None."""
    e = dict(os.environ)
    for k in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        e.pop(k, None)
    e.update(env or {})
    p = subprocess.run(["git", *map(str, args)], cwd=cwd, env=e,
                       stdin=stdin or subprocess.DEVNULL, text=True,
                       errors="replace", capture_output=True)
    if p.returncode:
        if not check:
            return None
        disk_full(p.stderr, f"git {args[0]}", cwd or ".")
        msg = (p.stderr or p.stdout).strip().splitlines()
        raise LabError(f"'git {' '.join(map(str, args[:4]))}' failed in "
                       f"{cwd or '.'}: {msg[-1] if msg else p.returncode}")
    return p.stdout
