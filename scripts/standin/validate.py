"""Whether a request to /responses is one that the service accepts.

Owns the order of the checks, and the documented rules that the SDK's models do not carry: lengths, ranges, counts,
names, roles, the pairing of calls with their outputs, what a model can do and how much it holds; ``media`` judges
what is not text. A request that is not accepted raises ``RefusalError`` with the documented answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from . import catalogue, sdk_schema
from .cache import MAX_BREAKPOINTS
from .errors import bad_prompt, invalid_request, provider_error, router_error
from .media import check_media
from .prompt import PromptReader, input_items
from .sdk_schema import issue
from .summaries import instruction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .catalogue import Model
    from .prompt import Prompt
    from .sdk_schema import Issue, Path
    from .state import RecordedRequest, Service

ROUTING_DOCS = "To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing"
IMPLICIT_COMPRESSION_TOKENS = 8192
"""The context-compression plugin is on up to a window of so many, unless a request switches it off."""
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
    """A request that is accepted: its model, what its reasoning said, and its prompt."""

    body: dict[str, Any]
    model: Model
    prompt: Prompt


def accept(service: Service, record: RecordedRequest) -> Accepted:
    """Accept a recorded request; notes its warnings.

    Raises:
        RefusalError: The service would refuse it.
    """
    body = record.body
    record.warnings.extend([*check(body), *_header_warnings(record.headers)])
    record.is_summary = bool(instruction(body))
    model = _chosen_model(body)
    _check_abilities(body, model)
    check_media(body, model)
    seals = service.sealer.verify(input_items(body), model)
    prompt = PromptReader(service.tokenizer).read(body, seals, model)
    if model.family == "anthropic":
        _check_breakpoints(body, model, sum(segment.breakpoint for segment in prompt.segments))
    _check_window(body, model, prompt, record)
    return Accepted(body, model, prompt)


def _check_breakpoints(body: dict[str, Any], model: Model, count: int) -> None:
    if count > MAX_BREAKPOINTS:
        message = f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided."
        raise provider_error(model.provider, message)
    if count > 1 and (body.get("cache_control") or {}).get("ttl") == "1h":
        message = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
        raise provider_error(model.provider, message)


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
    """Each call has one later output, each output one earlier call, and no id occurs twice."""
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
    faults += [f"No tool output found for function call {name}." for name in calls - answered]
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


def _chosen_model(body: dict[str, Any]) -> Model:
    """The first of the named models whose provider may serve the request."""
    fallbacks = body.get("models") or []
    names = [body["model"], *fallbacks] if "model" in body else fallbacks or [catalogue.DEFAULT_MODEL]
    models = []
    settings = [each for each in body.get("plugins") or [] if each.get("id") == "auto-router"]
    allowed = [name for each in settings for name in each.get("allowed_models") or []]
    for name in names:
        if (model := catalogue.routed(name, allowed)) is None:
            raise router_error(400, f"{name} is not a valid model ID")
        models.append(model)
    refusals = [model.refusal_by(body.get("provider") or {}) for model in models]
    for model, refusal in zip(models, refusals, strict=True):
        if refusal is None:
            return model
    assert refusals[0] is not None
    raise refusals[0]


def _check_abilities(body: dict[str, Any], model: Model) -> None:
    if body.get("tools") and "tools" not in model.parameters:
        raise router_error(404, f"No endpoints found that support tool use. {ROUTING_DOCS}")
    _check_choice(body, model)
    thinking = body.get("reasoning") or {}
    if (model.thinking or {}).get("mandatory") and thinking.get("effort") == "none":
        raise router_error(400, "Reasoning is mandatory for this endpoint and cannot be disabled.")


def _check_choice(body: dict[str, Any], model: Model) -> None:
    """A choice names tools of the request; Anthropic's models cannot be forced to one while they think."""
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return
    keys = ("type", "name")
    offered = [{key: tool.get(key) for key in keys} for tool in body.get("tools") or []]
    named = choice["tools"] if choice["type"] == "allowed_tools" else [choice]
    for tool in named:
        if {key: tool.get(key) for key in keys} not in offered:
            raise router_error(400, f"Tool choice {tool!r} not found in 'tools' parameter.")
    thinks = (body.get("reasoning") or {}).get("effort") not in {None, "none"}
    if model.family == "anthropic" and thinks and choice.get("mode", "required") == "required":
        message = "Thinking may not be enabled when tool_choice forces tool use."
        raise provider_error(model.provider, message)


def _check_window(body: dict[str, Any], model: Model, prompt: Prompt, record: RecordedRequest) -> None:
    output = body.get("max_output_tokens") or 0
    total = prompt.tokens + output
    if total <= model.context_tokens:
        return
    plugin = next((one for one in body.get("plugins") or [] if one["id"] == "context-compression"), None)
    compressing = (
        model.context_tokens <= IMPLICIT_COMPRESSION_TOKENS if plugin is None else plugin.get("enabled", True)
    )
    if compressing:
        record.warnings.append("context-compression removed the middle of the prompt")
        return
    tools = f", {prompt.tool_tokens} of tool input" if prompt.tool_tokens else ""
    split = f"{prompt.tokens - prompt.tool_tokens} of text input{tools}, {output} in the output"
    message = (
        f"This endpoint's maximum context length is {model.context_tokens} tokens. "
        f"However, you requested about {total} tokens ({split}). "
        "Please reduce the length of either one, "
        "or use the context-compression plugin to compress your prompt automatically."
    )
    raise router_error(400, message, provider_name=None)
