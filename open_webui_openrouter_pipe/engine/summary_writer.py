"""Has a model write one summary.

Owns the two ways of asking (after the live request, which the provider has in its cache, or with a prompt of its
own), the order in which they are tried, the time limit, and the judgement of what comes back. It keeps nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..errors import (
    AccessDenied,
    AuthenticationFailed,
    ConfigurationError,
    ModelNotFound,
    PaymentRequired,
    PipeError,
    RateLimited,
)
from ..planning.plan import CachedPrefix, CacheMarks
from ..ports import Requests, Responses
from ..responses.effects import ResponseFailed, ResponseFinished
from ..responses.items import Item, is_message
from ..responses.reducer import reduce_response
from ..responses.usage import Usage
from ..summaries.completion import complete_summary
from ..summaries.prompt import names_its_part, source_parts, standalone_request, suffix_instruction
from ..summaries.segments import SummaryTarget
from ..summaries.summary import (
    ModelSummary,
    Summary,
    SummaryRefused,
    join_model_summaries,
    parse_model_summary,
    render_summary,
    response_text,
)
from ..summaries.transcript import message_text

ATTEMPTS: Final = 2
TOLD_SHARE: Final = 0.5
"""What of a summary's room the model may fill; the rest is for what is added word for word."""
OUTPUT_SLACK: Final = 2
LEAST_OUTPUT_TOKENS: Final = 1_024
"""Models keep to a length only roughly; what is too long for its room is cut afterwards, at the end of an entry."""
THINKING_TOKENS: Final = 8_192
THINKING_SHARE: Final = 0.125
WINDOW_SHARE: Final = 0.8

LEAST_SOURCE_SHARE: Final = 0.25
LEAST_TOLD_TOKENS: Final = 200

_USELESS_TO_REPEAT: Final = (
    AuthenticationFailed,
    PaymentRequired,
    AccessDenied,
    ModelNotFound,
    RateLimited,
    ConfigurationError,
)
_WORDS_OF_NAME: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SummaryModel:
    """A model that writes summaries, and how to ask it; the window is in tokens."""

    model: str
    requests: Requests
    window_tokens: int
    reasons: bool = False

    def output_tokens(self, told_tokens: int) -> int:
        """What an answer may come to that tells so much, with the thinking of a model that thinks."""
        thinking_tokens = (
            min(THINKING_TOKENS, int(self.window_tokens * THINKING_SHARE)) if self.reasons else 0
        )
        return max(LEAST_OUTPUT_TOKENS, told_tokens * OUTPUT_SLACK) + thinking_tokens


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to a writer: what it was billed, and why it came to nothing; `failure` is empty for a success.

    `is_final` says that asking again would fail as well.
    """

    writer: SummaryModel
    output_tokens: int
    usage: Usage | None = None
    failure: str = ""
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class WriterResult:
    """What became of a stretch: its summary, None when all attempts failed, and the attempts; at least one."""

    attempts: tuple[Attempt, ...]
    summary: Summary | None = None
    tokens: int = 0
    """What the summary comes to."""


@dataclass(frozen=True, slots=True)
class _Question:
    """One request to a writer, how it instructs, how much source it is about and how much it may answer."""

    writer: SummaryModel
    items: Sequence[Item]
    instruction: str
    source_tokens: int
    told_tokens: int
    marks: CacheMarks | None = None

    @property
    def output_tokens(self) -> int:
        """What the answer may come to."""
        return self.writer.output_tokens(self.told_tokens)


class SummaryWriter:
    """Writes summaries for one call of the host."""

    def __init__(
        self,
        responses: Responses,
        *,
        live: SummaryModel | None,
        own: SummaryModel,
        count: Callable[[str], int],
        time_limit_seconds: float,
    ) -> None:
        """Know whom to ask: `own` with a prompt of its own, `live` (where that pays) as the chat asks its model."""
        self._responses = responses
        self._live = live
        self._own = own
        self._count = count
        self._time_limit_seconds = time_limit_seconds

    async def write(self, stretch: SummaryTarget, live: CachedPrefix | None) -> WriterResult:
        """Ask for a summary of the stretch, after the live request if that is possible; twice at most."""
        attempts: list[Attempt] = []
        ways = self._ways(stretch, live)
        while questions := await asyncio.to_thread(next, ways, ()):
            told = await self._ask_all(questions, attempts)
            if told and (written := await asyncio.to_thread(self._finished, stretch, told, attempts)):
                return written
            if attempts[-1].is_final:
                break
        return WriterResult(tuple(attempts))

    async def _ask_all(self, questions: Sequence[_Question], attempts: list[Attempt]) -> ModelSummary | None:
        """Ask one after the other within the time limit; None as soon as one is not answered."""
        until = asyncio.get_running_loop().time() + self._time_limit_seconds
        told: list[ModelSummary] = []
        for question in questions:
            answered, attempt = await self._ask(question, until)
            attempts.append(attempt)
            if answered is None:
                return None
            told.append(answered)
        return join_model_summaries(told)

    def _finished(
        self, stretch: SummaryTarget, told: ModelSummary, attempts: list[Attempt]
    ) -> WriterResult | None:
        """The summary in its final form; None when nothing of it is founded, and then the last attempt has failed."""
        try:
            summary = complete_summary(told, stretch.turns, count=self._count, max_tokens=stretch.max_tokens)
        except SummaryRefused as refused:
            attempts[-1] = replace(attempts[-1], failure=refused.reason)
            return None
        tokens = self._count(render_summary(summary))
        if tokens >= stretch.source_tokens:
            attempts[-1] = replace(attempts[-1], failure="longer than its source")
            return None
        return WriterResult(tuple(attempts), summary, tokens)

    def _ways(self, stretch: SummaryTarget, live: CachedPrefix | None) -> Iterator[Sequence[_Question]]:
        """What is asked at the first attempt, and at the second."""
        attempts = ATTEMPTS
        if live is not None and self._live is not None and _shows(live, stretch):
            suffix = self._suffix(self._live, stretch, live)
            if live.tokens + suffix.output_tokens <= self._live.window_tokens * WINDOW_SHARE:
                attempts -= 1
                yield [suffix]
        for _ in range(attempts):
            yield self._own_questions(stretch)

    def _suffix(self, writer: SummaryModel, stretch: SummaryTarget, live: CachedPrefix) -> _Question:
        told_tokens = int(stretch.words_tokens * TOLD_SHARE)
        instruction = suffix_instruction(stretch.turns, max_tokens=told_tokens)
        items = (*live.items, instruction)
        return _Question(
            writer, items, message_text(instruction), stretch.source_tokens, told_tokens, live.marks
        )

    def _own_questions(self, stretch: SummaryTarget) -> list[_Question]:
        """One question, or several parts of the stretch when the writer's window is too small for all of it."""
        told_tokens = int(stretch.words_tokens * TOLD_SHARE)
        window_tokens = int(self._own.window_tokens * WINDOW_SHARE) - self._own.output_tokens(told_tokens)
        source_room = max(window_tokens, int(self._own.window_tokens * LEAST_SOURCE_SHARE))
        parts = source_parts(stretch.turns, count=self._count, max_tokens=source_room)
        each = max(LEAST_TOLD_TOKENS, told_tokens // len(parts))
        questions = []
        for number, turns in enumerate(parts, start=1):
            items = standalone_request(
                turns,
                max_tokens=each,
                part=(number, len(parts)),
                count=self._count,
                source_tokens=source_room,
            )
            source_tokens = stretch.source_tokens if len(parts) == 1 else self._count(_wording(items[1]))
            questions.append(_Question(self._own, items, _wording(items[0]), source_tokens, each))
        return questions

    async def _ask(self, question: _Question, until: float) -> tuple[ModelSummary | None, Attempt]:
        """Send one request and judge its answer."""
        attempt = Attempt(question.writer, question.output_tokens)
        try:
            async with asyncio.timeout_at(until):
                end = await self._end(question)
            attempt = replace(attempt, usage=end.usage)
            if isinstance(end, ResponseFailed):
                raise self._responses.explain(end.failure)
            return self._judged(question, end), attempt
        except SummaryRefused as refused:
            return None, replace(attempt, failure=refused.reason)
        except TimeoutError:
            return None, replace(attempt, failure="timed out")
        except PipeError as error:
            log.warning("a summary was not written: %s", error)
            failure = _WORDS_OF_NAME.sub(" ", type(error).__name__).lower()
            return None, replace(attempt, failure=failure, is_final=isinstance(error, _USELESS_TO_REPEAT))

    async def _end(self, question: _Question) -> ResponseFinished | ResponseFailed:
        body = question.writer.requests.build_summary_request(
            question.items, question.marks, output_tokens=question.output_tokens
        )
        end = reduce_response(dict(await self._responses.create(body)))[-1]
        assert isinstance(end, ResponseFinished | ResponseFailed)
        return end

    def _judged(self, question: _Question, end: ResponseFinished) -> ModelSummary:
        text = response_text(end.items, complete=end.status == "completed")
        return parse_model_summary(
            text, source_tokens=question.source_tokens, count=self._count, instruction=question.instruction
        )


def _shows(live: CachedPrefix, stretch: SummaryTarget) -> bool:
    """Whether the request holds what is to be summarised, rather than an earlier summary, and can say which part."""
    first = next((entry.item for turn in stretch.turns for entry in turn.entries), None)
    return any(item is first for item in live.items) and names_its_part(stretch.turns, live.items)


def _wording(item: Item) -> str:
    return message_text(item) if is_message(item) else ""
