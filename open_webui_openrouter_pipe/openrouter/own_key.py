"""The port `Responses` for a user's own API key: what is wrong with it is for that user to read, and to correct."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from ..errors import AuthenticationFailed, ConfigurationError, PaymentRequired, PipeError
from ..notices import notice
from ..ports import Event, RequestBody, Responses
from ..responses.failure import Failure

_LINES: Final[Mapping[type[AuthenticationFailed | PaymentRequired], str]] = {
    AuthenticationFailed: "own_key_rejected",
    PaymentRequired: "own_key_without_credits",
}


class OwnKeyResponses:
    """Another `Responses` whose errors about the key and its credits speak to its owner."""

    def __init__(self, responses: Responses) -> None:
        self._responses = responses

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncGenerator[AsyncIterator[Event]]:
        """Open a stream, as the port does."""
        try:
            async with self._responses.stream(body) as events:
                yield events
        except PipeError as error:
            raise _to_owner(error) from error

    async def create(self, body: RequestBody) -> Mapping[str, Any]:
        """Return the response object, as the port does."""
        try:
            return await self._responses.create(body)
        except PipeError as error:
            raise _to_owner(error) from error

    def explain(self, failure: Failure) -> PipeError:
        """Return the error that a failure inside a stream is."""
        return _to_owner(self._responses.explain(failure))


def require_usable(key: str | None) -> None:
    """Raise ConfigurationError for a key that is lost, which the empty text stands for, or that no header can hold."""
    if key == "":
        raise ConfigurationError(notice("own_key_unreadable"))
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigurationError(notice("own_key_rejected"))


def _to_owner(error: PipeError) -> PipeError:
    for kind, line in _LINES.items():
        if isinstance(error, kind):
            spoken = kind(notice(line), detail=error.detail)
            spoken.generation_id = error.generation_id
            return spoken
    return error
