"""Whether a valid request can be served: its model, what the model can do, its reasoning, its size.

Owns the order of these checks and the texts of their refusals; ``validate`` has judged the schema before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import catalogue, summary_request, validate
from .cache import MAX_BREAKPOINTS
from .errors import RefusalError, provider_error, router_error
from .prompt import PromptReader, input_items

if TYPE_CHECKING:
    from .catalogue import Model
    from .log import RecordedRequest
    from .prompt import Prompt
    from .service import Service

ROUTING_DOCS = "To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing"
MAX_CATEGORIES = 2
MAX_CATEGORY_CHARS = 30
MEDIA = ("image", "audio", "video")


@dataclass(frozen=True, slots=True)
class Judged:
    """A request that is accepted: its model, what its reasoning said, and its prompt."""

    body: dict[str, Any]
    model: Model
    prompt: Prompt


def judge(service: Service, record: RecordedRequest) -> Judged:
    """Accept a recorded request; notes its warnings.

    Raises:
        RefusalError: The service would refuse it.
    """
    record.warnings.extend([*validate.check(record.body), *_header_warnings(record.headers)])
    body = record.body
    record.is_summary = summary_request.is_asked(body)
    model = _chosen_model(body)
    _check_abilities(body, model)
    seals = service.sealer.verify(input_items(body), model)
    prompt = PromptReader(service.tokenizer).read(body, seals, model)
    if (
        model.family == "anthropic"
        and sum(segment.breakpoint for segment in prompt.segments) > MAX_BREAKPOINTS
    ):
        message = f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided."
        raise RefusalError(provider_error(model.provider, message))
    _check_window(body, model, prompt, record)
    return Judged(body, model, prompt)


def _header_warnings(headers: dict[str, str]) -> list[str]:
    """Headers beyond their documented limits; what the service does with them is not known."""
    categories = [name.strip() for name in headers.get("x-openrouter-categories", "").split(",")]
    too_many = len(categories) > MAX_CATEGORIES or max(map(len, categories)) > MAX_CATEGORY_CHARS
    too_long = len(headers.get("x-session-id", "")) > validate.MAX_ID_CHARS
    excesses = {"x-openrouter-categories": too_many, "x-session-id": too_long}
    return [f"header beyond its limit: {name}" for name, exceeds in excesses.items() if exceeds]


def _chosen_model(body: dict[str, Any]) -> Model:
    named = [body["model"]] if "model" in body else body.get("models") or [catalogue.DEFAULT_MODEL]
    for name in [*named, *(body.get("models") or [])]:
        if catalogue.find(name) is None:
            raise RefusalError(router_error(400, f"{name} is not a valid model ID"))
    model = catalogue.find(named[0])
    assert model is not None
    return model


def _check_abilities(body: dict[str, Any], model: Model) -> None:
    functions = any(tool["type"] == "function" for tool in body.get("tools") or [])
    if functions and "tools" not in model.parameters:
        raise RefusalError(router_error(404, f"No endpoints found that support tool use. {ROUTING_DOCS}"))
    kinds = {part["type"] for item in input_items(body) for part in _parts(item)}
    for kind in MEDIA:
        if f"input_{kind}" in kinds and kind not in model.inputs:
            raise RefusalError(router_error(404, f"No endpoints found that support {kind} input"))
    thinking = body.get("reasoning") or {}
    if model.thinking and model.thinking.mandatory and thinking.get("effort") == "none":
        raise RefusalError(
            router_error(400, "Reasoning is mandatory for this endpoint and cannot be disabled.")
        )


def _parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    held = item.get("content") if item.get("type", "message") == "message" else item.get("output")
    return [part for part in held if "type" in part] if isinstance(held, list) else []


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
