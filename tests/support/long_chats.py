"""Long chats on a page, made of plain short words, and what the requests of such a chat hold.

The words are so short that a stand-in on which four bytes are a token (`byte_standin`) never bills more for a request
than the pipe counts, so that no bill moves the line at which a request is too large. Each is a token of o200k_base, and
about one by the pipe's estimate.
"""

from __future__ import annotations

import random
import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.kept import SealedSummaries, SummaryRows
from open_webui_openrouter_pipe.store.sealing import Keyring
from open_webui_openrouter_pipe.valves import UserValves
from scripts.harness.database import open_database
from scripts.harness.page import SECRET_KEY, Answer, Json, Page, PipeInProcess
from scripts.standin.state import RecordedRequest
from tests.support.audited import audited

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from open_webui_openrouter_pipe.money.audit import Bill
    from open_webui_openrouter_pipe.summaries.summary import Summary
    from scripts.standin import StandIn

HEADER = "[Earlier parts of this conversation, shortened."
_TEXT = "no go hi us at up is a run to ah it or ye all an if now eh"
_WORDS = _TEXT.split()


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A database by its URL, and the schema in it; workers with the same address share all that is stored."""

    url: str
    schema: str | None = None

    @classmethod
    def in_folder(cls, folder: Path) -> DatabaseAddress:
        """A file in a folder."""
        return cls(f"sqlite:///{folder / 'rows.db'}")

    def open(self) -> Database:
        """Connect."""
        return open_database(self.url, schema=self.schema)


class Worker(PipeInProcess):
    """A pipe on a database that it may share with other workers, as a context."""

    def __init__(self, address: DatabaseAddress, standin: StandIn, folder: Path, **valves: Any) -> None:
        super().__init__(folder, base_url=standin.base_url, **valves)
        self._address = address

    def open_database(self) -> Database:
        """The one at the address."""
        return self._address.open()


class LongChat(Page):
    """A page whose user may have valves, and whose chat may have parameters and earlier turns."""

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
        """The request body that the pipe gets."""
        return {**super().body(), **self.parameters}

    async def _call(self, body: Json) -> Any:
        metadata = {"chat_id": self.chat_id, "message_id": f"message-{len(self.turns)}"}
        user = {"id": self.user_id, "valves": self.user_valves}
        return await self._pipe.pipe(body, __user__=user, __metadata__=metadata)

    def grow(self, turns: int, *, tokens: int = 240, seed: str = "") -> LongChat:
        """Add earlier turns of about so many tokens each."""
        for _ in range(turns):
            number = len(self.turns)
            count = tokens // 2 - 10
            self.add_turn(
                f"Question {number}: {words(count, f'{seed}q{number}')}",
                message(f"Answer {number}: {words(count, f'{seed}a{number}')}", number),
            )
        return self

    def add_turn(self, text: str, *output: Json) -> None:
        """Add an earlier turn."""
        self.turns.append((text, Answer(list(output))))

    async def ask_next(self, tokens: int = 120) -> Answer:
        """Ask the next question, of about so many tokens."""
        number = len(self.turns)
        return await self.ask(f"Question {number}: {words(tokens - 10, f'q{number}')}")

    def copy_turns(self, other: LongChat, turns: int) -> LongChat:
        """Take over another chat's first turns."""
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
    """A tool call and its result as the host stores them."""
    named = {"call_id": call_id, "status": "completed"}
    call = {"type": "function_call", "id": f"fc_{call_id}", "name": name, "arguments": arguments, **named}
    part = {"type": "input_text", "text": output}
    return call, {"type": "function_call_output", "id": f"fco_{call_id}", "output": [part], **named}


def summary_requests(standin: StandIn) -> list[RecordedRequest]:
    """The requests for summaries."""
    return [request for request in standin.responses if request.is_summary]


def last_request(standin: StandIn) -> RecordedRequest:
    """The last request for an answer."""
    return [request for request in standin.responses if not request.is_summary][-1]


def input_texts(request: RecordedRequest) -> list[str]:
    """The text of each input item."""
    return ["\n".join(_texts(item)) for item in request.body["input"]]


def summary_blocks(request: RecordedRequest) -> list[int]:
    """The indexes of the input items that hold summaries."""
    return [index for index, text in enumerate(input_texts(request)) if text.startswith(HEADER)]


def questions_sent(request: RecordedRequest) -> list[int]:
    """The numbers of the questions that the input holds word for word."""
    found = (re.match(r"Question (\d+):", text) for text in input_texts(request))
    return [int(match[1]) for match in found if match]


def transcribed_questions(request: RecordedRequest) -> list[int]:
    """The numbers of the questions in the transcript of a request for a summary."""
    return [int(number) for number in re.findall(r"Question (\d+):", input_texts(request)[-1])]


def _texts(item: Json) -> Iterator[str]:
    content = item.get("content")
    parts: Sequence[Json] = content if isinstance(content, list) else [{"text": content or ""}]
    yield from (part.get("text", "") for part in parts)
    yield str(item.get("output", ""))
    yield item.get("arguments", "")


async def stored_summaries(address: DatabaseAddress, user_id: str = "user") -> list[Summary]:
    """All summaries of a user in the database."""
    async with aclosing(address.open()) as database, aclosing(SummaryRows(database)) as rows:
        table = database.tables.summary
        query = sa.select(table.c.start_chain, table.c.end_chain).where(table.c.user_id == user_id)
        ends = [bytes.fromhex(end) for pair in await _rows(database, query) for end in pair]
        summaries = SealedSummaries(rows, Keyring([SECRET_KEY]))
        return list((await summaries.find(user_id, ends, chat_id="")).values())


async def summary_claims(address: DatabaseAddress) -> list[str]:
    """The claims on summaries that some worker holds."""
    async with aclosing(address.open()) as database:
        names = [row.name for row in await _rows(database, sa.select(database.tables.lease))]
        return [name for name in names if name.startswith("summary:")]


async def audit_rows(address: DatabaseAddress) -> list[Bill]:
    """The audit, the oldest first."""
    async with aclosing(address.open()) as database:
        return (await audited(database, limit=10_000))[::-1]


async def _rows(database: Database, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
    return await database.fetch(query)
