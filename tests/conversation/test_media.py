"""Images, documents, audio and video: the vendors' rules, never their base64."""

from __future__ import annotations

import base64
import struct

import pytest

from open_webui_openrouter_pipe.conversation import media

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 1024, 2048)
GIF = b"GIF89a" + struct.pack("<HH", 320, 200)
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 600, 800) + bytes(8)
WEBP = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")


def url(data: bytes, kind: str = "image/png") -> str:
    """A data URL of the bytes."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


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
    pdf = b"%PDF-1.4 /Type /Pages /Count 3 /Type /Page /Type /Page /Type /Page"
    assert media.pdf_tokens(url(pdf, "application/pdf"), "google") == 3 * 258
    assert media.pdf_tokens("https://example.com/a.pdf", "google") == 10 * 258


def test_a_text_file_is_text() -> None:
    """Text types are read; others are not."""
    assert media.embedded_text(url(b"hello", "text/plain")) == "hello"
    assert media.embedded_text(url(b"hello", "application/pdf")) is None


def test_audio_and_video_cost_by_their_seconds() -> None:
    """A WAV says its bytes for each second; otherwise an ordinary rate is assumed."""
    wav = b"RIFF" + bytes(24) + (8000).to_bytes(4, "little") + bytes(8000 * 10 - 32)
    assert media.audio_tokens(base64.b64encode(wav).decode(), "wav") == 10 * 32 + 1
    assert media.audio_tokens("A" * 64_000, "mp3") == 96
    assert media.video_tokens("https://example.com/a.mp4") == 60 * 295
    assert media.video_tokens("data:video/mp4;base64,".ljust(1_000_000, "A")) == 6 * 295


def test_families_follow_the_vendor() -> None:
    """The vendor is the part before the slash."""
    models = ["anthropic/claude", "~openai/gpt", "google/gemini", "x-ai/grok"]
    assert [media.family_of(model) for model in models] == ["anthropic", "openai", "google", "other"]
