"""Which tests are run in which size of `./scripts/test`: what is marked `thorough`, and where that is decided.

A test with servers or a browser is thorough, except one contract on each server and one walk in a browser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

ALWAYS = (
    "tests/store/test_table.py::TestPostgres::",
    "tests/store/test_cache.py::TestCacheOverMemory::",
    "tests/live/test_page.py::test_a_person_chats",
    "tests/live/test_context_page.py::test_the_page_is_whole_and_accessible[size0-light]",
)
"""Beginnings of the names of tests with servers or a browser that every whole run has."""

THOROUGH = (
    "tests/store/test_processes.py::",
    "tests/live/test_install.py::",
    "tests/live/test_prefix.py::test_a_steady_prompt_breaks_nothing",
    "tests/live/test_privacy.py::test_a_session_sends_what_the_page_names",
    "tests/live/test_refusals.py::",
    "tests/live/test_servers.py::",
    "tests/live/test_ways.py::test_an_automation_is_answered_and_may_go_on",
    "tests/live/test_ways.py::test_speaking_and_typing_share_a_chats_beginning",
)
"""Beginnings of the names of tests that only a thorough run has."""


def is_thorough(test: str, markers: Collection[str]) -> bool:
    """True for a test that the default run omits."""
    return test.startswith(THOROUGH) or (
        not {"servers", "browser"}.isdisjoint(markers) and not test.startswith(ALWAYS)
    )
