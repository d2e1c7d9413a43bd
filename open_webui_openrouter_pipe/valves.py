"""Admin valves and user valves as Open WebUI shows them: each field's default, limits and help."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from .conversation.budget import CLIP_RANGE_MESSAGES, Aim, Pruning, Strategy
from .engine.recorder import ReasoningRetention
from .host.model_sync import AccessFor
from .host.native import Carrier
from .media.choice import Documents, ImageSelection, PdfEngine
from .notices import notice
from .openrouter.client import DEFAULT_BASE_URL

AspectRatio = Literal["auto", "1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"]
ImageSize = Literal["auto", "1K", "2K", "4K"]

_PASSWORD: dict[str, Any] = {"input": {"type": "password"}}

USER_LIMITS: Final = ("CONTEXT_AIM", "CLIP_LAST_MESSAGES", "CLIP_BYPASS", "SUMMARY_BYPASS")
"""The user valves by which users change what the administrator has set for their chats."""


class Valves(BaseModel):
    """What an administrator sets, for all users."""

    API_KEY: str = Field(
        default="",
        title="API key",
        description="API key of OpenRouter. Empty: the environment variable OPENROUTER_API_KEY.",
        json_schema_extra=_PASSWORD,
    )
    BASE_URL: str = Field(
        default=DEFAULT_BASE_URL,
        title="Base URL",
        description="Address of the OpenRouter API, without the trailing slash.",
    )
    MODELS: str = Field(
        default="*",
        description=(
            "Which models are offered: patterns separated by commas, such as `anthropic/*, openai/gpt-5*`. "
            "A pattern that begins with `!` excludes models."
        ),
    )
    SYNC_MODEL_INFO: bool = Field(
        default=True,
        description=(
            "Fill Open WebUI's entry of each model with its name, description, icon, tags and capabilities from "
            "OpenRouter's list. What an administrator has edited there stays."
        ),
    )
    NEW_MODEL_ACCESS: str = Field(
        default="private",
        description=(
            "Who may use a model that is new in the list: `private` (administrators), `public` (everybody), or the "
            "names of groups separated by commas."
        ),
    )
    MODEL_ACCESS_APPLIES_TO: AccessFor = Field(
        default="new",
        description=(
            "`new`: `NEW_MODEL_ACCESS` is set once, when a model first appears, and what an administrator sets for a "
            "model afterwards stays. `all`: all offered models have that access, and what was set for single models "
            "is replaced."
        ),
    )
    USER_PARAMETERS: str = Field(
        default="",
        description=(
            "Which parameters that can cost more, or change who sees the data, users may send themselves, separated by "
            "commas: `models` (fallbacks, of those offered), `provider`, `plugins`, `server_tools`, `service_tier`, "
            "`cache_control`, `prompt_cache_options`, `stop_server_tools_when`. Administrators may send all, and what "
            "they set for a model always holds."
        ),
    )
    PERSIST_REASONING_TOKENS: ReasoningRetention = Field(
        default="conversation",
        description=(
            "How long a model's sealed reasoning is kept for replay: not at all, until the next reply is complete, "
            "or as long as the chat."
        ),
    )
    PERSIST_TOOL_RESULTS: bool = Field(
        default=True,
        description="Keep the original tool calls, and results that Open WebUI drops, for exact replay.",
    )
    SAVE_ATTACHMENTS: bool = Field(
        default=True,
        description=(
            "Pictures that models draw, and what is downloaded from addresses in a chat, are stored once in Open "
            "WebUI's file storage."
        ),
    )
    MARKER_CARRIER: Carrier = Field(
        default="text",
        description=(
            "Where the references to stored items are kept: in the text of the answer, where only Copy and Edit show "
            "them, or hidden beside the reasoning, which Open WebUI returns to the same model only."
        ),
    )
    ARTIFACT_ENCRYPTION_KEY: str = Field(
        default="",
        description=(
            "Passphrase that seals stored items, of 16 characters or more. Empty: Open WebUI's secret key. Several, "
            "separated by commas or lines: the first seals, the others still open older items."
        ),
        json_schema_extra=_PASSWORD,
    )
    ENCRYPT_ALL: bool = Field(
        default=True,
        description="Seal every stored item. Off: only reasoning is sealed, and the rest is legible but signed.",
    )
    ACCEPT_UNSEALED_ARTIFACTS: bool = Field(
        default=False,
        description=(
            "Read items that were stored with neither seal nor signature, and seal them when they are read. While it "
            "is on, whoever can write to the database can put anything into a chat."
        ),
    )
    ARTIFACT_CLEANUP_DAYS: int = Field(
        default=90, ge=0, description="Days after its last use at which a stored item is deleted. 0: never."
    )
    CONTEXT_STRATEGY: Strategy = Field(
        default="summarize",
        description=(
            "What happens when a chat outgrows the model's window. `summarize`: old turns are replaced by summaries, "
            "which are kept. `prune`: old turns are shortened, then dropped, oldest first. `clip`: only the last "
            "messages are sent, always. `refuse`: an error says what uses up the context. `off`: everything is sent, "
            "and the provider decides."
        ),
    )
    CONTEXT_AIM: Aim = Field(
        default="faithful",
        description=(
            "How far chats are shortened. `faithful`: what fits is sent; old turns are summarized, and old tool "
            "results shortened, only from `SUMMARY_TRIGGER_RATIO` on. `thrifty`: summaries replace old turns at the "
            "size at which the chat costs least at the model's prices, often far below that; the newest "
            "`PROTECTED_RECENT_TURNS` stay. With other strategies than `summarize`, only old tool results go by it."
        ),
    )
    CONTEXT_MAX_OUTPUT_TOKENS: int = Field(
        default=0,
        ge=0,
        description=(
            "Tokens kept free for the answer and its thinking when the request sets no limit; at most a quarter of "
            "the window. 0: as many as the model can write."
        ),
    )
    ASSUMED_CONTEXT_TOKENS: int = Field(
        default=0,
        ge=0,
        description=(
            "Window to assume for a model of which OpenRouter's list names none. 0: none; the chat is sent whole, and "
            "only shortened once the provider has named its window."
        ),
    )
    SUMMARY_TRIGGER_RATIO: float = Field(
        default=0.70,
        gt=0,
        le=1,
        description=(
            "Share of the input budget from which on old turns are summarized. Below it, nothing of a `faithful` chat "
            "is summarized or shortened. Above it, old turns make room for as many new ones as "
            "`TOOL_OUTPUT_RETENTION_TURNS`; that many of the newest are left alone until pruning is due."
        ),
    )
    SUMMARY_AHEAD_RATIO: float = Field(
        default=0.60,
        gt=0,
        le=1,
        description=(
            "Share of the input budget from which on the next summary is written in the background after an answer, so "
            "that it is ready when the trigger is reached. A `thrifty` chat also has it written when the next turn is "
            "expected to need it. 1: never in advance."
        ),
    )
    SUMMARY_TURN_TRIGGER: int = Field(
        default=0, ge=0, description="Summarize after this many turns even if they are short. 0: off."
    )
    SUMMARY_MODEL: str = Field(
        default="",
        description=(
            "OpenRouter id of a model that writes the summaries, such as `openai/gpt-5-mini`. Empty: the chat's own "
            "model, which reads the chat from its cache."
        ),
    )
    SUMMARY_TIMEOUT_SECONDS: float = Field(
        default=60.0,
        gt=0,
        description=(
            "How long writing a summary may take, and how long a user waits for summaries at most. After that the "
            "chat is shortened without them, and they are written beside it."
        ),
    )
    PROTECTED_RECENT_TURNS: int = Field(
        default=4,
        ge=1,
        description="Newest turns, including the current one, that are neither summarized nor pruned.",
    )
    PRUNE_TRIGGER_RATIO: float = Field(
        default=0.90,
        gt=0,
        le=1,
        description="Shorten old turns once a request uses this share of the input budget.",
    )
    TOOL_OUTPUT_RETENTION_TURNS: int = Field(
        default=10,
        ge=1,
        description="Newest turns, including the current one, whose tool results are sent in full.",
    )
    TOOL_OUTPUT_PRUNING: Pruning = Field(
        default="batched",
        description=(
            "When older tool results are shortened to a line of facts. `batched`: all at once, when that saves more "
            "than it costs; in a `faithful` chat not below `SUMMARY_TRIGGER_RATIO`, and before turns would be pruned. "
            "`every_turn`: as soon as they are old enough. `off`: never for their age."
        ),
    )
    CLIP_LAST_MESSAGES: int = Field(
        default=4,
        ge=CLIP_RANGE_MESSAGES[0],
        le=CLIP_RANGE_MESSAGES[1],
        description=(
            "Messages that `clip` sends, not counting the system prompt; if the oldest one is an answer, its question "
            "is kept too."
        ),
    )
    CLIP_MIN_MESSAGES: int = Field(default=5, ge=1, description="Chats with fewer messages are not clipped.")
    ENABLE_USER_OVERRIDE: bool = Field(
        default=False,
        description=(
            f"Let users set their own {', '.join(f'`{name}`' for name in USER_LIMITS)}. Off: what they have set there "
            "is not followed, which the valves and a status line tell them."
        ),
    )
    DOCUMENTS: Documents = Field(
        default="auto",
        description=(
            "How documents that users attach to a message reach the model. `auto`: as they are, wherever the model or "
            "OpenRouter's parser reads them. `native`: as they are, only where the model itself reads them. `host`: "
            "never as they are. What is not sent as it is, Open WebUI gives to the model in excerpts."
        ),
    )
    PDF_ENGINE: PdfEngine = Field(
        default="auto",
        title="PDF engine",
        description=(
            "What reads PDFs. `native`: the model, for the price of its input. `cloudflare-ai`: free, text only. "
            "`mistral-ocr`: also scanned pages, for about 2 dollars per 1,000 pages. `auto`: the model where it reads "
            "files, and otherwise `cloudflare-ai`."
        ),
    )
    MAX_INPUT_IMAGES_PER_REQUEST: int = Field(
        default=20,
        ge=0,
        description=(
            "How many images a request may hold. With one more, the oldest go until half as many are left: so the "
            "provider's cache is lost once, and not with each further image. 0: any number."
        ),
    )
    IMAGE_INPUT_SELECTION: ImageSelection = Field(
        default="conversation",
        description=(
            "Which images are sent. `conversation`: those of the whole chat. `user_turn_only`: those of the current "
            "turn. `user_then_assistant`: those of the current message, or where it has none the latest that a model "
            "or a tool has made."
        ),
    )
    MAX_ATTACHMENT_MB: int = Field(
        default=20,
        ge=1,
        title="Max attachment MB",
        description="Size of the largest file, in megabytes, that is sent to a model or downloaded.",
    )
    MAX_REQUEST_ATTACHMENTS_MB: int = Field(
        default=50,
        ge=0,
        title="Max request attachments MB",
        description=(
            "Size of all attachments of a request together, in megabytes. With more, the oldest go until half of it is "
            "left. 0: any size."
        ),
    )
    DOWNLOAD_HOSTS: str = Field(
        default="",
        description=(
            "Host names inside your network, separated by commas, from which images and files may be downloaded. All "
            "others must have public addresses and use HTTPS."
        ),
    )
    REQUEST_TIMEOUT_SECONDS: float = Field(
        default=300.0,
        gt=0,
        description="How long to wait for the first byte of an answer, and between two parts of it.",
    )
    HTTP_REFERER: str = Field(
        default="",
        title="HTTP referer",
        description="Address of your site, sent to OpenRouter for its statistics. Empty: none.",
    )
    APP_TITLE: str = Field(default="Open WebUI", description="Name of your site in OpenRouter's statistics.")


class UserValves(BaseModel):
    """What each user may set, for their own chats."""

    PERSIST_REASONING_TOKENS: Literal["inherit", "disabled", "next_reply", "conversation"] = Field(
        default="inherit",
        description="How long a model's sealed reasoning is kept for replay. `inherit`: as the administrator set it.",
    )
    CONTEXT_AIM: Literal["inherit", "faithful", "thrifty"] = Field(
        default="inherit",
        description=(
            "How far my chats are shortened. `faithful`: not before they are large for the model's window. "
            "`thrifty`: to the size at which they cost least. `inherit`: as the administrator set it."
        ),
    )
    IMAGE_ASPECT_RATIO: AspectRatio = Field(
        default="auto",
        description="Width to height of the pictures that models draw for me. `auto`: the model chooses.",
    )
    IMAGE_SIZE: ImageSize = Field(
        default="auto",
        description="Size of the pictures that models draw for me; larger ones cost more. `auto`: the model chooses.",
    )
    CLIP_LAST_MESSAGES: int = Field(
        default=0,
        ge=0,
        le=CLIP_RANGE_MESSAGES[1],
        description="Where chats are clipped: how many messages are sent. 0: as the administrator set it.",
    )
    CLIP_BYPASS: bool = Field(default=False, description="Do not clip my chats.")
    SUMMARY_BYPASS: bool = Field(
        default=False, description="Do not summarize my chats; what does not fit is shortened instead."
    )


class _UserValvesWithoutLimits(UserValves):
    """The same where users may not change their limits: its texts say so."""

    model_config = ConfigDict(title="UserValves")

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Return what Open WebUI shows."""
        schema = super().model_json_schema(*args, **options)
        for name in USER_LIMITS:
            schema["properties"][name]["description"] += f" {notice('user_limit_has_no_effect')}"
        return schema


def user_valves_class(valves: Valves) -> type[UserValves]:
    """Return the class that describes the user's valves as these valves have them."""
    return UserValves if valves.ENABLE_USER_OVERRIDE else _UserValvesWithoutLimits
