"""Whether a request to /responses is one that the service accepts.

Owns the order of the checks, and the documented rules that the SDK's models do not carry and that hold for every
model: lengths, ranges, counts, names, roles, outputs without calls. ``media`` judges what is not text, ``rules`` what
depends on the model and its maker. A request that is not accepted raises ``RefusalError`` with the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from . import catalogue, rules, sdk_schema
from .errors import bad_prompt, invalid_request, router_error
from .media import check_media
from .prompt import PromptReader, conversation, input_items
from .sdk_schema import issue
from .seal import Sealed, TroubleError, binding
from .summaries import instruction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .catalogue import Model
    from .prompt import Prompt
    from .sdk_schema import Issue, Path
    from .state import RecordedRequest, Service

MAX_CATEGORIES = 2
MAX_CATEGORY_CHARS = 30
MAX_MODELS = 3
MAX_ID_CHARS = 256
MAX_CALL_ID_CHARS = 64

Name = Annotated[str, Field(max_length=MAX_ID_CHARS)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
MetadataKey = Annotated[str, Field(pattern=r"^[^\[\]]{0,64}$")]
Source = Annotated[str, Field(pattern=r"^(https?://|data:[^;,]+;base64,)")]


class _Limits(BaseModel):
    """What the documentation allows of fields whose models allow more."""

    previous_response_id: None = None
    session_id: Name | None = None
    user: Name | None = None
    stop: Annotated[list[str], Field(max_length=4)] | str | None = None
    stop_server_tools_when: Annotated[list[Any], Field(min_length=1)] | None = None
    metadata: (
        Annotated[dict[MetadataKey, Annotated[str, Field(max_length=512)]], Field(max_length=16)] | None
    ) = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    max_tool_calls: Annotated[int, Field(ge=1, le=30)] | None = None


class _Part(BaseModel):
    image_url: Source | None = None
    file_data: Source | None = None


class _Schema(BaseModel):
    type: Literal["object"] = "object"


class _Element(BaseModel):
    """The same of an input item or a tool."""

    call_id: Annotated[str, Field(min_length=1, max_length=MAX_CALL_ID_CHARS)] | None = None
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")] | None = None
    parameters: _Schema | None = None
    content: list[_Part] | str | None = None
    output: list[_Part] | str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that is accepted: its model, served by one of its providers, and its prompt."""

    body: dict[str, Any]
    model: Model
    prompt: Prompt


def accept(service: Service, record: RecordedRequest, bearer: str = "") -> Accepted:
    """Accept a recorded request; notes its warnings, and what it may cost.

    Raises:
        RefusalError: The service would refuse it.
    """
    body = record.body
    record.warnings.extend([*check(body), *_header_warnings(record.headers)])
    record.is_summary = bool(instruction(body))
    session = conversation(body, record.headers.get("x-session-id", ""))
    offers = {offer.provider: offer for offer in _offers(body)}
    model = offers[service.serving(next(iter(offers.values())), f"{record.account}/{session}", [*offers])]
    check_media(body, model)
    items, seals, trouble = input_items(body), dict[str, Sealed](), None
    try:
        seals = service.sealer.verify(items, model, binding(body))
    except TroubleError as error:
        trouble = error
    prompt = PromptReader(service.tokenizer).read(body, seals, model)
    asked = rules.Asked(body, model, items, prompt, trouble, service.credit(record, bearer))
    rules.judge(asked)
    if asked.is_compressed:
        record.warnings.append("context-compression removed the middle of the prompt")
    prices = model.cached.prices
    record.held = prompt.tokens * prices.prompt + asked.output * prices.completion
    return Accepted(body, model, prompt)


def check(body: Any) -> list[str]:
    """Accept a parsed request body, or refuse it.

    Returns:
        Warnings: one for each unknown top-level key, which the service ignores.

    Raises:
        RefusalError: The service would answer 400.
    """
    if not isinstance(body, dict):
        raise invalid_request([issue((), "Expected object")])
    if body.get("input", "") in ("", []):
        raise bad_prompt("No input provided")
    models = body.get("models")
    if isinstance(models, list) and len(models) > MAX_MODELS:
        raise router_error(400, f"'models' array must have {MAX_MODELS} items or fewer")
    issues = sdk_schema.request_issues(body) or [*_own_issues(body)]
    if issues:
        raise invalid_request(issues)
    if isinstance(body["input"], list):
        _check_pairs(body["input"])
    return [f"unknown top-level key: {key}" for key in body if key not in sdk_schema.REQUEST_FIELDS]


# --- rules that the SDK's models do not carry; what they read has passed the models ---


def _own_issues(body: dict[str, Any]) -> Iterator[Issue]:
    yield from _beyond(_Limits, body, ())
    tools, items = body.get("tools") or [], body["input"] if isinstance(body["input"], list) else []
    names = [tool.get("name") for tool in tools]
    for index, tool in enumerate(tools):
        yield from _beyond(_Element, tool, ("tools", index))
        if "name" in tool and tool["name"] in names[:index]:
            yield issue(("tools", index, "name"), f"Tool names must be unique: {tool['name']}")
    for index, item in enumerate(items):
        yield from _beyond(_Element, item, ("input", index))
        if item.get("type", "message") == "message":
            yield from _message_issues(item, ("input", index))


def _beyond(limits: type[BaseModel], value: dict[str, Any], at: Path) -> Iterator[Issue]:
    try:
        limits.model_validate(value)
    except ValidationError as error:
        yield from (issue((*at, *each["loc"]), each["msg"], code=each["type"]) for each in error.errors())


def _message_issues(item: dict[str, Any], at: Path) -> Iterator[Issue]:
    parts = item.get("content")
    if parts is None or parts == []:
        yield issue((*at, "content"), "Message without content")
    kinds = {part["type"] for part in parts} if isinstance(parts, list) else set()
    if item["role"] == "assistant" and any(kind.startswith("input_") for kind in kinds):
        yield issue((*at, "content"), "Supported values are: 'output_text' and 'refusal'")
    if kinds & {"output_text", "refusal"} and "status" not in item:
        yield issue((*at, "status"), "Required")


def _check_pairs(items: list[dict[str, Any]]) -> None:
    """Each output has one earlier call, and no id occurs twice."""
    calls: set[str] = set()
    answered: set[str] = set()
    faults: list[str] = []
    for item in items:
        name = item.get("call_id", "")
        if item.get("type") == "function_call":
            if name in calls:
                faults.append(f"Duplicate function call with call_id {name}.")
            calls.add(name)
        elif item.get("type") == "function_call_output":
            if name not in calls:
                faults.append(f"No tool call found for function call output with call_id {name}.")
            if name in answered:
                faults.append(f"Duplicate output for call_id {name}.")
            answered.add(name)
    if faults:
        raise router_error(400, faults[0], provider_name=None)


# --- headers, model and window ---


def _header_warnings(headers: dict[str, str]) -> list[str]:
    """Headers beyond their documented limits; what the service does with them is not known."""
    categories = [name.strip() for name in headers.get("x-openrouter-categories", "").split(",")]
    too_many = len(categories) > MAX_CATEGORIES or max(map(len, categories)) > MAX_CATEGORY_CHARS
    too_long = len(headers.get("x-session-id", "")) > MAX_ID_CHARS
    excesses = {"x-openrouter-categories": too_many, "x-session-id": too_long}
    return [f"header beyond its limit: {name}" for name, exceeds in excesses.items() if exceeds]


def _offers(body: dict[str, Any]) -> list[Model]:
    """The first of the named models that may serve the request, once for each of its providers that may."""
    fallbacks = body.get("models") or []
    names = [body["model"], *fallbacks] if "model" in body else fallbacks or [catalogue.DEFAULT_MODEL]
    models = []
    settings = [each for each in body.get("plugins") or [] if each.get("id") == "auto-router"]
    allowed = [name for each in settings for name in each.get("allowed_models") or []]
    for name in names:
        if (model := catalogue.routed(name, allowed)) is None:
            raise router_error(400, f"{name} is not a valid model ID")
        models.append(model)
    preferences = body.get("provider") or {}
    refusals = []
    for model in models:
        judged = [(offer, offer.refusal_by(preferences)) for offer in model.offers(preferences)]
        if allowed := [offer for offer, refusal in judged if refusal is None]:
            return allowed
        refusals += [refusal for _, refusal in judged if refusal]
    raise refusals[0]
