"""Tools in a real Open WebUI: the switches beside the message field, tool servers, and the pipe's own `recall`.

The switches (code interpreter, images, web search, memory) in both of the host's ways: tools that the model calls,
and, with "legacy" function calling, what the host does before it asks the model.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.markers import erase_markers
from tests.live.chats import (
    CLAUDE,
    MODEL,
    REPLAYED,
    ROUND,
    answers,
    arguments_of,
    inputs,
    kinds,
    outputs_of,
    preset,
    without_marks,
)
from tests.live.test_long_chats import ORDERS
from tests.support.embeddings import embeddings
from tests.support.engines import drawing, searching
from tests.support.tool_servers import (
    INSTRUCTIONS,
    MCP_TOOL,
    MCP_TOOLS,
    OPENAPI_TOOL,
    OPENAPI_TOOLS,
    call_of,
    tool_servers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scripts.harness.openwebui import Account, OpenWebUI, Sent
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe", "accepted")]

CODE = {"code_interpreter": True}
RESULT = {"execute:python": {"stdout": "42\n", "stderr": "", "result": None}}
TAGGED = '[[standin: text="Let me see.\\n\\n<code_interpreter type=\\"code\\">\\nprint(6*7)\\n</code_interpreter>"]]'


@pytest.fixture(scope="module")
def legacy(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[str]:
    """A model whose function calling is not native."""
    assert MODEL in live_pipe
    with preset(open_webui, function_calling="legacy") as name:
        yield name


# --- the switches ---


def test_code_that_a_model_calls_for_runs_on_the_page(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Its output is sent in the same turn, and again in the next."""
    call = '[[standin: call=execute_code args={"code":"print(6*7)"}]]'
    with open_webui.admin.session(RESULT) as tab:
        sent, _ = open_webui.admin.ask(MODEL, f"{call} How much?", session_id=tab.id, features=CODE)
        open_webui.admin.ask(MODEL, "And now?", after=sent, session_id=tab.id, features=CODE)
    first, second, third = inputs(standin)
    assert kinds(third) == ["user", *ROUND, *REPLAYED[1:]]
    assert json.loads(third[4]["output"])["stdout"] == "42\n"
    assert [first, second] == [third[: len(first)], third[: len(second)]]


def test_code_between_tags_runs_as_well(open_webui: OpenWebUI, standin: StandIn, legacy: str) -> None:
    """The answer goes on behind its result; the stored answer and the next turn have both, thoughts in their places."""
    standin.script(TAGGED)
    with open_webui.admin.session(RESULT) as tab:
        sent, answer = open_webui.admin.ask(legacy, "How much?", session_id=tab.id, features=CODE)
        assert len(tab.of_type("execute:python")) == 1
        open_webui.admin.ask(legacy, "And now?", after=sent, session_id=tab.id, features=CODE)
    items = [item for item in answer["output"] if item["type"] != "message" or item["content"][0]["text"]]
    thought = ["reasoning", "assistant"]
    assert kinds(items) == [*thought, "open_webui:code_interpreter", *thought]
    assert (items[2]["code"], items[2]["output"]["stdout"]) == ("print(6*7)", "42\n")
    _, second, third = inputs(standin)
    assert kinds(second) == ["user", "reasoning", "assistant"]
    assert "<code_interpreter_output>\n42\n" in second[2]["content"][0]["text"]
    assert kinds(third) == ["user", "reasoning", "assistant", "reasoning", "assistant", "user"]
    assert third[1:3] == second[1:]


def test_without_a_page_the_code_says_so(open_webui: OpenWebUI, standin: StandIn, legacy: str) -> None:
    """Nobody waits for a browser that is gone."""
    standin.script(TAGGED)
    _, answer = open_webui.admin.ask(legacy, "How much?", features=CODE)
    (run,) = [item for item in answer["output"] if item["type"] == "open_webui:code_interpreter"]
    assert "disconnected" in run["output"]["stderr"]
    assert answer["output"][-1]["content"][0]["text"].startswith("You said: How much?")
    standin.reset()
    open_webui.admin.ask(MODEL, '[[standin: call=execute_code args={"code":"1"}]] How much?', features=CODE)
    assert "disconnected" in inputs(standin)[-1][-1]["output"]


@pytest.fixture
def painter(open_webui: OpenWebUI) -> Iterator[None]:
    """A host that draws."""
    with drawing(open_webui):
        yield


@pytest.fixture
def searcher(open_webui: OpenWebUI) -> Iterator[None]:
    """A host that searches the web."""
    with searching(open_webui):
        yield


def test_without_an_engine_the_image_switch_does_nothing(
    open_webui: OpenWebUI, standin: StandIn, legacy: str
) -> None:
    """The model is asked as without it."""
    for model in (MODEL, legacy):
        standin.reset()
        open_webui.admin.ask(model, "Draw a boat.", features={"image_generation": True})
        open_webui.admin.ask(model, "Draw a boat.")
        one, two = (request.body for request in answers(standin))
        assert (one["input"], one.get("tools")) == (two["input"], two.get("tools"))


@pytest.mark.usefixtures("painter", "searcher")
@pytest.mark.parametrize(
    ("feature", "call", "made"),
    [
        ("image_generation", 'generate_image args={"prompt":"a boat"}', "/api/v1/files/"),
        ("web_search", 'search_web args={"query":"tower"}', "42 floors"),
    ],
)
def test_what_a_model_calls_for_is_sent_again(
    open_webui: OpenWebUI, standin: StandIn, feature: str, call: str, made: str
) -> None:
    """The call and what came of it, in the same bytes; a picture belongs to the answer."""
    features = {feature: True}
    sent, answer = open_webui.admin.ask(MODEL, f"[[standin: call={call}]] Please.", features=features)
    open_webui.admin.ask(MODEL, "Thank you.", after=sent, features=features)
    *_, second, third = inputs(standin)
    assert made in str(second[-1]["output"])
    assert [each["url"] in str(second[-1]["output"]) for each in answer.get("files", [])] == (
        [True] if feature == "image_generation" else []
    )
    assert third[: len(second)] == second


@pytest.mark.usefixtures("painter")
def test_a_picture_of_the_hosts_leaves_the_front_alone(
    open_webui: OpenWebUI, standin: StandIn, legacy: str
) -> None:
    """What the host says of it stands before its own question, in that one request."""
    sent = None
    for number, wanted in enumerate([False, True, False]):
        features = {"image_generation": wanted}
        sent, answer = open_webui.admin.ask(legacy, f"Draw {number}.", after=sent, features=features)
        assert len(answer.get("files", [])) == wanted
    requests = inputs(standin)
    assert len(standin.responses) == 4  # the host asked once for the picture's prompt
    said = [[item for item in each if item.get("role") == "system"] for each in requests]
    assert [len(each) for each in said] == [0, 1, 0]
    assert requests[1][-2] == said[1][0]
    assert "The requested image has been created" in said[1][0]["content"][0]["text"]
    assert requests[1][:1] == requests[0]
    assert requests[2][: len(requests[1]) - 2] == requests[1][:-2]


@pytest.mark.usefixtures("searcher")
def test_what_the_host_found_stands_behind_the_question(
    open_webui: OpenWebUI, standin: StandIn, legacy: str
) -> None:
    """Of its own turn alone; the answer names the page as its source."""
    features = {"web_search": True}
    sent, answer = open_webui.admin.ask(legacy, "How many floors?", features=features)
    open_webui.admin.ask(legacy, "Thank you.", after=sent)
    first, second = inputs(standin)
    assert len(standin.responses) == 4  # the host asked twice for queries
    words, found = (part["text"] for part in first[0]["content"])
    assert words == "How many floors?"
    assert "42 floors" in found
    assert answer["sources"][0]["source"]["urls"] == ["https://example.org/tower"]
    assert second[0]["content"] == first[0]["content"][:1]


def test_a_memory_that_a_model_adds_stands_before_the_next_question(
    open_webui: OpenWebUI, standin: StandIn
) -> None:
    """And nowhere before it: each request begins with all of the one before."""
    call = '[[standin: call=add_memory args={"content":"Has two cats."}]]'
    features = {"memory": True}
    with embeddings(open_webui):
        sent, _ = open_webui.admin.ask(MODEL, f"{call} I have two cats.", features=features)
        sent, _ = open_webui.admin.ask(MODEL, "And now?", after=sent, features=features)
        open_webui.admin.ask(MODEL, "And then?", after=sent, features=features)
    _, second, third, fourth = inputs(standin)
    assert third[: len(second)] == second
    assert (
        third[-2]["content"][0]["text"]
        == "<memory_context>\n[User Memory]\n- Has two cats.\n</memory_context>"
    )
    assert fourth[-2] == third[-2]
    assert fourth[: len(third) - 2] == third[:-2]


# --- servers of tools ---


@pytest.mark.parametrize(("tool", "answer"), [(MCP_TOOL, "stands on floor 42"), (OPENAPI_TOOL, "2027-01-31")])
def test_a_servers_tool_is_called_and_its_result_is_sent_again(
    open_webui: OpenWebUI, standin: StandIn, tool: str, answer: str
) -> None:
    """The model reads the result in the same turn; the next turn begins with the same bytes."""
    tools: Any = {"tool_ids": [MCP_TOOLS, OPENAPI_TOOLS]}
    with tool_servers(open_webui):
        sent, _ = open_webui.admin.ask(CLAUDE, f"{call_of(tool, title='Emma')} Where is it?", **tools)
        open_webui.admin.ask(CLAUDE, "Thank you.", after=sent, **tools)
    first, second, third = (each.body for each in answers(standin))
    assert {MCP_TOOL, OPENAPI_TOOL} <= {each.get("name") for each in first["tools"]}
    assert INSTRUCTIONS in str(first["input"][0])
    (call,) = [item for item in second["input"] if item["type"] == "function_call"]
    assert (call["name"], second["input"][-1]["call_id"]) == (tool, call["call_id"])
    assert answer in str(outputs_of(second["input"]))
    assert first["tools"] == second["tools"] == third["tools"]
    assert without_marks(third["input"])[: len(second["input"])] == without_marks(second["input"])


# --- recall ---

ORDERS_TOOL = "recalled_orders"
LIST = '[[standin: call=list_orders args={"page": %d}]] List page %d.'
ASK = '[[standin: call=recall args={"query": "customer 377"}]] [[standin: quote="customer 377"]] Who is 377?'
NAMED = '[[standin: call=recall args={"reference": "%s"}]] [[standin: quote="%s"]] And this one?'
BOTH = (
    '[[standin: call=recall args={"reference": "$reference", "query": "customer 42"}]]'
    ' [[standin: call=list_orders args={"page": 1}]] [[standin: quote="customer 42"]] Both, please.'
)
UNKNOWN = 'Nothing in this conversation is named "%s".'


@pytest.fixture
def account(open_webui: OpenWebUI, valves: Callable[..., None]) -> Iterator[Account]:
    """A user whose tool lists orders; what it returned is a fact as soon as the next turn begins."""
    valves(CONTEXT_STRATEGY="prune", TOOL_OUTPUT_PRUNING="every_turn", TOOL_OUTPUT_RETENTION_TURNS=1)
    open_webui.add_tool(ORDERS_TOOL, ORDERS)
    yield open_webui.admin
    open_webui.admin.api.delete(f"/api/v1/tools/id/{ORDERS_TOOL}/delete")


def ask(account: Account, text: str, after: Sent | None = None) -> tuple[Sent, dict[str, Any]]:
    """Ask with that tool."""
    return account.ask(MODEL, text, after=after, tool_ids=[ORDERS_TOOL])


def test_what_a_shortened_output_said_is_answered_after_one_call(account: Account, standin: StandIn) -> None:
    """The tool is offered once something is gone, at the end of all tools, and the next turn has its pair."""
    first, _ = ask(account, LIST % (0, 0))
    sent, answer = ask(account, ASK, first)
    ask(account, "Thanks.", sent)
    requests = answers(standin)
    offered = [[tool.get("name") for tool in request.body["tools"]] for request in requests]
    assert ["recall" in names for names in offered] == [False, False, True, True, True]
    assert [names[-1] for names in offered[2:]] == ["recall"] * 3
    assert "customer 377" not in outputs_of(requests[2].body["input"])[0]
    assert "customer 377" in answer["content"]
    made = [kind for kind in kinds(answer["output"]) if kind != "reasoning"]
    assert made == ["function_call", "function_call_output", "assistant"]
    assert answer["usage"]["cost"] == pytest.approx(sum((each.usage or {})["cost"] for each in requests[2:4]))
    ids = [item["call_id"] for item in requests[4].body["input"] if "call_id" in item]
    assert ids == [ids[0], ids[0], ids[2], ids[2]]


def test_a_tool_of_the_host_beside_it(account: Account, standin: StandIn) -> None:
    """Both are answered in one turn, each pair once and in order; what follows begins with the same bytes."""
    first, _ = ask(account, LIST % (0, 0))
    sent, answer = ask(account, BOTH, first)
    assert "customer 42" in answer["content"]
    both, after = inputs(standin)[2:]
    calls, outputs = arguments_of(after)[1:], outputs_of(after)[1:]
    names = [item["name"] for item in after if item["type"] == "function_call"]
    assert names == ["list_orders", "recall", "list_orders"]
    assert kinds(after)[-4:] == ["function_call"] * 2 + ["function_call_output"] * 2
    assert [item["call_id"] for item in after[-2:]] == [call_id for call_id, _ in calls]
    assert "customer 42" in outputs[0]
    assert json.dumps(after).startswith(json.dumps(both)[:-1])
    ask(account, "Thanks.", sent)
    assert len(outputs_of(inputs(standin)[-1])) == 3


def test_other_chats_branches_and_users_have_no_such_reference(
    open_webui: OpenWebUI, account: Account, standin: StandIn
) -> None:
    """On the branch it is answered; elsewhere as if it had never existed."""
    start, _ = ask(account, "Good morning.")
    listed, _ = ask(account, LIST % (3, 3), start)
    here, _ = ask(account, "Thanks.", listed)
    found = re.search(r"\[(#\d{6})\]$", outputs_of(inputs(standin)[-1])[0])
    assert found
    _, known = ask(account, NAMED % (found[1], "customer 0"), here)
    assert "customer 0" in known["content"]
    question = NAMED % (found[1], "is named")
    elsewhere = [ask(account, question, start), ask(account, question)]
    elsewhere.append(open_webui.add_user("recall").ask(MODEL, question))
    denials = [erase_markers(answer["content"]).strip() for _, answer in elsewhere]
    assert denials == [UNKNOWN % found[1]] * 3
    _, never_existed = ask(account, NAMED % ("#000000", "is named"), here)
    assert erase_markers(never_existed["content"]).strip() == UNKNOWN % "#000000"
