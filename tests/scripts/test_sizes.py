"""What each size of `./scripts/test` runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts import test as script
from scripts.paths import ROOT
from tests.support.sizes import ALWAYS, THOROUGH, is_thorough

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    ("test", "markers", "expected"),
    [
        ("tests/history/test_build.py::test_a", [], False),
        ("tests/store/test_bills.py::test_a[postgres]", ["servers"], True),
        (f"{ALWAYS[0]}test_a", ["servers"], False),
        ("tests/live/test_page.py::test_a", ["live", "browser"], True),
        ("tests/live/test_chat.py::test_a", ["live"], False),
        (f"{THOROUGH[0]}test_a", [], True),
    ],
)
def test_what_is_thorough(test: str, markers: list[str], *, expected: bool) -> None:
    """Servers and browsers, except a contract and a walk; and what is named."""
    assert is_thorough(test, markers) is expected


def test_what_is_named_exists() -> None:
    """A file that is renamed is renamed there, too."""
    files = {name.partition("::")[0] for name in (*ALWAYS, *THOROUGH)}
    assert [file for file in sorted(files) if not (ROOT / file).is_file()] == []


def test_the_pure_folders_have_tests() -> None:
    """They are those of the linter's contract: each is a package with a folder of tests."""
    assert {"tests/history", "tests/planning"} <= set(script.pure_folders())


@pytest.mark.parametrize(
    ("arguments", "tests"),
    [
        ([], script.OF_HOST),
        (["-k", "page"], script.OF_HOST),
        (["tests/live/test_page.py::test_a_person_chats"], ()),
        (["tests/host", "-x"], ()),
    ],
)
def test_another_open_webui_runs_what_it_has_a_part_in(arguments: list[str], tests: Sequence[str]) -> None:
    """With the Python beside it: all of these tests, which exist, or those that are named."""
    command = script.of_host(Path("/its/python"), ["--thorough", *arguments])
    assert (command[0], command[command.index("-n") + 2 :]) == (
        "/its/python",
        [*tests, "--thorough", *arguments],
    )
    assert [name for name in tests if not (ROOT / name).exists()] == []
