"""Whether a file that begins as it should can be opened at all. Blocks; called once for a file, beside the event loop.

Only what no reader opens counts as damaged: a PDF without an end, an archive without a directory, an image whose parts
do not reach its end. Nothing is mended, and no image is drawn, which would take many times its size in memory.

Sources: the PNG specification (chunks), ITU T.81 (JPEG's markers), GIF89a, Google's "WebP Container Specification".
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping
from typing import Final
from zlib import crc32

from .kinds import UNKNOWN

_PDF_END_BYTES: Final = 1024
"""A reader looks for the end mark in so many bytes; behind it others may stand."""
_BINARY_BYTES: Final = 64 * 1024
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0"
"""Begins files of old office programs, of which the host reads more than is known here."""
_PDF_END: Final = re.compile(rb"startxref\s+(\d+)\s+%%EOF")
_JPEG_SEGMENT: Final = re.compile(rb"\xff+([\x01-\xfe])(..)", re.DOTALL)
"""A marker, which bytes of 255 may precede, and the length of what follows."""


def is_damaged(content: bytes, media_type: str) -> bool:
    """Return whether no reader of this media type opens the content."""
    if content.startswith(b"PK\3\4"):
        return not zipfile.is_zipfile(io.BytesIO(content))
    check = _CHECKS.get(media_type)
    return check is not None and check(content)


def is_binary(content: bytes, media_type: str) -> bool:
    """Return whether the content is neither of a kind that is known here, nor text in any encoding."""
    is_known = media_type != UNKNOWN or content.startswith(_OLD_OFFICE)
    return not is_known and b"\0" in content[:_BINARY_BYTES]


def _is_damaged_pdf(content: bytes) -> bool:
    """Whether it was cut off: no mark of its end is there, or only that of the first part of a file for the web."""
    if b"%%EOF" in content[-_PDF_END_BYTES:]:
        return False
    ends = _PDF_END.findall(content)
    return not ends or not ends[-1].strip(b"0")


def _is_damaged_png(content: bytes) -> bool:
    """Whether a chunk before the last one is cut off, or its check sum is wrong."""
    at, name = 8, b""
    while name != b"IEND":
        length, name = int.from_bytes(content[at : at + 4]), content[at + 4 : at + 8]
        end = at + 8 + length
        if int.from_bytes(content[end : end + 4]) != crc32(memoryview(content)[at + 4 : end]):
            return True
        at = end + 4
        if at > len(content):
            return True
    return False


def _is_damaged_jpeg(content: bytes) -> bool:
    """Whether there is no picture, or no end of one; the end of a small one in a header does not count."""
    at = 2
    while (marker := _JPEG_SEGMENT.match(content, at)) and marker[1] != b"\xda":
        at = marker.start(2) + int.from_bytes(marker[2])
    return not marker or content.find(b"\xff\xd9", at) < 0


def _is_damaged_gif(content: bytes) -> bool:
    """Whether its first picture is cut off; readers do without the others."""
    at = 13 + _gif_colors(content[10:11])
    while content[at : at + 1] == b"!":
        at = _behind_blocks(content, at + 2)
    if content[at : at + 1] != b",":
        return True
    return _behind_blocks(content, at + 11 + _gif_colors(content[at + 9 : at + 10])) > len(content)


def _gif_colors(flags: bytes) -> int:
    """The bytes of a table of colours, by the flags before it."""
    found = int.from_bytes(flags)
    return 3 << (found & 7) + 1 if found & 0x80 else 0


def _behind_blocks(content: bytes, at: int) -> int:
    """Where the blocks of a GIF's part end, each with its length before it; behind the end where they do not."""
    while at < len(content):
        length = content[at]
        at += 1 + length
        if not length:
            return at
    return len(content) + 1


def _is_damaged_webp(content: bytes) -> bool:
    """Whether it is shorter than it says, by more than the byte that fills it up."""
    return len(content) < 7 + int.from_bytes(content[4:8], "little")


_CHECKS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "application/pdf": _is_damaged_pdf,
    "image/png": _is_damaged_png,
    "image/jpeg": _is_damaged_jpeg,
    "image/gif": _is_damaged_gif,
    "image/webp": _is_damaged_webp,
}
