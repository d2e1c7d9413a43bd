"""Admin valves and user valves as Open WebUI shows them: each field's default, limits and help."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from .conversation.budget import CLIP_RANGE_MESSAGES, Aim, Pruning, Strategy
from .engine.recorder import ReasoningRetention
from .engine.spending import CostLine, NearLimit
from .host.model_sync import AccessFor
from .host.native import Carrier
from .host.platform import host_secret
from .media.choice import Documents, ImageSelection, PdfEngine
from .openrouter.client import DEFAULT_BASE_URL
from .openrouter.identity import IdentityLevel
from .openrouter.search import SearchEngine, SearchMode
from .store.sealed_text import seal_text

AspectRatio = Literal["auto", "1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"]
ImageSize = Literal["auto", "1K", "2K", "4K"]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ReasoningSummary = Literal["auto", "concise", "detailed", "off"]
Quantization = Literal[
    "int4", "int8", "fp4", "mxfp4", "nvfp4", "fp6", "fp8", "mxfp8", "fp16", "bf16", "fp32", "unknown"
]  # fmt: skip

USER_CONTROLS: Final = (
    *("REASONING_EFFORT", "REASONING_SUMMARY", "WEB_SEARCH", "PROVIDER_SORT", "ZDR", "API_KEY"),
    *("IMAGE_ASPECT_RATIO", "IMAGE_SIZE"),
)
"""The user valves of which an administrator says whether users see them."""
OWN_KEY_PURPOSE: Final = "own API key"

_PASSWORD: dict[str, Any] = {"input": {"type": "password"}}

PROTECTIONS: Final = ("ZDR", "API_KEY")
"""The user valves without which nothing is sent, rather than by their defaults: who sees a chat, and who pays."""

USER_LIMITS: Final = ("CONTEXT_AIM", "RECALL", "CLIP_LAST_MESSAGES", "CLIP_BYPASS", "SUMMARY_BYPASS")
"""The user valves by which users change what the administrator has set for their chats."""


def _known_quantizations(value: str) -> str:
    """Refuse a name that OpenRouter does not know: it would refuse every request."""
    unknown = {name.strip() for name in value.split(",")} - {"", *get_args(Quantization)}
    if unknown:
        raise ValueError(f"unknown quantizations: {', '.join(sorted(unknown))}")
    return value


def _sealed_key(key: str) -> str:
    """Seal a key before anybody stores or shows it."""
    key = key.strip()
    return seal_text(key, host_secret(), purpose=OWN_KEY_PURPOSE) if key else ""


class Valves(BaseModel):
    """What an administrator sets, for all users."""

    API_KEY: str = Field(
        default="",
        title="API Key",
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
    MODEL_FILTERS: str = Field(
        default="",
        description=(
            "What every offered model must fulfil, separated by commas: `free`, `tools`, `vision` (reads images), "
            "`zdr` (some provider of it keeps no data), `newest` (of each family), `no-expiring`, `context>=128k` "
            "(tokens), `price<=2` (dollars per million input tokens). An unknown word offers nothing."
        ),
    )
    VARIANTS: str = Field(
        default="",
        description=(
            "Variants and presets that are offered as models of their own, separated by commas, such as "
            "`openai/gpt-5*:nitro`, `anthropic/*@preset/team` or `@preset/team`. Patterns apply to offered models."
        ),
    )
    STATUS_ENTRY: Literal["auto", "always"] = Field(
        default="auto",
        description=(
            "When an entry in the list of models says how things stand. `auto`: when the key or the list is in "
            "trouble, or nothing is left to offer. `always`: in a chat it answers administrators with the key's usage "
            "and limits."
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
    USER_CONTROLS: str = Field(
        default=", ".join(USER_CONTROLS),
        description=(
            "Which of their own valves users see, separated by commas; those that are not named are neither shown nor "
            "followed. `none`: none of these. Users' limits are for `ENABLE_USER_OVERRIDE`."
        ),
    )
    REASONING_EFFORT: Literal["default", Effort] = Field(
        default="default",
        description=(
            "How much models think where neither the chat nor the user says so; a model that does not support this "
            "effort gets the nearest one. `default`: as each model does by itself."
        ),
    )
    REASONING_SUMMARY: ReasoningSummary = Field(
        default="auto",
        description="How models sum up what they think, unless a user chooses. `off`: not at all.",
    )
    WEB_SEARCH: SearchMode = Field(
        default="off",
        description=(
            "Web search by OpenRouter, unless a user chooses; each search costs extra. `auto`: the model searches when "
            "it wants to. `on`: it has to. Models of Anthropic cannot be forced, and those without tools search with "
            "`on` alone."
        ),
    )
    WEB_SEARCH_BY: Literal["host", "openrouter"] = Field(
        default="host",
        description=(
            "Who searches where a user switches on Open WebUI's own web search: Open WebUI, or OpenRouter in its "
            "place. It never searches twice. With legacy function calling Open WebUI has always searched before."
        ),
    )
    WEB_SEARCH_ENGINE: SearchEngine = Field(
        default="auto", description="Who searches for OpenRouter. `auto`: the provider itself, or else Exa."
    )
    WEB_SEARCH_MAX_RESULTS: int = Field(default=5, ge=1, le=25, description="Results of one search at most.")
    WEB_SEARCH_MAX_SEARCHES: int = Field(
        default=5, ge=1, description="Searches, and pages read, of one request at most."
    )
    WEB_FETCH: bool = Field(default=True, description="A model that may search may read whole pages too.")
    PROVIDER_ORDER: str = Field(
        default="",
        description=(
            "Providers to be asked first, in this order, separated by commas. OpenRouter then no longer keeps a chat "
            "with the provider that has it cached."
        ),
    )
    PROVIDER_ONLY: str = Field(
        default="",
        description=(
            "The only providers that may answer, separated by commas. Here and below, what a user or a model's "
            "parameters add can only be stricter."
        ),
    )
    PROVIDER_IGNORE: str = Field(default="", description="Providers that never answer, separated by commas.")
    PROVIDER_SORT: Literal["default", "price", "throughput", "latency"] = Field(
        default="default",
        description="Which providers come first, unless a user chooses. `default`: OpenRouter balances the load.",
    )
    QUANTIZATIONS: Annotated[str, AfterValidator(_known_quantizations)] = Field(
        default="", description="The only precisions that models may be served in, such as `bf16, fp8`."
    )
    MAX_PRICE_INPUT: float = Field(
        default=0.0,
        ge=0,
        description="The most that a million tokens of input may cost, in dollars. 0: no limit.",
    )
    MAX_PRICE_OUTPUT: float = Field(
        default=0.0,
        ge=0,
        description="The most that a million tokens of output may cost, in dollars. 0: no limit.",
    )
    DATA_COLLECTION: Literal["allow", "deny"] = Field(
        default="allow", description="`deny`: only providers that do not collect what users write."
    )
    ZDR: bool = Field(
        default=False,
        title="Zero Data Retention",
        description="Only providers that keep nothing of a request.",
    )
    REQUIRE_PARAMETERS: bool = Field(
        default=False, description="Only providers that support every parameter of a request."
    )
    FALLBACK_MODELS: str = Field(
        default="",
        description=(
            "Ids of models that answer when the chosen one cannot, in this order, separated by commas; at most three, "
            "of those that are offered. A chat is then kept to the smallest of their windows."
        ),
    )
    SERVICE_TIER: Literal["default", "auto", "flex", "priority"] = Field(
        default="default",
        description="OpenAI's service tier: `flex` is cheaper and slower, `priority` the reverse.",
    )
    CACHE_TTL: Literal["auto", "5m", "1h"] = Field(
        default="auto",
        title="Cache TTL",
        description=(
            "How long Anthropic keeps a chat in its cache; an hour costs more to write. `auto`: whichever would have "
            "cost less with the pauses of this chat so far."
        ),
    )
    INTERLEAVED_THINKING: bool = Field(
        default=True, description="Models of Anthropic think between two calls of tools too."
    )
    SEND_IDENTITY: IdentityLevel = Field(
        default="session",
        description=(
            "What OpenRouter learns of who asks, always as pseudonyms. `none`: nothing, and caches are found less "
            "often. `session`: which chat. `user`: which user too. `trace`: which message and which task too."
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
    RECALL: bool = Field(
        default=True,
        description=(
            "Whether each question is looked up in what of the chat is no longer sent word for word. What fits is "
            "quoted beside it, in at most 900 tokens; nothing is quoted when nothing fits. No model is asked."
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
    RECALL_TOOL: bool = Field(
        default=True,
        description=(
            "Let models look up what was shortened, summarized or omitted of their chat: once anything was, they are "
            "offered the tool `recall`, which runs inside the pipe."
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
    STEADY_SYSTEM_PROMPT: bool = Field(
        default=True,
        description=(
            "Send a chat's system prompt as it was with its first message, and what has changed in it since, such as a "
            "clock or Open WebUI's memories, behind the chat: so the provider's cache holds. A prompt that somebody "
            "has edited, or of which much has changed, is sent anew. Off: always as Open WebUI has it."
        ),
    )
    ENABLE_USER_OVERRIDE: bool = Field(
        default=False,
        description=(
            f"Let users set their own {', '.join(f'`{name}`' for name in USER_LIMITS)}. Off: their form does not "
            "have these, and what they had set before is not followed, which a status line tells them."
        ),
    )
    COST_LINE: CostLine = Field(
        default="forecast",
        description=(
            "What the status line of an answer names. `cost`: what it has cost, its tokens, time and speed. "
            "`forecast`: also what the input of the next message will cost, and until when the provider has the chat "
            "in its cache."
        ),
    )
    CONFIRM_ABOVE_DOLLARS: float = Field(
        default=0.0,
        ge=0,
        description=(
            "In a chat on the page, ask before a message whose input costs more than this, in US dollars, or a switch "
            "of model that costs so much more because the other model has the chat in its cache. 0: never."
        ),
    )
    SPENDING_LIMITS: str = Field(
        default="",
        description=(
            "What may be spent, in US dollars, such as `user: 2/day 20/month; each of Students: 0.5/day; group Staff: "
            "50/month; all: 100/month`. `user` is every user alone, `each of` every member of a group alone, `group` "
            "its members together, `all` everybody together. Days and months begin at midnight UTC. As long as it "
            "cannot be read, users cannot chat. Empty: no limits."
        ),
    )
    NEAR_LIMIT: NearLimit = Field(
        default="thrifty",
        description=(
            "What is done from 80 % of a spending limit on. `thrifty`: chats are shortened as with that `CONTEXT_AIM`. "
            "`flex`: besides, the cheaper and slower service tier where OpenAI or Google has one. `floor`: besides, "
            "the cheapest provider."
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
        title="PDF Engine",
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
        title="Max Attachment MB",
        description="Size of the largest file, in megabytes, that is sent to a model or downloaded.",
    )
    MAX_REQUEST_ATTACHMENTS_MB: int = Field(
        default=50,
        ge=0,
        title="Max Request Attachments MB",
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
    RETRY_SECONDS: float = Field(
        default=30.0,
        ge=0,
        description=(
            "How long a request is tried again, with three tries in all at most, when OpenRouter or a provider is "
            "busy or away for the moment and nothing of the answer was shown yet. A status line counts down. 0: never."
        ),
    )
    MAX_REQUESTS: int = Field(
        default=500,
        ge=0,
        description=(
            "How many requests run at once in each server process. More wait in a short queue, one user after the "
            "other, chats before titles and tags. 0: any number."
        ),
    )
    MAX_REQUESTS_PER_USER: int = Field(
        default=0,
        ge=0,
        description="How many requests of one user run at once in each server process. 0: any number.",
    )
    HTTP_REFERER: str = Field(
        default="",
        title="HTTP Referer",
        description="Address of your site, sent to OpenRouter for its statistics. Empty: none.",
    )
    APP_TITLE: str = Field(default="Open WebUI", description="Name of your site in OpenRouter's statistics.")


class UserValves(BaseModel):
    """What each user may set, for their own chats."""

    model_config = ConfigDict(hide_input_in_errors=True)  # the host logs them, and an input may be a key

    REASONING_EFFORT: Literal["inherit", Effort] = Field(
        default="inherit",
        description="How much models think for me, as far as they support it. `inherit`: as the administrator set it.",
    )
    REASONING_SUMMARY: Literal["inherit", ReasoningSummary] = Field(
        default="inherit",
        description="How models sum up what they think. `off`: not at all. `inherit`: as the administrator set it.",
    )
    WEB_SEARCH: Literal["inherit", SearchMode] = Field(
        default="inherit",
        description=(
            "Web search by OpenRouter, which costs extra. `auto`: the model searches when it wants to. `on`: it has "
            "to, where it can be forced. `inherit`: as the administrator set it."
        ),
    )
    PROVIDER_SORT: Literal["inherit", "default", "price", "throughput", "latency"] = Field(
        default="inherit",
        description=(
            "Which providers come first: the cheapest, the fastest, or those that begin soonest. `default`: OpenRouter "
            "balances the load. `inherit`: as the administrator set it."
        ),
    )
    ZDR: bool = Field(
        default=False,
        title="Zero Data Retention",
        description="Only providers that keep nothing of my requests; some models have none.",
    )
    API_KEY: Annotated[str, AfterValidator(_sealed_key)] = Field(
        default="",
        title="My Own API Key",
        description=(
            "An OpenRouter key that pays for my requests in place of the administrator's. It is stored sealed, and "
            "only its sealed form is ever shown again."
        ),
        json_schema_extra=_PASSWORD,
    )
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
    RECALL: Literal["inherit", "on", "off"] = Field(
        default="inherit",
        description=(
            "Whether my questions are looked up in what of a chat is no longer sent word for word, and what fits is "
            "quoted beside them. `inherit`: as the administrator set it."
        ),
    )
    COST_LINE: Literal["inherit", "off", "cost", "forecast"] = Field(
        default="inherit",
        description=(
            "What the status line of an answer names. `cost`: what it has cost. `forecast`: also what the input of my "
            "next message will cost. `inherit`: as the administrator set it."
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


def read_user_valves(stored: Mapping[str, Any]) -> tuple[UserValves, tuple[str, ...]]:
    """Read a user's valves as they are stored; what cannot be read has its default, and its names are returned."""
    try:
        return UserValves.model_validate(stored), ()
    except ValidationError as error:
        unreadable = tuple(dict.fromkeys(str(each["loc"][0]) for each in error.errors(include_input=False)))
    readable = {name: value for name, value in stored.items() if name not in unreadable}
    return UserValves.model_validate(readable), unreadable


@lru_cache(maxsize=16)
def _shown_user_valves(hidden: frozenset[str]) -> type[UserValves]:
    """The class as the host shows it: without the hidden valves."""

    class _ShownUserValves(UserValves):
        model_config = ConfigDict(title="UserValves")

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
            """Return what Open WebUI shows."""
            schema = super().model_json_schema(*args, **options)
            for name in hidden:
                del schema["properties"][name]
            return schema

    return _ShownUserValves


def hidden_controls(valves: Valves) -> frozenset[str]:
    """Return the names of the user valves that these valves hide."""
    return frozenset(USER_CONTROLS) - {name.strip().upper() for name in valves.USER_CONTROLS.split(",")}


def user_valves_class(valves: Valves) -> type[UserValves]:
    """Return the class that describes the user's valves as these valves have them."""
    without_effect = () if valves.ENABLE_USER_OVERRIDE else USER_LIMITS
    return _shown_user_valves(hidden_controls(valves).union(without_effect))
