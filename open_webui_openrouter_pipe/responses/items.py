"""The typed elements of Responses `input[]` and `output[]`, after the schema in OpenRouter's Python SDK (`openrouter`).

Items are JSON objects that travel unchanged between provider, store and provider, so they stay dicts (TypedDicts:
checked by name, tolerant of fields that a provider adds) and keep their key order: prompt caches compare the bytes.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, TypeGuard

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
