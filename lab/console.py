# SPDX-License-Identifier: GPL-2.0
"""Reading a kernel's console: what must make a run fail."""

import dataclasses
import re

# Beginnings of what a healthy boot never prints. The kernel's own list for
# rcutorture (console-badness.sh) is the model.
BAD = re.compile(
    r"Kernel panic - not syncing|Oops[: ]|\bBUG: |kernel BUG at|WARNING: |"
    r"Badness |Unable to handle kernel|general protection fault|"
    r"detected (?:expedited )?stalls on CPUs/tasks|self-detected stall on CPU|"
    r"rcu_.*kthread starved|soft lockup|[hH]ard LOCKUP|PANIC: |"
    r"INFO: task .* blocked for more than|possible (?:circular|recursive) "
    r"locking|inconsistent lock state|lock held when returning|suspicious "
    r"RCU usage|sleeping function called from invalid|scheduling while "
    r"atomic|bad unlock balance|ODEBUG: |KASAN: |KCSAN: |UBSAN: |"
    r"possible .*deadlock|DEBUG_LOCKS_WARN_ON|"
    r"CPU ?\d+ (?:failed to (?:die|report)|.*didn't die)|"
    r"Processor \d+ is stuck|LAB-FATAL|"
    r"hung while offline|Call Trace:|Call trace:|==========")

# What the unpatched kernel prints too and is no fault of anybody here:
# (pattern, reason). Keep it short; every line here is a blind spot.
ALLOWED = [
    (re.compile(r"WARNING: Spectre v2|Spectre V2 : WARNING|"
                r"WARNING: .*(?:Unpriv|unpriv).*eBPF"),
     "mitigation notes, printed for QEMU's CPU models"),
]

# Data races of the unpatched kernel which KCSAN reports when CPUs come and go,
# in code that the series does not touch: what it says after "data-race in".
KNOWN_RACES = {
    "kernfs_refresh_inode / kernfs_refresh_inode": "inode of a sysfs file",
    "set_nlink / set_nlink": "the same",
    "hrtimer_run_queues / hrtimer_run_queues":
        "CPUs that switch to high resolution write the same hrtimer_resolution",
}
_RACE = re.compile(r"BUG: KCSAN: data-race in (.*\S)")
_RULE = re.compile(r"^(?:\[[^]]*\] ?)?=+$")


def is_bad(line):
    """Whether a console line is the start of a splat."""
    return bool(BAD.search(line)) and not any(p.search(line)
                                              for p, _ in ALLOWED)


def _without_known_races(lines):
    """The lines without the reports of KNOWN_RACES, each of which is between
    two lines of '='."""
    out, i = [], 0
    while i < len(lines):
        m = i + 1 < len(lines) and _RULE.match(lines[i]) and _RACE.search(
            lines[i + 1])
        end = m and m[1] in KNOWN_RACES and next(
            (j for j in range(i + 2, min(i + 120, len(lines)))
             if _RULE.match(lines[j])), None)
        if end:
            i = end + 1
            continue
        out.append(lines[i])
        i += 1
    return out


def splats(text, before=3, after=25, most=3):
    """The splats in a console text, each as a list of lines with the lines
    around it; at most 'most' of them, overlapping ones joined."""
    lines = _without_known_races(text.replace("\r", "").split("\n"))
    out, last = [], -1
    for i, line in enumerate(lines):
        if i <= last or not is_bad(line):
            continue
        last = i + after
        out.append(lines[max(0, i - before):last + 1])
        if len(out) == most:
            break
    return out


@dataclasses.dataclass(frozen=True)
class Splats:
    """What makes a run fail. expected: a pattern of lines that do not. crash:
    the kernel is to die and another to start; only what that says counts."""
    expected: str = ""
    crash: bool = False

    def _expected(self, line):
        return self.expected and re.search(self.expected, line)

    def ends(self, line):
        """Whether the run is to end with that line."""
        return not self.crash and is_bad(line) and not self._expected(line)

    def of(self, text):
        """The splats in the whole console."""
        if self.crash:
            _, second, text = text.rpartition("Linux version")
            if not second:
                return [["no second kernel"]]
        return splats("".join(x for x in text.splitlines(True)
                              if not self._expected(x)))
