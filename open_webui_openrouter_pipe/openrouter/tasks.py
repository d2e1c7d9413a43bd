"""Requests for the host's tasks, such as a title: how little is thought for them, and how long they may become.

A task is a few words that nobody waits for. What is chosen for it here can never make it fail: where a provider refuses
the request, it is asked once more without.

Sources: the catalogue's `reasoning` (efforts; whether it is mandatory); the refusals of OpenAI (fewer than 16 tokens
of output) and Anthropic (a thinking budget of at least 1,024 tokens, below the limit of the output).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from ..errors import ContextTooLong, ModelNotFound, RequestRejected
from ..ports import Event, Model, RequestBody, Responses
from ..responses.effects import read_usage
from ..responses.failure import Failure, is_failure, read_event_failure
from ..responses.values import as_number, as_object
from .fields import PARAMETERS, nearest_effort

LEAST_OUTPUT_TOKENS: Final = 16
THINKING_TOKENS: Final = 4_096
"""Room for thinking that cannot be switched off, beside what a task may write."""

_ANSWERING: Final = frozenset({"moa_response_generation"})
"""Tasks that write what the user reads as an answer: the merge of several models' answers."""
_OF_TASKS: Final = frozenset(each.name for each in PARAMETERS if each.tasks == "all")
_OF_ANSWERS: Final = frozenset(each.name for each in PARAMETERS if each.tasks != "none")
_LIMITS: Final = ("max_completion_tokens", "max_tokens")
_CHOSEN: Final = frozenset({"reasoning", "include"})
"""The fields of a body that a task can do without."""

_log = logging.getLogger(__name__)


def is_answer(task: str) -> bool:
    """Return whether a task writes what the user reads as an answer."""
    return task in _ANSWERING


def task_parameters(parameters: Mapping[str, Any], task: str, *, model: Model | None) -> Mapping[str, Any]:
    """Return the parameters of one of the host's tasks; of an answer among them, as of an answer."""
    if is_answer(task):
        return {name: value for name, value in parameters.items() if name in _OF_ANSWERS}
    kept = {name: value for name, value in parameters.items() if name in _OF_TASKS}
    reasoning = _least_thinking(model)
    thinks = reasoning.get("effort") != "none" and not (model and model.never_reasons)
    for name in _LIMITS:
        if tokens := as_number(kept.get(name)):
            kept[name] = max(tokens, LEAST_OUTPUT_TOKENS) + (THINKING_TOKENS if thinks else 0)
    return {**kept, **({"reasoning": reasoning} if reasoning else {})}


def _least_thinking(model: Model | None) -> dict[str, Any]:
    """Return the settings of reasoning: off where the model can be told so, or else the least effort.

    A model of which nothing is known is told nothing.
    """
    if model is None or not model.reasons:
        return {}
    efforts = model.supported_efforts or ()
    is_optional = "none" in efforts or model.reasoning_is_mandatory is False
    effort = "none" if is_optional else nearest_effort("none", efforts) or "low"
    return {"effort": effort, "summary": None}


class TaskResponses:
    """The port `Responses` over another one, for tasks: a request that is refused is sent without what we chose."""

    def __init__(self, inner: Responses) -> None:
        self._inner = inner

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncGenerator[AsyncIterator[Event]]:
        """Open a stream, of which each event is there at once; entering raises the inner one's errors."""
        try:
            events = await self._events(body)
        except (RequestRejected, ModelNotFound) as error:
            plain = _plain(body)
            if isinstance(error, ContextTooLong) or plain == body:
                raise
            _log.info("a task is asked for again, without what was chosen for it: %s", error)
            events = await self._events(plain)
        yield _replayed(events)

    def explain(self, failure: Failure) -> Any:
        """Turn a failure inside a stream into an error."""
        return self._inner.explain(failure)

    async def _events(self, body: RequestBody) -> list[Event]:
        """All events of a stream; a refusal among them is raised, unless it has a bill."""
        async with self._inner.stream(body) as stream:
            events = [event async for event in stream]
        for event in filter(is_failure, events):
            usage = read_usage(as_object(event.get("response")).get("usage"))
            error = self._inner.explain(read_event_failure(event))
            if isinstance(error, RequestRejected) and not (usage and usage.is_billed):
                raise error
        return events


def _plain(body: RequestBody) -> dict[str, Any]:
    """A body without what was chosen for a task; the model may then think as it does by itself."""
    plain = {name: value for name, value in body.items() if name not in _CHOSEN}
    if tokens := plain.get("max_output_tokens"):
        plain["max_output_tokens"] = max(tokens, LEAST_OUTPUT_TOKENS + THINKING_TOKENS)
    return plain


async def _replayed(events: list[Event]) -> AsyncGenerator[Event]:
    for event in events:
        yield event
