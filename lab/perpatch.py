# SPDX-License-Identifier: GPL-2.0
"""Builds and boots of single patches: as many as there is time for in 'make
test', all of them, on both architectures, in 'make bisect-check'."""

import json
import pathlib
import re
import shutil
import tempfile
import time

from . import boot, cases, codekey, kernels, record, series
from .common import (ARCHES, LINUX, MAIN, TOP, HostError, LabError, cache_dir,
                     digest, git, locked, run, step, write_atomic)
from .report import Report


def compiled_paths(a, b):
    """The files that differ between two commits of linux/ and can change a
    kernel build."""
    out = git("diff", "--name-only", a, b, cwd=LINUX).split()
    return [f for f in out if not f.startswith(("Documentation/", "tools/"))
            and f not in ("MAINTAINERS", "CREDITS")]


def compile_commit(commit, arches, limit=None, image=None):
    """Build one commit for the architectures in the checkout 'bisect';
    raises LabError when it fails and TimeoutError after limit seconds. What
    was built without a warning before, by content, is not built again, unless
    the kernel is wanted: the directory 'image' gets it."""
    end = time.monotonic() + limit if limit else None
    seen = cache_dir() / "compiled"
    seen.mkdir(exist_ok=True)
    keys = {a: seen / kernels.build_key(commit, a) for a in arches}
    arches = [a for a in arches if image or not keys[a].exists()]
    if not arches:
        return
    with locked("kernel-bisect"):
        src = kernels.checkout("bisect", commit)
        for a in arches:
            out = src / kernels.output_name(a)
            log = cache_dir() / "logs" / f"bisect-{a}.log"
            log.parent.mkdir(exist_ok=True)
            log.write_bytes(b"")
            kernels.configure(src, out, a, "", log)
            left = end - time.monotonic() if end else None
            if left is not None and left <= 0:
                raise TimeoutError
            _, text = run(kernels.make_cmd(src, out, a, ARCHES[a]["image"],
                                           extra=["LOCALVERSION=-bisect"]),
                          env=kernels.make_env(), log=log, limit=left)
            warn = kernels.warnings_in(text)
            if warn:
                raise LabError(f"{a}: {warn[0]}")
            if image:
                # who gets the lock next may build another commit there
                shutil.copy2(out / ARCHES[a]["path"], image / "kernel")
            keys[a].touch()


def check_each_patch(rep, arches, budget):
    """Compile single patches, newest first, for as long as the budget, a
    function that returns seconds, goes. What touches no compiled file is the
    same build as its neighbour."""
    commits = git("rev-list", "base..HEAD", cwd=LINUX).split()
    if not commits:
        return
    t0, budget = time.monotonic(), budget()
    # the tip is what check_builds compiles
    for a in arches:
        kernels.build("patched", a)
    done, built, last = 1, 0, commits[0]
    with step("single patches, newest first"):
        for c in commits[1:]:
            if compiled_paths(c, last):
                left = budget - (time.monotonic() - t0)
                if left < 30:
                    break
                subject = git("show", "-s", "--format=%s", c, cwd=LINUX).strip()
                try:
                    compile_commit(c, arches, left)
                except TimeoutError:
                    break
                except HostError:
                    raise
                except LabError as e:
                    rep.add(f"build after: {subject}", False, e)
                    last, done = c, done + 1
                    continue
                rep.add(f"build after: {subject}", True)
                built += 1
            last, done = c, done + 1
    print(f"      {done} of {len(commits)} patches stand on a build that was "
          f"made ({built} made apart from the tip; all: make bisect-check)",
          flush=True)


# ---- make bisect-check --------------------------------------------------

STATE = TOP / "bench" / "results" / "bisect.json"
# parts which can be sent before the others, and what else they need
ALONE = {
    "00-fixes": (),
    "01-cpuidle": (),
    "03-one-cpu": (),
    "05-neighbours": (
        "perf/x86/amd/uncore: Keep the context of a CPU which stays "
        "online",
        "cpu/hotplug: Ignore hotplug/fail during rollback",
        "scsi: lpfc: Do not take a polled EQ off its list",
        "cpu/hotplug: Add helpers to find a CPU which outlives another",
    ),
    "13-sched-rebuild": (
        "sched/topology: Claim one sched_domain_shared for a domain",
    ),
}


def content_key(commit, arch):
    """What a build and boot of a commit depends on, compiler apart: it is the
    same on another machine."""
    return digest(codekey.key(commit, ((arch, ""),)), *kernels.fragments(arch))


def read_state():
    """{what: {architecture: {key, result, date, compiler}}} of what was built
    and booted; 'what' is the title of a patch, the name of a part for its tip,
    or that name and ' alone'."""
    return record.read(STATE, {})


def alone(part):
    """A commit of the patches of one part on the base, with what ALONE says
    that they need. LabError names the patch that does not apply."""
    need = [p for p in series.patch_files()
            if series.title(p) in ALONE[part]]
    if len(need) != len(ALONE[part]):
        raise LabError(f"{part} needs {', '.join(ALONE[part])}, which is not "
                       "in patches/; has it another title now?")
    with tempfile.TemporaryDirectory() as tmp:
        env = {**series.PLAIN, "GIT_INDEX_FILE": f"{tmp}/index"}
        git("read-tree", "base", cwd=LINUX, env=env)
        for p in (*need, *series.patch_files(part)):
            if git("apply", "--cached", p, cwd=LINUX, env=env,
                   check=False) is None:
                raise LabError(f"{series.within(p)} does not apply to the base "
                               f"with the patches of {part} before it")
        tree = git("write-tree", cwd=LINUX, env=env).strip()
        who = {f"GIT_{x}_{y}": z for x in ("AUTHOR", "COMMITTER")
               for y, z in (("NAME", "lab"), ("EMAIL", "lab@invalid"),
                            ("DATE", "2026-01-01T00:00:00Z"))}
        return git("commit-tree", "-p", "base", "-m", f"{part} alone", tree,
                   cwd=LINUX, env={**env, **who}).strip()


def check_part(which):
    """LabError for a PART= that there is not, by what is in patches/."""
    if which not in ("", "tips", "alone"):
        series.find_part(which)


def points(which):
    """[(what, commit)] of linux/ for PART=: 'tips', 'alone', a part, or all
    patches."""
    ranges = series.part_ranges()
    if which == "tips":
        return [(p, tip) for p, _, tip in ranges]
    if which == "alone":
        return [(f"{p} alone", alone(p)) for p in ALONE]
    if which:
        part = series.find_part(which)
        span = next(f"{a}..{b}" for p, a, b in ranges if p == part)
    else:
        span = "base..HEAD"
    out = git("log", "--reverse", "--format=%s\t%H", span, cwd=LINUX)
    return [tuple(x.split("\t")) for x in out.splitlines()]


def unrecorded():
    """['00-fixes x86_64', ...]: the tips of parts which have no record that
    they were built and booted, for the tree that they are now."""
    good = {e["key"] for r in read_state().values() for e in r.values()
            if e["result"] == "ok"}
    return [f"{p} {a}" for p, _, tip in series.part_ranges() for a in MAIN
            if content_key(tip, a) not in good]


def build_and_boot(what, commit, arch):
    """Raises LabError unless the commit builds without a warning and its
    kernel boots and switches SMT."""
    with tempfile.TemporaryDirectory(prefix="cpuhp-") as tmp:
        img = pathlib.Path(tmp)
        with step(f"build {arch}: {what}", 480):
            compile_commit(commit, [arch], image=img)
        m = cases.guest_machine(arch, smt8=True)
        name = re.sub(r"\W+", "-", what)[:50]
        r = boot.run_job(m, img, boot.job("smt"), limit=600,
                         name=f"bisect-{name}-{m.name()}")
    if r.status:
        raise LabError(f"the job ended with {r.status}")


def keep(what, arch, entry):
    """Put an entry into the state as it is now: another architecture may be
    built at the same time."""
    # patches and parts come, go and are renamed
    known = {w for w, _ in (*points(""), *points("tips"))} | {
        f"{p} alone" for p in ALONE}
    with locked("record"):
        state = read_state()
        state.setdefault(what, {})[arch] = entry
        state = {w: r for w, r in state.items() if w in known}
        write_atomic(STATE, json.dumps(state, indent=1, sort_keys=True) + "\n")


def one(rep, name, what, commit, arch):
    """Build and boot a commit unless that was done; 'name' is what the result
    is called, 'what' what it is remembered as."""
    key = content_key(commit, arch)
    done = [e for r in read_state().values() for e in r.values()
            if e["key"] == key and e["result"] == "ok"]
    entry = done[0] if done else {
        "key": key, "result": "ok", "compiler": kernels.compiler(arch),
        "date": time.strftime("%Y-%m-%d", time.gmtime())}
    if not done:
        try:
            build_and_boot(what, commit, arch)
        except HostError:
            raise
        except LabError as e:
            entry["result"] = str(e).replace(f"{TOP}/", "")[:300]
    keep(what, arch, entry)
    rep.add(name + (" (done before)" if done else ""),
            entry["result"] == "ok", entry["result"])


def main(arches, which=""):
    """Build and boot the architectures at these points() of the series. What was
    done is remembered by content, so that a run which was ended goes on."""
    todo, rep = points(which), Report()
    # one architecture after the other: what changes little is built fast
    for arch in arches:
        for i, (what, commit) in enumerate(todo, 1):
            one(rep, f"{i}/{len(todo)} {arch}: {what}", what, commit, arch)
    return rep.finish()
