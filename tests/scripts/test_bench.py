"""The benchmark runner: it finds modules by their names and reports what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts import bench

if TYPE_CHECKING:
    from pathlib import Path

BENCHMARK = """
NAME = "{name}"

def run():
    return {{"seconds": {figure}}}
"""


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bench.Benchmark]:
    """Two benchmarks in a directory that also holds a module that is none."""
    package = tmp_path / "measured"
    package.mkdir()
    for stem, name, figure in (("b_file", "late", 2), ("a_file", "early", 1)):
        (package / f"{stem}.py").write_text(BENCHMARK.format(name=name, figure=figure), "utf-8")
    (package / "_shared.py").write_text("raise AssertionError\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return bench.find(package, "measured")


def test_all_are_measured_in_the_order_of_their_files(found: dict[str, bench.Benchmark]) -> None:
    """Without names every benchmark runs, and modules with a leading underscore are none."""
    assert list(bench.measure(found, []).items()) == [("early", {"seconds": 1}), ("late", {"seconds": 2})]


def test_named_ones_are_measured_alone(found: dict[str, bench.Benchmark]) -> None:
    """Names choose, by NAME and not by file."""
    assert bench.measure(found, ["late"]) == {"late": {"seconds": 2}}
