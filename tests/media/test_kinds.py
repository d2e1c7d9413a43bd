"""What a file is, by its content: real files where a library writes them, and headers as in `kinds.txt`."""

from __future__ import annotations

import gzip
import io
import struct
import wave
import zipfile
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.media.kinds import UNKNOWN, media_type_of

IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
OFFICE = "application/vnd.openxmlformats-officedocument."
WORD, SHEET, SLIDES = (
    f"{OFFICE}wordprocessingml.document",
    f"{OFFICE}spreadsheetml.sheet",
    f"{OFFICE}presentationml",
)
OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHH", 0x3E, 3, 0xFFFE, 9) + bytes(16)
TYPES = "[Content_Types].xml"


def rows(section: str) -> list[tuple[str, bytes]]:
    """The rows of a section of `kinds.txt`: the type or a name, and the content."""
    text = Path(__file__).with_name("kinds.txt").read_text("utf-8")
    lines = text.partition(f"## {section}\n")[2].partition("\n\n")[0].rstrip("\n").split("\n")
    pairs = (line.partition(" =>") for line in lines if not line.startswith("#"))
    return [
        (name, content[1:].encode().decode("unicode_escape").encode("latin-1")) for name, _, content in pairs
    ]


def package(*names: str, first: str = "", comment: bytes = b"") -> bytes:
    """A ZIP archive with entries of these names, and before them a type that is stored as it is."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment
        if first:
            archive.writestr("mimetype", first, compress_type=zipfile.ZIP_STORED)
        for name in names:
            archive.writestr(name, "content " * 50)
    return written.getvalue()


def old_office(*streams: str) -> bytes:
    """A compound file whose directory, in its first sector, has these streams."""
    names = ("Root Entry", *streams)
    return OLE.ljust(512, b"\0") + b"".join(
        f"{name}\0".encode("utf-16-le").ljust(128, b"\0") for name in names
    )


def recording() -> bytes:
    """A WAV file of the standard library."""
    written = io.BytesIO()
    with wave.open(written, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(1600))
    return written.getvalue()


FILES = [
    *rows("Files"),
    ("audio/wav", recording()),
    (WORD, package(TYPES, "word/document.xml", "word/embeddings/xl/a.xlsx")),
    (WORD, package("docProps/core.xml", "word/document2.xml", TYPES, comment=b"a comment")),
    (SHEET, package(TYPES, "xl/workbook.xml")),
    (f"{SLIDES}.presentation", package(TYPES, "ppt/presentation.xml")),
    *(
        (f"{OPEN_DOCUMENT}{kind}", package(first=f"{OPEN_DOCUMENT}{kind}"))
        for kind in ("text", "spreadsheet")
    ),
    (f"{OPEN_DOCUMENT}presentation", package("content.xml", first=f"{OPEN_DOCUMENT}presentation")),
    *(("application/zip", package(name)) for name in ("word/document.xml", "a.txt", TYPES)),
    ("application/zip", package("a.txt")[:-30]),
    ("application/msword", old_office("1Table", "WordDocument")),
    ("application/msword", old_office("WordDocument", "Workbook")),
    ("application/vnd.ms-excel", old_office("Workbook", "WordDocument")),
    ("application/vnd.ms-excel", old_office("Book")),
    ("application/vnd.ms-powerpoint", old_office("PowerPoint Document")),
    ("application/gzip", gzip.compress(b"hello", mtime=0)),
    (UNKNOWN, b"a" * 100_000 + b"\0"),
]
BEFORE = [*(before for _, before in rows("Before a tag")), b" " * 5000 + b"<!--" + b"x" * 100_000 + b"-->"]
TAGS = rows("Tags")
MARKS = {"utf-8": b"", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


@pytest.mark.parametrize(
    ("kind", "content"),
    [pytest.param(*each, id=f"{each[0]} {number}") for number, each in enumerate(FILES)],
)
def test_a_file_is_known_by_its_content(kind: str, content: bytes) -> None:
    """By its signature, its container's parts, or as a text."""
    assert media_type_of(content) == kind


@pytest.mark.parametrize("encoding", MARKS)
@pytest.mark.parametrize(("kind", "tag"), TAGS)
def test_markup_that_runs_scripts_is_known_behind_anything(kind: str, tag: bytes, encoding: str) -> None:
    """Blanks, marks, comments, instructions, document types; in any case and encoding; cut off, or not all readable."""
    for before in BEFORE:
        for after in ("", "\n<p>content", "\ud800"):
            text = (before.removeprefix(BOM_UTF8) + tag).decode() + after
            content = MARKS[encoding] + text.encode(encoding, "surrogatepass")
            assert media_type_of(content) == kind


@given(st.sampled_from(TAGS), st.sampled_from(BEFORE), st.binary(max_size=40))
def test_markup_is_never_a_picture(tag: tuple[str, bytes], before: bytes, after: bytes) -> None:
    """Whatever follows."""
    assert media_type_of(before + tag[1] + after) not in IMAGES


@given(
    st.binary(max_size=200)
    | st.sampled_from(FILES).flatmap(lambda file: st.integers(0, len(file[1])).map(lambda end: file[1][:end]))
)
def test_any_content_has_a_type(content: bytes) -> None:
    """Also a file that breaks off at any byte; it is lower case without parameters."""
    kind = media_type_of(content)
    assert kind == kind.lower()
    assert (kind.count("/"), kind.count(";")) == (1, 0)


def written_by(module: str, form: str) -> bytes:
    """The smallest whole file of this form that a library writes, in which nothing is shown."""
    library, written = pytest.importorskip(module), io.BytesIO()
    if module == "PIL.Image":
        library.new("RGB", (20, 20)).save(written, form)
    elif module != "av":
        getattr(library, form)().save(written)
    else:
        container, _, codec = form.partition(" ")
        with library.open(written, "w", format=container) as output:
            is_video = codec in {"libvpx", "mpeg4", "mpeg1video"}
            stream: Any = output.add_stream(codec, rate=25 if is_video else 48000)
            if is_video:
                stream.width = stream.height = 64
                stream.pix_fmt = "yuv420p"
                frames = [library.VideoFrame(64, 64, "yuv420p") for _ in range(5)]
            else:
                samples = 1024 if codec == "aac" else 960
                frames = [library.AudioFrame(stream.format.name, stream.layout.name, samples)]
                frames[0].rate = 48000
                for plane in frames[0].planes:
                    plane.update(bytes(plane.buffer_size))
            for frame in (*frames, None):
                output.mux(stream.encode(frame))
    return written.getvalue()


@pytest.mark.parametrize(
    ("kind", "module", "form"),
    [
        *((f"image/{form}", "PIL.Image", form) for form in ("png", "jpeg", "gif", "webp", "tiff")),
        ("application/pdf", "PIL.Image", "pdf"),
        (WORD, "docx", "Document"),
        (SHEET, "openpyxl", "Workbook"),
        (f"{SLIDES}.presentation", "pptx", "Presentation"),
        ("audio/mpeg", "av", "mp3 mp3"),
        ("audio/aac", "av", "adts aac"),
        ("audio/flac", "av", "flac flac"),
        ("audio/wav", "av", "wav pcm_s16le"),
        ("audio/ogg", "av", "ogg libopus"),
        ("audio/webm", "av", "webm libopus"),
        ("audio/mp4", "av", "ipod aac"),
        ("video/webm", "av", "webm libvpx"),
        ("video/mp4", "av", "mp4 mpeg4"),
        ("video/quicktime", "av", "mov mpeg4"),
        ("video/mpeg", "av", "mpeg mpeg1video"),
        ("video/x-matroska", "av", "matroska mpeg4"),
        ("video/x-msvideo", "av", "avi mpeg4"),
    ],
)
def test_files_of_real_programs_are_known(kind: str, module: str, form: str) -> None:
    """Written by the libraries that Open WebUI brings with it; skipped where they are not installed."""
    assert media_type_of(written_by(module, form)) == kind
