"""One call of the host that is answered by what an endpoint makes of its newest message; for such models alone.

Everything around it is as in any turn: places, commands, attachments, failures. Owns what all these endpoints share:
the message, the files that are made, and the answer that shows them; and speech, transcripts and pictures, which one
response returns. Their price is agreed on and held before. The bill is what the response says, or else what OpenRouter
says of it later.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from itertools import zip_longest
from typing import Any, Self, TypeVar

from ..creation import images, speech
from ..creation.message import PieceRequest, Wanted, read_wanted, told_usage
from ..errors import AttachmentUnavailable, ConfigurationError, PipeError, ProviderError, RequestRejected
from ..history.reading import History
from ..history.steady import SteadyPrompt
from ..history.turn import BuiltHistory
from ..money.audit import Bill
from ..money.prices import dollars
from ..ports import (
    WAITED,
    AnswerCost,
    CreationService,
    FileContent,
    Files,
    LoadedArtifacts,
    Model,
    Notice,
    RequestBody,
    Room,
    Sketch,
)
from ..responses.effects import Usage, answer_of
from ..responses.items import image_type, is_picture, picture_address
from ..responses.values import as_list, as_object, decode, host_file_path
from ..words.lines import notice
from .recorder import PictureStorage, Recorder
from .round import Answer, Round
from .runner import TurnRunner

_T = TypeVar("_T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CreationParts:
    """What such a turn needs besides.

    `question` names the message that is answered, `settings` is what the user has set, by the names of the valves in
    lower case, `start` begins a task that the worker owns, `room` returns where one file is read into, and `refusal`
    says why nothing may be sent, "" where something may.
    """

    model: Model
    question: str
    service: CreationService
    settings: Mapping[str, Any]
    start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    room: Callable[[], AbstractContextManager[Room]]
    files: Files | None
    refusal: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CreationRunner(TurnRunner):
    """Answers one call of the host by something that is made. A class for each endpoint has `make`."""

    parts: CreationParts = field(kw_only=True)

    @classmethod
    def of(cls, runner: TurnRunner, parts: CreationParts) -> Self:
        """Return what answers in the place of a runner."""
        return cls(**{each.name: getattr(runner, each.name) for each in fields(runner)}, parts=parts)

    @property
    def is_in_chat(self) -> bool:
        """Whether a page shows the answer, and may ask for it again."""
        return bool(self.origin.chat_id and self.origin.message_id)

    async def make(self, wanted: Wanted, answer: Answer) -> None:
        """Make what is wanted, and answer with it. Raises the error tree's errors."""
        raise NotImplementedError

    async def _ask(
        self, history: History, loaded: LoadedArtifacts, steady: SteadyPrompt | None
    ) -> tuple[BuiltHistory, Answer]:
        if self.parts.refusal:
            raise ConfigurationError(self.parts.refusal)
        built = await self._build(history, loaded, steady)
        answer = Answer(began_seconds=asyncio.get_running_loop().time())
        await self.make(await self._wanted(built), answer)
        return built, answer

    async def _wanted(self, built: BuiltHistory) -> Wanted:
        """The newest message, by the user's own words where the host has added to them.

        What is in the place of an attachment that is not sent is told, and no part of it.
        """
        last, turns = built.turns[-1], zip(built.items, built.turns, strict=True)
        items = [item for item, turn in turns if turn == last]
        wanted = read_wanted(items, await self.filled(items, [last] * len(items)))
        return replace(wanted, text=(self.base_user_prompt or wanted.text).strip())

    async def say(self, line: str, *, done: bool = True) -> None:
        """Show a line; one that is not done is a wait, and the channel adds nothing to it."""
        self.channel.waiting_line = None
        await self.channel.put(Notice(line, done=done))

    async def agree(self, cost: float | None, *size: str) -> Bill:
        """Agree on a price, None for one that is not known, and return its bill, whose hold the caller ends."""
        what = ", ".join((self.parts.model.name, *size))
        return await self.spending.begin_piece(cost, what, self.channel.put)

    async def say_begun(self, cost: float | None, *size: str) -> None:
        """Say what is made, and for how much."""
        price = [dollars(cost)] if cost is not None and self.fitter.terms.names_costs else []
        what = ", ".join((self.parts.model.name, *size, *price))
        await self.say(notice("piece_begun", what=what), done=False)

    async def keep(self, file: FileContent) -> str:
        """Store a file that was made, once, and return its path at the host. Raises AttachmentUnavailable."""
        if self.parts.files is None:
            raise AttachmentUnavailable(notice("file_not_stored"))
        of = self.origin
        return host_file_path(await self.parts.files.store(of.user_id, of.chat_id, of.message_id, file))

    def player(self, tag: str, path: str) -> str:
        """Return what plays a file in the page, with each tag on a line of its own; elsewhere its path.

        Source: `HTMLToken.svelte` of Open WebUI 0.12, for HTML that Markdown takes for a block.
        """
        return f"<{tag}>\n{path}\n</{tag}>" if self.is_in_chat else path

    async def show(self, text: str, cost: AnswerCost, answer: Answer) -> None:
        """Answer with a text that is whole."""
        started, delta, finished, end = answer_of(text, f"msg_{self.ports.new_id()}")
        answer.shown, answer.items = True, end.items
        for output in (started, delta, finished, cost):
            await self.channel.put(output)
        answer.end = replace(end, usage=cost.last)
        await self.channel.put(answer.end)
        if line := self.spending.last_line(answer):
            await self.channel.put(Notice(line))


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
        wanted = await super()._wanted(built)
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
