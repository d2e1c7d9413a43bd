"""A plugin of pytest that maps which test reaches which line, or runs exactly the tests that are named.

It is copied into the tree that is measured and may import nothing of it. Where `REACH_MAP` names a folder, it
writes there what each passed test reached and took; where `REACH_TESTS` names a file, it runs those tests alone.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coverage import Coverage


NEEDS = {"live", "browser", "servers", "index", "thorough"}
"""Markers of tests that are not run here: they need what a copy of the tree has not, or take too long."""


class Recorder:
    """Says to coverage which test is running, and notes the processor time of those that pass."""

    def __init__(self, folder: Path, package: str) -> None:
        """Begin at once: what the import of the package runs belongs to no test."""
        from coverage import Coverage

        self._folder = folder
        self.coverage: Coverage = Coverage(
            data_file=folder / "lines",
            data_suffix=True,
            include=[f"{package}/*"],
            config_file=False,
            messages=False,
            concurrency=["thread", "greenlet"],
        )
        self.coverage.set_option("run:relative_files", value=True)
        self.coverage.start()
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Omit what needs more than Python."""
        items[:] = [item for item in items if NEEDS.isdisjoint(mark.name for mark in item.iter_markers())]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Name the test while it, its fixtures and their ends run."""
        self.coverage.switch_context(item.nodeid)
        started = time.process_time()
        yield
        self._seconds[item.nodeid] = time.process_time() - started
        self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails or is skipped says nothing about mutants."""
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write what this process saw; the one that hands out tests to others saw none."""
        self.coverage.stop()
        if not self._seconds:
            return
        self.coverage.save()
        seconds = {test: value for test, value in self._seconds.items() if test not in self._failed}
        (self._folder / f"seconds-{os.getpid()}.json").write_text(json.dumps(seconds), "utf-8")


class Chosen:
    """Runs these tests alone, in this order."""

    def __init__(self, tests: list[str]) -> None:
        """Each test's number says when it runs."""
        self._numbers = {test: number for number, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Omit all others."""
        chosen = [item for item in items if item.nodeid in self._numbers]
        items[:] = sorted(chosen, key=lambda item: self._numbers[item.nodeid])


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before any conftest imports the package."""
    if folder := os.environ.get("REACH_MAP"):
        early_config.pluginmanager.register(Recorder(Path(folder), os.environ["REACH_PACKAGE"]))
    if listed := os.environ.get("REACH_TESTS"):
        tests = Path(listed).read_text("utf-8").split("\0")
        early_config.pluginmanager.register(Chosen(tests))
