"""Content inline, decoded in windows: the same bytes as at once, and nothing of what is not base64."""

from __future__ import annotations

import base64
import random

import pytest

from open_webui_openrouter_pipe.responses.values import decode

CONTENT = random.Random(1).randbytes(700_001)


@pytest.mark.parametrize("size_bytes", [0, 1, 2, 3, 196_607, 196_608, 196_609, len(CONTENT)])
def test_content_of_any_length_is_decoded(size_bytes: int) -> None:
    """With lines or without, in either alphabet, padded or not, and wherever a window ends."""
    content = CONTENT[:size_bytes]
    plain = base64.b64encode(content).decode()
    url = base64.urlsafe_b64encode(content).decode()
    lines = base64.encodebytes(content).decode()
    for text in (plain, url, lines, plain.rstrip("="), f"data:image/png;base64,{plain}"):
        assert decode(text) == content


@pytest.mark.parametrize("at", [4, 262_144, 262_148, 600_000])
@pytest.mark.parametrize("inserted", ["AA==", "*"])
def test_what_is_not_base64_throughout_is_nothing(at: int, inserted: str) -> None:
    """Neither another character nor padding before the end, in whichever window."""
    plain = base64.b64encode(CONTENT[:600_000]).decode()
    assert decode(plain[:at] + inserted + plain[at:]) == b""
