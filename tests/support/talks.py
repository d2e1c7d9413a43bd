"""Long chats on a page: turns that were said before, in plain short words, and what the requests were like.

The words are so short that the stand-in never bills more for a request than we count, so that no bill moves the line
at which a request is too large.
"""

from __future__ import annotations

import random
import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from open_webui_openrouter_pipe.app import App, HostResources
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.settings import UserValves
from open_webui_openrouter_pipe.store.audit import AuditLog
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.sealing import Keyring
from open_webui_openrouter_pipe.store.summaries import SealedSummaries, SummaryRows
from scripts.standin.log import RecordedRequest
from tests.support.page import Answer, Json, NobodyElse, Page, PipeInProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from open_webui_openrouter_pipe.planning.audit import AuditRow
    from open_webui_openrouter_pipe.summaries.summary import Summary
    from scripts.standin import StandIn

SECRET = "the host's secret"
HEADER = "[Earlier parts of this conversation, shortened."
_SAID = "to be or no to go by an ox up at us so we do it as if in my pa we am he me is a hat of all of it on"
_WORDS = _SAID.split()


@dataclass(frozen=True, slots=True)
class Place:
    """A database by its address, and the schema in it; workers in the same place share all that is kept."""

    url: str
    schema: str | None = None

    @classmethod
    def in_folder(cls, folder: Path) -> Place:
        """A file in a folder."""
        return cls(f"sqlite:///{folder / 'rows.db'}")

    def open(self) -> Database:
        """Connect."""
        return Database.from_url(self.url, schema=self.schema)


class Worker(PipeInProcess):
    """A pipe in a place, as a context."""

    def __init__(self, place: Place, standin: StandIn, folder: Path, **valves: Any) -> None:
        super().__init__(folder, base_url=standin.base_url, **valves)
        self._place = place

    def _build(self) -> App:
        self._database = self._place.open()
        self._app = App(HostResources(self._database, NobodyElse(), SECRET))
        return self._app


class Talk(Page):
    """A page whose user may have settings, and whose chat may have parameters and a history."""

    def __init__(
        self,
        pipe: Pipe,
        model: str,
        *,
        parameters: Json | None = None,
        user_valves: UserValves | None = None,
        chat_id: str = "chat",
        user_id: str = "user",
    ) -> None:
        super().__init__(pipe, model, chat_id=chat_id, user_id=user_id)
        self.parameters = parameters or {}
        self.user_valves = user_valves

    def body(self) -> Json:
        """What the pipe gets beside the messages."""
        return {**super().body(), **self.parameters}

    async def _call(self, body: Json) -> Any:
        metadata = {"chat_id": self.chat_id, "message_id": f"message-{len(self.turns)}"}
        user = {"id": self.user_id, "valves": self.user_valves}
        return await self._pipe.pipe(body, __user__=user, __metadata__=metadata)

    def grow(self, turns: int, *, tokens: int = 240, seed: str = "") -> Talk:
        """Add turns of about so many tokens each, as if they had been said."""
        for _ in range(turns):
            number = len(self.turns)
            count = tokens // 2 - 10
            self.say(
                f"Question {number}: {words(count, f'{seed}q{number}')}",
                message(f"Answer {number}: {words(count, f'{seed}a{number}')}", number),
            )
        return self

    def say(self, text: str, *output: Json) -> None:
        """Add a turn as if it had been said."""
        self.turns.append((text, Answer(list(output))))

    async def go_on(self, tokens: int = 120) -> Answer:
        """Ask the next question, of about so many tokens."""
        number = len(self.turns)
        return await self.ask(f"Question {number}: {words(tokens - 10, f'q{number}')}")

    def like(self, other: Talk, turns: int) -> Talk:
        """Begin with another chat's first turns."""
        self.turns = list(other.turns[:turns])
        return self


def words(count: int, seed: object) -> str:
    """So many short words, the same for the same seed."""
    return " ".join(random.Random(str(seed)).choices(_WORDS, k=count))


def message(text: str, name: object) -> Json:
    """A message of the assistant as the host stores it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": f"msg_{name}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def tool_round(call_id: str, name: str, arguments: str, output: str) -> tuple[Json, Json]:
    """A call of a tool and what came back, as the host stores them."""
    named = {"call_id": call_id, "status": "completed"}
    call = {"type": "function_call", "id": f"fc_{call_id}", "name": name, "arguments": arguments, **named}
    part = {"type": "input_text", "text": output}
    return call, {"type": "function_call_output", "id": f"fco_{call_id}", "output": [part], **named}


def asked_for_summaries(standin: StandIn) -> list[RecordedRequest]:
    """The requests to summarisers."""
    return [request for request in standin.responses if request.is_summary]


def answered(standin: StandIn) -> RecordedRequest:
    """The last request for an answer."""
    return [request for request in standin.responses if not request.is_summary][-1]


def texts(request: RecordedRequest) -> list[str]:
    """The texts of a request's input, item by item."""
    return ["\n".join(_texts(item)) for item in request.body["input"]]


def blocks(request: RecordedRequest) -> list[int]:
    """Which items of a request's input stand in for turns."""
    return [at for at, text in enumerate(texts(request)) if text.startswith(HEADER)]


def questions(request: RecordedRequest) -> list[int]:
    """The numbers of the questions that a request's input holds as they were asked."""
    found = (re.match(r"Question (\d+):", text) for text in texts(request))
    return [int(match[1]) for match in found if match]


def transcribed(request: RecordedRequest) -> list[int]:
    """The numbers of the questions in the transcript of a request for a summary."""
    return [int(number) for number in re.findall(r"Question (\d+):", texts(request)[-1])]


def _texts(item: Json) -> Iterator[str]:
    content = item.get("content")
    parts: Sequence[Json] = content if isinstance(content, list) else [{"text": content or ""}]
    yield from (part.get("text", "") for part in parts)
    yield str(item.get("output", ""))
    yield item.get("arguments", "")


async def kept(place: Place, user_id: str = "user") -> list[Summary]:
    """All summaries of a user that are stored."""
    async with aclosing(place.open()) as database, aclosing(SummaryRows(database)) as rows:
        table = database.tables.summary
        chosen = sa.select(table.c.start_chain, table.c.end_chain).where(table.c.user_id == user_id)
        ends = [bytes.fromhex(end) for pair in await _found(database, chosen) for end in pair]
        summaries = SealedSummaries(rows, Keyring([SECRET]))
        return list((await summaries.find(user_id, ends, chat_id="")).values())


async def claims(place: Place) -> list[str]:
    """The claims on summaries that somebody holds."""
    async with aclosing(place.open()) as database:
        names = [row.name for row in await _found(database, sa.select(database.tables.lease))]
        return [name for name in names if name.startswith("summary:")]


async def recorded(place: Place) -> list[AuditRow]:
    """The audit, the oldest first."""
    async with aclosing(place.open()) as database:
        return [each.row for each in await AuditLog(database).records(limit=10_000)][::-1]


async def _found(database: Database, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
    return await database.fetch(query)
