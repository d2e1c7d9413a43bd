"""The icons of models, read back as PNG files."""

from __future__ import annotations

import base64
import io
import string
import sys
from typing import Any

import pytest

from open_webui_openrouter_pipe.host.model_rows import SIZE_PIXELS, icon

pictures = pytest.importorskip("PIL.Image")

PREFIX = "data:image/png;base64,"
WHITE = (255, 255, 255)


def pixels_of(url: str) -> list[list[Any]]:
    """The colours of an icon, row by row."""
    with pictures.open(io.BytesIO(base64.b64decode(url.removeprefix(PREFIX), validate=True))) as image:
        assert (image.format, image.size) == ("PNG", (SIZE_PIXELS, SIZE_PIXELS))
        seen = image.convert("RGB")
    return [[seen.getpixel((x, y)) for x in range(SIZE_PIXELS)] for y in range(SIZE_PIXELS)]


@pytest.mark.parametrize(
    ("provider", "name", "colour"),
    [("anthropic", "Anthropic", (0xD0, 0x72, 0x50)), ("z-ai", "Z.AI", (0x2D, 0x5B, 0xFF))],
)
def test_a_known_provider_has_its_colour(provider: str, name: str, colour: tuple[int, int, int]) -> None:
    """The letter is white, in the middle, and leaves the edges to the colour."""
    rows = pixels_of(icon(provider, name))
    edges = [*rows[0], *rows[-1], *(row[0] for row in rows), *(row[-1] for row in rows)]
    assert set(edges) == {colour}
    white = [(x, y) for y, row in enumerate(rows) for x, seen in enumerate(row) if seen == WHITE]
    assert 60 < len(white) < 400
    assert {offset for pair in white for offset in pair} <= set(range(8, 40))


def test_each_letter_has_its_shape() -> None:
    """Every letter and digit is another one, and a name without any has a dash."""
    names = [*string.ascii_uppercase, *string.digits, "…"]
    shapes = {icon("someone", name) for name in names}
    assert len(shapes) == len(names)
    assert icon("someone", "(m)") == icon("someone", "Mistral")


def test_other_providers_get_a_colour_of_their_name() -> None:
    """The same one each time, dark enough for white, and another one for another name."""
    backgrounds = {pixels_of(icon(f"provider-{number}", "P"))[0][0] for number in range(40)}
    assert len(backgrounds) > 30
    assert max(sum(colour) for colour in backgrounds) < 480


def test_an_icon_is_small() -> None:
    """Seven hundred of them take less than half a megabyte."""
    assert max(len(icon("someone", letter)) for letter in string.ascii_uppercase) < 600


def test_without_pillow_there_is_no_icon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows its own; the package does not depend on it."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    icon.cache_clear()
    assert icon("openai", "OpenAI") == ""
    icon.cache_clear()
