# SPDX-License-Identifier: GPL-2.0
"""What 'make compile-matrix' decides without a compiler."""

import types

from lab import portability

DIFF = """diff --git a/include/linux/h.h b/include/linux/h.h
index 1..2 100644
--- a/include/linux/h.h
+++ b/include/linux/h.h
@@ -1,9 +1,8 @@
 struct cpumask;
 /* one_comment says old_word */
-int old_call(int cpu);
-int other_call(int cpu);
+int other_call(const struct cpumask *cpus);
-	STATE_GONE,
 	STATE_LEFT,
-#define kept_call(x) left_alone(x)
 int kept_call(int cpu);
diff --git a/kernel/c.c b/kernel/c.c
index 1..2 100644
--- a/kernel/c.c
+++ b/kernel/c.c
@@ -1,3 +1,5 @@
 	known_call(x);
+	/* in_comment */
+	known_call(new_call(y));
-	removed_call(x);
"""


def test_what_a_diff_brings_and_takes_away():
    new, changed = portability.from_diff(DIFF)
    assert {"new_call", "cpus"} <= new
    assert not {"known_call", "in_comment", "removed_call"} & new
    assert changed == {"old_call", "other_call", "STATE_GONE"}


class Fake:
    """A Build whose symbols are {object: [(section, size, symbol)]}."""
    def __init__(self, out, symbols, modules=(), stack=None):
        self.out = self.src = out
        self.sym, self.modules = symbols, modules
        self.stack, self.compiled = stack or {}, set()

    def symbols(self, objects):
        for o in sorted(objects):
            yield from ((o, *s) for s in self.sym[o])

    def objects(self, files):
        return {f.replace(".c", ".o") for f in files} & set(self.sym)

    def compile(self, objects):
        self.compiled |= objects
        for o in objects:
            (self.out / o).touch()

    def is_module(self, obj):
        return obj in self.modules

    def set_by_linker(self):
        return {"set"}

    def frames(self, objects):
        return self.stack

    memory = portability.Build.memory


def test_a_name_nobody_defines_or_exports_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(portability, "grep", lambda *a: {"far.c", "not-here.c"})
    b = Fake(tmp_path, {
        "a.o": [("*UND*", 0, "gone"), ("*UND*", 0, "far"), ("*UND*", 0, "old"),
                ("*UND*", 0, "near"), ("*UND*", 0, "set")],
        "b.o": [(".text", 8, "near")],
        "m.o": [("*UND*", 0, "near"), ("*UND*", 0, "far")],
        "far.o": [(".text", 8, "far"),
                  (".export_symbol", 0, "__export_symbol_far")]}, ("m.o",))
    assert list(portability.unresolved(b, {"a.o", "b.o", "m.o"},
                                  {"gone", "far", "near", "set"})) == [
        "a.o: nothing defines gone", "m.o: nothing exports near"]
    assert b.compiled == {"far.o"}


def test_what_the_linker_script_sets(tmp_path):
    lds = tmp_path / "arch/x86/kernel/vmlinux.lds.S"
    lds.parent.mkdir(parents=True)
    lds.write_text("jiffies = jiffies_64;\n\tPROVIDE(end = .);\n/* a == b */\n"
                   "#if X == 1\n")
    b = types.SimpleNamespace(src=tmp_path, cfg=portability.CONFIGS[0])
    assert b.cfg.arch == "x86"
    assert portability.Build.set_by_linker(b) == {"jiffies", "end"}


def test_memory_for_each_cpu_and_stack_frames_have_a_limit(tmp_path):
    def build(per_cpu, frame):
        return Fake(tmp_path, {"a.o": [(".data..percpu", per_cpu, "x"),
                                       (".bss", 64, "y")]},
                    stack={"a.o:f": frame})
    old = build(8, 100)
    for per_cpu, frame, bad in (
            (8 + portability.PER_CPU, 100, 0), (9 + portability.PER_CPU, 100, 1),
            (8, 100 + portability.FRAME - 1, 0), (8, 100 + portability.FRAME, 1)):
        too_much, lines = portability.sizes(build(per_cpu, frame), old, {"a.o"},
                                       {"a.o"})
        assert len(too_much) == bad, too_much
        assert lines[0].startswith(f"per CPU: {per_cpu - 8:+d} bytes")
        assert lines[1].startswith("static: +0 bytes")


def test_warnings_compare_between_two_trees(monkeypatch):
    def seen(src, line):
        return portability.Build.warnings(types.SimpleNamespace(
            src=src, log=f"{src}/kernel/cpu.c:{line}:3: warning: unused 'x'\n"
            "make[3]: *** [x.o] Error 1\n"))
    assert seen("/a", 5).keys() == seen("/b", 77).keys()
    assert list(seen("/a", 5).values()) == [
        "kernel/cpu.c:5:3: warning: unused 'x'"]


def test_configurations():
    names = [c.name for c in portability.CONFIGS]
    assert len(set(names)) == len(names)
    for c in portability.CONFIGS:
        assert c.arch in portability.CROSS
        assert all("=" in x for x in c.options.split())
    assert {"arm64", "arm", "riscv", "mips", "s390", "parisc"} <= {
        c.arch for c in portability.CONFIGS}


def test_a_configuration_is_compiled_in_both_trees(gives, monkeypatch):
    monkeypatch.setattr(portability, "sources", lambda src, base, commit: (
        {"kernel/cpu.c"}, {"new"}))
    monkeypatch.setattr(portability, "one", lambda rep, cfg, trees, files,
                        names: rep.add(f"{cfg.name} {len(trees)} {files}", True))
    assert gives(portability, portability.CONFIGS[0]) == [
        ("x86-up 2 {'kernel/cpu.c'}", True)]
