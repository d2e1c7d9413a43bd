"""A round of the current turn that the pipe has answered itself, added to a history that was read before.

The next request of the turn must hold what later turns will read of it: the round becomes the messages in which the
host will hand it back, and these are read by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ..responses.items import Item, is_function_call, is_message
from ..responses.wire import as_list, as_object, as_text
from .markers import leading_markers, standalone_markers
from .reading import History, read_messages


def with_round(
    history: History,
    items: Sequence[Item],
    *,
    artifact_ids: Mapping[int, str],
    outputs: Mapping[str, str],
    messages_before: int,
) -> History:
    """Return the history with a round at its end.

    `items` is the round's output as the host has it, `artifact_ids` are by index what was stored of it, `outputs` by
    call id what the calls returned. `messages_before` is how many messages were read so far.
    """
    calls = [item for item in items if is_function_call(item) and item["call_id"] in outputs]
    functions = [
        {
            "id": call["call_id"],
            "function": {"name": call["name"], "arguments": call["arguments"] or "{}"},
        }
        for call in calls
    ]
    said = {"role": "assistant", "content": "\n".join(_texts(items, artifact_ids)), "tool_calls": functions}
    returned = [
        {"role": "tool", "tool_call_id": call["call_id"], "content": outputs[call["call_id"]]}
        for call in calls
    ]
    added = read_messages([said, *returned], first_index=messages_before)
    return replace(
        history,
        turns=(*history.turns[:-1], (*history.turns[-1], *added.turns[0])),
        wanted=tuple(dict.fromkeys((*history.wanted, *added.wanted))),
        repairs=(*history.repairs, *added.repairs),
    )


def _texts(items: Sequence[Item], artifact_ids: Mapping[int, str]) -> Iterator[str]:
    """Yield the texts of the round's messages, behind the markers of what was stored up to them."""
    markers: list[str] = []
    for index, item in enumerate(items):
        markers += [artifact_ids[index]] if index in artifact_ids else []
        if is_message(item):
            yield from filter(None, [f"{leading_markers(markers)}{_text(item)}"])
            markers = []
    yield from filter(None, [standalone_markers(markers)])


def _text(item: Item) -> str:
    parts: list[dict[str, Any]] = [
        as_object(part) for part in as_list(cast("Mapping[str, Any]", item)["content"])
    ]
    return "".join(as_text(part.get("text")) or as_text(part.get("refusal")) for part in parts)
