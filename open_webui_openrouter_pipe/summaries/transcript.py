"""What turns say, as text: their words, their tool calls as facts, their attachments by name.

Owns reading that out of items, and making text from a conversation unable to end the frame it is put in. It
must not choose what is worth keeping.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from ..conversation.conversation import Turn
from ..conversation.tool_facts import state_fact, state_parts
from ..conversation.truncate import truncate_middle
from ..responses.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    is_function_call,
    is_function_call_output,
    is_message,
    is_reasoning,
)

ARGUMENTS_CHARACTERS = 160
HEAD_SHARE = 0.6
CUT_MARGIN = 0.9
READ_CHARACTERS = 400_000
"""Of a text; reading all figures of five megabytes would hold up others for seconds."""
CUT_ATTEMPTS = 10

_FRAME = re.compile(
    r"<(?=\s{0,9}/?\s{0,9}(?:conversation|user|assistant|system|developer|tool_call|first_user_message|"
    r"last_user_message)\b)",
    re.IGNORECASE,
)
_UNSEEN = ("input_image", "input_audio", "input_video")
_UNNAMED_FIELDS = frozenset({"type", "id", "status", "result", "encrypted_content"})
_UNSAID_FIELDS = _UNNAMED_FIELDS | {"call_id", "role", "file_data", "data"}


def message_text(message: Message) -> str:
    """The text of a message, whoever wrote it."""
    texts = [part["text"] for part in message["content"] if part["type"] in {"input_text", "output_text"}]
    return "\n".join(texts)


def turn_text(turn: Turn, role: Literal["user", "assistant"]) -> str:
    """What one side wrote in a turn."""
    messages = (entry.item for entry in turn.entries if is_message(entry.item))
    return "\n".join(message_text(message) for message in messages if message["role"] == role)


def attachment_names(turns: Sequence[Turn]) -> tuple[str, ...]:
    """The attachments of the messages: files by name, pictures, sound and film by number."""
    return _attachments([item for item in _items(turns) if is_message(item)])


def tool_lines(turns: Sequence[Turn]) -> tuple[str, ...]:
    """One line for each tool call, identical ones once with their number, where the last of them stands."""
    times: dict[tuple[str, str], int] = {}
    for turn in turns:
        for call, fact in _calls(turn):
            times[call, fact] = times.pop((call, fact), 0) + 1
    return tuple(_call_line(call, fact, number) for (call, fact), number in times.items())


def all_texts(turns: Sequence[Turn]) -> Iterator[str]:
    """All that was said and done, of huge texts both ends; without reasoning and the bytes of media."""
    texts = (text for item in _items(turns) if not is_reasoning(item) for text in _texts_in(item))
    return (end for text in texts for end in _ends(text))


def _ends(text: str) -> tuple[str, ...]:
    half = READ_CHARACTERS // 2
    return (text,) if len(text) <= READ_CHARACTERS else (text[:half], text[-half:])


def render_transcript(turns: Sequence[Turn]) -> str:
    """The turns as text in a frame of tags; tool outputs as facts, without reasoning."""
    return "\n".join(_framed(tag, text) for turn in turns for tag, text in _said_in(turn) if text)


def escape_frame_tags(text: str) -> str:
    """The text with its own tags of the frame made harmless."""
    return _FRAME.sub("\u2039", text)


def truncate_to_tokens(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """Head and tail of a text, within a number of tokens; nothing when not even that has room."""
    cut, keep = text, float(len(text))
    for _ in range(CUT_ATTEMPTS):
        found = count(cut)
        if found <= tokens:
            return cut
        keep *= CUT_MARGIN * max(0, tokens) / max(1, found)
        head = int(keep * HEAD_SHARE)
        cut = truncate_middle(text, head, int(keep) - head)
    return ""


def _items(turns: Sequence[Turn]) -> Iterator[Item]:
    return (entry.item for turn in turns for entry in turn.entries)


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if not value.startswith("data:"):
            yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in _UNSAID_FIELDS:
                yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def _attachments(messages: Sequence[Message]) -> tuple[str, ...]:
    parts = [part for message in messages for part in message["content"]]
    names = dict.fromkeys(_one_line(part["filename"]) for part in parts if part["type"] == "input_file")
    unseen = Counter(part["type"] for part in parts if part["type"] in _UNSEEN)
    others = (
        f"{number} {kind.removeprefix('input_')}{'' if number == 1 else 's'}, not shown any more"
        for kind, number in unseen.items()
    )
    return (*names, *others)


def _calls(turn: Turn) -> Iterator[tuple[str, str]]:
    """Each call with the fact of its output."""
    outputs = {item["call_id"]: item for item in _items([turn]) if is_function_call_output(item)}
    for item in _items([turn]):
        if is_function_call(item):
            output = outputs.get(item["call_id"])
            yield _call(item), _fact(output) if output else ""
        elif item["type"].endswith("_call"):
            yield _hosted_call(item), ""


def _call(call: FunctionCall) -> str:
    return f"{_one_line(call['name'])}({_cut(_one_line(call['arguments']))})"


def _hosted_call(item: Any) -> str:
    """A call that the provider ran itself: the fields that say what it was."""
    shown = {name: value for name, value in item.items() if name not in _UNNAMED_FIELDS}
    return f"{item['type'].removesuffix('_call')}({_cut(json.dumps(shown, ensure_ascii=False))})"


def _fact(output: FunctionCallOutput) -> str:
    said = output["output"]
    return _one_line(state_fact(said) if isinstance(said, str) else state_parts(said))


def _call_line(call: str, fact: str, times: int = 1) -> str:
    often = f" \u00d7{times}" if times > 1 else ""
    return f"{call}{often}: {fact}" if fact else f"{call}{often}"


def _said_in(turn: Turn) -> Iterator[tuple[str, str]]:
    """What happened in a turn, each with the tag of its frame."""
    calls = _calls(turn)
    for item in _items([turn]):
        if is_message(item):
            names = (f"[attached: {name}]" for name in _attachments([item]))
            yield item["role"], "\n".join([message_text(item), *names]).strip()
        elif item["type"].endswith("_call"):
            yield "tool_call", _call_line(*next(calls))


def _framed(tag: str, text: str) -> str:
    return f"<{tag}>\n{escape_frame_tags(text)}\n</{tag}>"


def _one_line(text: str) -> str:
    return " ⏎ ".join(line.strip() for line in text.splitlines() if line.strip())


def _cut(text: str) -> str:
    return text if len(text) <= ARGUMENTS_CHARACTERS else f"{text[:ARGUMENTS_CHARACTERS]}…"
