"""Long chats in a real Open WebUI: old tool results become facts, what cannot fit is said, clipping clips."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

MODEL = "openrouter.openai/gpt-5.2"
SMALL = "openrouter.standin/small"
CALL = '[[standin: call=list_orders args={"page": %d}]]'
ORDERS = '''
import json


class Tools:
    def list_orders(self, page: int) -> str:
        """
        List 500 orders.

        :param page: The page.
        """
        return json.dumps([{"id": page * 500 + at, "customer": f"customer {at}"} for at in range(500)])
'''
TURNS = 15
RETENTION_TURNS = 4


@pytest.fixture(autouse=True)
def defaults_afterwards(open_webui: OpenWebUI) -> Iterator[None]:
    """Other tests find the valves as they were."""
    yield
    names = ("CONTEXT_AIM", "CONTEXT_STRATEGY", "TOOL_OUTPUT_RETENTION_TURNS", "ENABLE_USER_OVERRIDE")
    open_webui.admin.api.set_valves("openrouter", dict.fromkeys(names))


def outputs_of(request: RecordedRequest) -> list[str]:
    """The tool results in a request."""
    return [item["output"] for item in request.body["input"] if item["type"] == "function_call_output"]


def facts_in(request: RecordedRequest) -> int:
    """How many of the tool results are facts."""
    return sum(output.startswith("[Tool: 500 rows") for output in outputs_of(request))


def cached_share(request: RecordedRequest) -> float:
    """What of the request the provider had cached."""
    usage = request.usage or {}
    share: float = usage["input_tokens_details"]["cached_tokens"] / usage["input_tokens"]
    return share


def audited(host: OpenWebUI, chat_id: str, count: int) -> list[tuple[Any, ...]]:
    """Billed and cached tokens of the chat's requests, as soon as the last of them is written."""
    chosen = "SELECT billed_tokens, cached_tokens FROM openrouter_pipe_audit WHERE chat_id = ? ORDER BY id"
    with closing(sqlite3.connect(f"file:{host.data}/webui.db?mode=ro", uri=True)) as connection:
        rows = partial(connection.execute, chosen, [chat_id])
        wait_until(lambda: len(rows().fetchall()) >= count)
        return rows().fetchall()


def test_old_tool_results_become_facts(open_webui: OpenWebUI, standin: StandIn, artifacts: Path) -> None:
    """Fifteen turns with 500 rows each: new results word for word, old ones as facts, and the cache stays warm.

    The prefix changes only with the requests in which a batch of results becomes facts. What each request held is
    left in the file `context-requests.txt`.
    """
    open_webui.add_tool("orders", ORDERS)
    valves = {"CONTEXT_AIM": "thrifty", "CONTEXT_STRATEGY": "prune"}
    open_webui.admin.api.set_valves("openrouter", {**valves, "TOOL_OUTPUT_RETENTION_TURNS": RETENTION_TURNS})
    sent = None
    for page in range(TURNS):
        sent, _ = open_webui.admin.ask(MODEL, f"{CALL % page} more", after=sent, tool_ids=["orders"])
    assert sent is not None
    requests = standin.responses
    assert [(each.status, each.warnings) for each in requests] == [(200, [])] * (2 * TURNS)

    last = outputs_of(requests[-1])
    facts = facts_in(requests[-1])
    assert 0 < facts <= TURNS - RETENTION_TURNS
    assert [json.loads(text)[0]["id"] for text in last[facts:]] == [
        500 * page for page in range(facts, TURNS)
    ]
    assert last[0].startswith('[Tool: 500 rows | columns: id, customer | first: {"id": 0, ')

    moved = [facts_in(before) != facts_in(after) for before, after in pairwise(requests)]
    cold = [cached_share(request) < 0.5 for request in requests[1:]]
    shares = "\n".join(f"{facts_in(each)} facts, {cached_share(each):.0%} cached" for each in requests)
    (artifacts / "context-requests.txt").write_text(f"{shares}\n", "utf-8")
    assert not any(is_cold and not has_moved for is_cold, has_moved in zip(cold[2:], moved[2:], strict=True))
    assert 0 < sum(moved) < TURNS - RETENTION_TURNS

    billed = [
        (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"])
        for usage in (request.usage or {} for request in requests)
    ]
    assert audited(open_webui, sent.chat_id, len(billed)) == billed


def test_what_cannot_fit_is_said_in_the_chat(open_webui: OpenWebUI, standin: StandIn) -> None:
    """One message that is larger than the window: the error names it, and nothing is sent."""
    _, message = open_webui.admin.ask(SMALL, "word " * 20_000)
    assert "The largest part that you can change is: latest message" in message["error"]["content"]["message"]
    assert "Shorten your message" in message["error"]["content"]["message"]
    assert standin.responses == []


def test_clipping_sends_the_last_messages_alone(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The last answer but one brings its question; a user may switch it off for themselves, if users may."""
    admin = open_webui.admin
    admin.api.set_valves("openrouter", {"CONTEXT_STRATEGY": "clip"})
    sent = None
    for number in range(5):
        sent, _ = admin.ask(SMALL, f"question {number}", after=sent)
    assert questions(standin.responses[-1]) == ["question 2", "question 3", "question 4"]
    admin.api.set_user_valves("openrouter", {"CLIP_BYPASS": True})
    admin.ask(SMALL, "question 5", after=sent)
    assert questions(standin.responses[-1]) == ["question 3", "question 4", "question 5"]
    admin.api.set_valves("openrouter", {"ENABLE_USER_OVERRIDE": True})
    try:
        admin.ask(SMALL, "question 5", after=sent)
    finally:
        admin.api.set_user_valves("openrouter", {})
    assert questions(standin.responses[-1]) == [f"question {number}" for number in range(6)]


def questions(request: RecordedRequest) -> list[str]:
    """What the user says in a request."""
    return [item["content"][0]["text"] for item in request.body["input"] if item.get("role") == "user"]
