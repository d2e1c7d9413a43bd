"""Keeps a round's artifacts: what calls are called, what is kept and durable, which markers may be shown.

A marker is handed out only after the store has confirmed its artifact. A store that is unavailable, that refuses an
item (too large), or that breaks its promises is no reason to raise: the answer goes on without those markers, and
`lost` counts what was not saved.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from ..errors import AttachmentUnavailable, StoreError, StoreUnavailable
from ..history.artifacts import OPENAI, PROVIDER_BOUND, maker_of, normalize_persisted_item
from ..history.markers import fleeting, item_id, name_call
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
from ..responses.values import as_text, decode, host_file_path, is_web_address
from ..words.lines import notice

log = logging.getLogger(__name__)

ReasoningRetention = Literal["disabled", "next_reply", "conversation"]

_LASTING = ("message", "reasoning", "function_call", "openrouter:")
"""How the types of items begin that a chat has anyway, or that no provider has written."""


def generate_item_id() -> str:
    """Make a new 20-character ULID: 16 characters of time in nanoseconds, 4 of randomness; later ids sort later."""
    return item_id(time.time_ns(), secrets.randbits(20))


@dataclass(frozen=True, slots=True)
class Persistence:
    """What is kept of an answer: reasoning (and for how long), and tool calls with their results.

    Whatever is kept, reasoning goes back within its turn; `within_turn` says that there may be further rounds.
    """

    reasoning: ReasoningRetention
    tools: bool
    within_turn: bool = True
    in_memory: bool = False
    """Nothing outlives the process, so that what is missing is no news."""

    def includes(self, item: Item) -> bool:
        """Whether the item becomes an artifact: whole, of use alone, and not kept by the host itself."""
        if is_message(item) or is_function_call_output(item) or kind_of(item["type"]).answered_by == "nobody":
            return False
        keeps_reasoning = self.within_turn or self.reasoning != "disabled"
        if not (keeps_reasoning if is_reasoning(item) else self.tools):
            return False
        return item.get("status", "completed") == "completed"


@dataclass(slots=True, eq=False, repr=False)
class Recorder:
    """The items of one round, by their index: as the host gets them, and as they are stored.

    Some providers number their calls anew in each response. The host takes a repeated id for a call that it has
    already run, and pairs would mix on replay; so an id that is `taken` by the request's input is replaced before
    anyone sees it. Where calls are kept, each that is drawn as a function's gets an id that names its artifact, and the
    provider's is kept with that. `host_names` are renamed tools by their wire name.
    """

    store: ArtifactStore
    origin: RequestOrigin
    persistence: Persistence
    new_id: Callable[[], str]
    taken: set[str] = field(default_factory=set)
    host_names: Mapping[str, str] = field(default_factory=dict)
    base: tuple[str, str] = ("", "")
    """The names of what stands before the turn: the system prompt, and the chat."""
    phase: str = ""
    """Of the round's text so far."""
    lost: int = 0
    unavailable: bool = False
    saved: dict[int, Artifact] = field(default_factory=dict)
    """What is durable."""
    ulids: dict[int, str] = field(default_factory=dict)
    """The artifacts that the ids of calls name, by the index of the call."""
    _unsaved: dict[int, Artifact] = field(default_factory=dict)
    _ended: set[int] = field(default_factory=set)
    _unsent: set[int] = field(default_factory=set)
    """What a provider has written and never gets back."""
    _call_ids: dict[int, str] = field(default_factory=dict)
    _replaced: dict[str, str] = field(default_factory=dict)

    def for_host(self, index: int, item: Item) -> Item:
        """Return the item with the id and name that the host needs; the same for an index as long as it has a name."""
        fields = cast("Mapping[str, Any]", item)
        call_id, is_function = fields.get("call_id"), item["type"] == "function_call"
        changes: dict[str, Any] = {}
        if self.persistence.tools and kind_of(item["type"]).drawn_as == "function_call":
            if index not in self.ulids:
                self.ulids[index] = self.new_id()
                self._call_ids[index] = name_call(self.ulids[index], self.phase)
            changes["call_id"] = self._call_ids[index]
        elif isinstance(call_id, str):
            is_output = item["type"].endswith("_output")
            if index not in self._call_ids:
                if not is_output and call_id in self.taken:
                    self._replaced[call_id] = f"call_{self.new_id()}"
                # a hosted tool's output keeps the id of its call, whatever that is now
                self._call_ids[index] = self._replaced.get(call_id, call_id)
                if not is_output:
                    self.taken.add(self._call_ids[index])
            changes["call_id"] = self._call_ids[index]
        if is_function:
            name = as_text(fields.get("name"))
            changes["name"] = self.host_names.get(name, name)
        changed = {**fields, **changes}
        return item if changed == fields else cast("Item", changed)

    def without_name(self, index: int, call: Item) -> Item:
        """Return a call as the host gets it from here on: with an id that names no artifact, as none is stored."""
        self._call_ids[index] = f"lost_{self._call_ids[index]}"
        return self.for_host(index, call)

    def keep(self, index: int, item: Item, given: Item) -> None:
        """Take the host's form of a finished item that is kept; a call has its `given` id in the store.

        What comes later under the index of one that is kept takes its place.
        """
        if index in self.ulids:
            item = cast("Item", {**item, "call_id": cast("Mapping[str, Any]", given).get("call_id")})
        earlier, is_new = self._unsaved.get(index) or self.saved.get(index), index not in self._ended
        self._ended.add(index)
        valid = normalize_persisted_item(item) if earlier or is_new else None
        if valid and earlier:
            self._unsaved[index] = replace(earlier, item=valid)
        elif valid and self.persistence.includes(item):
            ulid, of = self.ulids.get(index) or self.new_id(), self.origin
            if is_reasoning(valid) and self.persistence.reasoning != "conversation":
                ulid = fleeting(ulid)
            where = (ulid, of.user_id, of.chat_id, of.message_id, valid["type"], of.model)
            names = self.base if is_reasoning(valid) else ()
            self._unsaved[index] = Artifact(*where, valid, "", *names)
        elif is_new and not item["type"].startswith(_LASTING):
            self._unsent.add(index)

    def note_writer(self, model: str, provider: str) -> None:
        """Note which model has written the items, and who served it: that is known with the end alone.

        What is durable by then is stored again where it matters: of another model, sealed for one provider, or refused
        by OpenAI, which takes no reasoning without what came next. That loses its seal, with which it would be sent.
        """
        for index, artifact in {**self.saved, **self._unsaved}.items():
            known = replace(artifact, model=model or artifact.model, provider=provider)
            maker = maker_of(artifact.item)
            is_alone = maker == OPENAI and index + 1 in self._unsent
            if is_alone:
                known = replace(known, item=cast("Item", {**known.item, "encrypted_content": None}))
            is_bound = provider and maker in PROVIDER_BOUND
            if index in self._unsaved or is_bound or is_alone or known.model != artifact.model:
                self._unsaved[index] = known

    async def save(self) -> tuple[str, ...]:
        """Make what was kept since the last save durable, in one batch; return the ids to show.

        What amends an item has its marker already.
        """
        batch, self._unsaved = dict(sorted(self._unsaved.items())), {}
        stored = await self._put(tuple(batch.values())) if batch else ()
        saved = {index: artifact for index, artifact in batch.items() if artifact.id in stored}
        new = tuple(artifact.id for index, artifact in saved.items() if index not in self.saved)
        self.saved.update(saved)
        return new

    async def _put(self, artifacts: tuple[Artifact, ...]) -> tuple[str, ...]:
        """Store all at once, or each by itself when the store refuses one of them; return the ids of the stored."""
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
        return tuple([artifact.id for artifact in artifacts])


@dataclass(frozen=True, slots=True)
class PictureStorage:
    """Stores the pictures of one round.

    Without `files` they stay as they came, and without `downloads` those that are at an address.
    """

    files: Files | None
    origin: RequestOrigin
    downloads: Downloads | None = None

    async def keep(self, item: Item) -> tuple[Item, str | None]:
        """Return an item as it may be shown and kept, and a line if its picture is not as it should be.

        One that stays at its web address is as it should be.
        """
        if not is_picture(item):
            return item, None
        received, of = without_unusable(item), self.origin
        inline, address = inline_picture(received), picture_address(received)
        if received is not item and not address:
            return received, notice("attachment_not_a_picture")
        downloads = self.downloads if is_web_address(address) else None
        if self.files is None or not (inline or downloads):
            return received, None
        try:
            if downloads and not inline:
                content = (await downloads.fetch(address)).content
            else:
                content = await asyncio.to_thread(decode, inline)
            if kind := image_type(content):
                file = FileContent(f"picture.{kind.rpartition('/')[2]}", kind, content)
                file_id = await self.files.store(of.user_id, of.chat_id, of.message_id, file)
                return with_picture(received, host_file_path(file_id)), None
            reason = notice("file_damaged")
            log.warning("a picture is not stored: %s", reason)
        except AttachmentUnavailable as error:
            log.warning("a picture is not stored: %s", error)
            reason = error.user_message
        except Exception:  # whatever ails the storage, the picture is paid for and is shown
            log.exception("a picture is not stored")
            reason = notice("file_not_stored")
        return received, notice("attachment_not_stored", reason=reason) if inline else None
