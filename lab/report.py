# SPDX-License-Identifier: GPL-2.0
"""Results on the terminal: a line for each and 'N passed, N failed' in the
end. As a plugin of pytest it makes a boot with many results many tests of
their own, each with its name in the lines, the count and the junit XML."""

import pathlib
import signal
import sys
import textwrap

import pytest

from . import common

MOST = 40                       # lines of a failure that are shown


class Report:
    """Prints results and counts them."""

    def __init__(self):
        self.passed = self.failed = 0

    def add(self, name, ok, detail=""):
        self.passed += bool(ok)
        self.failed += not ok
        self.line("pass" if ok else "FAIL", name,
                  "" if ok else str(detail).splitlines()[:MOST])

    @staticmethod
    def line(what, name, more=()):
        """One result, at 80 columns."""
        name = textwrap.fill(f"{what}  {name}", 80, subsequent_indent=6 * " ",
                             break_on_hyphens=False)
        # at once: others write as well
        sys.stdout.write("".join(f"{x}\n" for x in (
            name, *(f"      {x}" for x in more))))
        sys.stdout.flush()

    def finish(self):
        """The last line; the exit status, which is that of a failure without
        any result."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


# ---- pytest -------------------------------------------------------------

OPTIONS = {"--arch": "the only architecture", "--full": "selftests in full "
           "length", "--record": "keep results in bench/results/",
           "--cycles": "of the leak loop", "--budget": "seconds that are left",
           "--lines": "print as 'make test' does; write the sums there"}


def pytest_addoption(parser):
    group = parser.getgroup("lab")
    for name, text in OPTIONS.items():
        flag = name in ("--full", "--record")
        group.addoption(name, help=text, default="",
                        **({"action": "store_true"} if flag else {}))


def _interrupt(signum, frame):
    raise KeyboardInterrupt


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # guests and compilers end with who started them
    signal.signal(signal.SIGTERM, _interrupt)
    worker = hasattr(config, "workerinput")
    if not worker:
        config.pluginmanager.register(Names())
    if config.getoption("lines") and not worker:
        # before it is there
        config.pluginmanager.set_blocked("terminalreporter")
        config.pluginmanager.register(Lines(config.getoption("lines")))


def pytest_unconfigure():
    common.end_children()


class Results:
    """The report of functions that give many results: add() makes a test of
    each. 'used' says whether there was one."""

    def __init__(self, item):
        self.item, self.used = item, False

    def add(self, name, ok, detail=""):
        self.used = True
        detail = "" if ok else str(detail) or "it is not so"
        self.item.ihook.pytest_runtest_logreport(report=pytest.TestReport(
            self.item.nodeid, self.item.location, {},
            "passed" if ok else "failed", detail or None, "call",
            lab_name=name))


@pytest.fixture
def rep(request):
    request.node.lab_results = Results(request.node)
    return request.node.lab_results


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Those which take long show how far they are."""
    capture = pyfuncitem.config.pluginmanager.getplugin("capturemanager")
    if "rep" not in pyfuncitem.fixturenames:
        return (yield)
    with capture.global_and_fixture_disabled():
        return (yield)


def left_out(why):
    """End a test which may skip: that is told, and is no failure."""
    pytest.skip(f"left out: {why}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """The lab's own are those which say nothing else. Boots that may take long
    come first: they have the others beside them."""
    for i in items:
        if not any(i.iter_markers("quick")) and not any(
                i.iter_markers("full")):
            i.add_marker("lab")
    items.sort(key=lambda i: -getattr(getattr(i, "callspec", None), "params",
                                      {}).get("case", Untold).limit)


class Untold:
    limit = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A skip is a failure unless it is one that is told. LabError is for
    users: they get no traceback. Who gave results is none."""
    report = yield
    if call.excinfo and call.excinfo.errisinstance(common.LabError):
        report.longrepr = "\n".join(
            [str(call.excinfo.value),
             *getattr(call.excinfo.value, "lines", list)()])
    results = getattr(item, "lab_results", None)
    report.lab_none = report.passed and bool(results and results.used)
    if report.skipped and not hasattr(report, "wasxfail"):
        why = str(report.longrepr[2]).removeprefix("Skipped: ")
        report.lab_skip = why.removeprefix("left out: ")
        if why == report.lab_skip:
            report.outcome, report.longrepr = "failed", f"skipped: {why}"
    return report


def name_of(report):
    """What a result is called on the terminal."""
    name = getattr(report, "lab_name", "")
    if name:
        return name
    path, _, test = report.nodeid.partition("::")
    stem = pathlib.PurePath(path).stem
    if stem == "test_guest" and "[" in test:
        return test.partition("[")[2].rpartition("]")[0]
    return f"lab: {stem}: {test.replace('::', ': ')}"


class Names:
    """Gives each result an id of its own, which junit wants."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        name = getattr(report, "lab_name", "")
        if name:
            report.nodeid = f"{report.nodeid.partition('::')[0]}::{name}"


class Lines:
    """Instead of pytest's own terminal output."""

    def __init__(self, sums):
        self.report, self.sums = Report(), pathlib.Path(sums)

    def pytest_runtest_logreport(self, report):
        if report.failed or report.when == "call" and report.passed and \
                not getattr(report, "lab_none", False):
            if isinstance(report.longrepr, str):
                lines = report.longrepr.splitlines()
            else:               # of a traceback, its end
                lines = report.longreprtext.splitlines()[-MOST:]
            self.report.add(name_of(report), report.passed, "\n".join(
                [*lines, *report.capstdout.splitlines()[-MOST:]]))
        elif report.skipped:
            Report.line("left out", name_of(report), [report.lab_skip])

    def pytest_collectreport(self, report):
        if report.failed:
            self.report.add(f"lab: {report.nodeid}: is read", False,
                            report.longreprtext)

    def pytest_sessionfinish(self):
        self.sums.write_text(f"{self.report.passed} {self.report.failed}")
