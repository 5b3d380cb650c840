# SPDX-License-Identifier: GPL-2.0
"""'make torture': boots in turn for a given time, each with something that
takes CPUs offline and online at random: the selftest stress-test.sh, SMT
switching under load, the kernel's rcutorture, locktorture and scftorture, and
the KUnit tests of CPUs that retire. The seed of the run decides about
everything that is random in it."""

import itertools
import json
import math
import random
import re
import threading
import time

from . import boot, console, guest, kernels, ktap, record, vm
from .common import (LINUX, MAIN, OUT, TOP, LabError, check_arch,
                     check_profile, digest, ending, human, say, write_atomic)
from .report import Report

# an emulated CPU may well not run for some seconds of the host
APPEND = "watchdog_thresh=60 sysctl.kernel.hung_task_timeout_secs=900"
# the kernel's own tests: what runs them, and what they may be told. onoff is
# in jiffies for rcutorture and scftorture, in seconds for locktorture.
KERNEL = {
    "rcutorture": ("rcu_torture_init", 20, (
        "torture_type=rcu", "torture_type=srcu", "torture_type=tasks",
        "torture_type=rcu gp_exp=1", "torture_type=rcu nfakewriters=8"), (
        "fwd_progress=0",)),
    "locktorture": ("lock_torture_init", 1, (
        "torture_type=percpu_rwsem_lock", "torture_type=mutex_lock",
        "torture_type=rwsem_lock", "torture_type=spin_lock_irq"),
        # it has no sums of CPUs that went and came, but tells each
        ("verbose=2",)),
    "scftorture": ("scf_torture_init", 20, (
        "use_cpus_read_lock=0", "use_cpus_read_lock=1"), ("holdoff=1",)),
}
# rcutorture's scenario TREE03: the options are in configs/tree03.config
TREE03 = "tools/testing/selftests/rcutorture/configs/rcu/TREE03.boot"
TURNS_TREE03 = ("rcutorture", "stress")
# shorter and longer turns alternate; SMT and the stress test see most bugs
TURNS = ("stress", "rcutorture", "smt", "scftorture", "stress", "locktorture",
         "retire")
# for how long CPUs stay where they are on their way: in microseconds
DELAYS = (0, 0, 200, 2000)
MACHINES = {"x86_64": (("q35", 8, 2), ("q35", 4, 2), ("q35", 8, 1)),
            "ppc64le": (("pseries", 16, 8), ("pseries", 16, 4),
                        ("pseries", 8, 2)),
            "arm64": (("virt", 16, 4), ("virt", 8, 2), ("virt", 8, 1))}
# with KASAN or KCSAN: fewer CPUs, which share the host's, do much more, and the
# checks take longest, so there are fewer of them
MACHINES_TREE03 = {"x86_64": (("q35", 16, 2),),
                   "ppc64le": (("pseries", 16, 4),),
                   "arm64": (("virt", 16, 4),)}
MACHINES_SLOW = {"x86_64": (("q35", 4, 2), ("q35", 6, 2)),
                 "ppc64le": (("pseries", 8, 4), ("pseries", 8, 8)),
                 "arm64": (("virt", 4, 2), ("virt", 6, 2))}

SCRATCH = 4 << 20               # bytes of the disk that is written and read back
JOBS = {"stress": "torture-stress", "smt": "torture-smt", "retire": "retire"}
# until the kernel powers off
WAIT = "while sleep 10; do :; done\n"


def plan(seed, n, arch, slow=False, tree03=""):
    """The boot of turn n on an architecture: a dictionary that depends on
    nothing but the arguments. tree03 are the parameters of that scenario."""
    rng = random.Random(f"{seed}/{n}/{arch}")
    turns = TURNS_TREE03 if tree03 else TURNS
    # a short run does not always leave out the last ones
    what = turns[(n + seed) % len(turns)]
    type_, cpus, threads = rng.choice([
        m for m in (MACHINES_TREE03 if tree03 else MACHINES_SLOW if slow
                    else MACHINES)[arch]
        if what != "smt" or m[2] > 1])
    # in virtual time a second with all CPUs busy takes the host ten and more
    accel = rng.choice(("icount", "mttcg"))
    if slow or tree03 or what in KERNEL or what == "retire":
        accel = "mttcg"
    seconds = 60 if accel == "mttcg" else 20
    if slow or tree03:
        seconds *= 5 if what == "stress" else 2
    p = {"turn": n, "arch": arch, "what": what,
         "machine": type_, "cpus": cpus, "threads": threads,
         "seed": rng.randrange(1 << 30), "accel": accel,
         "seconds": int(seconds),
         "faults": rng.randrange(4) > 0, "load": rng.randrange(2),
         "append": "", "lists": False}
    # a round is finished, and under load one of slow kernels would never be;
    # without it what a round compares takes longer than its writes
    p["writes"] = 6 if p["load"] else 96 if slow else 24
    if what != "retire" and (delay := rng.choice(DELAYS)):
        p["delay"] = (f"cpuhp.retire_delay_us={delay} "
                      f"cpuhp.retire_delay_phase={rng.randrange(-1, 5)}")
    if tree03:
        p["tree03"] = tree03
    if what in KERNEL:
        _, onoff, variants, more = KERNEL[what]
        p["lists"] = bool(rng.randrange(2))
        if slow and what == "locktorture":
            # as many as hold and wait for a spinlock with interrupts off leave
            # nothing to the task that moves CPUs
            more += (f"nwriters_stress={cpus // 2}",)
        args = (rng.choice(variants).split() + list(more) +
                [f"onoff_interval={onoff}", "onoff_holdoff=5",
                 "stat_interval=15", f"shutdown_secs={p['seconds']}"])
        p["append"] = " ".join(f"{what}.{x}" for x in args)
    if tree03 and rng.randrange(2):
        # with these CPUs go and come one by one
        p["tree03"] = " ".join(x for x in tree03.split() if x not in (
            "threadirqs", "rcutree.use_softirq=0"))
        p["lists"] = what in KERNEL
    return p


def describe(p):
    """One line about a boot."""
    return " ".join(filter(None, [
        f"{p['turn']}: {p['machine']}-{p['cpus']}/{p['threads']}",
        p["accel"], p["what"], f"seed {p['seed']}",
        "faults" if p["what"] == "stress" and p["faults"] else "",
        "load" if p["what"] == "stress" and p["load"] else "",
        "lists" if p["lists"] else "",
        "delays" if p.get("delay") else "",
        "threadirqs" if "threadirqs" in p.get("tree03", "") else "",
        # what is recorded is without
        p["append"].split()[0] if p.get("append") else ""]))


def judge_kernel(text, lists):
    """What is wrong with the end of a kernel's own torture test; '' if it is
    fine. When others take CPUs as well, its own operations may fail."""
    end = re.findall(r"End of test: (\w+)", text)
    if not end:
        return "no 'End of test'"
    good = ("SUCCESS", "RCU_HOTPLUG", "LOCK_HOTPLUG") if lists else \
        ("SUCCESS",)
    return "" if end[-1] in good else f"End of test: {end[-1]}"


def judge_stress(text):
    """The same of stress-test.sh. That a machine has no read-only disk or the
    like is no failure."""
    bad = [f"{status}: {name} {detail}" for name, status, detail
           in ktap.results(text) if status not in ("pass", "skip")]
    if not bad:
        return ""
    return "\n".join(bad + re.findall(r"^# .* wrong in round.*$", text, re.M))


def one(p, image, limit):
    """Run one boot; add to p what became of it."""
    kernel = p["what"] in KERNEL
    acpi = "acpi" if p["machine"] == "q35" else ""
    m = vm.topology(p["machine"], p["cpus"], p["threads"],
                    accel=p["accel"], idle=acpi, freq=acpi,
                    net="user,restrict=on").with_disk("scratch", SCRATCH)
    append = " ".join((APPEND, p.get("tree03", ""), p.get("delay", ""),
                       p["append"]))
    if "torture" in image.name:
        # nothing of it starts unless it is this one's turn
        append += " initcall_blacklist=" + ",".join(
            v[0] for k, v in KERNEL.items() if k != p["what"])
    name = JOBS.get(p["what"], "torture-lists" if p["lists"] else "")
    job = boot.job(name, LASTS=p["seconds"], SEED=p["seed"],
                   FAULTS=int(p["faults"]), LOAD=p["load"],
                   WRITES=p["writes"], NETWORK=1,
                   SECS=max(p["seconds"] // 10, 2)) if name else WAIT
    error = ""
    try:
        r = boot.run_job(m, image, job, append=append, limit=limit,
                         name=f"torture-{p['arch']}-{p['turn']}")
        if r.status:
            error = f"the job ended with {r.status}"
    except boot.BootFailed as e:
        r, error = e.result, str(e)
        if kernel and not r.timed_out:
            # it powers off, which ends the job as well; on a busy host init
            # may only be about to start and lose its disk
            r.splats = console.splats(r.console.partition("End of test:")[0])
            error = error if r.splats else ""
    if kernel:
        error = error or judge_kernel(r.console, p["lists"])
        p["numbers"] = "; ".join(re.findall(r"onoff: \S+", r.console)[-1:]) \
            or "{} CPUs moved".format(len(re.findall(
                r"torture_onoff task: (?:off|on)lined \d", r.console)))
        if not error and not operations(p):
            error = (f"no CPU went or came in {p['seconds']} s; is the host "
                     "busy? try again without other work on it")
    else:
        if p["what"] == "stress" and r.status is not None:
            error = judge_stress(r.output()) or error
        if p["what"] == "retire":
            error = error or "\n".join(
                f"{x['name']}: {x.get('detail', '')}" for x in r.of("check")
                if x["ok"] != "1")
        p["numbers"] = "; ".join(re.findall(
            r"^# (\d+ (?:rounds|writes of|packets).*)$", r.output(), re.M)
            + list(filter(None, [in_all(
                x["counts"] for x in r.of("retired"))])))
    if error:
        error = "\n".join([error] + [
            x for s in r.splats for x in s] + r.output().splitlines()[-20:])
    p.update(host_seconds=round(r.seconds), error=error, ok=not error,
             console=str(r.console_path.name),
             splats=[next(filter(console.is_bad, s)) for s in r.splats])
    return p


def in_all(counts):
    """'N requests, N queued': the sums of what the tests of CPUs that retire
    say; '' if they say nothing."""
    text = "; ".join(counts)
    return text and ", ".join(
        f"{sum(map(int, re.findall(rf'([0-9]+) {what}', text)))} {what}"
        for what in ("requests", "queued"))


def operations(p):
    """How many hotplug operations were tried in a boot: writes of random lists
    and the like (stress), SMT off and on (smt), requests (retire), single CPUs
    and what came back of them (the kernel's own tests)."""
    text = p.get("numbers", "")
    if p["what"] == "stress":
        return sum(int(n) for n in re.findall(
            r"(\d+) (?:writes together|alone)", text))
    if p["what"] == "retire":
        return sum(int(n) for n in re.findall(r"(\d+) requests", text))
    if p["what"] == "smt":
        return 2 * sum(int(n) for n in re.findall(r"(\d+) rounds", text))
    alone = re.match(r"(\d+) CPUs moved", text)
    if alone:
        return int(alone[1])
    # onoff: good/tried:good/tried:..., offline and online
    onoff = re.search(r"onoff: \d+/(\d+):\d+/(\d+)", text)
    return sum(map(int, onoff.groups())) if onoff else 0


def inputs(profile):
    """The digest of what defines a run's results but the kernel's code."""
    jobs = sorted({*boot.JOBS.glob("torture-*.sh"),
                   *(boot.JOBS / f"{job}.sh" for job in JOBS.values())})
    return digest(*jobs, *guest.tests_of("".join(p.read_text() for p in jobs)),
                  boot.JOBS.parent / "prelude.sh", repr(KERNEL),
                  *(f for a in MAIN for f in kernels.fragments(a, profile)))


def recorded():
    """The runs in bench/results/torture.json; LabError if that is damaged."""
    return record.read(record.RESULTS / "torture.json", [])


def keep(doc):
    """Add a run to bench/results/torture.json."""
    docs = recorded()
    # where the repository is says nothing to others
    docs.append({**doc, "boots": [
        {k: v.replace(f"{TOP}/", "") if k == "error" else v
         for k, v in p.items() if k not in ("append", "console")}
        for p in doc["boots"]]})
    record.save("torture", docs)


def forget(profile):
    """Drop the stale runs of a profile, of which git has the record."""
    record.save("torture", [d for d in recorded() if d["profile"] != profile
                            or not result(d).stale()])


def full_profile(profile):
    """With what the kernel's own torture tests need."""
    return "+".join(dict.fromkeys(filter(None, (*profile.split("+"), "torture"))))


# what the columns of the table add up: kinds of boots, and how they are counted
COLUMNS = {"stress": ("stress",), "smt": ("smt",), "retire": ("retire",),
           "single": ("rcutorture", "locktorture", "scftorture")}


def table(docs):
    """Hotplug operations of all runs of the same kernel code, by profile and
    architecture, the last code first; then the seeds and all that failed."""
    sums, last = {}, {}
    for doc in docs:
        code = doc["stamp"]["kernel"][:8]
        last[code] = max(last.get(code, ""), doc["stamp"]["date"])
        for p in doc["boots"]:
            row = sums.setdefault((code, doc["profile"], p["arch"]),
                                  dict.fromkeys((*COLUMNS, "boots", "failed",
                                                 "minutes"), 0))
            row["boots"] += 1
            row["failed"] += not p["ok"]
            row["minutes"] += p["host_seconds"] / 60
            row[next(c for c, kinds in COLUMNS.items()
                     if p["what"] in kinds)] += operations(p)
    out = [f"{'kernel':<9}{'profile':<15}{'machine':<8}{'boots':>5}{'failed':>7}"
           + "".join(f"{c:>7}" for c in COLUMNS) + f"{'minutes':>8}"]
    for (code, profile, arch), row in sorted(
            sums.items(), key=lambda x: (last[x[0][0]], x[0]), reverse=True):
        out.append(f"{code or 'older':<9}{profile:<15}{arch:<8}"
                   f"{row['boots']:>5}{row['failed']:>7}"
                   + "".join(f"{row[c]:>7}" for c in COLUMNS)
                   + f"{row['minutes']:>8.0f}")
    out.append("")
    for doc in docs:
        out.append(f"{doc['stamp']['date'][:10]} {doc['profile']}: "
                   f"SEED={doc['seed']}, kernel "
                   f"{doc['stamp']['kernel'][:8] or 'older'}, tree "
                   f"{doc['stamp']['tree'][:12]}"
                   f"{'*' if result(doc).stale() else ''}")
    for doc in docs:
        for p in doc["boots"]:
            if not p["ok"]:
                out += ["", f"failed: {describe(p)}"] + [
                    "  " + x[:78] for x in p["error"].splitlines()[:4]]
    return "\n".join(out) + "\n"


def result(doc):
    """A run that is recorded."""
    return record.Result(f"torture: {doc['profile']}, SEED={doc['seed']}",
                         doc["stamp"], inputs(doc["profile"]))


def shown():
    """What is recorded of the runs."""
    return record.each("torture.json", lambda docs: record.Shown(
        [result(d) for d in docs], {"torture": record.fenced(table(docs))}),
        "make torture RECORD=1")


def numbers(minutes, seed):
    """MINUTES and SEED as numbers, 30 and a random one where they are not given;
    LabError names the one that is none."""
    try:
        n = float(minutes or 30)
    except ValueError:
        n = 0
    if not 0 < n < math.inf:
        raise LabError(f"MINUTES={minutes}: a number above 0 is needed")
    if seed in (None, ""):
        return n, random.SystemRandom().randrange(1 << 30)
    try:
        return n, int(seed)
    except ValueError:
        raise LabError(f"SEED={seed}: a whole number is needed") from None


def main(minutes, arches, profile="", seed=None, rec=False):
    """Boots in turn, the architectures side by side, for so many minutes; a
    turn that has begun is finished. Writes out/torture.json; with rec
    it is added to bench/results/torture.json."""
    minutes, seed = numbers(minutes, seed)
    for a in arches:
        check_profile(profile, check_arch(a))
    if rec:
        recorded()              # not after all boots
    profile = full_profile(profile)
    rep, done = Report(), []
    doc = {"stamp": record.stamp(inputs(profile), of=[(a, profile) for a in arches]),
           "seed": seed,
           "minutes": minutes, "profile": profile}
    images = {a: kernels.build("patched", a, profile) for a in arches}
    slow = profile.startswith(("debug", "kcsan"))
    tree03 = " ".join((LINUX / TREE03).read_text().split()) \
        if "tree03" in profile else ""
    say(f"== torture for {minutes:g} minutes; again: make torture "
        f"MINUTES={minutes:g} SEED={seed}"
        + (f" ARCH={arches[0]}" if len(arches) == 1 else "")
        + (f" PROFILE={profile.split('+')[0]}" if "+" in profile else ""))
    t0, lock = time.monotonic(), threading.Lock()

    def turns(arch):
        for n in itertools.count():
            if n and time.monotonic() - t0 >= 60 * minutes:
                return
            p = plan(seed, n, arch, slow, tree03)
            say(f"   {describe(p)}")
            p = one(p, images[arch], 2400 if slow else 1200)
            if ending.is_set():
                return
            with lock:
                rep.add(describe(p), p["ok"], p["error"])
                say(f"   {p['numbers']}, {human(p['host_seconds'])}")
                done.append(p)
                doc["boots"] = done
                write_atomic(OUT / "torture.json", json.dumps(doc, indent=1))

    try:
        # neither waits for the other, whose boots may take much longer
        boot.side_by_side(turns, [(a,) for a in arches], len(arches))
        return rep.finish()
    finally:
        if rec and done:
            keep(doc)
