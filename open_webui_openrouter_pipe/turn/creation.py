"""One call of the host that is answered by what an endpoint makes of its newest message; for such models alone.

Everything around it is as in any turn: places, commands, attachments, failures. Owns what all these endpoints share:
the message, the files that are made, and the answer that shows them. A module for each endpoint makes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from ..creation.message import Wanted, read_wanted
from ..errors import AttachmentUnavailable, ConfigurationError
from ..history.reading import History
from ..history.steady import SteadyPrompt
from ..history.turn import BuiltHistory
from ..money.audit import Bill
from ..money.prices import dollars
from ..ports import (
    AnswerCost,
    CreationService,
    FileContent,
    Files,
    LoadedArtifacts,
    Model,
    Notice,
    Room,
)
from ..responses.effects import answer_of
from ..responses.values import host_file_path
from ..words.lines import notice
from .round import Answer
from .runner import TurnRunner


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
