"""The client over httpx's mock transport."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from open_webui_openrouter_pipe.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    PaymentRequired,
    PipeError,
    ProviderUnavailable,
    RateLimited,
    StreamBroken,
    TooBusy,
)
from open_webui_openrouter_pipe.openrouter.client import ClientSettings, OpenRouterClient, require_usable
from open_webui_openrouter_pipe.responses.failure import read_failure
from tests.support.wire import RECORDINGS, events_of, frames, recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.anyio

KEY = "sk-or-v1-secret"
SETTINGS = ClientSettings(api_key=KEY, referer="https://chat.test", title="Chat")
SSE = {"content-type": "text/event-stream"}
BODY = {"model": "m", "input": [{"type": "message", "role": "user", "content": "é"}]}


class FakeServer:
    """Returns one response for each request, then the last one again, and keeps the requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


class Portions(httpx.AsyncByteStream):
    """A body in portions; an exception among them is raised, a number is a pause."""

    def __init__(self, *portions: bytes | Exception | float) -> None:
        self.portions = portions
        self.paused = asyncio.Event()
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for portion in self.portions:
            if isinstance(portion, Exception):
                raise portion
            if isinstance(portion, bytes):
                yield portion
            else:
                self.paused.set()
                await asyncio.sleep(portion)

    async def aclose(self) -> None:
        self.closed = True


@asynccontextmanager
async def client_of(
    answer: Callable[[httpx.Request], Any], settings: ClientSettings = SETTINGS
) -> AsyncIterator[OpenRouterClient]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        sleep = answer.sleep if isinstance(answer, FakeServer) else asyncio.sleep
        yield OpenRouterClient(http, settings, sleep=sleep)


async def read(server: FakeServer, settings: ClientSettings = SETTINGS) -> list[Any]:
    async with client_of(server, settings) as client, client.stream(BODY) as events:
        return [event async for event in events]


def streamed(*portions: bytes | Exception | float) -> httpx.Response:
    return httpx.Response(200, headers=SSE, stream=Portions(*portions))


def error(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, headers=headers, json={"error": {"code": status, "message": "m"}})


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDINGS.glob("*.sse")))
async def test_a_stream_is_read(name: str) -> None:
    """All events of a recorded stream arrive, whatever the portions."""
    stream = recording(name)
    portions = [stream[at : at + 777] for at in range(0, len(stream), 777)]
    assert await read(FakeServer(streamed(*portions))) == events_of(stream)


async def test_the_headers_and_the_body_of_a_request() -> None:
    """Headers name the application, and the body goes out compact, as UTF-8, with the stream switched on."""
    server = FakeServer(streamed(frames()))
    await read(server)
    (request,) = server.requests
    names = ("authorization", "http-referer", "x-openrouter-title", "accept", "content-type")
    assert (request.method, str(request.url), [request.headers[name] for name in names], request.content) == (
        "POST",
        "https://openrouter.ai/api/v1/responses",
        [f"Bearer {KEY}", "https://chat.test", "Chat", "text/event-stream", "application/json"],
        json.dumps({**BODY, "stream": True}, ensure_ascii=False, separators=(",", ":")).encode(),
    )


@pytest.mark.parametrize("key", ["", "  "])
async def test_without_a_key_nothing_is_sent(key: str) -> None:
    """A missing key is reported before anything is sent."""
    server = FakeServer(streamed(frames()))
    with pytest.raises(ConfigurationError, match="No OpenRouter API key"):
        await read(server, ClientSettings(api_key=key))
    assert server.requests == []


@pytest.mark.parametrize(
    "settings",
    [
        ClientSettings(api_key="sk-ö"),
        ClientSettings(api_key="sk-or\nx: y"),
        ClientSettings(api_key="sk-\ud800"),
        ClientSettings(api_key=KEY, base_url="http://x.test:port"),
        ClientSettings(api_key=KEY, base_url="http://xn--a"),
        ClientSettings(api_key=KEY, base_url="ftp://x.test"),
    ],
)
async def test_unusable_settings_are_a_configuration_error(settings: ClientSettings) -> None:
    """A key or an address that cannot be used is the administrator's to mend, and the line names the valve."""
    async with httpx.AsyncClient() as http:
        with pytest.raises(ConfigurationError) as caught:
            async with OpenRouterClient(http, settings).stream(BODY):
                pass
    valve = "API_KEY" if settings.api_key != KEY else "BASE_URL"
    assert (settings.api_key in str(caught.value), valve in caught.value.user_message) == (False, True)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("", "cannot be read"),
        ("sk-ö", "own API key"),
        ("sk\n", "own API key"),
        (None, ""),
        ("sk-or", ""),
    ],
)
def test_a_key_of_a_user_s_own_can_be_used_or_says_why_not(key: str | None, line: str) -> None:
    """One that is lost, and one that no header can hold, are refused before anything is sent."""
    if not line:
        require_usable(key)
        return
    with pytest.raises(ConfigurationError, match=line):
        require_usable(key)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("Büro-Chat", "B%C3%BCro-Chat"),
        ("Chat 🙂, 100 %", "Chat %F0%9F%99%82, 100 %"),
        ("a\r\nX-Evil: 1", "a%0D%0AX-Evil: 1"),
        ("half \ud83d", "half ?"),
    ],
)
async def test_any_title_and_referer_can_be_sent(given: str, sent: str) -> None:
    """They are decoration, and cost no answer."""
    server = FakeServer(streamed(frames()))
    await read(server, ClientSettings(api_key=KEY, referer=given, title=given))
    headers = server.requests[0].headers
    assert (headers["http-referer"], headers["x-openrouter-title"]) == (sent, sent)


async def test_an_echoed_key_is_not_repeated() -> None:
    """A gateway's key may look like any word, and its errors may quote the header."""
    body = {"error": {"code": 400, "message": "bad header: sesame"}}
    failed = {
        "type": "response.failed",
        "response": {"error": {"code": "server_error", "message": "sesame!"}},
    }
    settings = ClientSettings(api_key="sesame")
    assert "sesame" not in repr(settings)
    refused, page = httpx.Response(400, json=body), httpx.Response(200, json=[f"sesame, {body}"])
    errors = [(await collect(FakeServer(response), settings))[1] for response in (refused, page)]
    async with client_of(FakeServer(refused), settings) as client:
        errors.append(client.explain(read_failure(None, failed)))
    assert [("[redacted]" in str(error), "sesame" in str(error)) for error in errors] == [(True, False)] * 3


async def test_error_statuses_are_errors() -> None:
    """An error body becomes an error of the tree when the stream is opened, and the response is closed."""
    body = Portions(json.dumps({"error": {"code": 401, "message": "User not found."}}).encode())
    with pytest.raises(AuthenticationFailed):
        await read(FakeServer(httpx.Response(401, stream=body)))
    assert body.closed


async def test_a_huge_error_body_is_not_read_whole() -> None:
    """Of an endless error page only the beginning is read."""
    pages: list[Any] = [
        b"<html><title>Bad gateway</title>",
        *[b"x" * 65536] * 3,
        RuntimeError("read too far"),
    ]
    with pytest.raises(ProviderUnavailable, match="Bad gateway"):
        await read(FakeServer(httpx.Response(502, stream=Portions(*pages))))


async def test_a_whole_response_instead_of_a_stream_is_read() -> None:
    """A whole response where a stream was asked for is its terminal event."""
    response = {"object": "response", "status": "completed", "output": []}
    assert await read(FakeServer(httpx.Response(200, json=response))) == [
        {"type": "response.completed", "response": response}
    ]


@pytest.mark.parametrize("media_type", ["text/event-stream", "text/plain; charset=utf-8", None])
@pytest.mark.parametrize("split", [1, 1000])
async def test_an_unlabelled_error_instead_of_a_stream_is_read(media_type: str | None, split: int) -> None:
    """What a stream begins with says more than its content type."""
    text = b' \n{"error": {"code": 402, "message": "no credits"}}\n'
    body = Portions(*(text[at : at + split] for at in range(0, len(text), split)))
    headers = {"content-type": media_type} if media_type else {}
    with pytest.raises(PaymentRequired):
        await read(FakeServer(httpx.Response(200, headers=headers, stream=body)))


@pytest.mark.parametrize("headers", [SSE, {"content-type": "text/html"}])
async def test_a_web_page_instead_of_a_stream_is_an_error(headers: dict[str, str]) -> None:
    """A login page of some proxy is not an answer, whatever it is labelled as."""
    page = httpx.Response(200, headers=headers, stream=Portions(b"<html><title>Log", b" in</title>"))
    with pytest.raises(ProviderUnavailable, match="not OpenRouter"):
        await read(FakeServer(page))


async def test_a_list_is_asked_for_again_when_there_was_no_connection() -> None:
    """The connection of an earlier request may have been closed in the meantime."""
    server = FakeServer(
        httpx.ConnectError("refused"),
        httpx.RemoteProtocolError("dropped"),
        httpx.Response(200, json={"data": []}),
    )
    async with client_of(server) as client:
        assert await client.get("/models") == {"data": []}
    assert server.waits == [0.5, 1.0]


@pytest.mark.parametrize(
    ("answer", "kind", "passes"),
    [
        (httpx.ConnectError("refused"), ConnectionFailed, True),
        (httpx.ReadTimeout("slow"), ConnectionFailed, False),
        (httpx.PoolTimeout("full"), TooBusy, False),
        (error(429), RateLimited, True),
        (error(401), AuthenticationFailed, False),
        (streamed(b'data: {"type":"x"}\n\n', httpx.ReadError("lost")), StreamBroken, True),
        (streamed(1.0), StreamBroken, False),
    ],
)
async def test_an_error_says_whether_it_passes(
    answer: httpx.Response | Exception, kind: type[PipeError], *, passes: bool
) -> None:
    """A time-out has cost the user enough already. Whoever wants more than one attempt wraps the client."""
    server = FakeServer(answer)
    _, broken = await collect(server, ClientSettings(api_key=KEY, timeout_seconds=0.05))
    assert (type(broken), broken and broken.passes) == (kind, passes)
    assert (len(server.requests), server.waits) == (1, [])


async def test_an_error_names_its_generation() -> None:
    """By it OpenRouter's own log is searched."""
    refused = error(503, **{"x-generation-id": "gen-1"})
    lost = httpx.Response(
        200, headers={**SSE, "x-generation-id": "gen-2"}, stream=Portions(httpx.ReadError("x"))
    )
    errors = [(await collect(FakeServer(answer)))[1] for answer in (refused, lost)]
    assert [error and error.generation_id for error in errors] == ["gen-1", "gen-2"]


async def collect(
    server: FakeServer, settings: ClientSettings = SETTINGS
) -> tuple[list[Any], PipeError | None]:
    """The events until the stream ends, and the error that ended it."""
    received: list[Any] = []
    try:
        async with client_of(server, settings) as client, client.stream(BODY) as events:
            async for event in events:
                received.append(event)  # noqa: PERF401 - what came before the error counts
    except PipeError as error:
        return received, error
    return received, None


@pytest.mark.parametrize(
    "portions",
    [
        [b'data: {"type":"x"}\n\n', httpx.ReadError("lost")],
        [b'data: {"type":"x"}\n\n', httpx.RemoteProtocolError("incomplete chunked read")],
        [b'data: {"type":"x"}\n\n', b"data: {broken\n\n"],
        [b'data: {"type":"x"}\n\n', 1.0],
    ],
)
async def test_a_broken_stream_is_not_sent_again(portions: list[Any]) -> None:
    """After the first event nothing is sent again: what arrived is kept, and the break is reported."""
    server = FakeServer(streamed(*portions))
    settings = ClientSettings(api_key=KEY, timeout_seconds=0.05)
    received, broken = await collect(server, settings)
    assert (received, type(broken), len(server.requests)) == ([{"type": "x"}], StreamBroken, 1)


async def test_the_first_byte_has_its_own_time_limit() -> None:
    """A server that never answers is given up."""

    async def never(_request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        raise AssertionError

    settings = ClientSettings(api_key=KEY, timeout_seconds=0.05)
    async with client_of(never, settings) as client:
        with pytest.raises(ConnectionFailed, match="did not answer"):
            async with client.stream(BODY):
                pass


@pytest.mark.parametrize("read_events", [0, 1])
async def test_leaving_a_stream_early_closes_the_response(read_events: int) -> None:
    """A stream that is left before its end is closed."""
    body = Portions(b'data: {"type":"x"}\n\n', 60.0)
    server = FakeServer(httpx.Response(200, headers=SSE, stream=body))
    async with client_of(server) as client, client.stream(BODY) as events:
        for _ in range(read_events):
            await anext(events)
    assert body.closed


async def test_cancellation_closes_the_response() -> None:
    """A cancelled reader is cancelled, and the response is closed."""
    body = Portions(b'data: {"type":"x"}\n\n', 60.0)
    reading = asyncio.create_task(read(FakeServer(httpx.Response(200, headers=SSE, stream=body))))
    await body.paused.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert body.closed


async def test_a_response_without_streaming_is_returned_whole() -> None:
    """Without streaming the response object is given as it came."""
    response = {"object": "response", "status": "completed", "output": []}
    server = FakeServer(httpx.Response(200, json=response))
    async with client_of(server) as client:
        assert await client.create({"model": "m"}) == response
    assert json.loads(server.requests[0].content) == {"model": "m", "stream": False}


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 502, "message": "m"}},
        {
            "object": "response",
            "status": "failed",
            "output": [],
            "error": {"code": "server_error", "message": "m"},
        },
    ],
)
async def test_a_failed_response_without_streaming_is_raised(body: dict[str, Any]) -> None:
    """A failure with status 200 is raised."""
    async with client_of(FakeServer(httpx.Response(200, json=body))) as client:
        with pytest.raises(ProviderUnavailable):
            await client.create({"model": "m"})


async def test_get_returns_the_json_of_a_path() -> None:
    """Other endpoints are read below the base URL, even without a key."""
    server = FakeServer(httpx.Response(200, json={"data": []}))
    async with client_of(server, ClientSettings(base_url="https://x.test/v1/")) as client:
        assert await client.get("/models") == {"data": []}
    assert (str(server.requests[0].url), "authorization" in server.requests[0].headers) == (
        "https://x.test/v1/models",
        False,
    )


async def test_each_response_is_logged_with_its_generation(caplog: pytest.LogCaptureFixture) -> None:
    """By that number OpenRouter finds it; what was asked and said is not in the log."""
    responses = [
        httpx.Response(200, json={}, headers={"x-generation-id": "gen-1"}),
        httpx.Response(200, json={}),
    ]
    with caplog.at_level(logging.DEBUG, logger="open_webui_openrouter_pipe"):
        async with client_of(FakeServer(*responses)) as client:
            await client.get("/models")
            await client.get("/models")
    assert [record.getMessage() for record in caplog.records] == [
        "200 /api/v1/models, generation gen-1",
        "200 /api/v1/models, generation unnamed",
    ]
