"""The typed elements of Responses `input[]` and `output[]`, after the schema in OpenRouter's Python SDK (`openrouter`).

Items are JSON objects that travel unchanged between provider, store and provider, so they stay dicts (TypedDicts:
checked by name, tolerant of fields that a provider adds) and keep their key order: prompt caches compare the bytes.

Two tables hold what differs by type, `ITEM_KINDS` and `PART_KINDS`: whoever treats types apart reads it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict, TypeGuard, cast, get_args

from .values import as_text, base64_of, decode, host_file_id, is_web_address

Status = Literal["in_progress", "completed", "incomplete"]
Detail = Literal["auto", "low", "high", "original"]
Phase = Literal["commentary", "final_answer"]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
"""The phases of an assistant message that the schema knows."""


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
    """Base64 audio without a data URL prefix; /responses takes the formats "mp3" and "wav" alone."""

    data: str
    format: str


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


class ReasoningPart(TypedDict):
    """One paragraph of a summary, or of the raw reasoning."""

    type: Literal["summary_text", "reasoning_text"]
    text: str


class Reasoning(TypedDict):
    """The model's reasoning, replayed unmodified and in its original position."""

    type: Literal["reasoning"]
    id: str
    summary: list[ReasoningPart]
    content: NotRequired[list[ReasoningPart]]
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


_STATUSES: Final = ("in_progress", "completed", "incomplete")
_WITH_FAILED: Final = ("in_progress", "completed", "failed")


@dataclass(frozen=True, slots=True)
class ItemKind:
    """What is particular to a type of item."""

    required: Mapping[str, type] | None = field(default_factory=dict)
    """Fields without which it cannot be sent again; None where the input schema knows no such type."""
    statuses: tuple[str, ...] = _STATUSES
    """What its status may be, last what stands for any other; none where it may be anything."""
    output: str = ""
    """The type of its output, which has the same `call_id`."""
    answered_by: Literal["model", "nobody"] = "model"
    """Nobody: it waits for an answer of the client, which no chat can hold, so that it is never sent."""
    missing: str = "[A stored item is no longer available.]"
    """What stands in its place when it is lost; "" for what was never shown, or what the host shows itself."""
    id_prefix: str = ""
    """How ids of its type begin, where we make some."""
    drawn_as: str = ""
    """The type as which the host draws it, "" for none."""
    lines: tuple[str, ...] = ()
    """The names of the lines that say that its work has begun, and that nothing is known of what came of it."""
    is_picture: bool = False
    """Whether it is a picture that was drawn, or should have been."""


_CALL: Final = ItemKind({"call_id": str}, missing="")
_OUTPUT: Final = replace(_CALL, missing="[The stored result of a tool call is no longer available.]")
_PICTURE: Final = ItemKind(
    {"status": str}, missing="[A stored image is no longer available.]", is_picture=True
)
_SEARCH: Final = ItemKind({"status": str}, drawn_as="web_search_call", lines=("searching", "searched"))
_SERVER_TOOL: Final = ItemKind({"status": str}, drawn_as="function_call")
_SERVER_TOOLS: Final = (
    "advisor", "apply_patch", "bash", "browser_use", "code_interpreter", "experimental__search_models",
    "file_search", "files", "fusion", "mcp", "memory", "shell", "subagent", "text_editor", "tool_search",
)  # fmt: skip

ITEM_KINDS: Final[Mapping[str, ItemKind]] = {
    "message": ItemKind(missing="", id_prefix="msg", drawn_as="message"),
    "reasoning": ItemKind(missing="", id_prefix="rs", drawn_as="reasoning"),
    "function_call": replace(_CALL, output="function_call_output", id_prefix="fc", drawn_as="function_call"),
    "function_call_output": replace(_OUTPUT, id_prefix="fco"),
    "apply_patch_call": ItemKind(
        {"call_id": str, "operation": dict, "status": str},
        ("in_progress", "completed"),
        "apply_patch_call_output",
        missing="",
    ),
    "apply_patch_call_output": replace(
        _OUTPUT, required={"call_id": str, "status": str}, statuses=("completed", "failed")
    ),
    "code_interpreter_call": ItemKind({"id": str, "status": str}),
    "compaction": ItemKind({"encrypted_content": str}, ()),
    "computer_call": ItemKind(
        {"call_id": str, "pending_safety_checks": list, "status": str}, answered_by="nobody", missing=""
    ),
    "context_compaction": ItemKind(statuses=()),
    "custom_tool_call": replace(
        _CALL, required={"call_id": str, "input": str, "name": str}, output="custom_tool_call_output"
    ),
    "custom_tool_call_output": replace(_OUTPUT, required={"call_id": str, "output": object}, statuses=()),
    "file_search_call": ItemKind({"id": str, "queries": list, "status": str}, _WITH_FAILED),
    "image_generation_call": replace(_PICTURE, required={"id": str, "status": str}, statuses=_WITH_FAILED),
    "local_shell_call": ItemKind(
        {"action": dict, "call_id": str, "id": str, "status": str}, answered_by="nobody", missing=""
    ),
    "mcp_approval_request": ItemKind(
        {"arguments": str, "id": str, "name": str, "server_label": str}, (), answered_by="nobody", missing=""
    ),
    "mcp_call": ItemKind({"arguments": str, "id": str, "name": str, "server_label": str}, ()),
    "mcp_list_tools": ItemKind({"id": str, "server_label": str, "tools": list}, ()),
    "openrouter:armor_blocked": ItemKind(
        dict.fromkeys(("arguments", "call_id", "explanation", "id", "name", "reason", "status"), str)
    ),
    "openrouter:datetime": replace(_SERVER_TOOL, required={"datetime": str, "status": str, "timezone": str}),
    "openrouter:image_generation": replace(_PICTURE, drawn_as="function_call"),
    "openrouter:web_fetch": replace(_SERVER_TOOL, lines=("reading_page", "searched")),
    "openrouter:web_search": _SEARCH,
    "shell_call": replace(_CALL, required={"action": dict, "call_id": str}, output="shell_call_output"),
    "shell_call_output": replace(_OUTPUT, required={"call_id": str, "output": list}),
    "tool_search_call": replace(
        _CALL, required={"call_id": str, "execution": str}, output="tool_search_output"
    ),
    "tool_search_output": replace(_OUTPUT, required={"call_id": str, "execution": str, "tools": list}),
    "web_search_call": replace(
        _SEARCH, required={"id": str, "status": str}, statuses=_WITH_FAILED, id_prefix="ws"
    ),
    **{f"openrouter:{tool}": _SERVER_TOOL for tool in _SERVER_TOOLS},
}
"""What is particular to each type of item; the source is the schema of OpenRouter's input items."""

UNKNOWN_ITEM: Final = ItemKind(required=None)
"""Of types that are not in the table."""

CALL_TYPES: Final[Mapping[str, str]] = {kind.output: name for name, kind in ITEM_KINDS.items() if kind.output}
"""By the types of outputs those of their calls."""


def kind_of(item_type: str) -> ItemKind:
    """What is particular to a type of item."""
    return ITEM_KINDS.get(item_type, UNKNOWN_ITEM)


Modality = Literal["image", "file", "audio", "video"]


@dataclass(frozen=True, slots=True)
class PartKind:
    """What is particular to a type of part that is no text."""

    modality: Modality
    plural: str
    """What a note calls several of them."""
    host_types: tuple[str, ...]
    """The types as which the host and others send it."""
    source: tuple[str, ...]
    """The fields that may hold its content, or the address of it."""
    media_types: tuple[str, ...] = ()
    """The types of files that are sent as such a part; any other file is a document."""
    in_outputs: bool = False
    """Whether a tool's output may hold it."""


PART_KINDS: Final[Mapping[str, PartKind]] = {
    "input_image": PartKind(
        "image", "images", ("image_url", "input_image"), ("image_url",),
        ("image/png", "image/jpeg", "image/webp", "image/gif"), in_outputs=True,
    ),
    "input_file": PartKind(
        "file", "files", ("file", "input_file"), ("file_data", "file_url"), in_outputs=True
    ),
    "input_audio": PartKind("audio", "audio", ("input_audio",), ("data",), ("audio/mpeg", "audio/wav")),
    "input_video": PartKind(
        "video", "video", ("video_url", "input_video"), ("video_url",),
        ("video/mp4", "video/mpeg", "video/quicktime", "video/webm"),
    ),
}  # fmt: skip
"""What is particular to each type of part that is no text."""
NOT_IN_OUTPUTS: Final = {kind.modality for kind in PART_KINDS.values() if not kind.in_outputs}
"""What no tool's output may hold."""

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
    return kind_of(item["type"]).is_picture


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
