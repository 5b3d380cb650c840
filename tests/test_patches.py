# SPDX-License-Identifier: GPL-2.0
"""The checks of patches/: what they say of a bad patch."""

import subprocess

import pytest

from conftest import TOP, sh
from lab import patchcheck, series


def test_a_dying_checkpatch_is_no_success(monkeypatch, tmp_path):
    p = tmp_path / "p.patch"
    monkeypatch.setattr(patchcheck, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(patchcheck.kernels, "tree_of", lambda c: "tree")
    for i, (status, out, good) in enumerate(((-9, "", False), (0, "", True), (
            -9, "total: 0 errors, 9 lines checked\n", False), (
            1, "total: 0 errors, 0 warnings, 0 checks, 9 lines checked\n",
            True))):
        p.write_text(f"{i // 2}")
        monkeypatch.setattr(patchcheck.subprocess, "run", lambda *a, **k:
                            subprocess.CompletedProcess(a, status, out, ""))
        assert (patchcheck._checkpatch(p) == "") == good
    # what was good is not asked for again
    monkeypatch.delattr(patchcheck.subprocess, "run")
    assert patchcheck._checkpatch(p) == ""


GOOD = """sched/core: Skip siblings that are not yet in the core

A thread which has not joined its core is not in any mask. sched_core_cpu_
starting() dereferences its leader:

  BUG: kernel NULL pointer dereference, address: 0000000000000008, which is a long line

Skip it. Seen with "isolcpus=2" (32 CPUs, SMT8).

Fixes: 0123456789ab ("sched: Add core scheduling")
Signed-off-by: T <t@example.org>
"""


def faults(text):
    title, _, body = text.partition("\n")
    return patchcheck.faults(title, body.strip().splitlines())


def test_a_good_message_has_no_faults():
    assert faults(GOOD) == []


@pytest.mark.parametrize("old, new, says", [
    ("Skip siblings that", "Skip siblings" + " and siblings" * 4 + " that",
     "the title has"),
    ("sched/core: Skip", "Skip", "does not begin with a subsystem"),
    ("Skip siblings", "Let siblings be", "begins with 'Let'"),
    ("in the core\n", "in the core.\n", "ends with a full stop"),
    ("Skip it.", "Skip it" + " and so on" * 8 + ".", "line 6 has 128 char"),
    ("which is a long line", "x" * 60, "line 4 has"),
    ('Fixes: 0123456789ab ("', 'Fixes: 01234567 ("', "is not 'Fixes: <12"),
    ("Skip it. ", "Skip it, see make machines ONLY=late. ", "'make machines'"),
    ("Skip it. ", "ONLY=late shows it. ", "'ONLY='"),
    ("Skip it. ", "Skip it, see docs/scale.md. ", "'docs/s' refers to a file"),
    ("Skip it. ", "In the repository of the\nseries. ", "repository"),
    ("Skip it. ", "With the whole\nseries it takes 2 ms. ", "the series"),
    ("Skip it. ", "The next\npatch does it. ", "'next patch' refers to"),
    ("Skip it. ", "See patch 12. ", "the number of a patch"),
    ("(32 CPUs, SMT8).", "(32 CPUs, SMT8), which must leave those", "in mid "
     "sentence: "),
    (GOOD[GOOD.index("\n"):GOOD.index("\nFixes")], "\n", "no message"),
])
def test_each_rule_for_messages_has_a_message_that_breaks_it(old, new, says):
    bad = GOOD.replace(old, new)
    assert bad != GOOD
    assert [x for x in faults(bad) if says in x], faults(bad)


def patch(toy, name, text):
    p = toy.patches / name
    p.parent.mkdir(exist_ok=True)
    p.write_text("From: T <t@example.org>\nSubject: [PATCH] " + text + "---\n"
                 " a.c | 1 +\n\ndiff --git a/a.c b/a.c\n")
    return p


def test_fixes_or_the_reason_why_not(toy):
    patch(toy, "00-fixes/0001-a.patch", GOOD)
    assert patchcheck.without_fixes() == []
    patch(toy, "00-fixes/0002-b.patch", GOOD.replace(
        "Skip s", "Omit s").replace("Fixes: ", "Fixed: "))
    title = "sched/core: Omit siblings that are not yet in the core"
    cover = toy.patches / "00-fixes" / series.COVER
    cover.write_text("\n---- 8< ----\n" + title)
    assert patchcheck.without_fixes() == [title]
    cover.write_text(f"{patchcheck.NO_FIXES}\n  {title}\n\n---- 8< ----\n")
    assert patchcheck.without_fixes() == []


def test_messages_of_all_patches_are_read(toy):
    class Rep:
        bad = []

        def add(self, name, ok, detail=""):
            if not ok:
                self.bad.append(f"{name}: {detail}")
    patch(toy, "00-fixes/0001-a.patch", GOOD)
    patch(toy, "01-more/0001-b.patch", GOOD.replace("Skip it.", "Patch 7:"))
    patchcheck.check_messages(Rep())
    assert [x.split(": ")[0] for x in Rep.bad] == [
        "message", "series"] and "01-more/0001-b" in Rep.bad[0]
    assert "same title" in Rep.bad[0] and "the number of" in Rep.bad[0]
    assert "cover letter: 00-fixes, 01-more" in Rep.bad[1]


def test_checkpatch_leaves_no_file_of_its_own_here(monkeypatch, tmp_path):
    where = []
    monkeypatch.setattr(patchcheck, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(patchcheck.kernels, "tree_of", lambda c: "tree")
    monkeypatch.setattr(patchcheck.subprocess, "run", lambda *a, **k:
                        where.append(k["cwd"]) or
                        subprocess.CompletedProcess(a, 0, "", ""))
    p = tmp_path / "p.patch"
    p.write_text("x")
    patchcheck._checkpatch(p)
    assert where == [tmp_path / "checkpatch"]
    monkeypatch.undo()
    # nor does one that is run by hand come back into git
    assert sh("git", "check-ignore", ".checkpatch-camelcase.git.", cwd=TOP)
