# SPDX-License-Identifier: GPL-2.0
"""What makes a result stale."""

import subprocess
from pathlib import Path

import pytest

from conftest import sh
from lab import codekey, kernels
from lab.common import LabError


def test_comments_of_c():
    text = '''#define A "/* no */ // no"	/* yes
 * yes's */
	int a; // yes

char c = '"'; /* " */ char d = '\\'';
'''
    assert codekey.without_comments(text) == '''#define A "/* no */ // no"
int a;
char c = '"';   char d = '\\'';'''


@pytest.fixture
def tree(toy, monkeypatch, tmp_path):
    """A base, and what changes it: a function that gives the key then."""
    monkeypatch.setattr(kernels, "LINUX", toy.linux)
    monkeypatch.setattr(codekey, "UNBUILT", tmp_path / "unbuilt.json")
    codekey.UNBUILT.write_text('{"x86_64": {"": ["drivers/a.c"], "debug": []}}')
    codekey.noted.cache_clear()
    toy.linux.mkdir()
    sh("git", "init", "-q", cwd=toy.linux)
    for d in ("drivers", "kernel", "arch/x86/kernel", "arch/powerpc", "Documentation"):
        (toy.linux / d).mkdir(parents=True)
    toy.commit("drivers/a.c", "int a;\n", "base")
    sh("git", "tag", "base", cwd=toy.linux)

    def change(path, text, *of):
        toy.commit(path, text, "change")
        return codekey.key("HEAD", of)
    yield change
    codekey.noted.cache_clear()


PLAIN, DEBUG, PPC = ("x86_64", ""), ("x86_64", "debug"), ("ppc64le", "")


def test_what_is_not_compiled_changes_no_key(tree):
    for path, text, matters in (
            ("Documentation/x.rst", "x", ()),
            ("drivers/a.c", "int b;\n", {DEBUG, PPC}),
            ("drivers/new.c", "int b;\n", {PLAIN, DEBUG, PPC}),
            ("arch/x86/kernel/x.c", "int b;\n", {PLAIN, DEBUG}),
            ("arch/powerpc/x.S", "/* */\n", {PPC}),
            ("arch/Kconfig", "x\n", {PLAIN, DEBUG, PPC})):
        before = {of: codekey.key("HEAD", [of]) for of in (PLAIN, DEBUG, PPC)}
        every, two = codekey.key("HEAD"), codekey.key("HEAD", [PLAIN, PPC])
        now = tree(path, text)
        assert {of for of, was in before.items()
                if codekey.key("HEAD", [of]) != was} == set(matters), path
        assert (now != every) == bool(matters)
        assert (codekey.key("HEAD", [PLAIN, PPC]) != two) == \
            bool({PLAIN, PPC} & set(matters))


def test_kunit_tests_have_a_key_of_their_own(tree):
    tree("kernel/a.c", "int b;\n")
    none = codekey.kunit("HEAD")
    tree("kernel/a_test.c", "int b;\n")
    one = codekey.kunit("HEAD")
    tree("kernel/a_test.c", "/* x */ int b;\n")
    assert none != one == codekey.kunit("HEAD")
    tree("kernel/a_test.c", "int c;\n")
    assert codekey.kunit("HEAD") not in (none, one)
    plain, all_of_it = codekey.key("HEAD", [PLAIN]), codekey.key("HEAD")
    assert tree("kernel/a_test.c", "int d;\n", PLAIN) == plain
    assert codekey.key("HEAD") != all_of_it


def test_a_comment_changes_no_key(tree):
    one = tree("drivers/b.c", "int b;\n/* x */ int c;\n", PLAIN)
    assert tree("drivers/b.c", "\tint b;\n\n/* y */ int c;\n", PLAIN) == one
    assert tree("drivers/b.c", "int b;\nint d;\n", PLAIN) != one
    # of other files everything counts
    one = tree("drivers/Kconfig", "# /* x */\n", PLAIN)
    assert tree("drivers/Kconfig", "# /* y */\n", PLAIN) != one


def test_what_a_build_has_not_compiled(tree, monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "wanted_commit", lambda v: "HEAD")
    monkeypatch.setattr(kernels, "is_built", lambda *a: a[2] == "")
    monkeypatch.setattr(kernels, "wanted_image", lambda *a: tmp_path)
    tree("drivers/a.c", "int b;\n")
    tree("drivers/b.h", "int b;\n")
    tree("drivers/c.c", "int c;\n")
    # the latter two are of another architecture, and compiled into what is included
    for path in ("arch/x86/kernel/d.c", "arch/x86/kernel/e.c", "arch/powerpc/e.c",
                 "arch/x86/kernel/asm-offsets.c"):
        tree(path, "int d;\n")
    (tmp_path / "sources").write_text("drivers/a.c\ndrivers/b.h\narch/x86/kernel/d.c\n")
    assert codekey.unbuilt("x86_64", "") == ["arch/x86/kernel/e.c", "drivers/c.c"]
    codekey.note(["x86_64"], "")
    assert '"drivers/c.c"' in codekey.UNBUILT.read_text()
    assert '"debug": []' in codekey.UNBUILT.read_text()
    with pytest.raises(LabError, match="make kernels ARCH=x86_64 PROFILE=debug"):
        codekey.unbuilt("x86_64", "debug")


def test_what_another_configuration_has_left_is_not_in_the_image(tmp_path):
    """Xen's, for one, which shares the plain kernel's output directory."""
    out = tmp_path / ".o-x86_64"
    for o in ("drivers/x/a.o", "drivers/x/xen.o", "lib/b.o"):
        (out / o).parent.mkdir(parents=True, exist_ok=True)
        (out / o).write_text(o)
        cmd = (out / o).with_name(f".{Path(o).name}.cmd")
        cmd.write_text(f"deps_{o} := \\\n  {tmp_path}/{o[:-1]}c \\\n"
                       f"  ../kernel/time/../{Path(o).stem}.h \\\n")
    for kind, archive, members in (("cDPrST", "vmlinux.a", ["drivers/x/a.o"]),
                                   ("cDPrsT", "lib/lib.a", ["lib/b.o"])):
        subprocess.run(["ar", kind, archive, *members], cwd=out, check=True)
    assert kernels.sources_in(tmp_path, out) == [
        "drivers/x/a.c", "kernel/a.h", "kernel/b.h", "lib/b.c"]
