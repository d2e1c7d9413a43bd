"""The benchmark runner: it finds modules by their names and reports their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts import bench

if TYPE_CHECKING:
    from pathlib import Path

MODULE = 'BENCHMARKS = {{"{name}": lambda: {{"seconds": {seconds}}}}}'


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bench.Benchmarks:
    """Two benchmarks in a directory that also holds a module that is not one."""
    package = tmp_path / "measured"
    package.mkdir()
    for stem, name, seconds in (("b_file", "late", 2), ("a_file", "early", 1)):
        (package / f"{stem}.py").write_text(MODULE.format(name=name, seconds=seconds), "utf-8")
    (package / "_shared.py").write_text("raise AssertionError\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return bench.find(package, "measured")


def test_all_benchmarks_run_in_the_order_of_their_files(found: bench.Benchmarks) -> None:
    """Names choose; without, every one runs. Modules with a leading underscore are skipped."""
    assert bench.measure(found, ["late"]) == {"late": {"seconds": 2}}
    assert list(bench.measure(found, []).items()) == [("early", {"seconds": 1}), ("late", {"seconds": 2})]


def test_another_checkout_is_measured_by_its_own_benchmarks(tmp_path: Path) -> None:
    """Its runner is started in its root, and the results of the name are read from what it prints."""
    package = tmp_path / "scripts"
    package.mkdir()
    printed = 'import sys\nprint("{\\"%s\\": {\\"seconds\\": 4}}" % sys.argv[1])\n'
    (package / "bench.py").write_text(printed, "utf-8")
    assert bench.measure_checkout(tmp_path, "late") == {"seconds": 4}


def test_ratios_compare_the_numbers_that_both_have() -> None:
    """Nested results keep their nesting; texts, zeros and names of one side alone are skipped."""
    here = {"ms": 3, "load": {"p50": 1.0, "p99": 9}, "name": "a", "zero": 1, "new": 1}
    there = {"ms": 4, "load": {"p50": 2.0}, "name": "b", "zero": 0, "old": 1}
    assert bench.ratios(here, there) == {"load": {"p50": 0.5}, "ms": 0.75}
