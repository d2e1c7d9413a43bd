"""From an accepted request and its plan to the finished response.

Owns ids, seals and the bill of one response. It sends nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from . import account, events
from .cache import LONG_TTL_SECONDS
from .items import Maker
from .prompt import conversation

if TYPE_CHECKING:
    from .cache import CachedModel
    from .judging import Judged
    from .log import RecordedRequest
    from .plan import Plan
    from .service import Service

ENCRYPTED_CONTENT = "reasoning.encrypted_content"
SEARCHES = frozenset({"web_search_call", "openrouter:web_search"})
ID_CHARS = 24
RESPONSE_ID_CHARS = 20


def answer(service: Service, record: RecordedRequest, judged: Judged, plan: Plan) -> events.Response:
    """Make the response that a plan describes; its reasoning is sealed and its generation recorded."""
    maker = Maker(judged.model, _new_id, service.tokenizer)
    plan = maker.limited(plan, judged.body.get("max_output_tokens"))
    output, tokens = _made(maker, plan)
    seals = service.sealer.seal(output, judged.model, tokens)
    wanted = ENCRYPTED_CONTENT in (judged.body.get("include") or [])
    session = conversation(judged.body, record.headers.get("x-session-id", ""))
    now = service.now()
    response = events.Response(
        id=f"gen-{int(now)}-{uuid.uuid4().hex[:RESPONSE_ID_CHARS]}",
        created_at=int(now),
        body=judged.body,
        model=judged.model.id,
        output=tuple(output),
        seals={name: seal for name, seal in seals.items() if wanted or "signature" in seal},
        usage=_bill(service, judged, f"{record.account}/{session}", _produced(output, tokens)),
        plan=plan,
    )
    moment = datetime.fromtimestamp(now, UTC).isoformat()
    service.generations[response.id] = account.generation(response, judged.model, moment, session)
    return response


def _made(maker: Maker, plan: Plan) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The items of a plan, the last one incomplete where the plan ends early, and their tokens by id."""
    last = len(plan.steps) - 1 if plan.ending != "completed" else -1
    output = [
        maker.make(step, "incomplete" if at == last else "completed") for at, step in enumerate(plan.steps)
    ]
    return output, {item["id"]: maker.tokens(step) for item, step in zip(output, plan.steps, strict=True)}


def _produced(output: list[dict[str, Any]], tokens: dict[str, int]) -> account.Output:
    thought = sum(tokens[item["id"]] for item in output if item["type"] == "reasoning")
    return account.Output(sum(tokens.values()), thought, sum(item["type"] in SEARCHES for item in output))


def _bill(service: Service, judged: Judged, session: str, output: account.Output) -> dict[str, Any]:
    cached = _as_asked(judged)
    usage = service.cache.account(cached, session, judged.prompt.segments, service.now())
    return account.bill(usage, judged.model, output)


def _as_asked(judged: Judged) -> CachedModel:
    """The model's caching rule with what the request itself chooses."""
    cached = judged.model.cached
    if (judged.body.get("cache_control") or {}).get("ttl") == "1h":
        return replace(cached, rule=replace(cached.rule, ttl_seconds=LONG_TTL_SECONDS))
    explicit = (judged.body.get("prompt_cache_options") or {}).get("mode") == "explicit"
    if explicit and cached.rule.kind == "automatic":
        return replace(cached, rule=replace(cached.rule, kind="explicit"))
    return cached


def _new_id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:ID_CHARS]
