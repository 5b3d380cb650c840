# SPDX-License-Identifier: GPL-2.0
"""Numbers in texts that no command makes: who wrote them says where they are
from."""

import re

import pytest

from conftest import TOP

UNIT = re.compile(r"(?<![\w./])\d+(?:\.\d+)?(?:\s?(?:[mun]?s|[KMG]i?B|%|times)"
                  r"(?!\w)|x\b)")
# a command, somebody who did it without one, a mail, a record, a specification
FROM = re.compile(r"\bmake (?:boot|bench|run|insns|offcpu|test|machines|model|record"
                  r"|torture|foreign|litmus|tables|hwtest)\b|SCENARIO=|JOB=|SEED=|bench/|by hand|function_graph"
                  r"|\bin (?:19|20)\d\d\b|\b20\d\d-\d\d|\bmails?\b|\brecord"
                  r"|LoPAR|PSCI|SDM|\bmessages?\b|\]\(\w+\.md")
BLOCK = re.compile(r"(?ms)^<!-- \S+ -->\n.*?^<!-- end -->$")


def sections(path):
    """[(heading, text)] without what is generated: of a page by its headings, a
    cover letter is one."""
    text = BLOCK.sub("", path.read_text())
    if path.suffix == ".patch":
        return [(path.parent.name, text.split("---- 8< ----")[0])]
    parts = re.split(r"(?m)^#+ (.*)$", text)
    return list(zip(["", *parts[1::2]], parts[::2]))


@pytest.mark.parametrize("path", [
    TOP / "README.md", *sorted((TOP / "docs").glob("*.md")),
    *sorted((TOP / "patches").glob("*/0000-*.patch")),
    *sorted((TOP / "ports").glob("*/*/0000-*.patch"))],
    ids=lambda p: f"{p.parent.name}/{p.name}" if p.suffix == ".md"
    else p.parent.name)
def test_a_number_says_where_it_is_from(path):
    assert not [f"{head}: {UNIT.search(text)[0]}"
                for head, text in sections(path)
                if UNIT.search(text) and not FROM.search(text)]


def test_a_number_without_a_source_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n\nIt takes 5.3 ms.\n\n# Two\n\n`make boot`: 7 ms.\n"
                    "# Three\n\nThree CPUs of 7.3.\n"
                    "<!-- x -->\n9 ms\n<!-- end -->\n# Four\n\n2.5x less\n")
    with pytest.raises(AssertionError) as e:
        test_a_number_says_where_it_is_from(page)
    assert "One: 5.3 ms" in str(e.value) and "Four: 2.5x" in str(e.value)
    assert "Two" not in str(e.value) and "Three" not in str(e.value)
