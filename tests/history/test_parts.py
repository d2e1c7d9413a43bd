"""Parts of any shape become typed input parts: see `parts.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.parts import read_content, read_output
from tests.history.builders import as_parts, text
from tests.support.rows import rows


@pytest.mark.parametrize(
    ("title", "content", "parts"), rows(Path(__file__).with_name("parts.txt"), "contents")
)
def test_a_content_is_read(title: str, content: Any, parts: list[Any]) -> None:
    """What can be sent is kept in the wire's form; what cannot is named by a short constant text."""
    assert read_content(content) == as_parts(parts), title


def test_the_text_parts_of_an_output_are_joined() -> None:
    """With anything else among them they stay parts."""
    image = {"type": "input_image", "detail": "auto", "image_url": "https://x.org/a.png"}
    assert read_output([text("a"), text("b")]) == "ab"
    assert read_output([text("a"), image]) == [text("a"), image]
