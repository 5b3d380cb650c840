# SPDX-License-Identifier: GPL-2.0
"""KTAP, and which skips are allowed."""

import pytest

from lab import boot, judge, ktap


RUNNER = """TAP version 13
1..2
# timeout set to 45
# selftests: cpu-hotplug: a.sh
ok 1 selftests: cpu-hotplug: a.sh
# timeout set to 45
# selftests: cpu-hotplug: b.sh
# TAP version 13
# 1..3
# ok 1 one
# # it is not as it should be
# not ok 2 two
# ok 3 three # SKIP no reason
not ok 2 selftests: cpu-hotplug: b.sh # exit=1
"""


def test_ktap_nested_in_the_runner():
    got = {n.split(": ")[-1]: (s, d) for n, s, d in
           ktap.results(ktap.unprefix(RUNNER))}
    assert got["a.sh"] == got["one"] == ("pass", "")
    assert got["two"] == ("fail", "it is not as it should be")
    assert got["three"][0] == "skip"


@pytest.mark.parametrize("text", [
    "", "nothing", "TAP version 13\n1..2\nok 1 a\n",
    "TAP version 13\n1..1\nnot ok 1 a\n",
    RUNNER.replace("not ok", "ok").replace("1..3", "1..4")])
def test_ktap_missing_short_or_failing(text):
    assert any(s in ("fail", "error")
               for _, s, _ in ktap.results(ktap.unprefix(text)))


def test_every_suite_of_kunit_is_read():
    suite = "KTAP version 1\n1..1\n    KTAP version 1\n    1..1\n"
    text = (suite + "    ok 1 a\nok 1 one\n" + suite
            + "    not ok 1 b\nnot ok 1 two\n")
    assert [(n, s) for n, s, _ in ktap.results(ktap.unprefix(text))] == [
        ("one: a", "pass"), ("two: b", "fail")]
    assert any(s in ("fail", "error") for _, s, _ in ktap.results(
        ktap.unprefix(text + "KTAP version 1\n1..1\n")))


def test_skip_is_a_failure_unless_allowed(monkeypatch):
    r = boot.Result()
    r.files = {"t": RUNNER.encode()}

    def oks():
        return [ok for _, ok, _ in judge.ktaps("vm", r, "t")]
    assert (oks().count(True), oks().count(False)) == (2, 2)
    monkeypatch.setattr(judge, "SKIP_ALLOWED", [("vm", "three", "why")])
    assert (oks().count(True), oks().count(False)) == (3, 1)
