"""The recall tool in a real Open WebUI: what a shortened output said, beside a tool of the host, again, on a branch."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.markers import erase_markers
from tests.live.test_context import MODEL, ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import Account, OpenWebUI, Sent
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

Json = dict[str, Any]

TOOL = "recalled_orders"
VALVES = {"CONTEXT_STRATEGY": "prune", "TOOL_OUTPUT_PRUNING": "every_turn", "TOOL_OUTPUT_RETENTION_TURNS": 1}
LIST = '[[standin: call=list_orders args={"page": %d}]] List page %d.'
ASK = '[[standin: call=recall args={"query": "customer 377"}]] [[standin: quote="customer 377"]] Who is 377?'
NAMED = '[[standin: call=recall args={"reference": "%s"}]] [[standin: quote="%s"]] And this one?'
BOTH = (
    '[[standin: call=recall args={"reference": "$reference", "query": "customer 42"}]]'
    ' [[standin: call=list_orders args={"page": 1}]] [[standin: quote="customer 42"]] Both, please.'
)
UNKNOWN = 'Nothing in this conversation is named "%s".'


@pytest.fixture(autouse=True)
def early_facts(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[None]:
    """What a tool returned is a fact as soon as the next turn begins; other tests find the valves as they were."""
    assert MODEL in live_pipe
    open_webui.admin.api.set_valves("openrouter", VALVES)
    yield
    open_webui.admin.api.set_valves("openrouter", dict.fromkeys(VALVES))


@pytest.fixture(scope="module")
def account(open_webui: OpenWebUI) -> Account:
    """A user whose tool lists orders."""
    open_webui.add_tool(TOOL, ORDERS)
    return open_webui.admin


@pytest.fixture(autouse=True)
def accepted(standin: StandIn) -> Iterator[None]:
    """Every request is valid to the letter."""
    yield
    assert [(each.status, each.warnings) for each in standin.responses] == [(200, [])] * len(
        standin.responses
    )


def ask(account: Account, text: str, after: Sent | None = None) -> tuple[Sent, Json]:
    return account.ask(MODEL, text, after=after, tool_ids=[TOOL])


def input_of(request: RecordedRequest) -> list[Json]:
    items: list[Json] = request.body["input"]
    return items


def outputs_of(request: RecordedRequest) -> list[str]:
    return [item["output"] for item in input_of(request) if item["type"] == "function_call_output"]


def reference_in(request: RecordedRequest) -> str:
    """The reference of the first fact."""
    found = re.search(r"\[(#\d{6})\]$", outputs_of(request)[0])
    assert found is not None
    return found[1]


def kinds_of(message: Json) -> list[str]:
    return [item["type"] for item in message["output"] if item["type"] != "reasoning"]


def test_what_a_shortened_output_said_is_answered_after_one_call(account: Account, standin: StandIn) -> None:
    """The tool is offered once something is gone, at the end of all tools, and the next turn has its pair."""
    first, _ = ask(account, LIST % (0, 0))
    sent, message = ask(account, ASK, first)
    ask(account, "Thanks.", sent)
    requests = standin.responses
    offered = [[tool.get("name") for tool in request.body["tools"]] for request in requests]
    assert ["recall" in names for names in offered] == [False, False, True, True, True]
    assert [names[-1] for names in offered[2:]] == ["recall"] * 3
    assert "customer 377" not in outputs_of(requests[2])[0]
    assert "customer 377" in message["content"]
    assert kinds_of(message)[-3:] == ["function_call", "function_call_output", "message"]
    assert message["usage"]["cost"] == pytest.approx(
        sum((each.usage or {})["cost"] for each in requests[2:4])
    )
    pairs = [item["call_id"] for item in input_of(requests[4]) if "call_id" in item]
    assert len(pairs) == 4
    assert pairs[0:2] == [pairs[0]] * 2
    assert pairs[2:4] == [pairs[2]] * 2


def test_a_tool_of_the_host_beside_it(account: Account, standin: StandIn) -> None:
    """Both are answered in one turn, each pair once and in order; what follows begins with the same bytes."""
    first, _ = ask(account, LIST % (0, 0))
    sent, message = ask(account, BOTH, first)
    assert "customer 42" in message["content"]
    both, after = standin.responses[2:]
    called = [item for item in input_of(after) if "call_id" in item][2:]
    assert [(item["type"], item.get("name")) for item in called] == [
        ("function_call", "recall"),
        ("function_call", "list_orders"),
        ("function_call_output", None),
        ("function_call_output", None),
    ]
    assert [item["call_id"] for item in called[:2]] == [item["call_id"] for item in called[2:]]
    assert "customer 42" in called[2]["output"]
    assert json.dumps(input_of(after)).startswith(json.dumps(input_of(both))[:-1])
    ask(account, "Thanks.", sent)
    assert len(outputs_of(standin.responses[-1])) == 3


def test_other_chats_branches_and_users_have_no_such_reference(
    open_webui: OpenWebUI, account: Account, standin: StandIn
) -> None:
    """On the branch it is answered; elsewhere as if it had never existed."""
    start, _ = ask(account, "Good morning.")
    listed, _ = ask(account, LIST % (3, 3), start)
    here, _ = ask(account, "Thanks.", listed)
    reference = reference_in(standin.responses[-1])
    _, known = ask(account, NAMED % (reference, "customer 0"), here)
    assert "customer 0" in known["content"]
    question, unknown = NAMED % (reference, "is named"), UNKNOWN % reference
    _, on_branch = ask(account, question, start)
    _, in_another_chat = ask(account, question)
    _, of_another_user = open_webui.add_user("recall").ask(MODEL, question)
    _, never_existed = ask(account, NAMED % ("#000000", "is named"), here)
    denials = [on_branch["content"], in_another_chat["content"], of_another_user["content"]]
    assert [erase_markers(text).strip() for text in denials] == [unknown] * 3
    assert erase_markers(never_existed["content"]).strip() == UNKNOWN % "#000000"


@pytest.mark.browser
def test_a_person_sees_a_tool_card(
    open_webui: OpenWebUI, account: Account, browser: Browser, standin: StandIn
) -> None:
    """The look-up is drawn like any tool's, and another answer to the same question looks it up again."""
    first, _ = ask(account, LIST % (0, 0))
    sent, _ = ask(account, ASK, first)
    browser.log_in(open_webui.admin)
    browser.open_chat(sent.chat_id)
    browser.wait_for_text("customer 377")
    browser.screenshot("recall-tool")
    before = len(standin.responses)
    browser.regenerate()
    assert "customer 377" in browser.wait_for_answer()
    again = standin.responses[before : before + 2]
    assert json.dumps(input_of(again[0])) == json.dumps(input_of(standin.responses[2]))
    assert "customer 377" in outputs_of(again[1])[-1]
