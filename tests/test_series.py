# SPDX-License-Identifier: GPL-2.0
"""linux/ and patches/: the round trip, and that nothing is lost."""

import hashlib
import os
import re
import tarfile

import pytest

from conftest import MAKEFILE, sh
from lab import common, series, source
from lab.common import TOP, LabError

README = (TOP / "README.md").read_text()


def files(toy):
    """{path: bytes} of patches/."""
    return {series.within(p): p.read_bytes()
            for p in toy.patches.rglob("*.patch")}


def changed(toy, n):
    lines = (toy.src / "core.c").read_text().splitlines(True)
    lines[n] = f"changed {n}\n"
    return "".join(lines)


def test_round_trip_is_exact(toy):
    series.make_tree(toy.src)
    toy.commit("core.c", changed(toy, 5), "core: Change a line\n\nBecause.")
    toy.commit("new.c", "new\n", "core: Add a file\n\nIt is needed.")
    assert series.make_patches() == 2
    first = files(toy)
    sh("rm", "-rf", str(toy.linux))
    series.make_tree(toy.src)
    assert series.round_trip() == []
    series.make_patches()
    assert files(toy) == first


def test_git_tree_tarball_and_directory_are_the_same_base(toy, tmp_path):
    series.make_tree(toy.src)
    tree = sh("git", "rev-parse", "base^{tree}", cwd=toy.linux)
    tar = tmp_path / "l.tar.xz"
    with tarfile.open(tar, "w:xz") as t:
        t.add(toy.src, "linux-7.3.4")
    a, _ = source.get(str(tar))
    sh("git", "init", "-q", str(toy.src))
    sh("git", "add", "-A", cwd=toy.src)
    sh("git", "-c", "user.name=T", "-c", "user.email=t@example.org", "commit",
       "-qm", "x", cwd=toy.src)
    b, _ = source.get(str(toy.src))
    assert a == b and tree.strip()[:12] in a
    assert source.tag_version(a) == "7.3.4"


def test_an_import_that_was_ended_leaves_nothing_for_good(toy):
    pack = source.store() / "objects" / "pack"
    (pack / "tmp_pack_x").write_text("half")
    (pack / "pack-whole.keep").touch()
    source.get(str(toy.src))
    names = {p.name for p in pack.iterdir()}
    assert "tmp_pack_x" not in names and "pack-whole.keep" in names


@pytest.mark.parametrize("relative", [False, True])
def test_a_directory_in_another_repository_is_a_source(toy, monkeypatch,
                                                       relative):
    sh("git", "init", "-q", str(toy.src.parent))
    monkeypatch.chdir(toy.src.parent)
    tag, _ = source.get("src" if relative else str(toy.src))
    assert tag.startswith("base-7.3.4-")


def test_a_bare_repository_is_a_source(toy, tmp_path):
    sh("git", "init", "-q", str(toy.src))
    sh("git", "add", "-A", cwd=toy.src)
    sh("git", "-c", "user.name=T", "-c", "user.email=t@example.org", "commit",
       "-qm", "x", cwd=toy.src)
    sh("git", "clone", "-q", "--bare", str(toy.src), str(tmp_path / "b.git"))
    assert source.get(str(tmp_path / "b.git"))[0] == source.get(
        str(toy.src))[0]


def three_patches(toy):
    series.make_tree(toy.src)
    for name in ("a.c", "b.c", "c.c"):
        toy.commit(name, "one\n", f"{name}: Add it\n\nIt is needed.")
    toy.commit("core.c", changed(toy, 5), "core: Change a line\n\nBecause.")
    toy.commit("d.c", "one\n", "d: Add it\n\nIt is needed.")
    assert series.make_patches() == 5


def test_patch_that_does_not_apply_is_named_and_the_others_are_kept(toy):
    three_patches(toy)
    (toy.src / "core.c").write_text("another file\n")
    sh("rm", "-rf", str(toy.linux))
    with pytest.raises(LabError) as e:
        series.make_tree(toy.src)
    text = str(e.value)
    assert "0004-core-Change-a-line.patch" in text and "core.c:" in text
    assert "git am --continue" in text and "\n" not in text
    # linux/ is left to be mended, and nothing builds it until it is
    with pytest.raises(LabError, match="middle of a git am"):
        series.check_tree()
    (toy.linux / "core.c").write_text("another file\nchanged 5\n")
    sh("git", "add", "-A", cwd=toy.linux)
    sh("git", "-c", "user.name=T", "-c", "user.email=t@example.org", "am",
       "--continue", cwd=toy.linux)
    assert series.make_patches() == 5
    assert len(series.patch_files()) == 5


def test_an_empty_patch_is_named(toy):
    three_patches(toy)
    (toy.patches / "00-toy/0003-c.c-Add-it.patch").write_text("")
    with pytest.raises(LabError, match="^00-toy/0003-c.c-Add-it.patch is no "):
        series.make_tree(toy.src)


@pytest.mark.parametrize("name", ["00-toy/mine.patch", "0001-x.patch",
                                  "new/0001-x.patch"])
def test_a_file_that_is_no_patch_of_a_part_is_not_lost(toy, name):
    three_patches(toy)
    mine = toy.patches / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("x")
    with pytest.raises(LabError, match=f"^{name} is no patch of a part"):
        series.make_patches()
    assert mine.read_text() == "x"


def test_interrupted_refresh_is_not_used(toy, monkeypatch):
    three_patches(toy)
    series.make_tree(toy.src)
    p = toy.patches / "00-toy/0005-d-Add-it.patch"
    p.write_text(p.read_text().replace("It is needed", "It is wanted"))
    real = series.apply

    def interrupt(tree):
        sh("git", "am", "-q", str(series.patch_files()[0]), cwd=tree)
        raise KeyboardInterrupt
    monkeypatch.setattr(series, "apply", interrupt)
    with pytest.raises(KeyboardInterrupt):
        series.make_tree(toy.src)
    with pytest.raises(LabError, match="half made"):
        series.check_tree()
    with pytest.raises(LabError, match="half made"):
        series.make_patches()
    monkeypatch.setattr(series, "apply", real)
    series.make_tree(toy.src)
    assert series.round_trip() == []


def test_other_base_of_the_same_version_is_no_difference(toy):
    three_patches(toy)
    before = files(toy)
    (toy.src / "core.c").write_text(
        "new at the top\n" + (toy.src / "core.c").read_text())
    (toy.src / "Makefile").write_text(
        MAKEFILE.replace("SUBLEVEL = 4", "SUBLEVEL = 5"))
    assert series.make_tree(toy.src) == "7.3.5"
    assert series.round_trip() == []
    series.make_patches()
    assert files(toy) == before
    toy.commit("d.c", "two\n", "d: Change it\n\nIt is needed.")
    assert "00-toy/0006-d-Change-it.patch" in series.round_trip()


def test_untracked_files_in_linux_are_not_deleted(toy):
    series.make_tree(toy.src)
    (toy.linux / "idea.c").write_text("untracked\n")
    (toy.src / "core.c").write_text("another base\n")
    with pytest.raises(LabError, match="make patches"):
        series.make_tree(toy.src)
    assert (toy.linux / "idea.c").exists()


def test_work_in_linux_is_never_lost(toy, tmp_path):
    series.make_tree(toy.src)
    toy.commit("core.c", changed(toy, 5), "core: Change a line\n\nBecause.")
    series.make_patches()
    toy.commit("core.c", changed(toy, 7), "core: Not exported\n\nBecause.")
    series.make_tree(toy.src)           # nothing to do: leaves it alone
    assert "Not exported" in sh("git", "log", cwd=toy.linux)
    (toy.patches / "00-toy/0001-core-Change-a-line.patch").unlink()
    with pytest.raises(LabError, match="make patches"):
        series.make_tree(toy.src)
    series.make_tree(toy.src, force=True)
    saved = list(tmp_path.glob("linux.saved-*"))
    assert "Not exported" in sh("git", "log", cwd=saved[0])
    assert "Not exported" not in sh("git", "log", cwd=toy.linux)


def test_new_patches_are_applied_over_an_unedited_tree(toy):
    series.make_tree(toy.src)
    toy.commit("core.c", changed(toy, 5), "core: Change a line\n\nBecause.")
    series.make_patches()
    sh("git", "reset", "-q", "--hard", "base", cwd=toy.linux)
    series._state_file().write_text(
        series._state_file().read_text().replace(series._series_key(), "old"))
    st = series._state()
    st["head"] = series.head()
    series.write_atomic(series._state_file(), __import__("json").dumps(st))
    series.make_tree(toy.src)
    assert "Change a line" in sh("git", "log", cwd=toy.linux)


def test_an_unfinished_am_is_named_with_the_way_out(toy):
    """Whatever else changed: 'make patches', which also needs it finished,
    would be the wrong advice."""
    series.make_tree(toy.src)
    (toy.linux / ".git" / "rebase-apply").mkdir()
    (toy.patches / "00-toy").mkdir(exist_ok=True)
    (toy.patches / "00-toy/0001-x.patch").write_text("From: nobody\n")
    for todo in (lambda: series.make_tree(toy.src), series.check_tree,
                 series.make_patches):
        with pytest.raises(LabError, match="git am --continue.*FORCE=1"):
            todo()


def test_fixups_and_merges_are_refused(toy):
    series.make_tree(toy.src)
    toy.commit("core.c", changed(toy, 5), "core: Change a line\n\nBecause.")
    toy.commit("core.c", changed(toy, 6), "fixup! core: Change a line")
    with pytest.raises(LabError, match="autosquash"):
        series.make_patches()


def test_interrupted_tree_is_not_used(toy, monkeypatch):
    def interrupt(tree):
        raise KeyboardInterrupt
    monkeypatch.setattr(series, "apply", interrupt)
    with pytest.raises(KeyboardInterrupt):
        series.make_tree(toy.src)
    assert not toy.linux.exists()
    assert not list(toy.linux.parent.glob(".linux.*"))


@pytest.mark.parametrize("what, says", [
    ("missing", "does not exist"), ("empty", "no kernel source"),
    ("old", "is Linux 6.12"), ("broken", "cannot unpack")])
def test_bad_source(toy, tmp_path, what, says):
    p = tmp_path / "given"
    if what == "broken":
        p.write_bytes(b"no tarball")
    elif what != "missing":
        p.mkdir()
    if what == "old":
        (p / "Makefile").write_text(
            MAKEFILE.replace("= 7", "= 6").replace("= 3", "= 12"))
    with pytest.raises(LabError, match=says) as e:
        source.get(str(p))
    assert "\n" not in str(e.value)


def test_debian_gitignore_is_cut_in_the_import_only(toy):
    tail = ("\n#\n# Debian packaging: ignore everything at the top level, "
            "since it isn't\n# included in our repository\n#\n/*\n!/debian/\n")
    (toy.src / ".gitignore").write_text("*.o\n" + tail)
    series.make_tree(toy.src)
    assert (toy.linux / ".gitignore").read_text() == "*.o\n"
    assert (toy.src / ".gitignore").read_text() == "*.o\n" + tail


@pytest.fixture
def offers(toy, monkeypatch):
    """Suites that offer toy kernels: {minor: makefile, or None for one that
    is listed but not served}."""
    def set_offers(what):
        def fetch(minor, suite):
            if what[minor] is None:
                return None
            if what[minor] == "broken":
                raise LabError("cannot unpack it")
            (toy.src / "Makefile").write_text(
                MAKEFILE.replace("PATCHLEVEL = 3", f"PATCHLEVEL = {minor}"))
            (toy.src / "core.c").write_text(what[minor])
            return source._import_tree(toy.src, "toy"), f"toy 7.{minor}"
        monkeypatch.setattr(source, "_debian_offers", lambda: [
            (m, "toy") for m in sorted(what, reverse=True)])
        monkeypatch.setattr(source, "_from_debian", fetch)
        monkeypatch.setattr(source, "_from_kernel_org", lambda: None)
    return set_offers


def test_no_source_at_all(toy, offers):
    offers({})
    with pytest.raises(LabError, match="LINUX="):
        series.make_tree()


@pytest.mark.parametrize("offer", [None, "broken"])
def test_stale_or_broken_offer_is_skipped(toy, offers, offer):
    offers({3: offer})
    with pytest.raises(LabError, match="LINUX="):
        series.make_tree()


def test_wanted_version_wins_over_newer_ones(toy, offers):
    offers({3: "a\n", 5: "b\n"})
    assert series.make_tree() == "7.3.4"


def test_newest_other_version_that_all_patches_fit(toy, offers, capfd):
    good = (toy.src / "core.c").read_text()
    series.make_tree(toy.src)
    toy.commit("core.c", changed(toy, 5), "core: Change a line\n\nBecause.")
    series.make_patches()
    sh("rm", "-rf", str(toy.linux))
    offers({2: good, 5: good + "more\n", 6: "all is new\n"})
    assert series.make_tree() == "7.5.4"
    err = capfd.readouterr().err
    assert "toy 7.6: 00-toy/0001-core-Change-a-line.patch does not apply" in err
    assert "WARNING" in err
    offers({6: "all is new\n"})
    with pytest.raises(LabError, match="the series fits"):
        source.get(misfit=series.misfit)


APT = """#!/bin/sh
# as apt-private.sh is called: DIR ARCH SUITE -- COMMAND...
echo "$3 $6" >> {log}
case "$3 $6" in
"down update") echo "E: Failed to fetch"; exit 100 ;;
*search) echo "linux-source-7.3 - Linux kernel source for version 7.3" ;;
"stale download") echo "E: 404 Not Found"; exit 100 ;;
"good download") cp {deb} "$1"/linux-source-7.3_7.3.4-1_all.deb ;;
esac
"""
CURL = """#!/bin/sh
for last; do out=$to to=$last; done
echo "curl ${{last##*/}}" >> {log}
case "$last" in
*snapshot*) exec cp {snapshot} "$out" ;;
*/) echo '<a href="linux-7.3.tar.xz"> <a href="linux-7.3.4.tar.xz">' ;;
*) cp {tar} "$out" ;;
esac
exit $(cat {status})
"""


@pytest.fixture
def mirrors(toy, tmp_path, monkeypatch):
    """Debian's suites down, stale and good, and kernel.org, all served from
    here; .log is who was asked for what, .kernel_org(False) takes it away."""
    tar = tmp_path / "linux-source-7.3.tar.xz"
    sh("tar", "-C", str(tmp_path), "-cJf", str(tar), toy.src.name)
    deb = tmp_path / "deb"
    (deb / "DEBIAN").mkdir(parents=True)
    (deb / "usr" / "src").mkdir(parents=True)
    (deb / "DEBIAN" / "control").write_text(
        "Package: linux-source-7.3\nVersion: 7.3.4-1\nArchitecture: all\n"
        "Maintainer: T <t@example.org>\nDescription: toy\n")
    sh("cp", str(tar), str(deb / "usr" / "src"))
    sh("dpkg-deb", "-b", str(deb), str(tmp_path / "good.deb"))
    bin = tmp_path / "bin"
    bin.mkdir()
    at = {"log": tmp_path / "log", "deb": tmp_path / "good.deb", "tar": tar,
          "status": tmp_path / "status", "snapshot": tmp_path / "snapshot"}
    for name, text in ("apt", APT), ("curl", CURL):
        (bin / name).write_text(text.format(**at))
        (bin / name).chmod(0o755)
    monkeypatch.setattr(common, "APT", bin / "apt")
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")

    class Mirrors:
        def log(self):
            return at["log"].read_text().split("\n")[:-1]

        def kernel_org(self, works):
            at["status"].write_text("0" if works else "22")

        def snapshot(self, data):
            at["snapshot"].write_bytes(data)

        def suites(self, *names):
            monkeypatch.setattr(source, "SUITES", names)
    m = Mirrors()
    m.kernel_org(True)
    return m


def test_a_suite_that_fails_or_is_stale_is_skipped(toy, mirrors, capfd):
    mirrors.suites("down", "stale", "good")
    tag, origin = source.get()
    assert tag.startswith("base-7.3.4-") and origin.startswith("Debian good")
    assert mirrors.log() == ["down update", "stale update", "stale search",
                             "stale download", "good update", "good search",
                             "good download"]
    err = capfd.readouterr().err
    assert "down: skipped" in err and "stale: linux-source-7.3 is listed" in err
    # what was got is not asked for again
    assert source.get() == (tag, "cache") and len(mirrors.log()) == 7


def test_kernel_org_is_asked_when_debian_has_none(toy, mirrors):
    mirrors.suites("down", "stale")
    tag, origin = source.get()
    assert tag.startswith("base-7.3.4-")
    assert origin == "kernel.org linux-7.3.4"
    assert mirrors.log()[-3:] == [
        f"curl {source.SNAPSHOT[0].rpartition('/')[2]}", "curl ",
        "curl linux-7.3.4.tar.xz"]


def test_a_server_that_says_nothing_is_given_up():
    """By curl itself, after so many seconds."""
    assert {"--connect-timeout", "--speed-limit", "--speed-time"} < {*source.CURL}


def test_a_snapshot_is_taken_if_it_is_the_file_it_was(toy, mirrors, tmp_path,
                                                      monkeypatch, capfd):
    mirrors.suites("down")
    mirrors.snapshot(b"something else")
    assert source.get()[1].startswith("kernel.org")
    assert "snapshot.debian.org: skipped" in (err := capfd.readouterr().err)
    assert "SHA-256" in err
    sh("rm", "-rf", str(tmp_path / "cache" / "sources"))
    good = (tmp_path / "good.deb").read_bytes()
    mirrors.snapshot(good)
    monkeypatch.setattr(source, "SNAPSHOT", (
        source.SNAPSHOT[0], hashlib.sha256(good).hexdigest()))
    monkeypatch.setattr(source, "_cached", lambda: None)
    assert source.get()[1].startswith("snapshot.debian.org linux-source-7.3")


def test_no_network(toy, mirrors):
    mirrors.suites("down")
    mirrors.kernel_org(False)
    with pytest.raises(LabError, match="no network.*LINUX="):
        source.get()


def test_patches_apply_as_the_readme_says(toy, tmp_path):
    line = re.search(r"^ *git -C ~/linux (am .* )\$PWD/patches/\*/\*\.patch$",
                     README, re.M)[1]
    series.make_tree(toy.src)
    toy.commit("core.c", changed(toy, 5), "core: Change a line\n\nBecause.")
    toy.commit("new.c", "new\n", "core: Add a file\n\nIt is needed.")
    series.make_patches()
    theirs = tmp_path / "theirs"
    sh("git", "clone", "-q", "-b", "base", str(toy.linux), str(theirs))
    sh("git", "config", "user.name", "T", cwd=theirs)
    sh("git", "config", "user.email", "t@example.org", cwd=theirs)
    sh("git", *line.split(), *sorted(map(str, toy.patches.glob("*/*.patch"))),
       cwd=theirs)
    assert sh("git", "rev-parse", "HEAD^{tree}", cwd=theirs) == sh(
        "git", "rev-parse", "series^{tree}", cwd=toy.linux)


def test_kernel_version():
    assert source.kernel_version(MAKEFILE) == (7, 3, 4, "")
    assert source.kernel_version("all:\n") is None
    assert source.version_string((7, 3, 0, "-rc2")) == "7.3-rc2"


# ---- parts --------------------------------------------------------------

@pytest.fixture
def two_parts(toy):
    series.make_tree(toy.src)
    toy.commit("a.c", "a\n", "a: Add it\n\nBecause.")
    toy.commit("b.c", "b\n", "b: Add it\n\nBecause.", part="01-more")
    assert series.make_patches() == 2
    return toy


def test_parts_are_branches(two_parts):
    toy = two_parts
    assert series.parts() == ["00-toy", "01-more"]
    assert sorted(files(toy)) == [
        "00-toy/0000-cover-letter.patch", "00-toy/0001-a-Add-it.patch",
        "01-more/0000-cover-letter.patch", "01-more/0001-b-Add-it.patch"]
    sh("rm", "-rf", str(toy.linux))
    series.make_tree(toy.src)
    refs = series.part_refs()
    assert list(refs) == series.parts() and series.round_trip() == []
    assert sh("git", "rev-parse", "HEAD~", "HEAD", cwd=toy.linux).split() == \
        list(refs.values())
    cover = (toy.patches / "01-more/0000-cover-letter.patch").read_text()
    assert "a.c" not in cover and "b: Add it" in cover
    assert sh("git", "rev-parse", "HEAD~^{tree}", cwd=toy.linux) in cover


def test_a_fixup_is_folded_into_its_part_with_plain_git(two_parts):
    toy = two_parts
    sh("rm", "-rf", str(toy.linux))
    series.make_tree(toy.src)       # as for somebody else, with git configured
    toy.commit("a.c", "better\n", "fixup! a: Add it", part="")
    with pytest.raises(LabError, match="unsquashed"):
        series.make_patches()
    sh("git", "-c", "user.name=T", "-c", "user.email=t@example.org",
       "-c", "sequence.editor=:", "rebase", "-q", "-i", "base", cwd=toy.linux)
    assert series.make_patches() == 2 and series.round_trip() == []
    assert b"better" in files(toy)["00-toy/0001-a-Add-it.patch"]


def test_a_commit_in_no_part_is_not_left_out(two_parts):
    two_parts.commit("c.c", "c\n", "c: Add it\n\nBecause.", part="")
    before = files(two_parts)
    with pytest.raises(LabError, match=r"in no part:\n\w+ c: Add it\n.*branch "
                                       "-f part/01-more"):
        series.make_patches()
    assert files(two_parts) == before


def test_a_part_without_a_commit_or_off_the_way_is_named(two_parts):
    def git(*args):
        sh("git", *args, cwd=two_parts.linux)
    git("branch", "part/00-two", "part/00-toy")
    with pytest.raises(LabError, match="part/00-two has no commit of its own"):
        series.make_patches()
    git("branch", "-D", "part/00-two")
    git("-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-q",
        "--amend", "-m", "b: Add it again")
    with pytest.raises(LabError, match="part/01-more is not in the history"):
        series.make_patches()


def test_parts_of_a_series_that_was_applied_by_hand(two_parts):
    """git am and git am --continue know no parts: titles tell them."""
    for part in series.parts():
        sh("git", "branch", "-D", f"part/{part}", cwd=two_parts.linux)
    assert [p for p, _, _ in series.part_ranges()] == series.parts()
    assert series.round_trip() == []


def test_find_part(two_parts):
    assert series.find_part("1") == series.find_part("01-more") == "01-more"
    with pytest.raises(LabError, match="no part '7'; use one of: 00-toy, 01"):
        series.find_part("7")


def test_the_readme_is_short():
    assert README.count("\n") <= 120


@pytest.mark.parametrize("path", [TOP / "README.md", *sorted(
    (TOP / "docs").glob("*.md")), *(TOP / "contrib").glob("*.md")],
    ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    """Files are there, and so are their headings."""
    def anchors(p):
        return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-")
                for h in re.findall(r"(?m)^#+ (.*)$", p.read_text())}
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        there = path.parent / file if file else path
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link
