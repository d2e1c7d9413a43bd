"""What every store of rows must do, with the sealing on top: test classes inherit it and bring their rows."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import StoreError
from open_webui_openrouter_pipe.history.artifacts import MissingArtifact
from open_webui_openrouter_pipe.ports import Artifact, LoadedArtifacts
from open_webui_openrouter_pipe.store.artifacts import ArtifactLimits, SealedArtifacts, seal
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
        return SealedArtifacts(rows, KEYRING, ArtifactLimits(item_bytes=1_000_000), clock=lambda: NOW)

    async def test_what_is_put_is_loaded_byte_for_byte(self, store: SealedArtifacts) -> None:
        """Key order, numbers, lone surrogates and control characters survive."""
        put = [artifact(number) for number in range(len(ITEMS))]
        await store.put(put)
        loaded = await store.load("ada", [each.id for each in put])
        assert loaded == LoadedArtifacts({each.id: each for each in put})
        written = [json.dumps(each.item) for each in put]
        assert [json.dumps(each.item) for each in loaded.artifacts.values()] == written

    async def test_artifacts_are_loaded_in_the_order_of_the_ids(self, store: SealedArtifacts) -> None:
        """The database's order never shows; an id that is named twice counts once."""
        await store.put([artifact(1), artifact(2), artifact(3)])
        ids = [artifact(number).id for number in (3, 1, 3, 2)]
        loaded = await store.load("ada", ids)
        assert list(loaded.artifacts) == [ids[0], ids[1], ids[3]]

    async def test_an_unknown_id_is_missing(self, store: SealedArtifacts) -> None:
        """What was never put is missing, and does not hide what is stored."""
        await store.put([artifact(1)])
        loaded = await store.load("ada", [artifact(1).id, artifact(2).id])
        assert loaded == LoadedArtifacts({artifact(1).id: artifact(1)}, {artifact(2).id: MissingArtifact()})

    async def test_another_user_finds_nothing(self, store: SealedArtifacts) -> None:
        """A copied marker finds nothing, also after its owner has just used it."""
        await store.put([artifact(1)])
        await store.load("ada", [artifact(1).id])
        assert await store.load("eve", [artifact(1).id]) == LoadedArtifacts(
            {}, {artifact(1).id: MissingArtifact()}
        )

    async def test_another_user_deletes_nothing(self, store: SealedArtifacts) -> None:
        """Only the owner's rows are deleted."""
        await store.put([artifact(1)])
        await store.delete("eve", [artifact(1).id])
        assert (await store.load("ada", [artifact(1).id])).artifacts == {artifact(1).id: artifact(1)}

    async def test_another_user_replaces_nothing(self, store: SealedArtifacts) -> None:
        """The same id of two users names two artifacts."""
        mine, other = artifact(1), artifact(1, ITEMS[2], user_id="eve")
        await store.put([mine, other])
        assert (await store.load("ada", [mine.id])).artifacts == {mine.id: mine}
        assert (await store.load("eve", [mine.id])).artifacts == {mine.id: other}

    async def test_a_later_put_replaces_an_earlier_one(self, store: SealedArtifacts) -> None:
        """Also when the earlier one was loaded in between."""
        await store.put([artifact(1)])
        await store.load("ada", [artifact(1).id])
        await store.put([artifact(1, ITEMS[3])])
        assert (await store.load("ada", [artifact(1).id])).artifacts == {
            artifact(1).id: artifact(1, ITEMS[3])
        }

    async def test_a_deleted_artifact_is_missing(self, store: SealedArtifacts) -> None:
        """Deleting works at once, may be repeated, and leaves the other artifacts."""
        await store.put([artifact(1), artifact(2)])
        await store.load("ada", [artifact(1).id])
        for _ in range(2):
            await store.delete("ada", [artifact(1).id, artifact(9).id])
        loaded = await store.load("ada", [artifact(1).id, artifact(2).id])
        assert loaded == LoadedArtifacts({artifact(2).id: artifact(2)}, {artifact(1).id: MissingArtifact()})

    async def test_a_deleted_id_may_be_put_again(self, store: SealedArtifacts) -> None:
        """A deletion does not outlive a later put."""
        await store.put([artifact(1)])
        await store.delete("ada", [artifact(1).id])
        await store.put([artifact(1)])
        assert (await store.load("ada", [artifact(1).id])).artifacts == {artifact(1).id: artifact(1)}

    async def test_empty_lists_do_nothing(self, store: SealedArtifacts) -> None:
        """An empty put, load or delete is not an error."""
        await store.put([])
        await store.delete("ada", [])
        assert await store.load("ada", []) == LoadedArtifacts()

    async def test_a_list_may_be_longer_than_parameter_limits(self, store: SealedArtifacts) -> None:
        """A list of ids may be longer than a statement's parameters (SQLite 32,766, PostgreSQL 65,535)."""
        await store.put([artifact(1)])
        ids = [artifact(number).id for number in range(70_000)]
        loaded = await store.load("ada", ids)
        assert (list(loaded.artifacts), len(loaded.missing)) == ([artifact(1).id], 69_999)
        await store.delete("ada", ids)
        assert (await store.load("ada", ids[1:2])).missing == {ids[1]: MissingArtifact()}

    async def test_one_bad_artifact_stores_none(self, store: SealedArtifacts) -> None:
        """All or nothing: an item over the limit, or one that is not JSON, rejects the whole put."""
        for bad in ({"type": "x", "text": "y" * 1_000_000}, {"type": "x", "text": object()}):
            with pytest.raises(StoreError):
                await store.put([artifact(1), artifact(2, bad)])
        assert (await store.load("ada", [artifact(1).id])).artifacts == {}

    async def test_many_puts_and_loads_at_once(self, store: SealedArtifacts) -> None:
        """Requests of several chats do not affect each other."""

        async def chat(number: int) -> None:
            mine = [artifact(number * 100 + each, user_id=f"user{number}") for each in range(20)]
            await store.put(mine)
            loaded = await store.load(f"user{number}", [each.id for each in mine])
            assert loaded == LoadedArtifacts({each.id: each for each in mine})

        await asyncio.gather(*(chat(number) for number in range(10)))
