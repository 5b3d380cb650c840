# SPDX-License-Identifier: GPL-2.0
"""Where the base kernel comes from.

The wanted base is the newest Linux 7.3.y on offer. Every source ends as one
commit in a bare repository in the cache (the 'store'), tagged
base-<version>-<key of the source>, made with fixed author and date so that
the same content is the same commit everywhere.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from .common import (PORT, DiskFull, LabError, apt, apt_dir, cache_dir, digest,
                     disk_full, git, locked, need_space, run, say, step,
                     write_atomic)

WANT = tuple(map(int, re.findall(r"\d+", PORT)))[:2] or (7, 3)
# Suites in the order they are asked; all that fail are skipped.
SUITES = ("trixie",) if PORT else \
    ("trixie-backports", "forky", "sid", "forky-backports")
# the package that the series was made on, for when no suite has it any more, and
# what apt said of it
SNAPSHOT = ("https://snapshot.debian.org/archive/debian/20261123T000000Z/pool/main/"
            "l/linux/linux-source-7.3_7.3.4-1~bpo13+1_all.deb",
            "703e369ddd4cce971452f5a593ee55df3a5c10c83caf0fa0df039633ed181ee3")
# a server that says nothing any more does not hold it up for good
CURL = ("curl", "-fsSL", "--connect-timeout", "30", "--speed-limit", "1000",
        "--speed-time", "60")
_IDENT = {
    "GIT_AUTHOR_NAME": "base import", "GIT_AUTHOR_EMAIL": "base@invalid",
    "GIT_COMMITTER_NAME": "base import", "GIT_COMMITTER_EMAIL": "base@invalid",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


def store():
    """The bare repository in the cache that holds every base."""
    path = cache_dir() / "store.git"
    if not (path / "HEAD").exists():
        git("init", "-q", "--bare", path)
        git("config", "gc.auto", "0", cwd=path)
        git("config", "core.compression", "1", cwd=path)
    return path


def kernel_version(makefile):
    """(7, 3, 4, '') from the text of a kernel's top Makefile; None if the
    text is of something else."""
    vals = {}
    for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL"):
        m = re.search(rf"^{key}\s*=\s*(\d+)\s*$", makefile, re.M)
        if not m:
            return None
        vals[key] = int(m[1])
    m = re.search(r"^EXTRAVERSION\s*=\s*(\S*)\s*$", makefile, re.M)
    return (vals["VERSION"], vals["PATCHLEVEL"], vals["SUBLEVEL"],
            m[1] if m else "")


def version_string(v):
    """'7.3.4' or '7.3-rc2' for what kernel_version() returned."""
    s = f"{v[0]}.{v[1]}" + (f".{v[2]}" if v[2] else "")
    return s + v[3]


def _plain_gitignore(directory, env):
    """Debian's package ignores every file, for its own packaging; that would
    hide the new files of a patch. Take it out of the imported .gitignore."""
    ignore = directory / ".gitignore"
    if not ignore.exists():
        return
    text = ignore.read_text()
    cut = re.sub(r"\n#\n# Debian packaging:(?:(?!\n/\*\n).)*\n/\*\n"
                 r"!/debian/\n", "\n", text, flags=re.S).rstrip() + "\n"
    if cut != text:
        blob = subprocess.run(["git", "hash-object", "-w", "--stdin"],
                              input=cut, env=env, text=True, check=True,
                              capture_output=True).stdout.strip()
        subprocess.run(["git", "update-index", "--cacheinfo",
                        f"100644,{blob},.gitignore"], env=env, check=True)


def _import_tree(directory, origin):
    """Commit a directory with kernel source to the store; return its tag."""
    makefile = directory / "Makefile"
    v = kernel_version(makefile.read_text(errors="replace")) \
        if makefile.exists() else None
    if not v:
        raise LabError(f"{origin} is no kernel source tree (no version in its "
                       "Makefile); give LINUX= a kernel tree or tarball")
    if v[0] != WANT[0]:
        raise LabError(f"{origin} is Linux {version_string(v)}; the series "
                       f"is for {WANT[0]}.{WANT[1]}.y: give LINUX= such a tree")
    s = store()
    # what an import that was ended has left, gigabytes each; the caller holds
    # the lock
    for p in (s / "objects" / "pack").glob("tmp_*"):
        p.unlink()
    with tempfile.TemporaryDirectory(dir=s) as tmp:
        env = dict(_IDENT, GIT_DIR=str(s), GIT_WORK_TREE=str(directory),
                   GIT_INDEX_FILE=f"{tmp}/index")
        # one pack instead of 90000 loose objects
        p = subprocess.run(["git", "-c", "core.bigFileThreshold=1", "add",
                            "-A", "-f", "."], cwd=directory,
                           env={**os.environ, **env}, capture_output=True,
                           text=True)
        if p.returncode:
            disk_full(p.stderr, "git add", s)
            raise LabError(f"cannot read {origin} into git: "
                           f"{(p.stderr.strip().splitlines() or ['?'])[-1]}")
        _plain_gitignore(directory, {**os.environ, **env})
        tree = subprocess.run(["git", "write-tree"], check=True, text=True,
                              env={**os.environ, **env},
                              capture_output=True).stdout.strip()
    name = version_string(v)
    commit = git("commit-tree", tree, "-m", f"Linux {name}", cwd=s,
                 env=_IDENT).strip()
    tag = f"base-{name}-{tree[:12]}"
    git("update-ref", f"refs/tags/{tag}", commit, cwd=s)
    return tag


def _unpack(tarball, into):
    """Unpack a kernel tarball and return the directory with its Makefile."""
    p = subprocess.run(["tar", "-xf", str(tarball), "-C", str(into)],
                       capture_output=True, text=True)
    if p.returncode:
        disk_full(p.stderr, "tar", into)
        raise LabError(f"cannot unpack {tarball}: "
                       f"{(p.stderr.strip().splitlines() or ['?'])[0]}; "
                       "is it a complete kernel tarball?")
    tops = list(into.iterdir())
    return tops[0] if len(tops) == 1 and tops[0].is_dir() else into


def _from_user(linux):
    path = pathlib.Path(linux).expanduser().resolve()
    if not path.exists():
        raise LabError(f"LINUX={linux} does not exist; give a git tree, a "
                       "directory or a tarball of Linux 7.3")
    need_space(cache_dir(), 4, "importing a kernel tree")
    with tempfile.TemporaryDirectory(dir=cache_dir()) as tmp:
        tmp = pathlib.Path(tmp)
        if path.is_file():
            with step(f"unpacking {path}", 20):
                tree = _unpack(path, tmp)
        # what lies deeper in a repository was only unpacked there
        elif git("rev-parse", "--show-prefix", cwd=path,
                 check=False) == "\n":
            with step(f"reading HEAD of {path}", 20):
                tree = tmp / "tree"
                tree.mkdir()
                tar = tmp / "head.tar"
                git("archive", "-o", tar, "HEAD", cwd=path)
                _unpack(tar, tree)
                tar.unlink()
        else:
            tree = path
        with step(f"importing {path}", 40):
            return _import_tree(tree, f"LINUX={linux}"), f"LINUX={linux}"


def _cached():
    """The tag of the newest 7.3.y already in the store, or None. Only what
    a known source gave counts, not what LINUX= once brought."""
    index = cache_dir() / "sources"
    best = None
    for f in index.glob("*.tag") if index.exists() else ():
        tag = f.read_text().strip()
        m = re.match(r"base-(\d+)\.(\d+)(?:\.(\d+))?-", tag)
        if not m or (int(m[1]), int(m[2])) != WANT:
            continue
        if git("rev-parse", "-q", "--verify", f"refs/tags/{tag}",
               cwd=store(), check=False):
            key = (int(m[3] or 0), tag)
            best = max(best, key) if best else key
    return best[1] if best else None


def _remember(tag, origin):
    write_atomic(cache_dir() / "sources" / f"{digest(origin)}.tag", tag)


def _debian_offers():
    """Yield (minor, suite) of the linux-source-7.x packages on offer, suite
    by suite; a suite that fails is said and skipped."""
    if not shutil.which("apt-get"):
        return
    for suite in SUITES:
        st, out = apt("source", suite, "apt-get", "update")
        if st:
            last = (out.strip().splitlines() or ["?"])[-1]
            say(f"   {suite}: skipped ({last.strip()[:60]})")
            continue
        st, out = apt("source", suite, "apt-cache", "search", "--names-only",
                       rf"^linux-source-{WANT[0]}\.[0-9]+$")
        for minor in sorted({int(x) for x in re.findall(
                rf"^linux-source-{WANT[0]}\.(\d+)\b", out, re.M)}):
            yield minor, suite


def _try(what, func, *args):
    """What func returns, or None with a line said when it fails: one broken
    source must not stop the others."""
    try:
        return func(*args)
    except DiskFull:                # nor is there space for another
        raise
    except LabError as e:
        say(f"   {what}: skipped ({str(e)[:100]})")
        return None


def _from_debian(minor, suite):
    """Import a suite's linux-source package; (tag, origin), or None when it
    is listed but not served."""
    name = f"linux-source-{WANT[0]}.{minor}"
    d = apt_dir("source", suite)
    for old in d.glob("linux-source-*.deb"):
        old.unlink()
    st, out = apt("source", suite, "apt-get", "download", name)
    debs = list(d.glob("linux-source-*.deb"))
    if st or not debs:
        say(f"   {suite}: {name} is listed but not served, skipped (a stale "
            "index; it may come back in some hours)")
        return None
    tag = _import_deb(debs[0])
    version = debs[0].name.split("_")[1].replace("%3a", ":")
    for deb in debs:
        deb.unlink()
    return tag, f"Debian {suite} {name} {version}"


def _import_deb(deb):
    """Commit what is in a linux-source package to the store; return its tag."""
    need_space(cache_dir(), 4, "unpacking the kernel source")
    with tempfile.TemporaryDirectory(dir=cache_dir()) as tmp:
        tmp = pathlib.Path(tmp)
        with step("unpacking the kernel source", 15):
            (tmp / "deb").mkdir()
            run(["dpkg-deb", "-x", deb, tmp / "deb"])
            (tmp / "tree").mkdir()
            tar = next((tmp / "deb").rglob("linux-source-*.tar.xz"), None)
            if not tar:
                raise LabError(f"{deb.name} holds no source tarball; give "
                               "a kernel with LINUX=<git tree or tarball>")
            tree = _unpack(tar, tmp / "tree")
        with step("importing the kernel source into git", 40):
            return _import_tree(tree, deb.name)


def _from_snapshot():
    """The package of SNAPSHOT, if it is that; (tag, origin) or None."""
    url, want = SNAPSHOT
    with tempfile.TemporaryDirectory(dir=cache_dir()) as tmp:
        deb = pathlib.Path(tmp) / url.rpartition("/")[2]
        st, _ = run([*CURL, "-o", deb, url], check=False)
        if st:
            say("   snapshot.debian.org: skipped (cannot be reached)")
            return None
        with open(deb, "rb") as f:
            got = hashlib.file_digest(f, "sha256").hexdigest()
        if got != want:
            raise LabError(f"{deb.name} has the SHA-256 {got[:12]}..., not "
                           f"{want[:12]}...")
        return _import_deb(deb), f"snapshot.debian.org {deb.name}"


def _from_kernel_org():
    """The release tarball with curl; (tag, origin) or None."""
    base = f"https://cdn.kernel.org/pub/linux/kernel/v{WANT[0]}.x"
    with tempfile.TemporaryDirectory(dir=cache_dir()) as tmp:
        tmp = pathlib.Path(tmp)
        st, out = run(["curl", "-fsSL", "--max-time", "30", f"{base}/"],
                      check=False)
        subs = [int(x or 0) for x in re.findall(
            rf"linux-{WANT[0]}\.{WANT[1]}(?:\.(\d+))?\.tar\.xz", out)]
        if st or not subs:
            say("   kernel.org: skipped (cannot be reached)")
            return None
        n = max(subs)
        name = f"linux-{WANT[0]}.{WANT[1]}" + (f".{n}" if n else "")
        with step(f"{name}.tar.xz from kernel.org", 60):
            run([*CURL, "-o", tmp / "src.tar.xz", f"{base}/{name}.tar.xz"])
        (tmp / "tree").mkdir()
        tree = _unpack(tmp / "src.tar.xz", tmp / "tree")
        with step("importing the kernel source into git", 40):
            return _import_tree(tree, name), f"kernel.org {name}"


def get(linux=None, misfit=lambda tag: None):
    """Return (tag in the store, where it came from) of the base kernel.

    Asks, in this order: LINUX=, the cache, Debian's linux-source-7.3, that of
    snapshot.debian.org, kernel.org; then, with a loud warning, the newest
    other 7.x that Debian offers to which the whole series applies:
    misfit(tag) names the first patch that does not, or is None. Raises
    LabError when no source serves anything that fits."""
    with locked("source"):
        if linux:
            return _from_user(linux)
        tag = _cached()
        if tag:
            return tag, "cache"
        need_space(cache_dir(), 5, "the kernel source")
        say(f"== looking for Linux {WANT[0]}.{WANT[1]}.y")
        offers, got = [], None
        for minor, suite in _debian_offers():
            offers.append((minor, suite))
            if minor == WANT[1]:
                got = _try(suite, _from_debian, minor, suite)
            if got:
                break
        if not PORT:
            got = got or _try("snapshot.debian.org", _from_snapshot)
        got = got or _try("kernel.org", _from_kernel_org)
        if got and not tag_version(got[0]).startswith(f"{WANT[0]}.{WANT[1]}"):
            say(f"   {got[1]}: skipped, it is Linux {tag_version(got[0])}")
            got = None
        if got:
            _remember(*got)
            return got
        say(f"WARNING: nothing serves Linux {WANT[0]}.{WANT[1]}.y any more; "
            "trying the newest other one to which the series applies")
        for minor, suite in sorted(offers, key=lambda x: -x[0]):
            got = None
            if minor != WANT[1]:
                got = _try(suite, _from_debian, minor, suite)
            if not got:
                continue
            bad = misfit(got[0])
            if not bad:
                say(f"WARNING: the base is {got[1]}, for which the series "
                    "was not made")
                return got
            say(f"   {got[1]}: {bad} does not apply, skipped")
        raise LabError(f"no source serves a Linux {WANT[0]}.{WANT[1]} (no "
                       "network, or the mirrors are down), nor a newer one "
                       "that the series fits; give one with LINUX=<git tree "
                       "or tarball>")


def tag_version(tag):
    """'7.3.4' of base-7.3.4-0123456789ab."""
    return tag.split("-", 1)[1].rsplit("-", 1)[0]
