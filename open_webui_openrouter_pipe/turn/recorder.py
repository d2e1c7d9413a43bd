"""Keeps a round's artifacts: decides what is kept, makes it durable, and says which markers may be shown.

A marker is handed out only after the store has confirmed its artifact. A store that is unavailable, that refuses an
item (too large), or that breaks its promises is no reason to raise: the answer goes on without those markers, and
`lost` counts what was not saved.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from ..errors import AttachmentUnavailable, StoreError, StoreUnavailable
from ..history.artifacts import normalize_persisted_item
from ..history.markers import item_id
from ..ports import Artifact, ArtifactStore, Downloads, FileContent, Files, RequestOrigin
from ..responses.items import (
    Item,
    image_type,
    inline_picture,
    is_function_call_output,
    is_message,
    is_picture,
    is_reasoning,
    kind_of,
    picture_address,
    with_picture,
    without_unusable,
)
from ..responses.values import decode, host_file_path, is_web_address
from ..words.lines import notice

log = logging.getLogger(__name__)

ReasoningRetention = Literal["disabled", "next_reply", "conversation"]


def generate_item_id() -> str:
    """Make a new 20-character ULID: 16 characters of time in nanoseconds, 4 of randomness; later ids sort later."""
    return item_id(time.time_ns(), secrets.randbits(20))


@dataclass(frozen=True, slots=True)
class Persistence:
    """What is kept of an answer: reasoning (and for how long), and tool calls with their results."""

    reasoning: ReasoningRetention
    tools: bool
    in_memory: bool = False
    """Nothing outlives the process, so that what is missing is no news."""

    @property
    def of_unsaved(self) -> Persistence:
        """What is kept of a chat that the host does not save: reasoning, which no line in its text refers to."""
        return Persistence(self.reasoning, tools=False, in_memory=True)

    def includes(self, item: Item) -> bool:
        """Whether the item becomes an artifact: whole, of use alone, and not kept by the host itself."""
        if is_message(item) or is_function_call_output(item) or kind_of(item["type"]).answered_by == "nobody":
            return False
        if not (self.reasoning != "disabled" if is_reasoning(item) else self.tools):
            return False
        return item.get("status", "completed") == "completed"


@dataclass(slots=True, eq=False, repr=False)
class Recorder:
    """The artifacts of one round, by the index of their item."""

    store: ArtifactStore
    origin: RequestOrigin
    persistence: Persistence
    new_id: Callable[[], str]
    lost: int = 0
    unavailable: bool = False
    saved: dict[int, Artifact] = field(default_factory=dict)
    """What is durable."""
    _unsaved: dict[int, Artifact] = field(default_factory=dict)
    _amended: dict[int, Artifact] = field(default_factory=dict)

    def keep(self, index: int, item: Item, ulid: str | None = None) -> None:
        """Take a finished item, if it is one that is kept; under this ULID where it has one already."""
        if self.persistence.includes(item) and (valid := normalize_persisted_item(item)):
            of = self.origin
            self._unsaved[index] = Artifact(
                ulid or self.new_id(), of.user_id, of.chat_id, of.message_id, valid["type"], of.model, valid
            )

    def amend(self, index: int, item: Item) -> None:
        """Take what the terminal event added to an item that was kept before."""
        valid = normalize_persisted_item(item)
        if valid is None:
            return
        if index in self._unsaved:
            self._unsaved[index] = replace(self._unsaved[index], item=valid)
        elif index in self.saved:
            self.saved[index] = self._amended[index] = replace(self.saved[index], item=valid)

    async def save(self) -> tuple[str, ...]:
        """Make everything kept so far durable, in one batch; return the ids whose markers may be shown now."""
        batch, self._unsaved = dict(sorted(self._unsaved.items())), {}
        stored = await self._put(tuple(batch.values()))
        self.saved.update({index: artifact for index, artifact in batch.items() if artifact.id in stored})
        return stored

    async def save_amendments(self) -> None:
        """Complete artifacts whose markers are already shown."""
        artifacts, self._amended = tuple(self._amended.values()), {}
        await self._put(artifacts)

    async def _put(self, artifacts: tuple[Artifact, ...]) -> tuple[str, ...]:
        """Store all at once, or each by itself when the store refuses one of them; return the ids of the stored."""
        if not artifacts:
            return ()
        try:
            await self.store.put(artifacts)
        except Exception as error:  # noqa: BLE001 - whatever ails the store, the answer goes on
            is_refusal = isinstance(error, StoreError) and not isinstance(error, StoreUnavailable)
            if is_refusal and len(artifacts) > 1:
                return tuple([ulid for artifact in artifacts for ulid in await self._put((artifact,))])
            if not self.lost:
                log.warning("not all items of this answer are stored: %s: %s", type(error).__name__, error)
            self.lost += len(artifacts)
            self.unavailable = self.unavailable or not is_refusal
            return ()
        return tuple(artifact.id for artifact in artifacts)


@dataclass(frozen=True, slots=True)
class PictureStorage:
    """Stores the pictures of one round.

    Without `files` they stay as they came, and without `downloads` those that are at an address.
    """

    files: Files | None
    origin: RequestOrigin
    downloads: Downloads | None = None

    async def keep(self, item: Item) -> tuple[Item, str | None]:
        """Return an item as it may be shown and kept, and a line for the user if its picture is not as it should be."""
        if not is_picture(item):
            return item, None
        received = without_unusable(item)
        inline = inline_picture(received)
        if not inline:
            is_refused = received is not item and not picture_address(received)
            if is_refused:
                return received, notice("attachment_not_a_picture")
            return await self._fetched(received), None
        if self.files is None:
            return received, None
        try:
            file_id = await self._store(self.files, await asyncio.to_thread(decode, inline))
            return with_picture(received, host_file_path(file_id)), None
        except AttachmentUnavailable as error:
            log.warning("a picture is not stored: %s", error)
            reason = error.user_message
        except Exception:  # whatever ails the storage, the picture is paid for and is shown
            log.exception("a picture is not stored")
            reason = notice("attachment_storage_failed")
        return received, notice("attachment_not_stored", reason=reason)

    async def _fetched(self, item: Item) -> Item:
        """Return a picture that is at a web address as one that is stored; as it is where that cannot be done."""
        address = picture_address(item)
        if self.files is None or self.downloads is None or not is_web_address(address):
            return item
        try:
            content = (await self.downloads.fetch(address)).content
            return with_picture(item, host_file_path(await self._store(self.files, content)))
        except AttachmentUnavailable as error:
            log.warning("a picture stays at its address: %s", error)
        except Exception:  # as above
            log.exception("a picture stays at its address")
        return item

    async def _store(self, files: Files, content: bytes) -> str:
        kind, of = image_type(content), self.origin
        if kind is None:
            raise AttachmentUnavailable(notice("attachment_damaged"))
        file = FileContent(f"picture.{kind.rpartition('/')[2]}", kind, content)
        return await files.store(of.user_id, of.chat_id, of.message_id, file)
