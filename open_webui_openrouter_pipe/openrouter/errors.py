"""Failures of OpenRouter and its providers become errors of ours, each with one clear line for the user.

A table decides, the first match wins: texts that name a cause, then codes and statuses. The line says what
happened, what to do and for how long, to users and to administrators in their own words; what the server said is
quoted briefly. Owns the redaction: no key, header, address or account id of anyone reaches a user or a log through
here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, quote_plus

from ..errors import (
    AccessDenied,
    AuthenticationFailed,
    ContextTooLong,
    EffortRejected,
    ModelNotFound,
    ParameterRejected,
    PaymentRequired,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    ReasoningRejected,
    RequestRejected,
    StreamBroken,
)
from ..responses.failure import Failure
from ..words.lines import admin_notice, notice
from .fields import OMISSIBLE

_READ_CHARACTERS = 4000
"""Of any text of the server's; nothing behind them is read, quoted or logged."""
_NAME_CHARACTERS = 40
_QUOTE_CHARACTERS = 160
_DETAIL_CHARACTERS = 1000
_LONGEST_WAIT_SECONDS = 31 * 86_400
_SAYS_NOTHING = "Provider returned error"
_OF_OWN_KEY: Final[Mapping[type[ProviderError], str]] = {
    AuthenticationFailed: "own_key_rejected",
    PaymentRequired: "own_key_without_credits",
}
"""What is said to a user whose own key it is."""

_CREDIT_NUMBERS = re.compile(
    r"requested up to (?P<requested>[\d,]{1,19}) tokens.{0,200}?only afford (?P<affordable>[\d,]{1,19})"
)
_WINDOW_NUMBERS = re.compile(
    r"(?s)maximum context length is (?P<limit>[\d,]{1,19}) tokens.{0,200}?requested about (?P<requested>[\d,]{1,19})"
)
_WINDOW = re.compile(
    r"(?i)(?:maximum context length|context (?:window|length)(?: limit)?|maximum number of tokens allowed)"
    r"(?: is| of|:)? ?\(?(?P<limit>\d[\d,]{2,14})|> (?P<maximum>\d[\d,]{2,14}) maximum"
)
"""How OpenRouter, OpenAI, Google and Anthropic name the window."""
_SUPPORTED_VALUES = re.compile(
    r"(?i)supported values are:? (?P<values>['\"`\w]+(?:,? (?:and )?['\"`\w]+){0,10})"
)
_UNSUPPORTED = re.compile(
    r"(?i)(?:unsupported (?:parameter|value):? |unknown (?:parameter|name):? |^)['\"`](?P<quoted>[a-z_.]{2,40})['\"`]"
    r"|(?m:^)(?P<path>[a-z_.]{2,40}): extra inputs are not permitted"
)
"""How OpenAI, Google and Anthropic name a parameter that a model does not take."""
_AVAILABILITY: Final = frozenset(
    {
        *("model_not_found", "model_deprecated", "free_variant_ended", "region_restricted"),
        *("privacy_restricted", "constraint_filtered"),
    }
)
"""OpenRouter's reasons why no endpoint serves a model; each is the name of its line."""

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
    failure: Failure, *, retry_after_seconds: float | None = None, api_key: str = "", is_own_key: bool = False
) -> ProviderError | StreamBroken:
    """Return the error that the failure is.

    `retry_after_seconds` is what the headers asked to wait; `api_key` is never quoted. With `is_own_key`, what is wrong
    with it is said to its owner.
    """
    names = ("message", "code", "provider", "raw", "availability", "limit")
    texts: dict[str, Any] = {
        name: redact(text, api_key=api_key) for name in names if (text := getattr(failure, name))
    }
    reasons = tuple(redact(reason, api_key=api_key) for reason in failure.reasons)
    failure = replace(failure, **texts, reasons=reasons)
    if failure.origin == "stream":
        broken = StreamBroken(notice("stream_incomplete"), detail=failure.message)
        broken.passes = True
        return broken
    wait_seconds = retry_after_seconds if retry_after_seconds is not None else failure.retry_after_seconds
    rule = next((rule for rule in RULES if rule.applies(failure)), UNKNOWN)
    name = _OF_OWN_KEY.get(rule.error, rule.notice) if is_own_key else rule.notice
    user_line, admin_line = (_line(say, name, failure, wait_seconds) for say in (notice, admin_notice))
    facts = (failure.status, failure.code, failure.limit, failure.availability, failure.message, failure.raw)
    error = rule.error(
        user_line,
        admin_message=admin_line,
        detail=_shortened(" | ".join(str(fact) for fact in facts if fact), _DETAIL_CHARACTERS),
        retry_after_seconds=wait_seconds,
    )
    error.passes = rule.passes
    said = f"{failure.raw}\n{failure.message}"
    if isinstance(error, ContextTooLong) and (named := _WINDOW.search(said)):
        error.limit_tokens = int((named["limit"] or named["maximum"]).replace(",", ""))
    if isinstance(error, EffortRejected) and (listed := _SUPPORTED_VALUES.search(said)):
        error.supported_efforts = tuple(re.findall(r"\w+", listed["values"].replace(" and ", " ")))
    if isinstance(error, ParameterRejected):
        error.parameter = _rejected_parameter(failure)
    return error


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the seconds to wait, which may be 0; names are in lower case.

    Read are `Retry-After-Ms` (milliseconds), `Retry-After` (seconds or a date) and `X-RateLimit-Reset` (epoch ms).
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""), now)
    if milliseconds is not None:
        return milliseconds / 1000
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


def _line(say: Callable[..., str], name: str, failure: Failure, wait_seconds: float | None) -> str:
    """The line of that name, or its variant with the details that the failure holds.

    `say` finds the words: those for users, or those for administrators. What the server said is quoted, the
    provider's own words first, unless it only said that it failed.
    """
    if name == "moderated" and failure.reasons:
        return say("moderated_reasons", reasons=_shortened(", ".join(failure.reasons), _QUOTE_CHARACTERS))
    if name == "no_credits" and (found := _CREDIT_NUMBERS.search(failure.message)):
        return say("no_credits_numbers", **_numbers(found))
    if name == "too_long" and (found := _WINDOW_NUMBERS.search(failure.message)):
        return say("too_long_numbers", **_numbers(found))
    if name == "no_endpoint" and failure.availability in _AVAILABILITY:
        name = failure.availability
    unknown = "wait_tomorrow" if name == "free_daily_limit" else "wait_unknown"
    wait = _wait_text(wait_seconds) if wait_seconds is not None else notice(unknown)
    provider = notice("a_provider")
    if failure.provider:
        provider = notice("the_provider", name=_shortened(failure.provider, _NAME_CHARACTERS))
    said = next((text for text in (failure.raw, failure.message) if text and text != _SAYS_NOTHING), None)
    quoted = notice("quote", text=_shortened(said, _QUOTE_CHARACTERS)) if said else ""
    return say(name, provider=provider, quote=quoted, wait=wait)


def _numbers(found: re.Match[str]) -> dict[str, int]:
    """The numbers that the server named."""
    return {name: int(digits.replace(",", "") or 0) for name, digits in found.groupdict().items()}


def _wait_text(seconds: float) -> str:
    if seconds < 1:
        return notice("wait_over")
    if seconds < 120:
        return notice("wait_seconds", count=round(seconds))
    if seconds < 7200:
        return notice("wait_minutes", count=round(seconds / 60))
    return notice("wait_hours", count=round(seconds / 3600))


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


# --- which failure is what


def _rejected_parameter(failure: Failure) -> str:
    """Return the parameter that the provider does not take, if the request can do without it; "" otherwise."""
    named = _UNSUPPORTED.search(f"{failure.raw or ''}\n{failure.message}")
    names = (failure.parameter, named and (named["quoted"] or named["path"]))
    return next((name for name in names if name in OMISSIBLE), "")


@dataclass(frozen=True, slots=True)
class Rule:
    """An error class and the name of its line, for failures with one of the statuses or codes, or with a text.

    `condition` must hold as well where there is one. `passes`: the same request may succeed a little later.
    """

    error: type[ProviderError]
    notice: str
    statuses: Collection[int] = ()
    codes: Collection[str] = ()
    text: str = ""
    passes: bool = False
    condition: Callable[[Failure], bool] = lambda _: True

    def applies(self, failure: Failure) -> bool:
        """Whether the failure is of this kind."""
        if not self.condition(failure):
            return False
        if failure.status in self.statuses or any(
            code in self.codes for code in (failure.code, failure.availability, failure.limit)
        ):
            return True
        said = f"{failure.message}\n{failure.raw or ''}"
        return bool(self.text and re.search(self.text, said, re.IGNORECASE))


RULES: Final = (
    Rule(
        ReasoningRejected,
        "reasoning_not_accepted",
        text=r"invalid.{0,20}signature.{0,40}thinking"
        r"|thinking.{0,80}(cannot be modified|signature)"
        r"|encrypted content.{0,200}could not be (verified|decrypted)"
        r"|was provided without its required following item"
        r"|invalid_encrypted_content|thought_?signature",
    ),
    # Amazon's words for its limit of a rate
    Rule(
        RateLimited,
        "provider_busy",
        text=r"too many (input )?tokens.{0,20}(per (minute|day)|please wait)",
        passes=True,
    ),
    Rule(
        ContextTooLong,
        "too_long",
        codes=("context_length_exceeded", "token_limit_exceeded"),
        text=r"maximum context length|context length exceeded|context window|prompt is too long"
        r"|input token count.{0,60}exceeds|too many (input )?tokens",
    ),
    Rule(
        EffortRejected,
        "effort_rejected",
        (400, 422),
        condition=lambda failure: failure.parameter in {"reasoning.effort", "reasoning_effort"},
    ),
    Rule(
        ParameterRejected,
        "parameter_rejected",
        (400, 422),
        condition=lambda failure: bool(_rejected_parameter(failure)),
    ),
    Rule(
        ProviderUnavailable,
        "provider_unavailable",
        codes=("model_unavailable_upstream", "capacity_exhausted", "temporarily_unavailable"),
        passes=True,
    ),
    Rule(ModelNotFound, "model_not_found", text=r"is not a valid model id"),
    Rule(ModelNotFound, "no_tool_provider", text=r"no endpoints found that support tool"),
    Rule(
        ModelNotFound,
        "no_attachment_provider",
        text=r"no endpoints found that support (image|file|audio|video|pdf)",
    ),
    Rule(ModelNotFound, "no_allowed_provider", text=r"no allowed providers"),
    Rule(
        AccessDenied,
        "moderated",
        codes=(
            *("content_policy_violation", "image_content_policy_violation", "misalignment_policy_violation"),
            *("bio_policy", "cyber_policy"),
        ),
        text=r"requires moderation|was flagged",
    ),
    Rule(AccessDenied, "model_refused", codes=("refusal",)),
    Rule(AccessDenied, "data_residency", codes=("data_residency_mismatch",)),
    Rule(
        RequestRejected,
        "image_unusable",
        codes=(
            *("invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url"),
            *("invalid_image_mode", "image_too_large", "image_too_small", "image_parse_error"),
            *("image_file_too_large", "unsupported_image_format", "unsupported_image_media_type"),
            *("empty_image_file", "failed_to_download_image", "image_download_failed"),
            *("image_file_not_found", "image_not_found"),
        ),
    ),
    Rule(RequestRejected, "output_too_long", codes=("max_tokens_exceeded",)),
    Rule(AuthenticationFailed, "key_rejected", (401,)),
    Rule(PaymentRequired, "key_limit_reached", text=r"key limit exceeded"),
    Rule(PaymentRequired, "no_credits", (402,)),
    Rule(AccessDenied, "access_denied", (403,)),
    Rule(ModelNotFound, "no_endpoint", (404,), _AVAILABILITY),
    Rule(RateLimited, "free_daily_limit", codes=("openrouter_free_tier_daily",), text=r"free-models-per-day"),
    Rule(RateLimited, "free_limit", text=r"free-models-per-min", passes=True),
    Rule(RateLimited, "provider_busy", (429,), ("rate_limit_exceeded",), passes=True),
    Rule(ProviderUnavailable, "provider_slow", (408, 504, 524), ("vector_store_timeout",), passes=True),
    Rule(ProviderUnavailable, "provider_overloaded", (503, 529), passes=True),
    Rule(ProviderUnavailable, "provider_unavailable", range(500, 600), passes=True),
    Rule(RequestRejected, "request_too_large", (413,), ("string_too_long",)),
    Rule(RequestRejected, "request_rejected", range(400, 500)),
)
"""Of the documented failures, in the order in which they are recognized."""
UNKNOWN: Final = Rule(ProviderError, "provider_error")
