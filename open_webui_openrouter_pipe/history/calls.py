"""What tool calls and answers say, in whatever form they come.

Owns the reading of values. Which call belongs to which answer is decided in `tool_pairs`.
"""

from __future__ import annotations

import json
from typing import Any

from ..responses.items import InputPart
from .cleaning import TOO_DEEP, clean_text, json_text
from .parts import flatten, left_out, read_content

_OUTPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})
"""Parts that an output may hold."""


def read_output(content: Any) -> str | list[InputPart]:
    """Read a tool's answer: text where it is text, parts where it holds more, JSON for anything else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return clean_text(content)
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        return flatten(read_parts(content))
    return json_text(content)


def read_parts(content: list[Any]) -> list[InputPart]:
    """Read a tool's answer as parts; what an output cannot hold is named instead."""
    return [
        part if part["type"] in _OUTPUT_PARTS else left_out(part["type"].removeprefix("input_"))
        for part in read_content(content)
    ]


def read_arguments(arguments: Any) -> str:
    """Give a call's arguments as JSON text of an object; anything else is wrapped as its `input`."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    if isinstance(arguments, str) and is_object(arguments):
        return clean_text(arguments)
    text = json_text(arguments if isinstance(arguments, dict) else {"input": arguments})
    return json_text({"input": TOO_DEEP}) if text == TOO_DEEP else text


def is_object(text: str) -> bool:
    """Tell whether the text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def same_arguments(one: str, other: str) -> bool:
    """Compare two JSON texts by what they say; the host writes a call's arguments anew."""
    try:
        return bool(one == other or json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False
