# SPDX-License-Identifier: GPL-2.0
"""Kernel images: base and patched, per architecture and profile.

Each variant has a checkout of its own in the cache, moved from commit to
commit with git so that only changed files change their times; below it are
output directories, which configurations that differ in little share. A finished image is copied
out with a description; the description decides whether make must run at
all."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from . import series
from .common import (ARCHES, LINUX, PORT, TOP, HostError, LabError, cache_dir,
                     check_arch, check_profile, digest, fresh_dir, git, locked,
                     need_packages, need_space, prune, run, say, step)

VARIANTS = ("base", "patched")
# Profiles with an output directory of their own: nearly all objects differ.
OWN_OUTPUT = ("debug", "kcsan", "rt", "scx", "tree03", "hwtest")


def fragments(arch, profile=""):
    """The configuration fragments of an architecture and profile, in order."""
    profiles = [p for p in profile.split("+") if p]
    names = ["common", arch] + [n for p in profiles
                                for n in (p, f"{arch}-{p}")]
    paths = [TOP / "configs" / f"{n}.config" for n in names]
    return [p for p in paths if p.exists() or p.stem in (arch, *profiles)]


def compiler(arch):
    """Name and version line of the compiler, without ccache."""
    need_packages(arch)
    cc = ARCHES[arch]["cross"] + "gcc"
    try:
        out = subprocess.run([cc, "--version"], capture_output=True, text=True)
    except FileNotFoundError:
        raise HostError(f"no compiler {cc} for {arch}; run 'make deps'") from None
    return out.stdout.splitlines()[0]


def jobs():
    """One more than there are CPUs."""
    return (os.cpu_count() or 1) + 1


def make_cmd(src, out, arch, *targets, extra=()):
    """The make command line for a kernel source and output directory."""
    a = ARCHES[arch]
    return ["make", "-C", src, f"O={out}", f"ARCH={a['kernel']}",
            f"CROSS_COMPILE={a['cross']}", *compilers(a["cross"]),
            "-s", f"-j{jobs()}", *extra, *targets]


def compilers(cross):
    """CC and HOSTCC for make, with ccache where it is. By name, in make_env()'s
    PATH: kbuild makes everything again when the command is another."""
    ccache = "cc.sh " if shutil.which("ccache") else ""
    return [f"CC={ccache}{cross}gcc", f"HOSTCC={ccache}gcc"]


def make_env():
    """Environment for reproducible builds through the lab's own ccache."""
    return {"PATH": f"{TOP / 'lab'}:{os.environ['PATH']}",
            "CCACHE_DIR": os.environ.get("CCACHE_DIR",
                                         str(cache_dir() / "ccache")),
            "CCACHE_MAXSIZE": "10G", "CCACHE_NOHASHDIR": "1",
            # no preprocessor for what is not there yet: a fifth of the time;
            # cc.sh has what it costs
            "CCACHE_DEPEND": "1",
            # an object with a warning is not kept: the next build, be it of
            # another profile that shares the directory, has the warning again
            # (older objtools have no such option)
            **({} if PORT else {"OBJTOOL_ARGS": "--werror"}),
            "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 2026",
            "KBUILD_BUILD_USER": "lab", "KBUILD_BUILD_HOST": "lab",
            "KBUILD_BUILD_VERSION": "1", "LC_ALL": "C"}


def wanted_commit(variant):
    """The commit of linux/ that a variant is built from. What is edited in
    linux/ and not committed yet is built too, as git stash would keep it."""
    series.check_tree()
    if variant == "base":
        return git("rev-parse", "base^{commit}", cwd=LINUX).strip()
    if series.dirty():
        with locked("stash"):       # boots side by side ask as well
            say("   (linux/ has uncommitted changes; they are built)")
            return git("stash", "create", cwd=LINUX).strip()
    return series.head()


def patch(subject):
    """The commit of a patch of the series, by its subject."""
    series.check_tree()
    for line in git("log", "--format=%H %s", "base..HEAD",
                    cwd=LINUX).splitlines():
        commit, _, have = line.partition(" ")
        if have == subject:
            return commit
    raise LabError(f"linux/ has no patch '{subject}'; has it another name now?")


def with_patch(*paths, variant="base"):
    """A commit of a variant with more patches, files, which is on no branch of
    linux/. LabError when one does not apply."""
    base = wanted_commit(variant)
    with tempfile.TemporaryDirectory() as tmp:
        kw = {"cwd": LINUX, "env": {"GIT_INDEX_FILE": f"{tmp}/index"}}
        git("read-tree", base, **kw)
        for path in paths:
            git("apply", "--cached", path, **kw)
        tree = git("write-tree", **kw).strip()
    who = {f"GIT_{w}_{k}": v for w in ("AUTHOR", "COMMITTER") for k, v in
           (("NAME", "lab"), ("EMAIL", "lab@localhost"), ("DATE", "@0 +0000"))}
    return git("commit-tree", "-p", base, "-m", " ".join(p.name for p in paths),
               tree, cwd=LINUX, env=who).strip()


def source_key(commit):
    """A digest of a commit's tree without what cannot change a kernel:
    documentation, selftests, MAINTAINERS."""
    trees = git("ls-tree", commit, "--", *_top_entries(commit),
                "tools/", cwd=LINUX)
    return digest("\n".join(t for t in trees.splitlines()
                            if not t.endswith(("\tDocumentation",
                                               "\tMAINTAINERS",
                                               "\ttools/testing"))))


def build_key(commit, arch, profile=""):
    """What an image depends on: the source, the compiler, the
    configuration."""
    return digest(source_key(commit), compiler(arch),
                  *fragments(arch, profile))


def _top_entries(commit):
    return [n for n in git("ls-tree", "--name-only", commit,
                           cwd=LINUX).splitlines() if n != "tools"]


def tree_of(commit, cwd=None):
    """The tree id of a commit: what a build depends on."""
    return git("rev-parse", f"{commit}^{{tree}}", cwd=cwd or LINUX).strip()


def slot(variant):
    """The cache's checkout for a variant."""
    return cache_dir() / "kernels" / (variant + (PORT and f"-{PORT}"))


def checkout(variant, commit):
    """Bring the variant's checkout to a commit of linux/ and return its
    path. The caller holds the lock of the variant."""
    src = slot(variant)
    if not (src / ".git").exists():
        need_space(cache_dir(), 6, "a kernel checkout and build")
        with fresh_dir(src) as tmp:
            git("init", "-q", tmp)
            git("config", "gc.auto", "0", cwd=tmp)
            alt = tmp / ".git" / "objects" / "info" / "alternates"
            alt.write_text(f"{cache_dir() / 'store.git' / 'objects'}\n")
            git("fetch", "-q", "--no-tags", LINUX, commit, cwd=tmp)
            git("checkout", "-q", "-f", "--detach", commit, cwd=tmp)
    elif git("rev-parse", "-q", "--verify", f"{commit}^{{commit}}", cwd=src,
             check=False) is None:
        git("fetch", "-q", "--no-tags", LINUX, commit, cwd=src)
    # what an interrupted run may have left
    with contextlib.suppress(FileNotFoundError):
        (src / ".git" / "index.lock").unlink()
    shutil.rmtree(src / ".git" / "rebase-apply", ignore_errors=True)
    git("checkout", "-q", "-f", "--detach", commit, cwd=src)
    return src


def _read_config(path):
    got = {}
    for line in path.read_text().splitlines():
        m = re.match(r"(CONFIG_\w+)=(.*)", line)
        if m:
            got[m[1]] = m[2]
        m = re.match(r"# (CONFIG_\w+) is not set", line)
        if m:
            got[m[1]] = "n"
    return got


def _kconfig_files(src):
    """The blobs of every Kconfig file and makefile the options come from."""
    out = git("ls-tree", "-r", "HEAD", cwd=src)
    return [x for x in out.splitlines() if "Kconfig" in x]


def _of_series(src, option):
    """Whether an option comes with a patch that this source does not have:
    linux/ knows it."""
    def known(tree):
        return git("grep", "-l", f"^config {option.removeprefix('CONFIG_')}$",
                   "HEAD", "--", "*Kconfig*", cwd=tree, check=False)
    return known(LINUX) and not known(src)


def configure(src, out, arch, profile, log):
    """Write out/.config from the fragments; raise LabError naming every
    option that the kernel did not take as asked."""
    out.mkdir(parents=True, exist_ok=True)
    frag = "".join(f.read_text() for f in fragments(arch, profile))
    frag_file = out / "lab.fragment"
    key = out / "lab.key"
    want_key = digest(frag, compiler(arch), *_kconfig_files(src))
    if (out / ".config").exists() and key.exists() and \
            key.read_text() == want_key:
        return
    key.unlink(missing_ok=True)
    frag_file.write_text(frag)
    run(make_cmd(src, out, arch, "allnoconfig") +
        [f"KCONFIG_ALLCONFIG={frag_file}"], env=make_env(), log=log)
    want, got = _read_config(frag_file), _read_config(out / ".config")
    # what hangs on an option that a later fragment takes back is gone too
    off = tuple(f"{k}_" for k, v in want.items() if v == "n")
    bad = [f"{k}={v}" for k, v in want.items()
           if got.get(k, "n") != v and not k.startswith(off)
           and not _of_series(src, k)]
    if bad and PORT:
        say(f"   Linux {PORT} does not take {', '.join(bad)}")
        bad = []
    if bad:
        raise LabError(f"the {arch} {profile or 'normal'} configuration did "
                       f"not get {', '.join(bad)}; a dependency is missing: "
                       "mend configs/")
    key.write_text(want_key)


def image_dir(variant, arch, profile="", key=""):
    """Where a finished image lives in the cache: kernel, config, meta.json.
    The key is in the name, so that clones of this repository which share a
    cache do not replace each other's images."""
    return cache_dir() / "images" / "-".join(
        x for x in (variant, arch, profile, key) if x)


def output_name(arch, profile=""):
    """The output directory in a checkout. Profiles that change little share
    one: kbuild makes again what depends on the options that differ."""
    own = [p for p in profile.split("+") if p in OWN_OUTPUT]
    return "-".join([".o", arch, *own])


def is_built(variant, arch, profile=""):
    """Whether build() has nothing to do."""
    return (wanted_image(variant, arch, profile) / "sources").exists()


def wanted_image(variant, arch, profile=""):
    """Where build() leaves what is wanted now."""
    key = build_key(wanted_commit(variant), arch, profile)
    return image_dir(variant, arch, profile, key)


def warnings_in(text):
    """Compiler and tool warnings in a build log, without duplicates."""
    pat = re.compile(r"^(?:.*: )?(?:warning|WARNING|error):? .*|.*: warning: .*")
    seen = []
    for line in text.splitlines():
        if (pat.match(line) or ": warning:" in line) and line not in seen:
            seen.append(line)
    return seen


def _up_to_date(dest, key, name):
    try:
        os.utime(dest)              # prune() is to spare it
        meta = json.loads((dest / "meta.json").read_text())
        if meta["key"] != key or not (dest / "sources").exists():
            return False
    except (OSError, ValueError, KeyError):
        return False
    say(f"   kernel {name}: {meta['release']} is up to date")
    return True


def sources_in(src, out):
    """The files, relative to the source, which what is linked into out's vmlinux
    was made from, as kbuild noted it. Only of that: what another configuration
    has left in a shared output directory is none of it."""
    found = set()
    for archive in [out / "vmlinux.a", *out.rglob("lib.a")]:
        for member in run(["ar", "t", archive], cwd=out)[1].splitlines():
            # of a thin archive a path, of lib.a a name
            o = out / member if "/" in member else archive.parent / member
            found.update(re.findall(
                r"[\w./+-]+\.(?:[chS]|dts|lds)\b",
                o.with_name(f".{o.name}.cmd").read_text(errors="replace")))
    # as in "kernel/time/../smpboot.h", by who includes that
    return sorted({os.path.relpath(os.path.join(out, p), src) for p in found})


def build(variant, arch, profile="", commit=None):
    """Build one image unless it is there already; return its directory.

    Raises LabError when the build fails; meta.json in the directory has the
    release, tree, configuration hash, compiler and the build's warnings, and
    'sources' the files that it was made from, one per line."""
    check_arch(arch)
    check_profile(profile, arch)
    commit = commit or wanted_commit(variant)
    tree = tree_of(commit)
    key = build_key(commit, arch, profile)
    dest = image_dir(variant, arch, profile, key)
    name = f"{variant} {arch}" + (f" {profile}" if profile else "")
    if _up_to_date(dest, key, name):
        return dest
    with locked(f"kernel-{slot(variant).name}"):
        if _up_to_date(dest, key, name):
            return dest
        need_space(cache_dir(), 3, "a kernel build")
        with step(f"kernel {name}", {"": 420, "debug": 900, "kcsan": 700}.get(
                profile.split("+")[0], 600)):
            src = checkout(variant, commit)
            out = src / output_name(arch, profile)
            log = cache_dir() / "logs" / f"build-{name.replace(' ', '-')}.log"
            log.parent.mkdir(exist_ok=True)
            log.write_bytes(b"")
            configure(src, out, arch, profile, log)
            a = ARCHES[arch]
            cmd = make_cmd(src, out, arch, a["image"],
                           extra=[f"LOCALVERSION=-{variant}"])

            def objects(gone):
                # -newermt: not those that another configuration left there
                _, found = run(["find", out, "-name", "*.o", "-newermt",
                                f"@{time.time() - gone:.0f}"], check=False)
                return f"{found.count(chr(10))} objects"
            _, text = run(cmd, env=make_env(), log=log, heartbeat=objects)
            release = (out / "include/config/kernel.release").read_text().strip()
            with fresh_dir(dest) as tmp:
                shutil.copy2(out / a["path"], tmp / "kernel")
                shutil.copy2(out / ".config", tmp / "config")
                if arch == "ppc64le":
                    run([a["cross"] + "strip", "-s", tmp / "kernel"])
                shutil.copy2(out / "System.map", tmp / "System.map")
                (tmp / "sources").write_text("\n".join(sources_in(src, out)))
                if "scx" in profile.split("+"):
                    # the types, which BPF programs are compiled with
                    run([a["cross"] + "objcopy", "-O", "binary",
                         "--only-section=.BTF", out / "vmlinux", tmp / "btf"])
                (tmp / "meta.json").write_text(json.dumps({
                    "key": key, "variant": variant, "arch": arch,
                    "profile": profile, "release": release, "tree": tree,
                    "config_hash": digest(out / ".config"),
                    "compiler": compiler(arch),
                    "warnings": warnings_in(text)}, indent=1))
    prune(dest.parent, dest)
    return dest


def build_all(arches, variants=VARIANTS, profile=""):
    """Build several images; returns {(variant, arch): directory}."""
    return {(v, a): build(v, a, profile) for a in arches for v in variants}
