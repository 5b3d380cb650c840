# SPDX-License-Identifier: GPL-2.0
"""Boot a guest, run a job in it, watch its console."""

import asyncio
import base64
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import threading
import time

from . import common, console, guest, vm
from .common import LabError, Log, OUT, TOP, end_children, end_group, say, start

JOBS = TOP / "guest" / "jobs"
# after a splat the guest has this long to print the rest of it
_AFTER_SPLAT = 5
_SECTORS = 4096


def assign(given):
    """Bash text that sets variables."""
    return "".join(f"{k}={shlex.quote(str(v))}\n" for k, v in given.items())


def job(names, **given):
    """The text of a job: variables, then files of guest/jobs ('a b': first a,
    then b, in one shell)."""
    return assign(given) + "".join(
        (JOBS / f"{n}.sh").read_text() for n in names.split())


def side_by_side(func, calls, workers):
    """Call func with each tuple of arguments in calls, so many at a time, and
    return the results in order. When one raises, or Ctrl-C comes, what has
    not begun is dropped, the guests are ended and the exception is raised."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        todo = [pool.submit(func, *c) for c in calls]
        try:
            done, _ = concurrent.futures.wait(
                todo, return_when=concurrent.futures.FIRST_EXCEPTION)
            for t in done:
                t.result()
            return [t.result() for t in todo]
        except BaseException as e:
            for t in todo:
                t.cancel()
            # more than once: some may only be about to start a guest
            end_children()
            while concurrent.futures.wait(todo, 1).not_done:
                end_children()
            if not isinstance(e, KeyboardInterrupt):
                common.ending.clear()       # who called may go on
            raise


class BootFailed(LabError):
    """The guest crashed, complained, hung or did not finish its job. .result
    is the Result."""

    def __init__(self, message, result):
        super().__init__(message)
        self.result = result

    def lines(self):
        """What the console says about it: the splats, else its last lines."""
        out = self.result.splats or [
            self.result.console.replace("\r", "").splitlines()[-10:]]
        return ["   | " + x for s in out for x in s]


class Result:
    """What one boot gave: records (list of dict, in order), console (text),
    seconds (host wall time), files (name -> bytes), status (the job's exit
    status, None if it did not end), log_error (why the console's file is not
    whole, or None)."""

    def __init__(self):
        self.records = []
        self.console = ""
        self.console_path = None
        self.seconds = 0.0
        self.files = {}
        self.status = None
        self.splats = []
        self.timed_out = False
        self.log_error = None

    def of(self, kind):
        """The records of a type."""
        return [r for r in self.records if r["t"] == kind]

    def output(self):
        """What the job printed."""
        return self.files.get("output", b"").decode(errors="replace")


def _read_records(path, result):
    with contextlib.suppress(OSError):
        for line in pathlib.Path(path).read_text(errors="replace").splitlines():
            # what is no record, or half of one
            with contextlib.suppress(ValueError, TypeError, LookupError):
                r = json.loads(line)
                if r["t"] == "file":
                    result.files[r["name"]] = base64.b64decode(r["base64"])
                else:
                    result.records.append(r)
                if r["t"] == "end":
                    result.status = int(r["status"])


class Qmp:
    """A QMP session with a running guest, for use in a job's host side:
    q.execute('device_add', {...}). Raises LabError when QEMU refuses."""

    def __init__(self, path):
        from qemu.qmp import ConnectError, QMPClient
        self._loop = asyncio.new_event_loop()
        self._c = QMPClient("lab")
        try:
            self._loop.run_until_complete(self._c.connect(str(path)))
        except ConnectError as e:
            self.close()
            raise LabError(f"QEMU does not answer at {path}: {e}") from None

    def execute(self, cmd, args=None):
        from qemu.qmp import ExecuteError
        try:
            return self._loop.run_until_complete(self._c.execute(cmd, args))
        except ExecuteError as e:
            raise LabError(f"QEMU refuses {cmd} {args}: {e}") from None

    def close(self):
        with contextlib.suppress(Exception):
            self._loop.run_until_complete(self._c.disconnect())
        self._loop.close()


def halted_at_doorbell(registers):
    """The CPUs (a set of numbers) that QEMU 10.0's pseries machine has halted
    on the first instruction of the doorbell's vector, interrupts off, by the
    monitor's "info registers -a": docs/lab.md. A CPU that only passes
    there looks the same for one moment."""
    return {int(cpu) for nip, cpu, msr in re.findall(
        r"^NIP (\w+) .* CPU#(\d+)\s+MSR (\w+)", registers, re.M)
        if int(nip, 16) == 0xc000000000004a00 and not int(msr, 16) & 0x8000}


def _profile(image):
    """The profile of a kernel image, which decides what guest it gets."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return json.loads((image / "meta.json").read_text())["profile"]
    return ""


class Guest:
    """QEMU with a job for the guest, its console and its records in files of
    the directory tmp. Who has start()ed one end()s it."""

    def __init__(self, m, image, job, name, tmp, append, splats):
        self.tmp, self.splats = tmp, splats
        self.result = Result()
        self.result.console_path = OUT / "console" / f"{name}.log"
        self.host_error = None
        self._ends_by_itself = vm.MACHINES[m.type]["off"]
        self._records, self._qmp = tmp / "results", tmp / "qmp"
        self._records.touch()
        self._bad_at, self._chunks, self._threads = None, [], []
        self._cedes = m.arch == "ppc64le" and m.accel == "mttcg"
        # its driver takes ^O and a letter for SysRq
        self._sysrq = vm.MACHINES[m.type]["console"] == "hvc0"
        self._halted = set()
        self._asked = None          # how long the console was when it was
        given = {"CPUS": m.cpus, "THREADS": m.threads}
        disks = []
        for serial, source, props in m.disks:
            if not isinstance(source, str):
                if not isinstance(source, int):
                    source = image / source     # one of the image, or absolute
                given["SIZE"] = self._disk(tmp / serial, source)
                source = tmp / serial
            disks.append((serial, source, props))
        text = (assign(given) + job).encode()
        (tmp / "job").write_bytes(text + b"\n" * (-len(text) % _SECTORS))
        self._cmd = vm.command(
            dataclasses.replace(m, disks=tuple(disks)), image / "kernel",
            guest.rootfs(m.arch, _profile(image)), guest.lab_disk(m.arch),
            tmp / "job", self._records, self._qmp, append)

    @staticmethod
    def _disk(path, source):
        """Make a disk; the bytes that are in it."""
        with open(path, "wb") as f:
            if isinstance(source, int):
                f.truncate(source)
                return source
            size = f.write(source.read_bytes())
            f.write(b"\0" * (-size % _SECTORS))
            return size

    def start(self, host=None):
        """Begin. host(q, records) is called in a thread once QEMU runs: a Qmp,
        and a function that returns the records so far."""
        self.result.console_path.parent.mkdir(parents=True, exist_ok=True)
        self._log = Log(self.result.console_path, "wb")
        self._began = time.monotonic()
        self._qemu = start(self._cmd, bufsize=0, stdin=subprocess.PIPE
                           if self._sysrq else subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for target, args in ((self._read_console, ()),
                             *([(self._host, (host,))] if host else ())):
            t = threading.Thread(target=target, args=args, daemon=True)
            self._threads.append(t)
            t.start()

    def _read_console(self):
        tail = b""
        while data := os.read(self._qemu.stdout.fileno(), 65536):
            self._chunks.append(data)
            self._log.write(data)
            *lines, tail = (tail + data).split(b"\n")
            if not self._bad_at and any(self.splats.ends(
                    x.decode(errors="replace")) for x in lines):
                self._bad_at = time.monotonic()

    def _host(self, host):
        for _ in range(100):
            if self._qmp.exists() or self._qemu.poll() is not None:
                break
            time.sleep(0.1)
        try:
            with contextlib.closing(Qmp(self._qmp)) as q:
                host(q, self.records)
        except BaseException as e:
            self.host_error = e

    def records(self):
        """Those that there are so far."""
        r = Result()
        _read_records(self._records, r)
        return r.records

    def wait(self, limit):
        """Until the guest ends, or there is a reason to end it: seconds that
        are over, a splat, a poweroff that hangs. Raises what its host side
        raised meanwhile."""
        while self._qemu.poll() is None:
            now = time.monotonic()
            self.result.timed_out = now - self._began > limit
            if self.host_error:     # the job may wait for its host side
                raise self.host_error
            if self._cedes and (self.result.timed_out or self._bad_at):
                self._cedes = False
                self._look()
            if self._sysrq and self.result.timed_out:
                self._ask()
            if self.result.timed_out or (
                    self._bad_at and now - self._bad_at > _AFTER_SPLAT) or (
                    not self._ends_by_itself
                    and b'"end"' in self._records.read_bytes()):
                break
            time.sleep(0.05)

    def _ask(self):
        """Let a guest that hangs say what its tasks are blocked in, and what
        its CPUs do: SysRq w and l. Ten seconds for both."""
        self._asked = len(b"".join(self._chunks))
        for key in b"wl":
            with contextlib.suppress(OSError):
                self._qemu.stdin.write(bytes((0x0f, key)))
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._qemu.wait(5)

    def _look(self):
        """Which CPUs halted_at_doorbell() names, twice a second apart."""
        def look():
            # whatever a QEMU that is being ended makes of it
            with contextlib.suppress(Exception), \
                    contextlib.closing(Qmp(self._qmp)) as q:
                seen = []
                for pause in (1, 0):
                    seen.append(halted_at_doorbell(q.execute(
                        "human-monitor-command",
                        {"command-line": "info registers -a"})))
                    time.sleep(pause)
                self._halted = seen[0] & seen[1]
        # nobody answers where a host side has the monitor, or QEMU hangs
        t = threading.Thread(target=look, daemon=True)
        t.start()
        t.join(10)

    def end(self):
        """End it if need be, and complete the result."""
        end_group(self._qemu)
        self._threads[0].join(5)
        self._log.close()
        self.result.log_error = self._log.error
        self.result.seconds = time.monotonic() - self._began
        for t in self._threads[1:]:
            t.join(15)
        said = b"".join(self._chunks)
        self.result.console = said.decode(errors="replace")
        _read_records(self._records, self.result)
        self.result.splats = self.splats.of(
            said[:self._asked].decode(errors="replace"))

    def check(self, name, limit):
        """Raise BootFailed for the first of all that can be wrong."""
        r, where = self.result, f"console: {self.result.console_path}"
        if self._halted:
            where += (f"; CPU {', '.join(map(str, sorted(self._halted)))}: a "
                      "doorbell came and QEMU left it halted (not the "
                      "kernel's doing, docs/lab.md): run it again")
        if self._log.error:
            where += f", which is not whole: {self._log.error}"
        for x in r.of("error"):
            raise BootFailed(f"{name}: the job says: {x['message']}", r)
        if r.splats:
            raise BootFailed(f"{name}: the kernel complained: "
                             f"{_headline(r.splats[0])}; {where}", r)
        if r.status is None or r.timed_out:
            why = (f"hung: not finished after {limit} s"
                   + (", SysRq w and l at the end of its console"
                      if self._asked is not None else "") if r.timed_out else
                   f"ended early (QEMU status {self._qemu.returncode})")
            raise BootFailed(f"{name}: the guest {why}; {where}", r)
        if self.host_error:
            raise self.host_error
        if self._log.error:
            raise BootFailed(f"{name}: {where}", r)


def run_job(m, image, job, *, name, append="", limit=300, host=None,
            splats=console.Splats()):
    """Boot machine m with a kernel image directory, run the bash text 'job'
    in it (with CPUS, THREADS and, of a disk, SIZE set) and return a Result.

    limit: seconds of host time, then the guest is ended. host: as of
    Guest.start(). Raises BootFailed for a splat, a hang, or a job that did
    not reach its end; a job's own non-zero status is left to the caller
    (Result.status)."""
    vm.qemu_version(m.arch)
    with tempfile.TemporaryDirectory(prefix="cpuhp-") as tmp:
        g = Guest(m, image, job, name, pathlib.Path(tmp), append, splats)
        g.start(host)
        try:
            g.wait(limit)
        finally:
            g.end()
    g.check(name, limit)
    return g.result


def _headline(splat):
    bad = [x.strip() for x in splat if console.is_bad(x)]
    return next((x for x in bad if "=====" not in x),
                (bad or splat)[0])[:120]


def shell(m, image, append=""):
    """The same guest with an interactive console on this terminal."""
    root, lab = guest.rootfs(m.arch, _profile(image)), guest.lab_disk(m.arch)
    with tempfile.TemporaryDirectory(prefix="cpuhp-") as tmp:
        cmd = vm.command(m, image / "kernel", root, lab, None, None,
                              pathlib.Path(tmp) / "qmp", append, shell=True)
        i = cmd.index("-display")
        del cmd[i:i + 2]
        say("   (the guest's 'exit' powers off; ctrl-a x ends it from outside)")
        cmd = ["mon:stdio" if c == "stdio" and cmd[j - 1] == "-serial" else
               c.replace("stdio,id=con,signal=off",
                         "stdio,id=con,mux=on,signal=off")
               for j, c in enumerate(cmd)]
        return subprocess.call([str(c) for c in cmd] + ["-display", "none"])
