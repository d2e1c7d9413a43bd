"""Answers that are late, and answers that never come."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from scripts.standin import Options, StandIn
from tests.standin.client import KEY, Client, user

if TYPE_CHECKING:
    from scripts.standin.log import RecordedRequest

SUMMARY = "Write summary_text, key_facts, open_questions, decisions and action_items."


def settled(record: RecordedRequest) -> RecordedRequest:
    """The record when the server has done with its request, two seconds at most."""
    end = time.monotonic() + 2
    while record.ended_at is None and time.monotonic() < end:
        time.sleep(0.01)
    return record


def outcome(client: Client) -> tuple[Any, ...]:
    """What the log says of the only request."""
    (record,) = client.standin.responses
    settled(record)
    return record.status, record.finished, record.disconnected, record.usage is None


@pytest.mark.parametrize("stream", [False, True])
def test_a_hanging_summariser_never_answers(client: Client, stream: bool) -> None:  # noqa: FBT001
    """Not even with headers; when the client leaves, nothing was sent and nothing is billed."""
    client.standin.summarizer = "hang"
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/responses", json={"input": SUMMARY, "stream": stream}, timeout=0.2)
    assert outcome(client) == (0, False, True, True)


def test_a_hanging_summariser_may_send_comments(client: Client) -> None:
    """A limit on the time between two bytes does not notice it."""
    client.standin.summarizer = "hang=comments"
    body = {"input": SUMMARY, "stream": True}
    start = time.monotonic()
    with client.http.stream("POST", "/responses", json=body, timeout=0.9) as answer:
        lines = answer.iter_lines()
        said = [next(lines) for _ in range(8)]
    assert time.monotonic() - start > 0.9
    assert set(said) == {": OPENROUTER PROCESSING", ""}
    assert outcome(client) == (200, False, True, True)


def test_without_a_stream_there_are_no_comments(client: Client) -> None:
    """It hangs all the same."""
    client.standin.summarizer = "hang=comments"
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/responses", json={"input": SUMMARY}, timeout=0.2)
    assert outcome(client) == (0, False, True, True)


@pytest.mark.parametrize("stream", [False, True])
def test_a_slow_summariser_answers_late(client: Client, stream: bool) -> None:  # noqa: FBT001
    """After its pause, streamed or not."""
    client.standin.summarizer = "slow=0.3"
    start = time.monotonic()
    assert client.post([user("Hi"), user(SUMMARY)], stream=stream).status_code == 200
    assert 0.3 <= time.monotonic() - start < 2
    assert outcome(client) == (200, True, False, False)


def test_a_client_may_leave_before_a_late_answer(client: Client) -> None:
    """Then the answer is not sent, and its bill is not the client's."""
    client.standin.summarizer = "slow=5"
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/responses", json={"input": SUMMARY}, timeout=0.2)
    assert outcome(client) == (0, False, True, True)


def test_a_hanging_answer_ends_with_the_server() -> None:
    """Within its grace period, though the client stays."""
    answers: list[httpx.Response] = []

    def ask(url: str) -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        answers.append(httpx.post(url, json={"input": SUMMARY}, headers=headers, timeout=10))

    with StandIn(Options(summarizer="hang")) as standin:
        asking = threading.Thread(target=ask, args=(standin.base_url + "/responses",))
        asking.start()
        while not standin.responses:
            time.sleep(0.01)
        start = time.monotonic()
    asking.join(3)
    assert time.monotonic() - start < 3
    assert [answer.status_code for answer in answers] == [500]
