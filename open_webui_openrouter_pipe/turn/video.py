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
    read_job,
    read_stored_job,
    said_state,
    stored_job,
    video_request,
)
from ..errors import ModelNotFound, NotOpenRouter, PipeError, ProviderError, StoreError
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
        """What it was billed, or what is estimated where that is not known."""
        return self.told_usage or Usage(cost=self.bill.cost)

    @property
    def told_usage(self) -> Usage | None:
        """What it was billed: nothing where it failed and names no cost."""
        has_failed = self.job is not None and self.job.end in {"failed", "cancelled"}
        return (self.job and self.job.usage) or (Usage() if has_failed else None)


class VideoRunner(CreationRunner):
    """Answers one call of the host by a video."""

    async def make(self, wanted: Wanted, answer: Answer) -> None:
        """Begin a job or take one up, wait for its end, and show its video."""
        request = video_request(self.origin.model, self.parts.model.row, wanted, self.parts.settings)
        name = await apart(request.body, partial(self._name, request))
        if running := await self._taken_up(name):
            self.parts.start(self._follow(running, request, name))
        else:
            running = await self._begun(request, name)
        async with self.spending.away():
            while told := await running.told.get():
                await self.say(said_state(told, self._now() - running.began), done=False)
        if running.error:
            raise running.error
        if not (job := running.job) or not job.end:  # the worker is closed
            raise asyncio.CancelledError
        cost = self.spending.note_piece(running.usage, self._now() - running.began)
        if job.end == "done":
            try:
                players = [await self._player(job, index) for index in range(job.outputs)]
                await self.show("\n\n".join(players), cost, answer)
            except ModelNotFound:
                job = replace(job, end="expired")
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

    async def _begun(self, request: VideoRequest, name: str) -> _Running:
        """A job whose price is agreed to. Raises SpendingDeclined, and SpendingLimitReached."""
        bill = await self.agree(request.cost, *request.size)
        running = _Running(bill, bill.created)
        self.parts.start(self._follow(running, request, name))  # at once: it ends what is held
        for line in request.lines:
            await self.say(line)
        await self.say_begun(request.cost, *request.size)
        return running

    async def _follow(self, running: _Running, request: VideoRequest, name: str) -> None:
        """Have a job made, unless there is one, and ask for it until its end; then write its bill."""
        spending, bill = self.spending, running.bill
        spending.note_piece(running.usage, 0.0, if_stopped=notice("video_stopped"))
        try:
            if running.job is None:
                running.job = await self._begin(bill, request, name)
            await self._watch(running, running.job)
        except Exception as error:  # noqa: BLE001 - whoever waits raises it
            log.warning("a video is not followed any more: %s", error)
            running.error = error
            if running.job or (isinstance(error, PipeError) and error.may_be_done):
                spending.settle_piece(bill, None)
            elif spending.payer.under:
                spending.services.ledger.release(bill)
            return
        finally:
            running.told.put_nowait(None)
        generation = running.job.generation or running.job.id
        bill = replace(bill, generation=generation)
        spending.settle_piece(bill, running.told_usage)
        if running.told_usage is None and spending.generations:
            settle = partial(spending.settle_piece, bill)
            spending.services.late.ask(spending.generations, generation, settle)

    async def _begin(self, bill: Bill, request: VideoRequest, name: str) -> Job:
        """Send the request, and keep the job's id before anything else."""
        origin, job = self.origin, read_job(await self.parts.service.post(PATH, request.body))
        if not job.id:
            raise NotOpenRouter(notice("not_openrouter"))
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
        failures, seconds = 0, POLL_SECONDS if job.state else 0.0  # one that is taken up is asked for at once
        while not job.end:
            await asyncio.sleep(seconds)
            seconds = POLL_SECONDS
            try:
                told = await self.parts.service.get(f"{PATH}/{quote(job.id, safe='')}")
                job, failures = replace(read_job(told), id=job.id), 0
            except ModelNotFound:
                job = replace(job, state="expired", end="expired")
            except PipeError as error:
                failures += 1
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
        return self.player("video", path)

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
