# SPDX-License-Identifier: GPL-2.0
"""docs/findings.md and what it is made of."""

import pytest

from lab import findings
from lab.common import LabError


def test_the_page_is_as_its_source_says():
    assert findings.PAGE.read_text() == findings.page(findings.read()), \
        "docs/findings.md: make tables"
    assert max(map(len, findings.PAGE.read_text().splitlines())) <= 80


def test_rows_are_wrapped(tmp_path):
    p = tmp_path / "f.txt"
    p.write_text("# c\n## A\n\n1 | a finding of\n  " + "x" * 36 + " | open\n | "
                 "here\n2 | b | TODO |\n")
    parts = findings.read(p)
    assert parts == [("A", [("1", "a finding of " + "x" * 36, "open", "here"),
                            ("2", "b", "TODO", "")])]
    assert findings.page(parts).splitlines()[-6:] == [
        "```", f"{'id':<7}{'what':<40}{'state':<8}where",
        f"{'1':<7}{'a finding of':<40}{'open':<8}here", " " * 7 + "x" * 36,
        f"{'2':<7}{'b':<40}TODO", "```"]


@pytest.mark.parametrize("row, says", [
    ("1 | a | open", "id | what | state | where is needed"),
    ("1 | a | done | there", "one of the states"),
    ("1 | a | mended |", "'where' is needed"),
    ("1 | a | TODO | there", "'where' is needed"),
    ("1 | a | TODO |\n1 | b | TODO |", "1 is there twice"),
])
def test_a_bad_row_is_an_error(tmp_path, row, says):
    p = tmp_path / "f.txt"
    p.write_text(f"## A\n{row}\n")
    with pytest.raises(LabError) as e:
        findings.read(p)
    assert says in str(e.value)
