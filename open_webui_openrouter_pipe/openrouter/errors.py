"""Failures of OpenRouter and its providers become errors of ours, each with one clear line for the user.

A table decides: words of machines first, then texts (both stand in `refusals.txt`), then statuses. The line says what
happened, what to do and for how long, to users and to administrators in their own words; what the server said is
quoted briefly. Owns the redaction: no key, header, address or account id of anyone reaches a user or a log through
here.
"""

from __future__ import annotations

import json
import math
import pkgutil
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any, Final
from urllib.parse import quote, quote_plus

from ..conversation.masking import Secret
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
    Remedy,
    RequestRejected,
    RequestTooLarge,
    StreamBroken,
)
from ..responses.failure import Failure
from ..words.lines import notice
from .fields import OMISSIBLE

_READ_CHARACTERS = 4000
"""Of any text of the server's; nothing behind them is read, quoted or logged."""
_NAME_CHARACTERS = 40
_WORD_CHARACTERS = 80
_MOST_SUGGESTED: Final = 3
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
    r"requested up to (?P<requested>[\d,]{1,19}) tokens.{0,200}?only afford (?P<limit>[\d,]{1,19})"
)
_WINDOW_NUMBERS = re.compile(
    r"(?s)maximum context length is (?P<limit>[\d,]{1,19}) tokens.{0,200}?requested about (?P<requested>[\d,]{1,19})"
)
_WINDOW = re.compile(
    r"(?i)(?:maximum context length|context (?:window|length)(?: limit)?|maximum number of tokens allowed)"
    r"(?: is| of|:)? ?\(?(?P<limit>\d[\d,]{2,14})|> (?P<maximum>\d[\d,]{2,14}) maximum"
)
"""How OpenRouter, OpenAI, Google and Anthropic name the window."""
_NUMBERS: Final = {
    "no_credits": _CREDIT_NUMBERS,
    "too_long": _WINDOW_NUMBERS,
}
"""The lines behind which stand the numbers that the server names, and how it does."""
_SUPPORTED_VALUES = re.compile(
    r"(?i)supported (?:values|levels)(?: are)?:? (?P<values>['\"`\w]+(?:,? (?:and )?['\"`\w]+){0,10})"
)
_UNSUPPORTED = re.compile(
    r"(?i)(?:unsupported (?:parameter|value):? |unknown (?:parameter|name):? |^)['\"`](?P<quoted>[a-z_.]{2,40})['\"`]"
    r"|(?m:^)(?P<path>[a-z_.]{2,40}): extra inputs are not permitted"
)
"""How OpenAI, Google and Anthropic name a parameter that a model does not take."""
_OUTPUT_LIMIT = re.compile(
    r"max_output_tokens'?: integer below minimum value.{0,40}>= (?P<least>\d{1,9})"
    r"|max_tokens: \d{1,9} > (?P<most>\d{1,9}), which is the maximum"
    r"|(?i:max_(?:completion_|output_)?tokens).{0,200}?"
    r"(?:supports at most|less than or equal to) [`'\"]?(?P<limit>[\d,]{1,12})"
)
"""How OpenAI names the least output, and Anthropic, OpenAI and Groq the most."""
_NO_THINKING: Final[Mapping[str, Any]] = {"effort": "none"}
_NO_MATTER: Final = str.maketrans({"_": " ", **dict.fromkeys("`'\"", "")})
"""What makes no difference between two wordings."""
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
    | (?<= /keys/ ) [a-z0-9]{16,}                           # the hash of a key, in its address
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
    written = {*map(Secret, (api_key, *in_url, json.dumps(api_key)[1:-1]))} - {""}
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
        broken = StreamBroken(notice("stream_broken"), detail=failure.message)
        broken.passes = True
        return broken
    wait_seconds = retry_after_seconds if retry_after_seconds is not None else failure.retry_after_seconds
    rule = rule_of(failure)
    name = _OF_OWN_KEY.get(rule.error, rule.notice) if is_own_key and not rule.passes else rule.notice
    line = _line(name, failure, wait_seconds)
    if named := failure.fallback_models[:_MOST_SUGGESTED]:
        models = ", ".join(_shortened(redact(each, api_key=api_key), _WORD_CHARACTERS) for each in named)
        line = notice("with_suggestion", line=line, models=models)
    facts = (failure.status, failure.code, failure.limit, failure.availability, failure.message, failure.raw)
    error = rule.error(
        line,
        detail=_shortened(" | ".join(str(fact) for fact in facts if fact), _DETAIL_CHARACTERS),
        retry_after_seconds=wait_seconds,
    )
    error.passes = rule.passes if failure.retryable is None else failure.retryable
    error.remedy, error.may_be_done = rule.remedy, rule.notice == "provider_slow"
    if failure.status and failure.status < 500:
        error.down = ""
    _add_particulars(error, rule, failure)
    return error


def _add_particulars(error: ProviderError, rule: Rule, failure: Failure) -> None:
    """Add what a program can do about the error."""
    said = f"{failure.raw}\n{failure.message}"
    if isinstance(error, ContextTooLong) and (named := _WINDOW.search(said)):
        error.limit_tokens = _read_number(named["limit"] or named["maximum"])
    elif isinstance(error, EffortRejected) and (listed := _SUPPORTED_VALUES.search(said)):
        error.supported_efforts = tuple(re.findall(r"\w+", listed["values"].replace(" and ", " ")))
    elif isinstance(error, PaymentRequired):
        error.affordable_tokens = _numbers(_CREDIT_NUMBERS, failure).get("limit")
    elif isinstance(error, ReasoningRejected):
        error.is_missing = rule.notice == "reasoning_missing"
    elif rule.notice in {"output_too_short", "output_too_long"} and isinstance(error, ParameterRejected):
        named = _OUTPUT_LIMIT.search(said)
        thinks_too_much = rule.notice == "output_too_short" and not named
        error.parameter = "reasoning" if thinks_too_much else "max_output_tokens"
        error.value = _NO_THINKING if thinks_too_much else None
        if named:
            error.value = _read_number(named["least"] or named["most"] or named["limit"])
    elif isinstance(error, ParameterRejected):
        error.parameter = _rejected_parameter(failure)


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
    except (ValueError, OverflowError):
        return None
    return _plausible((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp())


def _plausible(seconds: float) -> float | None:
    return max(0.0, seconds) if seconds < _LONGEST_WAIT_SECONDS else None


# --- what users read


def _line(name: str, failure: Failure, wait_seconds: float | None) -> str:
    """The line of that name with the details that the failure holds.

    What the server said is quoted, the provider's own words first, unless it only said that it failed.
    """
    if name == "no_endpoint" and failure.availability in _AVAILABILITY:
        name = failure.availability
    unknown = "wait_tomorrow" if name == "free_daily_limit" else "wait_unknown"
    wait = _wait_text(wait_seconds) if wait_seconds is not None else notice(unknown)
    provider = notice("a_provider")
    if failure.provider:
        provider = notice("the_provider", name=_shortened(failure.provider, _NAME_CHARACTERS))
    said = next((text for text in (failure.raw, failure.message) if text and text != _SAYS_NOTHING), None)
    if name == "moderated":
        said = ", ".join(failure.reasons)
    quoted = notice("quote", text=_shortened(said, _QUOTE_CHARACTERS)) if said else ""
    if name in _NUMBERS:
        found = _numbers(_NUMBERS[name], failure)
        quoted = notice("tokens_named", **found) if found else ""
    return notice(name, provider=provider, quote=quoted, wait=wait)


def _numbers(named: re.Pattern[str], failure: Failure) -> dict[str, int]:
    """The numbers that the server named; where several providers were asked, those with the smallest limit."""
    texts = filter(None, (failure.message, failure.raw, *failure.earlier))
    found = [
        {name: _read_number(digits) for name, digits in match.groupdict().items()}
        for match in map(named.search, texts)
        if match
    ]
    return min(found, key=lambda numbers: numbers["limit"], default={})


def _read_number(digits: str) -> int:
    return int(digits.replace(",", "") or 0)


def _wait_text(seconds: float) -> str:
    """How long to wait: not less than that, so that who waits as long is not refused again."""
    if seconds < 1:
        return notice("wait_over")
    size, unit = (1, "s") if seconds < 120 else (60, "min") if seconds < 7200 else (3600, "h")
    return notice("wait_for", time=f"{math.ceil(seconds / size)} {unit}")


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


# --- which failure is what


def _rejected_parameter(failure: Failure) -> str:
    """Return the parameter that the provider does not take, if the request can do without it; "" otherwise."""
    named = _UNSUPPORTED.search(f"{failure.raw or ''}\n{failure.message}")
    names = (failure.parameter, named and (named["quoted"] or named["path"]))
    return next((name for name in names if name in OMISSIBLE), "")


@dataclass(frozen=True, slots=True)
class Wordings:
    """How a kind of failure is told: by words of machines, and by texts, as the pieces that stand in them in order.

    `texts` are (who was seen to say it, pieces); "any" are words that many might use.
    """

    codes: frozenset[str] = frozenset()
    texts: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = ()

    def are_in(self, said: str) -> bool:
        """Whether one of the texts is in a plain one; takes as long as reading it, whatever it holds."""
        return any(_holds(said, pieces) for _, pieces in self.texts)


def _holds(said: str, pieces: Sequence[str]) -> bool:
    at = 0
    for piece in pieces:
        at = said.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def _plain(text: str) -> str:
    return " ".join(text.lower().translate(_NO_MATTER).split())


def read_wordings(lines: Sequence[str]) -> dict[str, Wordings]:
    """Read the lines of `refusals.txt`, by the names of its sections."""
    read: dict[str, Wordings] = {}
    for line in lines:
        if line.startswith("["):
            name = line.strip("[]")
            read[name] = Wordings()
        elif line and not line.startswith("#"):
            who, words = line.split(": ", 1)
            known = read[name]
            if who == "codes":
                read[name] = replace(known, codes=known.codes.union(words.split()))
            else:
                said = frozenset(who.split(", ")), tuple(map(_plain, words.split(" ... ")))
                read[name] = replace(known, texts=(*known.texts, said))
    return read


_NO_WORDINGS: Final = Wordings()
WORDINGS: Final = read_wordings((pkgutil.get_data(__package__, "refusals.txt") or b"").decode().splitlines())


@dataclass(frozen=True, slots=True)
class Rule:
    """An error class and the name of its line, for failures with these wordings, or with one of the statuses.

    `wordings` is the section of the file, by default the one of that name. `condition` must hold beside the status
    where there is one. `passes`: the same request may succeed a little later. `remedy`: see `ProviderError`.
    """

    error: type[ProviderError]
    notice: str
    statuses: Collection[int] = ()
    passes: bool = False
    remedy: Remedy = ""
    condition: Callable[[Failure], bool] | None = None
    wordings: str = ""

    @property
    def section(self) -> str:
        """The name of its wordings."""
        return self.wordings or self.notice


RULES: Final = (
    Rule(ReasoningRejected, "reasoning_missing"),
    Rule(ReasoningRejected, "reasoning_not_accepted"),
    Rule(PaymentRequired, "key_limit_reached"),
    Rule(PaymentRequired, "budget_in_use", passes=True),
    Rule(PaymentRequired, "prompt_unaffordable"),
    Rule(PaymentRequired, "no_credits", (402,)),
    Rule(RateLimited, "free_daily_limit"),
    Rule(RateLimited, "free_limit", passes=True),
    Rule(RateLimited, "provider_busy", passes=True),
    Rule(ParameterRejected, "output_too_short"),
    Rule(ParameterRejected, "output_too_long"),
    Rule(ContextTooLong, "too_long"),
    Rule(RequestRejected, "history_rejected", remedy="words"),
    Rule(
        EffortRejected,
        "effort_rejected",
        (400, 422),
        condition=lambda failure: failure.parameter in {"reasoning.effort", "reasoning_effort"},
    ),
    Rule(RequestRejected, "schema_rejected"),
    Rule(
        ParameterRejected,
        "parameter_rejected",
        (400, 422),
        condition=lambda failure: bool(_rejected_parameter(failure)),
    ),
    Rule(ModelNotFound, "no_tool_provider", remedy="tools"),
    Rule(ModelNotFound, "no_attachment_provider", remedy="words"),
    Rule(ModelNotFound, "no_endpoint", remedy="words", wordings="no_cache_provider"),
    Rule(ModelNotFound, "no_allowed_provider"),
    Rule(ModelNotFound, "privacy_restricted"),
    Rule(ModelNotFound, "model_not_found"),
    Rule(AccessDenied, "moderated"),
    Rule(AccessDenied, "model_refused"),
    Rule(AccessDenied, "data_residency"),
    Rule(RequestRejected, "image_unusable", remedy="words"),
    Rule(RequestRejected, "file_unusable", remedy="words"),
    Rule(AuthenticationFailed, "key_rejected", (401,)),
    Rule(ProviderUnavailable, "provider_unavailable", passes=True, remedy="any", wordings="upstream_error"),
    Rule(ProviderUnavailable, "provider_slow", (408, 504, 524), passes=True),
    Rule(ProviderUnavailable, "provider_overloaded", (503, 529), passes=True),
    Rule(ProviderUnavailable, "provider_unavailable", range(500, 600), passes=True),
    Rule(AccessDenied, "access_denied", (403,)),
    Rule(ModelNotFound, "no_endpoint", (404,)),
    Rule(RateLimited, "provider_busy", (429,), passes=True),
    Rule(RequestTooLarge, "request_too_large", (413,)),
    Rule(RequestRejected, "request_rejected", range(400, 500), remedy="any"),
)
"""Of the documented failures, in the order in which they are recognized."""
UNKNOWN: Final = Rule(ProviderError, "provider_error")
_NARROW: Final[Mapping[int, tuple[type[ProviderError], ...]]] = {
    401: (AuthenticationFailed,),
    402: (PaymentRequired,),
    403: (AccessDenied, PaymentRequired),
    404: (ModelNotFound,),
    429: (RateLimited, PaymentRequired, ProviderUnavailable),
    **dict.fromkeys(range(500, 600), (ProviderUnavailable, ContextTooLong, ReasoningRejected)),
}
"""What failures with these statuses can be, whatever their texts say: these may quote anything."""


def rule_of(failure: Failure, wordings: Mapping[str, Wordings] = WORDINGS) -> Rule:
    """Return the rule of a failure: by words of machines, then by texts, then by its status alone."""
    codes = {failure.code, failure.raw_code, failure.availability, failure.limit}
    texts = (failure.message, failure.raw, failure.code, failure.raw_code)
    said = _plain("\n".join(filter(None, texts)))
    possible = _NARROW.get(failure.status or 0, (ProviderError,))
    known = [(rule, wordings.get(rule.section, _NO_WORDINGS)) for rule in RULES]
    by_code = (rule for rule, words in known if words.codes & codes)
    by_text = (
        rule
        for rule, words in known
        if issubclass(rule.error, possible)
        and (
            words.are_in(said)
            or (rule.condition and failure.status in rule.statuses and rule.condition(failure))
        )
    )
    by_status = (rule for rule in RULES if failure.status in rule.statuses and not rule.condition)
    return next(chain(by_code, by_text, by_status), UNKNOWN)
