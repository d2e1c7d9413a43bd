"""The error bodies of the service, in its three families.

Owns the shapes and the documented texts; decides nothing about when an error is due. Family A is the
router's and the providers' (an integer code and metadata), family B is the validation of /responses (a
string code), family C is a failed response object with HTTP status 200. Gateway errors in front of the
service are HTML pages, a line of text, or nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

Family = Literal["A", "B", "C", "html", "text", "empty"]

USER_ID = "user_standin"
CREDITS_URL = "https://openrouter.ai/credits"
FREE_LIMIT_PER_DAY = 50
FREE_LIMIT_RESET_MS = "4102444800000"

HTML_PAGE = (
    "<!DOCTYPE html><html><head><title>openrouter.ai | {status}: {message}</title></head>"
    "<body><h1>Error {status}</h1><p>{message}</p><p>cloudflare</p></body></html>"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is an error: everything the server needs to send it."""

    status: int
    message: str
    family: Family = "A"
    code: str | None = None
    error_type: str | None = None
    metadata: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> str:
        """The body as sent, a JSON text or an HTML page."""
        if self.family == "html":
            return HTML_PAGE.format(status=self.status, message=self.message)
        if self.family in {"text", "empty"}:
            return self.message if self.family == "text" else ""
        return json.dumps(_shape(self), ensure_ascii=False)

    def content_type(self) -> str:
        """The media type that belongs to the body."""
        kinds = {"html": "text/html; charset=UTF-8", "text": "text/plain", "empty": "text/plain"}
        return kinds.get(self.family, "application/json")


class RefusalError(Exception):
    """Raised where a request turns out to be refused; carries the answer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Known:
    """The documented answer for a status."""

    message: str
    error_type: str
    family: Family = "A"
    metadata: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)


UPSTREAM = {"provider_name": "StandIn", "raw": '{"error":{"message":"upstream trouble"}}'}

KNOWN: dict[int, Known] = {
    400: Known("Invalid Responses API request", "invalid_request", "B"),
    401: Known("No auth credentials found", "authentication"),
    402: Known(
        f"Insufficient credits. Add more using {CREDITS_URL}",
        "payment_required",
        metadata={
            "limit_source": "openrouter_credits",
            "remedy_hint": "Add credits",
            "provider_name": None,
            "previous_errors": [],
        },
    ),
    403: Known(
        'standin/plain requires moderation on OpenAI. Your input was flagged for "harassment". '
        "No credits were charged.",
        "content_policy_violation",
        metadata={
            "reasons": ["harassment"],
            "flagged_input": "the flagged words",
            "provider_name": "OpenAI",
            "model_slug": "standin/plain",
        },
    ),
    404: Known(
        "No allowed providers are available for the selected model.",
        "not_found",
        extra={"availability": {"code": "no_endpoints", "retryable": False, "fallback_models": []}},
    ),
    408: Known("Request timed out", "timeout"),
    412: Known("Precondition failed", "precondition_failed"),
    413: Known("Payload too large", "payload_too_large"),
    422: Known("Unprocessable request", "unprocessable"),
    429: Known(
        "Provider returned error",
        "rate_limit_exceeded",
        metadata={
            "raw": "the model is temporarily rate-limited upstream. Please retry shortly.",
            "provider_name": "StandIn",
            "is_byok": False,
            "limit_source": "upstream_provider_shared_pool",
            "remedy_hint": "Retry later or add your own key",
        },
    ),
    500: Known("Internal Server Error", "server"),
    502: Known("Provider returned error", "provider_unavailable", metadata=UPSTREAM),
    503: Known("No available model provider meets your routing requirements", "provider_overloaded"),
    504: Known("Gateway timeout", "timeout"),
    524: Known("A timeout occurred", "timeout", "html"),
    529: Known("Provider is overloaded", "provider_overloaded", metadata=UPSTREAM),
}


def documented(status: int) -> Refusal:
    """The documented error for an HTTP status; an unlisted status gets a plain one of family A."""
    known = KNOWN.get(status, Known(f"HTTP {status}", "unmapped"))
    code = "invalid_prompt" if known.family == "B" else None
    return Refusal(
        status, known.message, known.family, code, known.error_type, known.metadata, dict(known.extra)
    )


def invalid_request(issues: list[dict[str, Any]]) -> Refusal:
    """Family B for a body that does not fit the schema; the issues go into metadata.raw as JSON text."""
    raw = json.dumps(issues, ensure_ascii=False)
    return Refusal(400, "Invalid Responses API request", "B", "invalid_prompt", metadata={"raw": raw})


def bad_prompt(message: str) -> Refusal:
    """Family B with its own message and no metadata."""
    return Refusal(400, message, "B", "invalid_prompt")


def router_error(status: int, message: str, **metadata: Any) -> Refusal:
    """Family A, said by the router itself."""
    return Refusal(status, message, metadata=metadata or None)


def provider_error(provider: str, message: str) -> Refusal:
    """Family A with status 400, handed on from a provider."""
    raw = json.dumps({"error": {"message": message, "type": "invalid_request_error"}})
    return Refusal(400, message, metadata={"provider_name": provider, "raw": raw})


def unsupported(path: str, value: Any, values: tuple[str, ...]) -> Refusal:
    """Family A with status 400 for a parameter, or a value of it, that OpenAI does not take."""
    listed = ", ".join(f"'{each}'" for each in values)
    message = (
        f"Unsupported value: '{value}' is not supported with this model. Supported values are: {listed}."
        if values
        else f"Unsupported parameter: '{path}' is not supported with this model."
    )
    code = "unsupported_value" if values else "unsupported_parameter"
    said = {"message": message, "type": "invalid_request_error", "param": path, "code": code}
    metadata = {"provider_name": "OpenAI", "raw": json.dumps({"error": said})}
    return Refusal(400, "Provider returned error", metadata=metadata)


def own_rate_limit() -> Refusal:
    """The service's own daily limit for free models, with its headers."""
    headers = {
        "X-RateLimit-Limit": str(FREE_LIMIT_PER_DAY),
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": FREE_LIMIT_RESET_MS,
    }
    message = (
        "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"
    )
    metadata = {"headers": headers, "limit_source": "openrouter_free_tier_daily", "provider_name": None}
    return Refusal(429, message, metadata=metadata, headers=headers)


def _shape(refusal: Refusal) -> dict[str, Any]:
    if refusal.family == "B":
        code = refusal.code or "invalid_prompt"
        return {"error": {"code": code, "message": refusal.message}, "metadata": refusal.metadata}
    error: dict[str, Any] = {"code": refusal.status, "message": refusal.message, **refusal.extra}
    if refusal.metadata is not None:
        error["metadata"] = refusal.metadata
    return {"error": error, "user_id": USER_ID}
