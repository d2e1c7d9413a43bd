"""Whether a file that begins as it should can be opened at all. Blocks; called once for a file, beside the event loop.

Only what no reader opens counts as damaged: a PDF without an end, an archive without a directory, an image that cannot
be drawn. Nothing is mended. Pillow and pypdf, which the host brings along, read the files; without them less is found.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final

from ..conversation.media import count_pdf_pages
from .kinds import UNKNOWN

_PDF_END_BYTES: Final = 1024
"""A reader looks for the end mark in so many bytes; behind it others may stand."""
_MAX_DRAWN_PIXELS: Final = 40_000_000
"""Larger images are taken to be sound: what they take in memory would be more than their worth."""
_BINARY_BYTES: Final = 64 * 1024
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0"
"""Begins files of old office programs, of which the host reads more than is known here."""


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
    """Whether it was cut off: the mark of its end is not there, nor can it be read without that."""
    if b"%%EOF" in content[-_PDF_END_BYTES:]:
        return False
    has_reader = find_spec("pypdf") is not None
    return b"%%EOF" not in content or (has_reader and count_pdf_pages(content) is None)


def _is_damaged_image(content: bytes) -> bool:
    try:
        from PIL import Image
    except ImportError:
        return False
    try:
        with Image.open(io.BytesIO(content)) as image:
            if image.format == "PNG":
                image.verify()  # by the check sums of its chunks, without drawing it
            elif image.width * image.height <= _MAX_DRAWN_PIXELS:
                image.draft("RGB", (1, 1))  # as small as a JPEG allows, for speed
                image.load()
    except Image.DecompressionBombError:  # larger still: Pillow does not even open it
        return False
    except Exception:  # noqa: BLE001 - whatever a hostile file makes it raise
        return True
    return False


_CHECKS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "application/pdf": _is_damaged_pdf,
    "image/png": _is_damaged_image,
    "image/jpeg": _is_damaged_image,
    "image/gif": _is_damaged_image,
    "image/webp": _is_damaged_image,
}
