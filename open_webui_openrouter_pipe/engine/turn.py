"""One question of the host: its messages in, a stream of outputs out.

Reads the history, loads its artifacts at once, builds the input, has it fitted to the model's window and dispatches
it. It runs in a task of its own and ends by closing its outlet; the last thing it hands on after trouble is one Failed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ContextTooLong, PipeError, ReasoningRejected, StoreError
from ..history.build import History, Options, Transformed, build_input, read_history
from ..planning.plan import Plan
from ..ports import Failed, LoadedArtifacts, Notice
from .channel import OutputChannel
from .fit import RequestFitter, conversation_of
from .recorder import Persistence, RequestOrigin
from .round import Ports, Round, describe_missing

log = logging.getLogger(__name__)

UNEXPECTED = "The pipe met an unexpected error; the server's log has the details."
_REASONING_DROPPED = "The provider did not accept the earlier reasoning; answering without it."
_SHORTENED = "The provider counted more tokens than fit; answering with less of the chat."


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What one call of the host asks: the chat as the host shows it, and whose it is."""

    messages: Sequence[Mapping[str, Any]]
    origin: RequestOrigin
    keeping: Persistence
    base_system_prompt: str | None = None
    base_user_prompt: str | None = None


class SeenOnce:
    """What a worker remembers of artifacts, bounded: holes that users were told of, and what a provider refused."""

    def __init__(self, limit: int = 10_000) -> None:
        """Remember at most `limit` of each; the oldest go first."""
        self._limit = limit
        self._told: dict[str, None] = {}
        self._refused: dict[str, None] = {}

    def fresh(self, ids: Sequence[str]) -> list[str]:
        """Give those not named before, and remember them."""
        new = [ulid for ulid in ids if ulid not in self._told]
        self._remember(self._told, new)
        return new

    def refuse(self, ids: Sequence[str]) -> None:
        """Remember reasoning that its provider did not take back, so that it is not offered on every turn."""
        self._remember(self._refused, ids)

    def is_refused(self, ulid: str) -> bool:
        """Tell whether it was refused before."""
        return ulid in self._refused

    def _remember(self, known: dict[str, None], ids: Sequence[str]) -> None:
        known.update(dict.fromkeys(ids))
        for ulid in list(known)[: max(0, len(known) - self._limit)]:
            del known[ulid]


class Turn:
    """Answers one question. Use once: `await Turn(...).run()` in a task, and drain the outlet in another."""

    def __init__(
        self,
        question: TurnRequest,
        ports: Ports,
        outlet: OutputChannel,
        *,
        reported: SeenOnce,
        fitting: RequestFitter,
    ) -> None:
        """Nothing happens before `run`."""
        self._question = question
        self._ports = ports
        self._outlet = outlet
        self._reported = reported
        self._fitting = fitting
        self._round = self._new_round()

    async def run(self) -> None:
        """Answer, or say in one line why not; closes the outlet in any case."""
        try:
            await self._answer()
        except PipeError as error:
            log.warning("%s", error)
            await self._outlet.put(Failed(error.user_message))
        except Exception:
            log.exception("unexpected error")
            await self._outlet.put(Failed(UNEXPECTED))
        finally:
            self._outlet.close()

    async def _answer(self) -> None:
        question = self._question
        history = read_history(question.messages)
        loaded = LoadedArtifacts()
        if history.wanted:
            loaded = await self._ports.store.load(question.origin.user_id, history.wanted)
        transformed = self._build(history, loaded)
        await self._report_holes(transformed, loaded)
        try:
            await self._send(transformed)
        except ReasoningRejected:
            if self._round.shown or not transformed.replayed:
                raise
            self._reported.refuse([reference.artifact_id for reference in transformed.replayed])
            await self._outlet.put(Notice(_REASONING_DROPPED))
            await self._send(self._build(history, loaded, strip_reasoning=True))
        if self._round.ended_turn and question.keeping.reasoning == "next_reply":
            await self._forget(transformed)

    async def _send(self, transformed: Transformed) -> None:
        """Fit the input and dispatch it; once more with less when the provider counts more than its window."""
        conversation = conversation_of(transformed)
        fitted = await self._fitting.fit(conversation, self._outlet.put)
        try:
            await self._dispatch(fitted, transformed)
        except ContextTooLong:
            lower = None if self._round.shown else await self._fitting.refit_smaller(conversation, fitted)
            if lower is None:
                raise
            await self._outlet.put(Notice(_SHORTENED))
            await self._dispatch(lower, transformed)
        else:
            if self._round.ended_turn:
                self._fitting.prefetch(fitted)

    async def _dispatch(self, fitted: Plan, transformed: Transformed) -> None:
        self._round = self._new_round()
        try:
            await self._round.run(fitted.items, marks=fitted.marks, chat=transformed.items)
        finally:
            self._fitting.record_usage(fitted, self._round.end)

    def _new_round(self) -> Round:
        question = self._question
        return Round(self._ports, self._outlet, origin=question.origin, keeping=question.keeping)

    def _build(
        self, history: History, loaded: LoadedArtifacts, *, strip_reasoning: bool = False
    ) -> Transformed:
        question = self._question
        options = Options(
            model_id=question.origin.model,
            chat_id=question.origin.chat_id,
            base_system_prompt=question.base_system_prompt,
            base_user_prompt=question.base_user_prompt,
            strip_reasoning=strip_reasoning,
        )
        artifacts = {
            ulid: artifact
            for ulid, artifact in loaded.artifacts.items()
            if not self._reported.is_refused(ulid)
        }
        return build_input(history, {**artifacts, **loaded.missing}, options)

    async def _report_holes(self, transformed: Transformed, loaded: LoadedArtifacts) -> None:
        """Name new holes once. With `next_reply`, old reasoning is meant to be gone."""
        if self._question.keeping.reasoning == "next_reply":
            return
        fresh = self._reported.fresh([hole for hole in transformed.missing if hole in loaded.missing])
        if fresh:
            await self._outlet.put(Notice(describe_missing([loaded.missing[ulid].reason for ulid in fresh])))

    async def _forget(self, transformed: Transformed) -> None:
        """Reasoning of earlier turns has done its service once the turn after it has ended well."""
        spent = [ref.artifact_id for ref in transformed.replayed if not ref.in_latest_turn]
        if not spent:
            return
        try:
            await self._ports.store.delete(self._question.origin.user_id, spent)
        except StoreError:
            log.warning("%d replayed reasoning artifacts stay until they are swept", len(spent))
