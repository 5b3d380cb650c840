# SPDX-License-Identifier: GPL-2.0
"""bootstrap.sh on a machine that has next to nothing."""

import subprocess
import sys

import pytest

from conftest import TOP
from lab import common
from lab.common import LabError


@pytest.fixture
def fresh(tmp_path):
    """bootstrap.sh on a machine that has next to nothing: call it with the
    programs that it has besides, {name: shell text}."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for tool in ("sh", "sed", "grep", "cut", "cat", "dirname", "mkdir", "df",
                 "uname", "tail", "sha256sum", "printf", "tr", "rm", "touch"):
        (bin / tool).symlink_to(subprocess.check_output(
            ["sh", "-c", f"command -v {tool} || echo /bin/{tool}"],
            text=True).strip())

    def bootstrap(programs, *sets, **env):
        for tool, text in {"flock": "exit 0", **programs}.items():
            f = bin / tool
            f.write_text(f"#!/bin/sh\n{text}\n")
            f.chmod(0o755)
        return subprocess.run(
            ["sh", str(TOP / "lab" / "bootstrap.sh"), *sets], text=True,
            env={"PATH": str(bin), "HOME": str(tmp_path),
                 "CPUHP_CACHE": str(tmp_path / "c"), **env},
            capture_output=True)
    return bootstrap


def test_no_root_and_no_sudo_names_the_packages(fresh):
    r = fresh({"dpkg-query": "exit 1", "id": "echo 1000"})
    assert r.returncode == 1
    assert "neither root nor sudo" in r.stderr
    assert "apt-get install -y --no-install-recommends acpica-tools arch-test" in r.stderr


def test_an_old_qemu_is_named(fresh):
    old = "echo 'QEMU emulator version 7.2.13 (Debian)'"
    r = fresh({"qemu-system-x86_64": old, "qemu-system-ppc64": old},
              CPUHP_NO_DEPS="1")
    assert r.returncode == 1
    assert "qemu-system-ppc64 is version 7, 10 or newer is needed" in r.stderr
    assert "backports" in r.stderr


def test_without_pip_nothing_half_made_is_used(fresh, tmp_path):
    qemu = "echo 'QEMU emulator version 10.0.2'"
    r = fresh({"qemu-system-x86_64": qemu, "qemu-system-ppc64": qemu,
               "python3": f'exec {sys._base_executable} "$@"'},
              CPUHP_NO_DEPS="1", PIP_INDEX_URL="http://127.0.0.1:9/",
              PIP_RETRIES="0", PIP_NO_CACHE_DIR="1")
    assert r.returncode == 1
    assert "pip could not install" in r.stderr and "index" in r.stderr
    assert not list((tmp_path / "c").glob("venv-*"))


@pytest.mark.parametrize("set, says", [
    ("foreign", "gcc-riscv64-linux-gnu"), ("scx", "clang-19 llvm-19 dwarves"),
    ("cross", "gcc-aarch64-linux-gnu gcc-arm-linux-gnueabihf")])
def test_other_sets_are_needed_even_if_none_may_be_installed(fresh, set, says):
    r = fresh({"dpkg-query": "exit 1", "id": "echo 0"}, set, CPUHP_NO_DEPS="1")
    assert r.returncode == 1 and r.stderr.count("\n") == 1
    assert f"apt-get install -y --no-install-recommends {says}" in r.stderr


def test_a_set_that_is_there_changes_nothing(fresh):
    qemu = "echo 'QEMU emulator version 10.0.2'"
    for set in "scx", "cross", "foreign":
        r = fresh({"dpkg-query": "echo install ok installed", "id": "echo 1",
                   "qemu-system-riscv64": qemu, "apt-get": "exit 9"}, set)
        assert (r.returncode, r.stdout, r.stderr) == (0, "", "")


def test_an_old_qemu_is_named_with_what_installs_another(fresh):
    old = "echo 'QEMU emulator version 7.2.13 (Debian)'"
    r = fresh({"dpkg-query": "echo install ok installed", "id": "echo 1",
               "dpkg": "echo amd64", "qemu-system-riscv64": old}, "foreign")
    assert r.returncode == 1 and "apt-private.sh" in r.stderr
    assert "qemu-system-riscv opensbi" in r.stderr


def test_who_waits_for_another_run_is_told(fresh):
    r = fresh({"flock": '[ "$1" != -n ]'}, "vax", CPUHP_NO_DEPS="1")
    assert r.stderr.startswith("   another run of the lab holds ")
    assert "waiting for it\nerror: unknown set" in r.stderr


def test_what_is_no_set_is_an_error(fresh):
    r = fresh({}, "vax", CPUHP_NO_DEPS="1")
    assert "unknown set 'vax'; use some of: base" in r.stderr


@pytest.mark.parametrize("status, says", [(1, "no network"), (0, "")])
def test_why_packages_were_not_installed_is_told(monkeypatch, status, says):
    monkeypatch.setattr(common.subprocess, "run", lambda cmd, **kw:
                        subprocess.CompletedProcess(
                            cmd, status, "", f"== packages\nerror: {says}\n"))
    if status:
        with pytest.raises(LabError, match="^no network$"):
            common.install("scx")
    else:
        common.install("scx")
