"""A pipe behind a network that cases control, called as Open WebUI calls it, and what no request shows."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from open_webui_openrouter_pipe import Pipe, transform_messages_to_input
from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact
from open_webui_openrouter_pipe.history.reading import answers_without_items
from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.store.sealing import open_text, seal_text
from open_webui_openrouter_pipe.valves import OWN_KEY_PURPOSE
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    import httpx

    from open_webui_openrouter_pipe.host.call import Call

SECRET = "the host's secret, of a host that does not exist"
NOW_SECONDS = 1_790_000_000.0
_MEMORY = next(filter(Path.is_dir, [Path("/dev/shm")]), None)
"""Where files are in memory, if anywhere: no case waits for a disk."""

Json = dict[str, Any]


async def _folded_answers(call: Call) -> list[str]:
    """A host keeps items of what it hands over with more than text."""
    return answers_without_items(call.messages)


class Opened:
    """A pipe on a database file of its own, and what a host does beside its calls."""

    def __init__(self, folder: Path, network: httpx.AsyncBaseTransport, valves: Mapping[str, Any]) -> None:
        self.path = folder / "rows.db"
        self.database = open_database(f"sqlite:///{self.path}")
        resources = Host(self.database, FakeRecords(), Secret(SECRET), folded_answers=_folded_answers)
        self.app = App(resources, transport=network, clock=lambda: NOW_SECONDS)
        self.pipe = Pipe(lambda: self.app)
        fixed = {"API_KEY": "sk-or-golden", "COST_LINE": "off", "ARTIFACT_CLEANUP_DAYS": 0}
        self.pipe.valves = Pipe.Valves(**{**fixed, **valves})

    async def events(
        self,
        model: str,
        messages: Sequence[Any],
        metadata: Mapping[str, Any],
        *,
        user: str = "ada",
        task: str | None = None,
        **body: Any,
    ) -> list[Any]:
        """What a call gives: events, parts of a streamed response, or one object; then nothing runs beside it."""
        whole = {"model": f"openrouter.{model}", "messages": messages, "stream": True, **body}
        answer = await self.pipe.pipe(whole, {"id": user}, dict(metadata), task)
        answer = getattr(answer, "body_iterator", answer)
        events = [answer] if isinstance(answer, dict) else [event async for event in answer]
        await self.settle()
        return events

    async def settle(self) -> None:
        """Wait for what runs beside the answers, and until what was learned of counts is stored."""
        await self.app.idle()
        await self.app.worker.own.calibrations.idle()

    async def written(self) -> None:
        """Wait for what is gathered for a second before it is written."""
        await self.app.worker.own.ledger.idle()

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


def sealed_key(key: str, owner: str) -> str:
    """A user's own API key as it is stored."""
    return seal_text(key, SECRET, purpose=OWN_KEY_PURPOSE, owner=owner)


def opened_key(sealed: str, owner: str) -> str:
    """What was stored, or the name of the error."""
    try:
        return open_text(sealed, SECRET, purpose=OWN_KEY_PURPOSE, owner=owner)
    except Exception as error:  # noqa: BLE001 - any refusal is one
        return type(error).__name__


def run(work: Callable[[], Any], *, days_later: int = 1) -> Any:
    """Run one coroutine in an event loop of its own; the clock and the dice of new ids are the same each time."""
    ticks = count((int(NOW_SECONDS) + days_later * 86_400) * 10**9, 1_000)
    with patch("time.time_ns", lambda: next(ticks)), patch("secrets.randbits", lambda _bits: 0):
        return asyncio.run(work())
