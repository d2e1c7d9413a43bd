"""The typed elements of Responses `input[]` and `output[]`, after the schema in OpenRouter's Python SDK (`openrouter`).

Items are JSON objects that travel unchanged between provider, store and provider, so they stay dicts (TypedDicts:
checked by name, tolerant of fields that a provider adds) and keep their key order: prompt caches compare the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict, TypeGuard, cast

from .values import as_text, base64_of, decode, host_file_id, is_web_address

Status = Literal["in_progress", "completed", "incomplete"]
Detail = Literal["auto", "low", "high", "original"]
Phase = Literal["commentary", "final_answer"]


class InputText(TypedDict):
    """Text of a user, system or developer message."""

    type: Literal["input_text"]
    text: str


class InputImage(TypedDict):
    """An image by https or data URL; `detail` is required by OpenRouter."""

    type: Literal["input_image"]
    detail: Detail
    image_url: str


class InputFile(TypedDict):
    """A document, inline as data URL or by URL; providers want a filename. `file_id` is the host's, never sent."""

    type: Literal["input_file"]
    filename: str
    file_data: NotRequired[str]
    file_url: NotRequired[str]
    file_id: NotRequired[str]


class AudioData(TypedDict):
    """Base64 audio without a data URL prefix."""

    data: str
    format: Literal["mp3", "wav"]


class InputAudio(TypedDict):
    """Spoken input."""

    type: Literal["input_audio"]
    input_audio: AudioData


class InputVideo(TypedDict):
    """A video by https or data URL."""

    type: Literal["input_video"]
    video_url: str


InputPart: TypeAlias = InputText | InputImage | InputFile | InputAudio | InputVideo


class OutputText(TypedDict):
    """Text of an assistant message; annotations are citations."""

    type: Literal["output_text"]
    text: str
    annotations: list[dict[str, Any]]


class Refusal(TypedDict):
    """A model's refusal to answer."""

    type: Literal["refusal"]
    refusal: str


OutputPart: TypeAlias = OutputText | Refusal


class InputMessage(TypedDict):
    """A message of a user, or an instruction."""

    type: Literal["message"]
    role: Literal["user", "system", "developer"]
    content: list[InputPart]


class AssistantMessage(TypedDict):
    """The model's message; with typed parts the schema requires id and status on replay."""

    type: Literal["message"]
    role: Literal["assistant"]
    id: str
    status: Status
    content: list[OutputPart]
    phase: NotRequired[str | None]


class SummaryText(TypedDict):
    """One paragraph of a reasoning summary."""

    type: Literal["summary_text"]
    text: str


class ReasoningText(TypedDict):
    """Raw reasoning."""

    type: Literal["reasoning_text"]
    text: str


class Reasoning(TypedDict):
    """The model's reasoning, replayed unmodified and in its original position."""

    type: Literal["reasoning"]
    id: str
    summary: list[SummaryText]
    content: NotRequired[list[ReasoningText]]
    encrypted_content: NotRequired[str | None]
    signature: NotRequired[str | None]
    format: NotRequired[str | None]
    status: NotRequired[Status]


class FunctionCall(TypedDict):
    """A call of a tool; `arguments` is JSON text."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: NotRequired[str]
    status: NotRequired[Status]


class FunctionCallOutput(TypedDict):
    """A tool's result for the call with the same `call_id`."""

    type: Literal["function_call_output"]
    call_id: str
    output: str | list[InputPart]
    id: NotRequired[str]
    status: NotRequired[Status]


class OpaqueItem(TypedDict):
    """Any other item (hosted tools, compaction, ...): kept and replayed as it is."""

    type: str
    id: NotRequired[str]
    status: NotRequired[str]


Message: TypeAlias = InputMessage | AssistantMessage
Item: TypeAlias = Message | Reasoning | FunctionCall | FunctionCallOutput | OpaqueItem


def is_message(item: Item) -> TypeGuard[Message]:
    """Whether the item is a message of any role."""
    return item["type"] == "message"


def is_reasoning(item: Item) -> TypeGuard[Reasoning]:
    """Whether the item is reasoning."""
    return item["type"] == "reasoning"


def is_function_call(item: Item) -> TypeGuard[FunctionCall]:
    """Whether the item is a function call."""
    return item["type"] == "function_call"


def is_function_call_output(item: Item) -> TypeGuard[FunctionCallOutput]:
    """Whether the item is the output of a function call."""
    return item["type"] == "function_call_output"


_KINDS: Final = frozenset({"image_generation_call", "openrouter:image_generation"})
_FIELDS: Final = ("imageUrl", "result", "imageB64")
_BEGINNING_CHARACTERS: Final = 256
"""Enough for the head of a data URL and the bytes by which a picture's type is known."""
_TYPES: Final[Mapping[bytes, str]] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""The raster images that providers read and pages draw, by their first bytes; WebP's begin with a size."""


def is_picture(item: Item) -> bool:
    """Whether the item is a picture that was drawn, or should have been."""
    return item["type"] in _KINDS


def image_type(content: bytes) -> str | None:
    """Return the media type of a raster image by its first bytes; None for anything else, such as SVG."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _TYPES.items() if content.startswith(start)), None)


def without_unusable(item: Item) -> Item:
    """Return a picture's item as a provider may send it: a raster image inline, or a web address, and nothing else."""
    kept = {
        name: value
        for name, value in item.items()
        if name not in _FIELDS or not value or is_web_address(value) or _inline_type(as_text(value))
    }
    return cast("Item", kept) if len(kept) < len(item) else item


def inline_picture(item: Item) -> str:
    """Return the base64 text or data URL of a raster image that the item holds, "" without one."""
    return next((address for address in _addresses(item) if _inline_type(address)), "")


def with_picture(item: Item, address: str) -> Item:
    """Return the item with a data URL, or the path of a file of the host, as its only picture."""
    others = {name: value for name, value in item.items() if name not in _FIELDS}
    return cast("Item", {**others, "result": address})


def picture_address(item: Item) -> str:
    """Return from where a page draws the picture: a data URL, a path of the host or a web address; "" without one."""
    for address in _addresses(item):
        if is_web_address(address) or host_file_id(address):
            return address
        if kind := _inline_type(address):
            return address if len(base64_of(address)) < len(address) else f"data:{kind};base64,{address}"
    return ""


def _addresses(item: Item) -> list[str]:
    fields = cast("Mapping[str, Any]", item)
    return [text for name in _FIELDS if (text := as_text(fields.get(name)))] if is_picture(item) else []


def _inline_type(address: str) -> str | None:
    """The media type of an inline picture, by its beginning alone."""
    return image_type(decode(address, limit_characters=_BEGINNING_CHARACTERS))
