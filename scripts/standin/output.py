"""From an accepted request and its plan to the finished response.

Owns the output items' finished form, their ids, seals and tokens, and the bill of a response. ``events`` owns
the order in which they are streamed.
"""

from __future__ import annotations

import base64
import math
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import events
from .cache import LONG_TTL_SECONDS, SEARCH_DOLLARS
from .drawing import draw
from .plan import Call, Document, Fetch, Image, Message, Reasoning, Search, Unknown
from .prompt import conversation
from .seal import FORMATS

if TYPE_CHECKING:
    from .cache import CachedModel, Usage
    from .catalogue import Model
    from .plan import Plan, Step
    from .prompt import Tokenizer
    from .state import RecordedRequest, Service
    from .validate import Accepted

Item = dict[str, Any]

ENCRYPTED_TOKENS = 64
IMAGE_OUTPUT_TOKENS = 1290
CALL_OVERHEAD_TOKENS = 8
ENCRYPTED_CONTENT = "reasoning.encrypted_content"
SEARCHES = ("web_search_call", "openrouter:web_search")
ID_CHARS = 24
RESPONSE_ID_CHARS = 20


def answer(service: Service, record: RecordedRequest, accepted: Accepted, plan: Plan) -> events.Response:
    """Build the response that a plan describes; its reasoning is sealed and its prompt cached."""
    body, model, now = accepted.body, accepted.model, service.now()
    builder = ItemBuilder(model, service.tokenizer)
    plan = builder.limit(plan, body.get("max_output_tokens"))
    ends = ["completed"] * len(plan.steps)
    if ends and plan.ending != "completed":
        ends[-1:] = ["incomplete"]
    output = [builder.build(step, end) for step, end in zip(plan.steps, ends, strict=True)]
    tokens = {item["id"]: builder.tokens(step) for item, step in zip(output, plan.steps, strict=True)}
    seals = service.sealer.seal(output, model, tokens)
    wanted = ENCRYPTED_CONTENT in (body.get("include") or [])
    session = conversation(body, record.headers.get("x-session-id", ""))
    used = service.cache.account(
        _caching_rule(accepted), f"{record.account}/{session}", accepted.prompt.segments, now
    )
    return events.Response(
        id=f"gen-{int(now)}-{uuid.uuid4().hex[:RESPONSE_ID_CHARS]}",
        created_at=int(now),
        body=body,
        model=model.id,
        output=tuple(output),
        seals={name: seal for name, seal in seals.items() if wanted or "signature" in seal},
        usage=_bill(used, model, output, tokens),
        plan=plan,
    )


def _bill(used: Usage, model: Model, output: list[Item], tokens: dict[str, int]) -> dict[str, Any]:
    """The ``usage`` object of a response; costs are dollars."""
    kinds = [item["type"] for item in output]
    searches, fetches = sum(map(kinds.count, SEARCHES)), kinds.count("openrouter:web_fetch")
    output_tokens = sum(tokens.values())
    output_cost, tool_cost = output_tokens * model.cached.prices.completion, searches * SEARCH_DOLLARS
    writes = {"cache_write_tokens": used.cache_write_tokens} if model.rule.writes_billed else {}
    thought = sum(tokens[item["id"]] for item in output if item["type"] == "reasoning")
    shown: dict[str, Any] = {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens, **writes},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": used.input_tokens + output_tokens,
        "cost": float(used.input_cost + output_cost + tool_cost),
        "is_byok": False,
        "cost_details": {
            "upstream_inference_cost": None,
            "upstream_inference_input_cost": float(used.input_cost),
            "upstream_inference_output_cost": float(output_cost),
        },
    }
    if calls := searches + fetches:
        shown["cost_details"]["server_tool_cost"] = float(tool_cost)
        counts = dict.fromkeys(("tool_calls_requested", "tool_calls_executed"), calls)
        shown["server_tool_use_details"] = {"web_search_requests": searches, **counts}
    return shown


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
    """Builds items for one model."""

    model: Model
    tokenizer: Tokenizer

    def build(self, step: Step, status: str) -> Item:
        """The item as it stands in ``response.output``, its reasoning not yet sealed."""
        family = self.model.family
        more: Item
        match step:
            case Reasoning(kind, parts):
                prefix, name = "rs_" if family == "openai" else "rs_tmp_", "reasoning"
                raw = {"content": [{"type": "reasoning_text", "text": text} for text in parts]}
                summary = [{"type": "summary_text", "text": text} for text in parts if kind == "summary"]
                more = {"summary": summary, **(raw if kind == "raw" else {}), "format": FORMATS[family]}
            case Message(text, refused=refused, phase=phase):
                prefix, name = "msg_tmp_", "message"
                part = {
                    "type": "output_text",
                    "text": text,
                    "annotations": citations_of(step),
                    "logprobs": [],
                }
                refusal = {"type": "refusal", "refusal": text}
                more = {"role": "assistant", "content": [refusal if refused else part], "phase": phase}
            case Call(called, arguments):
                prefix, name = "fc_tmp_", "function_call"
                call_id = _new_id("toolu_" if family == "anthropic" else "call_")
                more = {"call_id": call_id, "name": called, "arguments": arguments}
            case Search(query, kind, url):
                native, status = kind == "native", "completed"
                prefix, name = ("ws_", "web_search_call") if native else ("st_tmp_", "openrouter:web_search")
                sources = {} if native else {"sources": [{"type": "url", "url": url}]}
                more = {"action": {"type": "search", "query": query, **sources}}
            case Fetch(url):
                prefix, name, status = "st_tmp_", "openrouter:web_fetch", "completed"
                page = {"title": "A page", "content": f"The text of {url}."}
                more = {"url": url, **page, "httpStatus": 200}
            case Image(prompt, edited, ratio):
                prefix, name, status = "ig_", "image_generation_call", "completed"
                picture = base64.b64encode(draw(prompt, edited, ratio)).decode()
                more = {"prompt": prompt, "result": picture}
            case Unknown(novel):
                prefix, name, more = "new_", novel, {"novelty": {"unforeseen": True}}
        return {"id": _new_id(prefix), "type": name, "status": status, **more}

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
