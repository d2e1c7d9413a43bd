"""A failure as the wire reports it: three families of bodies, in which each level may be of any type.

Every text is cut to a length here: whoever redacts and searches them later need not fear the provider's megabytes.
What a failure means for the user is decided in `openrouter.errors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

from .values import as_list, as_number, as_object, json_text, mend_text, read_json, unescape

_T = TypeVar("_T")

_EXCERPT_CHARACTERS: Final = 300
_PAGE_CHARACTERS: Final = 20_000
_TEXT_CHARACTERS: Final = 2000
_WORD_CHARACTERS: Final = 100
_MAX_LISTED: Final = 10
"""How many issues, steps of a path, or reasons are read."""
_MAX_DEPTH: Final = 5
_INNER: Final = ("error", "response", "metadata", "choices", "detail", "upstream_error", "upstreamResponse")
"""Where a body, or what a relay makes of one, holds another that says more."""
_SAID: Final = ("message", "detail", "error", "msg", "error_message")
_MAX_RETRY_AFTER_SECONDS: Final = 31 * 86_400

_PRELUDE: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
_FAILURES: Final = frozenset({"response.failed", "response.error", "error"})

_CODES: Final = """
    400 context_length_exceeded invalid_request invalid_prompt max_tokens_exceeded token_limit_exceeded
    400 string_too_long invalid_image image_too_large image_too_small unsupported_image_format
    400 image_download_failed
    401 authentication
    402 payment_required
    403 permission_denied content_policy_violation image_content_policy_violation refusal
    404 not_found image_not_found
    412 precondition_failed
    413 payload_too_large
    422 unprocessable
    429 rate_limit_exceeded
    500 server server_error
    502 provider_unavailable
    503 provider_overloaded
    504 timeout
"""
_VAGUE: Final = frozenset({"invalid_request", "invalid_prompt", "server", None})
"""Of the words in `error_type`, those that say no more than a status does."""
_STATUS_OF_CODE: Final = {
    code: int(status) for status, *codes in map(str.split, _CODES.strip().splitlines()) for code in codes
}
"""The HTTP status behind `error_type` and `error.code`, for failures inside a stream, where HTTP says 200."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What the server said.

    `status`: HTTP status, also one named inside a stream. `code`: the most precise word, such as
    "rate_limit_exceeded". `message`: the server's own line, "" without one. `raw`: the provider's text behind it.
    `origin`: "stream" for failures of the stream itself (it ended early or was unreadable). `reasons` are those of a
    moderation, `availability` the router's word for why a model is unavailable, `limit` whose limit was met,
    `retry_after_seconds` what the body (not the header) asked to wait, and `headers` the copy of some headers in the
    body, names in lower case. `parameter` is what the provider says is wrong, a path such as "reasoning.effort",
    `raw_code` the word in its own text, and `earlier` what providers said that were asked before. `retryable` is
    OpenRouter's word on whether the same request may succeed later, None without one, and `fallback_models` are those
    that it names in place of one that is not available.
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
    parameter: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    raw_code: str | None = field(default=None, repr=False)
    earlier: tuple[str, ...] = field(default=(), repr=False)
    retryable: bool | None = field(default=None, repr=False)
    fallback_models: tuple[str, ...] = field(default=(), repr=False)


def read_failure(status: int | None, body: Any) -> Failure:
    """Read an error body, a failed response object or an error event; never raises.

    `status` is that of HTTP, None inside a stream. `body` is the parsed JSON, or the text of what is not JSON.
    """
    parsed = _parse(body)
    layers = tuple(_layers(parsed))
    word = _first(layers, "error_type", _code)
    code = word or unwritten_reason(as_object(parsed)) or _word(layers)
    precise_status = None if word in _VAGUE else _STATUS_OF_CODE.get(word or "")
    named_status = _first(layers, "code", _http_status) or _first(layers, "status", _http_status)
    availability = _first(layers, "availability", as_object) or {}
    seconds = as_number(availability.get("retry_after"))
    if seconds is None:
        seconds = _first(layers, "retry_after_seconds", as_number)
    if seconds is not None and not 0 <= seconds < _MAX_RETRY_AFTER_SECONDS:
        seconds = None
    return Failure(
        message=_message(layers) or (_page_text(body) if isinstance(body, str) else ""),
        status=precise_status or _http_status(status) or named_status or _STATUS_OF_CODE.get(code or ""),
        code=code,
        provider=_first(layers, "provider_name", _code),
        raw=_first(layers, "raw", _raw_text),
        reasons=_first(layers, "reasons", _words) or (),
        availability=_code(availability.get("code")),
        limit=_first(layers, "limit_source", _code),
        retry_after_seconds=seconds,
        parameter=_first(layers, "param", _code) or _first(layers, "raw", _raw_parameter),
        headers=_first(layers, "headers", _header_texts) or (),
        raw_code=_first(layers, "raw", lambda raw: _word(tuple(_layers(_parse(raw))))),
        earlier=_first(layers, "previous_errors", _messages) or (),
        retryable=retryable if isinstance(retryable := availability.get("retryable"), bool) else None,
        fallback_models=_words(availability.get("fallback_models")) or (),
    )


def is_failure(event: Mapping[str, Any]) -> bool:
    """Whether an event of a stream says that the response failed."""
    response = as_object(event.get("response"))
    return event.get("type") in _FAILURES or response.get("status") == "failed" or bool(response.get("error"))


def unwritten_reason(response: Mapping[str, Any]) -> str | None:
    """Return why a response was refused that comes as one that ended early, with nothing written; None for others.

    Some providers end at the length of the answer what is too long for their window; others give a reason of their own.
    """
    if response.get("status") != "incomplete" or as_list(response.get("output")):
        return None
    reason, usage = (
        as_object(response.get("incomplete_details")).get("reason"),
        as_object(response.get("usage")),
    )
    if reason == "max_output_tokens":
        return "context_length_exceeded" if usage and not usage.get("output_tokens") else None
    return None if reason == "content_filter" else _code(reason)


def read_event_failure(event: Mapping[str, Any]) -> Failure:
    """Read why a response failed from the event that says so, which may hold the response or be the error itself."""
    return read_failure(None, as_object(event.get("response")) or event)


def has_output(event: Mapping[str, Any]) -> bool:
    """Whether an event of a stream shows something, or ends the response without a failure."""
    return event.get("type") not in _PRELUDE and not is_failure(event)


def _parse(body: Any) -> Any:
    is_json = isinstance(body, str) and body.lstrip()[:1] in {"{", "["}
    return read_json(body, body) if is_json else body


def _layers(body: Any, depth: int = _MAX_DEPTH) -> Iterator[dict[str, Any]]:
    """Yield the objects that may say something, the innermost first."""
    if isinstance(body, list):
        body = next(filter(as_object, body), None)
    if not isinstance(body, dict) or depth == 0:
        return
    for key in _INNER:
        yield from _layers(body.get(key), depth - 1)
    yield body


def _first(layers: tuple[dict[str, Any], ...], key: str, read: Callable[[Any], _T | None]) -> _T | None:
    return next((found for layer in layers if (found := read(layer.get(key)))), None)


def _message(layers: tuple[dict[str, Any], ...]) -> str:
    messages = (_first(layers, key, _unwrapped) for key in _SAID)
    return next(filter(None, messages), "")


def _word(layers: tuple[dict[str, Any], ...]) -> str | None:
    return _first(layers, "code", _code) or _first(layers, "type", _code)


def _messages(value: Any) -> tuple[str, ...]:
    earlier = islice(map(as_object, as_list(value)), _MAX_LISTED)
    return tuple(filter(None, (_line(each.get("message")) for each in earlier)))


def _line(value: Any) -> str | None:
    return mend_text(value.strip()[:_TEXT_CHARACTERS]) or None if isinstance(value, str) else None


def _unwrapped(value: Any) -> str | None:
    """Return a text, or what is said in it where it is another body."""
    return _line(value) if _parse(value) is value else _raw_text(value)


def _words(value: Any) -> tuple[str, ...]:
    texts = (each for each in as_list(value) if isinstance(each, str))
    return tuple(mend_text(text[:_WORD_CHARACTERS]) for text in islice(texts, _MAX_LISTED))


def _page_text(text: str) -> str:
    """Return a short excerpt of a plain text, or the title of an HTML page."""
    text = text[:_PAGE_CHARACTERS]
    title = re.search(r"<title[^<>]*>([^<]*)</title", text, re.IGNORECASE)
    plain = title.group(1) if title else re.sub(r"<[^<>]*>", " ", text)
    return " ".join(unescape(plain).split())[:_EXCERPT_CHARACTERS]


def _raw_text(value: Any) -> str | None:
    """Return the provider's own message inside `metadata.raw`, or the raw text itself."""
    parsed = _parse(value)
    if isinstance(parsed, list):
        issues = islice(filter(as_object, parsed), _MAX_LISTED)
        return _line("; ".join(filter(None, map(_issue_text, issues))))
    if isinstance(parsed, dict):
        return _message(tuple(_layers(parsed))) or _line(json_text(parsed))
    return _line(value)


def _raw_parameter(value: Any) -> str | None:
    """Return the parameter that the provider's own error names, or the path of the only issue of a validation."""
    parsed = _parse(value)
    if isinstance(parsed, list):
        issues = [as_object(issue) for issue in parsed[:2]]
        return _issue_path(issues[0]) or None if len(issues) == 1 else None
    return _first(tuple(_layers(parsed)), "param", _code)


def _header_texts(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = islice(as_object(value).items(), _MAX_LISTED)
    return tuple(
        (name.lower()[:_WORD_CHARACTERS], str(text)[:_WORD_CHARACTERS])
        for name, text in pairs
        if isinstance(text, str | int | float)
    )


def _issue_path(issue: dict[str, Any]) -> str:
    steps = (step for step in as_list(issue.get("path")) if isinstance(step, str | int))
    return ".".join(str(step)[:_WORD_CHARACTERS] for step in islice(steps, _MAX_LISTED))


def _issue_text(issue: dict[str, Any]) -> str:
    """Return one issue of a schema validation, such as "input.0.role: invalid_enum_value"."""
    path = _issue_path(issue)
    problem = _line(issue.get("message")) or _line(issue.get("code")) or ""
    return ": ".join(filter(None, (path, problem)))


def _code(value: Any) -> str | None:
    """Return a word that says something: not a number, and not an event's or object's own type."""
    if not isinstance(value, str) or value.isdigit():
        return None
    if value in {"", "error", "unmapped"} or value.startswith("response."):
        return None
    return mend_text(value[:_WORD_CHARACTERS])


def _http_status(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None
