"""The port `Fill`: what a chat refers to, read once, checked, encoded beside the event loop, and put in place.

Files of the host are read through `Files`, which checks the user's right, and what is on the web through `Downloads`,
which judges the address. What was encoded is kept in bounded memory for the next requests. Which attachments stay, and
in which form, is decided in `choice`. A failure becomes a note in the attachment's place and a line for the user.
"""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import b64encode
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from typing import Final, TypeAlias, cast

from ..conversation.conversation import ContentCache, cache_key
from ..errors import AttachmentBinary, AttachmentDamaged, AttachmentUnavailable
from ..ports import Downloads, FileContent, Files, FilledItems, Model
from ..responses.items import NOT_IN_OUTPUTS, Item, Modality, is_message
from ..responses.values import base64_of, clean_text, decode, host_file_id, host_file_path
from ..threads import apart
from ..words.lines import notice
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
from .damage import is_binary, is_damaged
from .kinds import KIND_LINES, UNKNOWN, media_type_of

MAX_CACHED_CHARACTERS: Final = 96 * 1024 * 1024
CHECKED_SECONDS: Final = 300.0
"""How long a right to read a file, once checked, is taken to hold, and a download that failed is not tried again."""
ENTRY_CHARACTERS: Final = 1024
"""What an entry takes beside its source and its file."""

_MAX_CONCURRENT: Final = 4
_WINDOW_BYTES: Final = 192 * 1024
"""As much is encoded at a time, a multiple of three: the interpreter is held meanwhile, and let go for the pause."""
_PAUSE_SECONDS: Final = 0.0001
_MEGABYTE_BYTES: Final = 1024 * 1024
_SUFFIX_CHARACTERS: Final = 12
_INLINE_HEAD_CHARACTERS: Final = 8192
"""Enough of an inline attachment for its type to be known."""
_OMITTED: Final[Mapping[Omission, tuple[str, str]]] = {
    "unselected": ("images_omitted", ""),
    "too_many": ("images_omitted", ""),
    "too_many_at_once": ("images_too_many", "too_many_images"),
    "too_large": ("attachments_omitted", ""),
    "too_large_at_once": ("attachments_too_large", "too_large_together"),
}
"""The line about what is omitted, and in its place the reason why it is not sent, if no request has shown it."""

_log = logging.getLogger(__name__)

Found: TypeAlias = Mapping[str, Encoded | AttachmentUnavailable]
"""What was read, by its source, or why it cannot be had."""


class EncodedFiles:
    """Encoded files by user and source, in bounded memory; those not used recently are forgotten.

    In the place of a file that could not be had stands the reason, as a text.
    """

    def __init__(
        self, max_characters: int = MAX_CACHED_CHARACTERS, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_characters, self._clock = max_characters, clock
        self._kept: OrderedDict[bytes, tuple[int, float, Encoded | str]] = OrderedDict()
        """With the characters that each takes, and when it was read."""
        self._characters = 0
        self._sizes: ContentCache[int] = ContentCache()
        self.damaged: ContentCache[bool] = ContentCache()
        """Whether what stands inline in a chat is damaged, by the digest of its content."""

    def size_bytes(self, user_id: str, source: str) -> int | None:
        """Return how large the file was that was read there, None where none was; it need not be kept any more."""
        return self._sizes.get(cache_key(user_id, source))

    def get(self, user_id: str, source: str) -> Encoded | str | None:
        """Return what was kept for the user, unless it must be read again."""
        key = cache_key(user_id, source)
        _, seconds, found = self._kept.get(key, (0, -CHECKED_SECONDS, None))
        if found is None or self._clock() - seconds > CHECKED_SECONDS:
            return None
        self._kept.move_to_end(key)
        return found

    def put(self, user_id: str, source: str, found: Encoded | str) -> None:
        """Keep it, in the place of what was kept."""
        key, characters = cache_key(user_id, source), ENTRY_CHARACTERS + len(source)
        if isinstance(found, Encoded):
            characters += len(found.base64) + len(found.text or "")
            self._sizes.put(key, len(found.base64) * 3 // 4)
        self._characters += characters - self._kept.pop(key, (0,))[0]
        self._kept[key] = (characters, self._clock(), found)
        while self._characters > self._max_characters:
            self._characters -= self._kept.popitem(last=False)[1][0]


@dataclass(frozen=True, slots=True)
class MediaLibrary:
    """The attachments of one call. `model` is the catalogue's entry of the model that is asked, None when unknown.

    `saved_for` are the chat and the message with whose files downloads are stored, None where none are.
    """

    files: Files | None
    downloads: Downloads
    encoded: EncodedFiles
    settings: MediaSettings
    model: Model | None
    user_id: str
    saved_for: tuple[str, str] | None = None
    _limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_CONCURRENT))

    async def refusal(self, file_id: str) -> AttachmentUnavailable | None:
        """Return why the model is not given a file of the host as it is, None when it is."""
        source = host_file_path(file_id)
        encoded = (await self._read_all([source]))[source]
        if isinstance(encoded, AttachmentUnavailable):
            return encoded
        if self._form_of(encoded):
            return None
        return AttachmentUnavailable(_kind_line(encoded, self.model))

    async def fill(self, items: Sequence[Item], turns: Sequence[int]) -> FilledItems:
        """Replace references by content, and what the model does not read by a note; never raises."""
        attachments = await apart(items, partial(find_attachments, items, turns))
        if not attachments:
            return FilledItems(items)
        choose_with = partial(choose, attachments, turns[-1], self.settings, self.model)
        first = await apart(items, partial(choose_with, {}))
        sources = {each.source for each in first.sent if each.is_reference}
        unknown = {source for source in sources if self.encoded.size_bytes(self.user_id, source) is None}
        read = await self._read_all(unknown)
        sizes_bytes = {each.source: len(each.source) * 3 // 4 for each in attachments}  # with its padding
        sizes_bytes |= {source: self.encoded.size_bytes(self.user_id, source) or 0 for source in sources}
        chosen = await apart(items, partial(choose_with, sizes_bytes))
        shown = {each.source for each in chosen.sent if each.is_reference}
        read = {**read, **await self._read_all(shown - unknown)}
        return await asyncio.to_thread(self._filled, items, chosen, read)

    def _filled(self, items: Sequence[Item], chosen: Choice, read: Found) -> FilledItems:
        """Put what was read, and the notes, in place. Blocks: a base64 text may have many megabytes."""
        unread = Counter(f"attachments_unread_{each.kind}" for each in chosen.unread)
        lines = {name: notice(name, count=count) for name, count in unread.items()}
        for omission, count in Counter(chosen.omitted.values()).items():
            line = self._limit_notice(_OMITTED[omission][0], count)
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
                line = notice(error.line, name=name, reason=reason)
                lines[line] = line
            if replacement is not None:
                replaced[each] = replacement
        return FilledItems(replace_parts(items, replaced), lines)

    def _limit_notice(self, name: str, count: int = 0) -> str:
        """A line about a limit of a whole request."""
        megabytes = self.settings.max_total_bytes / _MEGABYTE_BYTES
        return notice(name, count=count, limit=self.settings.max_images, megabytes=megabytes)

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
        self._check_size(len(plain) * 3 // 4)
        if attachment.kind == "file":
            return _checked(encode(FileContent(attachment.name, "", decode(plain))))
        head = decode(attachment.source, limit_characters=_INLINE_HEAD_CHARACTERS)
        media_type, digest = media_type_of(head), sha256(plain.encode()).digest()

        def damaged() -> bool:
            return is_damaged(decode(plain), media_type)

        is_broken = self.encoded.damaged.get_or_compute(digest, damaged)
        return _checked(Encoded(attachment.name, media_type, plain, is_damaged=is_broken))

    def _form_of(self, encoded: Encoded) -> Form | None:
        return form_of(encoded.media_type, self.model, parses_pdf=self.settings.parses_pdf)

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self.settings.max_bytes:
            limit = self.settings.max_bytes / _MEGABYTE_BYTES
            raise AttachmentUnavailable(notice("attachment_too_large", megabytes=limit))

    async def _read_all(self, sources: Collection[str]) -> Found:
        """Read what the sources name, each once, a few at a time; what cannot be had is the error that says why."""

        async def read(source: str) -> Encoded | AttachmentUnavailable:
            async with self._limit:
                try:
                    return await self._read(source)
                except AttachmentUnavailable as error:
                    _log.warning("an attachment is not sent: %s", error)
                    return error
                except Exception as error:  # noqa: BLE001 - the host's storage may raise anything
                    _log.exception("an attachment is not sent")
                    return AttachmentUnavailable(notice("attachment_unreadable"), detail=repr(error))

        found = await asyncio.gather(*map(read, sources))
        return dict(zip(sources, found, strict=True))

    async def _read(self, source: str) -> Encoded:
        kept = self.encoded.get(self.user_id, source)
        if isinstance(kept, str):
            raise AttachmentUnavailable(kept)
        if kept is None:
            file_id = host_file_id(source)
            file = await self._load(file_id) if file_id else await self._download(source)
            self._check_size(len(file.content))
            kept = await asyncio.to_thread(encode, file)
            self.encoded.put(self.user_id, source, kept)
        return _checked(kept)

    async def _load(self, file_id: str) -> FileContent:
        if self.files is None:
            raise AttachmentUnavailable(notice("attachment_unreadable"))
        return await self.files.read(self.user_id, file_id, max_bytes=self.settings.max_bytes)

    async def _download(self, url: str) -> FileContent:
        """Fetch it once for a saved chat: what it was then is what every later turn and other workers get."""
        chat_id, message_id = self.saved_for or ("", "")
        files, key = self.files if self.saved_for else None, f"{chat_id}/{url}"
        if files is not None:
            with suppress(AttachmentUnavailable):
                return await self._load(files.id_of(self.user_id, key))
        try:
            file = await self.downloads.fetch(url)
        except AttachmentUnavailable as error:  # a dead address must not hold up each turn of its chat
            self.encoded.put(self.user_id, url, error.user_message)
            raise
        if files is not None:
            try:
                await files.store(self.user_id, chat_id, message_id, file, key=key)
            except AttachmentUnavailable as error:
                _log.warning("a download is not stored: %s", error)
        return file


def encode(file: FileContent) -> Encoded:
    """Encode a file for a request. Its type follows from its content, whatever it is called. Blocks."""
    media_type = media_type_of(file.content)
    encoding = "utf-16" if file.content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    text = clean_text(file.content.decode(encoding, "replace")) if is_text(media_type) else None
    windows = []
    for start in range(0, len(file.content), _WINDOW_BYTES):
        windows.append(b64encode(file.content[start : start + _WINDOW_BYTES]))
        time.sleep(_PAUSE_SECONDS)
    return Encoded(
        file.name,
        media_type,
        b"".join(windows).decode("ascii"),
        text,
        is_damaged(file.content, media_type),
        is_binary(file.content, media_type),
    )


def _checked(encoded: Encoded) -> Encoded:
    """Return what can be opened. Raises AttachmentUnavailable."""
    if encoded.is_damaged:
        raise AttachmentDamaged(notice("file_damaged"), detail=encoded.media_type)
    if encoded.is_binary:
        raise AttachmentBinary(notice("attachment_binary"))
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
