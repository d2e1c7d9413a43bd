"""Every documented status in every shape at every moment: its class, its lines, and whether it is asked again.

The table is written by hand and judges the code's own. A shape that names no code can only be recognized by its
status, and inside a stream only by what its event says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from open_webui_openrouter_pipe import errors
from open_webui_openrouter_pipe.errors import PipeError
from open_webui_openrouter_pipe.openrouter.client import ClientSettings, OpenRouterClient
from open_webui_openrouter_pipe.openrouter.retries import Chance, RetryingResponses
from open_webui_openrouter_pipe.responses.effects import ResponseFailed, TextDelta
from open_webui_openrouter_pipe.responses.reducer import Reducer
from scripts.standin.errors import KNOWN
from tests.support.wire import frames

pytestmark = pytest.mark.anyio

WORDS: Final = {code: known.error_type for code, known in KNOWN.items()}
"""The word of each status, by which family C and events in a stream name it."""


@dataclass(frozen=True)
class Row:
    """What is expected of a status: beginnings of the user's and of the administrator's line, and the attempts."""

    kind: type[PipeError]
    user: str
    admin: str
    attempts: int = 1


BUSY = "The provider P is receiving too many requests at the moment. Please wait a little and try again"
SLOW = "The provider P took too long to answer. Please wait a little and try again, or choose a faster model."
AWAY = "The provider P is not available at the moment. Please wait a little and try again, or choose another"
FULL = (
    "The provider P is overloaded at the moment. Please wait a little and try again, or choose another model."
)
REJECTED = "The provider rejected the request; sending it again unchanged will not help."
LARGE = "The request is too large to send. Remove or shrink attachments, or start a new chat."
POOR = "The OpenRouter account has too few credits for this request. "
KEY = "OpenRouter did not accept the API key"
DENIED = "OpenRouter refused access to this request. "
ABSENT = "No provider of this model can serve this request."

TABLE: Final[dict[int, Row]] = {
    400: Row(errors.RequestRejected, REJECTED, REJECTED),
    401: Row(
        errors.AuthenticationFailed,
        f"{KEY} of this server. Please tell",
        f"{KEY}. Check the function's valve",
    ),
    402: Row(errors.PaymentRequired, f"{POOR}Please tell your administrator", f"{POOR}Add some at https://"),
    403: Row(
        errors.AccessDenied, f"{DENIED}Please choose another", f"{DENIED}Check the account's guardrails"
    ),
    404: Row(errors.ModelNotFound, ABSENT, ABSENT),
    408: Row(errors.ProviderUnavailable, SLOW, SLOW, attempts=3),
    412: Row(errors.RequestRejected, REJECTED, REJECTED),
    413: Row(errors.RequestRejected, LARGE, LARGE),
    422: Row(errors.RequestRejected, REJECTED, REJECTED),
    429: Row(errors.RateLimited, BUSY, BUSY, attempts=3),
    500: Row(errors.ProviderUnavailable, AWAY, AWAY, attempts=3),
    502: Row(errors.ProviderUnavailable, AWAY, AWAY, attempts=3),
    503: Row(errors.ProviderUnavailable, FULL, FULL, attempts=3),
    504: Row(errors.ProviderUnavailable, SLOW, SLOW, attempts=3),
    524: Row(errors.ProviderUnavailable, SLOW, SLOW, attempts=3),
    529: Row(errors.ProviderUnavailable, FULL, FULL, attempts=3),
}

TEXT: dict[str, Any] = {
    "type": "response.output_text.delta",
    "output_index": 0,
    "content_index": 0,
    "delta": "Hi",
}


def shapes(code: int) -> dict[str, dict[str, Any] | str]:
    """The bodies of one failure."""
    error = {"code": code, "message": "m", "metadata": {"provider_name": "P"}}
    word = {"code": "invalid_prompt", "message": "m"}
    return {
        "A": {"error": error, "user_id": "user_x"},
        "B": {"error": word, "metadata": {"provider_name": "P"}},
        "html": f"<html><head><title>openrouter.ai | {code}</title></head><body>cloudflare</body></html>",
        "empty": "",
        "text": "upstream connect error",
    }


def streamed_shapes(code: int) -> dict[str, dict[str, Any]]:
    """The events of one failure: the documented ones, with the number or the word."""
    numbered = {"code": code, "message": "m", "metadata": {"provider_name": "P"}}
    response = {"status": "failed", "error": {"code": "server_error", "message": "m"}}
    named = {"code": WORDS[code], "message": "m", "metadata": {"provider_name": "P"}}
    return {
        "failed, number": {"type": "response.failed", "response": {"status": "failed", "error": numbered}},
        "failed, word": {
            "type": "response.failed",
            "response": {**response, "error_type": WORDS[code], "metadata": {"provider_name": "P"}},
        },
        "response.error": {"type": "response.error", "error": numbered},
        "nested": {"type": "error", "error": numbered},
        "nested, word": {"type": "error", "error": named},
        "flat": {"type": "error", "code": str(code), "message": "m", "param": None, "sequence_number": 3},
    }


SAME_WORD = {408: 504, 524: 504, 529: 503}
"""Statuses whose word is that of another one."""


class World:
    """Answers each request alike; waits take no time."""

    def __init__(self, response: tuple[int, bytes]) -> None:
        self.requests = 0
        self._response = response

    def __call__(self, _request: httpx.Request) -> httpx.Response:
        self.requests += 1
        status, content = self._response
        return httpx.Response(status, content=content)

    async def sleep(self, _seconds: float) -> None:
        """Go on at once."""

    async def run(self) -> tuple[PipeError, str]:
        """The error in which an answer ends, and the text before it."""
        async with httpx.AsyncClient(transport=httpx.MockTransport(self)) as http:
            client = OpenRouterClient(http, ClientSettings(api_key="sk-or-x"))
            chance = Chance(sleep=self.sleep, clock=lambda: 0.0, random=lambda: 0.0)
            responses = RetryingResponses(client, limit_seconds=60.0, chance=chance)
            reducer, effects = Reducer(), list[Any]()
            try:
                async with responses.stream({"model": "m"}) as events:
                    async for event in events:
                        effects += reducer.feed(event)
            except PipeError as error:
                return error, ""
            assert isinstance(effects[-1], ResponseFailed)
            text = "".join(effect.delta for effect in effects if isinstance(effect, TextDelta))
            return responses.explain(effects[-1].failure), text


def matches(error: PipeError, row: Row) -> tuple[bool, bool, bool]:
    """Whether class, user's line and administrator's line are those of the row; not every shape names the provider."""
    lines = (error.user_message, error.admin_message)
    user, admin = (line.replace("The provider took", "The provider P took") for line in lines)
    user, admin = (line.replace("The provider is", "The provider P is") for line in (user, admin))
    return type(error) is row.kind, user.startswith(row.user), admin.startswith(row.admin)


@pytest.mark.parametrize("shape", list(shapes(400)))
@pytest.mark.parametrize("code", TABLE)
async def test_before_the_stream(code: int, shape: str) -> None:
    """By its HTTP status, whatever the body is."""
    body = shapes(code)[shape]
    world = World((code, (body if isinstance(body, str) else json.dumps(body)).encode()))
    error, _ = await world.run()
    assert matches(error, TABLE[code]) == (True, True, True), error
    assert (world.requests, error.status >= 400) == (TABLE[code].attempts, True)


@pytest.mark.parametrize("begun", [False, True], ids=["before the first output", "after it"])
@pytest.mark.parametrize("shape", list(streamed_shapes(400)))
@pytest.mark.parametrize("code", TABLE)
async def test_inside_the_stream(code: int, shape: str, *, begun: bool) -> None:
    """By the number or the word in its event; once something is shown it is not asked again, and the text stays."""
    row = TABLE[SAME_WORD.get(code, code) if "word" in shape else code]
    if code == 403 and "word" in shape:  # the word says more than the number
        row = Row(errors.AccessDenied, "The message was refused by moderation", "The message was refused by")
    created = {"type": "response.created", "response": {"id": "gen-1"}}
    events = [created, *([TEXT] if begun else []), streamed_shapes(code)[shape]]
    world = World((200, frames(*events)))
    error, text = await world.run()
    assert matches(error, row) == (True, True, True), error
    assert (world.requests, text) == (1 if begun else row.attempts, "Hi" if begun else "")


@pytest.mark.parametrize("code", TABLE)
async def test_instead_of_a_stream(code: int) -> None:
    """Family C, a failed response with status 200, read as a whole."""
    failed = {"object": "response", "status": "failed", "output": [], "error": {"code": code, "message": "m"}}
    world = World((200, json.dumps(failed).encode()))
    error, _ = await world.run()
    assert (matches(error, TABLE[code]), world.requests) == ((True, True, True), TABLE[code].attempts), error


def test_every_documented_status_is_in_the_table() -> None:
    """The stand-in's list is that of the documentation."""
    assert set(TABLE) == set(KNOWN)
