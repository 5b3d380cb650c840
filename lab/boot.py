# SPDX-License-Identifier: GPL-2.0
"""Boot a guest, run a job in it, watch its console."""

import asyncio
import base64
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time

from . import console, guest, vm
from .common import (LabError, Log, OUT, end_children, end_group, say,
                     start)

# after a splat the guest has this long to print the rest of it
_AFTER_SPLAT = 5


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
        except BaseException:
            for t in todo:
                t.cancel()
            # more than once: some may only be about to start a guest
            end_children()
            while concurrent.futures.wait(todo, 1).not_done:
                end_children()
            raise


class BootFailed(LabError):
    """The guest crashed, complained, hung or did not finish its job. .result
    is the Result."""

    def __init__(self, message, result):
        super().__init__(message)
        self.result = result


class Result:
    """What one boot gave: records (list of dict, in order), console (text),
    seconds (host wall time), files (name -> bytes), status (the job's exit
    status, None if it did not end)."""

    def __init__(self):
        self.records = []
        self.console = ""
        self.console_path = None
        self.seconds = 0.0
        self.files = {}
        self.status = None
        self.splats = []
        self.timed_out = False

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


def _profile(image):
    """The profile of a kernel image, which decides what guest it gets."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return json.loads((image / "meta.json").read_text())["profile"]
    return ""


def run_job(m, image, job, *, name, append="", limit=300, host=None,
            fail_on_splat=True, expect_crash=False, expected=""):
    """Boot machine m with a kernel image directory, run the bash text 'job'
    in it and return a Result.

    limit: seconds of host time, then the guest is ended. host: a function
    called in a thread with (Qmp, read_records) once QEMU runs. expected: a
    pattern of console lines that are no splat here. Raises
    BootFailed for a splat, a hang, or a job that did not reach its end;
    a job's own non-zero status is left to the caller (Result.status)."""
    vm.qemu_version(m.arch)
    root, lab = guest.rootfs(m.arch, _profile(image)), guest.lab_disk(m.arch)
    logdir = OUT / "console"
    logdir.mkdir(parents=True, exist_ok=True)
    con_path = logdir / f"{name}.log"
    result = Result()
    result.console_path = con_path
    with tempfile.TemporaryDirectory(prefix="cpuhp-") as tmp:
        tmp = pathlib.Path(tmp)
        text = job.encode()
        (tmp / "job").write_bytes(text + b"\n" * (4096 - len(text) % 4096))
        rec = tmp / "results"
        rec.touch()
        cmd = vm.command(m, image / "kernel", root, lab, tmp / "job",
                              rec, tmp / "qmp", append)
        t0 = time.monotonic()
        log = Log(con_path, "wb")
        p = start(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                  stderr=subprocess.STDOUT)
        chunks, bad_at = [], [None]

        def reader():
            tail = b""
            while True:
                data = os.read(p.stdout.fileno(), 65536)
                if not data:
                    break
                chunks.append(data)
                log.write(data)
                lines = (tail + data).split(b"\n")
                tail = lines.pop()
                for line in lines:
                    text = line.decode(errors="replace")
                    if bad_at[0] is None and console.is_bad(text) and not (
                            expected and re.search(expected, text)):
                        bad_at[0] = time.monotonic()

        t = threading.Thread(target=reader, daemon=True)
        t.start()
        host_thread, host_error = None, []
        if host:
            def host_main():
                for _ in range(100):
                    if (tmp / "qmp").exists() or p.poll() is not None:
                        break
                    time.sleep(0.1)

                def records():
                    r = Result()
                    _read_records(rec, r)
                    return r.records
                try:
                    with contextlib.closing(Qmp(tmp / "qmp")) as q:
                        host(q, records)
                except BaseException as e:
                    host_error.append(e)
            host_thread = threading.Thread(target=host_main, daemon=True)
            host_thread.start()
        try:
            while p.poll() is None:
                now = time.monotonic()
                if now - t0 > limit:
                    result.timed_out = True
                    break
                if host_error:      # the job may wait for its host side
                    raise host_error[0]
                if bad_at[0] and fail_on_splat and \
                        now - bad_at[0] > _AFTER_SPLAT:
                    break
                if not vm.MACHINES[m.type]["off"] and \
                        b'"end"' in rec.read_bytes():
                    break           # its poweroff hangs: end it from outside
                time.sleep(0.05)
        finally:
            end_group(p)
            t.join(5)
            log.close()
            result.seconds = time.monotonic() - t0
            if host_thread:
                host_thread.join(15)
        result.console = b"".join(chunks).decode(errors="replace")
        _read_records(rec, result)
    result.splats = console.splats("".join(
        x for x in result.console.splitlines(True)
        if not (expected and re.search(expected, x))))
    where = f"console: {con_path}"
    if log.error:
        where += f", which is not whole: {log.error}"
    for r in result.of("error"):
        raise BootFailed(f"{name}: the job says: {r['message']}", result)
    if result.splats and fail_on_splat:
        if not expect_crash:
            for s in result.splats:
                say("\n".join("   | " + x for x in s))
        raise BootFailed(f"{name}: the kernel complained: "
                         f"{_headline(result.splats[0])}; {where}", result)
    if result.status is None or result.timed_out:
        last = "\n".join("   | " + x for x in
                         result.console.replace("\r", "").splitlines()[-10:])
        if not expect_crash:
            say(last)
        why = (f"hung: not finished after {limit} s" if result.timed_out else
               f"ended early (QEMU status {p.returncode})")
        raise BootFailed(f"{name}: the guest {why}; {where}", result)
    if host_error:
        raise host_error[0]
    if log.error:
        raise BootFailed(f"{name}: {where}", result)
    return result


def _headline(splat):
    for line in splat:
        if console.is_bad(line) and "=====" not in line:
            return line.strip()[:120]
    return next(x for x in splat if console.is_bad(x)).strip()[:120]


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
