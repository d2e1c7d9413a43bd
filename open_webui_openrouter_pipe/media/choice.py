"""Which attachments a request carries, and in which form: by the model's abilities and the settings.

Pure. The same items, model and settings give the same bytes, so what stays is the same from turn to turn. What does
not stay becomes a text in its place that says what it was, since a model must not guess at what it cannot see. Owns
those texts, and which kinds of documents which models read.

Sources: OpenRouter, "Multimodal" and "PDF inputs" (any model reads a PDF through the file parser); OpenAI, "File
inputs" (office documents); the wire's `input_audio` (mp3 and wav alone).
"""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias, cast

from ..conversation.media import family_of, image_size
from ..history.turn import assistant_message
from ..ports import Model
from ..responses.items import (
    PART_KINDS,
    AudioData,
    InputPart,
    InputText,
    Item,
    Modality,
    is_message,
    is_picture,
    picture_address,
    with_picture,
)
from ..responses.values import (
    HOST_FILES,
    as_object,
    as_text,
    base64_of,
    clean_text,
    decode,
    host_file_id,
    host_file_path,
    is_web_address,
    reference_of,
)

Documents = Literal["auto", "native", "host"]
PdfEngine = Literal["auto", "native", "cloudflare-ai", "mistral-ocr"]
ImageSelection = Literal["conversation", "user_turn_only", "user_then_assistant"]
Form = Literal["image", "document", "text", "audio", "video"]
Omission = Literal["unselected", "too_many", "too_many_at_once", "too_large", "too_large_at_once"]
"""Why what the model could read is not sent: the setting does not select it; later ones have taken its place, or others
of the same message, because of their number or their size together."""
_Omissions: TypeAlias = tuple[Omission, Omission]

PDF: Final = "application/pdf"
_AUDIO_FORMATS: Final = {
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    **{f"audio/{name}": name for name in ("wav", "aac", "flac", "ogg", "webm")},
}
"""The wire's names of recordings; chats take mp3 and wav alone, models that transcribe the others, too."""
_OFFICE: Final = ("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")
_MODALITIES: Final = {name: kind.modality for kind in PART_KINDS.values() for name in kind.media_types}
_NAMES: Final[Mapping[str, str]] = {PDF: "document.pdf", "text/html": "page.html", "text/plain": "text.txt"}
"""What nobody has named."""
_TEXT_TYPES: Final = frozenset({"application/json", "application/xml", "image/svg+xml"})
_URL_CHARACTERS: Final = 200
_NAME_CHARACTERS: Final = 120
_NOT_IN_NAMES: Final = re.compile(r'["<>\s]+')
"""What would end a frame, a line or an attribute: a name is the user's text, or a tool's."""
PLURALS: Final = {kind.modality: kind.plural for kind in PART_KINDS.values()}


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """What an administrator allows: at most `max_images` pictures in a request (0: any number), and so on.

    `max_bytes` is the size of the largest file that is sent, `max_total_bytes` that of all together, and `memory_bytes`
    what a worker may hold of files; `parses_pdf` says whether OpenRouter's parser may read PDFs for models that read no
    files.
    """

    documents: Documents = "auto"
    parses_pdf: bool = True
    max_images: int = 20
    image_selection: ImageSelection = "conversation"
    max_bytes: int = 20 * 1024 * 1024
    max_total_bytes: int = 50 * 1024 * 1024
    memory_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Attachment:
    """A part of an item that is no text: the indexes of both, its kind, and the item's turn.

    `part` is None where the item itself is a picture. `from_user` says that a user sent it; other pictures come from
    tools and models. `source` is a data URL, a web address, a path of the host, or base64 audio.
    """

    item: int
    part: int | None
    kind: Modality
    turn: int
    from_user: bool = field(compare=False)
    source: str = field(compare=False)
    name: str = field(compare=False)

    @property
    def is_reference(self) -> bool:
        """Whether it names a file of the host, or an address; anything else is the content itself."""
        return self.source.startswith((HOST_FILES, "https://", "http://"))


@dataclass(frozen=True, slots=True)
class Encoded:
    """A file's content as it is sent, as a data URL, with its kind by content; `size_bytes` is the file's.

    What `is_damaged` cannot be opened, and what `is_binary` nobody can read.
    """

    name: str
    media_type: str
    data_url: str = field(repr=False)
    size_bytes: int
    is_damaged: bool = False
    is_binary: bool = False

    @property
    def text(self) -> str:
        """The text of a text file."""
        content = decode(self.data_url)
        encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
        return clean_text(content.decode(encoding, "replace"))


Replacement: TypeAlias = InputPart | Item


def find_attachments(items: Sequence[Item], turns: Sequence[int]) -> list[Attachment]:
    """Return the attachments of the items in their order; `turns` are the numbers of the items' turns."""
    found = []
    asked: set[int] = set()  # turns whose user message has passed
    for index, (item, turn) in enumerate(zip(items, turns, strict=True)):
        is_user = is_message(item) and item["role"] == "user"
        for part, kind, source, name in _attachments_of(item):
            found.append(Attachment(index, part, kind, turn, is_user and turn not in asked, source, name))
        if is_user:
            asked.add(turn)
    return found


def _attachments_of(item: Item) -> Iterator[tuple[int | None, Modality, str, str]]:
    fields = cast("Mapping[str, Any]", item)
    if is_message(item) and item["role"] == "assistant":
        return
    if is_picture(item):
        source = picture_address(item)
        if source and not is_web_address(source):  # a provider's own address goes back to it
            yield None, "image", source, ""
        return
    parts = fields.get(_parts_key(item))
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        if not isinstance(part, dict) or (kind := PART_KINDS.get(as_text(part.get("type")))) is None:
            continue
        holder = as_object(part.get("input_audio", part))
        source = next(filter(None, map(holder.get, kind.source)), "")
        file_id = as_text(part.get("file_id"))
        source = host_file_path(file_id) if file_id else as_text(source)
        yield index, kind.modality, source, as_text(part.get("filename"))


# --- which stay


@dataclass(frozen=True, slots=True)
class Choice:
    """What is sent, what the model does not read, and what is omitted although it does."""

    sent: Sequence[Attachment]
    unread: Sequence[Attachment]
    omitted: Mapping[Attachment, Omission]


def choose(
    attachments: Sequence[Attachment],
    latest_turn: int,
    settings: MediaSettings,
    model: Model | None,
    sizes_bytes: Mapping[str, int],
) -> Choice:
    """Divide the attachments of a chat; a file may be a PDF or a text, which every model can be given.

    `sizes_bytes` are by source, of those that can be had: what is too large together is omitted.
    """
    readable = [each for each in attachments if each.kind == "file" or reads(model, each.kind)]
    images = [each for each in readable if each.kind == "image"]
    selected = _selected_images(images, latest_turn, settings.image_selection)
    omitted: dict[Attachment, Omission] = dict.fromkeys(images, "unselected")
    for each in selected:
        del omitted[each]
    if limit := settings.max_images:
        omitted |= _displaced(selected, lambda _: 1, limit, ("too_many", "too_many_at_once"))
    sent = [each for each in readable if each not in omitted]
    omissions: _Omissions = ("too_large", "too_large_at_once")
    omitted |= _displaced(
        sent, lambda each: sizes_bytes.get(each.source, 0), settings.max_total_bytes, omissions
    )
    unread = [each for each in attachments if each.kind != "file" and not reads(model, each.kind)]
    return Choice([each for each in sent if each not in omitted], unread, omitted)


def _displaced(
    attachments: Sequence[Attachment], weigh: Callable[[Attachment], int], limit: int, omissions: _Omissions
) -> dict[Attachment, Omission]:
    """Return what is displaced where a request may have no more than the limit, by later items or others of its own.

    Replayed item by item from the first one on: as soon as one goes beyond the limit, the oldest go until half of it is
    left, and they stay away. So a request begins like the one before until the limit is reached again, and the
    provider's cache holds in between. Of the newest item no more goes than must.
    """
    shown: list[Attachment] = []
    displaced: dict[Attachment, Omission] = {}
    total = 0
    for item, group in groupby(attachments, key=lambda each: each.item):
        added = [*group]
        shown += added
        total += sum(map(weigh, added))
        if total <= limit:
            continue
        for each in shown:
            at_once = each.item == item
            if weigh(each) and total > (limit if at_once else limit // 2):
                displaced[each] = omissions[at_once]
                total -= weigh(each)
        shown = [each for each in shown if each not in displaced]
    return displaced


def _selected_images(
    images: Sequence[Attachment], latest_turn: int, selection: ImageSelection
) -> Sequence[Attachment]:
    if selection == "conversation":
        return images
    sent = [each for each in images if each.turn == latest_turn]
    if selection == "user_turn_only" or any(each.from_user for each in sent):
        return sent
    answers = [each for each in images if not each.from_user]
    newest = max((each.turn for each in answers), default=None)
    return [each for each in answers if each.turn == newest]


def reads(model: Model | None, kind: Modality) -> bool:
    """Return whether a model takes this kind of input; one of which nothing is known is taken to."""
    return model is None or model.reads(kind)


def form_of(media_type: str, model: Model | None, *, parses_pdf: bool = True) -> Form | None:
    """Return the form in which a model is given a file of this type, None when it cannot read it."""
    takes_files = reads(model, "file")
    if is_text(media_type):
        return "document" if takes_files and model is not None else "text"
    if media_type == PDF:
        return "document" if takes_files or parses_pdf else None
    if media_type.startswith(_OFFICE):
        return "document" if takes_files and model is not None and family_of(model.id) == "openai" else None
    form = _MODALITIES.get(media_type)
    if model and model.endpoint == "transcriptions" and media_type in _AUDIO_FORMATS:
        form = "audio"
    return form if form and form != "file" and reads(model, form) else None


def is_text(media_type: str) -> bool:
    """Return whether a file of this type can be read as text."""
    return media_type.startswith("text/") or media_type in _TEXT_TYPES


def replacement_for(attachment: Attachment, item: Item, encoded: Encoded, form: Form) -> Replacement | None:
    """Return what carries the content in the place of an attachment of this item; None where it is there already."""
    if attachment.part is None:
        return with_picture(item, encoded.data_url) if attachment.is_reference else None
    part = cast("Mapping[str, Any]", item)[_parts_key(item)][attachment.part]
    name = attachment.name or encoded.name or _NAMES.get(encoded.media_type, "document")
    replacement: InputPart
    match form:
        case "image":
            detail: Any = part.get("detail") or "auto"
            replacement = {"type": "input_image", "detail": detail, "image_url": encoded.data_url}
        case "document":
            replacement = {"type": "input_file", "filename": name, "file_data": encoded.data_url}
        case "text":
            text = f'<document name="{plain_name(name)}">\n{encoded.text}\n</document>'
            replacement = {"type": "input_text", "text": text}
        case "audio":
            audio: AudioData = {
                "data": base64_of(encoded.data_url),
                "format": _AUDIO_FORMATS[encoded.media_type],
            }
            replacement = {"type": "input_audio", "input_audio": audio}
        case _:
            kind, fields = next(each for each in PART_KINDS.items() if each[1].modality == form)
            replacement = cast("InputPart", {"type": kind, fields.source[0]: encoded.data_url})
    return None if replacement == part else replacement


def plain_name(name: str) -> str:
    """Return a file's name as it may stand in a text: on one line, bounded, without what would end a frame."""
    return _NOT_IN_NAMES.sub(" ", name)[:_NAME_CHARACTERS].strip()


def note(attachment: Attachment, fate: str) -> InputText:
    """Return the text in place of an attachment: what it is, and what became of it."""
    return {"type": "input_text", "text": f"[{_described(attachment)}{fate}]"}


def name_references(items: Sequence[Item]) -> list[Item]:
    """Return the items with the name of each file of the host in its place, where there is no host to read it."""
    attachments = find_attachments(items, [0] * len(items))
    return replace_parts(items, {each: note(each, "") for each in attachments if host_file_id(each.source)})


def _described(attachment: Attachment) -> str:
    """Name an attachment: its kind, its name or reference, and what its source says of its size."""
    details, source = [plain_name(attachment.name)], attachment.source
    if attachment.is_reference:
        file_id = host_file_id(source)
        details.append(f"file {file_id}" if file_id else source[:_URL_CHARACTERS])
    else:
        if size := image_size(source):
            details.append(f"{size[0]} x {size[1]} pixels")
        details.append(f"{max(1, len(source) * 3 // 4096):,} KB")
        details.append(f"reference {reference_of(source)}")
    return f"{attachment.kind.capitalize()}: {', '.join(filter(None, details))}"


def replace_parts(items: Sequence[Item], replaced: Mapping[Attachment, Replacement]) -> list[Item]:
    """Return the items with these in the place of their attachments."""
    changed: dict[int, dict[int | None, Replacement]] = {}
    for attachment, replacement in replaced.items():
        changed.setdefault(attachment.item, {})[attachment.part] = replacement
    result = [*items]
    for index, parts in changed.items():
        fields = cast("Mapping[str, Any]", items[index])
        if None not in parts:
            key = _parts_key(items[index])
            kept = [parts.get(number, part) for number, part in enumerate(fields[key])]
            result[index] = cast("Item", {**fields, key: kept})
        elif (drawn := cast("Mapping[str, Any]", parts[None]))["type"] != "input_text":
            result[index] = cast("Item", drawn)
        else:
            result[index] = assistant_message(drawn["text"], key=as_text(fields.get("id")))
    return result


def _parts_key(item: Item) -> str:
    """Which field holds the item's parts: that of a tool's output where it has one, whatever the tool."""
    return "output" if isinstance(item.get("output"), list) else "content"
