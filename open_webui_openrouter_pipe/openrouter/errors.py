"""Failures of OpenRouter and its providers become errors of ours, each with one clear line for the user.

A table decides, the first match wins: texts that name a cause, then codes and statuses. The line says what
happened and what to do; what the server said is quoted briefly. Owns the redaction: no key, header, address
or account id of anyone reaches a user or a log through here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, quote_plus

from ..errors import (
    AccessDenied,
    AuthenticationFailed,
    ContextTooLong,
    ModelNotFound,
    PaymentRequired,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    ReasoningRejected,
    RequestRejected,
    StreamBroken,
)
from ..notices import notice
from ..responses.failure import Failure

_READ_CHARACTERS = 4000
"""Of any text of the server's; nothing behind them is read, quoted or logged."""
_LINE_CHARACTERS = 400
_QUOTE_CHARACTERS = 160
_DETAIL_CHARACTERS = 1000
_LONGEST_WAIT_SECONDS = 31 * 86_400
_SAYS_NOTHING = "Provider returned error"

_CREDIT_NUMBERS = re.compile(
    r"requested up to (?P<requested>[\d,]+) tokens.{0,200}?only afford (?P<affordable>[\d,]+)"
)
_WINDOW_NUMBERS = re.compile(
    r"maximum context length is (?P<limit>[\d,]+) tokens.{0,200}?requested about (?P<requested>[\d,]+)",
    re.DOTALL,
)
_WINDOW = re.compile(
    r"(?i)(?:maximum context length|context (?:window|length)(?: limit)?|maximum number of tokens allowed)"
    r"(?: is| of|:)? ?\(?(?P<limit>\d[\d,]{2,14})|> (?P<maximum>\d[\d,]{2,14}) maximum"
)
"""How OpenRouter, OpenAI, Google and Anthropic name the window."""

_SECRETS = re.compile(
    r"""(?xi)
      \b sk-[a-z0-9_-]{6,}                                  # API keys of OpenRouter and of providers
    | \b bearer \s+ [a-z0-9._~+/=-]+                        # Authorization headers
    | \b authorization ["']? \s* [:=] \s* ["']? [^"',;\n]+
    | \b api[_-]?key ["']? \s* [:=] \s* ["']? [^\s"',;]+
    | (?<![a-z0-9._%+-]) [a-z0-9._%+-]++ @ [a-z0-9-]++ (?: \. [a-z0-9-]++ )++     # e-mail addresses
    | \b (?: user | org | acct ) [_-] [a-z0-9]{8,}          # account ids
    """
)


def redact(text: str, *, api_key: str = "") -> str:
    """Return the beginning of the text as one printable line, without secrets and account data.

    `api_key` is the one that is configured, which need not look like one; as it is, or as URLs and JSON write it.
    """
    in_url = (write(api_key, safe="", errors="replace") for write in (quote, quote_plus))
    written = {api_key, *in_url, json.dumps(api_key)[1:-1]} - {""}
    for secret in sorted(written, key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    if len(text) > _READ_CHARACTERS:  # the last word may be the beginning of a secret
        text = text[:_READ_CHARACTERS].rpartition(" ")[0] or text[:_READ_CHARACTERS]
    text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(_SECRETS.sub("[redacted]", text).split())


def to_error(
    failure: Failure, *, retry_after_seconds: float | None = None, api_key: str = ""
) -> ProviderError | StreamBroken:
    """Return the error that the failure is.

    `retry_after_seconds` is what the headers asked to wait; `api_key` is never quoted.
    """
    failure = _redacted(failure, api_key)
    if failure.origin == "stream":
        return StreamBroken(notice("stream_incomplete"), detail=failure.message)
    wait_seconds = retry_after_seconds if retry_after_seconds is not None else failure.retry_after_seconds
    rule = next((rule for rule in _RULES if rule.applies(failure)), _UNKNOWN)
    line = _line(rule.notice, failure)
    if issubclass(rule.error, RateLimited):
        line += f" {_wait_text(wait_seconds)}"
    facts = (failure.status, failure.code, failure.limit, failure.availability, failure.message, failure.raw)
    error = rule.error(
        _shortened(line, _LINE_CHARACTERS),
        detail=_shortened(" | ".join(str(fact) for fact in facts if fact), _DETAIL_CHARACTERS),
        retry_after_seconds=wait_seconds,
    )
    if isinstance(error, ContextTooLong) and (named := _WINDOW.search(f"{failure.raw}\n{failure.message}")):
        error.limit_tokens = int((named["limit"] or named["maximum"]).replace(",", ""))
    return error


def _redacted(failure: Failure, api_key: str) -> Failure:
    """The failure with all that the server wrote redacted, once for the rules, the line and the log."""
    names = ("message", "code", "provider", "raw", "availability", "limit")
    texts: dict[str, Any] = {
        name: redact(text, api_key=api_key) for name in names if (text := getattr(failure, name))
    }
    reasons = tuple(redact(reason, api_key=api_key) for reason in failure.reasons)
    return replace(failure, **texts, reasons=reasons)


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the seconds to wait by `Retry-After` (seconds or a date) or `X-RateLimit-Reset` (epoch ms); may be 0."""
    if (seconds := _seconds(headers.get("retry-after", ""), now)) is not None:
        return seconds
    reset = headers.get("x-ratelimit-reset", "")
    if not reset.isdecimal() or len(reset) > 15:
        return None
    return _plausible(int(reset) / 1000 - now.timestamp())


def _seconds(value: str, now: datetime) -> float | None:
    try:
        return _plausible(float(value))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return _plausible((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp())


def _plausible(seconds: float) -> float | None:
    return max(0.0, seconds) if seconds < _LONGEST_WAIT_SECONDS else None


# --- what users read


def _line(name: str, failure: Failure) -> str:
    """The line of that name, or its variant with the details that the failure holds.

    What the server said is quoted, the provider's own words first, unless it only said that it failed.
    """
    if name == "moderated" and failure.reasons:
        reasons = _shortened(", ".join(failure.reasons), _QUOTE_CHARACTERS)
        return notice("moderated_reasons", reasons=reasons)
    if name == "no_credits" and (found := _CREDIT_NUMBERS.search(failure.message)):
        return notice("no_credits_numbers", requested=found["requested"], affordable=found["affordable"])
    if name == "too_long" and (found := _WINDOW_NUMBERS.search(failure.message)):
        return notice("too_long_numbers", requested=found["requested"], limit=found["limit"])
    if name == "no_endpoint" and failure.availability in _AVAILABILITY:
        name = failure.availability
    provider = notice("the_provider", name=failure.provider) if failure.provider else notice("a_provider")
    said = next((text for text in (failure.raw, failure.message) if text and text != _SAYS_NOTHING), None)
    quoted = notice("quote", text=_shortened(said, _QUOTE_CHARACTERS)) if said else ""
    return notice(name, provider=provider, quote=quoted).strip()


def _wait_text(seconds: float | None) -> str:
    if seconds is None:
        return notice("wait_unknown")
    if seconds < 1:
        return notice("wait_over")
    if seconds < 120:
        return notice("wait_seconds", seconds=seconds)
    return notice("wait_minutes", minutes=seconds / 60)


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


_AVAILABILITY: Final = frozenset(
    {
        "model_not_found",
        "model_deprecated",
        "free_variant_ended",
        "region_restricted",
        "privacy_restricted",
        "constraint_filtered",
    }
)
"""OpenRouter's reasons why no endpoint serves a model; each is the name of its line."""

# --- which failure is what


@dataclass(frozen=True, slots=True)
class _Rule:
    """An error class and the name of its line, for failures with one of the statuses or codes, or with a text."""

    error: type[ProviderError]
    notice: str
    statuses: Collection[int] = ()
    codes: Collection[str] = ()
    text: str = ""

    def applies(self, failure: Failure) -> bool:
        if failure.status in self.statuses or any(
            code in self.codes for code in (failure.code, failure.availability)
        ):
            return True
        said = f"{failure.message}\n{failure.raw or ''}"
        return bool(self.text and re.search(self.text, said, re.IGNORECASE))


_RULES: Final = (
    _Rule(
        ReasoningRejected,
        "reasoning_not_accepted",
        text=r"invalid.{0,20}signature.{0,40}thinking"
        r"|thinking.{0,80}(cannot be modified|signature)"
        r"|encrypted content.{0,200}could not be (verified|decrypted)"
        r"|was provided without its required following item"
        r"|invalid_encrypted_content|thought_?signature",
    ),
    # Amazon's words for its limit of a rate
    _Rule(
        RateLimited, "provider_busy", text=r"too many (input )?tokens.{0,20}(per (minute|day)|please wait)"
    ),
    _Rule(
        ContextTooLong,
        "too_long",
        codes=("context_length_exceeded", "token_limit_exceeded"),
        text=r"maximum context length|context length exceeded|context window|prompt is too long"
        r"|input token count.{0,60}exceeds|too many (input )?tokens",
    ),
    _Rule(
        ProviderUnavailable,
        "provider_unavailable",
        codes=("model_unavailable_upstream", "capacity_exhausted", "temporarily_unavailable"),
    ),
    _Rule(ModelNotFound, "model_not_found", text=r"is not a valid model id"),
    _Rule(ModelNotFound, "no_tool_provider", text=r"no endpoints found that support tool"),
    _Rule(
        ModelNotFound,
        "no_attachment_provider",
        text=r"no endpoints found that support (image|file|audio|video|pdf)",
    ),
    _Rule(ModelNotFound, "no_allowed_provider", text=r"no allowed providers"),
    _Rule(
        AccessDenied,
        "moderated",
        codes=("content_policy_violation", "bio_policy", "cyber_policy", "misalignment_policy_violation"),
        text=r"requires moderation|was flagged",
    ),
    _Rule(AuthenticationFailed, "key_rejected", (401,)),
    _Rule(PaymentRequired, "no_credits", (402,)),
    _Rule(AccessDenied, "access_denied", (403,)),
    _Rule(ModelNotFound, "no_endpoint", (404,), _AVAILABILITY),
    _Rule(RateLimited, "free_daily_limit", text=r"free-models-per-day"),
    _Rule(RateLimited, "free_limit", text=r"free-models-per-min"),
    _Rule(RateLimited, "provider_busy", (429,), ("rate_limit_exceeded",)),
    _Rule(ProviderUnavailable, "provider_slow", (408, 504, 524)),
    _Rule(ProviderUnavailable, "provider_overloaded", (503, 529)),
    _Rule(ProviderUnavailable, "provider_unavailable", range(500, 600)),
    _Rule(RequestRejected, "request_too_large", (413,)),
    _Rule(RequestRejected, "request_rejected", range(400, 500)),
)
_UNKNOWN: Final = _Rule(ProviderError, "provider_error")
