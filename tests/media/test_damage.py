"""Which files cannot be opened: whole and cut ones of the libraries that Open WebUI brings with it."""

from __future__ import annotations

import io
import sys

import pytest

from open_webui_openrouter_pipe.media.damage import is_binary, is_damaged
from open_webui_openrouter_pipe.media.kinds import UNKNOWN, media_type_of
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


@pytest.mark.parametrize("kind", ["application/pdf", "image/png", "image/webp"])
def test_without_the_libraries_less_is_found(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """An image is taken to be sound; a PDF must have an end mark somewhere."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert is_damaged(b"%PDF-1.4\n", kind) == (kind == "application/pdf")
    assert not is_damaged(LINEARIZED, kind)


def test_a_large_image_is_not_drawn() -> None:
    """What it takes in memory would be more than its worth; of a PNG the check sums are enough."""
    library = pytest.importorskip("PIL.Image")
    written = io.BytesIO()
    library.new("1", (10_000, 5_000)).save(written, "gif")
    assert not is_damaged(written.getvalue()[:1000], "image/gif")


def test_an_image_that_is_too_large_to_be_opened_is_not_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow refuses more than twice its limit of pixels, as a camera with 200 megapixels has them."""
    monkeypatch.setattr(pytest.importorskip("PIL.Image"), "MAX_IMAGE_PIXELS", 1)
    for form in ("png", "jpeg", "gif", "webp"):
        content = written_by("PIL.Image", form)
        assert not is_damaged(content, media_type_of(content)), form


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
