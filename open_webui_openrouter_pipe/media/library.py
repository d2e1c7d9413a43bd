"""The port `Fill`: what a chat refers to, read once, checked, encoded beside the event loop, and put in place.

Files of the host are read through `Files`, which checks the user's right, and what is on the web through `download`,
which judges the address. How much of them is in memory at once is decided in `memory`. Which attachments stay, and
in which form, is decided in `choice`. A failure becomes a note in the attachment's place and a line for the user.
"""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from typing import Final, TypeAlias, cast

from ..conversation.conversation import item_digest
from ..errors import AttachmentUnavailable, PipeError, TooBusy
from ..ports import FileContent, Files, FilledItems, Model, Room
from ..responses.items import NOT_IN_OUTPUTS, Item, Modality, is_message
from ..responses.values import base64_of, decode, host_file_id, host_file_path
from ..threads import apart
from ..words.lines import is_line, notice
from .choice import (
    PLURALS,
    Attachment,
    Choice,
    Encoded,
    Form,
    MediaSettings,
    Omission,
    Replacement,
    choose,
    find_attachments,
    form_of,
    is_text,
    note,
    plain_name,
    reads,
    replace_parts,
    replacement_for,
)
from .kinds import KIND_LINES, UNKNOWN, is_binary, is_damaged, media_type_of
from .memory import (
    MEGABYTE,
    READING_COPIES,
    EncodedFiles,
    FileRoom,
    Reservation,
)

_MAX_CONCURRENT: Final = 4
_WINDOW_BYTES: Final = 192 * 1024
"""As much is encoded at a time, a multiple of three: the interpreter is held meanwhile, and let go for the pause."""
_PAUSE_SECONDS: Final = 0.0001
TEXT_COPIES: Final = 9
"""What a text takes besides, in sizes of its file: its characters have up to four bytes each, and it is framed."""
_SUFFIX_CHARACTERS: Final = 12
_INLINE_HEAD_CHARACTERS: Final = 8192
"""Enough of an inline attachment for its type to be known."""
_OMITTED: Final[Mapping[Omission, tuple[str, str]]] = {
    "unselected": ("images_omitted", ""),
    "too_many": ("images_omitted", ""),
    "too_many_at_once": ("attachments_not_sent", "too_many_images"),
    "too_large": ("attachments_omitted", ""),
    "too_large_at_once": ("attachments_not_sent", "too_large_together"),
}
"""The line about what is omitted, and the reason why it is not sent, if no request has shown it."""

_SENTENCES: Final = {"attachment_damaged_file": "file_damaged", "addresses_not_asked": "address_not_asked"}
"""The lines that say for one reason why an attachment is not sent."""

_log = logging.getLogger(__name__)

Found: TypeAlias = Mapping[str, Encoded | AttachmentUnavailable]
"""What was read, by its source, or why it cannot be had."""
Download: TypeAlias = Callable[[str, Room], Awaitable[FileContent]]
"""Returns what is at a public address, once there is room for it. Raises AttachmentUnavailable, TooBusy."""


@dataclass(slots=True, eq=False)
class HeldFiles:
    """What one call holds until its end: its files by source, or why they cannot be had, and the room for them."""

    found: dict[str, Encoded | AttachmentUnavailable] = field(default_factory=dict)
    reservation: Reservation | None = None
    lasting_bytes: int = 0
    """What they take once they stand in a request, and the largest one again, to be counted."""

    def release(self) -> None:
        """Hold nothing any more."""
        self.found.clear()
        if self.reservation:
            self.reservation.release()
        self.reservation = None


@dataclass(frozen=True, slots=True)
class MediaLibrary:
    """The attachments of one call. `model` is the catalogue's entry of the model that is asked, None when unknown.

    `saved_for` are the chat and the message with whose files downloads are stored, None where none are.
    """

    files: Files | None
    download: Download
    encoded: EncodedFiles
    settings: MediaSettings
    model: Model | None
    user_id: str
    turn: str
    """The name of the turn, of which the host may make several calls."""
    saved_for: tuple[str, str] | None = None
    held: HeldFiles = field(default_factory=HeldFiles)
    """Release it when the call ends."""

    async def refusal(self, file_id: str) -> AttachmentUnavailable | None:
        """Return why the model is not given a file of the host as it is, None when it is."""
        source = host_file_path(file_id)
        try:
            if failure := (await self._read_all([source], self._kept)).get(source):
                return failure
        except TooBusy as error:
            return AttachmentUnavailable(error.user_message)
        known = self._known(source)
        if known is None or self._form_of(known):
            return None
        return AttachmentUnavailable(_kind_line(known, self.model))

    async def fill(self, items: Sequence[Item], turns: Sequence[int]) -> FilledItems:
        """Replace references by content, and what the model does not read by a note. Raises TooBusy."""
        find = partial(find_attachments, items, turns)
        attachments = await apart(items, find, found=item_digest)
        if not attachments:
            return FilledItems(items)
        choose_with = partial(choose, attachments, turns[-1], self.settings, self.model)
        sources = _references((await apart(items, partial(choose_with, {}))).sent)
        failed = await self._read_all(sources, self._known)
        sizes_bytes = {each.source: len(each.source) * 3 // 4 for each in attachments}  # with its padding
        for source in sources:
            unread_bytes = (
                0 if source in failed else self.settings.max_total_bytes
            )  # by what is newer displaced
            sizes_bytes[source] = found.size_bytes if (found := self._known(source)) else unread_bytes
        chosen = await apart(items, partial(choose_with, sizes_bytes))
        shown = _references(chosen.sent)
        known = failed.keys() | self.held.found.keys()
        failed |= await self._read_all((each for each in shown if each not in known), self._kept)
        inline = [len(each.source) for each in attachments if not each.is_reference]
        read = await self._hold([each for each in shown if each not in failed], inline)
        filled = await asyncio.to_thread(self._filled, items, chosen, {**failed, **read})
        if self.held.reservation:
            self.held.reservation.shrink(self.held.lasting_bytes)
        return filled

    def _kept(self, source: str) -> Encoded | None:
        return self.encoded.get(self.user_id, source)

    def _known(self, source: str) -> Encoded | None:
        return self.encoded.known(self.user_id, source)

    async def _hold(self, sources: Sequence[str], inline: Sequence[int]) -> Found:
        """Return the files, held until the call ends; nothing is held while room for them is waited for.

        What was evicted meanwhile is read again, one at a time: there is room for that too.
        """
        held = self.held
        if not (held.reservation and held.found.keys() >= {*sources}):
            held.release()
            known = [*filter(None, map(self._known, sources))]
            sizes = [each.size_bytes for each in known]
            texts = [each.size_bytes for each in known if is_text(each.media_type)]
            largest_bytes = max([*sizes, *inline], default=0)
            lasting_bytes = sum(sizes) * 4 // 3 + sum(texts) * TEXT_COPIES + sum(inline) + largest_bytes

            def take() -> None:
                kept = {source: self._kept(source) for source in sources}
                held.found.update({source: file for source, file in kept.items() if file})

            size_bytes = lasting_bytes + READING_COPIES * largest_bytes
            held.reservation = await self.encoded.budget.reserve(self.user_id, size_bytes, take)
            held.lasting_bytes = lasting_bytes
        for source in sources:
            if source not in held.found:
                try:
                    held.found[source] = _checked(await self._read(source, self._room(is_held=True)))
                except AttachmentUnavailable as error:
                    held.found[source] = error
        return held.found

    def _filled(self, items: Sequence[Item], chosen: Choice, read: Found) -> FilledItems:
        """Put what was read, and the notes, in place. Blocks: a base64 text may have many megabytes."""
        lines = dict[str, str]()
        for kind, count in Counter(each.kind for each in chosen.unread).items():
            reason = notice(f"attachment_no_{kind}")
            lines[kind] = notice("attachments_not_sent", count=count, reason=reason)
        for omission, count in Counter(chosen.omitted.values()).items():
            name, reason = _OMITTED[omission]
            reason = self._limit_notice(reason) if reason else ""
            line = self._limit_notice(name, count, reason)
            # One line each time that something goes; a selection lets go of images at each turn, which is said once.
            lines["images_unselected" if omission == "unselected" else line] = line
        replaced: dict[Attachment, Replacement] = {
            each: note(each, f" not sent: this model does not read {PLURALS[each.kind]}")
            for each in chosen.unread
        }
        for each, omission in chosen.omitted.items():
            reason = _OMITTED[omission][1]
            fate = f" not sent: {self._limit_notice(reason)}" if reason else " no longer shown"
            replaced[each] = note(each, fate)
        for each in chosen.sent:
            try:
                replacement = self._replacement(each, items[each.item], read)
            except AttachmentUnavailable as error:
                name, reason = plain_name(each.name) or notice(f"the_{each.kind}"), error.user_message
                replacement = note(each, f" not sent: {reason}")
                sentences = (each for each, why in _SENTENCES.items() if is_line(reason, why))
                line = notice(next(sentences, "attachment_not_sent"), name=name, reason=reason)
                lines[line] = line
            if replacement is not None:
                replaced[each] = replacement
        return FilledItems(replace_parts(items, replaced), lines)

    def _limit_notice(self, name: str, count: int = 0, reason: str = "") -> str:
        """A line about a limit of a whole request."""
        most, megabytes = self.settings.max_images, self.settings.max_total_bytes / MEGABYTE
        return notice(name, count=count, reason=reason, limit=most, megabytes=megabytes)

    def _replacement(self, attachment: Attachment, item: Item, read: Found) -> Replacement | None:
        """Return what replaces an attachment, None where it can be sent as it is. Raises AttachmentUnavailable."""
        encoded = read[attachment.source] if attachment.is_reference else self._read_inline(attachment)
        if isinstance(encoded, AttachmentUnavailable):
            raise encoded
        form = self._form_of(encoded)
        may_stand_here = is_message(item) or form not in NOT_IN_OUTPUTS
        if form is None or attachment.kind not in {"file", form} or not may_stand_here:
            raise AttachmentUnavailable(_kind_line(encoded, self.model))
        return replacement_for(attachment, item, encoded, form)

    def _read_inline(self, attachment: Attachment) -> Encoded:
        """Return what an attachment holds; a document is decoded, of others a look at the beginning is enough."""
        plain = base64_of(attachment.source)
        size_bytes = len(plain) * 3 // 4
        self._room().check(size_bytes)
        if attachment.kind == "file":
            return _checked(encode(FileContent(attachment.name, "", decode(plain))))
        head = decode(attachment.source, limit_characters=_INLINE_HEAD_CHARACTERS)
        media_type, digest = media_type_of(head), sha256(plain.encode()).digest()
        damaged = self.encoded.damaged
        is_broken = damaged.get_or_compute(digest, lambda: is_damaged(decode(plain), media_type))
        url = f"data:{media_type};base64,{plain}"
        return _checked(Encoded(attachment.name, media_type, url, size_bytes, is_broken))

    def _form_of(self, encoded: Encoded) -> Form | None:
        return form_of(encoded.media_type, self.model, parses_pdf=self.settings.parses_pdf)

    async def _read_all(
        self, sources: Iterable[str], is_read: Callable[[str], object]
    ) -> dict[str, AttachmentUnavailable]:
        """Read and keep the files that are not yet, a few at a time, in their order; return why some cannot be had.

        Behind as many as a request may hold, files are only measured, and addresses not asked.
        """
        failed: dict[str, AttachmentUnavailable] = {}
        waiting, total_bytes, limit_bytes = iter(sources), 0, self.settings.max_total_bytes

        async def work() -> None:
            nonlocal total_bytes
            for source in waiting:
                if total_bytes > limit_bytes and not host_file_id(source):
                    continue
                room = self._room()
                try:
                    if not is_read(source):
                        self.held.release()  # a later request of the call: nobody holds and waits
                        file = await self._read(source, room)
                        keep = self.encoded.note if total_bytes > limit_bytes else self.encoded.put
                        room.release()
                        keep(self.user_id, source, file)
                    found = self._known(source)
                    total_bytes += found.size_bytes if found else 0
                    _checked(found)
                except AttachmentUnavailable as error:
                    failed[source] = error
                finally:
                    room.release()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_MAX_CONCURRENT):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return failed

    def _room(self, *, is_held: bool = False) -> FileRoom:
        """Where a file is read into: room of its own, unless that of the call is for it."""
        reserve = None if is_held else partial(self.encoded.budget.reserve, self.user_id)
        ask = partial(self.encoded.ask, self.user_id, self.turn)
        return FileRoom(self.settings.max_bytes, ask, reserve)

    @contextmanager
    def room_for_made(self) -> Generator[FileRoom]:
        """Where something that was made is read into, which is never encoded."""
        room = FileRoom(
            self.settings.memory_bytes // READING_COPIES,
            ask=bool,
            reserve=partial(self.encoded.budget.reserve, self.user_id),
        )
        try:
            yield room
        finally:
            room.release()

    async def _read(self, source: str, room: FileRoom) -> Encoded:
        """Read and encode a file. Raises AttachmentUnavailable and TooBusy alone."""
        try:
            file_id = host_file_id(source)
            file = await (self._load(file_id, room) if file_id else self._download(source, room))
            room.check(len(file.content))
            return await asyncio.to_thread(encode, file)
        except PipeError as error:
            # of these the user is told once, and there may be thousands
            if not is_line(error.user_message, "address_not_asked"):
                _log.warning("an attachment is not sent: %s", error)
            raise
        except Exception as error:  # the host's storage may raise anything
            _log.exception("an attachment is not sent")
            raise AttachmentUnavailable(notice("attachment_unreadable"), detail=repr(error)) from error

    async def _load(self, file_id: str, room: FileRoom) -> FileContent:
        if self.files is None:
            raise AttachmentUnavailable(notice("attachment_unreadable"))
        return await self.files.read(self.user_id, file_id, room)

    async def _download(self, url: str, room: FileRoom) -> FileContent:
        """Fetch it once for a saved chat: what it was then is what every later turn and other workers get."""
        if failure := self.encoded.failure(self.user_id, self.turn, url):
            raise AttachmentUnavailable(failure)
        chat_id, message_id = self.saved_for or ("", "")
        files, key = self.files if self.saved_for else None, f"{chat_id}/{url}"
        if files is not None:
            with suppress(AttachmentUnavailable):
                return await self._load(files.id_of(self.user_id, key), room)
        try:
            file = await self.download(url, room)
        except AttachmentUnavailable as error:  # a dead address must not hold up each turn of its chat
            if not is_line(error.user_message, "address_not_asked"):
                self.encoded.fail(self.user_id, self.turn, url, error.user_message)
            raise
        if files is not None:
            try:
                await files.store(self.user_id, chat_id, message_id, file, key=key)
            except AttachmentUnavailable as error:
                _log.warning("a download is not stored: %s", error)
        return file

    async def fetch(self, url: str) -> FileContent:
        """The port `Downloads`, for a call that holds files already: where there is no room at once, there is none."""

        async def reserve(size_bytes: int) -> Reservation:
            if not self.encoded.budget.has_room(size_bytes):
                raise AttachmentUnavailable(notice("memory_slow", seconds=0))
            return await self.encoded.budget.reserve(self.user_id, size_bytes)

        room = replace(self._room(), reserve=reserve)
        try:
            return await self.download(url, room)
        finally:
            room.release()


def _references(attachments: Iterable[Attachment]) -> list[str]:
    """The sources that name a file, each once, the newest first."""
    found = [each.source for each in attachments if each.is_reference]
    return list(dict.fromkeys(reversed(found)))


def encode(file: FileContent) -> Encoded:
    """Encode a file for a request. Its type follows from its content, whatever it is called. Blocks."""
    content = file.content
    media_type = media_type_of(content)
    portions = [f"data:{media_type};base64,"]
    for start in range(0, len(content), _WINDOW_BYTES):
        portions.append(b64encode(content[start : start + _WINDOW_BYTES]).decode("ascii"))
        time.sleep(_PAUSE_SECONDS)
    return Encoded(
        file.name,
        media_type,
        "".join(portions),
        len(content),
        is_damaged(content, media_type),
        is_binary(content, media_type),
    )


def _checked(encoded: Encoded | None) -> Encoded:
    """Return what can be opened. Raises AttachmentUnavailable."""
    if encoded is None:
        raise AttachmentUnavailable(notice("attachment_unreadable"))
    if encoded.is_damaged:
        raise AttachmentUnavailable(notice("file_damaged"), detail=encoded.media_type)
    if encoded.is_binary:
        raise AttachmentUnavailable(notice("attachment_binary"))
    return encoded


def _kind_line(encoded: Encoded, model: Model | None) -> str:
    """Why a file of this kind is not sent, and what to do where another model reads such files."""
    if encoded.media_type == UNKNOWN:
        return notice("attachment_unknown")
    kind, _, subtype = encoded.media_type.partition("/")
    if kind in {"audio", "video"} and not reads(model, cast("Modality", kind)):
        return notice(f"attachment_no_{kind}")
    name = next(line for begin, line in KIND_LINES if encoded.media_type.startswith(begin))
    suffix = PurePath(encoded.name).suffix or f".{subtype.partition('+')[0]}"
    return notice("attachment_kind", kind=notice(name, suffix=suffix[:_SUFFIX_CHARACTERS]))
