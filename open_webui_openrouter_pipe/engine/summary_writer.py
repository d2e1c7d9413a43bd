"""Has a model write one summary.

Owns the two kinds of request (a suffix to the cached request, or a standalone request with a prompt of its own), the
order in which they are tried, the time limit, and the judgement of what comes back. It keeps nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
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
from ..responses.effects import ResponseFailed, ResponseFinished, Usage
from ..responses.items import Item
from ..responses.reducer import reduce_response
from ..summaries.completion import complete_summary
from ..summaries.judge import judge_content, require_content
from ..summaries.prompt import (
    INSTRUCTION,
    SummaryAssignment,
    all_texts,
    identifies_turns,
    standalone_request,
    suffix_instruction,
)
from ..summaries.segments import SummaryTarget
from ..summaries.summary import (
    NOTHING_EARLIER,
    EarlierState,
    Summary,
    SummaryRefused,
    parse_model_summary,
    render_summary,
    response_text,
)

MAX_ATTEMPTS: Final = 2
TIMED_OUT: Final = "timed out"
MODEL_SHARE: Final = 0.5
"""What of a summary's allowance the model may fill; the rest is for what is added word for word."""
OUTPUT_SLACK: Final = 2
MIN_OUTPUT_TOKENS: Final = 1_024
"""Models keep to a length only roughly; entries that are too many for their allowance are omitted afterwards."""
THINKING_TOKENS: Final = 8_192
THINKING_SHARE: Final = 0.125
WINDOW_SHARE: Final = 0.8
MIN_SOURCE_SHARE: Final = 0.25
FINAL_ERRORS: Final = (
    AuthenticationFailed,
    PaymentRequired,
    AccessDenied,
    ModelNotFound,
    RateLimited,
    ConfigurationError,
)
"""After these every other request would fail at once as well."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SummaryModel:
    """A model that writes summaries, and how to ask it; the window is in tokens."""

    model: str
    requests: Requests
    window_tokens: int
    reasons: bool = False

    def max_output_tokens(self, summary_tokens: int) -> int:
        """How large an answer with so large a summary may be, including the thinking of a model that reasons."""
        thinking_tokens = min(THINKING_TOKENS, int(self.window_tokens * THINKING_SHARE))
        answer_tokens = max(MIN_OUTPUT_TOKENS, summary_tokens * OUTPUT_SLACK)
        return answer_tokens + thinking_tokens if self.reasons else answer_tokens


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to a summary model: what was billed, and why it failed; `failure` is "" for a success."""

    model: SummaryModel
    output_tokens: int
    usage: Usage | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class WriterResult:
    """The attempts for a target, at least one, and the summary with its size; None when all attempts failed."""

    attempts: tuple[Attempt, ...]
    summary: Summary | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _SummaryRequest:
    """One request to a summary model."""

    model: SummaryModel
    items: Sequence[Item]
    output_tokens: int
    marks: CacheMarks | None = None
    omitted_tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, repr=False)
class SummaryWriter:
    """Writes summaries for one call of the host.

    `suffix_model` is asked as the chat asks its model, None where that costs more.
    """

    responses: Responses
    suffix_model: SummaryModel | None
    standalone_model: SummaryModel
    count: Callable[[str], int]

    async def write(
        self,
        target: SummaryTarget,
        cached_prefix: CachedPrefix | None,
        earlier: EarlierState = NOTHING_EARLIER,
        *,
        time_limit_seconds: float,
    ) -> WriterResult:
        """Ask for a summary of the target, after the cached prefix if that is possible; twice at most.

        `earlier` is what the summaries of the turns before leave. Both attempts together have so many seconds, and
        none follows one that took too long.
        """
        until_seconds = asyncio.get_running_loop().time() + time_limit_seconds
        assignment = SummaryAssignment(target.turns, target.first_turn, earlier, target.keep)
        attempts: list[Attempt] = []
        requests = self._requests(target, assignment, cached_prefix)
        while request := await asyncio.to_thread(next, requests, None):
            attempt = Attempt(request.model, request.output_tokens)
            try:
                async with asyncio.timeout_at(until_seconds):
                    response = await self.responses.create(
                        request.model.requests.build_summary_request(
                            request.items,
                            request.marks,
                            output_tokens=request.output_tokens,
                            omitted_tools=request.omitted_tools,
                        )
                    )
                end = reduce_response(dict(response))[-1]
                assert isinstance(end, ResponseFinished | ResponseFailed)
                attempt = replace(attempt, usage=end.usage)
                if isinstance(end, ResponseFailed):
                    raise self.responses.explain(end.failure)
                summary, tokens = await asyncio.to_thread(self._complete, target, assignment, end)
                return WriterResult((*attempts, attempt), summary, tokens)
            except SummaryRefused as refused:
                attempt = replace(attempt, failure=refused.reason)
            except TimeoutError:
                return WriterResult((*attempts, replace(attempt, failure=TIMED_OUT)))
            except PipeError as error:
                log.warning("a summary was not written: %s", error)
                words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
                attempt = replace(attempt, failure=words)
                if isinstance(error, FINAL_ERRORS):
                    return WriterResult((*attempts, attempt))
            attempts.append(attempt)
        return WriterResult(tuple(attempts))

    def _requests(
        self, target: SummaryTarget, assignment: SummaryAssignment, prefix: CachedPrefix | None
    ) -> Iterator[_SummaryRequest]:
        """Yield what is asked at the first attempt, and at the second."""
        summary_tokens = int((target.max_tokens + target.max_state_tokens) * MODEL_SHARE)
        attempts, model = MAX_ATTEMPTS, self.suffix_model
        if model is not None and prefix is not None and _contains(prefix, target):
            output_tokens = model.max_output_tokens(summary_tokens)
            if prefix.tokens + output_tokens <= model.window_tokens * WINDOW_SHARE:
                suffix = suffix_instruction(assignment, max_tokens=summary_tokens)
                items = (*prefix.items, suffix)
                attempts -= 1
                yield _SummaryRequest(model, items, output_tokens, prefix.marks, prefix.unoffered_tools)
        model = self.standalone_model
        output_tokens = model.max_output_tokens(summary_tokens)
        room_tokens = int(model.window_tokens * WINDOW_SHARE) - output_tokens
        max_source_tokens = max(room_tokens, int(model.window_tokens * MIN_SOURCE_SHARE))
        items = standalone_request(
            assignment, max_tokens=summary_tokens, count=self.count, max_source_tokens=max_source_tokens
        )
        request = _SummaryRequest(model, items, output_tokens)
        for _ in range(attempts):
            yield request

    def _complete(
        self, target: SummaryTarget, assignment: SummaryAssignment, end: ResponseFinished
    ) -> tuple[Summary, int]:
        """Return the summary in its final form, and its tokens; raises SummaryRefused when the answer is not one."""
        model_summary = parse_model_summary(
            response_text(end.items, complete=end.status == "completed"),
            source_tokens=target.source_tokens,
            count=self.count,
            instruction=INSTRUCTION,
        )
        source = chain(all_texts(target.turns), assignment.earlier.texts)
        judge_content(model_summary, source, source_tokens=target.source_tokens, count=self.count)
        summary = complete_summary(model_summary, assignment, count=self.count, max_tokens=target.max_tokens)
        require_content(summary)  # what is kept is judged alike whenever it is found again
        tokens = self.count(render_summary(summary))
        if tokens >= target.source_tokens:
            raise SummaryRefused("longer than its source")
        return summary, tokens


def _contains(prefix: CachedPrefix, target: SummaryTarget) -> bool:
    """Whether the prefix holds the turns themselves, not an earlier summary, so that a suffix can name them."""
    first = next((entry.item for turn in target.turns for entry in turn.entries), None)
    return any(item is first for item in prefix.items) and identifies_turns(target.turns, prefix.items)
