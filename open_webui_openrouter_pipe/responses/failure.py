"""A failure as the wire tells it, read from any of its shapes, before it becomes an error of ours.

Three families of error bodies exist, and `error.code` may be a number or a word; each level may be of any
type. This module owns the reading; the OpenRouter adapter decides what it means for the user.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")

_EXCERPT_CHARACTERS = 300
_RAW_CHARACTERS = 2000
_DEPTH = 5

_STATUS_OF_WORD = {
    "context_length_exceeded": 400,
    "invalid_request": 400,
    "invalid_prompt": 400,
    "authentication": 401,
    "payment_required": 402,
    "permission_denied": 403,
    "content_policy_violation": 403,
    "not_found": 404,
    "precondition_failed": 412,
    "payload_too_large": 413,
    "unprocessable": 422,
    "rate_limit_exceeded": 429,
    "server": 500,
    "server_error": 500,
    "provider_unavailable": 502,
    "provider_overloaded": 503,
    "timeout": 504,
}
"""The HTTP status behind `error_type` and `error.code`, for failures inside a stream, where HTTP says 200."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What the server said.

    `status`: HTTP status, also when it was only named inside a stream. `code`: the most precise word, such as
    "rate_limit_exceeded". `message`: the server's own line, "" if it gave none. `raw`: the provider's text
    behind it. `origin` tells failures of the stream itself ("stream": it ended early or was unreadable).
    `reasons` are those of a moderation, `availability` the router's word for why a model cannot be had,
    `limit` whose limit was met, `retry_after_seconds` what the body (not the header) asked to wait.
    """

    message: str
    status: int | None = None
    code: str | None = None
    provider: str | None = None
    raw: str | None = None
    origin: str = "server"
    reasons: tuple[str, ...] = ()
    availability: str | None = None
    limit: str | None = None
    retry_after_seconds: float | None = None


def read_failure(status: int | None, body: Any) -> Failure:
    """Read an error body, a failed response object or an error event; never raises.

    `status` is that of HTTP, None inside a stream. `body` is the parsed JSON, or the text of what is not
    JSON.
    """
    layers = tuple(_layers(_parsed(body)))
    code = (
        _first(layers, "error_type", _word) or _first(layers, "code", _word) or _first(layers, "type", _word)
    )
    raw = _first(layers, "raw", _raw_text)
    availability = _first(layers, "availability", _object) or {}
    named_status = _first(layers, "code", _http_status) or _first(layers, "status", _http_status)
    return Failure(
        message=_message(layers, body),
        status=_http_status(status) or named_status or _STATUS_OF_WORD.get(code or ""),
        code=code,
        provider=_first(layers, "provider_name", _word),
        raw=raw,
        reasons=_first(layers, "reasons", _words) or (),
        availability=_word(availability.get("code")),
        limit=_first(layers, "limit_source", _word),
        retry_after_seconds=_seconds(availability.get("retry_after")),
    )


def _parsed(body: Any) -> Any:
    if isinstance(body, str) and body.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return body
    return body


def _layers(body: Any, depth: int = _DEPTH) -> Iterator[dict[str, Any]]:
    """The objects that may tell something, the innermost first."""
    if isinstance(body, list):
        body = next(filter(_object, body), None)
    if not isinstance(body, dict) or depth == 0:
        return
    for key in ("error", "response", "metadata"):
        yield from _layers(body.get(key), depth - 1)
    yield body


def _first(layers: tuple[dict[str, Any], ...], key: str, read: Callable[[Any], _T | None]) -> _T | None:
    return next((found for layer in layers if (found := read(layer.get(key))) is not None), None)


def _message(layers: tuple[dict[str, Any], ...], body: Any) -> str:
    for key in ("message", "detail", "error"):
        if found := _first(layers, key, _line):
            return found
    return _page_text(body) if isinstance(body, str) else ""


def _line(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _page_text(text: str) -> str:
    """A short excerpt of a plain text, or the title of an HTML page."""
    title = re.search(r"<title[^>]*>(.*?)</title>", text[:20_000], re.IGNORECASE | re.DOTALL)
    plain = title.group(1) if title else re.sub(r"<[^>]*>", " ", text[:20_000])
    return " ".join(html.unescape(plain).split())[:_EXCERPT_CHARACTERS]


def _raw_text(value: Any) -> str | None:
    """The provider's own message inside `metadata.raw`, or the raw text itself."""
    parsed = _parsed(value)
    if isinstance(parsed, list):
        issues = [text for issue in parsed if isinstance(issue, dict) and (text := _issue(issue))]
        return "; ".join(issues)[:_RAW_CHARACTERS] or None
    if isinstance(parsed, dict):
        found = _message(tuple(_layers(parsed)), None) or json.dumps(parsed, ensure_ascii=False)
        return found[:_RAW_CHARACTERS]
    return value.strip()[:_RAW_CHARACTERS] or None if isinstance(value, str) else None


def _issue(issue: dict[str, Any]) -> str:
    """One issue of a schema validation, such as "input.0.role: invalid_enum_value"."""
    path = issue.get("path")
    where = ".".join(str(step) for step in path) if isinstance(path, list) else ""
    what = _line(issue.get("message")) or _line(issue.get("code")) or ""
    return ": ".join(filter(None, (where, what)))


def _word(value: Any) -> str | None:
    """A word that says something: no number, no event's or object's own type."""
    if not isinstance(value, str) or not value or value.isdigit():
        return None
    return None if value in {"error", "unmapped"} or value.startswith("response.") else value


def _words(value: Any) -> tuple[str, ...] | None:
    words = tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()
    return words or None


def _http_status(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None


def _seconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 86_400 * 31 else None


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None
