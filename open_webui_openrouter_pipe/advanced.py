"""What only experts set: the names that the valve `ADVANCED` may hold, as JSON, each with default, limits and help."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError

from .conversation.budget import CLIP_RANGE_MESSAGES, Pruning
from .host.native import Carrier
from .media.choice import ImageSelection
from .openrouter.search import SearchEngine
from .turn.bill import NearLimit
from .turn.recorder import ReasoningRetention
from .valve_fields import ValveFields, explain, readable

_EXAMPLE: Final = '{"RETRY_SECONDS": 60}'

ReasoningSummary = Literal["auto", "concise", "detailed", "off"]
Quantization = Literal[
    "int4", "int8", "fp4", "mxfp4", "nvfp4", "fp6", "fp8", "mxfp8", "fp16", "bf16", "fp32", "unknown"
]  # fmt: skip


def _known_quantizations(value: str) -> str:
    """Refuse a name that OpenRouter does not know: it would refuse every request."""
    unknown = {name.strip() for name in value.split(",")} - {"", *get_args(Quantization)}
    if unknown:
        raise ValueError(f"unknown quantizations: {', '.join(sorted(unknown))}")
    return value


def _current_carrier(value: object) -> object:
    """Read the name that `auto` had in earlier releases."""
    return "auto" if value == "hidden" else value


class Advanced(ValveFields):
    """What `ADVANCED` may hold; a title is the group under which the documentation lists it."""

    model_config = ConfigDict(extra="forbid")

    SYNC_MODEL_INFO: bool = Field(
        default=True,
        title="Models",
        description=(
            "Fill Open WebUI's entry of each model with its name, description, icon, tags and capabilities from "
            "OpenRouter's list. What an administrator has edited there stays."
        ),
    )
    VARIANTS: str = Field(
        default="",
        title="Models",
        description=(
            "Variants and presets that are offered as models of their own, separated by commas, such as "
            "`openai/gpt-5*:nitro`, `anthropic/*@preset/team` or `@preset/team`. Patterns apply to offered models."
        ),
        json_schema_extra={"stands_for": "none"},
    )
    STATUS_ENTRY: Literal["auto", "always"] = Field(
        default="auto",
        title="Models",
        description=(
            "When an entry in the list of models says how things stand. `auto`: when the key or the list is in "
            "trouble, or nothing is left to offer. `always`: in a chat it answers administrators with the key's usage "
            "and limits."
        ),
    )
    REASONING_SUMMARY: ReasoningSummary = Field(
        default="auto",
        title="Models",
        description="How models sum up what they think, unless a user chooses. `off`: not at all.",
    )
    INTERLEAVED_THINKING: bool = Field(
        default=True,
        title="Models",
        description="Models of Anthropic think between two calls of tools too.",
    )
    FALLBACK_MODELS: str = Field(
        default="",
        title="Models",
        description=(
            "Ids of models that answer when the chosen one cannot, in this order, separated by commas; at most three, "
            "of those that are offered. A chat is then kept to the smallest of their windows."
        ),
        json_schema_extra={"stands_for": "none"},
    )
    NEAR_LIMIT: NearLimit = Field(
        default="thrifty",
        title="Cost",
        description=(
            "What is done from 80 % of a spending limit on. `thrifty`: chats are shortened as with that `CONTEXT_AIM`. "
            "`flex`: besides, the cheaper and slower service tier where OpenAI or Google has one. `floor`: besides, "
            "the cheapest provider."
        ),
    )
    MAX_PRICE_INPUT: float = Field(
        default=0.0,
        ge=0,
        title="Cost",
        description="The most that a million tokens of input may cost.",
        json_schema_extra={"unit": "US dollars", "stands_for": "no limit"},
    )
    MAX_PRICE_OUTPUT: float = Field(
        default=0.0,
        ge=0,
        title="Cost",
        description="The most that a million tokens of output may cost.",
        json_schema_extra={"unit": "US dollars", "stands_for": "no limit"},
    )
    SERVICE_TIER: Literal["default", "auto", "flex", "priority"] = Field(
        default="default",
        title="Cost",
        description="OpenAI's service tier: `flex` is cheaper and slower, `priority` the reverse.",
    )
    CACHE_TTL: Literal["auto", "5m", "1h"] = Field(
        default="auto",
        title="Cost",
        description=(
            "How long Anthropic keeps a chat in its cache; an hour costs more to write. `auto`: whichever would have "
            "cost less with the pauses of this chat so far."
        ),
    )
    CONTEXT_MAX_OUTPUT_TOKENS: int = Field(
        default=0,
        ge=0,
        title="Context",
        description=(
            "Tokens kept free for the answer and its thinking when the request sets no limit; at most a quarter of "
            "the model's window."
        ),
        json_schema_extra={"unit": "tokens", "stands_for": "as many as the model can write"},
    )
    ASSUMED_CONTEXT_TOKENS: int = Field(
        default=0,
        ge=0,
        title="Context",
        description=(
            "Window to assume for a model of which OpenRouter's list names none. With 0 the chat is sent whole, and "
            "only shortened once the provider has named its window."
        ),
        json_schema_extra={"unit": "tokens", "stands_for": "none"},
    )
    SUMMARY_TRIGGER_RATIO: float = Field(
        default=0.70,
        gt=0,
        le=1,
        title="Context",
        description=(
            "Share of the room that the model's window leaves for a chat from which on old turns are summarized. Below "
            "it, nothing of a `faithful` chat is summarized or shortened. Above it, old turns make room for as many "
            "new ones as `TOOL_OUTPUT_RETENTION_TURNS`; that many of the newest are left alone until pruning is due."
        ),
    )
    SUMMARY_AHEAD_RATIO: float = Field(
        default=0.60,
        gt=0,
        le=1,
        title="Context",
        description=(
            "Share of the same room from which on the next summary is written in the background after an answer, so "
            "that it is ready when the trigger is reached. A `thrifty` chat also has it written when the next turn is "
            "expected to need it. 1: never in advance."
        ),
    )
    SUMMARY_TURN_TRIGGER: int = Field(
        default=0,
        ge=0,
        title="Context",
        description="Summarize after this many turns even if they are short.",
        json_schema_extra={"unit": "turns", "stands_for": "off"},
    )
    SUMMARY_TIMEOUT_SECONDS: float = Field(
        default=60.0,
        gt=0,
        title="Context",
        description=(
            "How long writing a summary may take, and how long a user waits for summaries at most. After that the "
            "chat is shortened without them, and they are written beside it."
        ),
        json_schema_extra={"unit": "seconds"},
    )
    PROTECTED_RECENT_TURNS: int = Field(
        default=4,
        ge=1,
        title="Context",
        description="Newest turns, including the current one, that are neither summarized nor pruned.",
        json_schema_extra={"unit": "turns"},
    )
    PRUNE_TRIGGER_RATIO: float = Field(
        default=0.90,
        gt=0,
        le=1,
        title="Context",
        description="Share of the same room from which on old turns are shortened.",
    )
    TOOL_OUTPUT_RETENTION_TURNS: int = Field(
        default=10,
        ge=1,
        title="Context",
        description="Newest turns, including the current one, whose tool results are sent in full.",
        json_schema_extra={"unit": "turns"},
    )
    TOOL_OUTPUT_PRUNING: Pruning = Field(
        default="batched",
        title="Context",
        description=(
            "When older tool results are shortened to a line of facts. `batched`: all at once, when that saves more "
            "than it costs; in a `faithful` chat not below `SUMMARY_TRIGGER_RATIO`, and before turns would be pruned. "
            "`every_turn`: as soon as they are old enough. `off`: never for their age."
        ),
    )
    RECALL_TOOL: bool = Field(
        default=True,
        title="Context",
        description=(
            "Let models look up what was shortened, summarized or omitted of their chat: once anything was, they are "
            "offered the tool `recall`, which runs inside the pipe."
        ),
    )
    CLIP_LAST_MESSAGES: int = Field(
        default=4,
        ge=CLIP_RANGE_MESSAGES[0],
        le=CLIP_RANGE_MESSAGES[1],
        title="Context",
        description=(
            "Messages that the strategy `clip` sends, not counting the system prompt; if the oldest one is an answer, "
            "its question is kept too."
        ),
        json_schema_extra={"unit": "messages"},
    )
    CLIP_MIN_MESSAGES: int = Field(
        default=5,
        ge=1,
        title="Context",
        description="Chats with fewer messages are not clipped.",
        json_schema_extra={"unit": "messages"},
    )
    STEADY_SYSTEM_PROMPT: bool = Field(
        default=True,
        title="Context",
        description=(
            "Send a chat's system prompt as it was with its first message, and what has changed in it since, such as a "
            "clock or Open WebUI's memories, behind the chat: so the provider's cache holds. A prompt that somebody "
            "has edited, or of which much has changed, is sent anew. Off: always as Open WebUI has it."
        ),
    )
    WEB_SEARCH_ENGINE: SearchEngine = Field(
        default="auto",
        title="Search",
        description="Who searches for OpenRouter. `auto`: the provider itself, or else Exa.",
    )
    WEB_SEARCH_MAX_RESULTS: int = Field(
        default=5,
        ge=1,
        le=25,
        title="Search",
        description="Results of one search at most.",
        json_schema_extra={"unit": "results"},
    )
    WEB_SEARCH_MAX_SEARCHES: int = Field(
        default=5,
        ge=1,
        title="Search",
        description="Searches, and pages read, of one request at most.",
        json_schema_extra={"unit": "searches"},
    )
    WEB_FETCH: bool = Field(
        default=True,
        title="Search",
        description="A model that may search may read whole pages too.",
    )
    MAX_INPUT_IMAGES_PER_REQUEST: int = Field(
        default=20,
        ge=0,
        title="Attachments",
        description=(
            "How many images a request may hold. With one more, the oldest go until half as many are left: so the "
            "provider's cache is lost once, and not with each further image. 0: any number."
        ),
        json_schema_extra={"unit": "images"},
    )
    IMAGE_INPUT_SELECTION: ImageSelection = Field(
        default="conversation",
        title="Attachments",
        description=(
            "Which images are sent. `conversation`: those of the whole chat. `user_turn_only`: those of the current "
            "turn. `user_then_assistant`: those of the current message, or where it has none the latest that a model "
            "or a tool has made."
        ),
    )
    MAX_ATTACHMENT_MB: int = Field(
        default=20,
        ge=1,
        title="Attachments",
        description="Size of the largest file that is sent to a model or downloaded.",
        json_schema_extra={"unit": "megabytes"},
    )
    MAX_REQUEST_ATTACHMENTS_MB: int = Field(
        default=50,
        ge=0,
        title="Attachments",
        description=(
            "Size of all attachments of a request together. With more, the oldest go until half of it is left. 0: any "
            "size."
        ),
        json_schema_extra={"unit": "megabytes"},
    )
    DOWNLOAD_HOSTS: str = Field(
        default="",
        title="Attachments",
        description=(
            "Host names inside your network, separated by commas, from which images and files may be downloaded. All "
            "others must have public addresses and use HTTPS."
        ),
        json_schema_extra={"stands_for": "none"},
    )
    SAVE_ATTACHMENTS: bool = Field(
        default=True,
        title="Attachments",
        description=(
            "Pictures that models draw, and what is downloaded from addresses in a chat, are stored once in Open "
            "WebUI's file storage."
        ),
    )
    USER_PARAMETERS: str = Field(
        default="",
        title="Users",
        description=(
            "Which parameters that can cost more, or change who sees the data, users may send themselves, separated by "
            "commas: `models` (fallbacks, of those offered), `provider`, `plugins`, `server_tools`, `service_tier`, "
            "`cache_control`, `prompt_cache_options`, `stop_server_tools_when`. Administrators may send all, and what "
            "they set for a model always holds."
        ),
        json_schema_extra={"stands_for": "none of these"},
    )
    PROVIDER_ORDER: str = Field(
        default="",
        title="Providers",
        description=(
            "Providers to be asked first, in this order, separated by commas. OpenRouter then no longer keeps a chat "
            "with the provider that has it cached."
        ),
        json_schema_extra={"stands_for": "OpenRouter chooses"},
    )
    PROVIDER_ONLY: str = Field(
        default="",
        title="Providers",
        description=(
            "The only providers that may answer, separated by commas. Here and below, what a user or a model's "
            "parameters add can only be stricter."
        ),
        json_schema_extra={"stands_for": "all providers"},
    )
    PROVIDER_IGNORE: str = Field(
        default="",
        title="Providers",
        description="Providers that never answer, separated by commas.",
        json_schema_extra={"stands_for": "none"},
    )
    PROVIDER_SORT: Literal["default", "price", "throughput", "latency"] = Field(
        default="default",
        title="Providers",
        description="Which providers come first, unless a user chooses. `default`: OpenRouter balances the load.",
    )
    QUANTIZATIONS: Annotated[str, AfterValidator(_known_quantizations)] = Field(
        default="",
        title="Providers",
        description="The only precisions that models may be served in, such as `bf16, fp8`.",
        json_schema_extra={"stands_for": "all"},
    )
    DATA_COLLECTION: Literal["allow", "deny"] = Field(
        default="allow",
        title="Providers",
        description="`deny`: only providers that do not collect what users write.",
    )
    REQUIRE_PARAMETERS: bool = Field(
        default=False,
        title="Providers",
        description="Only providers that support every parameter of a request.",
    )
    PERSIST_REASONING_TOKENS: ReasoningRetention = Field(
        default="conversation",
        title="Storage",
        description=(
            "How long a model's encrypted reasoning is kept, to be sent to it again: not at all (`disabled`), until "
            "the next reply is complete, or as long as the chat."
        ),
    )
    PERSIST_TOOL_RESULTS: bool = Field(
        default=True,
        title="Storage",
        description="Keep the original tool calls, and results that Open WebUI drops, to send them again unchanged.",
    )
    MARKER_CARRIER: Annotated[Carrier, BeforeValidator(_current_carrier)] = Field(
        default="auto",
        title="Storage",
        description=(
            "Where the references to stored items are kept. `auto`: beside the reasoning, which Open WebUI returns to "
            "the same model only, and in the ids of tool calls; in the text where there is neither. `text`: always in "
            "the text of the answer, where Copy and Edit show them, and where every model finds them."
        ),
    )
    ENCRYPT_ALL: bool = Field(
        default=True,
        title="Storage",
        description="Encrypt every stored item. Off: only reasoning is encrypted, and the rest is legible but signed.",
    )
    ACCEPT_UNSEALED_ARTIFACTS: bool = Field(
        default=False,
        title="Storage",
        description=(
            "Read items that were stored neither encrypted nor signed, and encrypt them when they are read. While it "
            "is on, whoever can write to the database can put anything into a chat."
        ),
    )
    REQUEST_TIMEOUT_SECONDS: float = Field(
        default=300.0,
        gt=0,
        title="Requests",
        description="How long to wait for the first byte of an answer, and between two parts of it.",
        json_schema_extra={"unit": "seconds"},
    )
    RETRY_SECONDS: float = Field(
        default=30.0,
        ge=0,
        title="Requests",
        description=(
            "How long a request is tried again, with three tries in all at most, when OpenRouter or a provider is "
            "busy or away for the moment and nothing of the answer was shown yet. A status line counts down. 0: never."
        ),
        json_schema_extra={"unit": "seconds"},
    )
    MAX_REQUESTS: int = Field(
        default=500,
        ge=0,
        title="Requests",
        description=(
            "How many requests run at once in each server process. More wait in a short queue, one user after the "
            "other, chats before titles and tags. 0: any number."
        ),
        json_schema_extra={"unit": "requests"},
    )
    MAX_REQUESTS_PER_USER: int = Field(
        default=0,
        ge=0,
        title="Requests",
        description="How many requests of one user run at once in each server process.",
        json_schema_extra={"unit": "requests", "stands_for": "any number"},
    )
    HTTP_REFERER: str = Field(
        default="",
        title="Requests",
        description="Address of your site, sent to OpenRouter for its statistics.",
        json_schema_extra={"stands_for": "none"},
    )
    APP_TITLE: str = Field(
        default="Open WebUI",
        title="Requests",
        description="Name of your site in OpenRouter's statistics.",
    )


@lru_cache(maxsize=16)
def read_advanced(text: str) -> Advanced:
    """Read the JSON text. Raises ValueError that says what is wrong, without values."""
    try:
        return Advanced.model_validate(_read_object(text))
    except ValidationError as error:
        raise ValueError(explain(error, Advanced)) from None


def gather_advanced(valves: Mapping[str, Any]) -> dict[str, Any]:
    """Move what `ADVANCED` may hold, and is given by its own name, into it; what it has already stays.

    An `ADVANCED` that is not such a text stays as it is.
    """
    by_name = {name: value for name, value in valves.items() if name in Advanced.model_fields}
    others = {name: value for name, value in valves.items() if name not in by_name}
    text = others.get("ADVANCED", "")
    if by_name and isinstance(text, str):
        with suppress(ValueError):
            others["ADVANCED"] = _write_object({**by_name, **_read_object(text)})
    return others


def readable_advanced(stored: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Gather what is stored, and leave out of `ADVANCED` what cannot be read; also return the names of that."""
    lost: tuple[str, ...] = ()
    try:
        _read_object(stored.get("ADVANCED", ""))
    except (AttributeError, ValueError):
        stored, lost = {name: value for name, value in stored.items() if name != "ADVANCED"}, ("ADVANCED",)
    gathered = gather_advanced(stored)
    kept, unreadable = readable(Advanced, _read_object(gathered.get("ADVANCED", "")))
    if unreadable:
        gathered["ADVANCED"] = _write_object(kept)
    return gathered, (*lost, *unreadable)


def _read_object(text: str) -> dict[str, Any]:
    """Read a JSON object, {} from an empty text. Raises ValueError that says where it ends being one."""
    try:
        value = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"this is not JSON like {_EXAMPLE}: {error.msg}, {where}") from None
    except (ValueError, RecursionError):
        raise ValueError("this JSON has numbers too long or levels too deep") from None
    if not isinstance(value, dict):
        raise ValueError(f"names and values are needed, such as {_EXAMPLE}")  # noqa: TRY004 - pydantic reports this one
    return value


def _write_object(values: Mapping[str, Any]) -> str:
    """Write a JSON object for people to read; "" for none."""
    return json.dumps(values, ensure_ascii=False, indent=2, default=str) if values else ""
