"""Images that an answer shows by Markdown, `![alt](address)`, as parts for the next turn.

Taken are files of the host, which are read with the user's rights like any other reference, and content inline. An
address on the web stays text: a model chose it, and nothing that a model chose is fetched. The text stays as it is to
the byte, but for content inline, which would be read as a million letters: a reference takes its place, by which a note
names the same image. What stands in code is not an image.
"""

from __future__ import annotations

import re
from typing import Final

from ..responses.inline import reference_of
from ..responses.items import InputPart
from .markers import closed_fences, inline_code, is_within
from .parts import read_content

_IMAGE: Final = re.compile(
    r"!\[[^\[\]\n]{0,400}\]\([ \t]{0,9}"
    r"(?P<address>/api/v1/files/[A-Za-z0-9_-]{1,64}(?:/content)?|"
    r"(?P<inline>(?i:data:image/[a-z0-9.+-]{1,40};base64,)[A-Za-z0-9+/_=-]++))"
    r"(?:[ \t]{1,9}\"[^\"\n]{0,400}\")?[ \t]{0,9}\)"
)


def take_images(text: str) -> tuple[str, list[InputPart]]:
    """Return the text of an answer with references in the place of inline content, and its images in their order."""
    if "!" not in text or "![" not in text:
        return text, []
    blocks, inline = closed_fences(text), inline_code(text)
    pieces: list[str] = []
    images: list[InputPart] = []
    done = 0
    for each in _IMAGE.finditer(text):
        if is_within(each.start(), blocks) or is_within(each.start(), inline):
            continue
        images += read_content([{"type": "image_url", "image_url": {"url": each["address"]}}])
        if each["inline"] and images[-1]["type"] == "input_image":
            pieces += [
                text[done : each.start("inline")],
                f"reference:{reference_of(images[-1]['image_url'])}",
            ]
            done = each.end("inline")
    return "".join([*pieces, text[done:]]), images
