# SPDX-License-Identifier: GPL-2.0
"""The patch series: patches/NN-topic/ <-> linux/, a git tree with the tag
'base', one commit per patch and one branch part/NN-topic per part, each of which
stands on the one before."""

import email
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from . import source
from .common import (LINUX, PATCHES, TOP, LabError, digest, fresh_dir, git,
                     need_space, say, step, write_atomic)

COVER = "0000-cover-letter.patch"
# git as it is without anybody's configuration, so that the files it makes
# are the same on every machine
PLAIN = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
         "GIT_CONFIG_NOSYSTEM": "1", "TZ": "UTC", "LC_ALL": "C"}


def parts():
    """The names of the parts in patches/, in order: '00-fixes' ..."""
    return sorted({p.parent.name for p in patch_files()})


def patch_files(part="[0-9][0-9]-*"):
    """The patches of a part, or of all, in order, without cover letters."""
    return sorted(p for p in PATCHES.glob(f"{part}/[0-9]*.patch")
                  if p.name != COVER)


def within(path):
    """A file of patches/ as messages name it: '00-fixes/0001-x.patch'."""
    return str(path.relative_to(PATCHES))


def find_part(name):
    """The part that somebody calls by its name or its number ('09' is
    '09-powerpc-parallel'); LabError when there is none."""
    for p in parts():
        if name in (p, p[:2], str(int(p[:2]))):
            return p
    raise LabError(f"there is no part '{name}'; use one of: "
                   + ", ".join(parts()))


def title(patch):
    """The subject of a patch as git am sees it."""
    subject = email.message_from_bytes(patch.read_bytes())["subject"] or ""
    return re.sub(r"^\[PATCH[^\]]*\] ", "", " ".join(subject.split()))


def _series_key():
    return digest(*(x for p in patch_files() for x in (within(p), p))) \
        if patch_files() else "empty"


def _state_file():
    return LINUX / ".git" / "cpuhp-lab.json"


def _state():
    try:
        return json.loads(_state_file().read_text())
    except (OSError, ValueError):
        return {}


def head(tree=None):
    """The commit at HEAD of linux/."""
    return git("rev-parse", "HEAD", cwd=tree or LINUX).strip()


def in_progress(tree=None):
    """Whether a git am or rebase is unfinished in linux/."""
    g = (tree or LINUX) / ".git"
    return (g / "rebase-apply").exists() or (g / "rebase-merge").exists()


def dirty():
    """Whether tracked files of linux/ differ from HEAD."""
    return bool(git("status", "--porcelain", "--untracked-files=no",
                    cwd=LINUX).strip())


def _unsaved():
    """Whether linux/ has files that git does not know, or stashes."""
    return bool(git("ls-files", "-o", "--exclude-standard",
                    cwd=LINUX).strip()
                or git("for-each-ref", "refs/stash", cwd=LINUX).strip())


def stale():
    """Whether patches/ changed since linux/ was made from them."""
    return _state().get("series") != _series_key()


def check_tree():
    """Raise LabError unless linux/ is there, complete and at rest."""
    if not (LINUX / ".git").exists():
        raise LabError("there is no linux/ yet; run 'make tree'")
    if in_progress() and not _state().get("applying"):
        raise LabError("linux/ is in the middle of a git am or rebase; finish "
                       "it there (git am --continue, git rebase --continue) "
                       "or start again with 'make tree FORCE=1'")
    if _state().get("applying"):
        raise LabError("linux/ was left half made by an interrupted 'make "
                       "tree'; run 'make tree FORCE=1'")
    if not git("rev-parse", "-q", "--verify", "base", cwd=LINUX, check=False):
        raise LabError("linux/ has no tag 'base', so it is not the tree that "
                       "'make tree' makes; move it away and run 'make tree'")


def _explain(patch, text):
    """The LabError for a patch that does not apply."""
    hunks = re.findall(r"^error: patch failed: (\S+)$", text, re.M)
    gone = re.findall(r"^error: (\S+): (?:No such file|does not exist|already "
                      r"exists).*$", text, re.M)
    bad = re.search(r"corrupt patch at line (\d+)", text)
    what = ("hunk at " + ", ".join(hunks)) if hunks else \
        ("file " + ", ".join(gone)) if gone else \
        f"corrupt at its line {bad[1]}" if bad else \
        (text.strip().splitlines() or ["?"])[-1]
    return LabError(
        f"{within(patch)} does not apply ({what}). linux/ is left there: "
        "in linux/ run 'git apply --reject .git/rebase-apply/patch', mend what "
        "the *.rej say, delete them, 'git add -A', 'git am --continue', then "
        "'make patches' here; "
        "or get Linux 7.3.y with 'make tree FORCE=1'")


def apply(tree):
    """git am every patch in a tree that stands on base. On failure the tree
    keeps the unfinished git am, which holds the patches that follow, and
    LabError says how to go on."""
    files = patch_files()
    if not files:
        return
    # git am takes no file and names none
    for p in files:
        if not title(p):
            raise LabError(f"{within(p)} is no patch: it has no subject; bring "
                           "it back ('git checkout'), or delete it")
    env = {**os.environ, **PLAIN, "GIT_COMMITTER_NAME": "lab",
           "GIT_COMMITTER_EMAIL": "lab@invalid"}
    r = subprocess.run(["git", "am", "-q", "--committer-date-is-author-date",
                        "--keep-non-patch", *map(str, files)], cwd=tree,
                       text=True, env=env, capture_output=True,
                       stdin=subprocess.DEVNULL)
    if r.returncode:
        at = tree / ".git" / "rebase-apply" / "next"
        n = int(at.read_text()) - 1 if at.exists() else 0
        raise _explain(files[n], r.stderr + r.stdout)


def misfit(tag):
    """The name of the first patch that does not apply to a base in the
    store, None when all do. Needs no work tree."""
    with tempfile.TemporaryDirectory() as tmp:
        env = dict(PLAIN, GIT_INDEX_FILE=f"{tmp}/index")
        git("read-tree", tag, cwd=source.store(), env=env)
        for p in patch_files():
            if git("apply", "--cached", p, cwd=source.store(), env=env,
                   check=False) is None:
                return within(p)
    return None


# ---- parts: the branches of linux/ --------------------------------------

def part_refs(tree=None):
    """{part: commit} of the branches part/NN-topic, in order."""
    out = git("for-each-ref", "--sort=refname", "--format=%(refname) "
              "%(objectname)", "refs/heads/part/", cwd=tree or LINUX)
    return {r.removeprefix("refs/heads/part/"): c
            for r, c in (x.split() for x in out.splitlines())}


def _drop_refs(tree):
    for p in part_refs(tree):
        git("update-ref", "-d", f"refs/heads/part/{p}", cwd=tree)


def _set_refs(tree):
    """Let each branch part/NN-topic end where the last patch of that part is,
    which its title tells. LabError when no commit has a title of the part."""
    last = {}
    for line in git("log", "--reverse", "--format=%H %s", "base..HEAD",
                    cwd=tree).splitlines():
        commit, _, subject = line.partition(" ")
        last[subject] = commit
    order = list(last.values())
    for p in parts():
        have = [last[t] for t in map(title, patch_files(p)) if t in last]
        if not have:
            raise LabError(f"no commit of linux/ has a title of part {p}; say "
                           f"where it ends: git branch part/{p} <commit>")
        git("update-ref", f"refs/heads/part/{p}",
            max(have, key=order.index), cwd=tree)


def part_ranges():
    """[(part, first commit before it, its last commit)] of linux/, in order.
    Raises LabError unless each part stands on the one before, has a commit, and
    the last one ends at HEAD: nothing may be left out of patches/."""
    refs, prev, out = part_refs(), "base", []
    if not refs:
        _set_refs(LINUX)        # an am that was finished by hand
        refs = part_refs()
    if not refs:
        raise LabError("linux/ has no part; name the first with 'git branch "
                       "part/00-topic' there")
    for p, c in refs.items():
        if git("merge-base", "--is-ancestor", c, "HEAD", cwd=LINUX,
               check=False) is None:
            raise LabError(f"part/{p} is not in the history of HEAD in linux/; "
                           f"rebase with --update-refs, or 'git branch -f "
                           f"part/{p} <its last commit>'")
        if not git("rev-list", "-n1", f"{prev}..{c}", cwd=LINUX).strip():
            raise LabError(f"part/{p} has no commit of its own after {prev} in "
                           f"linux/; move it, or 'git branch -D part/{p}'")
        out.append((p, prev, c))
        prev = c
    loose = git("log", "--format=%h %s", f"{prev}..HEAD", cwd=LINUX).strip()
    if loose:
        raise LabError(f"linux/ has commits which are in no part:\n{loose}\n"
                       f"rebase them into one, or 'git branch -f part/{p}'")
    return out


def make_tree(linux=None, force=False):
    """Make or refresh linux/ from the base and patches/. Never discards
    commits or changes in linux/ that are not in patches/: it refuses, or
    with force moves the old tree to linux.saved-<time>."""
    st = _state()
    if not linux and not force and st.get("tag") and git(
            "rev-parse", "-q", "--verify", f"refs/tags/{st['tag']}",
            cwd=source.store(), check=False):
        tag, origin = st["tag"], "cache"
    else:
        tag, origin = source.get(linux, misfit)
    version = source.tag_version(tag)
    key = _series_key()
    if LINUX.exists():
        edited = (not st.get("head") or in_progress()
                  or head() != st["head"] or dirty() or _unsaved())
        if st.get("applying"):
            # an interrupted run of this function: nothing of anybody's
            edited = False
            shutil.rmtree(LINUX / ".git" / "rebase-apply",
                          ignore_errors=True)
        same = st.get("tag") == tag and st.get("series") == key \
            and not st.get("applying")
        if same and not force and not in_progress():
            note = " (with work that is not in patches/)" if edited else ""
            say(f"   linux/ is Linux {version} + {len(patch_files())} "
                f"patches{note}")
            return version
        if edited:
            if not force and in_progress():
                raise LabError("linux/ has an unfinished git am or rebase; "
                               "finish it there (git am --continue, git "
                               "rebase --continue), then 'make patches' here, "
                               "or 'make tree FORCE=1' to set it aside")
            if not force:
                raise LabError("linux/ has commits or changes that are not in "
                               "patches/, and patches/ or the base changed; "
                               "run 'make patches' to keep them, or "
                               "'make tree FORCE=1' to set them aside")
            saved = TOP / f"linux.saved-{time.strftime('%Y%m%d-%H%M%S')}"
            os.rename(LINUX, saved)
            say(f"   the old tree is now {saved.name}/")
    if version.split(".")[:2] != [str(x) for x in source.WANT]:
        say(f"WARNING: the base is Linux {version}, not 7.3.y; the series is "
            "tried on it as it is")
    with step(f"linux/: Linux {version} from {origin}, "
              f"{len(patch_files())} patches", 20):
        reuse = LINUX.exists() and _state().get("tag") == tag
        if reuse:
            write_atomic(_state_file(),
                         json.dumps({"tag": tag, "applying": True}))
            shutil.rmtree(LINUX / ".git" / "rebase-apply",
                          ignore_errors=True)
            (LINUX / ".git" / "index.lock").unlink(missing_ok=True)
            git("checkout", "-q", "-f", "-B", "series", "base", cwd=LINUX)
            _drop_refs(LINUX)
            _apply_and_note(LINUX, tag, key)
        else:
            need_space(TOP, 3, "linux/")
            failed = None
            with fresh_dir(LINUX) as tmp:
                tmp.rmdir()
                git("clone", "-q", "--no-checkout", source.store(), tmp,
                    env=PLAIN)
                for t in git("tag", cwd=tmp).split():
                    if t != tag:
                        git("tag", "-d", t, cwd=tmp)
                git("tag", "base", f"{tag}^{{commit}}", cwd=tmp)
                git("tag", "-d", tag, cwd=tmp)
                git("remote", "remove", "origin", cwd=tmp)
                git("checkout", "-q", "-B", "series", "base", cwd=tmp)
                if git("var", "GIT_COMMITTER_IDENT", cwd=tmp,
                       check=False) is None:
                    # for git am --continue and git stash
                    git("config", "user.name", "lab", cwd=tmp)
                    git("config", "user.email", "lab@invalid", cwd=tmp)
                try:
                    _apply_and_note(tmp, tag, key)
                except LabError as e:
                    failed = e
            if failed:
                raise failed
    return version


def _apply_and_note(tree, tag, key):
    state = tree / ".git" / "cpuhp-lab.json"
    # what people need who fold a change into its patch
    for option in "updateRefs", "autoSquash":
        git("config", f"rebase.{option}", "true", cwd=tree)
    try:
        apply(tree)
        _set_refs(tree)
    except LabError:
        # to be finished by hand, as the error says
        write_atomic(state, json.dumps({"tag": tag}))
        raise
    write_atomic(state, json.dumps(
        {"tag": tag, "series": key, "head": head(tree)}))


# ---- linux/ -> patches/ -------------------------------------------------

COVER_TEMPLATE = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: {name} <{email}>
Date: {date}
Subject: [PATCH 0/{n}] cpu/hotplug: SUBJECT

BLURB

"""
_MARK = "---- 8< ---- the series ---- 8< ----"


def _cover(part, base, tip):
    """The cover letter of a part: its prose is kept, what follows the mark is
    made anew from the commits base..tip."""
    path = PATCHES / part / COVER
    span = f"{base}..{tip}"
    n = int(git("rev-list", "--count", span, cwd=LINUX))
    if path.exists():
        prose = path.read_text().split(_MARK)[0]
        prose = re.sub(r"^Subject: \[PATCH 0/\d+\]",
                       f"Subject: [PATCH 0/{n}]", prose, flags=re.M)
    else:
        ident = git("var", "GIT_AUTHOR_IDENT", cwd=LINUX)
        m = re.match(r"(.*) <(.*)> \d+", ident)
        prose = COVER_TEMPLATE.format(
            name=m[1], email=m[2], n=n,
            date=time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime()))
    log = git("shortlog", "-w72,2,4", span, cwd=LINUX, env=PLAIN)
    stat = git("diff", "--stat=72", "--summary", "-M", span,
               cwd=LINUX, env=PLAIN)
    tree = git("rev-parse", f"{base}^{{tree}}", cwd=LINUX).strip()
    v = source.kernel_version(git("show", "base:Makefile", cwd=LINUX))
    on = "" if base == "base" else " + the parts before"
    return (f"{prose.rstrip()}\n\n{_MARK}\n\n{log.rstrip()}\n\n"
            f"{stat.rstrip()}\n\n"
            f"base-version: Linux {source.version_string(v)}{on}\n"
            f"base-tree: {tree}\n")


def _format(into, base, tip):
    """Write the patches of base..tip into a directory, the same on every
    machine."""
    git("format-patch", "-q", "-o", into, "--no-numbered", "--zero-commit",
        "--no-signature", "--no-attach", "--no-thread", "--no-base",
        "--abbrev=12", "--stat=72", "--diff-algorithm=myers",
        "--filename-max-length=60", f"{base}..{tip}", cwd=LINUX, env=PLAIN)


def _same(old, new, other_base):
    """Whether two texts of a patch or cover letter say the same. On another
    base than the recorded one line numbers and blob ids may differ."""
    if other_base:
        drop = re.compile(r"^(?:index [0-9a-f]|base-(?:version|tree): ).*\n",
                          re.M)
        at = re.compile(r"^@@ -[\d,]+ \+[\d,]+ @@.*$", re.M)
        old, new = (at.sub("@@", drop.sub("", t)) for t in (old, new))
    return old == new


def _export():
    """{path below patches/: text} as the parts of linux/ give it. A file that
    differs from the one in patches/ only by what another base brings keeps
    it."""
    out = {}
    with tempfile.TemporaryDirectory() as tmp:
        for part, base, tip in part_ranges():
            _format(f"{tmp}/{part}", base, tip)
            out[f"{part}/{COVER}"] = _cover(part, base, tip)
        out |= {str(p.relative_to(tmp)): p.read_text()
                for p in pathlib.Path(tmp).glob("*/*.patch")}
    first = PATCHES / min(out)
    m = re.search(r"^base-tree: (\w+)$",
                  first.read_text() if first.exists() else "", re.M)
    other = bool(m) and m[1] != git("rev-parse", "base^{tree}",
                                    cwd=LINUX).strip()
    for name, text in out.items():
        path = PATCHES / name
        if path.exists() and _same(path.read_text(), text, other):
            out[name] = path.read_text()
    return out


def round_trip():
    """The names of files in patches/ that 'make patches' would change now;
    an empty list means the round trip is exact."""
    check_tree()
    out = _export()
    names = set(out) | {within(p) for p in PATCHES.rglob("*.patch")}
    return sorted(n for n in names if not (PATCHES / n).exists()
                  or out.get(n) != (PATCHES / n).read_text())


def make_patches():
    """Write patches/ from the parts of linux/. Says what is not in a commit;
    raises LabError when linux/ is not at rest, has merges, or has a commit in no
    part, and when patches/ has a *.patch that is none of a part."""
    check_tree()
    if git("rev-list", "--merges", "base..HEAD", cwd=LINUX).strip():
        raise LabError("linux/ has merges after base, which no patch can "
                       "carry; rebase them away (git rebase base)")
    if not git("merge-base", "--is-ancestor", "base", "HEAD", cwd=LINUX,
               check=False) is not None:
        raise LabError("HEAD of linux/ does not stand on the tag 'base'; "
                       "check the series branch out there")
    for line in git("log", "--format=%h %s", "base..HEAD",
                    cwd=LINUX).splitlines():
        if re.match(r"\w+ (fixup|squash|amend)! ", line):
            raise LabError(f"linux/ has the unsquashed commit '{line}'; run "
                           "'git rebase -i --autosquash --update-refs base' "
                           "there")
    if dirty():
        say("WARNING: linux/ has changes that are in no commit; they are not "
            "exported")
    lost = sorted({*PATCHES.rglob("*.patch")} - {
        *patch_files(), *PATCHES.glob(f"[0-9][0-9]-*/{COVER}")})
    if lost:
        raise LabError(f"{', '.join(map(within, lost))} is no patch of a part, "
                       "NN-topic/NNNN-*.patch, and would not be kept; move it "
                       f"out of {PATCHES.name}/")
    out = _export()
    keep = [p for p in PATCHES.rglob("*")
            if p.is_file() and p.suffix != ".patch"]
    with fresh_dir(PATCHES) as tmp:
        for name, text in out.items():
            (tmp / name).parent.mkdir(exist_ok=True)
            (tmp / name).write_text(text)
        for p in keep:
            (tmp / within(p)).parent.mkdir(exist_ok=True)
            shutil.copy2(p, tmp / within(p))
    st = _state()
    st.update(series=_series_key(), head=head())
    write_atomic(_state_file(), json.dumps(st))
    n = len(patch_files())
    say(f"   patches/: {n} patches in {len(parts())} parts, with their cover "
        "letters")
    return n
