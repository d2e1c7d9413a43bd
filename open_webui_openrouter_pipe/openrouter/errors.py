"""Failures of OpenRouter and its providers become errors of ours, each with one clear line for the user.

A table decides, first match wins: texts that name a cause, then words and statuses. The line says what
happened and what to do; what the server said is quoted briefly. Owns the redaction: no key, header, address
or account id of anyone reaches a user or a log through here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeAlias

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
from ..responses.failure import Failure

_LINE_CHARACTERS = 400
_QUOTE_CHARACTERS = 160
_DETAIL_CHARACTERS = 1000
_LONGEST_WAIT_SECONDS = 31 * 86_400

_SECRETS = re.compile(
    r"""(?xi)
      \b sk-[a-z0-9_-]{6,}                                  # API keys of OpenRouter and of providers
    | \b bearer \s+ [a-z0-9._~+/=-]+                        # Authorization headers
    | \b authorization ["']? \s* [:=] \s* ["']? [^"',;\n]+
    | \b api[_-]?key ["']? \s* [:=] \s* ["']? [^\s"',;]+
    | [a-z0-9._%+-]+ @ [a-z0-9-]+ (?: \. [a-z0-9-]+ )+      # e-mail addresses
    | \b (?: user | org | acct ) [_-] [a-z0-9]{8,}          # account ids
    """
)


def redact(text: str) -> str:
    """The text in one line, without secrets and account data."""
    return " ".join(_SECRETS.sub("[redacted]", text).split())


def to_error(failure: Failure, *, retry_after_seconds: float | None = None) -> ProviderError | StreamBroken:
    """The error that the failure amounts to; `retry_after_seconds` is what the headers asked to wait."""
    if failure.origin == "stream":
        return StreamBroken(
            "The answer ended before it was complete. Please try again.", detail=redact(failure.message)
        )
    wait = retry_after_seconds if retry_after_seconds is not None else failure.retry_after_seconds
    rule = next(rule for rule in _RULES if rule.applies(failure))
    line = rule.line(failure)
    return rule.error(
        _capped(line + _wait_text(wait) if issubclass(rule.error, RateLimited) else line, _LINE_CHARACTERS),
        detail=_detail(failure),
        status=failure.status,
        code=failure.code,
        provider=failure.provider,
        retry_after_seconds=wait,
    )


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds to wait by `Retry-After` (seconds or date) or `X-RateLimit-Reset` (ms since 1970); may be 0."""
    named = headers.get("retry-after")
    if named is not None and (seconds := _seconds(named, now)) is not None:
        return seconds
    reset = headers.get("x-ratelimit-reset", "")
    if not reset.isdecimal() or len(reset) > 15:
        return None
    return _within_reason(int(reset) / 1000 - now.timestamp())


def _seconds(value: str, now: datetime) -> float | None:
    try:
        return _within_reason(float(value))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return _within_reason((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp())


def _within_reason(seconds: float) -> float | None:
    return max(0.0, seconds) if seconds < _LONGEST_WAIT_SECONDS else None


# --- what is said


Line: TypeAlias = Callable[[Failure], str]


def _who(failure: Failure) -> str:
    return f"The provider {redact(failure.provider)}" if failure.provider else "The provider"


def _quote(failure: Failure) -> str:
    """What the server said, the provider's own words first; nothing if it only said that it failed."""
    for text in (failure.raw, failure.message):
        if text and text != "Provider returned error":
            return f' It said: "{_capped(redact(text), _QUOTE_CHARACTERS)}"'
    return ""


def _capped(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def _detail(failure: Failure) -> str:
    facts = (failure.status, failure.code, failure.limit, failure.availability, failure.message, failure.raw)
    return _capped(redact(" | ".join(str(fact) for fact in facts if fact)), _DETAIL_CHARACTERS)


def _wait_text(seconds: float | None) -> str:
    if seconds is None:
        return " Please wait a little and try again."
    if seconds < 1:
        return " Please try again now."
    if seconds < 120:
        return f" Please try again in {round(seconds)} seconds."
    return f" Please try again in about {round(seconds / 60)} minutes."


def _constant(line: str) -> Line:
    return lambda _failure: line


def _quoting(line: str) -> Line:
    return lambda failure: line + _quote(failure)


def _about_provider(line: str) -> Line:
    return lambda failure: f"{_who(failure)} {line}"


def _credits(failure: Failure) -> str:
    numbers = re.search(r"requested up to ([\d,]+) tokens.*?only afford ([\d,]+)", failure.message)
    asked = f" (up to {numbers[1]} tokens were asked for, {numbers[2]} can be paid)" if numbers else ""
    return (
        f"The OpenRouter account has too few credits for this request{asked}. "
        "Add credits at https://openrouter.ai/settings/credits or lower the limit of output tokens."
    )


def _moderated(failure: Failure) -> str:
    why = f" ({_capped(redact(', '.join(failure.reasons)), _QUOTE_CHARACTERS)})" if failure.reasons else ""
    return f"The message was refused by moderation{why}. Please rephrase it or choose another model."


def _too_long(failure: Failure) -> str:
    numbers = re.search(
        r"maximum context length is ([\d,]+) tokens.*?requested about ([\d,]+)", failure.message, re.DOTALL
    )
    sizes = f" ({numbers[2]} tokens, the model takes {numbers[1]})" if numbers else ""
    return (
        f"The conversation is too long for this model{sizes}. "
        "Shorten it or choose a model with a larger window."
    )


_AVAILABILITY = {
    "model_not_found": "OpenRouter does not know this model. Please choose another one.",
    "model_deprecated": "OpenRouter no longer offers this model. Please choose another one.",
    "free_variant_ended": "The free variant of this model has ended. Choose the paid or another model.",
    "region_restricted": "This model is not offered in your region. Please choose another one.",
    "privacy_restricted": (
        "No provider of this model meets the account's privacy settings. Change them at "
        "https://openrouter.ai/settings/privacy or choose another model."
    ),
    "constraint_filtered": (
        "No provider of this model meets the request's requirements. Loosen the provider settings or choose "
        "another model."
    ),
}


def _unavailable_model(failure: Failure) -> str:
    known = _AVAILABILITY.get(failure.availability or "")
    return known or f"OpenRouter has no endpoint for this model as requested.{_quote(failure)}"


# --- which failure is what


@dataclass(frozen=True, slots=True)
class _Rule:
    """An error class and its line, for failures with one of the statuses, one of the words, or a text."""

    error: type[ProviderError]
    line: Line
    statuses: frozenset[int] = frozenset()
    words: frozenset[str] = frozenset()
    text: re.Pattern[str] | None = None

    def applies(self, failure: Failure) -> bool:
        if failure.status in self.statuses or {failure.code, failure.availability} & self.words:
            return True
        return bool(self.text and self.text.search(f"{failure.message}\n{failure.raw or ''}"))


@dataclass(frozen=True, slots=True)
class _Anything(_Rule):
    """The last rule: whatever no other rule knows."""

    def applies(self, failure: Failure) -> bool:  # noqa: ARG002 - the interface of its base
        return True


def _text(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_RULES: tuple[_Rule, ...] = (
    _Rule(
        ReasoningRejected,
        _constant("The provider did not accept the earlier reasoning of this chat. Please try again."),
        text=_text(
            r"invalid.{0,20}signature.{0,40}thinking"
            r"|thinking.{0,80}(cannot be modified|signature)"
            r"|encrypted content.{0,200}could not be (verified|decrypted)"
            r"|was provided without its required following item"
            r"|invalid_encrypted_content|thought_?signature"
        ),
    ),
    _Rule(
        ContextTooLong,
        _too_long,
        words=frozenset({"context_length_exceeded", "token_limit_exceeded"}),
        text=_text(
            r"maximum context length|context length exceeded|context window|prompt is too long"
            r"|input token count.{0,60}exceeds|too many (input )?tokens"
        ),
    ),
    _Rule(
        ProviderUnavailable,
        _about_provider("is not available at the moment. Please try again, or choose another model."),
        words=frozenset({"model_unavailable_upstream", "capacity_exhausted", "temporarily_unavailable"}),
    ),
    _Rule(
        ModelNotFound,
        _constant("OpenRouter does not know this model. Please choose another one."),
        text=_text(r"is not a valid model id"),
    ),
    _Rule(
        ModelNotFound,
        _constant("No provider of this model supports tools. Turn the tools off or choose another model."),
        text=_text(r"no endpoints found that support tool"),
    ),
    _Rule(
        ModelNotFound,
        _constant(
            "No provider of this model reads this kind of attachment. Remove it or choose another model."
        ),
        text=_text(r"no endpoints found that support (image|file|audio|video|pdf)"),
    ),
    _Rule(
        ModelNotFound,
        _constant(
            "The provider settings exclude all providers of this model. Loosen them or choose another model."
        ),
        text=_text(r"no allowed providers"),
    ),
    _Rule(
        AccessDenied,
        _moderated,
        words=frozenset(
            {"content_policy_violation", "bio_policy", "cyber_policy", "misalignment_policy_violation"}
        ),
        text=_text(r"requires moderation|was flagged"),
    ),
    _Rule(
        AuthenticationFailed,
        _constant(
            "OpenRouter did not accept the API key. An administrator can check it in the function's valves."
        ),
        statuses=frozenset({401}),
    ),
    _Rule(PaymentRequired, _credits, statuses=frozenset({402})),
    _Rule(AccessDenied, _quoting("OpenRouter refused access to this request."), statuses=frozenset({403})),
    _Rule(ModelNotFound, _unavailable_model, statuses=frozenset({404}), words=frozenset(_AVAILABILITY)),
    _Rule(
        RateLimited,
        _constant("The daily limit of OpenRouter's free models is reached. Credits on the account raise it."),
        text=_text(r"free-models-per-day"),
    ),
    _Rule(
        RateLimited,
        _constant("The limit of OpenRouter's free models is reached."),
        text=_text(r"free-models-per-min"),
    ),
    _Rule(
        RateLimited,
        _about_provider("is receiving too many requests at the moment."),
        words=frozenset({"rate_limit_exceeded"}),
        statuses=frozenset({429}),
    ),
    _Rule(
        ProviderUnavailable,
        _about_provider("took too long to answer. Please try again."),
        statuses=frozenset({408, 504, 524}),
    ),
    _Rule(
        ProviderUnavailable,
        _about_provider("is overloaded at the moment. Please try again later, or choose another model."),
        statuses=frozenset({503, 529}),
    ),
    _Rule(
        ProviderUnavailable,
        _about_provider("is not available at the moment. Please try again, or choose another model."),
        statuses=frozenset(range(500, 600)),
    ),
    _Rule(
        RequestRejected,
        _constant("The request is too large to send. Remove or shrink attachments, or start a new chat."),
        statuses=frozenset({413}),
    ),
    _Rule(
        RequestRejected,
        _quoting("The request was rejected; sending it again unchanged will not help."),
        statuses=frozenset(range(400, 500)),
    ),
    _Anything(ProviderError, _quoting("OpenRouter answered with an error.")),
)
