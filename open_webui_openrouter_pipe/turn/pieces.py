"""Speech, transcripts and pictures: what an endpoint returns in one response.

The price is agreed on and held before. The bill is what the response says, or else what OpenRouter says of it later.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import zip_longest
from typing import Any, TypeVar

from ..creation import images, speech
from ..creation.message import PieceRequest, Wanted, told_usage
from ..errors import AttachmentUnavailable, PipeError, ProviderError, RequestRejected
from ..history.turn import BuiltHistory
from ..money.audit import Bill
from ..ports import WAITED, AnswerCost, FileContent, Notice, RequestBody, Sketch
from ..responses.effects import Usage
from ..responses.items import image_type, is_picture, picture_address
from ..responses.values import as_list, as_object, decode
from ..words.lines import notice
from .creation import CreationRunner
from .recorder import PictureStorage, Recorder
from .round import Answer, Round

_T = TypeVar("_T")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Piece:
    """Its bill as it is estimated, and what each response has told of it, None for nothing."""

    bill: Bill
    told: list[Usage | None] = field(default_factory=list)

    def note(self, wire: Mapping[str, Any]) -> None:
        """Note what a response says that it costs."""
        self.told.append(told_usage(wire))

    @property
    def usage(self) -> Usage:
        """What it costs, as far as that is known."""
        known = [*filter(None, self.told)]
        return reduce(Usage.plus, known) if known else Usage(cost=self.bill.cost)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PieceRunner(CreationRunner):
    """What the three have in common."""

    @asynccontextmanager
    async def _billed(self, cost: float | None, *size: str) -> AsyncGenerator[_Piece]:
        """Agree on a price, None for one that is not known, and write the bill of what is sent within."""
        piece, generations = _Piece(await self.agree(cost, *size)), self.spending.generations
        self.spending.note_piece(piece.usage, 0.0, if_stopped=notice("answer_stopped"))
        named = generations.named if generations else []
        before, failure = len(named), None
        try:
            await self.say_begun(cost, *size)
            yield piece
        except BaseException as error:
            failure = error
            raise
        finally:
            self._settle(piece, named[before:], failure)

    def _settle(self, piece: _Piece, names: Sequence[str], failure: BaseException | None) -> None:
        """Write the bill of the responses that began, each of which has a name; where none did, it costs nothing."""
        spending, known = self.spending, [*filter(None, piece.told)]
        bill = replace(piece.bill, generation=names[-1] if names else "")
        is_open = failure is not None and WAITED not in failure.args
        if isinstance(failure, PipeError):
            is_open = failure.may_be_done

        def settle(usage: Usage) -> None:
            known.append(usage)
            if len(known) == len(names):
                spending.settle_piece(bill, reduce(Usage.plus, known))

        if known and len(known) == len(names):
            spending.settle_piece(bill, piece.usage)
        elif names or is_open:
            spending.settle_piece(bill, None)
            silent = [name for name, usage in zip_longest(names, piece.told) if usage is None]
            if generations := spending.generations:
                for name in silent:
                    spending.services.late.ask(generations, name, settle)
        elif spending.payer.under:
            spending.services.ledger.release(bill)

    async def _first(
        self, attempts: Iterable[PieceRequest], send: Callable[[RequestBody], Awaitable[_T]]
    ) -> tuple[_T, PieceRequest]:
        """Send the first attempt that is not refused. Raises the last refusal where all are."""
        *others, last = attempts
        for attempt in others:
            with suppress(RequestRejected):
                return await send(attempt.body), attempt
        return await send(last.body), last

    def _cost(self, piece: _Piece, answer: Answer) -> AnswerCost:
        seconds = asyncio.get_running_loop().time() - (answer.began_seconds or 0.0)
        return self.spending.note_piece(piece.usage, seconds)

    async def _kept(self, name: str, kind: str, content: bytes) -> str:
        """The path of what was made, or where that is not stored, a data URL: it is paid for."""
        try:
            return await self.keep(FileContent(name, kind, content))
        except AttachmentUnavailable as error:
            log.warning("a file is not stored: %s", error)
            return f"data:{kind};base64,{b64encode(content).decode()}"

    async def _say_all(self, lines: Iterable[str]) -> None:
        for line in dict.fromkeys(lines):
            await self.say(line)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpeechRunner(PieceRunner):
    """Answers one call of the host by speaking its message."""

    async def make(self, wanted: Wanted, answer: Answer) -> None:
        """Have the text spoken, and show a player."""
        parts, model, text = self.parts, self.parts.model, _required(wanted.text)
        attempts = speech.speech_attempts(self.origin.model, model.row, text, parts.settings)
        price = model.prices.input
        async with self._billed(None if price is None else price * len(text)) as piece:
            with parts.room() as room:
                room.max_bytes = min(room.max_bytes, speech.most_bytes(text))

                async def send(body: RequestBody) -> FileContent:
                    return await parts.service.post_for_file(speech.PATH, body, room)

                made, used = await self._first(attempts, send)
                form = used.body["response_format"]
                path = await self._kept(*speech.playable(made.content, made.media_type, form))
        await self._say_all(used.lines)
        await self.show(self.player("audio", path), self._cost(piece, answer), answer)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TranscriptRunner(PieceRunner):
    """Answers one call of the host by what is said in its recordings."""

    async def make(self, wanted: Wanted, answer: Answer) -> None:
        """Have each recording written down, in their order."""
        parts, found, lines = self.parts, list[Mapping[str, Any]](), list[str]()
        if not wanted.recordings:
            raise _missing("recording_needed")
        cost = speech.transcript_cost(parts.model.prices, wanted.recordings)
        async with self._billed(cost) as piece:
            for recording in wanted.recordings:
                attempts = speech.transcript_attempts(self.origin.model, recording, parts.settings)
                send = partial(parts.service.post, speech.TRANSCRIPTS)
                made, used = await self._first(attempts, send)
                piece.note(as_object(made.get("usage")))
                found.append(made)
                lines += used.lines
        await self._say_all(lines)
        await self.show(speech.written(found), self._cost(piece, answer), answer)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ImageRunner(PieceRunner):
    """Answers one call of the host by pictures, which are to the chat what /responses draws."""

    async def make(self, wanted: Wanted, answer: Answer) -> None:
        """Have pictures drawn, and hand them on as items that later turns see."""
        parts, ports, model_id = self.parts, self.ports, self.origin.model
        text = _required(wanted.text)
        asked = images.image_request(model_id, parts.model.row, text, wanted.pictures, parts.settings)
        await self._say_all(asked.lines)
        listed: Mapping[str, Any] = {}
        with suppress(PipeError):
            listed = await parts.service.get(f"{images.LIST}/{model_id}/endpoints")
        cost = images.image_cost(map(as_object, as_list(listed.get("endpoints"))), asked.body)
        count = asked.body.get("n", 1)
        async with self._billed(cost, *([f"\u00d7{count}"] if count > 1 else ())) as piece:
            drawn = await self._drawn(asked.body, piece)
        if not self.is_in_chat:
            kept = [await self._kept("picture", image_type(each) or "", each) for each in map(decode, drawn)]
            shown = [f"![]({path})" for path in kept]
            await self.show("\n\n".join(shown), self._cost(piece, answer), answer)
            return
        recorder = Recorder(ports.store, self.origin, self.persistence, ports.new_id)
        pictures = PictureStorage(ports.files, self.origin)
        cost_of = partial(self._cost, piece)
        round_ = Round(
            ports.responses,
            self.channel,
            recorder,
            pictures,
            self.memory.reported,
            cost=lambda answer, _: cost_of(answer),
            answer=answer,
        )
        await round_.take(images.as_response(drawn, ports.new_id))
        if line := self.spending.last_line(answer):
            await self.channel.put(Notice(line))

    async def _drawn(self, body: RequestBody, piece: _Piece) -> list[str]:
        """The pictures in base64; partial ones are shown on the way where the chat is saved. Raises ProviderError."""
        pictures = list[str]()
        usage: Mapping[str, Any] = {}
        async with self.parts.service.stream(images.PATH, body) as events:
            async for event in events:
                drawn = images.read_drawn(event)
                if drawn.failure:
                    raise self.parts.service.explain(drawn.failure)
                if drawn.partial and self.ports.files:
                    await self.channel.put(Sketch(f"data:image/png;base64,{drawn.partial}"))
                pictures += drawn.pictures
                usage = drawn.usage or usage
        piece.note(usage)
        if not pictures:
            raise ProviderError(notice("answer_empty"))
        return pictures

    async def _wanted(self, built: BuiltHistory) -> Wanted:
        """A message without pictures is about those of the latest answer that has some."""
        wanted = await super(ImageRunner, self)._wanted(built)
        drawn = [pair for pair in zip(built.items, built.turns, strict=True) if is_picture(pair[0])]
        if wanted.pictures or not drawn:
            return wanted
        items, turns = zip(*(pair for pair in drawn if pair[1] == drawn[-1][1]), strict=True)
        filled = await self.filled(items, turns)
        return replace(wanted, pictures=tuple(filter(None, map(picture_address, filled))))


def _required(text: str) -> str:
    """A message's text. Raises RequestRejected for none."""
    if not text:
        raise _missing("text_needed")
    return text


def _missing(name: str) -> RequestRejected:
    """What a message lacks; the line says it all."""
    error = RequestRejected(notice(name))
    error.has_reference = False
    return error
