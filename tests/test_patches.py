# SPDX-License-Identifier: GPL-2.0
"""The checks of patches/: what they say of a bad patch."""

import subprocess

from lab import patchcheck


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
