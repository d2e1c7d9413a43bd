"""A provider and its writers for tests of summaries: answers are scripted, and what was asked is written down."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.engine.summary_writer import SummaryModel, SummaryWriter
from open_webui_openrouter_pipe.errors import PipeError
from open_webui_openrouter_pipe.planning.plan import CachedPrefix, CacheMarks
from open_webui_openrouter_pipe.summaries.segments import Segment, SummaryTarget
from tests.support.chats import answer, history, system, user

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from open_webui_openrouter_pipe.ports import RequestBody
    from open_webui_openrouter_pipe.responses.failure import Failure
    from open_webui_openrouter_pipe.responses.items import Item

Reply: TypeAlias = "str | PipeError | Mapping[str, Any] | None"
"""A text, an error to raise, a whole response, or None for no answer at all."""

TOLD = {
    "summary_text": "They talked.",
    "key_facts": ["one fact"],
    "open_questions": [],
    "decisions": [],
    "action_items": [],
}
GOOD = json.dumps(TOLD)
COST = 0.25


def response(*items: Mapping[str, Any], status: str = "completed") -> dict[str, Any]:
    """A response with a bill."""
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, "cost": COST}
    return {"id": "resp", "status": status, "model": "m", "output": list(items), "usage": usage}


class Bureau:
    """Answers each request with the next reply, and with the last one for ever; counts who is inside at a time."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.asked: list[RequestBody] = []
        self.inside = 0
        self.most_inside = 0

    async def create(self, body: RequestBody) -> Mapping[str, Any]:
        """Answer."""
        self.asked.append(body)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        self.inside += 1
        self.most_inside = max(self.inside, self.most_inside)
        try:
            await asyncio.sleep(0.01)
            if reply is None:
                await asyncio.Event().wait()
            if isinstance(reply, PipeError):
                raise reply
            return response(answer(reply)) if isinstance(reply, str) else reply or {}
        finally:
            self.inside -= 1

    def stream(self, body: RequestBody) -> Any:
        """Nobody streams a summary."""
        raise AssertionError

    def explain(self, failure: Failure) -> PipeError:
        """The failure as an error."""
        return PipeError(failure.message)


class Clerk:
    """Writes down who asks and what a composer would have been given."""

    def __init__(self, name: str) -> None:
        self._name = name

    def build(self, items: Sequence[Item], marks: CacheMarks | None = None) -> RequestBody:
        """Nobody asks for an answer here."""
        raise AssertionError

    def build_summary_request(
        self, items: Sequence[Item], marks: CacheMarks | None = None, *, output_tokens: int
    ) -> RequestBody:
        """All that was given."""
        return {"by": self._name, "input": list(items), "marks": marks, "limit": output_tokens}

    def host_tool_name(self, name: str) -> str:
        """As it is."""
        return name


def tokens(text: str) -> int:
    """A token is four characters."""
    return len(text) // 4


def stretch(turns: int = 4, *, characters: int = 4_000, start: int = 0) -> SummaryTarget:
    """Neighbouring turns of a chat, each of so many characters, that begin at a number."""
    texts = [(f"Question {at}.", f"{'word ' * (characters // 5)}") for at in range(start, start + turns)]
    chat = history(*([user(asked), answer(said, f"msg_{asked}")] for asked, said in texts))
    whole = build_conversation(chat.items, chat.turn_of_item)
    segment = Segment(b"%d" % start, b"%d" % (start + turns), turns)
    return SummaryTarget(segment, whole.turns, turns * characters // 4)


def live(*stretches: SummaryTarget, tokens: int = 10_000) -> CachedPrefix:
    """A request that holds the stretches."""
    items = [entry.item for each in stretches for turn in each.turns for entry in turn.entries]
    return CachedPrefix((system("You are brief."), *items), CacheMarks(1, 1, 1, 1), tokens)


def scribe(
    bureau: Bureau,
    *,
    rides: bool = True,
    window: int = 100_000,
    own_window: int = 100_000,
    seconds: float = 5.0,
    reasons: bool = False,
) -> SummaryWriter:
    """A scribe with the chat's own model, unless it does not ride, and one with a prompt of its own."""
    return SummaryWriter(
        bureau,
        live=SummaryModel("vendor/chat", Clerk("live"), window, reasons) if rides else None,
        own=SummaryModel("vendor/own", Clerk("own"), own_window, reasons),
        count=tokens,
        time_limit_seconds=seconds,
    )
