"""Blocks that a host or a model folded into assistant text: reasoning, tool calls, code interpreter.

Older versions of Open WebUI write what an answer did as `<details>` blocks with escaped attributes into its text; some
models write `<think>` tags. Owns parsing them. Only a block that begins a line, is closed and stands outside of code
blocks counts; anything else is text and stays to the byte. Whether a text has such blocks of the host's, or a model's
words that look like them, whoever calls must know: nothing in a text can prove it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any, TypeAlias

from ..responses.values import as_list, as_object, as_text, json_text, read_json, unescape
from .markers import closed_fences, is_within
from .parts import read_call_id

_OPENING = re.compile(
    r"^[ \t]*(?:(?P<details><details\s)(?P<attributes>[^<>]*)>"
    r"|(?P<symbol><(?:think|thinking|reason|reasoning|thought|Thought)>|<\|begin_of_thought\|>|◁think▷))",
    re.MULTILINE,
)
_SYMBOL_ENDS = {"<|begin_of_thought|>": "<|end_of_thought|>", "◁think▷": "◁/think▷"}
_DETAILS_END = "</details>"
_DETAILS_TAG = re.compile(rf"<details\b|{_DETAILS_END}")
_ID_IN_TAG = re.compile(r'<details\s[^<>]*(?<![\w-])id="([^"]*)"', re.IGNORECASE)
_ATTRIBUTE = re.compile(r'(?<![\w-])([\w-]+)="([^"]*)"')
_SUMMARY_TAG, _SUMMARY_END = "<summary>", "</summary>"
_SYMBOL = "◁"


@dataclass(frozen=True, slots=True)
class FoldedCall:
    """A tool call with its result, None while it had none."""

    call_id: str
    name: str
    arguments: Any
    result: Any


Piece: TypeAlias = str | FoldedCall


@dataclass(frozen=True, slots=True)
class _Block:
    """A block's offsets in the text, what it holds, and whether it is one that the host writes."""

    start: int
    end: int
    pieces: tuple[Piece, ...]
    is_details: bool = False


def may_hold_blocks(text: str) -> bool:
    """Whether it is worth looking for blocks in a text."""
    return "<" in text or _SYMBOL in text


def holds_details(text: str) -> bool:
    """Whether a text holds what older hosts write: more than thoughts between tags."""
    return "<details" in text and any(block.is_details for block in _blocks(text))


def quoted_calls(text: str) -> list[str]:
    """Return the ids of the calls whose blocks any text quotes, wherever and however they stand there."""
    found = (each for way in {text, unescape(text)} for each in _ID_IN_TAG.findall(way))
    return [read_call_id(unescape(call_id)) for call_id in found]


def unfold(text: str, *, with_details: bool = True, quoted: Container[str] = ()) -> list[Piece]:
    """Divide assistant text into plain text and the calls folded into it; folded reasoning is omitted.

    Without details, the host's blocks are text; so are those of calls that are quoted, or that have no id with which
    an output could be paired. Plain text loses the newlines that touch a block. Text without blocks is returned as it
    is.
    """
    blocks = [
        block
        for block in (_blocks(text) if may_hold_blocks(text) else ())
        if not block.is_details or (with_details and _are_known(block.pieces, quoted))
    ]
    if not blocks:
        return [text]
    pieces: list[Piece] = []
    done = 0
    for block in [*blocks, _Block(len(text), len(text), ())]:
        plain = text[done : block.start]  # newlines at the outer ends of the whole text stay
        plain = plain.lstrip("\n") if done else plain
        plain = plain.rstrip("\n") if block.start < len(text) else plain
        pieces += [plain] if plain.strip() else []
        pieces += block.pieces
        done = block.end
    return pieces


def _are_known(pieces: Iterable[Piece], quoted: Container[str]) -> bool:
    return all(isinstance(each, str) or (each.call_id and each.call_id not in quoted) for each in pieces)


def _blocks(text: str) -> Iterator[_Block]:
    fences, ends = closed_fences(text), _details_ends(text)
    absent: set[str] = set()
    done = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < done or is_within(opening.start(), fences):
            continue
        block = _thought(text, opening, absent) if opening["symbol"] else _details(text, opening, ends)
        if block:
            done = block.end  # of one that is text everything is text
            yield block


def _thought(text: str, opening: re.Match[str], absent: set[str]) -> _Block | None:
    """A block of reasoning; `absent` are the ends that are not found any more, and not looked for again."""
    end_tag = _SYMBOL_ENDS.get(opening["symbol"]) or f"</{opening['symbol'][1:]}"
    start = -1 if end_tag in absent else text.find(end_tag, opening.end())
    if start < 0:
        absent.add(end_tag)
        return None
    return _Block(opening.start(), start + len(end_tag), ())


def _details_ends(text: str) -> dict[int, int]:
    """By the offsets at which details begin those at which they end."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for tag in _DETAILS_TAG.finditer(text):
        if tag[0] != _DETAILS_END:
            opened.append(tag.start())
        elif opened:
            ends[opened.pop()] = tag.end()
    return ends


def _details(text: str, opening: re.Match[str], ends: Mapping[int, int]) -> _Block | None:
    attributes = {name: unescape(value) for name, value in _ATTRIBUTE.findall(opening["attributes"])}
    read = _READERS.get(attributes.get("type", ""))
    end = ends.get(opening.start("details"))
    if read is None or end is None:
        return None
    body = text[opening.end() : end - len(_DETAILS_END)]
    head, opened, rest = body.partition(_SUMMARY_TAG)
    _shown, closed, tail = rest.partition(_SUMMARY_END)
    pieces = read(attributes, f"{head.rstrip()}{tail}" if opened and closed else body)
    return _Block(opening.start(), end, pieces, is_details=True)


def _tool_call(attributes: Mapping[str, str], body: str) -> tuple[Piece, ...]:
    """The result stands in an attribute, or in later versions in the body; `done="false"` means none yet."""
    inner = unescape(body.strip())
    done = attributes.get("done") != "false" and ("result" in attributes or bool(inner))
    result = _decoded(attributes.get("result") or inner) if done else None
    result = "null" if done and result is None else result  # a tool may return null, which is a result
    arguments = _decoded(attributes.get("arguments", ""))
    return (FoldedCall(read_call_id(attributes.get("id")), attributes.get("name", ""), arguments, result),)


def _code_interpreter(attributes: Mapping[str, str], body: str) -> tuple[Piece, ...]:
    """The code block in the body is text already; what it printed joins it."""
    output = _decoded(attributes.get("output", ""))
    if isinstance(output, dict):
        output = output.get("stdout") or output.get("result") or output.get("stderr") or ""
    shown = (output if isinstance(output, str) else json_text(output)).rstrip()
    longest = max((len(run) for run in re.findall(r"`{3,}", shown)), default=2)
    fence = "`" * (longest + 1)
    printed = f"{fence}output\n{shown}\n{fence}" if shown else ""
    text = "\n".join(filter(None, (body.strip("\n"), printed)))
    return (text,) if text else ()


_READERS: Mapping[str, Callable[[Mapping[str, str], str], tuple[Piece, ...]]] = {
    "tool_calls": _tool_call,
    "code_interpreter": _code_interpreter,
    "reasoning": lambda _attributes, _body: (),
}


def _decoded(text: str) -> Any:
    """JSON inside an attribute; other text stays text."""
    return read_json(text, text)


TOOL_IMAGES_TEXT = "Here are the images from the tool results above. Please analyze them."
"""The text of the user message in which the host sends images of tool results."""

_FINISHED = ("completed", "failed", "rejected")
"""States of a call that the host replays."""

Message = dict[str, Any]


def unfold_output(output: Iterable[Any]) -> list[Message]:
    """Return the assistant, tool and user messages that the host would send for the answer.

    A call is kept only if its result follows its message directly, a result only if its call is there.
    """
    items = [item for item in output if isinstance(item, dict)]
    finished = {
        as_text(item.get("call_id"))
        for item in items
        if item.get("type") == "function_call" and item.get("status") in _FINISHED
    }
    replayed = finished & {as_text(item.get("call_id")) for item in items if _is_result(item)} - {""}
    sent = (item for item in items if not _is_result(item) or as_text(item.get("call_id")) in replayed)
    messages: list[Message] = []
    for is_result, group in groupby(sent, key=_is_result):
        found = [*group]
        messages += results_as_messages(found) if is_result else _answer(found, replayed)
    kept: list[Message] = []
    paired: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            kept += [message] if message["tool_call_id"] in paired else []
            continue
        calls = message.pop("tool_calls", [])
        later = map(messages.__getitem__, range(index + 1, len(messages)))
        results = takewhile(lambda each: each["role"] == "tool", later)
        paired = {call["id"] for call in calls} & {result["tool_call_id"] for result in results}
        if paired:
            kept.append({**message, "tool_calls": [call for call in calls if call["id"] in paired]})
        elif not calls or message["content"].strip():
            kept.append(message)
    return kept


def _is_result(item: Message) -> bool:
    return bool(item.get("type") == "function_call_output")


def _answer(items: Iterable[Message], replayed: Container[str]) -> list[Message]:
    """The assistant message of what stands between results, none where that says and calls nothing."""
    texts: list[str] = []
    calls: list[Message] = []
    details: list[Any] = []
    for item in items:
        match as_text(item.get("type")):
            case "message":
                parts = [as_object(part) for part in as_list(item.get("content"))]
                said = (as_text(part.get("text")) for part in parts if part.get("type") == "output_text")
                texts += filter(None, ["".join(said)])
            case "function_call" if (call_id := as_text(item.get("call_id"))) in replayed:
                provided = item.get("provider_function")
                source = provided if isinstance(provided, dict) else item
                function = {"name": source.get("name", ""), "arguments": source.get("arguments", "{}")}
                calls.append({"id": call_id, "type": "function", "function": function})
            case "reasoning":
                found = item.get("reasoning_details")
                details += found if isinstance(found, list) else [found] if found else []
            case "open_webui:code_interpreter":
                printed = item.get("output")
                if isinstance(printed, dict):
                    printed = printed.get("stdout") or printed.get("result")
                if code := item.get("code"):
                    texts.append(f"<code_interpreter>\n{code}\n</code_interpreter>")
                if printed:
                    texts.append(f"<code_interpreter_output>\n{printed}\n</code_interpreter_output>")
    message: Message = {"role": "assistant", "content": "\n".join(texts)}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"reasoning_details": details} if details else {}
    return [message] if texts or len(message) > 2 else []


def results_as_messages(items: Iterable[Message]) -> list[Message]:
    """Return the tool messages of results, and the user message of their images."""
    messages: list[Message] = []
    images: list[Message] = []
    for item in items:
        text = output = item.get("output")
        if not isinstance(output, str):
            parts = [part for part in as_list(output) if isinstance(part, dict)]
            texts = (part.get("text", "") for part in parts if part.get("type") == "input_text")
            text = "".join(text if isinstance(text, str) else json.dumps(text) for text in texts)
            urls = (as_text(part.get("image_url")) for part in parts if part.get("type") == "input_image")
            images += ({"type": "image_url", "image_url": {"url": url}} for url in urls if url)
        messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": text})
    if images:
        content = [{"type": "text", "text": TOOL_IMAGES_TEXT}, *images]
        messages.append({"role": "user", "content": content})
    return messages
