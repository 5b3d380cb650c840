# SPDX-License-Identifier: GPL-2.0
"""What 'make litmus' decides without herd7."""

import pytest

from lab import litmus

NEVER = "C x\n\n(*\n * Result: Never\n *\n * Text.\n *)\n"
SAID = "Test x Allowed\nStates 3\nNo\nObservation x Never 0 3\nTime x 0.01\n"


@pytest.mark.parametrize("text,said,ok", [
    (NEVER, SAID, True),
    (NEVER, SAID.replace("Never 0 3", "Sometimes 1 2"), False),
    (NEVER.replace("Never", "Sometimes"), SAID, False),
    ("C x\n", SAID, False),
    (NEVER, "File x: unexpected 'rcu_read_lock'\n", False),
    (NEVER, "", False)])
def test_the_answer_has_to_be_what_the_test_says(text, said, ok):
    assert litmus.judged(text, said)[0] == ok
    assert ok or litmus.judged(text, said)[1]


@pytest.mark.parametrize("answer,good", [("Never", 3), ("Sometimes", 0)])
def test_a_model_that_forbids_or_allows_all_is_wrong(
        gives, monkeypatch, tmp_path, answer, good):
    names = [f"{litmus.TESTS}/{n}.litmus" for n in "abc"]

    def run(cmd, cwd=None, check=True):
        if cmd[0] == "tar":
            for n in names:
                out = next((tmp_path).glob(".litmus*.part")) / n
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_text(NEVER)
        if cmd[0] == "herd":
            return 0, SAID.replace("Never", answer)
        return 0, ""
    monkeypatch.setattr(litmus, "run", run)
    monkeypatch.setattr(litmus, "herd", lambda: ["herd"])
    monkeypatch.setattr(litmus, "tests", lambda commit: names)
    monkeypatch.setattr(litmus, "cache_dir", lambda: tmp_path)
    said = gives(litmus)
    assert len(said) == 4 and sum(ok for _, ok in said) == good
    assert not said[-1][1]


def test_no_tests_is_an_error(gives, monkeypatch):
    monkeypatch.setattr(litmus, "herd", lambda: ["herd"])
    monkeypatch.setattr(litmus, "tests", lambda commit: [])
    with pytest.raises(litmus.LabError, match="part 15"):
        gives(litmus)
