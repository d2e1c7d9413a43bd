"""The stand-in's pictures: real PNGs whose colours say what they follow from."""

from __future__ import annotations

import io

import pytest

from scripts.standin.drawing import COLOURS, colour_of, draw, frame_colour, middle_colour


@pytest.mark.parametrize(
    ("ratio", "size"), [("1:1", (64, 64)), ("16:9", (64, 36)), ("9:16", (36, 64)), ("21:9", (64, 27))]
)
def test_a_picture_is_a_png_of_the_wanted_shape(ratio: str, size: tuple[int, int]) -> None:
    """Another library reads it, pixel by pixel."""
    image_module = pytest.importorskip("PIL.Image")
    with image_module.open(io.BytesIO(draw("Make it blue.", draw("a red house"), ratio))) as image:
        image.load()
        middle = image.getpixel((size[0] // 2, size[1] // 2))
        assert (image.format, image.size, image.mode) == ("PNG", size, "RGB")
        assert (image.getpixel((0, 0)), middle) == (COLOURS["red"], COLOURS["blue"])


def test_an_edited_picture_has_the_colour_of_the_one_before_for_a_frame() -> None:
    """A new one is of one colour."""
    first = draw("a red house")
    second = draw("Make it blue.", first)
    assert (frame_colour(first), middle_colour(first)) == (COLOURS["red"],) * 2
    assert (frame_colour(second), middle_colour(second)) == (COLOURS["red"], COLOURS["blue"])
    assert frame_colour(draw("Make it black.", second)) == COLOURS["blue"]


def test_colours_follow_from_the_prompt() -> None:
    """The last one that it names; of a prompt without one, its text alone."""
    assert colour_of("not red but Green.") == COLOURS["green"]
    assert colour_of("a cat") == colour_of("a cat") != colour_of("a dog")


@pytest.mark.parametrize("picture", [b"", b"GIF89a", draw("red")[:60], b"\x89PNG\r\n\x1a\n" + b"x" * 90])
def test_any_other_picture_has_a_colour_too(picture: bytes) -> None:
    """One that follows from its bytes."""
    assert middle_colour(picture) == middle_colour(picture) != middle_colour(picture + b"1")
