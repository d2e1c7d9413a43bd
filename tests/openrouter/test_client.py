"""The client over httpx's mock transport."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from open_webui_openrouter_pipe import errors
from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.errors import ConfigurationError, PipeError
from open_webui_openrouter_pipe.openrouter import client as client_module
from open_webui_openrouter_pipe.openrouter.client import (
    DEFAULT_BASE_URL,
    ClientSettings,
    OpenRouterClient,
    require_usable,
)
from open_webui_openrouter_pipe.responses.effects import join_deltas
from open_webui_openrouter_pipe.responses.failure import read_failure
from tests.support.wire import RECORDINGS, events_of, frames, recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

KEY = "sk-or-v1-secret"
SETTINGS = ClientSettings(
    api_key=Secret(KEY), referer="https://chat.test", title="Chat", timeout_seconds=0.05
)
PATIENT = ClientSettings(api_key=Secret(KEY))
BODY = {"model": "m", "input": [{"type": "message", "role": "user", "content": "é"}]}
SSE = {"content-type": "text/event-stream"}
EVENT = b'data: {"type":"x"}\n\n'


class FakeServer:
    """Returns one response for each request, then the last one again; raises an exception; is silent for a number."""

    def __init__(self, *answers: httpx.Response | Exception | float) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else asyncio.sleep(answer)


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
    server: FakeServer, settings: ClientSettings = SETTINGS
) -> AsyncIterator[OpenRouterClient]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(server)) as http:
        yield OpenRouterClient(http, settings)


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


def streamed(
    *portions: bytes | Exception | float,
    status: int = 200,
    media_type: str = "text/event-stream",
    generation: str = "",
) -> httpx.Response:
    headers = {"content-type": media_type, "x-generation-id": generation}
    return httpx.Response(status, headers=headers, stream=Portions(*portions))


def error(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, headers=headers, json={"error": {"code": status, "message": "m"}})


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDINGS.glob("*.sse")))
async def test_a_stream_is_read(name: str) -> None:
    """All events of a recorded stream that say something arrive, whatever the portions; deltas of one as one."""
    stream = recording(name)
    portions = [stream[at : at + 777] for at in range(0, len(stream), 777)]
    events, error = await collect(FakeServer(streamed(*portions)), PATIENT)
    sent = [each for each in events_of(stream) if each["type"] != "response.in_progress"]
    assert ([*join_deltas(events)], error) == ([*join_deltas(sent)], None)


@pytest.mark.parametrize(
    ("usage", "kinds"), [(b"null", ["x"]), (b'{"cost":1}', ["response.in_progress", "x"])]
)
async def test_what_has_been_said_is_not_read_again(usage: bytes, kinds: list[str]) -> None:
    """The second event of each answer echoes all tools; where it has a bill, it says something."""
    echo = b'data: {"type":"response.in_progress","response":{"tools":[],"usage":%s}}\n\n' % usage
    events, error = await collect(FakeServer(streamed(echo, EVENT)))
    assert ([event["type"] for event in events], error) == (kinds, None)


ENDLESS_PAGE: Any = [b"<html><title>Bad gateway</title>", *[b"x" * 65536] * 3, RuntimeError("read too far")]
LOGIN_PAGE = (b"<html><title>Log", b" in</title>")
NO_CREDITS = b' \n{"error": {"code": 402, "message": "no credits"}}\n'
MEDIA_TYPES = ("text/event-stream", "text/plain; charset=utf-8", "")


@pytest.mark.parametrize(
    ("answer", "events", "failure"),
    [
        (httpx.ConnectError("refused"), 0, "ConnectionFailed, passes"),
        (httpx.ReadTimeout("slow"), 0, "ConnectionFailed"),
        (httpx.PoolTimeout("full"), 0, "TooBusy"),
        (60.0, 0, "ConnectionFailed: did not answer"),
        (error(429), 0, "RateLimited, passes"),
        (streamed(b'{"error": {"code": 401, "message": "m"}}', status=401), 0, "AuthenticationFailed"),
        (streamed(*ENDLESS_PAGE, status=502), 0, "ProviderUnavailable, passes: Bad gateway"),
        (streamed(*LOGIN_PAGE), 0, "NotOpenRouter: not OpenRouter"),
        (streamed(*LOGIN_PAGE, media_type="text/html"), 0, "NotOpenRouter: not OpenRouter"),
        (streamed(httpx.ReadTimeout("silent")), 0, "StreamBroken: sent nothing for"),
        (streamed(EVENT, httpx.ReadTimeout("silent")), 1, "StreamBroken: sent nothing for"),
        (streamed(EVENT, httpx.ReadError("lost")), 1, "StreamBroken, passes"),
        (streamed(EVENT, httpx.RemoteProtocolError("incomplete")), 1, "StreamBroken, passes"),
        (streamed(EVENT, b"data: {broken\n\n"), 1, "StreamBroken"),
        *[(streamed(NO_CREDITS, media_type=each), 0, "PaymentRequired") for each in MEDIA_TYPES],
        (streamed(*(NO_CREDITS[at : at + 1] for at in range(len(NO_CREDITS)))), 0, "PaymentRequired"),
    ],
)
async def test_what_goes_wrong_is_an_error_of_ours(answer: Any, events: int, failure: str) -> None:
    """Said once, with what came before; it says whether it passes, and nothing is sent again or left open."""
    server, body = FakeServer(answer), getattr(answer, "stream", None)
    received, raised = await collect(server)
    kind, _, words = failure.partition(": ")
    name, _, passes = kind.partition(", ")
    assert raised
    assert (received, type(raised), words in str(raised)) == (
        [{"type": "x"}] * events,
        getattr(errors, name),
        True,
    )
    assert len(server.requests) == 1
    assert raised.passes is bool(passes)
    assert not isinstance(body, Portions) or body.closed


async def test_a_silence_is_limited_in_a_stream_alone() -> None:
    """By the setting; what is no stream has a limit for the whole of it."""
    server = FakeServer(streamed(EVENT), httpx.Response(200, json={"data": []}))
    await collect(server)
    async with client_of(server) as client:
        await client.get("/models")
    assert [each.extensions["timeout"]["read"] for each in server.requests] == [0.05, None]


async def test_a_request_has_its_headers_and_its_body() -> None:
    """Headers name the application, and the body goes out compact, as UTF-8, with the stream switched on."""
    server = FakeServer(streamed(frames()))
    await collect(server)
    (request,) = server.requests
    names = ("authorization", "http-referer", "x-openrouter-title", "accept", "content-type")
    assert (request.method, str(request.url), [request.headers[name] for name in names], request.content) == (
        "POST",
        "https://openrouter.ai/api/v1/responses",
        [f"Bearer {KEY}", "https://chat.test", "Chat", "text/event-stream", "application/json"],
        json.dumps({**BODY, "stream": True}, ensure_ascii=False, separators=(",", ":")).encode(),
    )


@pytest.mark.parametrize(
    ("key", "address", "words"),
    [
        ("", "", "No OpenRouter API key"),
        ("  ", "", "No OpenRouter API key"),
        *[(key, "", "API_KEY") for key in ("sk-ö", "sk-or\nx: y", "sk-\ud800")],
        *[(KEY, address, "BASE_URL") for address in ("http://x.test:port", "http://xn--a", "ftp://x.test")],
    ],
)
async def test_unusable_settings_are_a_configuration_error(key: str, address: str, words: str) -> None:
    """A key or an address that cannot be used is the administrator's to mend, and the line names the valve."""
    settings = ClientSettings(api_key=Secret(key), base_url=address or DEFAULT_BASE_URL)
    async with httpx.AsyncClient() as http:
        with pytest.raises(ConfigurationError) as caught:
            async with OpenRouterClient(http, settings).stream(BODY):
                pass
    assert words in caught.value.user_message
    assert not (key.strip() and key in str(caught.value))


@pytest.mark.parametrize(
    ("key", "line"), [("", "cannot be read"), ("sk-ö", "own API key"), ("sk\n", "own API key")]
)
def test_a_key_of_a_user_s_own_can_be_used_or_says_why_not(key: str, line: str) -> None:
    """One that is lost, and one that no header can hold, are refused before anything is sent."""
    with pytest.raises(ConfigurationError, match=line):
        require_usable(key)
    require_usable("sk-or")
    require_usable(None)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        *(("Büro-Chat", "B%C3%BCro-Chat"), ("Chat 🙂, 100 %", "Chat %F0%9F%99%82, 100 %")),
        *(("a\r\nX-Evil: 1", "a%0D%0AX-Evil: 1"), ("half \ud83d", "half ?")),
    ],
)
async def test_any_title_and_referer_can_be_sent(given: str, sent: str) -> None:
    """They are decoration, and cost no answer."""
    server = FakeServer(streamed(frames()))
    await collect(server, ClientSettings(api_key=Secret(KEY), referer=given, title=given))
    headers = server.requests[0].headers
    assert (headers["http-referer"], headers["x-openrouter-title"]) == (sent, sent)


async def test_an_echoed_key_is_not_repeated() -> None:
    """A gateway's key may look like any word, and its errors may quote the header."""
    body = {"error": {"code": 400, "message": "bad header: sesame"}}
    failed = {
        "type": "response.failed",
        "response": {"error": {"code": "server_error", "message": "sesame!"}},
    }
    settings = ClientSettings(api_key=Secret("sesame"))
    assert "sesame" not in repr(settings)
    refused, page = httpx.Response(400, json=body), httpx.Response(200, json=[f"sesame, {body}"])
    raised = [(await collect(FakeServer(response), settings))[1] for response in (refused, page)]
    async with client_of(FakeServer(refused), settings) as client:
        raised.append(client.explain(read_failure(None, failed)))
    assert [("[redacted]" in str(each), "sesame" in str(each)) for each in raised] == [(True, False)] * 3


async def test_an_error_names_its_generation() -> None:
    """By it OpenRouter's own log is searched."""
    lost = streamed(httpx.ReadError("x"), generation="gen-2")
    answers = (error(503, **{"x-generation-id": "gen-1"}), lost)
    raised = [(await collect(FakeServer(answer)))[1] for answer in answers]
    assert [each and each.generation_id for each in raised] == ["gen-1", "gen-2"]


@pytest.mark.parametrize("read_events", [0, 1, 2])
async def test_leaving_a_stream_early_closes_the_response(read_events: int) -> None:
    """Before its first event and behind it; a reader that is cancelled while it waits for the next one is cancelled."""
    body = Portions(EVENT, 60.0)

    async def read() -> None:
        server = FakeServer(httpx.Response(200, headers=SSE, stream=body))
        async with client_of(server, PATIENT) as client, client.stream(BODY) as events:
            for _ in range(read_events):
                await anext(events)

    reading = asyncio.create_task(read())
    if read_events == 2:
        await body.paused.wait()
        reading.cancel()
    await asyncio.wait({reading})
    assert (reading.cancelled(), body.closed) == (read_events == 2, True)


async def test_a_whole_response_is_read_where_a_stream_was_asked_for() -> None:
    """It is its terminal event."""
    response = {"object": "response", "status": "completed", "output": []}
    server = FakeServer(httpx.Response(200, json=response))
    assert await collect(server) == ([{"type": "response.completed", "response": response}], None)


async def test_a_list_is_asked_for_again_when_there_was_no_connection(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the base URL, even without a key; the log names its generation, by which OpenRouter finds it."""
    named, unnamed = (
        httpx.Response(200, json={"data": []}, headers={"x-generation-id": each})
        for each in ("gen-1", "sk-or-v1-1")
    )
    server = FakeServer(httpx.ConnectError("refused"), httpx.RemoteProtocolError("dropped"), named, unnamed)
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(client_module, "sleep", wait)
    settings = ClientSettings(base_url="https://x.test/v1/")
    with caplog.at_level(logging.DEBUG, logger="open_webui_openrouter_pipe"):
        async with client_of(server, settings) as client:
            assert [await client.get("/models") for _ in range(2)] == [{"data": []}] * 2
    requests = {(str(request.url), "authorization" in request.headers) for request in server.requests}
    assert (waits, requests) == ([0.5, 1.0], {("https://x.test/v1/models", False)})
    assert caplog.messages == [f"200 /v1/models, generation {name}" for name in ("gen-1", "unnamed")]
