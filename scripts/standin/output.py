"""From an accepted request and its plan to the finished response.

Owns the output items' finished form, their ids, seals and tokens, and the bill of a response. ``events`` owns
the order in which they are streamed.
"""

from __future__ import annotations

import base64
import math
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from . import billing, events
from .cache import LONG_TTL_SECONDS
from .drawing import draw
from .plan import Call, Document, Fetch, Image, Message, Plan, Reasoning, Search, Unknown
from .prompt import conversation
from .seal import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .cache import CachedModel
    from .catalogue import Model
    from .plan import Plan, Step
    from .state import RecordedRequest, Service
    from .tokens import Tokenizer
    from .validate import Accepted

Item = dict[str, Any]

ENCRYPTED_TOKENS = 64
IMAGE_OUTPUT_TOKENS = 1290
CALL_OVERHEAD_TOKENS = 8
ENCRYPTED_CONTENT = "reasoning.encrypted_content"
SEARCHES = frozenset({"web_search_call", "openrouter:web_search"})
ID_CHARS = 24
RESPONSE_ID_CHARS = 20


def answer(service: Service, record: RecordedRequest, accepted: Accepted, plan: Plan) -> events.Response:
    """Build the response that a plan describes; its reasoning is sealed and its generation recorded."""
    builder = ItemBuilder(accepted.model, _new_id, service.tokenizer)
    plan = builder.limit(plan, accepted.body.get("max_output_tokens"))
    output, tokens = _build_items(builder, plan)
    seals = service.sealer.seal(output, accepted.model, tokens)
    wanted = ENCRYPTED_CONTENT in (accepted.body.get("include") or [])
    session = conversation(accepted.body, record.headers.get("x-session-id", ""))
    now = service.now()
    response = events.Response(
        id=f"gen-{int(now)}-{uuid.uuid4().hex[:RESPONSE_ID_CHARS]}",
        created_at=int(now),
        body=accepted.body,
        model=accepted.model.id,
        output=tuple(output),
        seals={name: seal for name, seal in seals.items() if wanted or "signature" in seal},
        usage=_bill(service, accepted, f"{record.account}/{session}", _count_output(output, tokens)),
        plan=plan,
    )
    created_at = datetime.fromtimestamp(now, UTC).isoformat()
    service.generations[response.id] = billing.generation(response, accepted.model, created_at, session)
    return response


def _build_items(builder: ItemBuilder, plan: Plan) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The items of a plan, the last one incomplete where the plan ends early, and their tokens by id."""
    last = len(plan.steps) - 1 if plan.ending != "completed" else -1
    output = [
        builder.build(step, "incomplete" if at == last else "completed") for at, step in enumerate(plan.steps)
    ]
    return output, {item["id"]: builder.tokens(step) for item, step in zip(output, plan.steps, strict=True)}


def _count_output(output: list[dict[str, Any]], tokens: dict[str, int]) -> billing.Output:
    thought = sum(tokens[item["id"]] for item in output if item["type"] == "reasoning")
    searches = sum(item["type"] in SEARCHES for item in output)
    fetches = sum(item["type"] == "openrouter:web_fetch" for item in output)
    return billing.Output(sum(tokens.values()), thought, searches, fetches)


def _bill(service: Service, accepted: Accepted, session: str, output: billing.Output) -> dict[str, Any]:
    cached = _caching_rule(accepted)
    usage = service.cache.account(cached, session, accepted.prompt.segments, service.now())
    return billing.bill(usage, accepted.model, output)


def _caching_rule(accepted: Accepted) -> CachedModel:
    """The model's caching rule with what the request itself chooses."""
    cached = accepted.model.cached
    if (accepted.body.get("cache_control") or {}).get("ttl") == "1h":
        return replace(cached, rule=replace(cached.rule, ttl_seconds=LONG_TTL_SECONDS))
    explicit = (accepted.body.get("prompt_cache_options") or {}).get("mode") == "explicit"
    if explicit and cached.rule.kind == "automatic":
        return replace(cached, rule=replace(cached.rule, kind="explicit"))
    return cached


def _new_id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:ID_CHARS]


@dataclass(frozen=True, slots=True)
class ItemBuilder:
    """Builds items for one model; ``new_id`` returns a fresh id for a prefix."""

    model: Model
    new_id: Callable[[str], str]
    tokenizer: Tokenizer

    def build(self, step: Step, status: str) -> Item:
        """The item as it stands in ``response.output``, its reasoning not yet sealed."""
        return BUILDERS[type(step)](self, step, status)

    def tokens(self, step: Step) -> int:
        """The output tokens that a step is billed at."""
        match step:
            case Reasoning(kind="encrypted"):
                return ENCRYPTED_TOKENS
            case Reasoning():
                return len(self.tokenizer.encode(step.text()))
            case Message(text):
                return len(self.tokenizer.encode(text))
            case Call(name, arguments):
                return CALL_OVERHEAD_TOKENS + len(self.tokenizer.encode(name + arguments))
            case Image():
                return IMAGE_OUTPUT_TOKENS
        return 0

    def limit(self, plan: Plan, max_tokens: int | None) -> Plan:
        """The plan cut to an output limit in tokens, and halved where its ending asks for it."""
        left, steps = math.inf if max_tokens is None else max_tokens, list[Any]()
        if plan.ending != "completed":
            total = sum(self.tokens(step) for step in plan.steps[:-1])
            left = min(left, total + max(1, self.tokens(plan.steps[-1]) // 2))
        for step in plan.steps:
            cost = self.tokens(step)
            if cost > left:
                cut = _shortened(step, left / cost)
                ending = "max_output_tokens" if plan.ending == "completed" else plan.ending
                return replace(plan, steps=(*steps, *([cut] if cut else [])), ending=ending)
            steps.append(step)
            left -= cost
        return plan


def _shortened(step: Step, part: float) -> Step | None:
    match step:
        case Message(text) if text[: int(len(text) * part)]:
            return replace(step, text=text[: int(len(text) * part)])
        case Reasoning(parts=(first, *_)) if first[: int(len(first) * part)]:
            return replace(step, parts=(first[: int(len(first) * part)],))
    return None


def citations_of(message: Message) -> list[Item]:
    """The annotations of a message: each source is named in the text, or stands for its last character."""
    annotations: list[Item] = []
    for citation in message.citations:
        start = message.text.find(citation.url)
        start = start if start >= 0 else max(0, len(message.text) - 1)
        end = min(len(message.text), start + len(citation.url))
        span = {"start_index": start, "end_index": end}
        annotations.append({"type": "url_citation", "url": citation.url, "title": citation.title, **span})
    return [*annotations, *map(_parsed, message.documents)]


def _parsed(document: Document) -> Item:
    """What OpenRouter's parser made of a PDF, as its documentation of the plugin shows it."""
    texts = [f'<file name="{document.name}">', f"The text of {document.name}.", "</file>"]
    content = [{"type": "text", "text": text} for text in texts]
    return {"type": "file", "file": {"hash": document.digest, "name": document.name, "content": content}}


def _reasoning(builder: ItemBuilder, step: Reasoning, status: str) -> Item:
    native = "rs_" if builder.model.family == "openai" else "rs_tmp_"
    item: Item = {"id": builder.new_id(native), "type": "reasoning", "status": status, "summary": []}
    if step.kind == "summary":
        item["summary"] = [{"type": "summary_text", "text": text} for text in step.parts]
    if step.kind == "raw":
        item["content"] = [{"type": "reasoning_text", "text": text} for text in step.parts]
    return {**item, "format": FORMATS[builder.model.family]}


def _message(builder: ItemBuilder, step: Message, status: str) -> Item:
    part: Item = {"type": "output_text", "text": step.text, "annotations": citations_of(step), "logprobs": []}
    if step.refused:
        part = {"type": "refusal", "refusal": step.text}
    return {
        "id": builder.new_id("msg_tmp_"),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [part],
        "phase": step.phase,
    }


def _call(builder: ItemBuilder, step: Call, status: str) -> Item:
    prefix = "toolu_" if builder.model.family == "anthropic" else "call_"
    return {
        "id": builder.new_id("fc_tmp_"),
        "type": "function_call",
        "status": status,
        "call_id": builder.new_id(prefix),
        "name": step.name,
        "arguments": step.arguments,
    }


def _search(builder: ItemBuilder, step: Search, _status: str) -> Item:
    action: Item = {"type": "search", "query": step.query}
    if step.kind == "native":
        return {
            "id": builder.new_id("ws_"),
            "type": "web_search_call",
            "status": "completed",
            "action": action,
        }
    action["sources"] = [{"type": "url", "url": step.url}]
    return {
        "id": builder.new_id("st_tmp_"),
        "type": "openrouter:web_search",
        "status": "completed",
        "action": action,
    }


def _fetch(builder: ItemBuilder, step: Fetch, _status: str) -> Item:
    return {
        "id": builder.new_id("st_tmp_"),
        "type": "openrouter:web_fetch",
        "status": "completed",
        "url": step.url,
        "title": "A page",
        "content": f"The text of {step.url}.",
        "httpStatus": 200,
    }


def _image(builder: ItemBuilder, step: Image, _status: str) -> Item:
    return {
        "id": builder.new_id("ig_"),
        "type": "image_generation_call",
        "status": "completed",
        "prompt": step.prompt,
        "result": base64.b64encode(draw(step.prompt, step.edited, step.aspect_ratio)).decode(),
    }


def _unknown(builder: ItemBuilder, step: Unknown, status: str) -> Item:
    return {
        "id": builder.new_id("new_"),
        "type": step.type,
        "status": status,
        "novelty": {"unforeseen": True},
    }


BUILDERS: dict[type, Callable[[ItemBuilder, Any, str], Item]] = {
    Reasoning: _reasoning,
    Message: _message,
    Call: _call,
    Search: _search,
    Fetch: _fetch,
    Image: _image,
    Unknown: _unknown,
}
