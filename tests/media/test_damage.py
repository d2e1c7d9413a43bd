"""Which files cannot be opened: whole and cut ones of the libraries that Open WebUI brings with it."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from open_webui_openrouter_pipe.media.kinds import UNKNOWN, is_binary, is_damaged, media_type_of
from tests.media.test_kinds import old_office, package, written_by

WRITTEN = [
    *(("PIL.Image", form) for form in ("png", "jpeg", "gif", "webp", "pdf")),
    *(("docx", "Document"), ("openpyxl", "Workbook"), ("pptx", "Presentation")),
]
LINEARIZED = (
    b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\nxref\n0 1\ntrailer\n<<>>\nstartxref\n0\n%%EOF\n" + b"2 0 obj\n" * 500
)
"""Its first part has an end mark, as in files for the web; what belongs to it was cut off."""


@pytest.mark.parametrize(("module", "form"), WRITTEN)
def test_a_file_that_was_cut_off_is_damaged(module: str, form: str) -> None:
    """Whole it is not, nor with a little behind its end."""
    content = written_by(module, form)
    kind = media_type_of(content)
    assert [is_damaged(each, kind) for each in (content, content + b"\r\n\0")] == [False, False]
    for part in (content[: len(content) * 6 // 10], content[:-30]):
        assert is_damaged(part, media_type_of(part)), len(part)


def test_of_a_pdf_what_can_be_read_without_its_end_mark_is_not_damaged() -> None:
    """Bytes behind it may be many; a mark in the middle is not its end."""
    pdf = written_by("PIL.Image", "pdf")
    assert not is_damaged(pdf + b"<!-- sent by a server -->" * 100, "application/pdf")
    assert is_damaged(LINEARIZED, "application/pdf")
    assert not is_damaged(b"junk\n" + pdf, "application/pdf")


def photos() -> list[bytes]:
    """Images with what real ones have: a small picture in the header, several scans, colours, frames."""
    library = pytest.importorskip("PIL.Image")
    noise = library.effect_noise((300, 200), 90)
    small, written = io.BytesIO(), list[bytes]()
    noise.resize((60, 40)).save(small, "jpeg")
    header = b"Exif\0\0" + small.getvalue()
    forms: list[dict[str, Any]] = [
        {"format": "jpeg", "exif": header},
        {"format": "jpeg", "exif": header, "progressive": True},
        {"format": "jpeg", "quality": 30, "icc_profile": bytes(70_000)},
        {"format": "gif", "save_all": True, "append_images": [noise.rotate(90), noise.rotate(180)]},
        {"format": "png", "icc_profile": bytes(1000)},
        {"format": "webp", "lossless": True},
        {"format": "webp", "save_all": True, "append_images": [noise.rotate(180)]},
    ]
    for form in forms:
        file = io.BytesIO()
        noise.save(file, **form)
        written.append(file.getvalue())
    return written


@pytest.mark.parametrize("content", photos())
def test_an_image_is_judged_by_its_parts(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Nothing draws it, so that its size in pixels does not count; what only begins like one is damaged."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    kind = media_type_of(content)
    assert not is_damaged(content, kind)
    assert not is_damaged(content + bytes(2000), kind)
    share = 0.3 if kind == "image/gif" else 0.98  # of several frames the first is enough
    for part in range(30, int(len(content) * share), len(content) // 40):
        assert is_damaged(content[:part], kind), part
    assert is_damaged(content[:12] + bytes(range(256)) * 50, kind)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\1\2\0\xff", True),
        (b"MZ\x90\0\3\0", True),
        (b"Z\xfcrich", False),
        ("Zürich".encode("utf-16"), False),
        (old_office("__properties_version1.0"), False),
        (package("a.txt"), False),
        (b"", False),
    ],
)
def test_what_nobody_reads(content: bytes, expected: bool) -> None:  # noqa: FBT001 - the case
    """Text in an old encoding and messages of Outlook are read by Open WebUI."""
    assert is_binary(content, media_type_of(content)) == expected


def test_what_is_of_no_kind_is_not_damaged() -> None:
    """Nothing says what it should be."""
    assert not is_damaged(b"\1\2\0", UNKNOWN)
    assert not is_damaged(b"RIFF", "audio/wav")
