"""What a file is, by its content: real files where a library writes them, and headers as their standards have them."""

from __future__ import annotations

import gzip
import io
import struct
import wave
import zipfile
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.media.kinds import UNKNOWN, media_type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
OFFICE = "application/vnd.openxmlformats-officedocument."
OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHH", 0x3E, 3, 0xFFFE, 9) + bytes(16)


def package(*names: str, first: tuple[str, str] | None = None, comment: bytes = b"") -> bytes:
    """A ZIP archive with entries of these names, and before them one that is stored as it is."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment
        if first:
            archive.writestr(*first, compress_type=zipfile.ZIP_STORED)
        for name in names:
            archive.writestr(name, "content " * 50)
    return written.getvalue()


def old_office(*streams: str) -> bytes:
    """A compound file whose directory, in its first sector, has these streams."""
    directory = b"".join(
        f"{name}\0".encode("utf-16-le").ljust(128, b"\0") for name in ("Root Entry", *streams)
    )
    return OLE.ljust(512, b"\0") + directory


def recording() -> bytes:
    """A WAV file of the standard library."""
    written = io.BytesIO()
    with wave.open(written, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(1600))
    return written.getvalue()


FILES: dict[str, Iterable[bytes]] = {
    "image/png": [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"],
    "image/jpeg": [b"\xff\xd8\xff\xe0\0\x10JFIF", b"\xff\xd8\xff\xe1"],
    "image/gif": [b"GIF87a\1\0", b"GIF89a\1\0"],
    "image/webp": [b"RIFF\x24\0\0\0WEBPVP8 "],
    "image/tiff": [b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08"],
    "image/avif": [b"\0\0\0\x20ftypavif\0\0\0\0"],
    "image/heic": [b"\0\0\0\x20ftypheic\0\0\0\0", b"\0\0\0\x20ftypmif1\0\0\0\0"],
    "application/pdf": [b"%PDF-1.7\n%\xe2\xe3", b"junk\xff\0\n%PDF-1.4\n\x80 ... startxref\n9\n%%EOF\n"],
    "audio/mpeg": [
        b"ID3\3\0\0\0\0\0\0",
        b"ID3\4\0\0",
        b"\xff\xfb\x90\x64",
        b"\xff\xf3\x48\xc4",
        b"\xff\xfa\x90\0",
    ],
    "audio/aac": [b"\xff\xf1\x50\x80", b"\xff\xf9\x50\x80"],
    "audio/wav": [recording()],
    "audio/flac": [b"fLaC\0\0\0\x22", b"fLaC\x80\0\0\x22"],
    "audio/aiff": [b"FORM\0\0\0\x10AIFF", b"FORM\0\0\0\x10AIFC"],
    "audio/ogg": [b"OggS\0\2" + bytes(22) + b"OpusHead", b"OggS\0\2" + bytes(22) + b"\1vorbis"],
    "video/ogg": [b"OggS\0\2" + bytes(22) + b"\x80theora"],
    "audio/mp4": [b"\0\0\0\x1cftypM4A \0\0\0\0"],
    "video/mp4": [b"\0\0\0\x20ftypisom\0\0\2\0", b"\0\0\0\x18ftypmp42"],
    "video/3gpp": [b"\0\0\0\x18ftyp3gp4"],
    "video/quicktime": [b"\0\0\0\x14ftypqt  ", b"\0\1\0\0moov\0\0", b"\1\0\0\0mdat", b"\0\0\0\x08wide"],
    "video/webm": [b"\x1aE\xdf\xa3\x9fB\x86\x81\1B\x82\x84webm" + bytes(200) + b"\x86\x85V_VP9 A_OPUS"],
    "audio/webm": [b"\x1aE\xdf\xa3\x9fB\x86\x81\1B\x82\x84webm" + bytes(200) + b"\x86\x86A_OPUS"],
    "video/x-matroska": [
        b"\x1aE\xdf\xa3\x9fB\x86\x81\1B\x82\x88matroska" + bytes(9) + b"V_MPEG4/ISO/AVC A_AAC"
    ],
    "video/mpeg": [b"\0\0\1\xba\x44", b"\0\0\1\xb3\x14"],
    "video/x-msvideo": [b"RIFF\x24\0\0\0AVI LIST"],
    f"{OFFICE}wordprocessingml.document": [
        package("[Content_Types].xml", "word/document.xml", "word/embeddings/xl/a.xlsx"),
        package("docProps/core.xml", "word/document2.xml", "[Content_Types].xml", comment=b"a comment"),
    ],
    f"{OFFICE}spreadsheetml.sheet": [package("[Content_Types].xml", "xl/workbook.xml")],
    f"{OFFICE}presentationml.presentation": [package("[Content_Types].xml", "ppt/presentation.xml")],
    f"{OPEN_DOCUMENT}text": [package("content.xml", first=("mimetype", f"{OPEN_DOCUMENT}text"))],
    f"{OPEN_DOCUMENT}spreadsheet": [package(first=("mimetype", f"{OPEN_DOCUMENT}spreadsheet"))],
    f"{OPEN_DOCUMENT}presentation": [package(first=("mimetype", f"{OPEN_DOCUMENT}presentation"))],
    "application/zip": [
        package("word/document.xml"),
        package("a.txt"),
        package("[Content_Types].xml"),
        b"PK\3\4 and nothing else",
        package("a.txt")[:-30],
    ],
    "application/msword": [old_office("1Table", "WordDocument"), old_office("WordDocument", "Workbook")],
    "application/vnd.ms-excel": [old_office("Workbook", "WordDocument"), old_office("Book")],
    "application/vnd.ms-powerpoint": [old_office("PowerPoint Document")],
    "application/gzip": [gzip.compress(b"hello", mtime=0)],
    "application/rtf": [b"{\\rtf1\\ansi hello}"],
    "text/plain": [
        b"hello\tworld\r\n",
        "naïve, 世界 \U0001f642".encode(),
        BOM_UTF8 + b"hello",
        "hello, 世界".encode("utf-16"),
        b"\xfe\xff" + "hello".encode("utf-16-be"),
        b"RIFF raff",
        b"OggS",
        b"FORM 1040: income",
        b"ID3 tags explained",
        b"The wide moov",
        b"the mdat atom, and ftyp",
        b"A PDF begins with %PDF-1.7, and ends with an end mark.",
        b"# Title\n\n<svg> is a tag, <html> too\n",
        b"<!-- a comment --> and text",
        b"<notes>\nno markup of ours\n",
        b"a < b <script>",
        b'{"a": 1}',
        b"def main() -> None: ...\n",
        b"\x1b[31mred\x1b[0m",
    ],
    "application/xml": [b"<?xml version='1.0'?><feed/>", BOM_UTF8 + b"\n<?XML ?>\n<feed/>"],
    UNKNOWN: [
        b"",
        b"\0",
        b"\x7fELF\2\1\1\0",
        b"MZ\x90\0\3",
        b"caf\xe9",
        b"text with \0 in it",
        b"text with \1 in it",
        b"\xff\0 %PDF-1.4 stands in what is none",
        b"a" * 100_000 + b"\0",
        b"\xff\xfe\0\xd8",
        b"\xff\xfb\xf0\0",
        b"\xff\xeb\x90\0",
        b"\xff\xff\xff\xff",
        OLE,
        b"OggS\1",
    ],
}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        pytest.param(kind, each, id=f"{kind} {number}")  # archives hold the time at which they are written
        for kind, group in FILES.items()
        for number, each in enumerate(group)
    ],
)
def test_a_file_is_known_by_its_content(kind: str, content: bytes) -> None:
    """By its signature, its container's parts, or as a text."""
    assert media_type_of(content) == kind


BEFORE = (
    b"",
    b" \t\r\n\f",
    BOM_UTF8,
    BOM_UTF8 + b"\n",
    b"<!-- a comment -->",
    b"<!-- <html> > -- -->\n<!---->",
    b"<?xml version='1.0'?>",
    b"<?XML version='1.0'?>\n<!-- > -->\n<?xml-stylesheet href='a>b'?>",
    b" " * 5000 + b"<!--" + b"x" * 100_000 + b"-->",
)
SVG = (
    b"<svg>",
    b"<SVG xmlns='http://www.w3.org/2000/svg'>",
    b"<svg/>",
    b"<svg\nwidth='1'>",
    b"<s:svg xmlns:s='http://www.w3.org/2000/svg'>",
    b"<!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN' 'svg11.dtd'><svg>",
    b"<!doctype SVG [ <!ENTITY a '<svg>'> <!ENTITY b ']'> ]>\n<svg>",
    b"<!DOCTYPE svg>\n<!-- -->\n<svg>",
)
HTML = (
    b"<!DOCTYPE html>",
    b"<!doctype\nHTML public>",
    b"<html>",
    b"<HTML lang='en'>",
    b"<head>",
    b"<script>alert(1)</script>",
    b"<ScRiPt/src=x>",
    b"<body onload=alert(1)>",
    b"<iframe src=x>",
    b"<a href=x>",
    b"<!doctype html><svg>",
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("kind", "tag"), [*(("image/svg+xml", tag) for tag in SVG), *(("text/html", tag) for tag in HTML)]
)
def test_markup_that_runs_scripts_is_known_behind_anything(kind: str, tag: bytes, encoding: str) -> None:
    """Blanks, marks, comments, instructions, document types; in any case and encoding; cut off, or not all readable."""
    marks = {"utf-8": b"", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
    for before in BEFORE:
        for after in ("", "\n<p>content", "\ud800"):
            text = before.decode("utf-8") + tag.decode() + after
            content = marks[encoding] + text.removeprefix("\ufeff").encode(encoding, "surrogatepass")
            assert media_type_of(content) == kind


@pytest.mark.parametrize(
    "content", [b"<?x ><html>", b"<!--><script>", b"<!---><html>", b"<!-- --!><html>", b"</p><!x><html>"]
)
def test_html_is_known_behind_what_only_browsers_read(content: bytes) -> None:
    """Comments that end early, and instructions that XML would read on."""
    assert media_type_of(content) == "text/html"


@given(st.sampled_from([*SVG, *HTML]), st.sampled_from(BEFORE), st.binary(max_size=40))
def test_markup_is_never_a_picture(tag: bytes, before: bytes, after: bytes) -> None:
    """Whatever follows."""
    assert media_type_of(before + tag + after) not in IMAGES


@given(st.binary(max_size=200))
def test_any_content_has_a_type(content: bytes) -> None:
    """Nothing raises, and a type is lower case without parameters."""
    kind = media_type_of(content)
    assert kind == kind.lower()
    assert kind.count("/") == 1
    assert ";" not in kind


@given(st.sampled_from([each for group in FILES.values() for each in group]), st.data())
def test_a_file_that_breaks_off_has_a_type(content: bytes, data: st.DataObject) -> None:
    """At any byte."""
    assert media_type_of(content[: data.draw(st.integers(0, len(content)))])


def _by_pillow(kind: str) -> bytes:
    pictures = pytest.importorskip("PIL.Image")
    written = io.BytesIO()
    pictures.new("RGB", (20, 20)).save(written, kind)
    return written.getvalue()


def _by_office(module: str, create: Callable[[Any], Any]) -> bytes:
    written = io.BytesIO()
    create(pytest.importorskip(module)).save(written)
    return written.getvalue()


def _by_codec(container: str, codec: str) -> bytes:
    av = pytest.importorskip("av")
    written = io.BytesIO()
    with av.open(written, "w", format=container) as output:
        if codec.startswith("video:"):
            stream = output.add_stream(codec.removeprefix("video:"), rate=25)
            stream.width = stream.height = 64
            stream.pix_fmt = "yuv420p"
            frames = [av.VideoFrame(64, 64, "yuv420p") for _ in range(5)]
        else:
            stream = output.add_stream(codec, rate=48000)
            frame = av.AudioFrame(
                format=stream.format.name, layout=stream.layout.name, samples=1024 if codec == "aac" else 960
            )
            frame.rate = 48000
            for plane in frame.planes:
                plane.update(bytes(plane.buffer_size))
            frames = [frame]
        for frame in frames:
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return written.getvalue()


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("image/png", lambda: _by_pillow("PNG")),
        ("image/jpeg", lambda: _by_pillow("JPEG")),
        ("image/gif", lambda: _by_pillow("GIF")),
        ("image/webp", lambda: _by_pillow("WEBP")),
        ("image/tiff", lambda: _by_pillow("TIFF")),
        ("application/pdf", lambda: _by_pillow("PDF")),
        (f"{OFFICE}wordprocessingml.document", lambda: _by_office("docx", lambda docx: docx.Document())),
        (
            f"{OFFICE}spreadsheetml.sheet",
            lambda: _by_office("openpyxl", lambda openpyxl: openpyxl.Workbook()),
        ),
        (
            f"{OFFICE}presentationml.presentation",
            lambda: _by_office("pptx", lambda pptx: pptx.Presentation()),
        ),
        ("audio/mpeg", lambda: _by_codec("mp3", "mp3")),
        ("audio/aac", lambda: _by_codec("adts", "aac")),
        ("audio/flac", lambda: _by_codec("flac", "flac")),
        ("audio/wav", lambda: _by_codec("wav", "pcm_s16le")),
        ("audio/ogg", lambda: _by_codec("ogg", "libopus")),
        ("audio/webm", lambda: _by_codec("webm", "libopus")),
        ("audio/mp4", lambda: _by_codec("ipod", "aac")),
        ("video/webm", lambda: _by_codec("webm", "video:libvpx")),
        ("video/mp4", lambda: _by_codec("mp4", "video:mpeg4")),
        ("video/quicktime", lambda: _by_codec("mov", "video:mpeg4")),
        ("video/mpeg", lambda: _by_codec("mpeg", "video:mpeg1video")),
        ("video/x-matroska", lambda: _by_codec("matroska", "video:mpeg4")),
        ("video/x-msvideo", lambda: _by_codec("avi", "video:mpeg4")),
    ],
)
def test_files_of_real_programs_are_known(kind: str, write: Callable[[], bytes]) -> None:
    """Written by the libraries that Open WebUI brings with it; skipped where they are not installed."""
    assert media_type_of(write()) == kind
