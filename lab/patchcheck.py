# SPDX-License-Identifier: GPL-2.0
"""What must be true of patches/ itself: checkpatch, titles and messages, that
it applies, the round trip."""

import email
import os
import re
import subprocess
import sys

from . import boot, kernels, order, perpatch, series
from .common import (LINUX, PATCHES, LabError, cache_dir, digest, git, locked,
                     step)

# checkpatch types that are not applied, with the reason
CHECKPATCH_IGNORE = {
    "FILE_PATH_CHANGES": "asks to look at MAINTAINERS for each new file; "
                         "reviewed by hand",
    "UNKNOWN_COMMIT_ID": "the base is one commit, it has no history",
    "CAMELCASE": "fields of struct systemcfg, which user space sees",
}
# ... and those that are not in some files
CHECKPATCH_EXCEPT = [
    (r"include/trace/events/.*:(OPEN_ENDED_LINE|PARENTHESIS_ALIGNMENT):",
     "all trace events are written like this"),
    (r"kernel/sched/topology\.c:.*:PREFER_PR_LEVEL:",
     "pr_debug() prints nothing without DEBUG"),
    (r"kernel/cpu\.c:.*:AVOID_BUG:", "moved, not new"),
    (r"include/linux/percpu-rwsem\.h:.*:MACRO_ARG_REUSE:",
     "the name of what the macro defines"),
]


def _checkpatch(patch):
    """What checkpatch --strict says about a patch, '' if it is content, which
    is remembered: the answer depends on the patch, the base and the lists
    above."""
    known = cache_dir() / "checked" / digest(
        patch, kernels.tree_of("base"), repr(CHECKPATCH_IGNORE),
        repr(CHECKPATCH_EXCEPT))
    if known.exists():
        return ""
    # it leaves files of its own in the directory that it runs in
    cwd = cache_dir() / "checkpatch"
    cwd.mkdir(exist_ok=True)
    r = subprocess.run(
        ["perl", LINUX / "scripts/checkpatch.pl", "--strict", "--terse",
         "--show-types", "--showfile", "--color=never", f"--root={LINUX}",
         f"--ignore={','.join(CHECKPATCH_IGNORE)}", "-"],
        cwd=cwd, capture_output=True, text=True, input=patch.read_text(),
        env={**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:"
             + os.environ["PATH"]})
    said = [x for x in r.stdout.splitlines() if not any(
        re.search(e, x) for e, _ in CHECKPATCH_EXCEPT)]
    # totals end what it says, if there is something to say; tracebacks of its
    # own helpers must not pass as a clean result
    if "Traceback" not in r.stderr and (
            r.returncode == 0 and not said or r.returncode == 1
            and len(said) == 1 and said[0].endswith("lines checked")):
        known.parent.mkdir(exist_ok=True)
        known.touch()
        return ""
    return "\n".join(said) + r.stderr or f"it ended with {r.returncode}"


# ---- messages -----------------------------------------------------------

TITLE_MAX = 75                  # characters, without [PATCH]
LINE_MAX, QUOTE_MAX = 75, 100   # of text, and of what is indented
# what nobody can resolve who has a kernel tree and this one commit
FOREIGN = (
    (r"\bmake (boot|bench|machines|guests|torture|insns|offcpu|scx|foreign|"
     r"compile-matrix|bisect-check|record)\b", "a target of this repository"),
    (r"\b(SCENARIO|ONLY|PROFILE|RECORD)=", "a variable of this "
     "repository"),
    (r"(^|[\s(])(docs|bench|lab|shared)/\w", "a file of this repository"),
    (r"repository of th|\bthis repository\b", "this repository"),
    (r"\b(this|whole|the|rest of the|of the) (patch )?series\b",
     "the series, which a commit is not part of"),
    (r"\b(next|previous|preceding|following|later|earlier|last) "
     r"(patch|patches|commit|commits)\b", "another point of the series"),
    (r"\b[Pp]atch(es)? #?\d", "the number of a patch"),
)
TRAILER = re.compile(r"[A-Z][A-Za-z-]+: \S")
FIXES = re.compile(r'Fixes: [0-9a-f]{12,40} \(".+"\)$')


def message(patch):
    """(title, lines) of a patch as git am sees them; the lines end before
    '---'."""
    text = email.message_from_bytes(patch.read_bytes()).get_payload()
    return series.title(patch), text.split("\n---\n")[0].splitlines()


def faults(title, lines):
    """What is wrong with a commit message, as texts; none when it is fit to be
    sent."""
    out = []
    if len(title) > TITLE_MAX:
        out.append(f"the title has {len(title)} characters, not {TITLE_MAX}: "
                   "no empty line after it?")
    prefix, _, what = title.rpartition(": ")
    if not prefix:
        out.append("the title does not begin with a subsystem and ': '")
    if re.match(r"Let\b", what):
        out.append("the title begins with 'Let'; say what is done instead")
    if title.endswith("."):
        out.append("the title ends with a full stop")
    for n, line in enumerate(lines, 1):
        most = QUOTE_MAX if line[:1].isspace() else LINE_MAX
        if len(line) > most and not TRAILER.match(line):
            out.append(f"line {n} has {len(line)} characters, not {most}")
        if line.startswith("Fixes:") and not FIXES.match(line):
            out.append(f'line {n} is not \'Fixes: <12 digits> ("title")\'')
    flat = re.sub(r"\s+", " ", " ".join([title + ".", *lines]))
    for pattern, what in FOREIGN:
        m = re.search(pattern, flat)
        if m:
            out.append(f"'{m[0].strip()}' refers to {what}")
    paragraphs = [p.splitlines() for p in
                  re.split(r"\n\s*\n", "\n".join(lines)) if p.strip()]
    if not paragraphs or TRAILER.match(paragraphs[0][0]):
        out.append("there is no message, only trailers")
    for p in paragraphs:
        last = p[-1]
        if last[0].isspace() or all(TRAILER.match(x) or x[0].isspace()
                                    for x in p):
            continue
        if not re.search(r"[.:?!][)\"']*$", last):
            out.append(f"a paragraph ends in mid sentence: '{last[-40:]}'")
    return out


NO_FIXES = "No Fixes: tag, new or the commit is not known here:"


def _cover_of(part):
    cover = PATCHES / part / series.COVER
    return cover.read_text() if cover.exists() else ""


def without_fixes(part="00-fixes"):
    """The titles in a part of fixes which have neither a Fixes: tag nor a line
    in the list of its cover letter that says why not."""
    listed = _cover_of(part).partition(NO_FIXES)[2].split("\n---")[0]
    listed = {x.strip() for x in listed.splitlines()}
    return [t for t, lines in map(message, series.patch_files(part))
            if t not in listed and not any(map(FIXES.match, lines))]


def check_messages(rep):
    """Whether messages can be sent: see faults()."""
    titles = {}
    for p in series.patch_files():
        said = faults(*message(p))
        other = titles.setdefault(series.title(p), p)
        if other != p:
            said.append(f"{series.within(other)} has the same title")
        rep.add(f"message: {series.within(p)}", not said, "\n".join(said))
    missing = without_fixes() if "00-fixes" in series.parts() else []
    rep.add("series: each fix names the commit it mends, or its cover letter "
            "says that it is not known", not missing, "\n".join(missing))
    unsaid = [p for p in series.parts() if not _cover_of(p) or re.search(
        r"^(BLURB|Subject: .*SUBJECT)$", _cover_of(p), re.M)]
    rep.add("series: each part has a cover letter", not unsaid,
            ", ".join(unsaid))


def check_patches(rep):
    """checkpatch --strict and the rules for messages on every patch; functions
    are defined before they are used; the series applies, and parts of it alone;
    the round trip is exact."""
    patches = series.patch_files()
    with step(f"checkpatch on {len(patches)} patches", 110):
        found = boot.side_by_side(_checkpatch, [(p,) for p in patches],
                                  os.cpu_count() or 1)
    for p, said in zip(patches, found):
        rep.add(f"checkpatch: {series.within(p)}", not said, said)
    check_messages(rep)
    with step("the order of functions", 15):
        said = order.misplaced()
    rep.add("series: nothing is used before the patch that defines it, or after "
            "the one that removes it", not said, "\n".join(said))
    with locked("kernel-bisect"), step("the series on a fresh base", 30):
        tree = kernels.slot("bisect")
        try:
            kernels.checkout(
                "bisect", git("rev-parse", "base^{commit}", cwd=LINUX).strip())
            series.apply(tree)
            same = kernels.tree_of("HEAD", tree) == kernels.tree_of(
                "HEAD", LINUX)
            rep.add(f"series: {len(patches)} patches apply with git am",
                    same, "the result differs from linux/: 'make patches' or "
                    "'make tree'")
        except LabError as e:
            rep.add("series: applies with git am", False, e)
    for part in perpatch.ALONE:
        try:
            said = not perpatch.alone(part)
        except LabError as e:
            said = e
        rep.add(f"series: {part} applies alone, with what it needs", not said, said)
    diff = series.round_trip()
    rep.add("series: make tree, make patches leaves no difference",
            not diff, ", ".join(diff))
