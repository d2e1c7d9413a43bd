"""Whether a request to /responses is one that the service accepts.

Owns the order of the checks, and the documented rules that the SDK's models do not carry: lengths, ranges, counts,
names, roles, the pairing of calls with their outputs, what a model can do and how much it holds; ``media`` judges
what is not text. A request that is not accepted raises ``RefusalError`` with the documented answer.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import catalogue, routing, sdk_schema
from .cache import MAX_BREAKPOINTS
from .errors import Refusal, RefusalError, bad_prompt, invalid_request, provider_error, router_error
from .media import check_media
from .prompt import PromptReader, input_items
from .summaries import is_summary_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .catalogue import Model
    from .prompt import Prompt
    from .sdk_schema import Issue, Path
    from .state import RecordedRequest, Service

ROUTING_DOCS = "To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing"
MAX_CATEGORIES = 2
MAX_CATEGORY_CHARS = 30
MAX_MODELS = 3
MAX_STOPS = 4
MAX_ID_CHARS = 256
MAX_CALL_ID_CHARS = 64
MAX_METADATA_PAIRS = 16
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_VALUE_CHARS = 512
MAX_TOOL_CALLS = 30
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IMAGE_URL = re.compile(r"https?://|data:image/[a-z+.-]+;base64,")
FILE_DATA = re.compile(r"data:[^;,]+;base64,")
RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "top_logprobs": (0, 20),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "top_k": (0, math.inf),
    "max_output_tokens": (1, math.inf),
    "max_tool_calls": (1, MAX_TOOL_CALLS),
}


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
    record.warnings.extend([*check(record.body), *_header_warnings(record.headers)])
    body = record.body
    record.is_summary = is_summary_request(body)
    model = _chosen_model(body)
    _check_abilities(body, model)
    check_media(body, model)
    seals = service.sealer.verify(input_items(body), model)
    prompt = PromptReader(service.tokenizer).read(body, seals, model)
    if (
        model.family == "anthropic"
        and sum(segment.breakpoint for segment in prompt.segments) > MAX_BREAKPOINTS
    ):
        message = f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided."
        raise RefusalError(provider_error(model.provider, message))
    long_lived = (body.get("cache_control") or {}).get("ttl") == "1h"
    marked = sum(segment.breakpoint for segment in prompt.segments)
    if model.family == "anthropic" and long_lived and marked > 1:
        message = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
        raise RefusalError(provider_error(model.provider, message))
    _check_window(body, model, prompt, record)
    return Accepted(body, model, prompt)


def check(body: Any) -> list[str]:
    """Accept a parsed request body, or refuse it.

    Returns:
        Warnings: one for each unknown top-level key, which the service ignores.

    Raises:
        RefusalError: The service would answer 400.
    """
    if not isinstance(body, dict):
        raise RefusalError(invalid_request([_issue((), "Expected object")]))
    _check_documented(body)
    issues = [
        *sdk_schema.fields_issues(body),
        *_limit_issues(body),
        *_input_issues(body),
        *_tools_issues(body),
    ]
    if issues:
        raise RefusalError(invalid_request(issues))
    if isinstance(body["input"], list):
        _check_pairs(body["input"])
    return [f"unknown top-level key: {key}" for key in body if key not in sdk_schema.REQUEST_FIELDS]


def _check_documented(body: dict[str, Any]) -> None:
    if body.get("store", False) is not False:
        issue = _issue(("store",), "Invalid input: expected false", expected="false")
        raise RefusalError(invalid_request([issue]))
    if body.get("previous_response_id") is not None:
        message = "previous_response_id is not supported: responses are not stored"
        raise RefusalError(invalid_request([_issue(("previous_response_id",), message)]))
    if body.get("input", "") in ("", []):
        raise RefusalError(bad_prompt("No input provided"))
    models = body.get("models")
    if isinstance(models, list) and len(models) > MAX_MODELS:
        raise RefusalError(router_error(400, f"'models' array must have {MAX_MODELS} items or fewer"))


# --- limits of the top-level fields ---


def _limit_issues(body: dict[str, Any]) -> list[Issue]:
    issues = [_range_issue(name, body[name]) for name in RANGES if name in body]
    checks: dict[str, Callable[[Any], str | None]] = {
        "session_id": _too_long,
        "user": _too_long,
        "metadata": _bad_metadata,
        "stop": lambda stop: (
            "At most 4 sequences" if isinstance(stop, list) and len(stop) > MAX_STOPS else None
        ),
        "stop_server_tools_when": lambda rules: None if rules else "At least one condition",
    }
    found = [(name, check(body[name])) for name, check in checks.items() if body.get(name) is not None]
    issues.extend(_issue((name,), message) for name, message in found if message)
    return [issue for issue in issues if issue]


def _range_issue(name: str, value: Any) -> Issue | None:
    low, high = RANGES[name]
    if not isinstance(value, int | float) or isinstance(value, bool) or low <= value <= high:
        return None
    return _issue(
        (name,), f"Number must be between {low} and {high}", code="too_big" if value > high else "too_small"
    )


def _too_long(text: Any) -> str | None:
    long = isinstance(text, str) and len(text) > MAX_ID_CHARS
    return f"String must contain at most {MAX_ID_CHARS} character(s)" if long else None


def _bad_metadata(pairs: Any) -> str | None:
    if not isinstance(pairs, dict):
        return None
    if len(pairs) > MAX_METADATA_PAIRS:
        return f"At most {MAX_METADATA_PAIRS} pairs"
    if any(len(key) > MAX_METADATA_KEY_CHARS or set(key) & set("[]") for key in pairs):
        return f"Keys: at most {MAX_METADATA_KEY_CHARS} characters, no brackets"
    texts = [value for value in pairs.values() if isinstance(value, str)]
    if any(len(value) > MAX_METADATA_VALUE_CHARS for value in texts):
        return f"Values: at most {MAX_METADATA_VALUE_CHARS} characters"
    return None


# --- tools ---


def _tools_issues(body: dict[str, Any]) -> Iterator[Issue]:
    if "tools" not in body:
        return
    if not isinstance(body["tools"], list):
        yield _issue(("tools",), "Expected array")
        return
    names: set[str] = set()
    for index, tool in enumerate(body["tools"]):
        at = ("tools", index)
        issues = sdk_schema.tool_issues(tool, at)
        yield from issues
        if not issues and tool["type"] == "function":
            yield from _function_issues(tool, names, at)


def _function_issues(tool: dict[str, Any], names: set[str], at: Path) -> Iterator[Issue]:
    name, parameters = tool["name"], tool["parameters"]
    if not TOOL_NAME.fullmatch(name):
        yield _issue((*at, "name"), f"Invalid name {name!r}: must match ^[a-zA-Z0-9_-]{{1,64}}$")
    if name in names:
        yield _issue((*at, "name"), f"Tool names must be unique: {name}")
    if parameters is not None and parameters.get("type", "object") != "object":
        yield _issue((*at, "parameters"), 'schema must be of type "object"')
    names.add(name)


# --- input items ---


def _input_issues(body: dict[str, Any]) -> Iterator[Issue]:
    given = body["input"]
    if isinstance(given, str):
        return
    if not isinstance(given, list):
        yield _issue(("input",), "Expected string or array")
        return
    for index, item in enumerate(given):
        at = ("input", index)
        issues = sdk_schema.item_issues(item, at)
        yield from issues
        if not issues:
            yield from _rule_issues(item, at)


def _rule_issues(item: dict[str, Any], at: Path) -> Iterator[Issue]:
    kind = item.get("type", "message")
    rules = ITEM_RULES.get(kind)
    if rules:
        yield from rules(item, at)


def _message_issues(item: dict[str, Any], at: Path) -> Iterator[Issue]:
    parts = item.get("content")
    if parts is None or parts == []:
        yield _issue((*at, "content"), "Message without content")
    if not isinstance(parts, list):
        return
    if item["role"] == "assistant" and any(part["type"].startswith("input_") for part in parts):
        yield _issue((*at, "content"), "Supported values are: 'output_text' and 'refusal'")
    if any(part["type"] in {"output_text", "refusal"} for part in parts) and "status" not in item:
        yield _issue((*at, "status"), "Required")
    for index, part in enumerate(parts):
        yield from _part_issues(part, (*at, "content", index))


def _part_issues(part: dict[str, Any], at: Path) -> Iterator[Issue]:
    url, data = part.get("image_url"), part.get("file_data")
    if part["type"] == "input_image" and not (url or part.get("file_id")):
        yield _issue((*at, "image_url"), "Required")
    if url and not IMAGE_URL.match(url):
        yield _issue((*at, "image_url"), "Expected an https or data URL of an image")
    if part["type"] == "input_file" and not (data or part.get("file_url") or part.get("file_id")):
        yield _issue((*at, "file_data"), "Required")
    if data and not FILE_DATA.match(data):
        yield _issue((*at, "file_data"), "Expected a data URL")


def _call_issues(item: dict[str, Any], at: Path) -> Iterator[Issue]:
    yield from _call_id_issues(item, at)
    if not TOOL_NAME.fullmatch(item["name"]):
        yield _issue((*at, "name"), f"Invalid name {item['name']!r}")


def _output_issues(item: dict[str, Any], at: Path) -> Iterator[Issue]:
    yield from _call_id_issues(item, at)
    if isinstance(item["output"], list):
        for index, part in enumerate(item["output"]):
            yield from _part_issues(part, (*at, "output", index))


def _call_id_issues(item: dict[str, Any], at: Path) -> Iterator[Issue]:
    if not 1 <= len(item["call_id"]) <= MAX_CALL_ID_CHARS:
        yield _issue((*at, "call_id"), f"String must contain 1 to {MAX_CALL_ID_CHARS} character(s)")


ITEM_RULES: dict[str, Callable[[dict[str, Any], Path], Iterator[Issue]]] = {
    "message": _message_issues,
    "function_call": _call_issues,
    "function_call_output": _output_issues,
}

# --- calls and outputs ---


def _check_pairs(items: list[dict[str, Any]]) -> None:
    """Each call has one later output, each output one earlier call, and no id occurs twice."""
    calls: set[str] = set()
    answered: set[str] = set()
    for item in items:
        kind = item.get("type")
        if kind == "function_call":
            _refuse_if(item["call_id"] in calls, f"Duplicate function call with call_id {item['call_id']}.")
            calls.add(item["call_id"])
        elif kind == "function_call_output":
            lost = item["call_id"] not in calls
            _refuse_if(lost, f"No tool call found for function call output with call_id {item['call_id']}.")
            _refuse_if(item["call_id"] in answered, f"Duplicate output for call_id {item['call_id']}.")
            answered.add(item["call_id"])
    open_calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    for call_id in open_calls:
        _refuse_if(call_id not in answered, f"No tool output found for function call {call_id}.")


def _refuse_if(wrong: bool, message: str) -> None:  # noqa: FBT001 - the condition is the point of the call
    if wrong:
        raise RefusalError(router_error(400, message, provider_name=None))


def _issue(path: Path, message: str, *, code: str = "invalid_union", **more: str) -> Issue:
    return {"code": code, "path": list(path), "message": message, **more}


# --- headers, model and window ---


def _header_warnings(headers: dict[str, str]) -> list[str]:
    """Headers beyond their documented limits; what the service does with them is not known."""
    categories = [name.strip() for name in headers.get("x-openrouter-categories", "").split(",")]
    too_many = len(categories) > MAX_CATEGORIES or max(map(len, categories)) > MAX_CATEGORY_CHARS
    too_long = len(headers.get("x-session-id", "")) > MAX_ID_CHARS
    excesses = {"x-openrouter-categories": too_many, "x-session-id": too_long}
    return [f"header beyond its limit: {name}" for name, exceeds in excesses.items() if exceeds]


def _chosen_model(body: dict[str, Any]) -> Model:
    named = [body["model"]] if "model" in body else body.get("models") or [catalogue.DEFAULT_MODEL]
    for name in [*named, *(body.get("models") or [])]:
        if catalogue.find(name) is None:
            raise RefusalError(router_error(400, f"{name} is not a valid model ID"))
    models = [model for name in [named[0], *(body.get("models") or [])] if (model := catalogue.find(name))]
    answering = routing.chosen(models, body.get("provider") or {})
    if isinstance(answering, Refusal):
        raise RefusalError(answering)
    return answering


def _check_abilities(body: dict[str, Any], model: Model) -> None:
    if body.get("tools") and "tools" not in model.parameters:
        raise RefusalError(router_error(404, f"No endpoints found that support tool use. {ROUTING_DOCS}"))
    _check_choice(body, model)
    thinking = body.get("reasoning") or {}
    if model.thinking and model.thinking.mandatory and thinking.get("effort") == "none":
        raise RefusalError(
            router_error(400, "Reasoning is mandatory for this endpoint and cannot be disabled.")
        )


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
            raise RefusalError(router_error(400, f"Tool choice {tool!r} not found in 'tools' parameter."))
    thinks = (body.get("reasoning") or {}).get("effort") not in {None, "none"}
    if model.family == "anthropic" and thinks and choice.get("mode", "required") == "required":
        message = "Thinking may not be enabled when tool_choice forces tool use."
        raise RefusalError(provider_error(model.provider, message))


def _check_window(body: dict[str, Any], model: Model, prompt: Prompt, record: RecordedRequest) -> None:
    output = body.get("max_output_tokens") or 0
    total = prompt.tokens + output
    if total <= model.context_tokens:
        return
    plugin = next((one for one in body.get("plugins") or [] if one["id"] == "context-compression"), None)
    compressing = model.compresses_unasked if plugin is None else plugin.get("enabled", True)
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
    raise RefusalError(router_error(400, message, provider_name=None))
