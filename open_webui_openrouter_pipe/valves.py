"""Admin valves and user valves as Open WebUI shows them: each field's default, limits and help.

Titles begin with a group. What only experts set stands in `advanced`, behind the one valve `ADVANCED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from .advanced import Advanced, ReasoningSummary, gather_advanced, read_advanced, readable_advanced
from .conversation.budget import CLIP_RANGE_MESSAGES, Strategy
from .conversation.commands import Aim
from .host.model_rows import AccessFor
from .host.platform import NotSaved, host_secret, is_saving
from .host.wording import StatusLines
from .media.choice import Documents, PdfEngine
from .notices import notice
from .openrouter.client import DEFAULT_BASE_URL
from .openrouter.request import IdentityLevel
from .openrouter.search import SearchMode
from .store.sealing import seal_text
from .turn.bill import CostLine
from .valve_fields import ValveFields, explain, readable

AspectRatio = Literal["auto", "1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"]
ImageSize = Literal["auto", "1K", "2K", "4K"]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

USER_CONTROLS: Final = (
    *("REASONING_EFFORT", "REASONING_SUMMARY", "WEB_SEARCH", "PROVIDER_SORT", "ZDR", "API_KEY"),
    *("IMAGE_ASPECT_RATIO", "IMAGE_SIZE"),
)
"""The user valves of which an administrator says whether users see them."""
OWN_KEY_PURPOSE: Final = "own API key"

_PASSWORD: dict[str, Any] = {"input": {"type": "password"}}
_AS_SET: Final = "as the administrator set it"

PROTECTIONS: Final = ("ZDR", "API_KEY")
"""The user valves without which nothing is sent, rather than by their defaults: who sees a chat, and who pays."""

ADMIN_PROTECTIONS: Final = (
    *("ZDR", "DATA_COLLECTION", "PROVIDER_ONLY", "PROVIDER_IGNORE", "SPENDING_LIMITS"),
    "ADVANCED",  # which may hold some of these
)
"""The same of the administrator's."""

USER_LIMITS: Final = ("CONTEXT_AIM", "RECALL", "CLIP_LAST_MESSAGES", "CLIP_BYPASS", "SUMMARY_BYPASS")
"""The user valves by which users change what the administrator has set for their chats."""


def _sealed_key(key: str) -> str:
    """Seal a key before anybody stores or shows it."""
    key = key.strip()
    return seal_text(key, host_secret(), purpose=OWN_KEY_PURPOSE) if key else ""


class Valves(ValveFields):
    """What an administrator sets, for all users. What `ADVANCED` may hold may also be given by its own name."""

    API_KEY: str = Field(
        default="",
        title="OpenRouter · API Key",
        description="Your key from https://openrouter.ai/settings/keys. Nothing else has to be set.",
        json_schema_extra={**_PASSWORD, "stands_for": "the environment variable `OPENROUTER_API_KEY`"},
    )
    MODELS: str = Field(
        default="*",
        title="Models · Offered Models",
        description=(
            "Which models are offered: patterns separated by commas, such as `anthropic/*, openai/gpt-5*`. "
            "A pattern that begins with `!` excludes models."
        ),
        json_schema_extra={"stands_for": "`*`, all models"},
    )
    MODEL_FILTERS: str = Field(
        default="",
        title="Models · Filters",
        description=(
            "What every offered model must fulfil, separated by commas: `free`, `tools`, `vision` (reads images), "
            "`zdr` (some provider of it keeps no data), `newest` (of each family), `no-expiring`, `context>=128k` "
            "(tokens), `price<=2` (dollars per million input tokens). With an unknown word no model is offered."
        ),
        json_schema_extra={"stands_for": "no conditions"},
    )
    NEW_MODEL_ACCESS: str = Field(
        default="private",
        title="Models · New Model Access",
        description=(
            "Who may use a model that is new in the list: `private` (administrators), `public` (everybody), or the "
            "names of groups separated by commas."
        ),
    )
    MODEL_ACCESS_APPLIES_TO: AccessFor = Field(
        default="new",
        title="Models · Model Access Applies To",
        description=(
            "`new`: New Model Access is set once, when a model first appears, and what an administrator sets for a "
            "model afterwards stays. `all`: all offered models have that access, and what was set for single models "
            "is replaced."
        ),
    )
    REASONING_EFFORT: Literal["default", Effort] = Field(
        default="default",
        title="Models · Reasoning Effort",
        description=(
            "How much models think where neither the chat nor the user says so; a model that does not support this "
            "effort gets the nearest one. `default`: as each model does by itself."
        ),
    )
    SPENDING_LIMITS: str = Field(
        default="",
        title="Cost · Spending Limits",
        description=(
            "What may be spent, in US dollars, such as `user: 2/day 20/month; each of Students: 0.5/day; group Staff: "
            "50/month; all: 100/month`. `user` is every user alone, `each of` every member of a group alone, `group` "
            "its members together, `all` everybody together. Days and months begin at midnight UTC. As long as it "
            "cannot be read, users cannot chat."
        ),
        json_schema_extra={"stands_for": "no limits"},
    )
    CONFIRM_ABOVE_DOLLARS: float = Field(
        default=0.0,
        ge=0,
        title="Cost · Confirm Above Dollars",
        description=(
            "In a chat on the page, ask before a message whose input costs more than this, or a switch of model that "
            "costs so much more because the other model has the chat in its cache."
        ),
        json_schema_extra={"unit": "US dollars", "stands_for": "never ask"},
    )
    COST_LINE: CostLine = Field(
        default="forecast",
        title="Cost · Status Line",
        description=(
            "What the status line of an answer names. `cost`: what it has cost, its tokens, time and speed. "
            "`forecast`: also what the input of the next message will cost, and until when the provider has the chat "
            "in its cache. `off`: no such line."
        ),
    )
    CONTEXT_STRATEGY: Strategy = Field(
        default="summarize",
        title="Context · Strategy",
        description=(
            "What happens when a chat outgrows the model's window. `summarize`: old turns are replaced by summaries, "
            "which are kept. `prune`: old turns are shortened, then dropped, oldest first. `clip`: only the last "
            "messages are sent, always. `refuse`: an error says what uses up the context. `off`: everything is sent, "
            "and the provider decides."
        ),
    )
    CONTEXT_AIM: Aim = Field(
        default="faithful",
        title="Context · Aim",
        description=(
            "How far chats are shortened. `faithful`: what fits is sent, and old turns are shortened only when a chat "
            "is large for the model's window. `thrifty`: summaries replace old turns at the size at which the chat "
            "costs least at the model's prices, often far below that. With strategies other than `summarize`, it "
            "is about old tool results alone."
        ),
    )
    SUMMARY_MODEL: str = Field(
        default="",
        title="Context · Summary Model",
        description="OpenRouter id of a model that writes the summaries, such as `openai/gpt-5-mini`.",
        json_schema_extra={"stands_for": "the chat's own model, which reads the chat from its cache"},
    )
    RECALL: bool = Field(
        default=True,
        title="Context · Recall",
        description=(
            "Look up each question in the parts of the chat that are no longer sent word for word. What fits is quoted "
            "beside it, in at most 900 tokens. No model is asked."
        ),
    )
    WEB_SEARCH: SearchMode = Field(
        default="off",
        title="Search · Web Search",
        description=(
            "Web search by OpenRouter, unless a user chooses; each search costs extra. `auto`: the model searches when "
            "it wants to. `on`: it has to. Models of Anthropic cannot be forced, and those without tools search with "
            "`on` alone."
        ),
    )
    WEB_SEARCH_BY: Literal["host", "openrouter"] = Field(
        default="host",
        title="Search · Who Searches",
        description=(
            "Who searches where a user switches on Open WebUI's own web search: Open WebUI (`host`), or OpenRouter in "
            "its place. The web is never searched twice. With legacy function calling, Open WebUI searches in any case."
        ),
    )
    DOCUMENTS: Documents = Field(
        default="auto",
        title="Attachments · Documents",
        description=(
            "How documents that users attach to a message reach the model. `auto`: as they are, wherever the model or "
            "OpenRouter's parser reads them. `native`: as they are, only where the model itself reads them. `host`: "
            "never as they are. What is not sent as it is, Open WebUI gives to the model in excerpts."
        ),
    )
    PDF_ENGINE: PdfEngine = Field(
        default="auto",
        title="Attachments · PDF Engine",
        description=(
            "What reads PDFs. `native`: the model, for the price of its input. `cloudflare-ai`: free, text only. "
            "`mistral-ocr`: also scanned pages, for about 2 dollars per 1,000 pages. `auto`: the model where it reads "
            "files, and otherwise `cloudflare-ai`."
        ),
    )
    ZDR: bool = Field(
        default=False,
        title="Privacy · Zero Data Retention",
        description="Only providers that keep nothing of a request.",
    )
    SEND_IDENTITY: IdentityLevel = Field(
        default="session",
        title="Privacy · Send Identity",
        description=(
            "What OpenRouter learns of who asks, always as pseudonyms. `none`: nothing, and caches are found less "
            "often. `session`: which chat. `user`: which user too. `trace`: which message and which task too."
        ),
    )
    USER_CONTROLS: str = Field(
        default=", ".join(USER_CONTROLS),
        title="Users · Controls",
        description=(
            "Which of their own valves users see, separated by commas; those that are not named are neither shown nor "
            "followed. `none`: none of these. The valves of the group Context are for Enable Override below."
        ),
        json_schema_extra={"stands_for": f"all of them, `{', '.join(USER_CONTROLS)}`"},
    )
    ENABLE_USER_OVERRIDE: bool = Field(
        default=False,
        title="Users · Enable Override",
        description=(
            "Let users decide how far their own chats are shortened, by their valves of the group Context. Off: their "
            "form does not have these, and what they had set before is not followed, as a status line says."
        ),
    )
    ARTIFACT_CLEANUP_DAYS: int = Field(
        default=90,
        ge=0,
        title="Storage · Cleanup Days",
        description=(
            "How long after its last use something that is stored beside a chat (encrypted reasoning, tool results, "
            "summaries) is deleted. 0: never."
        ),
        json_schema_extra={"unit": "days"},
    )
    ARTIFACT_ENCRYPTION_KEY: str = Field(
        default="",
        title="Storage · Encryption Key",
        description=(
            "Passphrase that encrypts what is stored, of 16 characters or more. Several, separated by commas or lines: "
            "the first encrypts, the others still read older items."
        ),
        json_schema_extra={**_PASSWORD, "stands_for": "Open WebUI's secret key"},
    )
    BASE_URL: str = Field(
        default=DEFAULT_BASE_URL,
        title="Requests · Base URL",
        description="Address of the OpenRouter API, without the trailing slash.",
    )
    ADVANCED: str = Field(
        default="",
        title="Advanced · More Settings",
        description=(
            'What few ever change, as JSON, such as `{"RETRY_SECONDS": 60, "WEB_FETCH": false}`. The page "Settings" '
            "of the documentation lists all names with their defaults and limits."
        ),
        json_schema_extra={"stands_for": "none"},
    )

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        return gather_advanced(given) if isinstance(given, Mapping) else given

    @field_validator("ADVANCED")
    @classmethod
    def _check(cls, text: str) -> str:
        read_advanced(text)
        return text

    @property
    def advanced(self) -> Advanced:
        """What `ADVANCED` says, and the defaults of the others."""
        return read_advanced(self.ADVANCED)


class UserValves(ValveFields):
    """What each user may set, for their own chats."""

    REASONING_EFFORT: Literal["inherit", Effort] = Field(
        default="inherit",
        title="Models · Reasoning Effort",
        description="How much models think for me, as far as they support it. `inherit`: as the administrator set it.",
    )
    REASONING_SUMMARY: Literal["inherit", ReasoningSummary] = Field(
        default="inherit",
        title="Models · Reasoning Summary",
        description="How models sum up what they think. `off`: not at all. `inherit`: as the administrator set it.",
    )
    WEB_SEARCH: Literal["inherit", SearchMode] = Field(
        default="inherit",
        title="Search · Web Search",
        description=(
            "Web search by OpenRouter, which costs extra. `auto`: the model searches when it wants to. `on`: it has "
            "to, where it can be forced. `inherit`: as the administrator set it."
        ),
    )
    COST_LINE: Literal["inherit", "off", "cost", "forecast"] = Field(
        default="inherit",
        title="Cost · Status Line",
        description=(
            "What the status line of an answer names. `cost`: what it has cost. `forecast`: also what the input of my "
            "next message will cost. `inherit`: as the administrator set it."
        ),
    )
    STATUS_LINES: StatusLines = Field(
        default="all",
        title="Status · Lines",
        description=(
            "Which status lines I see above answers. `all`: also waits, searches and costs. `important`: only what was "
            "cut, lost or not as I wanted it. `none`: none. Errors are always shown."
        ),
    )
    IMAGE_ASPECT_RATIO: AspectRatio = Field(
        default="auto",
        title="Pictures · Aspect Ratio",
        description="Width to height of the pictures that models draw for me. `auto`: the model chooses.",
    )
    IMAGE_SIZE: ImageSize = Field(
        default="auto",
        title="Pictures · Size",
        description="Size of the pictures that models draw for me; larger ones cost more. `auto`: the model chooses.",
    )
    CONTEXT_AIM: Literal["inherit", "faithful", "thrifty"] = Field(
        default="inherit",
        title="Context · Aim",
        description=(
            "How far my chats are shortened. `faithful`: not before they are large for the model's window. "
            "`thrifty`: to the size at which they cost least. `inherit`: as the administrator set it."
        ),
    )
    RECALL: Literal["inherit", "on", "off"] = Field(
        default="inherit",
        title="Context · Recall",
        description=(
            "Whether my questions are looked up in the parts of a chat that are no longer sent word for word, and what "
            "fits is quoted beside them. `inherit`: as the administrator set it."
        ),
    )
    CLIP_LAST_MESSAGES: int = Field(
        default=0,
        ge=0,
        le=CLIP_RANGE_MESSAGES[1],
        title="Context · Clip Last Messages",
        description="Where only the last messages of a chat are sent: how many.",
        json_schema_extra={"unit": "messages", "stands_for": _AS_SET},
    )
    CLIP_BYPASS: bool = Field(
        default=False,
        title="Context · Clip Bypass",
        description="Send my chats whole where otherwise only their last messages would be sent.",
    )
    SUMMARY_BYPASS: bool = Field(
        default=False,
        title="Context · Summary Bypass",
        description="Do not summarize my chats; what does not fit is shortened instead.",
    )
    ZDR: bool = Field(
        default=False,
        title="Privacy · Zero Data Retention",
        description="Only providers that keep nothing of my requests; some models have none.",
    )
    PROVIDER_SORT: Literal["inherit", "default", "price", "throughput", "latency"] = Field(
        default="inherit",
        title="Providers · Sort",
        description=(
            "Which providers come first: the cheapest, the fastest, or those that begin soonest. `default`: OpenRouter "
            "balances the load. `inherit`: as the administrator set it."
        ),
    )
    PERSIST_REASONING_TOKENS: Literal["inherit", "disabled", "next_reply", "conversation"] = Field(
        default="inherit",
        title="Storage · Persist Reasoning Tokens",
        description=(
            "How long a model's encrypted reasoning is kept, to be sent to it again: not at all (`disabled`), until "
            "the next reply is complete, or as long as the chat. `inherit`: as the administrator set it."
        ),
    )
    API_KEY: Annotated[str, AfterValidator(_sealed_key)] = Field(
        default="",
        title="OpenRouter · My Own API Key",
        description=(
            "An OpenRouter key that pays for my requests in place of the administrator's. It is stored encrypted, and "
            "only its encrypted form is ever shown again."
        ),
        json_schema_extra={**_PASSWORD, "stands_for": "the administrator's key"},
    )


def read_user_valves(stored: Mapping[str, Any]) -> tuple[UserValves, tuple[str, ...]]:
    """Read a user's valves as they are stored; what cannot be read has its default, and its names are returned."""
    values, unreadable = readable(UserValves, stored)
    return UserValves.model_validate(values), unreadable


def _refuse_unreadable(model: type[ValveFields], values: Mapping[str, Any]) -> None:
    try:
        model.model_validate(values)
    except ValidationError as error:
        raise NotSaved(notice("valves_not_saved", problems=explain(error, model))) from None


class HostValves(Valves):
    """The same as Open WebUI makes them: refused on saving, and read as far as possible otherwise."""

    model_config = ConfigDict(title="Valves")

    def __init__(self, /, **values: Any) -> None:
        if is_saving():
            _refuse_unreadable(Valves, values)
        gathered, lost = readable_advanced(values)
        readable_values, unreadable = readable(Valves, gathered)
        super().__init__(**readable_values)
        self._unreadable = (*unreadable, *lost)


@lru_cache(maxsize=16)
def _shown_user_valves(hidden: frozenset[str]) -> type[UserValves]:
    """The class as the host shows and makes it: without the hidden valves."""

    class _ShownUserValves(UserValves):
        model_config = ConfigDict(title="UserValves")

        def __init__(self, /, **values: Any) -> None:
            if is_saving():
                _refuse_unreadable(UserValves, values)
            readable_values, unreadable = readable(UserValves, values)
            super().__init__(**readable_values)
            self._unreadable = unreadable

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
