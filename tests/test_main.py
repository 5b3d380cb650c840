# SPDX-License-Identifier: GPL-2.0
"""The command line and the Makefile, as a user meets them."""

import argparse
import os
import re
import subprocess
import sys

import pytest

from conftest import TOP
from lab import __main__ as main
from lab import boot, kernels, vm
from lab.common import LabError


def lab(*args, **env):
    """The lab's command line as a user would meet it."""
    return subprocess.run([sys.executable, "-m", "lab", *args], cwd=TOP,
                          env={**os.environ, **env}, text=True,
                          capture_output=True)


@pytest.mark.parametrize("args, says", [
    (("kernels", "--arch", "s390x"), "unknown ARCH 's390x'"),
    (("bisect-check", "--arch", "s390x"), "unknown ARCH 's390x'"),
    (("run", "/does/not/exist"), "JOB=/does/not/exist"),
    (("run", sys.executable), "it is no text"),
    (("kernels", "--profile", "rt", "--arch", "ppc64le"), "x86_64 only"),
    (("kernels", "--profile", "kcsan", "--arch", "ppc64le"), "x86_64 only"),
    (("kernels", "--profile", "kcsan"), "give ARCH=x86_64"),
    (("kernels", "--profile", "fast"), "unknown PROFILE"),
    (("kernels", "--profile", "debug+"), "unknown PROFILE 'debug+'"),
    (("kernels", "--profile", "debug+debug"), "unknown PROFILE"),
    (("shell", "--cpus", "7"), "does not fit"),
    (("shell", "--arch", "x86_64", "--machine", "pseries"), "not x86_64"),
    (("bench", "--scenario", "nix"), "no SCENARIO"),
    (("bench", "--scenario", "huge"), "needs CPUS="),
    (("shell", "--variant", "best"), "unknown VARIANT"),
    (("tree", "--linux", "/does/not/exist"), "does not exist"),
    (("test", "--arch", "s390x"), "unknown ARCH 's390x'"),
    (("machines", "--arch", "s390x"), "unknown ARCH 's390x'"),
    (("machines", "--record", "--cycles", "9"), "run it without CYCLES="),
    (("machines", "--cycles", "x"), "CYCLES=x: a number above 0"),
    (("guest", "--arch", "s390x"), "unknown ARCH 's390x'"),
    (("hwtest", "--arch", "arm64"), "there is no kit for arm64"),
    (("hwtest-check", "--arch", "arm64"), "there is no kit for arm64"),
    (("hwreport", ""), "FILE= is needed"),
    (("torture", "--minutes", "0"), "MINUTES=0: a number above 0"),
    (("torture", "--profile", "fast"), "unknown PROFILE"),
    (("bisect-check", "--part", "nix"), "there is no part 'nix'"),
    (("record", "--limit", "x"), "LIMIT=x: a number above 0"),
    (("insns", "--accel", "mttcg"), "counts in icount only"),
    (("insns", "--what", "rebuild", "--cpus", "7"), "WHAT=rebuild has"),
    (("run", "x", "--vars", "A='x"), "VARS=A='x: No closing quotation"),
    (("run", "x", "--vars", "A=1 2B=3"), "'2B=3' sets no variable"),
    (("run", "x", "--disk", "swap"), "DISK=swap: a serial number, '='"),
    (("run", "x", "--disk", "/tmp/x=5"), "serial number is a letter and"),
    (("run", "x", "--disk", "job=5"), "there is a disk 'job' already"),
    (("run", "x", "--disk", "a=5 a=6"), "there is a disk 'a' already"),
    (("run", "x", "--disk", "a=/does/not/exist"), "DISK=a=/does/not/exist: No "),
    (("run", "x", "--disk", "a=\u00b2"), "DISK=a=\u00b2: No such file"),
    (("run", "x", "--disk", "a=/tmp"), "DISK=a=/tmp: Is a directory")])
def test_bad_input_is_one_line(args, says, tmp_path):
    """Before the source or anything else is looked for."""
    r = lab(*args, CPUHP_CACHE=str(tmp_path))
    assert {p.name for p in tmp_path.iterdir()} <= {"lock-source"}
    lines = [x for x in r.stderr.splitlines() if x.startswith("error: ")]
    assert r.returncode == 1 and len(lines) == 1 and says in lines[0]
    assert "Traceback" not in r.stderr


@pytest.mark.parametrize("error, says", [
    ("13, 'Permission denied', '/x'", "error: /x: Permission denied"),
    ("122, 'Disk quota exceeded', '/x'", "error: the disk is full (/x); "),
    ("28, 'No space left on device'", "error: the disk is full ([Errno 28] "),
    ("'a bug'", "Traceback")])
def test_a_file_that_makes_trouble_is_named(error, says):
    code = ("import runpy; from lab import common\n"
            f"def check_arch(arch): raise OSError({error})\n"
            "common.check_arch = check_arch\n"
            "runpy.run_module('lab', run_name='__main__')")
    r = subprocess.run([sys.executable, "-c", code, "run", "x"], cwd=TOP,
                       text=True, capture_output=True)
    assert r.returncode == 1 and r.stderr.startswith(says)


def test_who_runs_into_the_limit_is_told_of_it(monkeypatch, guest_vm, tmp_path,
                                               capsys):
    script = ["""echo '{"t": "n"}' >> $rec; sleep 60"""]
    monkeypatch.setattr(main, "_tree", lambda a: None)
    monkeypatch.setattr(kernels, "build", lambda *a: tmp_path)
    monkeypatch.setattr(vm, "command", lambda *a: [
        "sh", "-c", f"rec={a[5]}; {script[0]}"])
    args = argparse.Namespace(
        arch="", profile="", machine="", cpus="", threads="", nodes="",
        accel="icount", variant="patched", append="", limit="1",
        job="/dev/null", disk="", vars="")
    with pytest.raises(boot.BootFailed,
                       match="after 1 s.*; LIMIT= gives it more"):
        main.cmd_run(args)
    assert capsys.readouterr().out == '{"t": "n"}\n'
    script[0] = """echo '{"t": "m"}' >> $rec"""
    with pytest.raises(boot.BootFailed) as e:
        main.cmd_run(args)
    assert "LIMIT" not in str(e.value)
    assert capsys.readouterr().out == '{"t": "m"}\n'
    args.limit = "-1"
    with pytest.raises(LabError, match="LIMIT=-1: a number above 0"):
        main.cmd_run(args)


def test_a_reader_that_goes_away_is_no_error():
    r = subprocess.run(
        ["bash", "-c", '"$0" -c "$1" patches | true; echo ${PIPESTATUS[0]}',
         sys.executable, "import runpy; from lab import common\n"
         "common.check_port = lambda cmd: print('x\\n' * 99999)\n"
         "runpy.run_module('lab', run_name='__main__')"],
        cwd=TOP, text=True, capture_output=True)
    assert (r.stdout, r.stderr) == ("141\n", "")


def make(*args):
    """What make would do, or says."""
    r = subprocess.run(["make", "-n", *args], cwd=TOP, text=True,
                       capture_output=True)
    return r.stdout + r.stderr


def test_a_variable_that_no_target_takes_is_an_error():
    assert "no target takes MINUTE=; 'make help' says" in make(
        "torture", "MINUTE=5")
    for good in (("V=1", "O=/x", "J=4"), ("-j4", "CPUHP_CACHE=/x"),
                 ("SHELL=/bin/bash", "https_proxy=x", "VARS=A=1 NIX=2")):
        assert " -m lab run " in make("run", "JOB=x", *good)


def test_a_value_may_have_any_character(tmp_path):
    """What the shell of a recipe makes of it."""
    line = make("run", "JOB=it's", "VARS=A='x y' B=\"1\"", "APPEND=a,b;c")
    args = line.replace("\\\n", " ").partition(" -m lab ")[2]
    said = subprocess.run(["bash", "-c", f"printf '%s\\n' {args}"], text=True,
                          capture_output=True).stdout
    assert said.splitlines() == ["run", "--append", "a,b;c", "--vars",
                                 "A='x y' B=\"1\"", "it's"]


def test_every_entry_of_the_makefile_is_in_its_help():
    text = (TOP / "Makefile").read_text()
    phony = text.split(".PHONY:")[1].split("help:")[0]
    help_ = subprocess.run(["make", "-s", "help"], cwd=TOP, text=True,
                           capture_output=True).stdout
    for target in phony.replace("\\", " ").split():
        if target != "help":
            assert f"make {target} " in help_
    given = re.search(r"(?m)^GIVEN = ((?:.*\\\n)*.*)", text)[1]
    given = set(given.replace("\\", " ").split())
    assert given == {"PORT"} | set(re.findall(
        r"\$\((?:call opt,|if \$\(|call quoted,\$\()([A-Z]+)[,)]", text))
    for variable in given:
        assert f"{variable}=" in help_
    assert max(map(len, help_.splitlines())) <= 80
