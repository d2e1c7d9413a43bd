"""Shortening one tool output: its head and its tail stay, a note between them says what is left out.

Owns the cut only; which outputs are cut, and when, is decided in `context`. The result depends on the item
and the two lengths alone, so the same output is always cut to the same bytes.
"""

from __future__ import annotations

from typing import Any, cast

from ..responses.items import FunctionCallOutput

_NOTE = "\n[… {count} characters of this tool result left out …]\n"


def prune_tool_output(item: FunctionCallOutput, *, head_chars: int, tail_chars: int) -> FunctionCallOutput:
    """Shorten each text of an output to its first and last characters; what gains nothing stays.

    Images and files in the output are named instead of sent.
    """
    output = item["output"]
    if isinstance(output, str):
        pruned: Any = prune_text(output, head_chars=head_chars, tail_chars=tail_chars)
    else:
        pruned = [_pruned_part(part, head_chars, tail_chars) for part in cast("list[Any]", output)]
    return item if pruned == output else cast("FunctionCallOutput", {**item, "output": pruned})


def prune_text(text: str, *, head_chars: int, tail_chars: int) -> str:
    """Keep the head and the tail of a text; give the text itself when that would not make it shorter."""
    note = _NOTE.format(count=len(text) - head_chars - tail_chars)
    if len(text) <= head_chars + len(note) + tail_chars:
        return text
    return f"{text[:head_chars]}{note}{text[len(text) - tail_chars :]}"


def _pruned_part(part: dict[str, Any], head_chars: int, tail_chars: int) -> dict[str, Any]:
    if part["type"] != "input_text":
        return {"type": "input_text", "text": f"[{part['type'].removeprefix('input_')} left out]"}
    return {**part, "text": prune_text(part["text"], head_chars=head_chars, tail_chars=tail_chars)}
