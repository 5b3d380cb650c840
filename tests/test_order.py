# SPDX-License-Identifier: GPL-2.0
"""Functions in the order of the patches."""

import pytest

from lab import order, series

OLD = "static int old(void)\n{\n\treturn 0;\n}\n"
NEW = "int new(int a,\n\tint b)\n{\n\treturn a;\n}\n"
USER = "/* old() is slow */\nint f(void)\n{\n\treturn %s;\n}\n"


@pytest.fixture
def said(toy):
    """What is said of patches: each a dictionary {file: its text}."""
    (toy.src / "a.c").write_text(OLD + USER % "old()")

    def run(*patches):
        series.make_tree(toy.src)
        for n, files in enumerate(patches):
            for name, text in files.items():
                (toy.linux / name).write_text(text)
            name = list(files)[0]
            toy.commit(name, files[name], f"p{n}: Do it\n\nNow.")
        return order.misplaced()
    return run


def test_in_order(said):
    assert said({"b.c": NEW}, {"a.c": OLD + USER % "new(1, 2)"},
                {"a.c": USER % "new(1, 2)"}) == []


def test_used_before_it_is_defined(said):
    assert said({"a.c": USER % "new(1, 2)"}, {"b.c": NEW}) == [
        "p0: Do it: a.c uses new(), which comes with 'p1: Do it'"]


def test_removed_and_still_used(said):
    bad, = said({"a.c": USER % "old()"}, {"a.c": USER % "0"})
    assert bad == "p0: Do it: removes old, but a.c:4: return old();"


def test_a_name_in_a_comment_or_that_moves_is_no_user(said):
    assert said({"a.c": USER % "0"}) == []


def test_a_function_that_moves_is_not_removed(said):
    assert said({"b.h": OLD}, {"a.c": USER % "old()"}) == []


def test_a_macro_that_is_asked_for_is_not_used(said):
    assert said({"b.h": "#define OLD 1\n", "c.c": "#if defined(OLD)\n#endif\n"},
                {"b.h": "\n"}) == []
