"""Admin valves and user valves: one line each, with default and limits, and how what is stored is read.

Their texts stand in `words/valves.txt`. What only experts set is in `Advanced`, behind the one valve `ADVANCED`.
"""

from __future__ import annotations

import json
import math
import pkgutil
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from .conversation.budget import CLIP_RANGE_MESSAGES, Pruning, Strategy
from .conversation.masking import Secret
from .conversation.slash import Aim
from .host.model_rows import AccessFor
from .host.platform import host_secret
from .host.wording import StatusLines
from .media.choice import Documents, ImageSelection, PdfEngine
from .money.limits import Counts
from .openrouter.client import DEFAULT_BASE_URL
from .openrouter.errors import redact
from .openrouter.problems import (
    MOST_PROBLEMS,
    Problem,
    example,
    nearest,
    unknown_word,
)
from .openrouter.request import IdentityLevel
from .openrouter.server_tools import SearchEngine, SearchMode
from .responses.tools import ALLOWED
from .responses.values import clean
from .store.sealing import seal_text
from .turn.bill import CostLine, NearLimit
from .turn.recorder import ReasoningRetention
from .words.lines import notice

AspectRatio = Literal["auto", "1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"]
ImageSize = Literal["auto", "1K", "2K", "4K"]
ImageQuality = Literal["auto", "low", "medium", "high"]
VideoResolution = Literal["auto", "360p", "480p", "720p", "1080p", "2K", "4K"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ReasoningSummary = Literal["auto", "concise", "detailed", "off"]
ToolExecution = Literal["host", "pipe"]
Sort = Literal["default", "price", "throughput", "latency"]
Quantization = Literal[
    "int4", "int8", "fp4", "mxfp4", "nvfp4", "fp6", "fp8", "mxfp8", "fp16", "bf16", "fp32", "unknown"
]  # fmt: skip

SecretText = Annotated[str, AfterValidator(Secret)]

Rule = Literal["inherit", "off_wins", "either"]
"""How a user's value and the administrator's of the same name become one.

`inherit`: the user's, unless it is "inherit"; `off_wins`: the same, but the administrator's "disabled" holds; `either`:
on where one of them is.
"""
Permission = Literal["", "USER_CONTROLS", "ENABLE_USER_OVERRIDE"]
"""The administrator's valve that lets users set one of theirs; "" where they always may."""

OWN_KEY_PURPOSE: Final = "own API key"
_OWN_KEYS: Final = ("rule", "permission", "protects", "strict")
_EXAMPLE: Final = re.compile(r"such as `([^`]+)`")


def valve(
    default: object,
    *,
    rule: Rule | None = None,
    permission: Permission = "",
    protects: bool = False,
    strict: object = None,
    is_password: bool = False,
    **limits: float,
) -> Any:
    """Return a valve's field; `limits` are pydantic's `ge`, `gt` and `le`.

    While what is stored of a valve cannot be read, its default holds. Where that would let others see or use more, or
    cost more, than was said, its `strict` value does, or if it `protects`, nothing is sent.
    """
    marks: dict[str, Any] = {"rule": rule, "permission": permission, "protects": protects, "strict": strict}
    if is_password:
        marks["input"] = {"type": "password"}
    return Field(default=default, json_schema_extra=marks, **cast("dict[str, Any]", limits))


def inherited(permission: Permission = "") -> Any:
    """Return the field of a user's valve that is as the administrator's, unless the user chooses."""
    return valve("inherit", rule="inherit", permission=permission)


class ValveText(NamedTuple):
    """What people read of a valve. `stands_for` says what happens with an empty or zero default."""

    title: str
    unit: str
    stands_for: str
    help: str


@cache
def _texts() -> Mapping[str, Mapping[str, ValveText]]:
    """The texts by the name of their class and their own."""
    texts: dict[str, dict[str, ValveText]] = {}
    for line in (pkgutil.get_data(__package__, "words/valves.txt") or b"").decode().splitlines():
        if line.startswith("#"):
            section = texts.setdefault(line.removeprefix("# "), {})
        else:
            name, *parts = (part.strip() for part in line.split("|", 4))
            section[name] = ValveText(*parts)
    return texts


def text_of(model: type[BaseModel], name: str) -> ValveText:
    """Return the texts of a valve."""
    return next(_texts()[each.__name__][name] for each in model.mro() if each.__name__ in _texts())


def _complete(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Have the schema that Open WebUI shows say each default and range: it shows neither by itself."""
    for name, field in model.model_fields.items():
        shown, text, limits = schema["properties"][name], text_of(model, name), range_of(field)
        default = f"{default_of(model, name)}{f' ({limits})' if limits else ''}"
        shown.update(title=text.title, description=f"{text.help} **Default:** {default}.")
        for key in _OWN_KEYS:
            del shown[key]


class ValveFields(BaseModel):
    """The base of the classes of valves."""

    model_config = ConfigDict(
        hide_input_in_errors=True,  # the host logs them, and an input may be a key
        allow_inf_nan=False,
        json_schema_extra=_complete,
    )
    _problems: tuple[Problem, ...] = PrivateAttr(default=())
    _unreadable: tuple[str, ...] = PrivateAttr(default=())

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with stored values that could not be read."""
        return self._problems

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The names of these values, of `ADVANCED` those in it."""
        return self._unreadable


def default_of(model: type[BaseModel], name: str) -> str:
    """Return a valve's default for people to read, with its unit, such as `90 days`."""
    value, text = model.model_fields[name].default, text_of(model, name)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        return f"{value:g} {text.unit}".strip() + (f", {text.stands_for}" if text.stands_for else "")
    return text.stands_for.replace("{default}", str(value)) or f"`{value}`"


def range_of(field: FieldInfo) -> str:
    """Return the range of a number as every language writes it, "" for anything else."""
    signs = {"ge": "\u2265", "gt": ">", "le": "\u2264"}
    limits = ((sign, getattr(each, name, None)) for name, sign in signs.items() for each in field.metadata)
    return ", ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)


def takes(model: type[BaseModel], name: str) -> str:
    """Return the line about what a valve takes."""
    field = model.model_fields[name]
    if choices := ("true", "false") if field.annotation is bool else get_args(field.annotation):
        return notice("problem_choices", choices=", ".join(f"`{each}`" for each in choices))
    if kind := {int: "whole", float: "number"}.get(cast("type", field.annotation)):
        return notice(f"problem_{kind}", limits=range_of(field), default=f"{field.default:g}")
    found = _EXAMPLE.search(text_of(model, name).help)
    return example(found[1] if found else field.default)


def _wrong_value(model: type[BaseModel], name: str, value: object) -> Problem:
    """What is wrong with a value; of a text it says which choice is near."""
    choices = get_args(model.model_fields[name].annotation)
    if isinstance(value, str) and choices:
        return unknown_word(name, value, near=nearest(value, choices), takes=takes(model, name))
    return Problem(name, notice("problem_unread"), takes(model, name))


def _wrong(error: ValidationError) -> list[str]:
    """The names of what is wrong."""
    return list(dict.fromkeys(str(each["loc"][0]) for each in error.errors(include_input=False)))


class Advanced(ValveFields):
    """What `ADVANCED` may hold; a title is the group under which the documentation lists it."""

    model_config = ConfigDict(extra="forbid")

    SYNC_MODEL_INFO: bool = valve(default=True)
    VARIANTS: str = valve("")
    STATUS_ENTRY: Literal["auto", "always"] = valve("auto")
    REASONING_SUMMARY: ReasoningSummary = valve("auto")
    INTERLEAVED_THINKING: bool = valve(default=True)
    FALLBACK_MODELS: str = valve("")
    NEAR_LIMIT: NearLimit = valve("thrifty")
    LIMITS_COUNT: Counts = valve("both")
    TIME_ZONE: str = valve("UTC")
    STORE_COST: bool = valve(default=True)
    MAX_PRICE_INPUT: float = valve(0.0, protects=True, ge=0)
    MAX_PRICE_OUTPUT: float = valve(0.0, protects=True, ge=0)
    SERVICE_TIER: Literal["default", "auto", "flex", "priority"] = valve("default")
    CACHE_TTL: Literal["auto", "5m", "1h"] = valve("auto")
    CONTEXT_MAX_OUTPUT_TOKENS: int = valve(0, ge=0)
    ASSUMED_CONTEXT_TOKENS: int = valve(0, ge=0)
    SUMMARY_TRIGGER_RATIO: float = valve(0.70, gt=0, le=1)
    SUMMARY_AHEAD_RATIO: float = valve(0.60, gt=0, le=1)
    SUMMARY_TURN_TRIGGER: int = valve(0, ge=0)
    SUMMARY_TIMEOUT_SECONDS: float = valve(60.0, gt=0)
    PROTECTED_RECENT_TURNS: int = valve(4, ge=1)
    PRUNE_TRIGGER_RATIO: float = valve(0.90, gt=0, le=1)
    TOOL_OUTPUT_RETENTION_TURNS: int = valve(10, ge=1)
    TOOL_OUTPUT_PRUNING: Pruning = valve("batched")
    RECALL_TOOL: bool = valve(default=True)
    CLIP_LAST_MESSAGES: int = valve(4, ge=CLIP_RANGE_MESSAGES[0], le=CLIP_RANGE_MESSAGES[1])
    CLIP_MIN_MESSAGES: int = valve(5, ge=1)
    STEADY_SYSTEM_PROMPT: bool = valve(default=True)
    WEB_SEARCH_ENGINE: SearchEngine = valve("auto")
    WEB_SEARCH_MAX_RESULTS: int = valve(5, ge=1, le=25)
    WEB_SEARCH_MAX_SEARCHES: int = valve(5, ge=1)
    WEB_FETCH: bool = valve(default=True)
    SERVER_TOOLS: str = valve(ALLOWED, strict="none")
    SERVER_TOOL_DOLLARS: float = valve(0.5, strict=0.01, gt=0)
    SERVER_TOOL_STEPS: int = valve(10, strict=1, ge=1, le=30)
    MAX_INPUT_IMAGES_PER_REQUEST: int = valve(20, ge=0)
    IMAGE_INPUT_SELECTION: ImageSelection = valve("conversation")
    MAX_ATTACHMENT_MB: int = valve(20, ge=1)
    MAX_REQUEST_ATTACHMENTS_MB: int = valve(50, ge=0)
    MAX_MEMORY_MB: int = valve(256, ge=64)
    DOWNLOAD_HOSTS: str = valve("")
    SAVE_ATTACHMENTS: bool = valve(default=True)
    USER_PARAMETERS: str = valve("")
    PROVIDER_ORDER: str = valve("")
    PROVIDER_ONLY: str = valve("", protects=True)
    PROVIDER_IGNORE: str = valve("", protects=True)
    PROVIDER_SORT: Sort = valve("default")
    QUANTIZATIONS: str = valve("")
    DATA_COLLECTION: Literal["allow", "deny"] = valve("allow", strict="deny")
    REQUIRE_PARAMETERS: bool = valve(default=False)
    PERSIST_REASONING_TOKENS: ReasoningRetention = valve("conversation", strict="disabled")
    PERSIST_TOOL_RESULTS: bool = valve(default=True)
    REQUEST_TIMEOUT_SECONDS: float = valve(300.0, gt=0)
    RETRY_SECONDS: float = valve(30.0, ge=0)
    TOOL_EXECUTION: ToolExecution = valve("host")
    TOOL_TIMEOUT_SECONDS: float = valve(300.0, gt=0)
    MAX_REQUESTS: int = valve(500, ge=0)
    MAX_REQUESTS_PER_USER: int = valve(0, strict=1, ge=0)
    HTTP_REFERER: str = valve("")
    APP_TITLE: str = valve("Open WebUI")


@lru_cache(maxsize=16)
def read_advanced(text: str) -> Advanced:
    """Read the JSON text. Raises ValueError where anything of it is wrong."""
    return Advanced.model_validate(_read_object(text))


def gather_advanced(valves: Mapping[str, Any]) -> dict[str, Any]:
    """Move what `ADVANCED` may hold, and is given by its own name, into it; what it has already stays.

    With an `ADVANCED` that is not such a text all stays as it is.
    """
    by_name = {name: value for name, value in valves.items() if name in Advanced.model_fields}
    text = valves.get("ADVANCED", "")
    if by_name and isinstance(text, str):
        with suppress(ValueError):
            others = {name: value for name, value in valves.items() if name not in by_name}
            return {**others, "ADVANCED": _write_object({**by_name, **_read_object(text)})}
    return dict(valves)


def readable_advanced(
    stored: Mapping[str, Any],
) -> tuple[dict[str, Any], tuple[Problem, ...], tuple[str, ...]]:
    """Gather what is stored, and leave out of `ADVANCED` what cannot be read.

    Also returns what is wrong, and the names of what has no effect: of a text that is not JSON all that occur in it.
    """
    text, problems, lost = stored.get("ADVANCED", ""), list[Problem](), list[str]()
    try:
        _read_object(text)
    except (AttributeError, ValueError) as error:
        stored = {name: value for name, value in stored.items() if name != "ADVANCED"}
        lost = ["ADVANCED", *(name for name in Advanced.model_fields if re.search(rf"\b{name}\b", str(text)))]
        what = notice("problem_unread")
        if isinstance(error, json.JSONDecodeError):
            what = notice("problem_json", line=error.lineno, column=error.colno)
        problems.append(Problem("ADVANCED", what, takes(Valves, "ADVANCED")))
    gathered = gather_advanced(stored)
    values = _read_object(gathered.get("ADVANCED", ""))
    try:
        Advanced.model_validate(values)
    except ValidationError as error:
        wrong = _wrong(error)
        lost += wrong
        problems += (_wrong_advanced(name, values[name]) for name in wrong[:MOST_PROBLEMS])
        values = {name: values[name] for name in values if name not in wrong}
    stricter = {
        name: STRICT_ADVANCED[name] for name in lost if name in STRICT_ADVANCED and name not in values
    }
    gathered["ADVANCED"] = _write_object({**values, **stricter})
    return gathered, tuple(problems), tuple(lost)


def _wrong_advanced(name: str, value: object) -> Problem:
    if name in Advanced.model_fields:
        return _wrong_value(Advanced, name, value)
    return unknown_word(
        "ADVANCED", name, near=nearest(name, Advanced.model_fields), takes=takes(Valves, "ADVANCED")
    )


def _read_object(text: str) -> dict[str, Any]:
    """Read a JSON object, {} from an empty text. Raises ValueError, where it can be said with the place."""
    try:
        value = clean(json.loads(text)) if text.strip() else {}
    except RecursionError:
        raise ValueError("levels too deep") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - it is reported like any other text that is wrong
    return value


def _write_object(values: Mapping[str, Any]) -> str:
    """Write a JSON object for people to read; "" for none."""
    return json.dumps(values, ensure_ascii=False, indent=2, default=str) if values else ""


class Valves(ValveFields):
    """What an administrator sets, for all users. What `ADVANCED` may hold may also be given by its own name."""

    API_KEY: SecretText = valve("", is_password=True)
    MODELS: str = valve("*", strict="none")
    MODEL_FILTERS: str = valve("", strict="free, zdr")
    NEW_MODEL_ACCESS: str = valve("private")
    MODEL_ACCESS_APPLIES_TO: AccessFor = valve("new")
    REASONING_EFFORT: Literal["default", Effort] = valve("default")
    SPENDING_LIMITS: str = valve("", protects=True)
    CONFIRM_ABOVE_DOLLARS: float = valve(0.0, strict=1e-6, ge=0)
    COST_LINE: CostLine = valve("off")
    CONTEXT_STRATEGY: Strategy = valve("summarize")
    CONTEXT_AIM: Aim = valve("faithful")
    SUMMARY_MODEL: str = valve("")
    RECALL: bool = valve(default=True)
    WEB_SEARCH: SearchMode = valve("off")
    WEB_SEARCH_BY: Literal["host", "openrouter"] = valve("host")
    DOCUMENTS: Documents = valve("auto")
    PDF_ENGINE: PdfEngine = valve("auto")
    ZDR: bool = valve(default=False, strict=True)
    SEND_IDENTITY: IdentityLevel = valve("session", strict="none")
    USER_CONTROLS: str = valve(
        "REASONING_EFFORT, REASONING_SUMMARY, WEB_SEARCH, ROUTER_TIER, PROVIDER_SORT, ZDR, API_KEY, "
        "IMAGE_ASPECT_RATIO, IMAGE_SIZE, IMAGE_QUALITY, IMAGE_COUNT, "
        "VIDEO_SECONDS, VIDEO_RESOLUTION, VIDEO_ASPECT_RATIO, VIDEO_SOUND",
        strict="none",
    )
    ENABLE_USER_OVERRIDE: bool = valve(default=False)
    ARTIFACT_CLEANUP_DAYS: int = valve(90, ge=0)
    ARTIFACT_ENCRYPTION_KEY: SecretText = valve("", is_password=True)
    BASE_URL: str = valve(DEFAULT_BASE_URL, strict="none")
    ADVANCED: str = valve("")

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


def _sealed_key(key: str) -> str:
    """Seal a key before anybody stores or shows it."""
    key = Secret(key).strip()
    return Secret(seal_text(key, host_secret(), purpose=OWN_KEY_PURPOSE) if key else "")


class UserValves(ValveFields):
    """What each user may set, for their own chats."""

    REASONING_EFFORT: Literal["inherit", Effort] = inherited("USER_CONTROLS")
    REASONING_SUMMARY: Literal["inherit", ReasoningSummary] = inherited("USER_CONTROLS")
    ROUTER_TIER: Literal["default", "low", "medium", "high", "xhigh", "max"] = valve(
        "default", permission="USER_CONTROLS"
    )
    WEB_SEARCH: Literal["inherit", SearchMode] = inherited("USER_CONTROLS")
    COST_LINE: Literal["inherit", CostLine] = inherited()
    STATUS_LINES: StatusLines = valve("important")
    IMAGE_ASPECT_RATIO: AspectRatio = valve("auto", permission="USER_CONTROLS")
    IMAGE_SIZE: ImageSize = valve("auto", permission="USER_CONTROLS")
    IMAGE_QUALITY: ImageQuality = valve("auto", permission="USER_CONTROLS")
    IMAGE_COUNT: int = valve(1, permission="USER_CONTROLS", ge=1, le=10)
    SPEECH_VOICE: str = valve("")
    SPEECH_SPEED: float = valve(1.0, ge=0.25, le=4)
    SPEECH_FORMAT: Literal["mp3", "wav"] = valve("mp3")
    TRANSCRIPT: Literal["text", "times", "speakers"] = valve("times")
    VIDEO_SECONDS: int = valve(0, ge=0, le=60, permission="USER_CONTROLS")
    VIDEO_RESOLUTION: VideoResolution = valve("auto", permission="USER_CONTROLS")
    VIDEO_ASPECT_RATIO: AspectRatio = valve("auto", permission="USER_CONTROLS")
    VIDEO_SOUND: Literal["auto", "on", "off"] = valve("auto", permission="USER_CONTROLS")
    CONTEXT_AIM: Literal["inherit", Aim] = inherited("ENABLE_USER_OVERRIDE")
    RECALL: Literal["inherit", "on", "off"] = inherited("ENABLE_USER_OVERRIDE")
    CLIP_LAST_MESSAGES: int = valve(0, ge=0, le=CLIP_RANGE_MESSAGES[1], permission="ENABLE_USER_OVERRIDE")
    CLIP_BYPASS: bool = valve(default=False, permission="ENABLE_USER_OVERRIDE")
    SUMMARY_BYPASS: bool = valve(default=False, permission="ENABLE_USER_OVERRIDE")
    ZDR: bool = valve(default=False, rule="either", permission="USER_CONTROLS", strict=True)
    PROVIDER_SORT: Literal["inherit", Sort] = inherited("USER_CONTROLS")
    PERSIST_REASONING_TOKENS: Literal["inherit", ReasoningRetention] = valve("inherit", rule="off_wins")
    API_KEY: Annotated[str, AfterValidator(_sealed_key)] = valve(
        "", permission="USER_CONTROLS", protects=True, is_password=True
    )


def _marked(model: type[BaseModel], mark: str) -> dict[str, Any]:
    """What the valves of a class have as this mark, by their names, without those that have none."""
    marks = {
        name: cast("Any", field.json_schema_extra).get(mark) for name, field in model.model_fields.items()
    }
    return {name: value for name, value in marks.items() if value}


RULES: Final[Mapping[str, Rule]] = _marked(UserValves, "rule")
"""How users' values are combined with the administrator's, by their names."""
USER_PERMISSIONS: Final[Mapping[str, Permission]] = _marked(UserValves, "permission")
"""The administrator's valve that lets users set one of theirs, by the name of that."""
PROTECTIONS: Final = tuple(_marked(UserValves, "protects"))
"""The user valves without which nothing is sent, rather than by their defaults: who pays."""
GUARDED: Final = (*PROTECTIONS, *_marked(UserValves, "strict"))
"""These, and those whose default is laxer than what holds while they cannot be read."""
ADMIN_PROTECTIONS: Final = (*_marked(Valves, "protects"), *_marked(Advanced, "protects"))
"""The same of the administrator's."""
STRICT_ADMIN: Final[Mapping[str, object]] = _marked(Valves, "strict")
STRICT_ADVANCED: Final[Mapping[str, object]] = _marked(Advanced, "strict")
"""What holds of these while it cannot be read, by their names, where that is not the default."""


class AllValves(Valves, Advanced):
    """All that administrators set, with their users' choices put in place; texts have no blanks around them."""

    model_config = ConfigDict(defer_build=True)


def combined(valves: Valves, own: UserValves) -> AllValves:
    """Return the administrator's valves with a user's choices put in place, each by the rule of its valve."""
    values: dict[str, Any] = {**dict(valves), **dict(valves.advanced)}
    for name, rule in RULES.items():
        admin, chosen = values[name], getattr(own, name)
        if rule == "either":
            values[name] = admin or chosen
        elif chosen != "inherit" and not (rule == "off_wins" and admin == "disabled"):
            values[name] = chosen == "on" if isinstance(admin, bool) else chosen
    for name, value in values.items():
        values[name] = value.strip() if isinstance(value, str) else value
    return AllValves.model_construct(**values)


class _OfHost(ValveFields):
    """The base of valves as the host makes them of what is stored, or of a form that is to be: of anything at all."""

    _stored: dict[str, Any] = PrivateAttr(default_factory=dict)

    def __init__(self, /, **values: Any) -> None:
        values = {name: value for name, value in values.items() if value is not None}
        try:
            super().__init__(**values)
        except ValidationError as error:
            wrong, stored = _wrong(error), values
            problems: tuple[Problem, ...] = ()
            lost: tuple[str, ...] = ()
            if "ADVANCED" in wrong:  # of what it holds, perhaps not all is
                wrong.remove("ADVANCED")
                values, problems, lost = readable_advanced(values)
            strict = _marked(type(self), "strict")
            read = {name: value for name, value in values.items() if name not in wrong}
            super().__init__(**{**read, **{name: strict[name] for name in wrong if name in strict}})
            self._problems = (*(_wrong_value(type(self), name, stored[name]) for name in wrong), *problems)
            self._unreadable = (*wrong, *lost)
            gathered = gather_advanced(stored) if lost else stored
            kept = {*wrong, *(("ADVANCED", *Advanced.model_fields) if lost else ())}
            self._stored = {name: _storable(name, value) for name, value in gathered.items() if name in kept}

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return what the host stores: what is wrong as it was given, so that who gave it can mend it."""
        return {**super().model_dump(**options), **self._stored}


def _storable(name: str, value: object) -> object:
    """A wrong value as every database takes it: JSON has no infinity. A key that is not a text is not kept."""
    if name == "API_KEY":
        return []
    return [str(value)] if isinstance(value, float) and not math.isfinite(value) else value


class HostValves(_OfHost, Valves):
    """The same as Open WebUI makes them: as far as they can be read."""

    model_config = ConfigDict(title="Valves")


class StoredUserValves(_OfHost, UserValves):
    """What a user has set, as it is stored."""

    model_config = ConfigDict(title="UserValves")


def changed_valves(valves: Valves) -> dict[str, str]:
    """Return what is stored and not as by default, also what is wrong, by its name; of a key only that there is one."""
    stored = gather_advanced(valves.model_dump(exclude_unset=True))
    with suppress(AttributeError, ValueError):
        advanced = _read_object(stored.get("ADVANCED", ""))
        stored = {**{name: value for name, value in stored.items() if name != "ADVANCED"}, **advanced}
    fields: Mapping[str, FieldInfo] = {**Advanced.model_fields, **Valves.model_fields}
    keys, unread = _marked(Valves, "input"), {"ADVANCED", *(stored.keys() - fields.keys())}
    # what is not a valve's own value may be a key that was put in the wrong place
    return {
        name: "\u2026" if name in keys else redact(str(value)) if name in unread else str(value)
        for name, value in stored.items()
        if name not in fields or value != fields[name].default
    }


@lru_cache(maxsize=16)
def _shown_user_valves(hidden: frozenset[str]) -> type[UserValves]:
    """The class as the host shows and makes it: without the hidden valves."""

    class _ShownUserValves(StoredUserValves):
        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
            """Return what Open WebUI shows."""
            schema = super().model_json_schema(*args, **options)
            for name in hidden:
                del schema["properties"][name]
            return schema

    return _ShownUserValves


def refused_user_valves(valves: Valves) -> dict[str, Permission]:
    """Return the names of the user valves that these valves do not let users set, with which of them refuses it."""
    shown = {name.strip().upper() for name in valves.USER_CONTROLS.split(",")}
    return {
        name: by
        for name, by in USER_PERMISSIONS.items()
        if not (name in shown if by == "USER_CONTROLS" else valves.ENABLE_USER_OVERRIDE)
    }


def user_valves_class(valves: Valves) -> type[UserValves]:
    """Return the class that describes the user's valves as these valves have them."""
    return _shown_user_valves(frozenset(refused_user_valves(valves)))
