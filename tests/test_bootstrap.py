# SPDX-License-Identifier: GPL-2.0
"""bootstrap.sh on a machine that has next to nothing."""

import subprocess
import sys

import pytest

from conftest import TOP


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

    def bootstrap(programs, **env):
        for tool, text in {"flock": "exit 0", **programs}.items():
            f = bin / tool
            f.write_text(f"#!/bin/sh\n{text}\n")
            f.chmod(0o755)
        return subprocess.run(
            ["sh", str(TOP / "lab" / "bootstrap.sh")], text=True,
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
