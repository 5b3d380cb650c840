# SPDX-License-Identifier: GPL-2.0
"""Builds and boots of single patches: as many as there is time for in 'make
test', all of them, on both architectures, in 'make bisect-check'."""

import json
import pathlib
import shutil
import tempfile
import time

from . import boot, check, kernels
from .common import (ARCHES, LINUX, LabError, cache_dir, digest, git, locked,
                     run, step, write_atomic)


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


class BisectReport(check.Report):
    """Goes to out/bisect.ktap."""
    ktap = "bisect.ktap"


def main(arches):
    """Build and boot the architectures after every patch. What was done
    is remembered by content, so that a run which was ended goes on."""
    state_file = cache_dir() / "bisect.json"
    try:
        state = json.loads(state_file.read_text())
    except (OSError, ValueError):
        state = {}
    commits = git("rev-list", "--reverse", "base..HEAD", cwd=LINUX).split()
    rep = BisectReport()
    for i, c in enumerate(commits, 1):
        subject = git("show", "-s", "--format=%s", c, cwd=LINUX).strip()
        for arch in arches:
            key = digest(kernels.tree_of(c), arch,
                         kernels.compiler(arch), *kernels.fragments(arch))
            name = f"{i}/{len(commits)} {arch}: {subject}"
            if state.get(key) == "ok":
                rep.add(name + " (done before)", True)
                continue
            try:
                with tempfile.TemporaryDirectory(prefix="cpuhp-") as tmp:
                    img = pathlib.Path(tmp)
                    with step(f"build {name}", 480):
                        compile_commit(c, [arch], image=img)
                    m = check.guest_machine(arch, smt8=True)
                    r = boot.run_job(m, img, check.JOB_SMT, limit=600,
                                     name=f"bisect-{i}-{m.name()}")
                if r.status:
                    raise LabError(f"the job ended with {r.status}")
            except LabError as e:
                rep.add(name, False, e)
                continue
            state[key] = "ok"
            write_atomic(state_file, json.dumps(state))
            rep.add(name, True)
    return rep.finish()
