# SPDX-License-Identifier: GPL-2.0
"""What 'make test' prints and counts."""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import pytest

from conftest import TOP
from lab import check
from lab.common import LabError
from lab.report import Report

TESTS = """
import pytest
from lab.common import LabError
from lab.report import left_out

@pytest.mark.parametrize("boot", ["x86", "power"])
def test_case(rep, boot):
    rep.add(f"{boot}: ends", True)
    rep.add(f"{boot}: is fine", boot == "x86", "3 CPUs, not 4")

def test_own():
    assert 1 == 1

def test_wrong():
    print("said before")
    assert 1 == 2

def test_for_users():
    raise LabError("no disk; run 'make disk'")

def test_skips():
    pytest.skip("no wish")

def test_has_no_time():
    left_out("takes 9 min")
"""
LINES = """pass  x86: ends
pass  x86: is fine
pass  power: ends
FAIL  power: is fine
      3 CPUs, not 4
pass  lab: test_guest: test_own
FAIL  lab: test_guest: test_for_users
      no disk; run 'make disk'
FAIL  lab: test_guest: test_skips
      skipped: no wish
left out  lab: test_guest: test_has_no_time
      takes 9 min
"""


@pytest.fixture
def session(tmp_path, monkeypatch, capfd):
    """check.session() of a project with one file of tests; the Report and what
    was printed."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "lab").symlink_to(TOP / "lab")
    (tmp_path / "pytest.ini").write_text((TOP / "pytest.ini").read_text())
    monkeypatch.setattr(check, "OUT", tmp_path / "out")
    monkeypatch.setattr(check, "TOP", tmp_path)

    def run(text, **kw):
        (tmp_path / "tests" / "test_guest.py").write_text(text)
        sums = Report()
        check.session(sums, "some", "lab", **kw)
        return sums, capfd.readouterr().out
    return run


@pytest.mark.parametrize("workers", [1, 2])
def test_each_result_is_told_and_counted(session, tmp_path, workers):
    sums, said = session(TESTS, workers=workers)
    assert (sums.passed, sums.failed) == (4, 4)
    blocks = re.findall(r"^\S.*\n(?: .*\n)*", said, re.M)
    wrong = [x for x in blocks if "test_wrong" in x]
    assert len(wrong) == 1 and "assert 1 == 2" in wrong[0] and \
        "said before" in wrong[0]
    rest = [x for x in blocks if x not in wrong]
    want = re.findall(r"^\S.*\n(?: .*\n)*", LINES, re.M)
    assert rest == want if workers == 1 else sorted(rest) == sorted(want)
    # and in junit, with its name
    xml = ET.parse(tmp_path / "out" / "some.xml").getroot()
    bad = {c.get("name") for c in xml.iter("testcase") if len(c)}
    assert {"power: is fine", "test_wrong", "test_skips"} < bad
    assert "x86: is fine" in {c.get("name") for c in xml.iter("testcase")}


def test_names_choose(session):
    assert session(TESTS, k="own or power")[0].passed == 2
    sums, _ = session(TESTS, k="nothing_like_it")
    assert (sums.passed, sums.failed) == (0, 0)


@pytest.mark.parametrize("text, says", [
    ("import nothing_of_that_name", "nothing_of_that_name"),
    ("def test_x(nix): pass", "fixture 'nix' not found"),
    ("import os\ndef test_x(): os._exit(9)", "it ended with 9")])
def test_what_can_not_be_run_is_a_failure(session, text, says):
    sums, said = session(text)
    assert sums.failed == 1 and says in said


@pytest.mark.parametrize("workers", [0, 2])
def test_names_that_are_none_are_told(session, workers):
    with pytest.raises(LabError, match="takes no K='a b'"):
        session(TESTS, k="a b", workers=workers)


def test_a_hang_is_ended(session):
    sums, said = session("import time\ndef test_x(): time.sleep(60)", limit=3)
    assert sums.failed == 1 and "not done in 3 s" in said


def test_without_any_test_it_fails(capsys):
    assert Report().finish() == 1
    assert "0 passed, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize("good, status, says", [
    (True, 0, "2 passed, 0 failed"), (False, 1, "1 passed, 1 failed")])
def test_one_failure_makes_the_whole_run_fail(capsys, good, status, says):
    rep = Report()
    rep.add("fine", True)
    rep.add("the other", good, "why")
    assert rep.finish() == status
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == says
    assert ("FAIL  the other\n      why\n" in out) != good


def test_long_names_are_wrapped(capsys):
    name = " ".join(["q35-8-acpi-cpufreq:", *["name"] * 30])
    Report().add(name, True)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert " ".join(out.split()) == f"pass {name}"


@pytest.mark.parametrize("left, why", [(55 * 60, ""), (15 * 60, "12 min")])
def test_the_second_debug_kernel_is_left_out_when_it_takes_too_long(
        monkeypatch, left, why):
    monkeypatch.setattr(check, "usual", lambda what, default: 600)
    said = check.no_time("ppc64le", left)
    assert why in said and bool(said) == bool(why)


@pytest.mark.parametrize("left, there, why", [
    (13 * 60, False, ""), (5 * 60, False, "12 min"), (60, True, "")])
def test_the_kernel_for_arm64_is_left_out_when_there_is_no_time(
        monkeypatch, left, there, why):
    monkeypatch.setattr(check, "usual", lambda what, default: 600)
    monkeypatch.setattr(check.shutil, "which", lambda cc: there and cc)
    monkeypatch.setattr(check.kernels, "is_built", lambda *what: there)
    said = check.no_time_for_arm64(left)
    assert why in said and bool(said) == bool(why)


def test_parts_and_their_time(monkeypatch, tmp_path, capsys):
    """What 'make test' has is what it had; single patches get what is left."""
    ran, clock = [], [0]
    monkeypatch.setenv("CPUHP_CACHE", str(tmp_path))
    monkeypatch.setattr(check.series, "make_tree", lambda linux: None)
    monkeypatch.setattr(check.series, "check_tree", lambda: None)
    monkeypatch.setattr(check.time, "monotonic", lambda: clock[0])

    def session(sums, name, marks, **kw):
        ran.append((name, kw))
        sums.passed += 1
        clock[0] += {"test-builds": took, "test-boots": 600}.get(name, 0)
    monkeypatch.setattr(check, "session", session)
    args = argparse.Namespace(k="", arch="", linux="", full=False)
    for took, full, want in ((60, False, 14.25 * 60 - 660),
                             (1200, False, 900), (60, True, 900)):
        args.full = full
        ran.clear()
        clock[0] = 0
        assert check.main(args) == 0
        assert [n for n, _ in ran] == ["test-builds", "test-boots",
                                       "test-each"]
        assert ran[0][1]["budget"] == 55 * 60
        assert ran[2][1]["budget"] == round(want)
    assert capsys.readouterr().out.endswith("3 passed, 0 failed\n")


def test_ctrl_c_ends_guests(tmp_path):
    """A worker that has a guest is interrupted: it ends that and leaves no
    file behind."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "lab").symlink_to(TOP / "lab")
    (tmp_path / "pytest.ini").write_text((TOP / "pytest.ini").read_text())
    (tmp_path / "tests" / "test_x.py").write_text(f"""
from lab import common
def test_x():
    with common.fresh_dir({str(tmp_path / "made")!r}) as d:
        common.run(["sh", "-c", "echo $$ > {tmp_path}/pid; exec sleep 99"])
def test_y():
    pass
""")
    p = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "tests"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True)
    for _ in range(300):
        if (tmp_path / "pid").exists():
            break
        time.sleep(0.1)
    os.killpg(p.pid, signal.SIGTERM)
    p.communicate(timeout=20)
    pid = (tmp_path / "pid").read_text().strip()
    for _ in range(50):
        if not os.path.exists(f"/proc/{pid}"):
            break
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{pid}")
    assert not list(tmp_path.glob(".made*"))
