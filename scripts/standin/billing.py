"""Bills, keys and generation records.

Owns the wire form of everything about money: a response's usage, the answer of /key, the record behind
/generation. It computes nothing that ``cache`` has computed already.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cache import Usage
    from .catalogue import Model
    from .events import Response

SEARCH_DOLLARS = Decimal("0.01")
KEY_LIMIT_DOLLARS = 50.0
FREE_REQUESTS_PER_DAY = 1000
FINISH_REASONS = {"completed": "stop", "max_output_tokens": "length", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class Output:
    """What a response produced: all output tokens, those of reasoning among them, web searches, and pages read."""

    tokens: int
    reasoning_tokens: int
    searches: int
    fetches: int = 0


def bill(usage: Usage, model: Model, output: Output) -> dict[str, Any]:
    """The ``usage`` object of a response; costs are dollars."""
    output_cost = output.tokens * model.cached.prices.completion
    tool_cost = output.searches * SEARCH_DOLLARS
    input_details = {"cached_tokens": usage.cached_tokens}
    if model.rule.writes_billed:
        input_details["cache_write_tokens"] = usage.cache_write_tokens
    shown: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": input_details,
        "output_tokens": output.tokens,
        "output_tokens_details": {"reasoning_tokens": output.reasoning_tokens},
        "total_tokens": usage.input_tokens + output.tokens,
        "cost": float(usage.input_cost + output_cost + tool_cost),
        "is_byok": False,
        "cost_details": {
            "upstream_inference_cost": None,
            "upstream_inference_input_cost": float(usage.input_cost),
            "upstream_inference_output_cost": float(output_cost),
        },
    }
    calls = output.searches + output.fetches
    if not calls:
        return shown
    shown["cost_details"]["server_tool_cost"] = float(tool_cost)
    counts = dict.fromkeys(("tool_calls_requested", "tool_calls_executed"), calls)
    return {**shown, "server_tool_use_details": {"web_search_requests": output.searches, **counts}}


def key_answer(last_chars: str, usage_dollars: float, *, management: bool) -> dict[str, Any]:
    """The answer of /key for a key with a limit; amounts are dollars."""
    spending = dict.fromkeys(("usage", "usage_daily", "usage_weekly", "usage_monthly"), float(usage_dollars))
    byok = dict.fromkeys(("byok_usage", "byok_usage_daily", "byok_usage_weekly", "byok_usage_monthly"), 0.0)
    data = {
        "label": f"sk-or-v1-...{last_chars}",
        "limit": KEY_LIMIT_DOLLARS,
        "limit_remaining": KEY_LIMIT_DOLLARS - usage_dollars,
        "limit_reset": "monthly",
        **spending,
        **byok,
        "is_free_tier": False,
        "is_management_key": management,
        "is_provisioning_key": management,
        "include_byok_in_limit": False,
        "creator_user_id": "user_standin",
        "organization_id": None,
        "workspace_id": None,
        "expires_at": None,
        "allowed_data_regions": ["global"],
        "budgets": [],
        "effective_budget": None,
        "free_model_daily_requests": {
            "limit": FREE_REQUESTS_PER_DAY,
            "remaining": FREE_REQUESTS_PER_DAY,
            "used": 0,
        },
        "rate_limit": {"requests": -1, "interval": "10s", "note": "This field is deprecated"},
    }
    return {"data": data}


def generation(response: Response, model: Model, created_at: str, session: str) -> dict[str, Any]:
    """The record that /generation shows for a response; times are milliseconds."""
    usage = response.usage
    cost = usage["cost"]
    known = {
        "id": response.id,
        "created_at": created_at,
        "model": model.id,
        "provider_name": model.provider,
        "total_cost": cost,
        "usage": cost,
        "is_byok": False,
        "origin": "",
        "api_type": "completions",
        "data_region": "global",
        "streamed": bool(response.body.get("stream")),
        "cancelled": False,
        "finish_reason": FINISH_REASONS[response.plan.ending],
        "native_finish_reason": response.plan.ending,
        "tokens_prompt": usage["input_tokens"],
        "tokens_completion": usage["output_tokens"],
        "native_tokens_prompt": usage["input_tokens"],
        "native_tokens_completion": usage["output_tokens"],
        "native_tokens_reasoning": usage["output_tokens_details"]["reasoning_tokens"],
        "native_tokens_cached": usage["input_tokens_details"]["cached_tokens"],
        "latency": 100,
        "generation_time": 1000,
        "session_id": session,
    }
    return {**dict.fromkeys(UNKNOWN_TO_US), **known}


UNKNOWN_TO_US = (
    "app_id",
    "cache_discount",
    "external_user",
    "http_referer",
    "moderation_latency",
    "native_tokens_completion_images",
    "num_fetches",
    "num_input_audio_prompt",
    "num_media_completion",
    "num_media_prompt",
    "num_search_results",
    "preset_id",
    "provider_responses",
    "router",
    "service_tier",
    "upstream_id",
    "upstream_inference_cost",
    "user_agent",
    "web_search_engine",
    "workspace_id",
)
