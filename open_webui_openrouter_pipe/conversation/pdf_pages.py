"""The number of a PDF's pages, out of its structure: the count of the page tree's root, compressed or not.

Owns the lookup of the few objects that lead there. It reads no page, decrypts nothing, and inflates a bounded amount
only; where the structure is broken or encrypted it falls back to what else the file says.

Source: ISO 32000-1, 7.5.5 (trailer), 7.5.7 (object streams), 7.7.2 and 7.7.3 (catalog and page tree), annex F
(linearized files).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

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
