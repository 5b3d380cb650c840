# SPDX-License-Identifier: GPL-2.0
"""What a result depends on of the series: the code that it changes, without
comments, as far as it is compiled for the kernels that were booted. A driver of
another architecture, or a comment, does not make a result stale; __LINE__ in a
warning may be another one then. Nor do KUnit tests, which are idle where nobody
runs them: who does has kunit() among its inputs."""

import functools
import json
import re
import subprocess

from . import kernels
from .common import ARCHES, TOP, LabError, digest, git, write_atomic

# {architecture: {profile: [path]}}: what the series changes and kbuild does not
# compile for it, by 'make kernels NOTE=1'; 'make test' looks whether it is so.
UNBUILT = TOP / "lab" / "unbuilt.json"
NO_CODE = re.compile(r"Documentation/|MAINTAINERS$|tools/testing/|.*_test\.c$")
KUNIT = re.compile(r".*_test\.c$")
# Compiled, but not into vmlinux.a
INDIRECT = re.compile(r"arch/\w+/(boot|realmode|purgatory|entry/vdso|kernel/vdso)/|"
                      r"arch/\w+/kernel/asm-offsets|kernel/(bounds|sched/rq-offsets)"
                      r"\.c$|lib/vdso/")
# A literal, or a comment, of C. An apostrophe that begins no literal is left.
C = re.compile(r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'|"
               r"/\*.*?\*/|//[^\n]*", re.S)


def without_comments(text):
    """C, line by line, without comments, indentation and empty lines."""
    text = C.sub(lambda m: " " if m[0][0] == "/" else m[0], text)
    return "\n".join(filter(None, (" ".join(x.split()) if '"' not in x else
                                   x.strip() for x in text.splitlines())))


@functools.cache
def _of_blob(blob, is_c):
    data = subprocess.run(["git", "cat-file", "blob", blob], cwd=kernels.LINUX,
                          check=True, capture_output=True).stdout
    return digest(without_comments(data.decode(errors="replace"))) if is_c else blob


@functools.cache
def changed(commit, kunit=False):
    """{path: blob} of the code that a commit of linux/ has other than the base;
    a file that is gone has zeros. kunit: of the KUnit tests instead."""
    out = {}
    for line in git("diff-tree", "-r", "--no-renames", "base", commit,
                    cwd=kernels.LINUX).splitlines():
        meta, path = line.split("\t", 1)
        if KUNIT.match(path) if kunit else not NO_CODE.match(path):
            out[path] = meta.split()[3]
    return out


@functools.cache
def noted():
    """{architecture: {profile: paths}} of UNBUILT."""
    return {arch: {p: frozenset(paths) for p, paths in by.items()}
            for arch, by in json.loads(UNBUILT.read_text()).items()}


def matters(path, arch, profile):
    """Whether a file can be in the kernel of an architecture (of ARCHES, or as
    the kernel's directory is called) and profile. What is not known is."""
    return not _elsewhere(path, arch) and \
        path not in noted().get(arch, {}).get(profile, ())


def _elsewhere(path, arch):
    """Whether a file is in the directory of another architecture."""
    if not path.startswith("arch/") or path.count("/") < 2:
        return False
    a = ARCHES.get(arch, {"kernel": arch})["kernel"]
    return path.split("/")[1] != {"x86_64": "x86"}.get(a, a)


def key(commit, of=()):
    """The digest of a commit's code, as far as it is in the kernels 'of', pairs
    of architecture and profile; all of it, KUnit tests as well, without."""
    commit = git("rev-parse", f"{commit}^{{commit}}", cwd=kernels.LINUX).strip()
    return digest(kernels.tree_of("base"), *(
        f"{path} {blob.strip('0') and _of_blob(blob, path[-2:] in ('.c', '.h'))}"
        for path, blob in sorted({**changed(commit), **(
            {} if of else changed(commit, True))}.items())
        if not of or any(matters(path, *x) for x in of)))


def kunit(commit):
    """The digest of a commit's KUnit tests, without comments."""
    commit = git("rev-parse", f"{commit}^{{commit}}", cwd=kernels.LINUX).strip()
    return digest(*(f"{path} {_of_blob(blob, True)}"
                    for path, blob in sorted(changed(commit, True).items())))


def compiled(arch, profile):
    """The files that the image of a profile, which is built, was made from."""
    return set((kernels.wanted_image("patched", arch, profile) / "sources")
               .read_text().splitlines())


def unbuilt(arch, profile):
    """What the series changes and the build of a profile, which has been made,
    has not compiled. Only C: of others nobody keeps a list."""
    if not kernels.is_built("patched", arch, profile):
        raise LabError(f"the kernel for {arch} '{profile}' is not built; 'make "
                       f"kernels ARCH={arch} PROFILE={profile}' does")
    done = compiled(arch, profile)
    return sorted(p for p in changed(kernels.wanted_commit("patched"))
                  if p[-2:] in (".c", ".h") and not _elsewhere(p, arch)
                  and not INDIRECT.match(p) and p not in done)


def note(arches, profile):
    """Note in UNBUILT what the builds of a profile have not compiled."""
    doc = json.loads(UNBUILT.read_text())
    for arch in arches:
        doc.setdefault(arch, {})[profile] = unbuilt(arch, profile)
    write_atomic(UNBUILT, json.dumps(doc, indent=1, sort_keys=True) + "\n")
