"""Which changes `scripts/mutate` makes, which tests it tries them with, and what it finds in a small tree."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from scripts import mutate
from scripts.mutation.mutants import mutants
from scripts.mutation.reach import Piece, chosen, order
from scripts.mutation.trial import Job
from scripts.mutation.verdicts import Verdict, Verdicts
from tests.support.rows import rows

CHANGES = rows(Path(__file__).with_name("mutants.txt"), "a source")


@pytest.mark.parametrize(("source", "changes"), CHANGES)
def test_each_kind_of_code_has_its_changes(source: str, changes: list[str]) -> None:
    """Nothing that no test could hold is changed: no documentation, no type, no log line, no prose."""
    found = mutants("a.py", source)
    assert sorted(mutant.change for mutant in found) == sorted(changes)
    for mutant in found:
        compile(mutant.applied(source), "a.py", "exec")


def test_a_change_stands_in_its_place() -> None:
    """Columns are counted in bytes by the syntax tree, and what stands around a change stays, each on its line."""
    source = 'x = f("é" if a else "à", (1 +\n  b) * c)  # end\n'
    changed = {mutant.applied(source) for mutant in mutants("a.py", source) if "1 + b →" in mutant.change}
    assert changed == {'x = f("é" if a else "à", ((1 - b\n)) * c)  # end\n'}


def test_what_is_drawn_follows_from_the_seed_and_each_line() -> None:
    """At most one mutant a line; another line moves no other."""
    lines = [f"x{number} = {number}" for number in range(50)]
    found = mutants("a.py", "\n".join(lines))
    first, again, other = (mutate.drawn(found, 20, seed) for seed in ("a", "a", "b"))
    assert (first, len({mutant.line for mutant in first})) == (again, 20)
    assert first != other
    moved = mutate.drawn(mutants("a.py", "\n".join(["y = 1", *lines])), 20, "a")
    assert len({each.key for each in moved} & {each.key for each in first}) >= 19


def test_changed_lines_are_read_from_a_diff() -> None:
    """Lines that are only removed are none."""
    diff = """\
--- p/a.py
+++ p/a.py
@@ -3 +3,2 @@ def f():
-a
+b
+c
@@ -9,2 +10,0 @@
-d
-e
--- p/b.py
+++ p/b.py
@@ -1 +1 @@
-x
+y
"""
    assert mutate.changed_lines(diff) == {"p/a.py": {3, 4}, "p/b.py": {1}}


def test_a_mutant_is_tried_with_the_tests_that_reach_it() -> None:
    """Those named after its module first, then the fastest; what an import runs, by those that use its name."""
    limit, less = mutants("p/a.py", "LIMIT = 3\ndef f(x):\n    return x < LIMIT\n")[1:3]
    seconds = {"t/u.py::slow": 2.0, "t/u.py::fast": 1.0, "t/test_a.py::other": 3.0, "t/u.py::long": 4.0}
    suites = {"p/a.py:f#0": [*seconds], "p/a.py:g#0": ["t/u.py::fast"]}
    piece = Piece("", {"p/a.py": "same"}, seconds, suites)
    used = {"LIMIT": {"p/a.py:f#0"}}
    wanted = ["t/test_a.py::other", "t/u.py::fast", "t/u.py::slow"]
    assert chosen(limit, [piece], used, source="same", imported=True) == wanted
    assert chosen(less, [piece], {}, source="same", imported=False) == wanted
    before = Piece(
        "", {"p/a.py": "other"}, seconds, {"p/a.py:f#1": ["t/u.py::slow"], **suites, "p/a.py:f#0": []}
    )
    assert chosen(less, [before], {}, source="same", imported=False) == ["t/u.py::slow"]
    files = {"tests/b/test_c.py", "tests/a/test_c.py", "tests/a/test_d.py", "tests/app/test_app.py"}
    assert order("p/a/c.py", files) == [["tests/a/test_c.py"], ["tests/a"], ["tests/app"], ["tests/b"]]


def test_a_verdict_holds_until_its_module_or_its_tests_change(tmp_path: Path) -> None:
    """What noticed a mutant before is known even then, to be tried first."""
    files = {"p/a.py": "x = 1\n", "tests/a/test_a.py": "cases.txt", "tests/b/test_b.py": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")

    def verdicts() -> Verdicts:
        return Verdicts(tmp_path, tmp_path / "kept.jsonl")

    killed, alive = mutants("p/a.py", "x = 1\n")
    first, by = verdicts(), "tests/a/test_a.py::test"
    digests = {folder: first.digest(folder) for folder in ("tests/a", "tests/b")}
    source, test = first.digest("p/a.py"), first.digest("tests/a/test_a.py")
    first.note(Verdict(killed.key, source, by, test))
    first.note(Verdict(alive.key, source, tried=digests))
    assert (verdicts().known(killed).by, verdicts().known(alive).tried) == (by, digests)
    (tmp_path / "tests/a/cases.txt").write_text("of a test", "utf-8")
    assert (verdicts().known(killed).by, verdicts().hint(killed)) == ("", by)
    assert verdicts().known(alive).tried.keys() == {"tests/b"}
    (tmp_path / "p/a.py").write_text("x = 1  # other\n", "utf-8")
    assert not verdicts().known(alive).tried
    first.keep([alive])
    assert (verdicts().hint(killed), verdicts().hint(alive)) == ("", "")


def test_an_explanation_is_void_when_its_line_changes(tmp_path: Path) -> None:
    """Those of the repository name lines that it has, and are few."""
    assert mutate.void(mutate.equivalents()) == []
    assert len(mutate.equivalents()) <= 0.03 * 300
    (tmp_path / "e.toml").write_text(
        """[[equivalent]]
path = "a.py"
where = "f"
line = "return x + 1"
change = "1 → 2"
reason = "nobody asks"
""",
        "utf-8",
    )
    explained = mutate.equivalents(tmp_path / "e.toml")
    voided = []
    for source in ("def f(x):\n    return x + 1\n", "def f(x):\n    return 1 + x\n"):
        (tmp_path / "a.py").write_text(source, "utf-8")
        voided.append(mutate.void(explained, tmp_path))
    assert voided == [[], ["a.py | f | return x + 1 | 1 → 2"]]


def test_a_small_tree_is_tried(tmp_path: Path) -> None:
    """What a test notices is killed, what none compares or reaches survives; the tree stays."""
    files = {
        "pkg/__init__.py": "",
        "pkg/a.py": """
            LIMIT = 3

            def double(x):
                return x + x

            def wait(x):
                while x:
                    x = False
                return 'unseen'

            def least(x):
                return min(x, LIMIT)
        """,
        "tests/a/test_a.py": """
            from pkg import a

            def test_double():
                assert a.double(4) == 8

            def test_wait():
                a.wait(False)

            def test_least():
                assert a.least(5) == 3

            def test_fails():
                assert a.wait(0) == 1
        """,
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }
    root = tmp_path / "root"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text), "utf-8")
    source = (root / "pkg/a.py").read_text("utf-8")
    wanted = {"x + x → x - x", "return 'unseen' → return None", "False → True", "3 → 4"}
    found = [mutant for mutant in mutants("pkg/a.py", source) if mutant.change in wanted]
    kept = tmp_path / "verdicts.jsonl"
    mutate.tried(root, Job("pkg", found, str(kept), str(tmp_path / "pieces")))
    verdicts = Verdicts(root, kept)
    assert {mutant.change: verdicts.known(mutant).by.rpartition("::")[2] for mutant in found} == {
        "x + x → x - x": "test_double",
        "return 'unseen' → return None": "",
        "False → True": "",
        "3 → 4": "test_least",
    }
    assert (root / "pkg/a.py").read_text("utf-8") == source
