"""How the tree is compared with `budgets.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts import budgets

if TYPE_CHECKING:
    from pathlib import Path

WHY = "Pictures are read here as well, which took forty lines of the media package."
SOURCE = '''"""A module."""

class Plan:
    """A plan."""

    def go(self):
        if self:
            pass
        for _ in ():
            pass

'''


@pytest.mark.parametrize(
    ("allowed", "beginnings", "fails"),
    [
        ({"a": {"lines": 100}}, [], False),
        ({"a": {"lines": 99}}, ["a: 100 lines, allowed are 99"], True),
        ({"a": {"lines": 104}}, [], False),
        ({"a": {"lines": 105}}, ["a: 100 lines of 105"], False),
        ({}, ["no row for a; it measures: a = { lines = 100 }"], True),
        ({"a": {"lines": 100}, "b": {}}, ["the row b stands for nothing"], True),
    ],
)
def test_a_row_is_neither_exceeded_nor_wide(
    allowed: budgets.Rows, beginnings: list[str], *, fails: bool
) -> None:
    """Over fails; more than 4 % under warns, and fails when work is closed."""
    sizes: budgets.Rows = {"a": {"lines": 100}}
    found = list(budgets.compared(allowed, sizes, closing=False))
    assert [each.text[: len(text)] for each, text in zip(found, beginnings, strict=True)] == beginnings
    assert any(each.fails for each in found) is fails
    assert all(each.fails for each in budgets.compared(allowed, sizes, closing=True))


@pytest.mark.parametrize(
    ("now", "before", "fails"),
    [
        ({"lines": 90}, {"lines": 100}, []),
        ({"lines": 101}, {"lines": 100}, [True]),
        ({"lines": 101, "why": "It had to be."}, {"lines": 100}, [True]),
        ({"lines": 101, "why": WHY}, {"lines": 100}, [False]),
        ({"lines": 102, "why": WHY}, {"lines": 101, "why": WHY}, [True]),
    ],
)
def test_a_raised_row_says_why(now: dict[str, object], before: dict[str, object], fails: list[bool]) -> None:
    """In forty characters at least, each time anew; the reason is shown."""
    assert [each.fails for each in budgets.raised({"a": now}, {"a": before})] == fails


def test_code_and_the_texts_that_it_carries_are_counted(tmp_path: Path) -> None:
    """A table moved into a text is not free; data that are named as such are."""
    (tmp_path / "tests" / "data").mkdir(parents=True)
    (tmp_path / "package" / "words").mkdir(parents=True)
    for folder in ("scripts", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "package" / "app.py").write_text(SOURCE, "utf-8")
    (tmp_path / "package" / "words" / "english.txt").write_text("a = b\n\n c = d\n", "utf-8")
    (tmp_path / "tests" / "data" / "golden.txt").write_text("0\n", "utf-8")
    (tmp_path / "docs" / "a.md").write_text("# Two words\n", "utf-8")
    rows = budgets.measured(tmp_path, tmp_path / "package", ["tests/data"])
    words = {"modules": 0, "lines": 3, "nonblank": 2, "characters": 10, "nodes": 0}
    assert rows["packages"]["words"] == words
    lines = {name: row["lines"] for name, row in rows["packages"].items()}
    assert lines == {"root": 11, "words": 3, "total": 14}
    assert (rows["others"]["tests"]["lines"], rows["others"]["docs"]) == (0, {"pages": 1, "words": 3})


def test_the_shape_of_code_is_measured(tmp_path: Path) -> None:
    """Long lines, long functions with how complex they are, and public names without a docstring."""
    long = f"{SOURCE}        x = '{'y' * 100}'\n" + "        pass\n" * 60
    (tmp_path / "a.py").write_text(long, "utf-8")
    shape = budgets.shape([tmp_path / "a.py"])
    assert (shape["long_functions_share"], shape["long_functions_complexity"]) == (1, 3)
    assert round(shape["long_lines_share"] * 68) == 1
    limits = {**shape, "mean_line": shape["mean_line"] / 1.02}
    assert list(budgets.reshaped(limits, shape)) == []
    strict = dict.fromkeys(("long_lines_share", "long_functions_share"), 0.0)
    strict |= {"mean_line": 1, "long_functions_complexity": 2}
    assert len(list(budgets.reshaped(strict, shape))) == 4


def test_a_ratchet_lowers_rows_and_raises_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason stays where it stands."""
    text = f'[packages]\na = {{ lines = 1_200, nodes = 7, why = "{WHY}" }}\n\n[others]\n\n[uncounted]\nfolders = []\n'
    (tmp_path / "b.toml").write_text(text, "utf-8")
    monkeypatch.setattr(budgets, "FILE", tmp_path / "b.toml")
    sizes = {"packages": {"a": {"lines": 1_100, "nodes": 8}}, "others": {}}
    monkeypatch.setattr(budgets, "measured", lambda *_: sizes)
    budgets.ratchet()
    assert (tmp_path / "b.toml").read_text("utf-8") == text.replace("1_200", "1_100")


def test_a_function_takes_two_values_of_a_turn_at_most(tmp_path: Path) -> None:
    """Outside the package that owns them; what another distribution calls alike is not counted."""
    owners = {"Call": ["host"], "Plan": ["planning"], "Request": ["wire"], "Answer": ["turn"]}
    sources = {
        "host/call.py": "class Call: ...",
        "planning/plan.py": "class Plan: ...\ndef near(a: Call, b: Plan, c: Request): ...",
        "wire/request.py": "class Request: ...",
        "app.py": "def far(a: Call, *, b: Plan | None, c: Request): ...",
        "http.py": "from other import Request\ndef far(a: Call, b: Plan, c: Request): ...",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source, "utf-8")
    assert list(budgets.carriers(tmp_path, owners)) == [
        ("turn has no class Answer yet", False),
        ("app.py:1: far takes Call, Plan, Request; 2 are allowed", True),
    ]
