"""What images, documents, audio and video cost in tokens, by each vendor's published rule.

Base64 is never counted as text. What cannot be known (the size behind a link) is assumed to be an ordinary case.

Sources: OpenAI "Images and vision" (tiles of 512), Anthropic "Vision" (pixels / 750), Google "Understand
and count tokens" (258 a tile or page, 32 a second of audio, 263 a second of video), OpenAI and Anthropic on
PDF input.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, cast

from ..responses.items import Item
from ..responses.values import as_list, decode

_MAX_OBJECT_STREAMS = 2000
_MAX_INFLATED_BYTES = 8 * 1024 * 1024
"""Of all object streams of a file together."""
_MAX_INDEX_BYTES = 64 * 1024
_MAX_OBJECT_BYTES = 1024 * 1024
_DICTIONARY_BYTES = 2048
_DEFLATE_SLACK_BYTES = 1024
"""By what deflated data may be longer than what they inflate to."""
_MAX_ROOTS = 4

_REFERENCE = rb"\s{1,8}(\d{1,10})\s{1,8}(\d{1,5})\s{1,8}R"
_ROOT = re.compile(rb"/Root" + _REFERENCE)
_PAGE_TREE = re.compile(rb"/Pages" + _REFERENCE)
_COUNT = re.compile(rb"/Count\s{1,8}(\d{1,7}+)(?!\d|\s{1,8}\d{1,5}\s{1,8}R)")
_PAGE = re.compile(rb"/Type\s{0,8}/Page(?![A-Za-z])")
_LINEARIZED = re.compile(rb"/Linearized\b[^>]{0,200}/N\s{1,8}(\d{1,7})\b")
_FIRST = re.compile(rb"/First\s{1,8}(\d{1,7})\b")


def count_pdf_pages(data: bytes) -> int | None:
    """Return the number of pages of a PDF, of the newest revision; None when the file does not say."""
    streams = tuple(_object_streams(data))
    counted = _root_count(data, streams)
    if counted is None and (linearized := _LINEARIZED.search(data, 0, _DICTIONARY_BYTES)):
        counted = int(linearized[1])
    return counted or _page_objects(data, streams) or None


@dataclass(frozen=True, slots=True)
class _ObjectStream:
    """Objects that are deflated together: where it stands, its data, and the offset of each object by its number."""

    position: int
    start: int
    first: int
    offsets: dict[int, int]


def _root_count(data: bytes, streams: tuple[_ObjectStream, ...]) -> int | None:
    """Follow the newest reference to a catalog that leads to a page tree with a count."""
    position = len(data)
    for _ in range(_MAX_ROOTS):
        position = data.rfind(b"/Root", 0, position)
        if position < 0:
            break
        root = _ROOT.match(data, position)
        catalog = root and _find_object(data, streams, root)
        tree = catalog and _PAGE_TREE.search(catalog)
        pages = tree and _find_object(data, streams, tree)
        count = pages and _COUNT.search(pages)
        if count and 0 < int(count[1]) <= len(data):
            return int(count[1])
    return None


def _find_object(data: bytes, streams: tuple[_ObjectStream, ...], reference: re.Match[bytes]) -> bytes:
    """Return the newest object of this number, which is the one that stands last; empty if there is none."""
    number, generation = int(reference[1]), int(reference[2])
    start = data.rfind(b"%d %d obj" % (number, generation))
    while start > 0 and data[start - 1 : start].isdigit():
        start = data.rfind(b"%d %d obj" % (number, generation), 0, start)
    for stream in streams:
        if number in stream.offsets and stream.position > start:
            begin = stream.first + stream.offsets[number]
            later = [offset for offset in stream.offsets.values() if offset > stream.offsets[number]]
            end = stream.first + min(later) if later else begin + _MAX_OBJECT_BYTES
            return _inflate(data, stream.start, min(end, _MAX_INFLATED_BYTES))[begin:]
    end = data.find(b"endobj", start)
    return data[start:end] if 0 <= start < end else b""


def _object_streams(data: bytes) -> Iterator[_ObjectStream]:
    """The file's object streams, the last one first, as far as they are deflated and not encrypted."""
    position, inflated_bytes = len(data), 0
    for _ in range(_MAX_OBJECT_STREAMS):
        position = data.rfind(b"/ObjStm", 0, position)
        if position < 0 or inflated_bytes > _MAX_INFLATED_BYTES:
            return
        begin = data.rfind(b"obj", max(0, position - _DICTIONARY_BYTES), position)
        end = data.find(b"stream", position, position + _DICTIONARY_BYTES)
        first = _FIRST.search(data, max(begin, 0), max(end, 0))
        if begin < 0 or not first or int(first[1]) > _MAX_INDEX_BYTES:
            continue
        start = end + len("stream") + (2 if data.startswith(b"\r\n", end + len("stream")) else 1)
        index = _inflate(data, start, int(first[1])).split()
        inflated_bytes += int(first[1])
        if all(each.isdigit() for each in index):
            offsets = dict(zip(map(int, index[::2]), map(int, index[1::2]), strict=False))
            yield _ObjectStream(position, start, int(first[1]), offsets)


def _page_objects(data: bytes, streams: tuple[_ObjectStream, ...]) -> int:
    """Count the pages themselves: those that stand plain in the file, and those in its object streams."""
    found, left_bytes = len(_PAGE.findall(data)), _MAX_INFLATED_BYTES
    for stream in streams:
        inflated = _inflate(data, stream.start, left_bytes)
        found += len(_PAGE.findall(inflated))
        left_bytes -= len(inflated)
        if left_bytes <= 0:
            break
    return found


def _inflate(data: bytes, start: int, limit_bytes: int) -> bytes:
    """Inflate at most so many bytes of what begins there; empty if it is not deflated."""
    deflated = memoryview(data)[start : start + limit_bytes + _DEFLATE_SLACK_BYTES]
    try:
        return zlib.decompressobj().decompress(deflated, limit_bytes)
    except zlib.error:
        return b""


Family = Literal["openai", "anthropic", "google", "other"]

ASSUMED_PIXELS = (1024, 1024)
HEADER_CHARACTERS = 256 * 1024
ASSUMED_PAGES = 10
PDF_PAGE_TOKENS = MappingProxyType({"openai": 1500, "anthropic": 2250, "google": 258, "other": 2250})
AUDIO_TOKENS_PER_SECOND = 32
ASSUMED_AUDIO_BYTES_PER_SECOND = 16_000
VIDEO_TOKENS_PER_SECOND = 295
ASSUMED_VIDEO_BYTES_PER_SECOND = 125_000
ASSUMED_VIDEO_SECONDS = 60

_NOTE = re.compile(r"\[(?:Image|File|Audio|Video): [^\n]{0,400} (?:no longer shown|not sent: [^\n]{1,400})\]")
_FRAME_MARKERS = frozenset({*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)})


def image_size(url: str) -> tuple[int, int] | None:
    """Return the width and height, in pixels, of an image in a data URL; None where they cannot be read."""
    return _pixels(decode(url, limit_characters=HEADER_CHARACTERS))


def is_note(text: str) -> bool:
    """Return whether a text stands for an attachment that is not sent, and counts as one: it may come and go."""
    return _NOTE.fullmatch(text) is not None


def holds_pdf(items: Iterable[Item]) -> bool:
    """Return whether a message or a tool's output holds a PDF."""
    for item in items:
        fields = cast("Mapping[str, Any]", item)
        for part in as_list(fields.get("output") or fields.get("content")):
            data = part.get("file_data") if isinstance(part, dict) else None
            if isinstance(data, str) and data.startswith("data:application/pdf"):
                return True
    return False


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
    pages = count_pdf_pages(decode(url)) or ASSUMED_PAGES
    return pages * PDF_PAGE_TOKENS[family]


def embedded_text(url: str) -> str | None:
    """Return the text inside a data URL of a text type, None for anything else."""
    head = url[:100].partition(",")[0]
    if not re.match(r"data:(text/|application/(json|xml|yaml|x-yaml|javascript))", head):
        return None
    return decode(url).decode("utf-8", "replace")


def audio_tokens(data: str, file_format: str) -> int:
    """Return the tokens of audio in base64; the header of a WAV says how many bytes make a second."""
    header = decode(data, limit_characters=64)
    rate = int.from_bytes(header[28:32], "little") if file_format == "wav" and header[:4] == b"RIFF" else 0
    seconds = len(data) * 3 / 4 / (rate or ASSUMED_AUDIO_BYTES_PER_SECOND)
    return math.ceil(seconds * AUDIO_TOKENS_PER_SECOND)


def video_tokens(url: str) -> int:
    """Return the tokens of a video, by its size in a data URL or as a minute behind a link."""
    seconds: float = ASSUMED_VIDEO_SECONDS
    if url.startswith("data:"):
        seconds = len(url) * 3 / 4 / ASSUMED_VIDEO_BYTES_PER_SECOND
    return math.ceil(seconds * VIDEO_TOKENS_PER_SECOND)


def _pixels(data: bytes) -> tuple[int, int] | None:
    """Return width and height from the header of an image; None when they cannot be read."""
    size = None
    if data.startswith(b"\x89PNG"):
        size = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    elif data.startswith(b"GIF8"):
        size = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg_pixels(data)
    elif data.startswith(b"RIFF"):
        size = _webp_pixels(data)
    return size if size and min(size) > 0 else None


def _jpeg_pixels(data: bytes) -> tuple[int, int] | None:
    offset = 2
    while offset + 9 < len(data) and data[offset] == 0xFF:
        if data[offset + 1] in _FRAME_MARKERS:
            height, width = data[offset + 5 : offset + 7], data[offset + 7 : offset + 9]
            return int.from_bytes(width, "big"), int.from_bytes(height, "big")
        offset += 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
    return None


def _webp_pixels(data: bytes) -> tuple[int, int] | None:
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


_IMAGE_RULES: Mapping[str, Callable[[int, int, str], int]] = MappingProxyType(
    {"openai": _openai_image_tokens, "anthropic": _anthropic_image_tokens, "google": _google_image_tokens}
)
