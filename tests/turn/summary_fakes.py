"""A provider with scripted answers, and summary writers that ask it, for tests of summaries."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.errors import PipeError
from open_webui_openrouter_pipe.planning.plan import CachedPrefix, CacheMarks
from open_webui_openrouter_pipe.ports import Request
from open_webui_openrouter_pipe.responses.effects import terminal_event
from open_webui_openrouter_pipe.summaries.segments import Segment, SummaryTarget
from open_webui_openrouter_pipe.turn.summaries import SummaryModel, SummaryWriter
from tests.support.chats import answer, history, system, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

    from open_webui_openrouter_pipe.money.audit import Bill
    from open_webui_openrouter_pipe.ports import Event, RequestBody
    from open_webui_openrouter_pipe.responses.failure import Failure
    from open_webui_openrouter_pipe.responses.items import Item

Reply: TypeAlias = "str | Exception | Mapping[str, Any] | None"
"""A text, an error to raise, a whole response, or None for no answer at all."""

FIELDS = {
    "summary_text": (
        "They talked. The user asked one question after the other, and the assistant answered each of them with the "
        "same word over and over. Nothing was decided, nothing failed, and nobody minded. The user is expected to ask "
        "the next question, to which the answer is likely to be that very word again."
    ),
    "key_facts": ["one fact"],
    "open_questions": [],
    "decisions": [],
    "action_items": [],
}
GOOD = json.dumps(FIELDS)
COST = 0.25


def response(*items: Mapping[str, Any], status: str = "completed") -> dict[str, Any]:
    """A response that was billed."""
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, "cost": COST}
    return {"id": "resp", "status": status, "model": "m", "output": list(items), "usage": usage}


async def _only(event: Event) -> AsyncIterator[Event]:
    yield event


class FakeProvider:
    """Answers each request with the next reply, and with the last one from then on; counts concurrent requests."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.requests: list[RequestBody] = []
        self.running = 0
        self.max_running = 0
        self.named: list[str] = []

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncIterator[AsyncIterator[Event]]:
        """Answer a request; one that is never answered has an id all the same."""
        self.requests.append(body)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        self.running += 1
        self.max_running = max(self.running, self.max_running)
        try:
            await asyncio.sleep(0.01)
            if reply is None:
                self.named.append(f"gen-{len(self.requests)}")
                await asyncio.Event().wait()
            if isinstance(reply, Exception):
                raise reply
            yield _only(
                terminal_event(response(answer(reply)) if isinstance(reply, str) else {**(reply or {})})
            )
        finally:
            self.running -= 1

    def explain(self, failure: Failure) -> PipeError:
        """Return the failure as an error."""
        return PipeError(failure.message)


class FakeRequests:
    """Builds bodies that say by whom they were built and from what; one tool is sent under another name."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def build(
        self,
        items: Sequence[Item],
        marks: CacheMarks | None = None,
        *,
        omitted_tools: Collection[str] = (),
        thinks: bool = True,
        spent: Callable[[], float] = lambda: 0.0,
    ) -> Request:
        """Return the items alone, and that the model is not to think."""
        reasoning = {} if thinks else {"reasoning": {"effort": "none"}}
        return Request({**reasoning, "input": list(items)}, {"a_b": "a.b"})

    def build_summary_request(
        self,
        items: Sequence[Item],
        marks: CacheMarks | None = None,
        *,
        output_tokens: int,
        omitted_tools: Collection[str] = (),
    ) -> RequestBody:
        """Return all that was given."""
        return {"by": self._name, "input": list(items), "marks": marks, "limit": output_tokens}


def count_tokens(text: str) -> int:
    """Count four characters as a token."""
    return len(text) // 4


def target(turns: int = 4, *, characters: int = 4_000, start: int = 0) -> SummaryTarget:
    """Turns of a chat with so many characters each, numbered from `start`."""
    texts = [(f"Question {at}.", "word " * (characters // 5)) for at in range(start, start + turns)]
    chat = history(*([user(asked), answer(reply, f"msg_{asked}")] for asked, reply in texts))
    whole = build_conversation(chat.items, chat.turn_of_item)
    segment = Segment(b"%d" % start, b"%d" % (start + turns), turns)
    return SummaryTarget(segment, whole.turns, turns * characters // 4)


def cached_prefix(*targets: SummaryTarget, tokens: int = 10_000) -> CachedPrefix:
    """A request that holds the targets."""
    items = [entry.item for each in targets for turn in each.turns for entry in turn.entries]
    return CachedPrefix((system("You are brief."), *items), CacheMarks(1, 1, 1, 1), tokens)


def when_needed(writer: SummaryWriter) -> Callable[[], Awaitable[SummaryWriter]]:
    """What makes this writer."""

    async def make() -> SummaryWriter:
        return writer

    return make


async def hold_nothing(bill: Bill, _body: RequestBody) -> Bill:
    """No limit: the bill as it is."""
    return bill


def summary_writer(
    provider: FakeProvider,
    *,
    uses_suffix: bool = True,
    window: int = 100_000,
    standalone_window: int = 100_000,
    reasons: bool = False,
    ratio: float = 1.0,
) -> SummaryWriter:
    """A writer that asks the provider as "suffix" (unless it does not pay) or "standalone"."""
    suffix_model = SummaryModel("vendor/chat", FakeRequests("suffix"), window, reasons, ratio=ratio)
    return SummaryWriter(
        provider,
        provider.named,
        suffix_model=suffix_model if uses_suffix else None,
        standalone_model=SummaryModel("vendor/own", FakeRequests("standalone"), standalone_window, reasons),
        count=count_tokens,
        clock=lambda: 0.0,
        hold=hold_nothing,
    )
