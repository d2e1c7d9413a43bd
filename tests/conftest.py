"""Fixtures and rules for every test: the event loop, hypothesis, and what is skipped where its tools are missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from scripts.environment import VOCABULARIES
from scripts.harness.servers import missing_server_programs
from tests.support.clock import SKIPPING
from tests.support.sizes import is_thorough

if TYPE_CHECKING:
    from xdist.remote import Producer

pytest_plugins = ["tests.support.fixtures"]

# No law depends on how fast the machine is; how many examples the main ones try stands in tests/support/cases.py.
settings.register_profile("any_machine", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("any_machine")

# Counts of tokens are tested with real vocabularies where there are any.
if VOCABULARIES.exists():
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(VOCABULARIES))

# Those tests import what only comes with Open WebUI's environment.
collect_ignore = [] if importlib.util.find_spec("open_webui") else ["live"]


class OneOpenWebUI(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Gives all tests in `tests/live` to one worker, since they share an Open WebUI; the others one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/live" if nodeid.startswith("tests/live/") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneOpenWebUI:
    """Replace xdist's own grouping by marker, which needs test names that pytest 9 no longer lets it change."""
    return OneOpenWebUI(config, log)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Async tests run on asyncio, the loop that Open WebUI uses; where marked so, with a clock of its own."""
    return SKIPPING if request.node.get_closest_marker("skips_time") else "asyncio"


def _missing(marker: str) -> str | None:
    """What this machine lacks for tests with the marker; None when nothing."""
    if marker in {"live", "browser"} and importlib.util.find_spec("open_webui") is None:
        return "Open WebUI is not installed"
    if marker == "browser" and not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "Chromium or its driver is not installed"
    if marker == "servers" and (programs := missing_server_programs()):
        return f"not installed: {', '.join(programs)}"
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--thorough` runs what is omitted otherwise."""
    parser.addoption("--thorough", action="store_true", help="run the tests marked `thorough`, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Omit what is thorough, unless that is asked for; skip, with the reason, what this machine cannot run."""
    _omit_thorough(config, items)
    reasons = {marker: _missing(marker) for marker in ("live", "browser", "servers")}
    for item in items:
        for marker, reason in reasons.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def _omit_thorough(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_thorough(item.nodeid, {marker.name for marker in item.iter_markers()}):
            item.add_marker(pytest.mark.thorough)
    if config.getoption("thorough"):
        return
    omitted = [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=omitted)
    items[:] = [item for item in items if not item.get_closest_marker("thorough")]
