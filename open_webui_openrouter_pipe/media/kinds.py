"""The media type of a file by its content, whatever its name or its sender says, and whether it can be opened at all.

Owns the signatures of what models read or people attach. It never judges what may be sent. SVG and HTML, which can run
scripts, are recognized behind all that may stand before their first tag.

Only what no reader opens counts as damaged: a PDF without an end, an archive without a directory, an image whose parts
do not reach its end. That is looked for once in each file, which blocks. Nothing is mended, and no image is drawn,
which would take many times its size in memory.

Sources: the WHATWG MIME Sniffing Standard (images, audio, HTML's first tags), RFC 9559 (Matroska), ISO 14496-12 (the
box `ftyp`), PKWARE's APPNOTE (ZIP), ECMA-376 part 2 and OpenDocument part 2 (office packages), [MS-CFB] (old office),
ISO 11172-3 (MP3), the PNG specification (chunks), ITU T.81 (JPEG's markers), GIF89a, Google's "WebP Container
Specification".
"""

from __future__ import annotations

import io
import re
import zipfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from zlib import crc32

UNKNOWN: Final = "application/octet-stream"

_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."
_MAX_ZIP_ENTRIES = 2000
_HEADER_BYTES = 64 * 1024
"""As far as the codecs of a recording, and control characters in a text, are looked for."""
_MARKUP_CHARACTERS = 1024 * 1024
"""As far as the first tag is looked for."""
_PDF_HEADER_BYTES = 1024
"""A PDF may begin, and end, with so many bytes that are none of it."""

_BINARY_BYTES: Final = 64 * 1024
_COMPOUND: Final = b"\xd0\xcf\x11\xe0"
"""Begins files of old office programs, of which the host reads more than is known here."""
_PDF_END: Final = re.compile(rb"startxref\s+(\d+)\s+%%EOF")
_JPEG_SEGMENT: Final = re.compile(rb"\xff+([\x01-\xfe])(..)", re.DOTALL)
"""A marker, which bytes of 255 may precede, and the length of what follows."""

_SIGNATURES: Final = tuple(
    (re.compile(signature, re.DOTALL), media_type)
    for signature, media_type in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF.{4}WEBP", "image/webp"),
        (rb"II\*\0|MM\0\*", "image/tiff"),
        (rb"%PDF-", "application/pdf"),
        (rb"ID3[\x02-\x04]", "audio/mpeg"),
        (rb"RIFF.{4}WAVE", "audio/wav"),
        (rb"FORM.{4}AIF[FC]", "audio/aiff"),
        (rb"fLaC[\0\x80]", "audio/flac"),
        (rb"OggS\0.{0,500}\x80theora", "video/ogg"),
        (rb"OggS\0", "audio/ogg"),
        (rb"\x00\x00\x01[\xb3\xba]", "video/mpeg"),
        (rb"RIFF.{4}AVI ", "video/x-msvideo"),
        (rb"\x1f\x8b\x08", "application/gzip"),
        (rb"\{\\rtf", "application/rtf"),
        # MP4 and its relatives by their brand, and QuickTime, which may have none. They begin with the length of a box:
        # a letter would be more than its first byte.
        (rb"[\x00-\x08].{3}ftypM4[AB]", "audio/mp4"),
        (rb"[\x00-\x08].{3}(?:ftypqt  |moov|mdat|wide)", "video/quicktime"),
        (rb"[\x00-\x08].{3}ftyp3g", "video/3gpp"),
        (rb"[\x00-\x08].{3}ftypavi[fs]", "image/avif"),
        (rb"[\x00-\x08].{3}ftyp(?:he[iv]|mif1)", "image/heic"),
        (rb"[\x00-\x08].{3}ftyp", "video/mp4"),
    )
)
_PACKAGES: Final = (
    (b"word/", f"{_OFFICE}wordprocessingml.document"),
    (b"xl/", f"{_OFFICE}spreadsheetml.sheet"),
    (b"ppt/", f"{_OFFICE}presentationml.presentation"),
)
_OLD_OFFICE: Final = (
    ("WordDocument", "application/msword"),
    ("PowerPoint Document", "application/vnd.ms-powerpoint"),
    ("Workbook", "application/vnd.ms-excel"),
    ("Book", "application/vnd.ms-excel"),
)
_HTML_TAGS = "html|head|body|script|iframe|title|style|table|font|div|h1|br|a|b|p"
"""The first tags by which the standard knows HTML."""

_BEFORE_XML_ROOT = re.compile(
    r"(?:\s|<!--.*?-->|<\?.*?\?>|<!doctype\b(?!\s+html)[^>\[]*+(?:\[.*?\]\s*+)?>)*+",
    re.DOTALL | re.IGNORECASE,
)
"""What may stand before the first tag as XML reads it; below, as HTML does."""
_BEFORE_HTML_ROOT = re.compile(
    r"(?:\s|<!--(?:-?>|.*?--!?>)|<(?!!--|!doctype\s+html\b)[!?/][^>]*+>)*+", re.DOTALL | re.IGNORECASE
)
_XML = re.compile(r"\s*+<\?xml\b", re.IGNORECASE)
_SVG = re.compile(r"<(?:[\w.-]{1,64}:)?svg[\s/>]", re.IGNORECASE)
_HTML = re.compile(rf"<!doctype\s+html\b|<(?:{_HTML_TAGS})[\s/>]", re.IGNORECASE)
_VIDEO_CODEC = re.compile(rb"V_(?:VP|AV1|MPEG|THEORA)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


KIND_LINES: Final = (
    (f"{_OFFICE}wordprocessingml", "kind_word"),
    ("application/msword", "kind_word"),
    (f"{_OFFICE}spreadsheetml", "kind_excel"),
    ("application/vnd.ms-excel", "kind_excel"),
    (f"{_OFFICE}presentationml", "kind_powerpoint"),
    ("application/vnd.ms-powerpoint", "kind_powerpoint"),
    ("application/pdf", "kind_pdf"),
    ("application/zip", "kind_archive"),
    ("application/gzip", "kind_archive"),
    ("", "kind_other"),
)
"""How people call files by the beginning of their media type, the first that fits: others by their suffix."""


def media_type_of(content: bytes) -> str:
    """Return the media type, in lower case and without parameters; `UNKNOWN` for what nothing here recognizes.

    The time grows with the length alone.
    """
    for signature, media_type in _SIGNATURES:
        if signature.match(content):
            return media_type
    for begin, recognize in _CONTAINERS:
        if content.startswith(begin):
            return recognize(content)
    if found := _audio_frames(content) or _text(content):
        return found
    # Readers accept a PDF behind other bytes.
    has_header = b"%PDF-" in content[:_PDF_HEADER_BYTES]
    is_pdf = has_header and b"%%EOF" in content[-_PDF_HEADER_BYTES:]
    return "application/pdf" if is_pdf else UNKNOWN


def _matroska(content: bytes) -> str:
    """WebM or Matroska; without a video codec it is a recording, as browsers make them."""
    head = content[:_HEADER_BYTES]
    kind = "webm" if b"webm" in head[:64] else "x-matroska"
    is_audio = b"A_" in head and not _VIDEO_CODEC.search(head)
    return f"audio/{kind}" if is_audio else f"video/{kind}"


def _zip(content: bytes) -> str:
    """An office document by its parts, or an archive."""
    if content[30:38] == b"mimetype" and content.startswith(_OPEN_DOCUMENT, 38):
        kind = re.match(rb"text|spreadsheet|presentation", content[38 + len(_OPEN_DOCUMENT) :][:20])
        return (_OPEN_DOCUMENT + kind[0]).decode() if kind else UNKNOWN
    names = set(_zip_names(content))
    if b"[Content_Types].xml" in names:
        for folder, media_type in _PACKAGES:
            if any(name.startswith(folder) for name in names):
                return media_type
    return "application/zip"


def _zip_names(content: bytes) -> Iterator[bytes]:
    """The first names of an archive's directory, of which the record at its end knows the offset."""
    end = content.rfind(b"PK\5\6")
    offset = int.from_bytes(content[end + 16 : end + 20], "little") if end >= 0 else len(content)
    for _ in range(_MAX_ZIP_ENTRIES):
        header = content[offset : offset + 46]
        if not header.startswith(b"PK\1\2") or len(header) < 46:
            return
        lengths = [int.from_bytes(header[at : at + 2], "little") for at in (28, 30, 32)]
        yield content[offset + 46 : offset + 46 + lengths[0]]
        offset += 46 + sum(lengths)


def _old_office(content: bytes) -> str:
    """A compound file, by the first stream of an office program in its directory."""
    sector_bytes = 1 << min(content[30] if len(content) > 30 else 9, 12)
    directory = (int.from_bytes(content[48:52], "little") + 1) * sector_bytes
    found = {content.find(f"{name}\0".encode("utf-16-le"), directory): kind for name, kind in _OLD_OFFICE}
    found.pop(-1, None)
    return found[min(found)] if found else UNKNOWN


def _audio_frames(content: bytes) -> str | None:
    """MP3 or AAC without a header of its own: the first frame's header, and no reserved value in it."""
    if len(content) < 4 or content[0] != 0xFF:
        return None
    second, third = content[1], content[2]
    if second & 0xF6 == 0xF0:
        return "audio/aac"
    is_layer_3 = second & 0xE6 == 0xE2 and second & 0x18 != 0x08
    return "audio/mpeg" if is_layer_3 and third >> 4 not in {0, 15} and third & 0x0C != 0x0C else None


def _text(content: bytes) -> str | None:
    """Text in UTF-8, or in UTF-16 with its mark; SVG, HTML and XML even if some of it is not readable."""
    encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text, is_readable = content.decode(encoding), True
    except UnicodeError:
        text, is_readable = content[:_MARKUP_CHARACTERS].decode(encoding, "replace"), False
    if markup := _markup(text[:_MARKUP_CHARACTERS]):
        return markup
    is_text = is_readable and text and "\0" not in text and not _CONTROL.search(text[:_HEADER_BYTES])
    return "text/plain" if is_text else None


def _markup(text: str) -> str | None:
    """SVG, HTML or XML by the first tag, behind blanks, comments, instructions and document types."""
    for skipped in (_BEFORE_XML_ROOT.match(text), _BEFORE_HTML_ROOT.match(text)):
        offset = skipped.end() if skipped else 0
        if _SVG.match(text, offset):
            return "image/svg+xml"
        if _HTML.match(text, offset):
            return "text/html"
    return "application/xml" if _XML.match(text) else None


_CONTAINERS: Final[tuple[tuple[bytes, Callable[[bytes], str]], ...]] = (
    (b"\x1aE\xdf\xa3", _matroska),
    (b"PK\3\4", _zip),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _old_office),
)


def is_damaged(content: bytes, media_type: str) -> bool:
    """Return whether no reader of this media type opens the content."""
    if content.startswith(b"PK\3\4"):
        return not zipfile.is_zipfile(io.BytesIO(content))
    check = _CHECKS.get(media_type)
    return check is not None and check(content)


def is_binary(content: bytes, media_type: str) -> bool:
    """Return whether the content is neither of a kind that is known here, nor text in any encoding."""
    is_known = media_type != UNKNOWN or content.startswith(_COMPOUND)
    return not is_known and b"\0" in content[:_BINARY_BYTES]


def _is_damaged_pdf(content: bytes) -> bool:
    """Whether it was cut off: no mark of its end is there, or only that of the first part of a file for the web."""
    if b"%%EOF" in content[-_PDF_HEADER_BYTES:]:
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


_CHECKS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "application/pdf": _is_damaged_pdf,
    "image/png": _is_damaged_png,
    "image/jpeg": _is_damaged_jpeg,
    "image/gif": _is_damaged_gif,
    # it is shorter than it says, by more than the byte that fills it up
    "image/webp": lambda content: len(content) < 7 + int.from_bytes(content[4:8], "little"),
}
