"""Videos: a job that OpenRouter works on for minutes, asked for its state until it has ended.

The job is followed by a task of the worker, which writes its bill, whether or not anybody still waits for its video.
Its id is an artifact, under a name that follows from the question, until the video was shown: whoever asks the same
again meanwhile takes it up.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast
from urllib.parse import quote

from ..conversation.conversation import content_digest
from ..creation.message import Wanted
from ..creation.video import (
    PATH,
    Job,
    VideoRequest,
    VideoWishes,
    read_job,
    read_stored_job,
    said_state,
    stored_job,
    video_request,
)
from ..errors import (
    ConnectionFailed,
    ModelNotFound,
    NotOpenRouter,
    PipeError,
    ProviderError,
    StoreError,
)
from ..history.markers import item_id
from ..money.audit import Bill
from ..money.prices import dollars
from ..ports import Artifact, FileContent
from ..responses.effects import Usage
from ..responses.items import Item
from ..threads import apart
from ..words.lines import notice
from .creation import CreationRunner
from .round import Answer

POLL_SECONDS: Final = 30.0
"""How often a job is asked for, as OpenRouter's documentation has it."""
MOST_SECONDS: Final = 6 * 3600.0
"""After which a job is taken to be lost."""
MOST_FAILURES: Final = 10
"""How often in a row a job may not be found out about."""
_MEDIA_TYPE: Final = "video/mp4"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """A job as it was last seen, None before it is accepted; `error` is why it is not followed any more.

    `began` is in seconds since the epoch.
    """

    bill: Bill
    began: int
    job: Job | None = None
    error: Exception | None = None
    told: asyncio.Queue[Job | None] = field(default_factory=asyncio.Queue)
    """Its states as they are told; None when it is not followed any more."""

    @property
    def usage(self) -> Usage:
        """What it was billed, as far as that is known: what failed and names no cost has cost nothing."""
        if self.job and (self.job.usage or self.job.end not in {"", "done"}):
            return self.job.usage or Usage()
        return Usage(cost=self.bill.cost)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VideoRunner(CreationRunner):
    """Answers one call of the host by a video."""

    async def make(self, wanted: Wanted, answer: Answer) -> None:
        """Begin a job or take one up, wait for its end, and show its video."""
        wishes = VideoWishes(
            **{
                name.removeprefix("video_"): value
                for name, value in self.parts.settings.items()
                if name.startswith("video_")
            }
        )
        request = video_request(self.origin.model, self.parts.model.row, wanted, wishes)
        name = await apart(request.body, partial(self._name, request))
        running = await self._taken_up(name) or await self._agreed(request)
        self.parts.start(self._follow(running, request, name))
        while told := await running.told.get():
            await self.say(said_state(told, self._now() - running.began), done=False)
        if running.error:
            raise running.error
        if not (job := running.job) or not job.end:  # the worker is closed
            raise asyncio.CancelledError
        cost = self.spending.note_piece(running.usage, self._now() - running.began)
        if job.end == "done":
            players = [await self._player(job, index) for index in range(job.outputs)]
            await self.show("\n\n".join(players), cost, answer)
        with suppress(StoreError):
            await self.ports.store.delete(self.origin.user_id, [name])
        if job.end != "done":
            raise self._failure(job, running.usage)

    def _now(self) -> int:
        return int(self.memory.clock())

    def _name(self, request: VideoRequest) -> str:
        """The artifact's name, the same for the same question with the same settings."""
        asked = [self.origin.chat_id, self.parts.question, dict(request.body)]
        number = int.from_bytes(content_digest(asked))
        return item_id(number % (1 << 79), number >> 100 & 0xFFFFF)

    async def _taken_up(self, name: str) -> _Running | None:
        """The job of the same question, if there is one whose video was not shown."""
        if not self.is_in_chat:
            return None
        stored = (await self.ports.store.load(self.origin.user_id, [name])).get(name)
        if not isinstance(stored, Artifact):
            return None
        job_id, bill_id, cost, began = read_stored_job(cast("Any", stored.item))
        return _Running(self.spending.piece(cost, bill_id, began), began, Job(job_id, "", ""))

    async def _agreed(self, request: VideoRequest) -> _Running:
        """A job that may be begun. Raises SpendingDeclined, and SpendingLimitReached."""
        what = ", ".join((self.parts.model.name, *request.size))
        bill = await self.spending.begin_piece(request.cost, what, self.channel.put)
        for line in request.lines:
            await self.say(line)
        if request.cost is not None and self.fitter.terms.names_costs:
            what = f"{what}, {dollars(request.cost)}"
        await self.say(notice("piece_begun", what=what), done=False)
        return _Running(bill, bill.created)

    async def _follow(self, running: _Running, request: VideoRequest, name: str) -> None:
        """Have a job made, unless there is one, and ask for it until its end; then write its bill."""
        bill = running.bill
        try:
            if running.job is None:
                running.job = await self._begin(bill, request, name)
            line = notice("video_stopped")
            self.spending.note_piece(running.usage, 0.0, if_stopped=line)
            await self._watch(running, running.job)
        except Exception as error:  # noqa: BLE001 - whoever waits raises it
            log.warning("a video is not followed any more: %s", error)
            running.error = error
            return
        finally:
            running.told.put_nowait(None)
        job = running.job
        is_told = job.usage is not None or job.end != "done"
        self.spending.settle_piece(bill, running.usage if is_told else None)
        if not is_told and self.spending.generations:
            settle = partial(self.spending.settle_piece, bill)
            self.spending.services.late.ask(self.spending.generations, job.generation or job.id, settle)

    async def _begin(self, bill: Bill, request: VideoRequest, name: str) -> Job:
        """Send the request, and keep the job's id before anything else."""
        origin = self.origin
        try:
            job = read_job(await self.parts.service.post(PATH, request.body))
            if not job.id:
                raise NotOpenRouter(notice("not_openrouter"))
        except PipeError as error:
            if isinstance(error, ConnectionFailed) and error.down != "connection":
                self.spending.settle_piece(bill, None)  # it may be made all the same
            elif self.spending.payer.under:
                self.spending.services.ledger.release(bill)
            raise
        if self.is_in_chat:
            item = stored_job(job.id, bill.id, bill.cost, bill.created)
            where = (name, origin.user_id, origin.chat_id, origin.message_id, item["type"], origin.model)
            try:
                await self.ports.store.put([Artifact(*where, cast("Item", item))])
            except StoreError as error:
                log.warning("the id of a video is not kept: %s", error)
        if bill.cost:  # counts also where the worker is lost
            self.spending.settle_piece(bill, None)
        return job

    async def _watch(self, running: _Running, job: Job) -> None:
        """Ask for a job until its end. Raises ProviderError where nothing more is heard of it."""
        failures = 0
        while not job.end:
            if job.state:  # one that was taken up is asked for at once
                await asyncio.sleep(POLL_SECONDS)
            try:
                told = await self.parts.service.get(f"{PATH}/{quote(job.id, safe='')}")
                job, failures = replace(read_job(told), id=job.id), 0
            except ModelNotFound:
                job = replace(job, state="expired", end="expired")
            except PipeError as error:
                job, failures = replace(job, state=job.state or "pending"), failures + 1
                log.info("the state of a video is not known: %s", error)
            running.job = job
            if not job.end:
                running.told.put_nowait(job)
            if failures >= MOST_FAILURES or self._now() - running.began > MOST_SECONDS:
                raise ProviderError(notice("video_lost"))

    async def _player(self, job: Job, index: int) -> str:
        """A video as the page plays it: stored, or else at its signed address."""
        signed = job.addresses[index] if index < len(job.addresses) else ""
        content = f"{PATH}/{quote(job.id, safe='')}/content?index={index}"
        try:
            try:
                with self.parts.room() as room:
                    path = await self.keep(_named(await self.parts.service.get_file(content, room)))
            except PipeError:
                if not (signed and self.ports.downloads):
                    raise
                path = await self.keep(_named(await self.ports.downloads.fetch(signed)))
        except PipeError as error:
            if not signed:
                raise
            log.warning("a video is not stored: %s", error)
            path = signed
        return f"<video>{path}</video>" if self.is_in_chat else path

    def _failure(self, job: Job, usage: Usage) -> ProviderError:
        """Why there is no video, and what was billed."""
        billed = notice("video_billed", cost=dollars(usage.cost, usage.provider_cost))
        reasons = [self.parts.service.explain(job.error).user_message] if job.error else []
        lines = [notice(f"video_{job.end}"), *reasons, billed]
        failed = ProviderError(notice("joined", lines=lines, separator=" "))
        failed.generation_id = job.generation or job.id
        return failed


def _named(file: FileContent) -> FileContent:
    kind = file.media_type.partition(";")[0] if file.media_type.startswith("video/") else _MEDIA_TYPE
    return replace(file, name=f"video.{kind.partition('/')[2]}", media_type=kind)
