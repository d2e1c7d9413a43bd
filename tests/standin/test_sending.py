"""Answers that are late, and answers that never come."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import httpx
import pytest

from scripts.standin import Options, StandIn
from tests.standin.client import KEY, Client, user
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from typing import Any

SUMMARY = "Write summary_text, key_facts, open_questions, decisions and action_items."
BRIEF = httpx.Timeout(60, read=0.2)
"""Seconds: the client leaves soon, but not before its request is sent."""


def outcome(client: Client) -> tuple[Any, ...]:
    """What the log says of the only request."""
    (record,) = wait_until(lambda: client.standin.responses)
    wait_until(lambda: record.ended_at is not None)
    return record.status, record.finished, record.disconnected, record.usage is None


@pytest.mark.parametrize("stream", [False, True])
def test_a_hanging_summariser_never_answers(client: Client, stream: bool) -> None:  # noqa: FBT001
    """Not even with headers; when the client leaves, nothing was sent and nothing is billed."""
    client.standin.summarizer = "hang"
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/responses", json={"input": SUMMARY, "stream": stream}, timeout=BRIEF)
    assert outcome(client) == (0, False, True, True)


def test_a_hanging_summariser_may_send_comments(client: Client) -> None:
    """With headers, so that a limit on the time between two bytes does not notice it."""
    client.standin.summarizer = "hang=comments"
    body = {"input": SUMMARY, "stream": True}
    with client.http.stream("POST", "/responses", json=body, timeout=60) as answer:
        lines = answer.iter_lines()
        said = [next(lines) for _ in range(8)]
    assert set(said) == {": OPENROUTER PROCESSING", ""}
    assert outcome(client) == (200, False, True, True)


def test_without_a_stream_there_are_no_comments(client: Client) -> None:
    """It hangs all the same."""
    client.standin.summarizer = "hang=comments"
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/responses", json={"input": SUMMARY}, timeout=BRIEF)
    assert outcome(client) == (0, False, True, True)


@pytest.mark.parametrize("stream", [False, True])
def test_a_slow_summariser_answers_late(client: Client, stream: bool) -> None:  # noqa: FBT001
    """After its pause, streamed or not."""
    client.standin.summarizer = "slow=0.3"
    assert client.post([user("Hi"), user(SUMMARY)], stream=stream).status_code == 200
    assert outcome(client) == (200, True, False, False)
    (record,) = client.standin.responses
    assert record.ended_at is not None
    assert record.ended_at - record.received_at >= 0.3


def test_a_client_may_leave_before_a_late_answer(client: Client) -> None:
    """Then the answer is not sent, and its bill is not the client's."""
    client.standin.summarizer = "slow=5"
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/responses", json={"input": SUMMARY}, timeout=BRIEF)
    assert outcome(client) == (0, False, True, True)


def test_a_hanging_answer_ends_with_the_server() -> None:
    """Though the client would stay much longer."""
    answers: list[httpx.Response] = []

    def ask(url: str) -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        answers.append(httpx.post(url, json={"input": SUMMARY}, headers=headers, timeout=600))

    with StandIn(Options(summarizer="hang")) as standin:
        client = threading.Thread(target=ask, args=(standin.base_url + "/responses",))
        client.start()
        wait_until(lambda: standin.responses)
    client.join(60)
    assert [answer.status_code for answer in answers] == [500]
