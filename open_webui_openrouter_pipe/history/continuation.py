"""A round of the current turn that the pipe has answered itself, added to a history that was read before.

The next request of the turn must hold what later turns will read of it: the round becomes the messages in which the
host will hand it back, and these are read by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ..responses.items import Item, is_function_call, is_message, is_reasoning
from ..responses.wire import as_list, as_object, as_text
from .carriers import Reference, read_call_name, visible_chars, write_reference
from .markers import leading_markers, standalone_markers
from .reading import History, read_messages


def with_round(
    history: History,
    items: Sequence[Item],
    *,
    artifact_ids: Mapping[int, str],
    outputs: Mapping[str, str],
    messages_before: int,
    in_text: bool = False,
) -> History:
    """Return the history with a round at its end.

    `items` is the round's output as the host has it, `artifact_ids` are by index what was stored of it, `outputs` by
    call id what the calls returned. `messages_before` is how many messages were read so far. `in_text`: all markers
    stand in the text.
    """
    calls = [item for item in items if is_function_call(item) and item["call_id"] in outputs]
    functions = [
        {
            "id": call["call_id"],
            "function": {"name": call["name"], "arguments": call["arguments"] or "{}"},
        }
        for call in calls
    ]
    texts, references = _marked(items, artifact_ids, in_text=in_text)
    said = {
        "role": "assistant",
        "content": "\n".join(texts),
        "tool_calls": functions,
        "reasoning_details": [*map(write_reference, references)],
    }
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


def _marked(
    items: Sequence[Item], artifact_ids: Mapping[int, str], *, in_text: bool
) -> tuple[list[str], list[Reference]]:
    """Return the texts of the round's messages, and its references: markers where the host will have them.

    What was stored up to a message is marked before it: beside the reasoning if there was any, or else in the text.
    """
    texts: list[str] = []
    references: list[Reference] = []
    waiting: list[int] = []
    has_reasoning, phase = False, ""

    def mark(write: Callable[[Iterable[str]], str]) -> str:
        ulids = {index: artifact_ids[index] for index in waiting}
        waiting.clear()
        if not has_reasoning:
            return write(ulid for index, ulid in ulids.items() if not _names(items[index], ulid))
        references.extend(Reference(_count(texts), ulid=ulid) for ulid in ulids.values())
        return ""

    for index, item in enumerate(items):
        waiting += [index] if index in artifact_ids else []
        has_reasoning = has_reasoning or (is_reasoning(item) and not in_text)
        if is_message(item):
            markers, begun = mark(leading_markers), as_text(item.get("phase"))
            if has_reasoning and begun != phase:
                references.append(Reference(_count(texts), phase=begun))
                phase = begun
            texts.append(f"{markers}{_text(item)}")
    texts.append(mark(standalone_markers))
    return [*filter(None, texts)], references


def _count(texts: Iterable[str]) -> int:
    return sum(map(visible_chars, texts))


def _names(item: Item, ulid: str) -> bool:
    """Whether the id of a call names its artifact."""
    name = read_call_name(as_text(cast("Mapping[str, Any]", item).get("call_id")))
    return name is not None and name.ulid == ulid


def _text(item: Item) -> str:
    parts: list[dict[str, Any]] = [
        as_object(part) for part in as_list(cast("Mapping[str, Any]", item)["content"])
    ]
    return "".join(as_text(part.get("text")) or as_text(part.get("refusal")) for part in parts)
