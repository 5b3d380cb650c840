# SPDX-License-Identifier: GPL-2.0
"""No two places of the lab or of the guest's scripts say the same."""

import re

from conftest import TOP

LINES = 8


def lines(text):
    """[(number, line)] of what counts: names of variables and white space do
    not, and what is empty, a comment or an import is left out."""
    out = []
    for n, x in enumerate(text.splitlines(), 1):
        x = re.sub(r"\s+", " ", x.strip())
        if x and not re.match(r"#|//|/?\*|import |from |[])}]+[,;]?$", x):
            out.append((n, re.sub(r"\b[a-z]\w*\b(?![(.=])", "v", x)))
    return out


def twins(files):
    """['a:1 ~ b:7'] where LINES lines of two places are the same; files:
    {name: text}."""
    seen, out = {}, []
    for name, text in sorted(files.items()):
        have = lines(text)
        for i in range(len(have) - LINES + 1):
            key = tuple(x for _, x in have[i:i + LINES])
            at = seen.setdefault(key, (name, i, have[i][0]))
            if at[0] != name or i - at[1] >= LINES:
                out.append(f"{at[0]}:{at[2]} ~ {name}:{have[i][0]}")
    return out


def test_no_two_places_say_the_same():
    files = {str(p.relative_to(TOP)): p.read_text()
             for d in ("lab", "guest", "bench") for p in (TOP / d).rglob("*")
             if p.suffix in (".py", ".sh", ".c", ".bt") or p.parent.name ==
             "guest" and p.is_file()}
    assert len(files) > 30 and not twins(files)


def test_what_is_the_same_is_found():
    one = "".join(f"call{i}(a, b)\n" for i in range(9))
    assert twins({"a": one, "b": "x()\n" + one}) == ["a:1 ~ b:2", "a:2 ~ b:3"]
    # with other names, other blanks and comments in between
    other = one.replace("a, b", "c,  d").replace("call5", "# why\n  call5")
    assert len(twins({"a": one, "b": other})) == 2
    assert twins({"a": one + "else()\n" + one}) == ["a:1 ~ a:11", "a:2 ~ a:12"]
    assert not twins({"a": one, "b": one.replace("call4", "call44")})
