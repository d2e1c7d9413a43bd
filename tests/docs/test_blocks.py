"""Every block of code in the documentation is run, or held by a test that is named here; none is passed over."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.history.steady import steady_prompt
from open_webui_openrouter_pipe.money.limits import read_limits
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.valves import Valves, read_advanced
from scripts import bench
from scripts.harness.database import open_database
from scripts.paths import ROOT
from tests.support.pages import Block, blocks, inline_code
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator


LANGUAGES = frozenset({"sh", "python", "sql", "json", "text"})
HELD = Path(__file__).with_name("held.txt")
HELD_COMMANDS: dict[str, str] = dict(case.values for case in rows(HELD, "commands"))
HELD_TEXTS: dict[str, str] = dict(case.values for case in rows(HELD, "beginnings of texts"))
BLOCKS = blocks()


def of(language: str) -> list[Any]:
    """The blocks of a language, as parameters that say where they stand."""
    return [
        pytest.param(block, id=f"{block.page}:{block.line}") for block in BLOCKS if block.language == language
    ]


def shown(beginning: str) -> str:
    """The first text that begins so."""
    return next(each.text for each in BLOCKS if each.text.startswith(beginning))


def commands(block: Block) -> list[str]:
    """The commands of a block, one a line, without their comments."""
    lines = (re.sub(r"\s+#\s.*$", "", line).strip() for line in block.text.splitlines())
    return [line for line in lines if line]


def test_every_block_says_its_language() -> None:
    """One of those that are run or held here."""
    assert [each for each in BLOCKS if each.language not in LANGUAGES] == []


@pytest.mark.parametrize("block", of("json"))
def test_json_can_be_read(block: Block) -> None:
    """One with a name is read by the page's Python; another is a value of the valve `ADVANCED`."""
    value = json.loads(block.text)
    if not block.name:
        assert read_advanced(block.text).model_fields_set == set(value)


@pytest.mark.parametrize("block", of("python"))
def test_an_example_makes_the_items_that_its_page_shows(block: Block) -> None:
    """From the messages and artifacts that the page has by their names."""
    named = [each for each in BLOCKS if each.page == block.page and each.language == "json" and each.name]
    names = {each.name: json.loads(each.text) for each in named}
    exec(block.text, names)
    assert json.dumps(names["built"].items) == json.dumps(names["items"])
    assert (names["built"].missing, names["built"].repairs) == ({}, [])


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Database]:
    """A new database."""
    database = open_database(f"sqlite:///{tmp_path}/rows.db")
    yield database
    await database.aclose()


async def run_sql(database: Database, block: Block) -> None:
    """Run each statement on the pipe's own tables."""
    for statement in filter(str.strip, block.text.split(";")):
        query = sa.text(statement)
        if statement.lstrip().startswith("SELECT"):
            await database.fetch(query)
        else:
            assert await database.change(query) == 0


@pytest.mark.anyio
@pytest.mark.parametrize("block", of("sql"))
async def test_sql_runs_on_sqlite(sqlite: Database, block: Block) -> None:
    """Every table and column exists."""
    await run_sql(sqlite, block)


@pytest.mark.anyio
@pytest.mark.servers
async def test_sql_runs_on_postgresql(postgres_url: str) -> None:
    """The same statements, as they stand."""
    database = open_database(postgres_url)
    try:
        for block in BLOCKS:
            if block.language == "sql":
                await run_sql(database, block)
    finally:
        await database.aclose()


def test_the_replay_command_runs(tmp_path: Path) -> None:
    """As the page has it, where the export is."""
    (command,) = [each for each in HELD_COMMANDS if "replay chat" in each]
    shutil.copy(ROOT / "tests" / "data" / "exports" / "weather.json", tmp_path / "chat-export.json")
    words = [sys.executable, *shlex.split(command)[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "The weather in Paris" in done.stdout


def test_a_test_holds_each_command() -> None:
    """None is missing in the table, none in the table is on no page, and the tests that it names exist."""
    found = {command for block in BLOCKS if block.language == "sh" for command in commands(block)}
    assert found == set(HELD_COMMANDS)
    assert [test for test in HELD_COMMANDS.values() if not exists(test)] == []


def test_a_test_holds_each_text() -> None:
    """Each shown text begins as one in the table, each in the table is shown, and the tests exist."""
    texts = [each.text for each in BLOCKS if each.language == "text"]
    held = {text: key for text in texts for key in HELD_TEXTS if text.startswith(key)}
    assert [text[:60] for text in texts if text not in held] == []
    assert set(held.values()) == set(HELD_TEXTS)
    assert [test for test in HELD_TEXTS.values() if test != "a drawing" and not exists(test)] == []


def exists(test: str) -> bool:
    """Whether there is such a test, or such a file of tests."""
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and f"def {name}" in (ROOT / path).read_text("utf-8")


def test_what_commands_name_exists() -> None:
    """Scripts, modules, benchmarks and tests, in blocks as in the text."""
    in_blocks = [each for block in BLOCKS if block.language == "sh" for each in commands(block)]
    missing = [
        command
        for command in [*inline_code(), *in_blocks]
        if not all(_names_what_exists(command.split(), bench.find()))
    ]
    assert missing == []


def _names_what_exists(words: list[str], benchmarks: Iterable[str]) -> Iterator[bool]:
    if words[:2] == ["python", "-m"]:
        yield importlib.util.find_spec(words[2]) is not None
    if words[0].startswith("./scripts/"):
        yield os.access(ROOT / words[0], os.X_OK)
    if words[0] == "./scripts/bench" and words[1:] and words[1][0].islower():
        yield words[1] in benchmarks
    yield from ((ROOT / word).exists() for word in words if word.startswith("tests/"))


def test_the_frame_of_a_message() -> None:
    """It is one of those in the examples of summaries, which are made by the code."""
    examples = ROOT / "tests" / "data" / "examples" / "examples.md"
    assert shown("The user wrote") in examples.read_text("utf-8")


def test_the_note_of_a_changed_prompt() -> None:
    """What stands before a question when the clock in the system prompt has moved."""
    kept, now = (f"Be kind.\nIt is 2026-11-23 10:0{minute}:00." for minute in (0, 5))
    assert steady_prompt(kept, now).note == shown("Your instructions").rstrip("\n")


def test_the_limits_can_be_read() -> None:
    """All of them."""
    limits = read_limits(shown("user:"))
    assert (len(limits.limits), limits.unreadable) == (5, ())


def test_both_passphrases_are_read() -> None:
    """The new one first."""
    name, _, value = shown("ARTIFACT").strip().partition(" = ")
    read = read_settings(Valves(**{name: value})).store.passphrases
    assert read == ("the new passphrase", "the old passphrase")
