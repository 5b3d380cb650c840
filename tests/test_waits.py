# SPDX-License-Identifier: GPL-2.0
"""Callbacks, what they call and wait for, of a tree of a few lines."""

import tomllib

import pytest

from conftest import TOP, Rep, sh
from lab import callbacks, waits
from lab.common import LabError

FILES = {
    "kernel/cpu.c": """
static struct cpuhp_step cpuhp_hp_states[] = {
	[CPUHP_A] = {
		.startup.single		= a_up,
		.teardown.single	= NULL,
		.teardown_mask		= a_down_mask,
	},
};
int __cpuhp_setup_state(int state, const char *name, bool invoke,
			int (*startup)(int), int (*teardown)(int), bool multi)
{
	return __cpuhp_setup_state_cpuslocked(state, name, invoke, startup,
					      teardown, multi);
}
""",
    "kernel/a.c": """
int a_up(unsigned int cpu)
{
	return 0;
}
static void
drain(struct a *a)
{
	a->ops->msleep(1);	/* through a pointer: msleep(2); */
	a->stop(a);
}
void a_down_mask(const struct cpumask *cpus)
{
	char *s = "synchronize_net()";
	char c = '{', d = '"';

	for_each_a(cpus)
		drain(a_of(c, d));
	synchronize_rcu();
}
int settle(int cpu);
int settle(int cpu)
{
	msleep(1);
	return 0;
}
""",
    "include/linux/a.h": """
#define for_each_a(cpus)	\\
	for (a = first_a(cpus); a; a = next_a(a))
static inline struct a *a_of(int c, int d) { return flush_a(c); }
static inline int flush_a(int c)
{
	flush_work(&a[c].work);
}
""",
    "drivers/b/b.c": """
static int stop_one(void *p)
{
	mdelay(3);
}
static void stop_b(struct a *a)
{
	rcu_barrier();
}
static int b_up(unsigned int cpu)
{
	return other(b) && settle(cpu);
}
static int b_down(unsigned int cpu)
{
	INIT_WORK(&work, never);
	work_on_cpu(cpu, stop_one, NULL);
	settle(cpu);
	kmalloc(1);
	return 0;
}
static int never(void *p)
{
	synchronize_net();
}
static int __init b_init(void)
{
	return cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "b, and (c)",
					 b_up,
					 &b_down);
}
static struct smp_hotplug_thread b_threads = {
	.thread_fn	= b_thread,
	.park		= b_park,
};
static void b_park(unsigned int cpu)
{
#ifdef CONFIG_B
	synchronize_srcu(&b);
#endif
}
""",
    "drivers/c/c.c": """
static int settle(int cpu)
{
	synchronize_rcu();
}
int kmalloc(int n)
{
	synchronize_rcu();
}
""",
    "arch/x86/kernel/x.c": "int other(int b)\n{\n\tudelay(1);\n}\n",
    "arch/powerpc/kernel/p.c": "int other(int b)\n{\n\tudelay(1);\n\t"
                               "on_each_cpu(f, NULL, 1);\n}\n",
    "arch/mips/kernel/y.c": "int other(int b)\n{\n\tmsleep(1);\n}\n"
                             "int x = cpuhp_setup_state(A, \"\", b_up, no);\n",
}
NAMES = ("synchronize_rcu", "msleep", "flush_work", "mdelay", "on_each_cpu",
         "rcu_barrier", "synchronize_net", "synchronize_srcu")
RULES = {"waits": NAMES, "opaque": [{"names": ["km.*"], "why": "memory"}],
         "calls": [{"by": "drain", "to": ["stop_b"]}], "verdict": []}
FOUND = {
    ("synchronize_rcu", "kernel/a.c: a_down_mask"): ["a_down_mask"],
    ("flush_work", "include/linux/a.h: flush_a"): ["a_down_mask"],
    ("rcu_barrier", "drivers/b/b.c: stop_b"): ["a_down_mask"],
    ("msleep", "kernel/a.c: settle"): ["b_down", "b_up"],
    ("mdelay", "drivers/b/b.c: stop_one"): ["b_down"],
    ("on_each_cpu", "arch/powerpc/kernel/p.c: other"): ["b_up"],
    ("synchronize_srcu", "drivers/b/b.c: b_park"): ["b_park"],
}


@pytest.fixture
def tree(tmp_path):
    """A function that writes the files, some of them changed, and returns
    their Source."""
    def make(**changed):
        for name, text in {**FILES, **changed}.items():
            p = tmp_path / name
            p.parent.mkdir(parents=True, exist_ok=True)
            p.write_text(text)
        sh("git", "init", "-q", tmp_path)
        sh("git", "add", "-A", cwd=tmp_path)
        return callbacks.Source(tmp_path)
    return make


def test_callbacks_are_found_however_they_are_registered(tree):
    found, odd = tree().callbacks()
    assert sorted(found) == [
        ("a_down_mask", "kernel/cpu.c", "down", "table"),
        ("a_up", "kernel/cpu.c", "up", "table"),
        ("b_down", "drivers/b/b.c", "down", "CPUHP_AP_ONLINE_DYN"),
        ("b_park", "drivers/b/b.c", "down", "thread"),
        ("b_up", "drivers/b/b.c", "up", "CPUHP_AP_ONLINE_DYN")]
    assert odd == []


def test_waits_are_found_with_their_chains(tree):
    found, bad = waits.find(tree(), RULES)
    assert {k: sorted(v) for k, v in found.items()} == FOUND
    assert bad == []
    assert found["flush_work", "include/linux/a.h: flush_a"] == {
        "a_down_mask": ("a_down_mask", "a_of", "flush_a", "flush_work")}


def table(**changed):
    """The table of these files; changed: of the verdict for settle()."""
    rows = [{"what": [what], "by": by, "callbacks": c, "word": "each",
             "why": "so"} for (what, by), c in FOUND.items()]
    next(r for r in rows if "settle" in r["by"]).update(changed)
    return {**RULES, "verdict": rows}


def test_a_new_wait_and_a_verdict_for_none_are_told(tree):
    path = TOP / "lab" / "waits.toml"
    found = waits.find(tree(), RULES)[0]
    assert list(waits.faults(found, table(), path)) == []
    # without a verdict, with the whole chain and what to write where
    said, gone = waits.faults(found, table(by="kernel/a.c: x"), path)
    assert "msleep() has no verdict for b_down, b_up" in said
    assert "b_up -> settle -> msleep" in said
    assert "lab/waits.toml" in said
    row = tomllib.loads(said[said.index("[[verdict]]"):])["verdict"][0]
    assert row["what"] == ["msleep"] and row["by"] == "kernel/a.c: settle"
    assert row["callbacks"] == ["b_down", "b_up"]
    assert "kernel/a.c: x: it is not called there any more" in gone
    # from one more callback, from one less
    said, = waits.faults(found, table(callbacks=["b_down"]), path)
    assert "no verdict for b_up:" in said and "says 'each: so'" in said
    said, = waits.faults(found, table(callbacks=["b_down", "b_up", "z"]), path)
    assert "not reached from z any more" in said


def test_rules_that_are_of_no_use_are_told(tree):
    more = {**RULES, "opaque": [{"names": ["km.*", "vm.*"], "why": "memory"}],
            "calls": [*RULES["calls"], {"by": "nobody", "to": ["stop_b"]}]}
    assert [x.split(":")[:2] for x in waits.find(tree(), more)[1]] == [
        ["opaque", " vm.*"], ["calls", " no callback comes to nobody"]]


def test_a_callback_that_is_no_function_is_told(tree):
    src = tree(**{"drivers/d/d.c": "int d = cpuhp_setup_state(A, \"\", d_up, "
                                   "ops->down);\nstruct d ops = {\n\t"
                                   ".down = b_down,\n\t.down = a_up,\n};\n"})
    found, odd = src.callbacks()
    assert odd == ["drivers/d/d.c: d_up", "drivers/d/d.c: b_down"]
    assert "a_up" in {x.name for x in found if x.file == "drivers/d/d.c"}
    assert "d_up is registered" in waits.find(src, RULES)[1][0]


@pytest.mark.parametrize("text, says", [
    ("[[verdict]]\nwhat = ['a']", "it needs what by callbacks word why"),
    ("[[opaque]]\nnames = ['a']\nwhy = ''", "it needs names why"),
    ("[[verdict]]\nwhat = ['a']\nby = 'f'\ncallbacks = ['c']\nword = 'no'\n"
     "why = 'so'", "f: 'no' is none of once"),
    ("[[verdict]]\nwhat = ['a', 'a']\nby = 'f'\ncallbacks = ['c']\n"
     "word = 'each'\nwhy = 'so'", "a in f is there twice"),
    ("[[verdict]", "waits.toml: "),
])
def test_a_bad_table_is_an_error(tmp_path, text, says):
    path = tmp_path / "waits.toml"
    path.write_text(text)
    with pytest.raises(LabError) as e:
        waits.read_table(path)
    assert says in str(e.value)


def test_what_was_good_is_not_read_again(tree, monkeypatch, tmp_path):
    src, read, key, rep = tree(), [], ["1"], Rep()
    monkeypatch.setenv("CPUHP_CACHE", str(tmp_path.parent / "cache"))
    monkeypatch.setattr(waits, "LINUX", src.top)
    monkeypatch.setattr(waits.kernels, "wanted_commit", lambda v: key[0])
    monkeypatch.setattr(waits.kernels, "source_key", lambda c: c)
    monkeypatch.setattr(waits, "read_table", lambda: read.append(1) or table())
    for _ in 1, 2:
        waits.check(rep)
    assert len(read) == 1
    key[0] = "2"
    (src.top / "kernel/a.c").write_text(FILES["kernel/a.c"].replace(
        "\tmsleep", "\tmdelay"))
    for _ in 1, 2:
        waits.check(rep)
    assert len(read) == 3
    assert [ok for _, ok in rep.said] == [True, True, False, False]
