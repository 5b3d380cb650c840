# SPDX-License-Identifier: GPL-2.0
"""Functions and macros in the order of the patches: none is used before the
patch which defines it, or after the one which removes it. What a rebase puts
into another patch than it belongs to is seen by that at once; to build each patch
takes hours ('make bisect-check')."""

import os
import re

from .common import LINUX, git

SOURCES = ("*.c", "*.h", "*.S")
# where users of what has no file of its own are looked for, beside its directory
COMMON = ("include", "kernel", "arch/x86/include", "arch/powerpc/include")
_BEGINS = re.compile(r"#\s*define (\w+)|(?:[A-Za-z_][\w \t*]*?[ \t*])?(\w+)\(")
_COMMENT = re.compile(r'/\*.*?(\*/|$)|//.*|"[^"]*"')
_KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else"}


def _code(line):
    """A line without comments and strings; one in the middle of a comment is
    taken for one if it begins with '*'."""
    return "" if line.lstrip().startswith("*") else _COMMENT.sub("", line)


def _defined(line):
    """The name that a line at the left edge defines or declares, or ''."""
    m = _BEGINS.match(line)
    if not m or m[2] in _KEYWORDS:
        return ""
    # in capitals it is a macro that makes something
    return m[1] or ("" if m[2].isupper() else m[2])


def _patches(base, head):
    """[(commit, title, {file: (lines removed, lines added)})]"""
    out, lines = [], None
    text = git("log", "-p", "-U0", "--reverse", "--no-renames",
               "--format=%x01%h %s", f"{base}..{head}", "--", *SOURCES,
               cwd=LINUX)
    for line in text.split("\n"):
        if line.startswith("\x01"):
            commit, _, title = line[1:].partition(" ")
            out.append((commit, title, {}))
        elif line.startswith("diff --git"):
            lines = out[-1][2].setdefault(line.rpartition(" b/")[2], ([], []))
        elif line[:1] in ("+", "-") and line[:4] not in ("--- ", "+++ "):
            lines[line[0] == "+"].append(_code(line[1:]))
    return out


def _users(names, commit, where):
    """{name: lines of code with it, as 'file:line: text'} of names that nothing
    in these directories defines. Nobody uses one who asks whether it is
    defined."""
    found = git("grep", "-n", "-F", "-w", *(x for n in names for x in ("-e", n)),
                commit, "--", *(f"{w}/{s}" if w else s for w in where
                                for s in SOURCES), cwd=LINUX, check=False) or ""
    out, there = {}, set()
    for line in found.splitlines():
        _, path, n, text = line.split(":", 3)
        code = _code(text)
        there.add(_defined(code))
        for name in names:
            if re.search(rf"\b{name}\b", code) and \
                    not re.search(rf"\bdefined\(?\s*{name}\b", code):
                out.setdefault(name, []).append(f"{path}:{n}: {text.strip()}")
    return {name: lines for name, lines in out.items() if name not in there}


def misplaced(base="base", head="HEAD"):
    """What is out of order, as texts."""
    patches, first, out = _patches(base, head), {}, []
    for i, (_, _, files) in enumerate(patches):
        for _, added in files.values():
            for name in filter(None, map(_defined, added)):
                first.setdefault(name, i)
    early = []
    for i, (commit, title, files) in enumerate(patches):
        here = {_defined(x) for _, added in files.values() for x in added}
        gone = {}
        for path, (removed, added) in files.items():
            for name in {_defined(x) for x in removed} - here - {""}:
                gone.setdefault(name, set()).add(os.path.dirname(path))
            early += [(name, f"{title}: {path} uses {name}(), which comes with "
                       f"'{patches[first[name]][1]}'") for name in sorted(
                {n for x in added for n in re.findall(r"(\w+)\(", x)})
                if first.get(name, i) > i]
        where = {*COMMON}.union(*gone.values())
        users = _users(gone, commit, sorted(where)) if gone else {}
        out += [f"{title}: removes {name}, but {lines[0]}"
                for name, lines in sorted(users.items())]
    # the base may have it, too
    names = sorted({name for name, _ in early})
    known = names and git("grep", "-h", "-o", "-F", "-w",
                          *(x for n in names for x in ("-e", n)), base, "--",
                          *SOURCES, cwd=LINUX, check=False) or ""
    return out + [text for name, text in early if name not in known.split()]
