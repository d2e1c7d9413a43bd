"""What images, documents, audio and video cost in tokens, by each vendor's published rule.

Base64 is never counted as text. What cannot be known (the size behind a link, or inside a damaged file) is assumed to
be an ordinary case, and so is what no such file can have. Pillow, which the host brings along, reads images; without it
nothing is known of most.

Sources: OpenAI "Images and vision" (tiles of 512), Anthropic "Vision" (pixels / 750), Google "Understand
and count tokens" (258 a tile or page, 32 a second of audio, 263 a second of video), OpenAI and Anthropic on
PDF input.
"""

from __future__ import annotations

import io
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from itertools import islice
from typing import Any, Literal

from ..responses.items import PART_KINDS, Item
from ..responses.values import as_list, as_object, as_text, decode, once

Family = Literal["openai", "anthropic", "google", "other"]

ASSUMED_PIXELS = (1024, 1024)
HEADER_CHARACTERS = 256 * 1024
MAX_SIDE_PIXELS = 65_535
MAX_PIXELS = 178_956_970
"""More than any image has that a provider reads; Pillow opens no larger one either."""
ASSUMED_PAGES = 10
ASSUMED_PAGE_BYTES = 1000
"""Of a file that does not say how many pages it has; a page with text on it takes more."""
MAX_PAGES = 10_000
"""More than any provider reads."""
_OBJECTS = re.compile(rb"/Type\s*/ObjStm\b[^>]{0,400}>>\s*stream\r?\n")
_MAX_OBJECT_STREAMS, _OBJECTS_BYTES = 64, 256 * 1024
"""How many streams of objects are looked through, and how much of each, packed and inflated."""
_INNER = rb"(?:[^<>]++|<[0-9A-Fa-f\s]*+>%s)*+"
_DICTIONARY = re.compile(
    rb"<<(%s)>>" % reduce(lambda inner, _: _INNER % rb"|<<%s>>" % inner, "12", _INNER % b"")
)
"""One in which others are nested no deeper than resources in a page tree."""
_PAGES = re.compile(rb"/Type\s*/Pages\b")
_COUNT = re.compile(rb"/Count\s+(\d{1,5})\s*(?:/|\Z)")
PDF_PAGE_TOKENS: Mapping[Family, int] = {"openai": 1500, "anthropic": 2250, "google": 258, "other": 2250}
AUDIO_TOKENS_PER_SECOND = 32
ASSUMED_AUDIO_BYTES_PER_SECOND = 16_000
MIN_AUDIO_BYTES_PER_SECOND = 1_000
"""Less than any recording has; a header that says so is damaged."""
VIDEO_TOKENS_PER_SECOND = 295
ASSUMED_VIDEO_BYTES_PER_SECOND = 125_000
ASSUMED_VIDEO_SECONDS = 60

_KINDS = "|".join(kind.modality.capitalize() for kind in PART_KINDS.values())
NOTE = re.compile(rf"\[(?:{_KINDS}): [^\n]{{0,400}} (?:no longer shown|not sent: [^\n]{{1,400}})\]")
"""A text that stands for an attachment that is not sent, and counts as one: it may come and go."""


def image_size(url: str) -> tuple[int, int] | None:
    """Return the width and height, in pixels, of an image in a data URL; None where they cannot be read."""
    data = decode(url, limit_characters=HEADER_CHARACTERS)
    size = _webp_size(data) if data.startswith(b"RIFF") else _size(data)
    if size and 0 < min(size) <= max(size) <= MAX_SIDE_PIXELS and math.prod(size) <= MAX_PIXELS:
        return size
    return None


def holds_pdf(items: Iterable[Item]) -> bool:
    """Return whether a message or a tool's output holds a PDF."""
    return any(once(_is_with_pdf, item) for item in items)


def _is_with_pdf(fields: Mapping[str, Any]) -> bool:
    parts = map(as_object, as_list(fields.get("output") or fields.get("content")))
    return any(as_text(part.get("file_data")).startswith("data:application/pdf") for part in parts)


def family_of(model_id: str) -> Family:
    """Return the vendor whose rules apply to an OpenRouter model id."""
    vendor = model_id.lstrip("~").partition("/")[0]
    known: Mapping[str, Family] = {"openai": "openai", "anthropic": "anthropic", "google": "google"}
    return known.get(vendor, "other")


def image_tokens(url: str, detail: str, family: Family) -> int:
    """Return the tokens of an image given by data URL or link; for an unknown vendor the most of any rule."""
    width, height = image_size(url) or ASSUMED_PIXELS
    if family == "other":
        return max(rule(width, height, detail) for rule in _IMAGE_RULES.values())
    return _IMAGE_RULES[family](width, height, detail)


def pdf_tokens(url: str, family: Family) -> int:
    """Return the tokens of a PDF: its pages times what the vendor counts for one."""
    data = decode(url)
    most = 1 + len(data) // ASSUMED_PAGE_BYTES if data else ASSUMED_PAGES
    return (count_pdf_pages(data) or min(ASSUMED_PAGES, most)) * PDF_PAGE_TOKENS[family]


def count_pdf_pages(data: bytes) -> int | None:
    """Return the number of pages of a PDF, of several revisions the most; None when the file does not say.

    Only the root of the page tree is looked for, as it stands there or in a stream of objects, and nothing is followed:
    a library that reads a whole PDF can be made to take any time and memory. Source: ISO 32000-1, 7.5.7 and 7.7.3.
    """
    roots = (
        each[1] for text in _objects(data) for each in _DICTIONARY.finditer(text) if _PAGES.search(each[1])
    )
    counts = (int(found[1]) for root in roots if (found := _COUNT.search(root)))
    return max((count for count in counts if 0 < count <= min(MAX_PAGES, len(data))), default=None)


def _objects(data: bytes) -> Iterator[bytes]:
    """Yield a PDF, and its streams of objects as far as they can be inflated."""
    yield data
    for found in islice(_OBJECTS.finditer(data), _MAX_OBJECT_STREAMS):
        with suppress(zlib.error):
            packed = data[found.end() : found.end() + _OBJECTS_BYTES]
            yield zlib.decompressobj().decompress(packed, _OBJECTS_BYTES)


def embedded_text(part: Mapping[str, Any]) -> str | None:
    """Return the text of a file that a part holds as a data URL of a text type, None for anything else."""
    url = part.get("file_data") or ""
    head = url[:100].partition(",")[0]
    if not re.match(r"data:(text/|application/(json|xml|yaml|x-yaml|javascript))", head):
        return None
    return decode(url).decode("utf-8", "replace")


def audio_tokens(data: str, file_format: str) -> int:
    """Return the tokens of audio in base64; the header of a WAV says how many bytes make a second."""
    header = decode(data, limit_characters=64)
    rate = int.from_bytes(header[28:32], "little") if file_format == "wav" and header[:4] == b"RIFF" else 0
    if rate < MIN_AUDIO_BYTES_PER_SECOND:
        rate = ASSUMED_AUDIO_BYTES_PER_SECOND
    seconds = len(data) * 3 / 4 / rate
    return math.ceil(seconds * AUDIO_TOKENS_PER_SECOND)


def video_tokens(url: str) -> int:
    """Return the tokens of a video, by its size in a data URL or as a minute behind a link."""
    seconds: float = ASSUMED_VIDEO_SECONDS
    if url.startswith("data:"):
        seconds = len(url) * 3 / 4 / ASSUMED_VIDEO_BYTES_PER_SECOND
    return math.ceil(seconds * VIDEO_TOKENS_PER_SECOND)


def _size(data: bytes) -> tuple[int, int] | None:
    try:
        from PIL import Image

        # each other format of its many is one more that a hostile file may choose
        return Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF")).size
    except Exception:  # noqa: BLE001 - whatever a hostile file makes it raise
        return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """Read the header: Pillow needs the whole file."""
    kind = data[12:16]
    if kind == b"VP8 ":
        sizes = (int.from_bytes(data[offset : offset + 2], "little") & 0x3FFF for offset in (26, 28))
        return next(sizes), next(sizes)
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _openai_image_tokens(width: int, height: int, detail: str) -> int:
    """85, and 170 for each tile of 512 after shrinking into 2048 and to a shorter side of 768."""
    if detail == "low":
        return 85
    shrink = min(1.0, 2048 / max(width, height))
    shrink *= min(1.0, 768 / (min(width, height) * shrink))
    return 85 + 170 * math.ceil(width * shrink / 512) * math.ceil(height * shrink / 512)


def _anthropic_image_tokens(width: int, height: int, _detail: str) -> int:
    """Pixels / 750 after shrinking the longer side to 1568; at most about 1,600."""
    shrink = min(1.0, 1568 / max(width, height))
    return min(1600, math.ceil(width * shrink * height * shrink / 750))


def _google_image_tokens(width: int, height: int, _detail: str) -> int:
    """258 for a small image, else for each tile of two thirds of the shorter side (256 to 768)."""
    if max(width, height) <= 384:
        return 258
    tile = min(768, max(256, min(width, height) * 2 // 3))
    return 258 * math.ceil(width / tile) * math.ceil(height / tile)


_IMAGE_RULES: Mapping[str, Callable[[int, int, str], int]] = {
    "openai": _openai_image_tokens,
    "anthropic": _anthropic_image_tokens,
    "google": _google_image_tokens,
}
PART_TOKENS: Mapping[str, Callable[[Mapping[str, Any], Family], int]] = {
    "input_image": lambda part, family: image_tokens(
        part.get("image_url") or "", part.get("detail") or "auto", family
    ),
    "input_file": lambda part, family: pdf_tokens(
        part.get("file_data") or part.get("file_url") or "", family
    ),
    "input_audio": lambda part, _: audio_tokens(
        *(as_text(as_object(part.get("input_audio")).get(name)) for name in ("data", "format"))
    ),
    "input_video": lambda part, _: video_tokens(part.get("video_url") or ""),
}
"""The tokens of a part, by its type."""
