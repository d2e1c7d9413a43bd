"""The stand-in over HTTP."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest
from openrouter import components, operations

from scripts.standin import Options, StandIn, create_app, sdk_schema
from scripts.standin.directives import DirectiveError
from scripts.standin.validate import ROUTING_DOCS
from tests.standin.client import CLOCK, KEY, WEATHER, Client, events_of, user
from tests.support.waiting import wait_until

LONG = "word " * 4000


# --- keys, catalogue, account ---


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (None, "Missing Authentication header"),
        ("Bearer sk-or-bad-1", "User not found."),
        ("Bearer other", "User not found."),
        ("Basic sk-or-test", "User not found."),
    ],
)
@pytest.mark.parametrize("path", ["/responses", "/key", "/models/user"])
def test_a_good_key_is_needed(standin: StandIn, path: str, header: str | None, message: str) -> None:
    """401 of family A without it."""
    headers = {"Authorization": header} if header else {}
    method = "POST" if path == "/responses" else "GET"
    answer = httpx.request(method, standin.base_url + path, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"] == {"code": 401, "message": message}


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/models", components.ModelsListResponse),
        ("/models?offset=3&limit=2&supported_parameters=tools", components.ModelsListResponse),
        ("/models/user", components.ModelsListResponse),
        ("/models/count", components.ModelsCountResponse),
        ("/models/openai/gpt-5.2/endpoints", operations.ListEndpointsResponse),
        ("/model/openai/gpt-5.2", components.ModelResponse),
        ("/endpoints/zdr", operations.ListEndpointsZdrResponse),
        ("/key", operations.GetCurrentKeyResponse),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the SDK warns of a field of /key
def test_answers_are_valid(client: Client, path: str, model: Any) -> None:
    """The official SDK accepts each, strictly."""
    answer = client.http.get(path)
    assert answer.status_code == 200
    assert sdk_schema.against(model, answer.json(), ()) == []


def test_models_need_no_key(standin: StandIn) -> None:
    """The catalogue is public."""
    assert httpx.get(standin.base_url + "/models").status_code == 200


def test_credits_need_a_management_key(client: Client) -> None:
    """403 for all others."""
    refused = client.http.get("/credits")
    allowed = client.http.get("/credits", headers={"Authorization": "Bearer sk-or-mgmt"})
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        403,
        "Only management keys can perform this operation",
    )
    assert sdk_schema.against(operations.GetCreditsResponse, allowed.json(), ()) == []


def test_generations_can_be_looked_up(client: Client) -> None:
    """By the id that the response and its header carry."""
    answer = client.post("Hi")
    name = answer.json()["id"]
    found = client.http.get("/generation", params={"id": name})
    assert answer.headers["x-generation-id"] == name
    assert sdk_schema.against(components.GenerationResponse, found.json(), ()) == []
    assert found.json()["data"]["total_cost"] == answer.json()["usage"]["cost"]
    assert client.http.get("/generation", params={"id": "gen-0"}).status_code == 404


def test_the_key_shows_its_usage(client: Client) -> None:
    """The sum of the costs of this key's requests."""
    cost = client.done("Hi")["usage"]["cost"]
    assert client.http.get("/key").json()["data"]["usage"] == cost > 0


@pytest.mark.parametrize(
    ("key", "limit", "remaining", "is_free_tier"),
    [("sk-or-x", 50, 50, False), ("sk-or-poor", None, None, True), ("sk-or-exhausted", 50, 0, False)],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the SDK warns of a field of /key
def test_keys_have_limits(
    standin: StandIn,
    key: str,
    limit: float | None,
    remaining: float | None,
    is_free_tier: bool,  # noqa: FBT001
) -> None:
    """One without credits has none, and of one nothing is left; the official SDK accepts each answer."""
    answer = httpx.get(standin.base_url + "/key", headers={"Authorization": f"Bearer {key}"}).json()
    assert sdk_schema.against(operations.GetCurrentKeyResponse, answer, ()) == []
    shown = [answer["data"][name] for name in ("limit", "limit_remaining", "is_free_tier")]
    assert shown == [limit, remaining, is_free_tier]


@pytest.mark.parametrize("path", ["/models", "/key", "/endpoints/zdr"])
def test_each_list_can_fail(client: Client, path: str) -> None:
    """By a queued behaviour that names its path."""
    client.standin.script({"do": "error=503", "path": path})
    assert [client.http.get(path).status_code for _ in range(2)] == [503, 200]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/responses/compact"),
        ("POST", "/responses/input_tokens"),
        ("GET", "/responses/gen-1"),
        ("DELETE", "/responses/gen-1"),
        ("POST", "/messages/count_tokens"),
        ("GET", "/model/openai/gpt-9"),
        ("GET", "/models/openai/gpt-9/endpoints"),
    ],
)
def test_what_the_service_lacks_is_not_found(client: Client, method: str, path: str) -> None:
    """404 of family A."""
    answer = client.http.request(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, 404)


def test_only_loopback_is_served(standin: StandIn) -> None:
    """The address of the running server."""
    assert httpx.URL(standin.base_url).host == "127.0.0.1"


# --- refusals ---


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"model": "openai/gpt-9"}, 400, "openai/gpt-9 is not a valid model ID"),
        ({"models": ["openai/gpt-9"]}, 400, "openai/gpt-9 is not a valid model ID"),
        (
            {"model": "google/gemini-3-flash-image", "tools": [WEATHER]},
            404,
            f"No endpoints found that support tool use. {ROUTING_DOCS}",
        ),
        (
            {"model": "google/gemini-3-pro", "reasoning": {"effort": "none"}},
            400,
            "Reasoning is mandatory for this endpoint and cannot be disabled.",
        ),
    ],
)
def test_requests_beyond_a_models_abilities_are_refused(
    client: Client, fields: dict[str, Any], status: int, message: str
) -> None:
    """Unknown names and missing abilities, of family A."""
    answer = client.post("Hi", **fields)
    assert (answer.status_code, answer.json()["error"]) == (status, {"code": status, "message": message})


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"type": "input_image", "detail": "auto", "image_url": "https://example.org/a.png"}, "image"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "audio"),
        ({"type": "input_video", "video_url": "https://example.org/a.mp4"}, "video"),
    ],
)
def test_media_need_a_model_that_takes_them(client: Client, content: dict[str, Any], kind: str) -> None:
    """404, as no endpoint is left."""
    answer = client.post([{"role": "user", "content": [content]}], model="deepseek/deepseek-v3.2")
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        404,
        f"No endpoints found that support {kind} input",
    )


def test_no_model_means_the_account_s_default(client: Client) -> None:
    """As documented."""
    assert client.http.post("/responses", json={"input": "Hi"}).json()["model"] == "openai/gpt-5.2"


def test_too_long_a_prompt_is_refused_with_its_token_counts(client: Client) -> None:
    """The documented text; the output limit counts too."""
    text = "x" * 4 * 16_384
    bare = client.post(text, model="standin/small").json()["error"]
    full = client.post(text, model="standin/small", tools=[CLOCK], max_output_tokens=10).json()["error"]
    assert bare["metadata"] == full["metadata"] == {"provider_name": None}
    assert bare["message"] == (
        "This endpoint's maximum context length is 16384 tokens. However, you requested about 16396 tokens "
        "(16396 of text input, 0 in the output). Please reduce the length of either one, or use the "
        "context-compression plugin to compress your prompt automatically."
    )
    assert "16420 tokens (16396 of text input, 14 of tool input, 10 in the output)" in full["message"]


@pytest.mark.parametrize(
    ("model", "plugin", "status"),
    [
        ("standin/small", [{"id": "context-compression"}], 200),
        ("standin/small", [{"id": "context-compression", "enabled": False}], 400),
        ("mistralai/mistral-small-8k", None, 200),
        ("mistralai/mistral-small-8k", [{"id": "context-compression", "enabled": False}], 400),
    ],
)
def test_compression_lets_long_prompts_pass(client: Client, model: str, plugin: Any, status: int) -> None:
    """When asked for, and unasked up to a window of 8192; the log tells that it happened."""
    fields = {"plugins": plugin} if plugin else {}
    assert client.post("x" * 80_000, model=model, **fields).status_code == status
    warned = client.standin.responses[0].warnings
    assert warned == (["context-compression removed the middle of the prompt"] if status == 200 else [])


def test_claude_takes_four_breakpoints(client: Client) -> None:
    """A fifth is the provider's 400."""
    part = {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}
    statuses = [
        client.post(
            [{"role": "user", "content": [part] * count}], model="anthropic/claude-opus-4.5"
        ).status_code
        for count in (4, 5)
    ]
    assert statuses == [200, 400]


STATUSES = (400, 401, 402, 403, 404, 408, 412, 413, 422, 429, 500, 502, 503, 504, 524, 529)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("family", ["A", "B", "html"])
def test_each_status_comes_in_each_family(client: Client, status: int, family: str) -> None:
    """Families differ in the place and the type of the code."""
    answer = client.post(f"[[standin: error={status} family={family} message=Oh]]", stream=True)
    assert answer.status_code == status
    if family == "html":
        assert answer.headers["content-type"] == "text/html; charset=UTF-8"
        assert "Oh" in answer.text
        return
    error = answer.json()["error"]
    assert (error["code"], error["message"]) == (status if family == "A" else "invalid_prompt", "Oh")


def test_a_rate_limit_says_when_to_come_back(client: Client) -> None:
    """Retry-After from upstream, and the service's own headers."""
    upstream = client.post("[[standin: error=429 retry_after=7]]")
    own = client.post("[[standin: error=429 own=1]]")
    assert upstream.headers["retry-after"] == "7"
    assert upstream.json()["error"]["metadata"]["limit_source"] == "upstream_provider_shared_pool"
    limits = {
        key: own.headers[key] for key in ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
    }
    assert list(limits.values()) == list(own.json()["error"]["metadata"]["headers"].values())


@pytest.mark.parametrize("status", [502, 524])
def test_gateway_errors_can_be_pages(client: Client, status: int) -> None:
    """524 always is one."""
    answer = client.post(f"[[standin: error={status} family=html]]")
    assert answer.text.startswith("<!DOCTYPE html>")


def test_missing_endpoints_say_why(client: Client) -> None:
    """404 carries the availability of the model."""
    error = client.post("[[standin: error=404]]").json()["error"]
    assert error["availability"] == {"code": "no_endpoints", "retryable": False, "fallback_models": []}


@pytest.mark.parametrize("key", ["sk-or-poor", "sk-or-exhausted"])
def test_an_account_without_credits_gets_402(standin: StandIn, key: str) -> None:
    """By its key."""
    answer = httpx.post(
        standin.base_url + "/responses", json={"input": "Hi"}, headers={"Authorization": f"Bearer {key}"}
    )
    assert answer.status_code == 402


@pytest.mark.parametrize("content", [b"{", b"", b"[]"])
def test_broken_bodies_are_refused(client: Client, content: bytes) -> None:
    """Family B."""
    answer = client.http.post("/responses", content=content)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_prompt")


def test_misspelt_directives_are_refused(client: Client) -> None:
    """Loudly, by name."""
    answer = client.post("[[standin: dance]]")
    assert answer.json()["error"]["message"] == "stand-in directive: unknown directive: dance"


# --- the stream as bytes ---


def test_the_bytes_of_a_plain_stream(client: Client) -> None:
    """Comments first, data lines only, [DONE] last, the id in the header."""
    answer = client.post("Hi", stream=True)
    lines = [line for line in answer.text.split("\n\n") if line]
    assert lines[:2] == [": OPENROUTER PROCESSING"] * 2
    assert lines[-1] == "data: [DONE]"
    assert all(line.startswith("data: ") for line in lines[2:])
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-generation-id"] == events_of(answer.text)[0]["response"]["id"]


def test_odd_framing_carries_the_same_events(client: Client) -> None:
    """CRLF, single bytes, comments in between."""
    ask = '[[standin: text="é €"]]'
    odd = client.post(ask + "[[standin: wire=crlf split=1 every=1 bare=1]]", stream=True)
    plain = client.post(ask, stream=True)
    assert "\r\n\r\n" in odd.text
    assert [event["type"] for event in events_of(odd.text)] == [
        event["type"] for event in events_of(plain.text)
    ]


@pytest.mark.parametrize(("ask", "done"), [("nodone", False), ("fail=eof", True)])
def test_streams_can_end_early(client: Client, ask: str, done: bool) -> None:  # noqa: FBT001
    """Without [DONE], or without a terminal event."""
    answer = client.post(f"[[standin: {ask}]]", stream=True)
    assert answer.text.endswith("data: [DONE]\n\n") is done


def test_pauses_are_kept(client: Client) -> None:
    """Before the first byte of the body, and before each delta."""
    start = time.monotonic()
    client.post('[[standin: delay=0.05 first=0.1]] [[standin: text="a b"]]', stream=True)
    assert time.monotonic() - start >= 0.2


def test_the_pace_is_an_option() -> None:
    """A demonstration sets a pause that tests do without."""
    headers = {"Authorization": f"Bearer {KEY}"}
    body = {"model": "standin/plain", "input": "Hi", "stream": True}
    with StandIn(Options(pace_seconds=0.05)) as slow:
        start = time.monotonic()
        httpx.post(slow.base_url + "/responses", json=body, headers=headers)
    assert time.monotonic() - start > 0.2


# --- log, queue, clock ---


def test_the_log_keeps_the_request_and_what_came_of_it(client: Client) -> None:
    """But not the key."""
    answer = client.http.post("/responses", content=b'{"input": "Hi" , "novel": 1}')
    (record,) = client.standin.responses
    assert (record.method, record.path, record.raw) == ("POST", "/responses", b'{"input": "Hi" , "novel": 1}')
    assert (record.body, record.status) == ({"input": "Hi", "novel": 1}, 200)
    assert (record.usage, record.response_id) == (answer.json()["usage"], answer.json()["id"])
    assert record.warnings == ["unknown top-level key: novel"]
    assert KEY not in str(record)
    assert (record.finished, record.disconnected) == (True, False)


@pytest.mark.parametrize(
    ("headers", "warnings"),
    [
        ({"X-OpenRouter-Categories": "chat,code", "X-Session-Id": "s" * 256}, []),
        ({"X-OpenRouter-Categories": "a,b,c"}, ["header beyond its limit: x-openrouter-categories"]),
        ({"X-OpenRouter-Categories": "c" * 31}, ["header beyond its limit: x-openrouter-categories"]),
        ({"X-Session-Id": "s" * 257}, ["header beyond its limit: x-session-id"]),
    ],
)
def test_headers_beyond_their_limits_are_warned_of(
    client: Client, headers: dict[str, str], warnings: list[str]
) -> None:
    """The request goes through; the log tells."""
    answer = client.http.post("/responses", json={"input": "Hi"}, headers=headers)
    assert (answer.status_code, client.standin.responses[0].warnings) == (200, warnings)


def test_the_log_names_refusals(client: Client) -> None:
    """Status and message."""
    client.post("")
    (record,) = client.standin.responses
    assert (record.status, record.error, record.usage) == (400, "No input provided", None)


def test_a_client_that_leaves_is_noticed(client: Client) -> None:
    """The stream stops with it."""
    with client.http.stream(
        "POST", "/responses", json={"model": "standin/slow", "input": "Hi", "stream": True}
    ) as answer:
        next(answer.iter_bytes())
    (record,) = client.standin.responses
    wait_until(lambda: record.disconnected)
    assert (record.finished, record.usage) == (False, None)
    assert record.ended_at is not None


def test_behaviours_can_be_queued(client: Client) -> None:
    """Two refusals, then as usual; with or without brackets."""
    client.standin.script({"do": "error=429 retry_after=1", "times": 2}, '[[standin: text="Queued"]]')
    answers = [client.post("Hi") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [429, 429, 200, 200]
    texts = [answer.json()["output"][0]["content"][0]["text"] for answer in answers[2:]]
    assert texts == ["Queued", "You said: Hi\n\n*standin/script* saw 1 input item."]


def test_the_catalogue_can_fail_too(client: Client) -> None:
    """A queue entry may name another path."""
    client.standin.script({"do": "error=500", "path": "/models"})
    assert [client.http.get("/models").status_code for _ in range(2)] == [500, 200]


def test_the_controls_work_over_http(client: Client) -> None:
    """For tests that run in another process."""
    url = client.standin.url + "/_standin"
    assert httpx.post(f"{url}/script", json=[{"do": "error=500"}]).json() == {"queued": 1}
    assert client.post("Hi").status_code == 500
    before = httpx.post(f"{url}/clock", json={"advance": 0}).json()["now"]
    after = httpx.post(f"{url}/clock", json={"advance": 1000}).json()["now"]
    assert 1000 <= after - before < 1010
    (record,) = httpx.get(f"{url}/requests").json()
    assert (record["path"], record["status"], record["body"]["input"]) == ("/responses", 500, "Hi")
    assert httpx.post(f"{url}/reset").json() == {"ok": True}
    assert httpx.get(f"{url}/requests").json() == []


# --- summaries ---

SUMMARY = "Write summary_text, key_facts, open_questions, decisions and action_items."


def test_summaries_are_counted(client: Client) -> None:
    """In the log and over HTTP, refused ones too; those that are no valid request are not."""
    client.standin.script({"do": "error=500", "path": "/responses"})
    for text in (SUMMARY, SUMMARY, "Hi"):
        client.post(text)
    client.post(SUMMARY + LONG * 20, model="standin/small")
    client.post(SUMMARY, store=True)
    expected = [(500, True), (200, True), (200, False), (400, True), (400, False)]
    assert [(record.status, record.is_summary) for record in client.standin.responses] == expected
    shown = httpx.get(client.standin.url + "/_standin/requests").json()
    assert [(record["status"], record["is_summary"]) for record in shown] == expected


def test_the_summarizer_is_chosen_at_any_time(client: Client) -> None:
    """By a property, and over HTTP; a reset brings back the first one."""
    url = client.standin.url + "/_standin/summarizer"
    kinds = [client.standin.summarizer]
    client.standin.summarizer = "drop"
    kinds.append(client.standin.summarizer)
    assert httpx.post(url, json={"kind": "error=429 retry_after=3"}).json() == {
        "kind": "error=429 retry_after=3"
    }
    answer = client.post(SUMMARY)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert client.post("Hi").status_code == 200
    client.standin.reset()
    assert [*kinds, client.standin.summarizer] == ["keep", "drop", "keep"]


def test_an_unknown_summarizer_is_refused(client: Client) -> None:
    """The one before stays."""
    refused = httpx.post(client.standin.url + "/_standin/summarizer", json={"kind": "forget"})
    message = "neither a kind of summarizer nor a directive: forget"
    assert (refused.status_code, refused.json()) == (400, {"error": message})
    with pytest.raises(DirectiveError):
        client.standin.summarizer = "forget"
    assert client.standin.summarizer == "keep"


@pytest.mark.anyio
async def test_the_first_summarizer_is_an_option() -> None:
    """For a stand-in that runs in another process."""
    transport = httpx.ASGITransport(app=create_app(Options(summarizer="text=Mine")))
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://standin", headers=headers) as http:
        answer = await http.post("/api/v1/responses", json={"model": "standin/script", "input": SUMMARY})
    assert answer.json()["output"][0]["content"][0]["text"] == "Mine"


@pytest.mark.parametrize(
    ("limit", "kinds"),
    [(10, ["reasoning"]), (30, ["reasoning", "message"]), (2000, ["reasoning", "message"])],
)
def test_a_summary_obeys_its_output_limit(client: Client, limit: int, kinds: list[str]) -> None:
    """Thinking counts; one that is longer than the limit is cut off."""
    client.standin.summarizer = "drop"
    done = client.done([user("Hi"), user(SUMMARY)], model="openai/gpt-5.2", max_output_tokens=limit)
    assert [item["type"] for item in done["output"]] == kinds
    assert done["usage"]["output_tokens"] <= limit
    assert done["status"] == ("completed" if limit == 2000 else "incomplete")


def test_a_summary_at_the_end_of_a_chat_reads_its_cache(client: Client) -> None:
    """More than nine tenths, as long as all before it is the same."""
    chat = [user(LONG), {"role": "assistant", "content": LONG}]
    client.done([*chat, user("Go on")], session_id="a")
    usage = client.done([*chat, user(SUMMARY)], session_id="a")["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] / usage["input_tokens"] > 0.9


@pytest.mark.parametrize(
    ("fields", "share"),
    [({}, 0.9), ({"tool_choice": "none"}, 0.0), ({"reasoning": {"effort": "low"}}, 0.0)],
)
def test_claude_reads_its_cache_only_with_the_same_settings(
    client: Client, fields: dict[str, Any], share: float
) -> None:
    """Another tool_choice or thinking budget leaves only tools and system, here too short to be cached."""
    common: dict[str, Any] = {
        "model": "anthropic/claude-sonnet-4.5",
        "session_id": "a",
        "tools": [CLOCK],
        "cache_control": {"type": "ephemeral"},
    }
    chat = [user(LONG), {"role": "assistant", "content": LONG}]
    client.done([*chat, user("Go on")], **common)
    usage = client.done([*chat, user("Go on"), user(SUMMARY)], **common, **fields)["usage"]
    read = usage["input_tokens_details"]["cached_tokens"] / usage["input_tokens"]
    assert share <= read <= share + 0.1


# --- the bill ---


def billed(client: Client, text: str = LONG, **fields: Any) -> tuple[int, int]:
    """Tokens read from and written to the cache by one request."""
    details = client.done([user(text), user("Hi")], **fields)["usage"]["input_tokens_details"]
    return details["cached_tokens"], details.get("cache_write_tokens", 0)


def test_repeated_prompts_are_read_from_the_cache(client: Client) -> None:
    """Within five minutes, in the same conversation, by the same account."""
    first = billed(client, session_id="a")
    second = billed(client, session_id="a")
    elsewhere = billed(client, session_id="b")
    client.standin.advance(301)
    late = billed(client, session_id="a")
    assert [first, elsewhere, late] == [(0, 0)] * 3
    assert second[0] >= 4992
    assert second[0] % 128 == 0


def test_claude_caches_only_what_is_marked(client: Client) -> None:
    """By cache_control; with an hour's life it outlasts five minutes."""
    claude = "anthropic/claude-sonnet-4.5"
    unmarked = [billed(client, model=claude) for _ in range(2)]
    marked = [billed(client, model=claude, cache_control={"type": "ephemeral"}) for _ in range(2)]
    client.standin.advance(301)
    late = billed(client, model=claude, cache_control={"type": "ephemeral", "ttl": "1h"})
    client.standin.advance(3000)
    hour = billed(client, model=claude, cache_control={"type": "ephemeral", "ttl": "1h"})
    assert unmarked == [(0, 0), (0, 0)]
    assert (marked[0][0], marked[1][1], late[0], hour[1]) == (0, 0, 0, 0)
    assert marked[0][1] == marked[1][0] == late[1] == hour[0] > 5000


def test_explicit_mode_switches_the_automatic_cache_off(client: Client) -> None:
    """prompt_cache_options of the newest OpenAI models."""
    explicit: dict[str, Any] = {"model": "openai/gpt-5.6-sol", "prompt_cache_options": {"mode": "explicit"}}
    assert [billed(client, **explicit) for _ in range(2)] == [(0, 0), (0, 0)]


def test_the_cost_follows_from_the_prices(client: Client) -> None:
    """standin/script: 1, 4 and 0.1 dollars per million tokens of input, output and reads."""
    usages = [client.done(LONG)["usage"] for _ in range(2)]
    for usage in usages:
        cached = usage["input_tokens_details"]["cached_tokens"]
        cost = (usage["input_tokens"] - cached) * 1e-6 + cached * 0.1e-6 + usage["output_tokens"] * 4e-6
        assert usage["cost"] == pytest.approx(cost)
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usages[1]["cost"] < usages[0]["cost"]


def test_searches_are_billed_and_counted(client: Client) -> None:
    """A cent each."""
    usage = client.done("[[standin: search=a]] [[standin: search=b]]")["usage"]
    assert usage["server_tool_use_details"] == {
        "web_search_requests": 2,
        "tool_calls_requested": 2,
        "tool_calls_executed": 2,
    }
    assert usage["cost_details"]["server_tool_cost"] == 0.02


def test_reasoning_is_billed_as_output(client: Client) -> None:
    """And named in the details."""
    usage = client.done('[[standin: reasoning=encrypted]] [[standin: text="abcd"]]')["usage"]
    assert (usage["output_tokens"], usage["output_tokens_details"]) == (65, {"reasoning_tokens": 64})


@pytest.mark.anyio
async def test_the_app_needs_no_socket() -> None:
    """In process, its state holds the log."""
    app = create_app()
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://standin") as http:
        answer = await http.get("/api/v1/models/count")
    assert answer.status_code == 200
    assert [record.path for record in app.state.service.requests] == ["/models/count"]
