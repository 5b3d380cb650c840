# SPDX-License-Identifier: GPL-2.0
"""docs/findings.md, made from lab/findings.txt."""

import itertools
import re
import textwrap

from .common import TOP, LabError, say, write_atomic

SOURCE = TOP / "lab" / "findings.txt"
PAGE = TOP / "docs" / "findings.md"
STATES = ("mended", "wrong", "later", "open", "TODO")
WIDTHS = (5, 38, 6, 25)         # with two blanks between them 80
HEAD = """# Findings

What reviews in the style of the kernel's maintainers found in this series, and
in what was written of it: the first tables in a tree of 149 patches, the last
ones in that which is there now. A finding was a claim; *state* says what became
of it: *mended*, *wrong* when the claim was, *later* with what, *open* with what
it takes.
"""


def read(path=SOURCE):
    """[(heading, [(id, what, state, where)])]; LabError for a row that is not
    as it must be."""
    out = []
    text = re.sub(r"\n[ \t]+", " ", path.read_text())
    for line in text.splitlines():
        if line.startswith("## "):
            out.append((line[3:], []))
        elif line and not line.startswith("#"):
            row = tuple(x.strip() for x in line.split("|"))
            if len(row) != 4 or not all(row[:2]) or row[2] not in STATES:
                raise LabError(f"{path}: '{line[:60]}': id | what | state | "
                               f"where is needed, with one of the states "
                               f"{', '.join(STATES)}")
            if bool(row[3]) == (row[2] == "TODO"):
                raise LabError(f"{path}: {row[0]}, {row[2]}: 'where' is "
                               "needed, but not for TODO")
            if not out:
                raise LabError(f"{path}: {row[0]}: a heading is needed before "
                               "the first row")
            if row[0] in (x[0] for x in out[-1][1]):
                raise LabError(f"{path}: {row[0]} is there twice")
            out[-1][1].append(row)
    return out


def page(parts):
    """The text of the page."""
    out = [HEAD]
    for heading, rows in parts:
        out += [f"## {heading}", "", "```"]
        for row in [("id", "what", "state", "where"), *rows]:
            cells = [textwrap.wrap(x, w) for x, w in zip(row, WIDTHS)]
            out += ["  ".join(map(str.ljust, line, WIDTHS)).rstrip()
                    for line in itertools.zip_longest(*cells, fillvalue="")]
        out += ["```", ""]
    return "\n".join(out[:-1]) + "\n"


def write():
    """Make the page anew."""
    text = page(read())
    if not PAGE.exists() or PAGE.read_text() != text:
        write_atomic(PAGE, text)
        say(f"   {PAGE.relative_to(TOP)} made anew")
