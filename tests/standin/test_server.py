"""The stand-in over HTTP: its lists, its log and queue, and answers that are late or never come."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripts.standin import Options, StandIn, catalogue
from tests.standin.client import KEY, SUMMARY, Client, events_of, user
from tests.support.rows import rows
from tests.support.waiting import wait_until

TABLE = Path(__file__).with_name("lists.txt")
BRIEF = httpx.Timeout(60, read=0.2)
"""Seconds: the client leaves soon, but not before its request is sent."""


def test_the_catalogue_is_listed_in_pages(client: Client) -> None:
    """It needs no key, and has models without text only on request."""
    url, pages = "/api/v1/models?offset=0&limit=10", []
    while url:
        pages.append(httpx.get(client.standin.url + url).json())
        url = pages[-1]["links"]["next"]
    shown = [model["id"] for page in pages for model in page["data"]]
    assert shown == [model.id for model in catalogue.MODELS if "text" in model.outputs]


@pytest.mark.parametrize(("query", "names"), rows(TABLE, "models without text"))
def test_models_can_be_chosen_by_outputs_and_parameters(client: Client, query: str, names: list[str]) -> None:
    """One of the outputs, and all of the parameters."""
    listed = {model["id"] for model in client.http.get(f"/models?{query}").json()["data"]}
    assert {each for each in listed if "-only" in each} - {"standin/text-only"} == set(names)
    able = client.http.get("/models?supported_parameters=tools,reasoning").json()["data"]
    assert all({"tools", "reasoning"} <= set(model["supported_parameters"]) for model in able)
    assert 0 < len(able) < len(catalogue.MODELS)


def test_prices_are_decimal_texts() -> None:
    """Dollars per token, or per search where the provider has one, never in scientific notation."""
    assert catalogue.BY_ID["anthropic/claude-sonnet-4.5"].wire()["pricing"] == {
        "prompt": "0.000003",
        "completion": "0.000015",
        "input_cache_read": "0.0000003",
        "input_cache_write": "0.00000375",
        "input_cache_write_1h": "0.000006",
        "web_search": "0.01",
    }
    assert "web_search" not in catalogue.BY_ID["deepseek/deepseek-v3.2"].wire()["pricing"]


@pytest.mark.parametrize(("name", "expected"), rows(TABLE, "names"))
def test_models_have_several_names(name: str, expected: str | None) -> None:
    """Routing variants, presets and canonical slugs name a model; free variants are models of their own."""
    model = catalogue.find(name)
    assert (model and model.id) == expected


@pytest.mark.parametrize(("key", "expected"), rows(TABLE, "keys"))
def test_keys_have_limits(standin: StandIn, key: str, expected: list[Any]) -> None:
    """One without credits has none, and of one nothing is left."""
    data = httpx.get(standin.base_url + "/key", headers={"Authorization": f"Bearer {key}"}).json()["data"]
    assert [data["limit"], data["limit_remaining"], data["is_free_tier"]] == expected


def test_the_key_shows_its_usage(client: Client) -> None:
    """The sum of the costs of this key's requests."""
    cost = client.done("Hi")["usage"]["cost"]
    data = client.http.get("/key").json()["data"]
    assert (data["usage"], data["limit_remaining"]) == (cost, 50 - cost)
    assert cost > 0


# --- log and queue ---


def test_the_log_keeps_the_request_and_what_came_of_it(client: Client) -> None:
    """But not the key; the answer's header has its id."""
    answer = client.http.post("/responses", content=b'{"input": "Hi" , "novel": 1}')
    (record,) = client.standin.responses
    wait_until(lambda: record.finished)  # noted after the last byte, which the client may read first
    asked = {"input": "Hi", "novel": 1}
    assert (record.method, record.path, record.body) == ("POST", "/responses", asked)
    assert (record.raw, record.status, record.disconnected) == (b'{"input": "Hi" , "novel": 1}', 200, False)
    assert (record.usage, record.output) == (answer.json()["usage"], answer.json()["output"])
    assert answer.json()["id"] == answer.headers["x-generation-id"]
    assert KEY not in str(record)


@pytest.mark.parametrize(
    ("headers", "names"),
    rows(TABLE, "headers", {"LONGEST": "s" * 256, "TOO_LONG": "s" * 257}),
)
def test_headers_beyond_their_limits_are_warned_of(
    client: Client, headers: dict[str, str], names: list[str]
) -> None:
    """The request goes through; the log tells."""
    answer = client.http.post("/responses", json={"input": "Hi"}, headers=headers)
    warnings = [f"header beyond its limit: {name}" for name in names]
    assert (answer.status_code, client.standin.responses[0].warnings) == (200, warnings)


def test_behaviours_can_be_queued(client: Client) -> None:
    """Two refusals, then as usual; with or without brackets."""
    client.standin.script({"do": "error=429 retry_after=1", "times": 2}, '[[standin: text="Queued"]]')
    answers = [client.post("Hi") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [429, 429, 200, 200]
    texts = [answer.json()["output"][0]["content"][0]["text"] for answer in answers[2:]]
    assert texts == ["Queued", "You said: Hi\n\n*standin/script* saw 1 input item."]


def test_misspelt_directives_are_refused(client: Client) -> None:
    """Loudly, by name, in a text and as a summarizer, which stays the one before."""
    error = client.post("[[standin: dance]]").json()["error"]
    assert error["message"] == "stand-in directive: unknown directive: dance"
    with pytest.raises(ValueError, match="neither a kind of summarizer nor a directive: forget"):
        client.standin.summarizer = "forget"
    assert client.standin.summarizer == "keep"


def test_summaries_are_counted_and_their_summarizer_is_chosen_at_any_time(client: Client) -> None:
    """In the log, refused ones too, but not those that are no valid request; a reset brings back the honest one."""
    client.standin.summarizer = "error=429 retry_after=3"
    for text in (SUMMARY, "Hi"):
        client.post(text)
    client.post(SUMMARY, store=True)
    shown = [(record.status, record.is_summary) for record in client.standin.responses]
    assert shown == [(429, True), (200, False), (400, False)]
    client.standin.reset()
    assert (client.standin.summarizer, client.standin.requests) == ("keep", [])


@pytest.mark.parametrize(("limit", "kinds"), [(10, ["reasoning"]), (30, ["reasoning", "message"])])
def test_a_summary_obeys_its_output_limit(client: Client, limit: int, kinds: list[str]) -> None:
    """Thinking counts; one that is longer than the limit is cut off."""
    client.standin.summarizer = "junk"
    done = client.done([user("Hi"), user(SUMMARY)], model="openai/gpt-5.2", max_output_tokens=limit)
    assert [item["type"] for item in done["output"]] == kinds
    assert (done["status"], done["usage"]["output_tokens"] <= limit) == ("incomplete", True)


# --- when and whether bytes come ---


def test_the_bytes_of_a_plain_stream(client: Client) -> None:
    """Comments first, data lines only, [DONE] last, the id in the header; odd framing carries the same events."""
    ask = '[[standin: text="é €"]]'
    answer = client.post(ask, stream=True)
    first, second, *lines, done = [line for line in answer.text.split("\n\n") if line]
    assert (first, second, done) == (": OPENROUTER PROCESSING", ": OPENROUTER PROCESSING", "data: [DONE]")
    assert all(line.startswith("data: ") for line in lines)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-generation-id"] == events_of(answer.text)[0]["response"]["id"]
    odd = client.post(ask + "[[standin: wire=crlf split=1 every=1 bare=1]]", stream=True)
    assert "\r\n\r\n" in odd.text
    assert [each["type"] for each in events_of(odd.text)] == [each["type"] for each in events_of(answer.text)]
    assert not client.post("[[standin: nodone]]", stream=True).text.endswith("[DONE]\n\n")


def outcome(client: Client) -> tuple[Any, ...]:
    """What the log says of the only request."""
    (record,) = wait_until(lambda: client.standin.responses)
    wait_until(lambda: record.ended_at is not None)
    return record.status, record.finished, record.disconnected, record.usage is None


def lasted(client: Client) -> float:
    """Seconds on the stand-in's clock between the last request and the end of its answer."""
    record = client.standin.responses[-1]
    wait_until(lambda: record.ended_at is not None)
    return (record.ended_at or 0) - record.received_at


@pytest.mark.parametrize("stream", [False, True])
def test_pauses_are_kept(client: Client, *, stream: bool) -> None:
    """Of an answer, streamed or not, and of a slow summarizer."""
    client.post('[[standin: delay=0.05 first=0.2]] [[standin: text="a b"]]', stream=stream)
    assert lasted(client) >= (0.3 if stream else 0.2)
    client.standin.summarizer = "slow=0.3"
    client.post([user("Hi"), user(SUMMARY)], stream=stream)
    assert lasted(client) >= 0.3


def test_the_pace_is_an_option() -> None:
    """A demonstration sets a pause that tests do without."""
    with StandIn(Options(pace_seconds=0.05)) as slow, httpx.Client(base_url=slow.base_url) as http:
        client = Client(slow, http)
        http.headers["Authorization"] = f"Bearer {KEY}"
        client.stream("a b c", model="standin/plain")
        assert lasted(client) > 0.2


@pytest.mark.parametrize(("kind", "stream"), [("hang", False), ("hang", True), ("slow=5", False)])
def test_a_client_that_leaves_before_the_answer_gets_and_pays_nothing(
    client: Client, *, kind: str, stream: bool
) -> None:
    """Not even headers of an answer that hangs or is late."""
    client.standin.summarizer = kind
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/responses", json={"input": SUMMARY, "stream": stream}, timeout=BRIEF)
    assert outcome(client) == (0, False, True, True)


def test_a_client_that_leaves_a_stream_is_noticed(client: Client) -> None:
    """The stream stops with it."""
    body = {"model": "standin/slow", "input": "Hi", "stream": True}
    with client.http.stream("POST", "/responses", json=body) as answer:
        next(answer.iter_bytes())
    assert outcome(client) == (200, False, True, True)


def test_a_hanging_answer_ends_with_the_server() -> None:
    """Though the client would stay much longer."""
    answers: list[httpx.Response] = []

    def ask(url: str) -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        answers.append(httpx.post(url, json={"input": SUMMARY}, headers=headers, timeout=600))

    with StandIn() as standin:
        standin.summarizer = "hang"
        client = threading.Thread(target=ask, args=(standin.base_url + "/responses",))
        client.start()
        wait_until(lambda: standin.responses)
    client.join(60)
    assert [answer.status_code for answer in answers] == [500]
