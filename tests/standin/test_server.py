"""The stand-in over HTTP: its lists, its log and queue, and answers that are late or never come."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripts.standin import StandIn, catalogue
from tests.standin.client import KEY, SUMMARY, Client, events_of, user
from tests.support.rows import rows
from tests.support.waiting import wait_until

TABLE = Path(__file__).with_name("lists.txt")
BRIEF = httpx.Timeout(60, read=0.2)
"""Seconds: the client leaves soon, but not before its request is sent."""


@pytest.mark.parametrize(("query", "names"), rows(TABLE, "models without text"))
def test_models_can_be_chosen_by_outputs_and_parameters(client: Client, query: str, names: list[str]) -> None:
    """One of the outputs, and all of the parameters; the list comes in pages."""
    listed = {model["id"] for model in client.http.get(f"/models?{query}").json()["data"]}
    assert {each for each in listed if "-only" in each} - {"standin/text-only"} == set(names)
    able = client.http.get("/models?supported_parameters=tools,reasoning").json()["data"]
    assert all({"tools", "reasoning"} <= set(model["supported_parameters"]) for model in able)
    assert 0 < len(able) < len(catalogue.MODELS)
    page = client.http.get("/models?offset=2&limit=3").json()
    assert ([model["id"] for model in page["data"]], page["links"]["next"]) == (
        [model.id for model in catalogue.MODELS[2:5]],
        "/api/v1/models?offset=5&limit=3",
    )


@pytest.mark.parametrize(("name", "expected"), rows(TABLE, "names"))
def test_models_have_several_names(name: str, expected: str | None) -> None:
    """Routing variants, presets and canonical slugs name a model; free variants are models of their own."""
    model = catalogue.find(name)
    assert (model and model.id) == expected


@pytest.mark.parametrize(("key", "expected"), rows(TABLE, "keys"))
def test_keys_have_limits_and_a_usage(client: Client, key: str, expected: list[Any]) -> None:
    """One without credits has no limit, of one nothing is left; the usage is what this key's requests cost."""

    def read(key: str) -> list[Any]:
        answer = client.http.get("/key", headers={"Authorization": f"Bearer {key}"})
        return [answer.json()["data"][name] for name in ("limit", "limit_remaining", "is_free_tier")]

    cost = client.done("Hi")["usage"]["cost"]
    assert (read(key), read(KEY)) == (expected, [50, 50 - cost, False])


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


def test_misspelt_directives_are_refused(client: Client) -> None:
    """Loudly, by name, in a text and as a summarizer."""
    error = client.post("[[standin: dance]]").json()["error"]
    assert error["message"] == "stand-in directive: unknown directive: dance"
    with pytest.raises(ValueError, match="unknown directive: forget"):
        client.standin.summarizer = "forget"


def test_summaries_are_counted_and_their_summarizer_is_chosen_at_any_time(client: Client) -> None:
    """In the log, refused ones too, but not those that are no valid request; a reset brings back the honest one."""
    client.standin.summarizer = "error=429 retry_after=3"
    for text in (SUMMARY, "Hi"):
        client.post(text)
    client.post(SUMMARY, store=True)
    shown = [(record.status, record.is_summary) for record in client.standin.responses]
    assert shown == [(429, True), (200, False), (400, False)]
    client.standin.reset()
    assert (client.standin.summarizer, client.standin.requests) == ("", [])


# --- when and whether bytes come ---


def test_the_bytes_of_a_plain_stream(client: Client) -> None:
    """Comments first, data lines only, [DONE] last, the id in the header."""
    answer = client.post('[[standin: text="é €"]]', stream=True)
    first, second, *lines, done = [line for line in answer.text.split("\n\n") if line]
    assert (first, second, done) == (": OPENROUTER PROCESSING", ": OPENROUTER PROCESSING", "data: [DONE]")
    assert all(line.startswith("data: ") for line in lines)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-generation-id"] == events_of(answer.text)[0]["response"]["id"]


def test_the_log_has_what_was_written(client: Client) -> None:
    """The text of a stream, also of one that breaks off, without what was thought."""
    for more in ("", "[[standin: fail=failed after=4]]"):
        client.post(f'[[standin: reasoning=summary]] [[standin: text="one two three"]] {more}', stream=True)
    assert [record.written for record in client.standin.responses] == ["one two three", "one"]


def outcome(client: Client) -> tuple[Any, ...]:
    """What the log says of the only request."""
    (record,) = wait_until(lambda: client.standin.responses)
    wait_until(lambda: record.ended_at is not None)
    return record.status, record.finished, record.disconnected, record.usage is None


@pytest.mark.parametrize("stream", [False, True])
def test_pauses_are_kept(client: Client, *, stream: bool) -> None:
    """Of an answer, streamed or not, and of a slow summarizer."""
    client.standin.summarizer = "delay=0 first=0.3"
    client.post('[[standin: delay=0.05 first=0.2]] [[standin: text="a b"]]', stream=stream)
    client.post([user("Hi"), user(SUMMARY)], stream=stream)
    answer, summary = client.standin.responses
    wait_until(lambda: summary.ended_at is not None)
    assert (answer.ended_at or 0) - answer.received_at >= (0.3 if stream else 0.2)
    assert (summary.ended_at or 0) - summary.received_at >= 0.3


@pytest.mark.parametrize(("kind", "stream"), [("hang", False), ("hang", True), ("delay=0 first=5", False)])
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
    body = {"model": "standin/script", "input": "[[standin: slow=20]]", "stream": True}
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


def test_the_log_says_how_much_it_has_forgotten(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the newest requests; a reset begins anew."""
    monkeypatch.setattr(client.standin, "log", deque(maxlen=2))
    for number in range(5):
        client.post(f"{number}")
    kept = [record.body["input"] for record in client.standin.requests]
    assert (kept, client.standin.forgotten) == (["3", "4"], 3)
    client.standin.reset()
    assert client.standin.forgotten == 0


# --- bills ---


def billed(client: Client, text: str, **fields: Any) -> list[tuple[int, bool]]:
    """The output tokens of all that was charged, and whether the client had left, once the answer has ended."""
    with suppress(httpx.RemoteProtocolError):
        client.post(text, stream=True, **fields)
    wait_until(lambda: client.standin.responses[-1].ended_at is not None)
    bills = client.standin.bills.values()
    return [(bill["native_tokens_completion"], bill["cancelled"]) for bill in bills]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[standin: text="abcd efgh ijkl"]]', [(4, False)]),
        ('[[standin: text="abcd efgh ijkl"]] [[standin: fail=eof after=2]]', [(3, False)]),
        ("[[standin: reasoning=encrypted text=abcd]] [[standin: fail=flat after=1]]", [(65, False)]),
        ("[[standin: fail=failed after=0]]", []),
        ("[[standin: error=503]]", []),
    ],
)
def test_what_a_provider_has_written_is_billed(
    client: Client, text: str, expected: list[tuple[int, bool]]
) -> None:
    """Whole, or until it fails; one that fails before it has written anything costs nothing."""
    assert billed(client, text) == expected


@pytest.mark.parametrize(("model", "written"), [("openai/gpt-5.2", 2), ("google/gemini-3-flash", 103)])
def test_who_leaves_pays_for_what_was_written(client: Client, model: str, written: int) -> None:
    """But where the provider cannot be stopped, for the whole answer."""
    text = '[[standin: text="abcd efgh' + " ijkl" * 80 + '"]] [[standin: delay=0.4]]'
    body = {"model": model, "stream": True, "input": text}
    with client.http.stream("POST", "/responses", json=body) as answer:
        read = ""
        for portion in answer.iter_text():
            if "efgh" in (read := read + portion):
                break
    wait_until(lambda: client.standin.bills)
    (bill,) = client.standin.bills.values()
    assert (bill["cancelled"], bill["native_tokens_completion"] >= written) == (True, True)
    assert (bill["native_tokens_completion"] < 100) == (written < 100)


def test_a_generation_is_told_later_and_to_its_account_alone(client: Client) -> None:
    """Until then it is not found; the list of all bills has it at once."""
    answer = client.done("Hi")

    def told(key: str) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {key}"}
        found = client.http.get("/generation", params={"id": answer["id"]}, headers=headers)
        return found.status_code, found.json().get("data", {}).get("total_cost")

    assert told(KEY) == (404, None)
    assert [bill["id"] for bill in httpx.get(f"{client.standin.url}/bills").json()] == [answer["id"]]
    client.standin.advance(60)
    assert (told(KEY), told("sk-or-another")) == ((200, answer["usage"]["cost"]), (404, None))
