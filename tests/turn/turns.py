"""A turn with fakes around it: a store whose state a test chooses, and a provider of prepared streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, Literal, TypeAlias

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import Conversation
from open_webui_openrouter_pipe.errors import PipeError, StoreError, StoreUnavailable
from open_webui_openrouter_pipe.history.artifacts import MissingArtifact, MissingReason
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.ports import (
    Artifact,
    Event,
    Fill,
    LoadedArtifacts,
    Output,
    RequestBody,
    RequestOrigin,
    Show,
)
from open_webui_openrouter_pipe.responses.failure import Failure
from open_webui_openrouter_pipe.responses.items import Reasoning
from open_webui_openrouter_pipe.turn.channel import OutputChannel
from open_webui_openrouter_pipe.turn.commands import CommandRunner
from open_webui_openrouter_pipe.turn.fit import Fitter, FitTerms
from open_webui_openrouter_pipe.turn.memory import Memory
from open_webui_openrouter_pipe.turn.own_tools import RecallTool
from open_webui_openrouter_pipe.turn.recorder import Persistence
from open_webui_openrouter_pipe.turn.round import Ports
from open_webui_openrouter_pipe.turn.runner import PromptKeeper, TurnRunner
from tests.support.services import (
    FakeServices,
    no_template,
    read_no_cost,
    read_nothing,
    spend_nothing,
    spending_of,
)
from tests.turn.summary_fakes import FakeRequests

OLD = "0000000000000000000A"
ORIGIN = RequestOrigin(user_id="u", chat_id="c", message_id="m", model="openai/gpt-5.2")
OLD_REASONING = Reasoning(type="reasoning", id="rs_old", summary=[], encrypted_content="old")
FIRST_TURN = [{"role": "user", "content": "one"}]

StoreState: TypeAlias = (
    Literal["", "away", "refuses", "broken", "breaks as it deletes", "missing"] | frozenset[str]
)
"""Whether it is unavailable, stores no item or none of these types, raises what it never promised to, or is empty."""


class FakeStore:
    """Keeps artifacts in a dict, and in batches as they came; counts how often it was asked."""

    def __init__(self, state: StoreState = "", log: list[Any] | None = None) -> None:
        self.state, self.log = state, [] if log is None else log
        self.artifacts: dict[str, Artifact] = {}
        self.batches: list[tuple[Artifact, ...]] = []
        self.loads = self.puts = 0
        self.may_write, self.put_began = asyncio.Event(), asyncio.Event()
        self.may_write.set()

    async def put(self, artifacts: Sequence[Artifact]) -> None:
        self.puts += 1
        self.put_began.set()
        await self.may_write.wait()
        self._raise()
        kinds = [artifact.kind for artifact in artifacts]
        if self.state == "refuses" or (isinstance(self.state, frozenset) and self.state & {*kinds}):
            raise StoreError("too large")
        self.artifacts.update({artifact.id: artifact for artifact in artifacts})
        self.batches.append(tuple(artifacts))
        self.log.append(("put", kinds))

    async def load(self, user_id: str, ids: Sequence[str]) -> LoadedArtifacts:
        self.loads += 1
        if self.state != "away":
            self._raise()
        reasons: dict[Any, MissingReason] = {"away": "unavailable", "missing": "missing"}
        missing = MissingArtifact(reason=reasons.get(self.state, "unreadable"))
        return {ulid: self.artifacts.get(ulid, missing) for ulid in ids}

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        self.state = "broken" if self.state == "breaks as it deletes" else self.state
        self._raise()
        self.log.append(("delete", list(ids)))

    def _raise(self) -> None:
        if self.state == "away":
            raise StoreUnavailable("unavailable")
        if self.state == "broken":
            raise RuntimeError("a bug of the store")


class FakeOpenRouter:
    """Answers each request with one prepared stream, in which errors are raised where they stand."""

    def __init__(self, *streams: Sequence[Event | Exception]) -> None:
        self.streams = list(streams)
        self.bodies: list[RequestBody] = []

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncIterator[AsyncIterator[Event]]:
        self.bodies.append(body)
        prepared = self.streams.pop(0)
        if prepared and isinstance(prepared[0], Exception):
            raise prepared[0]
        yield self._events(prepared)

    async def _events(self, prepared: Sequence[Event | Exception]) -> AsyncIterator[Event]:
        for event in prepared:
            if isinstance(event, Exception):
                raise event
            yield event

    def explain(self, failure: Failure) -> PipeError:
        return PipeError(f"explained: {failure.message}")


class RecordingFitter(Fitter):
    """Records for which plans summaries were prefetched, and the conversations that were fitted."""

    prefetched: list[Plan]
    fitted: list[Conversation]

    async def fit(self, conversation: Conversation, notify: Show) -> Plan:
        self.fitted.append(conversation)
        return await super().fit(conversation, notify)

    def prefetch(self, sent: Plan) -> None:
        self.prefetched.append(sent)


class TurnSetup:
    """A turn of these streams; `log` has what the store did and what was shown, in this order."""

    def __init__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *streams: Sequence[Event | Exception],
        reasoning: Literal["conversation", "next_reply"] = "conversation",
        memory: Memory | None = None,
        fill: Fill | None = None,
        store: StoreState = "",
        has_old_reasoning: bool = False,
    ) -> None:
        self.router = FakeOpenRouter(*streams)
        self.log: list[Any] = []
        self.store = FakeStore(store, self.log)
        if has_old_reasoning:
            self.store.artifacts[OLD] = Artifact(
                OLD, "u", "c", "m0", "reasoning", ORIGIN.model, OLD_REASONING
            )
        self.messages, self.persistence = messages, Persistence(reasoning, tools=True)
        self.memory = memory or Memory()
        self.fill = fill
        self.prefetched: list[Plan] = []
        self.fitted: list[Conversation] = []
        self.books = FakeServices()

    def turn(self, channel: OutputChannel, new_id: Callable[[], str] = lambda: "id") -> TurnRunner:
        services = self.books.planner()
        fitter = RecordingFitter(
            services, FitTerms(ContextSettings(), ModelTerms(ORIGIN.model, 100_000)), ORIGIN
        )
        fitter.prefetched, fitter.fitted = self.prefetched, self.fitted
        return TurnRunner(
            self.messages,
            ORIGIN,
            self.persistence,
            Ports(self.router, FakeRequests(), self.store, new_id, fill=self.fill),
            channel,
            memory=self.memory,
            fitter=fitter,
            spending=spending_of(services, ORIGIN),
            commands=CommandRunner(
                fitter, channel, new_id, read_nothing, read_no_cost, "A model", 1.0, spend_nothing
            ),
            prompt=PromptKeeper(None, None, no_template),
            recall=RecallTool(
                partial(services.counter, ORIGIN.model), services.caches.passages, is_offered=False
            ),
        )

    async def run(self, new_id: Callable[[], str] | None = None) -> list[Output]:
        numbers = count(1)
        channel = OutputChannel(interval_seconds=0)
        task = asyncio.create_task(self.turn(channel, new_id or (lambda: f"id{next(numbers)}")).run())
        outputs = []
        async for output in channel.drain():
            outputs.append(output)
            self.log.append(output)
        await task
        return outputs
