"""Images, documents, audio and video: the vendors' rules, never their base64."""

from __future__ import annotations

import base64
import io
import struct
import sys
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation import media
from open_webui_openrouter_pipe.conversation.media import count_pdf_pages, holds_pdf, image_size

pictures, pypdf = pytest.importorskip("PIL.Image"), pytest.importorskip("pypdf")


def picture(width: int, height: int, form: str) -> bytes:
    """A picture of one colour, in a file of this form."""
    written = io.BytesIO()
    pictures.new("RGB", (width, height)).save(written, form)
    return written.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size, and has no pixels."""
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT")
    sealed = (
        struct.pack(">I", len(each) - 4) + each + struct.pack(">I", zlib.crc32(each)) for each in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(sealed)


PNG, GIF, JPEG = picture(1024, 2048, "PNG"), picture(320, 200, "GIF"), picture(800, 600, "JPEG")
WEBP_HEAD = b"RIFF\0\0\0\0WEBP"
WEBP = WEBP_HEAD + b"VP8X" + bytes(8) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")


def url(data: bytes, kind: str = "image/png") -> str:
    """A data URL of the bytes."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("place", ["content", "output"])
def test_a_pdf_is_found_wherever_it_stands(place: str) -> None:
    """In a message, or in what a tool returned; other files are none."""
    found = []
    for kind in ("application/pdf", "text/plain"):
        item: Any = {"type": "message", place: [{"type": "input_file", "file_data": url(b"%PDF", kind)}]}
        found.append(holds_pdf([item]))
    assert found == [True, False]


@pytest.mark.parametrize(
    ("data", "family", "detail", "tokens"),
    [
        (PNG, "openai", "high", 85 + 170 * 2 * 3),
        (PNG, "openai", "low", 85),
        (PNG, "anthropic", "auto", 1600),
        (GIF, "anthropic", "auto", 86),
        (GIF, "google", "auto", 258),
        (JPEG, "google", "auto", 258 * 2 * 2),
        (WEBP, "openai", "auto", 85 + 170 * 2 * 1),
        (GIF, "other", "auto", 258),
        (b"what", "anthropic", "auto", 1399),
    ],
)
def test_an_image_costs_what_its_vendor_says(
    data: bytes, family: media.Family, detail: str, tokens: int
) -> None:
    """The size is read out of the header; an unknown size is an ordinary one, an unknown vendor the dearest."""
    assert media.image_tokens(url(data), detail, family) == tokens


def test_the_size_of_the_base64_does_not_matter() -> None:
    """An image of five megabytes costs as much as its header says."""
    assert media.image_tokens(url(PNG + bytes(5_000_000)), "auto", "anthropic") == 1600


def test_a_pdf_costs_by_its_pages() -> None:
    """Pages are counted in the file; a file that says nothing has an ordinary length."""
    assert media.pdf_tokens(url(pdf(3), "application/pdf"), "google") == 3 * 258
    assert media.pdf_tokens(url(pdf(3)[:99], "application/pdf"), "google") == 258
    assert media.pdf_tokens(url(pdf(3)[:99] + b"x" * 3000, "application/pdf"), "google") == 4 * 258
    assert media.pdf_tokens(url(pdf(3)[:99] + b"x" * 99_999, "application/pdf"), "google") == 10 * 258
    assert media.pdf_tokens("https://example.com/a.pdf", "google") == 10 * 258


def test_a_text_file_is_text() -> None:
    """Text types are read; others are not."""
    assert media.embedded_text({"file_data": url(b"hello", "text/plain")}) == "hello"
    assert media.embedded_text({"file_data": url(b"hello", "application/pdf")}) is None


def test_audio_and_video_cost_by_their_seconds() -> None:
    """A WAV says its bytes for each second; otherwise an ordinary rate is assumed."""
    wav = b"RIFF" + bytes(24) + (8000).to_bytes(4, "little") + bytes(8000 * 10 - 32)
    assert media.audio_tokens(base64.b64encode(wav).decode(), "wav") == 10 * 32 + 1
    assert media.audio_tokens("A" * 64_000, "mp3") == 96
    damaged = wav[:28] + (1).to_bytes(4, "little") + wav[32:]
    assert media.audio_tokens(base64.b64encode(damaged).decode(), "wav") == 5 * 32 + 1
    assert media.video_tokens("https://example.com/a.mp4") == 60 * 295
    assert media.video_tokens("data:video/mp4;base64,".ljust(1_000_000, "A")) == 6 * 295


def test_families_follow_the_vendor() -> None:
    """The vendor is the part before the slash."""
    models = ["anthropic/claude", "~openai/gpt", "google/gemini", "x-ai/grok"]
    assert [media.family_of(model) for model in models] == ["anthropic", "openai", "google", "other"]


@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
def test_sizes_are_read_out_of_the_beginning(form: str) -> None:
    """However long the file is."""
    noise = pictures.effect_noise((1000, 700), 90).convert("RGB")
    written = io.BytesIO()
    noise.save(written, form)
    assert len(written.getvalue()) > media.HEADER_CHARACTERS
    assert image_size(url(written.getvalue())) == (1000, 700)
    assert image_size(url(written.getvalue()[:65_536])) == (1000, 700)


@pytest.mark.parametrize(
    "data",
    [
        png_header(2**31 - 1, 2**31 - 1),
        png_header(2**31 - 1, 1),
        png_header(1, 66_000),
        png_header(0, 5),
        WEBP_HEAD + b"VP8X" + bytes(8) + b"\xff" * 6,
        WEBP_HEAD + b"VP8 " + bytes(10) + b"\xff\x3f\xff\x3f",
        WEBP_HEAD + b"VP8 " + bytes(14),
        WEBP_HEAD,
        WEBP_HEAD + b"what",
        b"GIF89a\xff",
        b"\xff\xd8\xff\xe0\x00\x00",
        b"",
    ],
    ids=range(12),
)
@pytest.mark.parametrize("family", ["openai", "anthropic", "google", "other"])
def test_a_broken_header_costs_an_ordinary_image(data: bytes, family: media.Family) -> None:
    """A size that no image has is not one: it counts as 1,024 by 1,024, where bytes could cost more than any window."""
    assert image_size(url(data)) is None
    tokens = media.image_tokens(url(png_header(1_024, 1_024)), "auto", family)
    assert media.image_tokens(url(data), "auto", family) == tokens
    assert media.image_tokens("https://a.b/c", "auto", family) == tokens


@pytest.mark.parametrize(("width", "height"), [(65_535, 1), (1, 65_535), (65_535, 1_365), (9_000, 9_000)])
def test_the_largest_image_costs_less_than_a_window(width: int, height: int) -> None:
    """Whatever its shape."""
    assert image_size(url(png_header(width, height))) == (width, height)
    assert media.image_tokens(url(png_header(width, height)), "auto", "other") < 100_000


def pdf(pages: int, **written: Any) -> bytes:
    """A PDF of pypdf with so many empty pages."""
    writer, file = pypdf.PdfWriter(**written), io.BytesIO()
    for _ in range(pages):
        writer.add_blank_page(9, 9)
    writer.write(file)
    return file.getvalue()


def claiming(count: bytes) -> bytes:
    """A PDF of one page that claims another number, in as many bytes."""
    return pdf(1).replace(b"/Count 1\n", b"/Count " + count + b"\n")


@pytest.mark.parametrize("pages", [1, 2, 99, 2_500])
def test_the_pages_of_a_pdf_are_counted(pages: int) -> None:
    """By its page tree; no page is read."""
    assert count_pdf_pages(pdf(pages)) == pages


def test_pdfs_of_real_programs_are_counted() -> None:
    """Pillow's and pypdf's, as they are written, and after an incremental update."""
    one, by_pillow = pictures.new("RGB", (9, 9)), io.BytesIO()
    one.save(by_pillow, "PDF", save_all=True, append_images=[one] * 22)
    assert count_pdf_pages(by_pillow.getvalue()) == 23
    assert count_pdf_pages(pdf(1, fileobj=by_pillow, incremental=True)) == 24


def in_stream(objects: bytes) -> bytes:
    """A PDF with these objects in a stream (ISO 32000-1, 7.5.7)."""
    packed = zlib.compress(objects)
    about = b"<</Type/ObjStm/N 1/First 4/Filter/FlateDecode/Length %d>>" % len(packed)
    return b"%PDF-1.5\n1 0 obj\n" + about + b"\nstream\r\n" + packed + b"\nendstream\nendobj\n%%EOF\n"


def test_the_page_tree_may_be_in_a_stream() -> None:
    """Where most newer programs put it; what is in its root besides makes no difference."""
    root = b"<</Type /Pages/Resources<</Font<61>>>/Count 7 /MediaBox[0 0 9 9]/Kids[2 0 R]>>"
    assert count_pdf_pages(in_stream(b"2 0 " + root)) == 7
    assert count_pdf_pages(in_stream(b"2 0 " + root.replace(b"7", b"8")) + in_stream(b"2 0 " + root)) == 8


def test_an_encrypted_pdf_may_be_counted() -> None:
    """Its texts are encrypted, and its page tree where that is in a stream."""
    for password, pages in (("secret", 1), ("", 1)):
        writer, file = pypdf.PdfWriter(), io.BytesIO()
        writer.add_blank_page(9, 9)
        writer.encrypt(password, "owner", algorithm="RC4-128")
        writer.write(file)
        assert count_pdf_pages(file.getvalue()) == pages


def test_of_a_pdf_that_was_cut_off_the_pages_are_known() -> None:
    """As far as its page tree is there."""
    assert count_pdf_pages(pdf(5)[:-60]) == 5


def bomb() -> bytes:
    """A PDF whose table of objects inflates to a hundred megabytes (ISO 32000-1, 7.5.8)."""
    packed = zlib.compress(bytes(10**8), 9)
    about = b"/Type/XRef/Size 9/W[1 4 2]/Root 1 0 R/Filter/FlateDecode/Length %d" % len(packed)
    head = b"%PDF-1.5\n1 0 obj\n<<" + about + b">>\nstream\n"
    return head + packed + b"\nendstream\nendobj\nstartxref\n9\n%%EOF\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no PDF",
        b"%PDF-1.4 /Type /Pages /Count 3 /Type /Page /Type /Page",
        claiming(b"0"),
        claiming(b"-3"),
        claiming(b"10001"),
        claiming(b"9" * 30),
        claiming(b"2.5"),
        claiming(b"(7)"),
        claiming(b"4 0 R"),
        claiming(b"9 0 R"),
        claiming(b"<</A" * 40 + b">>" * 40),
        in_stream(b"<</A" * 40 + b">>" * 40),
        in_stream(bytes(10**8) + b"<</Type/Pages/Count 7>>"),
        b"%PDF-1.4\ntrailer\n<</Root 1 0 R/Prev 9>>\nstartxref\n9\n%%EOF\n",
        b"%PDF-1.4\nxref\n0 1\ntrailer\n<</Root 1 0 R/Prev 9>>\nstartxref\n9\n%%EOF\n",
        b"%PDF-1.4\n" + b"[" * 100_000 + b"\nstartxref\n9\n%%EOF\n",
        bomb(),
    ],
    ids=range(18),
)
def test_a_hostile_pdf_has_no_known_number_of_pages(data: bytes) -> None:
    """It neither raises, nor costs more than any window; and it is read in no time."""
    assert count_pdf_pages(data) is None


@given(st.integers(0, 3_000), st.binary(max_size=8))
def test_a_damaged_pdf_has_pages_or_none(offset: int, damage: bytes) -> None:
    """No damage raises."""
    data = pdf(50)
    counted = count_pdf_pages(data[:offset] + damage + data[offset + len(damage) :])
    assert counted is None or 0 < counted <= media.MAX_PAGES


@given(st.sampled_from([PNG, GIF, JPEG, WEBP]), st.integers(0, 60), st.binary(max_size=8))
def test_a_damaged_image_has_a_size_or_none(data: bytes, offset: int, damage: bytes) -> None:
    """No damage raises."""
    size = image_size(url(data[:offset] + damage + data[offset + len(damage) :]))
    assert size is None or 0 < min(size) <= max(size) <= media.MAX_SIDE_PIXELS


def test_without_the_library_pictures_are_ordinary_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package does not depend on it."""
    for name in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    assert image_size(url(PNG)) is None
    assert media.image_tokens(url(PNG), "auto", "anthropic") == 1399
