"""The error tree: every failure that a user or a caller may meet.

An error says what the user should read: `user_message`, one plain line without secrets, which has words of its own for
who can change settings and add credits. `passes` says that the same request may succeed a little later. Callers of the
bare API also get its HTTP `status` and, where OpenAI's API has one for it, the `code`.
The exceptions of libraries are translated into these in the adapter that owns the library; nothing else crosses a
folder's border.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

Remedy: TypeAlias = Literal["", "any", "words", "tools"]
"""What may help against a refusal before anything was shown: nothing known; less of everything that a chat holds beside
its words, as nothing explains it; the words alone of earlier turns; or no tools that nobody has chosen."""

FailureKind: TypeAlias = Literal[
    "limit",
    "too_long",
    "busy",
    "connection",
    "account",
    "refused",
    "request",
    "rate",
    "provider",
    "other",
]
"""What failures are counted by."""

Down: TypeAlias = Literal["", "connection", "address", "model"]
"""What a failure says is down for everybody: nothing; the way to the address; what answers there; the model."""


class PipeError(Exception):
    """Base of all errors of this package.

    `user_message` is one line of plain text for the chat; `str(error)` may hold more for the log.
    What `has_reference` comes from outside: line and log share a short id by which one is found by the other.
    `generation_id` is OpenRouter's name for the request, empty where it has given none. `retry_after_seconds` is how
    long the server asked to wait, or an address is left alone, None where nothing says that. `kind` is what
    it is counted as, `down` what is left alone when it repeats. After one that `may_be_done`, nobody knows whether what
    was asked for was done, and is billed.
    """

    status: int = 500
    code: str | None = None
    kind: FailureKind = "other"
    has_reference: bool = False
    passes: bool = False
    down: Down = ""
    may_be_done: bool = False
    generation_id: str = ""

    def __init__(
        self,
        user_message: str,
        *,
        detail: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{user_message} ({detail})" if detail else user_message)
        self.user_message = user_message
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds


class ConfigurationError(PipeError):
    """A setting is missing or wrong; the administrator can correct it."""


class InvalidHistory(PipeError):
    """The messages are not a chat at all (not a list, no readable message)."""

    status = 400


class ContextBudgetExceeded(PipeError):
    """What must not be dropped is larger than the model's input budget.

    The line for the user is the reason, and the `advice` what to do about it.
    """

    kind = "too_long"
    status = 400
    code = "context_budget_exceeded"
    advice: str = ""


class SpendingLimitReached(PipeError):
    """Nothing is sent, as a spending limit is reached, or cannot be read or checked."""

    kind = "limit"
    status = 402
    code = "insufficient_quota"


class SpendingDeclined(PipeError):
    """Nothing is sent, as the user does not want to pay for it."""

    status = 402


class AttachmentUnavailable(PipeError):
    """A file cannot be read, fetched or stored; `user_message` is the reason alone, to stand in a sentence."""

    status = 400


class AttachmentNotFound(AttachmentUnavailable):
    """There is no such file, or the user may not read it."""


class UpdateRefused(PipeError):
    """A release is not installed; the line says why, and Markdown may stand in it."""


class TooBusy(PipeError):
    """As many requests run as may, and there is no room to wait, or the wait was too long."""

    kind = "busy"
    status = 429
    code = "rate_limit_exceeded"


class ConnectionFailed(PipeError):
    """OpenRouter could not be reached, or did not answer within the time limit."""

    kind = "connection"
    status = 502
    has_reference = True


class AddressPaused(ConnectionFailed):
    """Nothing was sent, since the address could not be reached repeatedly; it is tried in `retry_after_seconds`."""

    status = 503


class StreamBroken(PipeError):
    """The stream ended, or could not be read, before its terminal event."""

    kind = "connection"
    status = 502
    has_reference = True
    may_be_done = True


class ProviderError(PipeError):
    """OpenRouter, or the provider behind it, answered with an error; see `Remedy` for what the turn may try."""

    kind: FailureKind = "provider"
    status = 502
    has_reference = True
    remedy: Remedy = ""


class AuthenticationFailed(ProviderError):
    """The API key is missing, unknown or revoked."""

    kind = "account"
    status = 401
    code = "invalid_api_key"


class PaymentRequired(ProviderError):
    """The account has too few credits for the request; `affordable_tokens` of output it can pay, where that is said."""

    kind = "account"
    status = 402
    code = "insufficient_quota"
    affordable_tokens: int | None = None


class AccessDenied(ProviderError):
    """Moderation, a guardrail or a missing permission refused the request."""

    kind = "refused"
    status = 403


class ModelNotFound(ProviderError):
    """The model does not exist, or no endpoint serves what the request needs."""

    kind = "request"
    status = 404
    code = "model_not_found"


class RequestRejected(ProviderError):
    """The request itself is at fault; sending it again unchanged is useless."""

    kind: FailureKind = "request"
    status = 400


class ContextTooLong(RequestRejected):
    """The provider counted more tokens than the model's window holds: `limit_tokens`, where its error names that."""

    kind = "too_long"
    code = "context_length_exceeded"
    limit_tokens: int | None = None


class RequestTooLarge(RequestRejected):
    """The request has more bytes than a server reads."""

    status = 413


class EffortRejected(RequestRejected):
    """The model does not know the reasoning effort; `supported_efforts` are those that its error names."""

    supported_efforts: tuple[str, ...] = ()


class ParameterRejected(RequestRejected):
    """The model does not take the `parameter`, a path in the body such as "temperature", but the `value`, if one."""

    parameter: str = ""
    value: Any = None


class ReasoningRejected(RequestRejected):
    """Replayed reasoning failed the provider's verification, or `is_missing` where a thinking model wants it."""

    is_missing: bool = False


class RateLimited(ProviderError):
    """Too many requests; `retry_after_seconds` says when to come back, if known."""

    kind = "rate"
    status = 429
    code = "rate_limit_exceeded"


class ProviderUnavailable(ProviderError):
    """The provider is down, overloaded or too slow."""

    status = 503
    down: Down = "model"


class ModelPaused(ProviderUnavailable):
    """Nothing was sent, since the model was not available repeatedly; it is tried in `retry_after_seconds`."""

    down = ""


class NotOpenRouter(ProviderUnavailable):
    """The server at the address is not OpenRouter, or it is out of order: what it sent is not an answer of the API."""

    down = "address"
    may_be_done = True


class StoreError(PipeError):
    """Base of the artifact store's errors."""

    status = 503
    has_reference = True


class StoreUnavailable(StoreError):
    """Nothing durable can be written or read at the moment."""


class SealBroken(StoreError):
    """A sealed payload does not open: altered, moved to another row, or sealed with an unknown key."""
