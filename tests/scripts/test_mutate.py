"""Which changes `scripts/mutate` makes, which tests it tries them with, and what it finds in a small tree."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from scripts import mutate
from scripts.mutation.mutants import mutants
from scripts.mutation.trial import Copy
from tests.support.rows import rows

CHANGES = rows(Path(__file__).with_name("mutants.txt"), "a source")


@pytest.mark.parametrize(("source", "changes"), CHANGES)
def test_each_kind_of_code_has_its_changes(source: str, changes: list[str]) -> None:
    """Nothing that no test could hold is changed: no documentation, no type, no log line, no prose."""
    found = mutants("a.py", source)
    assert sorted(f"{mutant.old} → {mutant.new}" for mutant in found) == sorted(changes)
    for mutant in found:
        compile(mutant.applied(source), "a.py", "exec")


def test_a_change_stands_in_its_place() -> None:
    """Columns are counted in bytes by the syntax tree, and what stands around a change stays."""
    source = 'x = f("é" if a else "à", (1 +\n  b) * c)  # end\n'
    changed = {mutant.applied(source) for mutant in mutants("a.py", source) if mutant.old == "1 + b"}
    assert changed == {'x = f("é" if a else "à", ((1 - b)) * c)  # end\n'}


def test_what_is_drawn_follows_from_the_seed() -> None:
    """At most one mutant a line."""
    found = mutants("a.py", "\n".join(f"x{number} = {number}" for number in range(50)))
    first, again, other = (mutate.drawn(found, 20, seed) for seed in ("a", "a", "b"))
    assert (first, len({mutant.line for mutant in first})) == (again, 20)
    assert first != other


def test_a_mutant_is_tried_with_the_tests_that_reach_it() -> None:
    """The fastest first; what an import runs is tried with the tests that use its name."""
    limit, less = mutants("p/a.py", "LIMIT = 3\ndef f(x):\n    return x < LIMIT\n")[1:3]
    seconds = {"t.py::slow": 2.0, "t.py::fast": 1.0, "u.py::other": 0.5}
    lines = {"p/a.py": {1: [""], 3: ["t.py::slow", "t.py::fast", "t.py::failed"]}}
    reach = mutate.Reach(lines, seconds, {"LIMIT": {("p/a.py", 3)}})
    assert reach.tests(limit) == reach.tests(less) == ["t.py::fast", "t.py::slow"]


def test_a_known_equivalent_is_read_with_its_reason(tmp_path: Path) -> None:
    """A change may hold a bar itself; without a file nothing is known."""
    (tmp_path / "m.txt").write_text(
        "# those that change nothing\na.py | x | y → x & y | a set is a set\n", "utf-8"
    )
    assert mutate.equivalents(tmp_path / "m.txt") == {"a.py | x | y → x & y"}
    assert mutate.equivalents(tmp_path / "absent.txt") == set()


def test_a_small_tree_is_mapped_and_tried(tmp_path: Path) -> None:
    """What a test notices is killed, what none compares survives, what none reaches has no tests; the tree stays."""
    files = {
        "pkg/__init__.py": "",
        "pkg/a.py": """
            def double(x):
                return x + x

            def wait(x):
                while x:
                    x = False
                return 'unseen'
        """,
        "tests/test_a.py": """
            from pkg.a import double, wait

            def test_double():
                assert double(4) == 8

            def test_wait():
                wait(False)

            def test_fails():
                assert double(1) == 3
        """,
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }
    root = tmp_path / "root"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text), "utf-8")
    source = (root / "pkg/a.py").read_text("utf-8")
    copy = Copy(root, tmp_path / "copy")
    copy.map("pkg", tmp_path / "map", jobs=1)
    reach = mutate.read_reach(tmp_path / "map", root / "pkg")
    assert set(reach.seconds) == {"tests/test_a.py::test_double", "tests/test_a.py::test_wait"}
    fates = {}
    for mutant in mutants("pkg/a.py", source):
        if mutant.old in {"x + x", "return 'unseen'", "False"}:
            tests = reach.tests(mutant)
            fates[mutant.new] = copy.kills(mutant, tests, seconds=0.0) if tests else None
    assert fates == {"x - x": True, "return None": False, "True": None}
    assert (root / "pkg/a.py").read_text("utf-8") == source
