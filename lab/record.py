# SPDX-License-Identifier: GPL-2.0
"""What is recorded: the JSON files of bench/results/, each result with a stamp
of when and of what it was taken; the blocks of README.md and docs/ that show
them, and which of them are stale.

A module that records has shown(), which returns a Shown for each file; what is
derived (text, plots) goes to out/results/ and is not kept in git."""

import dataclasses
import functools
import json
import re
import textwrap
import time

from . import codekey, kernels
from .common import OUT, TOP, LabError, say, write_atomic

RESULTS = TOP / "bench" / "results"
# a block of a page: everything between its name and the end is made anew
BLOCK = re.compile(r"(?m)^<!-- (\S+) -->\n(.*?)^<!-- end -->$", re.S)
OPEN = re.compile(r"(?m)^<!-- (\S+) -->$")
STALE = re.compile(r"; stale: .*|; \d+ of \d+ stale$|(?<=[0-9a-f]{4})\*$", re.M)


@functools.cache
def code(subjects=(), of=()):
    """The key of the kernel that linux/ has now, codekey.key() of the kernels 'of'.
    subjects: and of the series up to the patches of these, which a scenario takes
    as kernels of their own; LabError when there is none of that subject."""
    commits = [kernels.wanted_commit("patched"), *map(kernels.patch, subjects)]
    return "-".join(codekey.key(c, of) for c in commits)


def stamp(inputs, subjects=(), of=()):
    """The stamp of what is measured from now on: 'date' (UTC), 'tree' (git's
    id of the kernel's), 'of', the pairs of architecture and profile that are booted,
    'kernel' (code()) and 'inputs', a digest of what else defines it: its scenario
    or job, and the configuration."""
    code.cache_clear()
    return {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "tree": kernels.tree_of(kernels.wanted_commit("patched")),
            "of": [*map(list, of)], "kernel": code(tuple(subjects), tuple(of)),
            "inputs": inputs}


@dataclasses.dataclass(frozen=True)
class Result:
    """Something recorded: the command that does it again, its stamp, and what
    its inputs are today, '' where it is defined no more. seconds: of the host,
    that it took; 0 if that is not known."""
    name: str
    stamp: dict
    inputs: str
    subjects: tuple = ()
    seconds: float = 0

    def stale(self):
        """Why it is, or ''. Computed from digests; there is no way to say
        otherwise."""
        if not self.stamp["kernel"]:
            return "recorded before digests"
        try:
            if self.stamp["kernel"] != code(self.subjects, tuple(
                    map(tuple, self.stamp.get("of", ())))):
                return "other kernel code"
        except LabError:                # the patch of a subject is gone
            return "other kernel code"
        return "" if self.stamp["inputs"] == self.inputs else "other inputs"

    def line(self):
        """'Recorded DATE, tree ID', and why it is stale."""
        why = self.stale()
        return (f"Recorded {self.stamp['date'][:10]}, tree "
                f"{self.stamp['tree'][:12]}" + (f"; stale: {why}" if why
                                                else ""))


@dataclasses.dataclass
class Shown:
    """What a module makes of a recorded file: the results in it, blocks
    {name: text} for the pages, and files {name in out/results/: text or
    bytes}."""
    results: list
    blocks: dict
    files: dict = dataclasses.field(default_factory=dict)

    def line(self):
        """The line above its tables; nothing may be recorded yet."""
        if not self.results:
            return "Not recorded yet."
        if len(self.results) == 1:
            return self.results[0].line()
        dates = sorted(r.stamp["date"][:10] for r in self.results)
        bad = sum(bool(r.stale()) for r in self.results)
        return ("Recorded " + " to ".join(dict.fromkeys((dates[0], dates[-1])))
                + (f"; {bad} of {len(self.results)} stale" if bad else ""))


def each(pattern, func, again):
    """[func(doc)] for the recorded files of a pattern, in the order of their
    names. LabError for one that is damaged; 'again' is the command that makes
    it anew."""
    out = []
    for path in sorted(RESULTS.glob(pattern)):
        try:
            out.append(func(json.loads(path.read_text())))
        except (ValueError, LookupError, TypeError, AttributeError) as e:
            raise LabError(f"{path} is damaged: {e!r}; '{again}' makes it "
                           "anew") from None
    return out


def read(path, none):
    """The document in a recorded file that more is to be put into; 'none', which
    is of its type, without a file. LabError for one that is damaged."""
    try:
        doc = json.loads(path.read_text())
        if type(doc) is not type(none):
            raise ValueError(f"it is no {type(none).__name__}")
    except FileNotFoundError:
        return none
    except ValueError as e:
        raise LabError(f"{path} is damaged: {e}; 'git checkout' brings the "
                       "recorded one back") from None
    return doc


def check_tree(tree):
    """Raise LabError unless linux/ has this tree still, which is git's id."""
    if kernels.tree_of(kernels.wanted_commit("patched")) != tree:
        raise LabError("linux/ is another one now, and what is measured of the "
                       "one before is not recorded; run it again")


def save(name, doc):
    """Write a document to bench/results/NAME.json."""
    write_atomic(RESULTS / f"{name}.json", json.dumps(doc, indent=1) + "\n")


def leave(where, name, doc, files, rec):
    """Write a document and the files made of it to out/WHERE/; with rec the
    document is recorded, too."""
    files = {f"{name}.json": json.dumps(doc, indent=1) + "\n", **files}
    for f, data in files.items():
        write_atomic(OUT / where / f, data)
    if rec:
        save(name, doc)
    say(f"   written to out/{where}/: {', '.join(files)}")


def fenced(text):
    """A table as a page has it."""
    return f"```\n{text}```\n"


def pages():
    """The files that may have blocks."""
    return [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]


def rendered(shown):
    """{page: its text with all blocks made anew}. LabError for a block that
    nothing is known of or that has no end, and for one that is recorded and that
    no page has."""
    blocks = {name: f"{s.line()}\n\n{text}" for s in shown
              for name, text in s.blocks.items()}
    placed, out = set(), {}

    def fill(m, page):
        placed.add(m[1])
        if inside := OPEN.search(m[2]):
            raise LabError(f"{page.name}: block '{m[1]}' has no end before "
                           f"'{inside[1]}' begins; put '<!-- end -->' there")
        if m[1] not in blocks:
            raise LabError(f"{page.name} has a block '{m[1]}', of which nothing "
                           "is recorded; --record of its command does, or "
                           "take it out")
        return f"<!-- {m[1]} -->\n{blocks[m[1]]}<!-- end -->"
    for page in pages():
        text = page.read_text()
        out[page] = BLOCK.sub(lambda m, p=page: fill(m, p), text)
        for name in set(OPEN.findall(BLOCK.sub("", text))) & set(blocks):
            raise LabError(f"{page.name}: block '{name}' has no end; put "
                           "'<!-- end -->' there")
    lost = sorted({name for s in shown if s.results for name in s.blocks}
                  - placed)
    if lost:
        raise LabError(f"no page has a place for {', '.join(lost)}: put the "
                       f"lines '<!-- {lost[0]} -->' and '<!-- end -->' into "
                       "one, docs/results.md say")
    return out


def stale_list(shown):
    """[{'name', 'date', 'tree', 'why'}] of all stale results."""
    return [{"name": r.name, "date": r.stamp["date"][:10],
             "tree": r.stamp["tree"], "why": r.stale()}
            for s in shown for r in s.results if r.stale()]


def stale_text(bad, n):
    """That list as a table of 80 columns; n: of how many results. Cases of one
    file, date and tree that are stale for one reason are one line."""
    if not bad:
        return f"none of {n} results is stale\n"
    lines = {}
    for r in bad:
        name = r["name"].partition(": ")[0]
        lines.setdefault((name, r["date"], r["tree"], r["why"]), []).append(r)
    out = [f"{len(bad)} of {n} results are stale:", "",
           f"{'result':<31}{'date':<12}{'tree':<14}why"]
    for (name, date, tree, why), rs in lines.items():
        name += f" ({len(rs)})" if len(rs) > 1 else ""
        out.append(f"{name:<30} {date:<12}{tree[:12]:<14}{why}")
    return "\n".join(out) + "\n"


def tables(modules):
    """Make everything anew that shows what is recorded, print what is stale,
    and write it to out/stale.json."""
    code.cache_clear()
    shown = [s for m in modules for s in m.shown()]
    for s in shown:
        for name, data in s.files.items():
            write_atomic(OUT / "results" / name, data)
    for page, text in rendered(shown).items():
        if text != page.read_text():
            write_atomic(page, text)
            say(f"   {page.relative_to(TOP)} made anew")
    bad = stale_list(shown)
    write_atomic(OUT / "stale.json", json.dumps(bad, indent=1) + "\n")
    print(stale_text(bad, sum(len(s.results) for s in shown)), end="",
          flush=True)
    say("   texts and plots: out/results/; what is stale: out/stale.json")


# ---- what tables have in common -----------------------------------------

def of_image(image):
    """What a result says of the kernel it was taken with."""
    meta = json.loads((image / "meta.json").read_text())
    return {k: meta[k] for k in ("release", "tree", "config_hash",
                                 "compiler")}


def environment(doc, more=""):
    """What a document with both kernels was taken with, as one paragraph."""
    k = doc["kernels"]
    return textwrap.fill(
        f"QEMU {doc['qemu']} {doc['machine']}, {doc['cpus']} CPUs with "
        f"{doc['threads']} threads a core, {doc['accel']}; "
        f"{k['base']['release']} and {k['patched']['release']}, "
        f"{k['base']['compiler']}{more}.", 80, break_on_hyphens=False)


def side_by_side(left, right, width=38):
    """Lines of two columns, the shorter one filled up."""
    n = max(len(left), len(right))
    left, right = (x + [""] * (n - len(x)) for x in (left, right))
    return [f"{a:<{width}} | {b}".rstrip() for a, b in zip(left, right)]


def grid(cells, left=(0, 2)):
    """Lines of rows of text, each column as wide as its widest; those in
    'left' begin at the left. Two blanks between them if that fits."""
    wide = [max(map(len, column)) for column in zip(*cells)]
    gap = "  " if sum(wide) + 2 * len(wide) - 2 <= 80 else " "
    return [gap.join(x.ljust(w) if i in left else x.rjust(w)
                     for i, (x, w) in enumerate(zip(row, wide))).rstrip()
            for row in cells]
