# SPDX-License-Identifier: GPL-2.0
"""Functions that look at the online mask twice, of a tree of a few lines."""

import pytest

from conftest import TOP, sh
from lab import looks
from lab.callbacks import Source
from lab.common import LabError

FILES = {
    "kernel/a.c": """
int once(int cpu)
{
	/* not twice: cpu_online(cpu), cpu_online_mask */
	return cpu_online(cpu);
}
static bool
twice(void)
{
	if (cpu_is_offline(1))
		return false;
	return cpumask_first(cpu_online_mask) > 1;
}
void loops(void)
{
	for_each_online_cpu(cpu)
		n++;
	if (n != num_online_cpus())
		pr_info("cpu_online_mask");
}
""",
    "include/linux/a.h": """
static inline int head(int cpu)
{
	return cpu_online(cpu) || cpu_online(cpu + 1);
}
""",
    "arch/mips/kernel/y.c": "int arm(int b)\n{\n\treturn cpu_online(b) + "
                             "cpu_online(0);\n}\n",
}
FOUND = {"kernel/a.c: twice": 2, "kernel/a.c: loops": 2,
         "include/linux/a.h: head": 2}


def git_tree(path, files):
    """A git tree with these files."""
    for name, text in files.items():
        f = path / name
        f.parent.mkdir(parents=True, exist_ok=True)
        f.write_text(text)
    sh("git", "init", "-q", path)
    sh("git", "add", "-A", cwd=path)
    return path


@pytest.fixture
def tree(tmp_path):
    return Source(git_tree(tmp_path, FILES))


def test_who_looks_twice_is_found(tree):
    assert looks.find(tree) == FOUND


def test_who_picks_another_cpu_is_found_on_all_architectures(tmp_path):
    files = {
        "arch/arm64/kernel/p.c": "int teardown(int cpu)\n{\n\treturn "
                                 "cpumask_any_but(cpu_online_mask, cpu);\n}\n",
        "drivers/perf/arm-x.c": "int other(int cpu)\n{\n\treturn "
                                "cpumask_any_and_but(a, b, cpu);\n}\n",
        "drivers/perf/fine.c": "int fine(int cpu)\n{\n\treturn "
                               "cpuhp_any_survivor(a, cpu);\n}\n"}
    src = Source(git_tree(tmp_path, files), ["arm64"], (), ())
    assert looks.find(src, looks.PICK, 1) == {
        "arch/arm64/kernel/p.c: teardown": 1, "drivers/perf/arm-x.c: other": 1}


def test_who_has_no_verdict_and_who_has_one_for_nothing_is_a_fault():
    path = TOP / "lab" / "looks.toml"
    table = {at: {} for at in FOUND}
    assert list(looks.faults(FOUND, table, path)) == []
    [bad] = looks.faults({**FOUND, "kernel/b.c: new": 3}, table, path)
    assert "kernel/b.c: new() looks at the online mask 3 times" in bad
    assert 'at = "kernel/b.c: new"' in bad and "lab/looks.toml" in bad
    [bad] = looks.faults(FOUND, {**table, "kernel/b.c: old": {}}, path)
    assert "kernel/b.c: old: it does not look twice any more" in bad


@pytest.mark.parametrize("row,message", [
    ('at = "a"\nword = "lock"', "needs at, word and why"),
    ('at = "a"\nword = "lock"\nwhy = ""', "needs at, word and why"),
    ('at = "a"\nword = "fine"\nwhy = "x"', "'fine' is none of"),
    ('at = ', "Invalid value"),
])
def test_a_row_that_is_not_right_is_named(tmp_path, row, message):
    path = tmp_path / "looks.toml"
    path.write_text(f"[[verdict]]\n{row}\n")
    with pytest.raises(LabError, match=message):
        looks.read_table(path)


def test_no_function_has_two_verdicts(tmp_path):
    path = tmp_path / "looks.toml"
    path.write_text('[[verdict]]\nat = "a"\nword = "lock"\nwhy = "x"\n' * 2)
    with pytest.raises(LabError, match="a is there twice"):
        looks.read_table(path)


def test_the_table_is_right():
    assert looks.read_table()
