"""What every store of rows must do, with the sealing on top: test classes inherit it and bring their rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import StoreError
from open_webui_openrouter_pipe.history.artifacts import MissingArtifact
from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.store.artifacts import MAX_ITEM_BYTES, SealedArtifacts, seal
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.schema import SealedRow
from open_webui_openrouter_pipe.store.sealing import Keyring, encode_item
from open_webui_openrouter_pipe.store.table import RowStore, SqlRows

KEYRING = Keyring(["a passphrase"])
NOW = 1_750_000_000

ITEMS: list[Any] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo" + "x_-9" * 3000},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"b": 1, "a": 2}', "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "3"}]},
    {"z": 1, "type": "openrouter:web_search", "a": [None, True, 1.0, 1e-7, 10**30, {}], "": "\0\x1f\u2028"},
    {"type": "message", "text": 'emoji \U0001f600, halves \ud83d \ude00, umlaut äöü, quote " \\'},
]


@dataclass
class Clock:
    """A clock that a test moves."""

    now: int = NOW

    def __call__(self) -> int:
        return self.now


def watch(database: Database, event: str, part: slice | int = slice(None)) -> list[Any]:
    """What an engine's event was called with, or a part of that, as it happens."""
    seen: list[Any] = []
    sa.event.listen(database._engine.sync_engine, event, lambda *details: seen.append(details[part]))
    return seen


def statements_of(database: Database) -> list[str]:
    """The statements that the database receives from now on."""
    return watch(database, "before_cursor_execute", 2)


def artifact(number: int, item: Any = None, *, user_id: str = "ada", chat_id: str = "chat-1") -> Artifact:
    """An artifact with a 20-character id made of the number."""
    item = ITEMS[number % len(ITEMS)] if item is None else item
    return Artifact(f"{number:020d}", user_id, chat_id, "message-1", item["type"], "openai/gpt-5", item)


def row(
    number: int, *, user_id: str = "ada", chat_id: str = "chat-1", now: int = NOW, text: str = "x"
) -> SealedRow:
    """A sealed row of such an artifact."""
    created = artifact(number, {"type": "reasoning", "text": text}, user_id=user_id, chat_id=chat_id)
    return seal(created, encode_item(created.item), KEYRING, now=now)


def sql_rows(database: Database) -> SqlRows:
    """Rows whose clock stands at `NOW`, so that no load stamps what `row` made."""
    return SqlRows(database, clock=lambda: NOW)


class StoreContract:
    """Inherit this, and bring a fixture `rows`: the store under test."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def store(self, rows: RowStore) -> SealedArtifacts:
        """The engine's store over the rows under test."""
        return SealedArtifacts(rows, KEYRING)

    async def test_what_is_put_is_loaded_byte_for_byte(self, store: SealedArtifacts) -> None:
        """In the order of the ids, of which each counts once; what was never put is missing."""
        put = [artifact(number) for number in range(len(ITEMS))]
        await store.put(put)
        loaded = await store.load("ada", [artifact(number).id for number in (3, 1, 9, 3, 2, 0, 4)])
        found = [put[number] for number in (3, 1, 2, 0, 4)]
        assert loaded == {**{each.id: each for each in found}, artifact(9).id: MissingArtifact()}
        present = [each for each in loaded.values() if isinstance(each, Artifact)]
        assert [json.dumps(each.item) for each in present] == [json.dumps(each.item) for each in found]

    async def test_another_user_neither_finds_nor_replaces_nor_deletes(self, store: SealedArtifacts) -> None:
        """Also after the owner has just used it; the same id of two users names two artifacts."""
        mine, hers = artifact(1), artifact(1, ITEMS[2], user_id="eve")
        await store.put([mine])
        await store.load("ada", [mine.id])
        missing = {mine.id: MissingArtifact()}
        assert await store.load("eve", [mine.id]) == missing
        await store.put([hers])
        assert await store.load("eve", [mine.id]) == {mine.id: hers}
        await store.delete("eve", [mine.id])
        assert await store.load("eve", [mine.id]) == missing
        assert await store.load("ada", [mine.id]) == {mine.id: mine}

    async def test_the_last_put_or_deletion_counts(self, store: SealedArtifacts) -> None:
        """At once, also when the artifact was loaded in between; a deletion may be repeated, and leaves the others."""
        first, later, second = artifact(1), artifact(1, ITEMS[3]), artifact(2)
        await store.put([first, second])
        for put in (first, later):
            await store.put([put])
            assert await store.load("ada", [put.id]) == {put.id: put}
        for _ in range(2):
            await store.delete("ada", [first.id, artifact(9).id])
        remaining = {second.id: second, first.id: MissingArtifact()}
        assert await store.load("ada", [first.id, second.id]) == remaining
        await store.put([first])
        assert await store.load("ada", [first.id]) == {first.id: first}

    async def test_a_list_may_be_empty_or_longer_than_parameter_limits(self, store: SealedArtifacts) -> None:
        """A list of ids may be longer than a statement's parameters (SQLite 32,766, PostgreSQL 65,535)."""
        await store.put([])
        await store.delete("ada", [])
        assert await store.load("ada", []) == {}
        await store.put([artifact(1)])
        ids = [artifact(number).id for number in range(70_000)]
        loaded = await store.load("ada", ids)
        assert loaded == {**dict.fromkeys(ids, MissingArtifact()), artifact(1).id: artifact(1)}
        await store.delete("ada", ids)
        assert await store.load("ada", ids[1:2]) == {ids[1]: MissingArtifact()}

    async def test_one_bad_artifact_stores_none(self, store: SealedArtifacts) -> None:
        """All or nothing: an item over the limit, or one that is not JSON, rejects the whole put."""
        for bad in ({"type": "x", "text": "y" * MAX_ITEM_BYTES}, {"type": "x", "text": object()}):
            with pytest.raises(StoreError):
                await store.put([artifact(1), artifact(2, bad)])
        assert await store.load("ada", [artifact(1).id]) == {artifact(1).id: MissingArtifact()}
