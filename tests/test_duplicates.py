# SPDX-License-Identifier: GPL-2.0
"""No two places of the lab share eight lines: what two need is in one."""

import re
import subprocess

import pytest

from conftest import TOP

LINES = 8
FILES = ("lab/*.py", "lab/*.sh", "lab/*.c", "guest")


def normalised(text):
    """[(number, line)] without blank lines, comments and imports. Those of a
    docstring are lines like others."""
    return [(n, x) for n, x in enumerate(map(str.strip, text.splitlines()), 1)
            if x and not re.match(r"(#(?!include|define|if)|//|/?\*|import |"
                                  r"from \S+ import )", x)]


def shared(texts):
    """The places which share LINES lines, of {name: text}: 'a:1 b:7'. Longer
    runs are told once."""
    seen, out, last = {}, [], None
    for name, text in texts.items():
        lines = normalised(text)
        for i in range(len(lines) - LINES + 1):
            part = lines[i:i + LINES]
            key = tuple(x for _, x in part)
            here = name, i, part[0][0]
            first = seen.setdefault(key, here)
            if first is here:
                continue
            if last != (first[0], first[1] - 1, name, i - 1):
                out.append(f"{first[0]}:{first[2]} {name}:{here[2]}")
            last = first[0], first[1], name, i
    return out


def test_no_two_places_share_eight_lines():
    names = subprocess.run(["git", "ls-files", *FILES], cwd=TOP, text=True,
                           capture_output=True, check=True).stdout.split()
    assert len(names) > 60
    assert not shared({n: (TOP / n).read_text() for n in names
                       if (TOP / n).exists()})


A = "\n".join(f"do {i}" for i in range(20))


@pytest.mark.parametrize("other, want", [
    # others around, blank lines, comments and imports between
    ("first\n\n  " + "\n# why\nimport x\n\n  ".join(A.splitlines()[3:13]),
     ["a:4 b:3"]),
    ("\n".join(A.splitlines()[3:10]) + "\nelse", []),
    (A + "\nelse\n" + A, ["a:1 b:1", "a:1 b:22"])])
def test_what_is_shared_is_found(other, want):
    assert shared({"a": A, "b": other}) == want


def test_a_file_may_share_lines_with_itself():
    assert shared({"a": f"{A}\nelse\n{A}"}) == ["a:1 a:22"]
