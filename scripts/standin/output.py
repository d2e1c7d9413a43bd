"""From an accepted request and its plan to the finished response.

Owns the output items' finished form, their ids, seals and tokens, and the bill of a response, whole or as far as it
came. ``events`` owns the order in which they are streamed.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from . import events
from .cache import LONG_TTL_SECONDS, SEARCH_DOLLARS
from .catalogue import DEFAULT_MODEL, ROUTERS, find
from .plan import SERVER_CALLS, Item, thought
from .prompt import conversation
from .seal import FORMATS, binding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .cache import CachedModel, Usage
    from .catalogue import Model
    from .plan import Plan
    from .prompt import Tokenizer
    from .state import RecordedRequest, Service
    from .validate import Accepted

ADVICE_DOLLARS = Decimal("0.015885")
"""What a recorded bill has beyond the tokens; of the other tools there is none but that of the search."""
ENCRYPTED_TOKENS = 64
IMAGE_OUTPUT_TOKENS = 1290
CALL_OVERHEAD_TOKENS = 8
ENCRYPTED_CONTENT = "reasoning.encrypted_content"
PREFIXES = {
    "message": "msg_tmp_",
    "function_call": "fc_tmp_",
    **{f"openrouter:{name}": "st_tmp_" for name in ("web_search", *SERVER_CALLS)},
    "image_generation_call": "ig_",
}
ID_CHARS = 24
RESPONSE_ID_CHARS = 20


def answer(service: Service, record: RecordedRequest, accepted: Accepted, plan: Plan) -> events.Response:
    """Build the response that a plan describes; its reasoning is sealed and its prompt cached."""
    body, model, now = accepted.body, accepted.model, service.now()
    builder = ItemBuilder(model, service.tokenizer)
    plan = builder.limit(plan, body.get("max_output_tokens"))
    ends = ["completed"] * len(plan.items)
    if ends and plan.ending != "completed":
        ends[-1:] = ["incomplete"]
    output = list(map(builder.build, plan.items, ends))
    tokens = {item["id"]: builder.tokens(item) for item in output}
    seals = service.sealer.seal(output, model, tokens, binding(body))
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
        bill=Bill(used, model, tuple(output), tokens, now, service.tokenizer),
        plan=plan,
        metadata=_metadata(body, model, is_byok=model.own_key_fee is not None) if _asks_who(record) else None,
    )


def _asks_who(record: RecordedRequest) -> bool:
    return record.headers.get("x-openrouter-metadata") == "enabled"


def _metadata(body: dict[str, Any], model: Model, *, is_byok: bool) -> dict[str, Any]:
    """What the service says of who served a request, in its recorded form."""
    requested = body.get("model") or (body.get("models") or [DEFAULT_MODEL])[0]
    by_strategy = {
        "auto": requested in ROUTERS,
        "fallback": (asked := find(requested)) is not None and asked.id != model.id,
    }
    endpoint = {"provider": model.provider, "model": model.id}
    return {
        "requested": requested,
        "strategy": next((name for name, is_it in by_strategy.items() if is_it), "direct"),
        "region": "iad",
        "attempt": 1,
        "is_byok": is_byok,
        "endpoints": {"total": 1, "available": [{**endpoint, "selected": True}]},
        "attempts": [{**endpoint, "status": 200}],
        "pipeline": [],
    }


@dataclass(frozen=True, slots=True)
class Bill:
    """What a response costs: the input as it was used, and items that were billed at so many tokens."""

    used: Usage
    model: Model
    output: tuple[Item, ...]
    tokens: dict[str, int]
    now: float
    tokenizer: Tokenizer

    @property
    def whole(self) -> Item:
        """The ``usage`` object of the whole response."""
        return self._usage(self.output, sum(self.tokens.values()))

    def until(self, finished: set[str], begun: str) -> Item:
        """That of a response of which only these items were finished, and this text of the next one was written."""
        done = [item for item in self.output if item["id"] in finished]
        written = sum(self.tokens[item["id"]] for item in done) + len(self.tokenizer.encode(begun))
        return self._usage(done, written)

    def _usage(self, output: Sequence[Item], output_tokens: int) -> Item:
        """The object in dollars and tokens.

        With a key of the provider's in the account, the provider bills the inference, and OpenRouter its fee and the
        tools. Otherwise what the provider gets is in the cost already.
        """
        used, model = self.used, self.model
        kinds = [item["type"] for item in output]
        searches, advice = (kinds.count(f"openrouter:{name}") for name in ("web_search", "advisor"))
        output_cost = output_tokens * model.cached.prices_of(used.input_tokens, self.now).completion
        inference = used.input_cost + output_cost
        tool_cost = searches * SEARCH_DOLLARS + advice * ADVICE_DOLLARS
        is_byok = model.own_key_fee is not None
        own = inference if model.own_key_fee is None else inference * model.own_key_fee
        writes = {"cache_write_tokens": used.cache_write_tokens} if model.rule.writes_billed else {}
        thought = sum(self.tokens[item["id"]] for item in output if item["type"] == "reasoning")
        shown: dict[str, Any] = {
            "input_tokens": used.input_tokens,
            "input_tokens_details": {"cached_tokens": used.cached_tokens, **writes},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": thought},
            "total_tokens": used.input_tokens + output_tokens,
            "cost": float(own + tool_cost),
            "is_byok": is_byok,
            "cost_details": {
                "upstream_inference_cost": float(inference if is_byok else own + tool_cost),
                "upstream_inference_input_cost": float(used.input_cost),
                "upstream_inference_output_cost": float(output_cost),
            },
        }
        if calls := sum(kind.startswith("openrouter:") for kind in kinds):
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

    def build(self, planned: Item, status: str) -> Item:
        """The item as it stands in ``response.output``, its reasoning not yet sealed."""
        kind, family, more = planned["type"], self.model.family, Item()
        prefix = PREFIXES.get(kind, "new_")
        if kind == "reasoning":
            prefix, more = "rs_" if family == "openai" else "rs_tmp_", {"format": FORMATS[family]}
        elif kind == "function_call":
            more = {"call_id": _new_id("toolu_" if family == "anthropic" else "call_")}
        elif kind == "message":
            more = {"content": [_cited(planned["content"][0])]}
        elif prefix != "new_":
            status = planned.get("status", "completed")
        return {"id": _new_id(prefix), "type": kind, "status": status, **planned, **more}

    def tokens(self, planned: Item) -> int:
        """The output tokens that an item is billed at."""
        match planned["type"]:
            case "reasoning":
                said = thought(planned)
                return len(self.tokenizer.encode(said)) if said else ENCRYPTED_TOKENS
            case "message":
                return len(self.tokenizer.encode(_said(planned["content"][0])))
            case "function_call":
                said = planned["name"] + planned["arguments"]
                return CALL_OVERHEAD_TOKENS + len(self.tokenizer.encode(said))
            case "image_generation_call":
                return IMAGE_OUTPUT_TOKENS
        return 0

    def limit(self, plan: Plan, max_tokens: int | None) -> Plan:
        """The plan cut to an output limit in tokens, and halved where its ending asks for it."""
        left, kept = math.inf if max_tokens is None else max_tokens, list[Item]()
        if plan.ending != "completed":
            total = sum(map(self.tokens, plan.items[:-1]))
            left = min(left, total + max(1, self.tokens(plan.items[-1]) // 2))
        for item in plan.items:
            cost = self.tokens(item)
            if cost > left:
                ending = "max_output_tokens" if plan.ending == "completed" else plan.ending
                return replace(plan, items=[*kept, *_shortened(item, left / cost)], ending=ending)
            kept.append(item)
            left -= cost
        return plan


def _shortened(item: Item, share: float) -> Iterator[Item]:
    """The first part of an item cut to a share of it; nothing where nothing of it is left."""
    field = {"message": "content", "reasoning": "content" if "content" in item else "summary"}.get(
        item["type"]
    )
    if field and item[field]:
        part = item[field][0]
        name, said = "refusal" if "refusal" in part else "text", _said(part)
        if kept := said[: int(len(said) * share)]:
            yield {**item, field: [{**part, name: kept}]}


def _said(part: Item) -> str:
    return str(part.get("text", part.get("refusal", "")))


def _cited(part: Item) -> Item:
    """A part whose sources have their places in the text, or stand for its last character."""
    if not part.get("annotations"):
        return part
    text, annotations = part["text"], []
    for each in part["annotations"]:
        start = text.find(each["url"])
        start = start if start >= 0 else max(0, len(text) - 1)
        end = min(len(text), start + len(each["url"]))
        annotations.append({**each, "start_index": start, "end_index": end})
    return {**part, "annotations": annotations}
