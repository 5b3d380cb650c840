# SPDX-License-Identifier: GPL-2.0
"""Reading KTAP with the kernel's own parser (tools/testing/kunit)."""

import re
import sys

from .common import LINUX, LabError


def _parser():
    d = str(LINUX / "tools" / "testing" / "kunit")
    if d not in sys.path:
        sys.path.insert(0, d)
    try:
        import kunit_parser
        import kunit_printer
    except ImportError as e:
        raise LabError(f"linux/ has no KTAP parser ({e}); run 'make "
                       "tree'") from None
    return kunit_parser, kunit_printer


def unprefix(text):
    """kselftest's runner puts '# ' before what a test prints; turn that
    into KTAP's indentation so that a test's own results are read too."""
    out = []
    for line in text.replace("\r", "").splitlines():
        m = re.match(r"# ((?:# )*)(TAP version .*|KTAP version .*|1\.\.\d+.*|"
                     r"(?:not )?ok \d+ .*)$", line)
        out.append("    " * (1 + len(m[1]) // 2) + m[2] if m else line)
    return "\n".join(out)


def results(text):
    """[(name, status, detail)] of every test without subtests in KTAP texts,
    one after the other, as 'cat kunit/*/results' has them; status is 'pass',
    'fail', 'skip' or 'error', detail what a test said before it failed. An
    empty or broken text gives one 'error'."""
    return [r for part in re.split(r"^(?=K?TAP version )", text, flags=re.M)
            if part.strip() or not text.strip() for r in _results(part)]


def _results(text):
    """Of one text: the parser stops where the first one ends."""
    parser, printer = _parser()
    test = parser.parse_run_tests(text.splitlines(),
                                  printer.Printer(print=False))
    S = parser.TestStatus
    out = []

    def walk(t, path):
        name = ": ".join(path + ([t.name] if t.name else []))
        if t.subtests:
            for s in t.subtests:
                walk(s, path + ([t.name] if t.name not in ("", "main")
                                else []))
            # a plan that does not fit, a crash after the last subtest
            if t.status in (S.TEST_CRASHED, S.FAILURE_TO_PARSE_TESTS) or (
                    t.status == S.FAILURE and all(
                        s.ok_status() for s in t.subtests)):
                out.append((name or "KTAP", "fail", t.status.name))
            return
        if t.status == S.SUCCESS:
            out.append((name, "pass", ""))
        elif t.status == S.SKIPPED:
            out.append((name, "skip", t.skip_reason))
        elif t.status == S.FAILURE:
            # what it said before it failed
            out.append((name, "fail", "\n".join(
                re.sub("^(# )+", "", x.strip()) for x in t.log)))
        else:
            out.append((name or "KTAP", "error", t.status.name))

    walk(test, [])
    if test.counts.errors and not any(s in ("fail", "error")
                                      for _, s, _ in out):
        out.append(("KTAP", "error", f"{test.counts.errors} parse errors"))
    return out
