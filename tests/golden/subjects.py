"""Everything that golden cases know of the package: a module that moves, or a name that changes, is changed here alone.

Most cases go through `open_pipe`, the way of Open WebUI itself; the functions below are what no request shows.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import asynccontextmanager
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from open_webui_openrouter_pipe import Pipe, transform_messages_to_input
from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.conversation import media
from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    build_conversation,
    content_digest,
)
from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact
from open_webui_openrouter_pipe.history.markers import (
    REFERENCE_TYPE,
    Reference,
    code_ulids,
    erase_markers,
    item_id,
    leading_markers,
    name_call,
    read_call_name,
    read_references,
    split_text_by_markers,
    standalone_markers,
    write_reference,
)
from open_webui_openrouter_pipe.host.model_rows import _digest as row_digest
from open_webui_openrouter_pipe.openrouter.request import identity_parameters
from open_webui_openrouter_pipe.ports import Artifact, RequestOrigin
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.store.kept import _lease_name
from open_webui_openrouter_pipe.store.schema import define_tables
from open_webui_openrouter_pipe.store.sealing import open_text, seal_text
from open_webui_openrouter_pipe.summaries.segments import Segment, SegmentSizes, segment_ends
from open_webui_openrouter_pipe.valves import OWN_KEY_PURPOSE, UserValves
from open_webui_openrouter_pipe.words.lines import LANGUAGES, in_language, notice
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords, Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    import httpx

__all__ = [
    "LANGUAGES",
    "REFERENCE_TYPE",
    "Page",
    "Pipe",
    "Reference",
    "UserValves",
    "code_ulids",
    "content_digest",
    "erase_markers",
    "estimate_tokens",
    "in_language",
    "item_id",
    "leading_markers",
    "name_call",
    "notice",
    "read_call_name",
    "read_references",
    "row_digest",
    "split_text_by_markers",
    "standalone_markers",
    "write_reference",
]

SECRET = "the host's secret, of a host that does not exist"
NOW_SECONDS = 1_790_000_000.0
_MEMORY = next(filter(Path.is_dir, [Path("/dev/shm")]), None)
"""Where files are in memory, if anywhere: no case waits for a disk."""

Json = dict[str, Any]


class Opened:
    """A pipe on a database file of its own, and what a host does beside its calls."""

    def __init__(self, folder: Path, network: httpx.AsyncBaseTransport, valves: Mapping[str, Any]) -> None:
        self.path = folder / "rows.db"
        self.database = open_database(f"sqlite:///{self.path}")
        resources = Host(self.database, FakeRecords(), SECRET)
        self.app = App(resources, transport=network, clock=lambda: NOW_SECONDS)
        self.pipe = Pipe(lambda: self.app)
        fixed = {"API_KEY": "sk-or-golden", "COST_LINE": "off", "ARTIFACT_CLEANUP_DAYS": 0}
        self.pipe.valves = Pipe.Valves(**{**fixed, **valves})

    async def events(
        self, body: Json, metadata: Json, *, user: str = "ada", task: str | None = None
    ) -> list[Any]:
        """What a call gives: events, parts of a streamed response, or one object; then nothing runs beside it."""
        answer = await self.pipe.pipe(body, {"id": user}, metadata, task)
        answer = getattr(answer, "body_iterator", answer)
        events = [answer] if isinstance(answer, dict) else [event async for event in answer]
        await self.settle()
        return events

    async def settle(self) -> None:
        """Wait for what runs beside the answers."""
        await self.app.idle()

    async def written(self) -> None:
        """Wait for what is gathered for a second before it is written."""
        await self.app.worker.own.audit.idle()

    async def close(self) -> None:
        """Write what is still to be written, and end."""
        await self.settle()
        await self.app.aclose()
        await self.database.aclose()

    async def store(self, user_id: str, items: Mapping[str, tuple[str, Any]]) -> None:
        """Keep items, each with the model that wrote it, under these ULIDs."""
        stores = await self.app.worker.stores(read_settings(self.pipe.valves).store)
        await stores.durable.put(
            [
                Artifact(ulid, user_id, "chat", "message", item["type"], model, item)
                for ulid, (model, item) in items.items()
            ]
        )


@asynccontextmanager
async def open_pipe(
    network: httpx.AsyncBaseTransport, rows: str = "", **valves: Any
) -> AsyncIterator[Opened]:
    """A pipe that knows the models already; `rows` is SQL that fills its database before."""
    with tempfile.TemporaryDirectory(prefix="golden-", dir=_MEMORY) as folder:
        opened = Opened(Path(folder), network, valves)
        if rows:
            with sqlite3.connect(opened.path) as connection:
                connection.executescript(rows)
            connection.close()
        await opened.pipe.pipes()
        await opened.settle()
        try:
            yield opened
        finally:
            await opened.close()


# --- what no request shows


async def transformed(messages: Sequence[Any], artifacts: Mapping[str, Any]) -> list[Any]:
    """The input of a chat with these items for its markers, whatever model is asked."""
    loaded = {ulid: LoadedArtifact(item, "openai/gpt-5.2") for ulid, item in artifacts.items()}
    return list((await transform_messages_to_input(messages, artifact_loader=loaded)).items)


def chains(items: Sequence[Any], turn_of_item: Sequence[int]) -> list[str]:
    """The chain digest at the end of each turn."""
    return [turn.chain.hex() for turn in build_conversation(items, turn_of_item).turns]


def ends(sources_tokens: Sequence[int], window_tokens: int, max_turns: int) -> tuple[int, ...]:
    """Where segments end in a window."""
    settings = ContextSettings(summary_turn_trigger=max_turns)
    return segment_ends(sources_tokens, SegmentSizes.of(settings, window_tokens))


def identity(user_id: str, chat_id: str, message_id: str, task: str | None) -> Json:
    """What names a chat, its user and a message."""
    return identity_parameters(
        "trace", RequestOrigin(user_id, chat_id, message_id, ""), SECRET.encode(), task=task
    )


def lease_name(user_id: str, start: bytes, end: bytes, turns: int) -> str:
    """The name of the claim to make a summary."""
    return _lease_name(user_id, Segment(start, end, turns))


def redis_keys(user_id: str, ids: Sequence[str]) -> list[str]:
    """The names of rows in Redis."""
    return GuardedRedis(None, prefix="open-webui").row_keys(user_id, ids)


def sealed_key(key: str, owner: str) -> str:
    """A user's own API key as it is stored."""
    return seal_text(key, SECRET, purpose=OWN_KEY_PURPOSE, owner=owner)


def opened_key(sealed: str, owner: str) -> str:
    """What was stored, or the name of the error."""
    try:
        return open_text(sealed, SECRET, purpose=OWN_KEY_PURPOSE, owner=owner)
    except Exception as error:  # noqa: BLE001 - any refusal is one
        return type(error).__name__


def counted(item: Any, vendor: str) -> tuple[int, ...]:
    """The tokens of an item under the rules of a vendor, by kind."""
    return tuple(TokenCounter(ContentCache(), family=media.family_of(vendor)).item(item))


def schemas() -> Iterator[tuple[str, Any]]:
    """The JSON schemas of the forms, for administrators and for users under four settings."""
    yield "admin", Pipe.Valves.model_json_schema()
    for name, valves in (
        ("plain", {}),
        ("overriding", {"ENABLE_USER_OVERRIDE": True, "CONTEXT_AIM": "thrifty"}),
        ("few", {"USER_CONTROLS": "WEB_SEARCH, ZDR"}),
        ("strict", {"ZDR": True, "WEB_SEARCH": "on", "COST_LINE": "forecast", "RECALL": False}),
    ):
        pipe = Pipe()
        pipe.valves = Pipe.Valves(**cast("Any", valves))
        yield f"user, {name}", pipe.UserValves.model_json_schema()


def statements(dialect: str) -> list[str]:
    """The statements that create all tables."""
    tables, found = define_tables("chat" if dialect == "postgresql" else None), list[str]()
    compiler = cast("Any", postgresql if dialect == "postgresql" else sqlite).dialect()

    def keep(statement: Any, *_: Any, **__: Any) -> None:
        found.append(str(statement.compile(dialect=compiler)).strip())

    engine = sa.create_mock_engine(f"{dialect}://", keep)
    metadata = getattr(tables, fields(tables)[0].name).metadata
    metadata.create_all(cast("Any", engine), checkfirst=False)
    return sorted(found)


def run(work: Callable[[], Any], *, days_later: int = 1) -> Any:
    """Run one coroutine in an event loop of its own; the clock and the dice of new ids are the same each time."""
    ticks = count((int(NOW_SECONDS) + days_later * 86_400) * 10**9, 1_000)
    with patch("time.time_ns", lambda: next(ticks)), patch("secrets.randbits", lambda _bits: 0):
        return asyncio.run(work())
