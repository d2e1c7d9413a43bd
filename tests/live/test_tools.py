"""Tools in a real Open WebUI: the switches beside the message field, tool servers, and the pipe's own `recall`.

The switches (code interpreter, images, web search, memory) in both of the host's ways: tools that the model calls,
and, with "legacy" function calling, what the host does before it asks the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from scripts.harness.openwebui import Account, OpenWebUI
from scripts.standin import StandIn
from tests.live.chats import preset, talk
from tests.live.items import answers, each_continues, inputs, kinds, outputs_of, texts_of, without_marks
from tests.live.models import CLAUDE, MODEL, ORDERS, REPLAYED, ROUND, Valves
from tests.support.embeddings import embeddings
from tests.support.engines import drawing, searching
from tests.support.host_source import is_older
from tests.support.tool_servers import INSTRUCTIONS, MCP_TOOL, OPENAPI_TOOL, SERVERS, call_of, tool_servers

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("accepted")]

CODE = {"code_interpreter": True}
EXECUTE = '[[standin: call=execute_code args={"code":"print(6*7)"}]]'
RESULT = {"execute:python": {"stdout": "42\n", "stderr": "", "result": None}}
TAGGED = '[[standin: text="Let me see.\\n\\n<code_interpreter type=\\"code\\">\\nprint(6*7)\\n</code_interpreter>"]]'


@pytest.fixture(scope="module")
def legacy(admin: Account) -> Iterator[str]:
    """A model whose function calling is not native."""
    with preset(admin, function_calling="legacy") as name:
        yield name


# --- the switches ---


def test_code_that_a_model_calls_for_runs_on_the_page(admin: Account, standin: StandIn) -> None:
    """Its output is sent in the same turn, and again in the next; without a page it says that nobody is there."""
    with admin.session(RESULT) as tab:
        talk(admin, MODEL, f"{EXECUTE} How much?", "And now?", session_id=tab.id, features=CODE)
    third = inputs(standin)[-1]
    assert kinds(third) == ["user", *ROUND, *REPLAYED[1:]]
    assert json.loads(outputs_of(third)[0])["stdout"] == "42\n"
    assert each_continues(inputs(standin))
    admin.ask(MODEL, f"{EXECUTE} How much?", features=CODE)
    assert "disconnected" in outputs_of(inputs(standin)[-1])[0]


def test_code_between_tags_runs_as_well(admin: Account, standin: StandIn, legacy: str) -> None:
    """The answer goes on behind its result; the stored answer and the next turn have both, thoughts in their places."""
    standin.script(TAGGED)
    with admin.session(RESULT) as tab:
        (_, answer), _ = talk(admin, legacy, "How much?", "And now?", session_id=tab.id, features=CODE)
        assert len(tab.of_type("execute:python")) == 1
    items = [item for item in answer["output"] if item["type"] != "message" or item["content"][0]["text"]]
    thought = ["reasoning", "assistant"]
    assert kinds(items) == [*thought, "open_webui:code_interpreter", *thought]
    assert (items[2]["code"], items[2]["output"]["stdout"]) == ("print(6*7)", "42\n")
    _, second, third = inputs(standin)
    assert kinds(second) == ["user", *thought]
    assert "<code_interpreter_output>\n42\n" in second[2]["content"][0]["text"]
    assert kinds(third) == ["user", *thought * 2, "user"]
    assert third[1:3] == second[1:]
    standin.script(TAGGED)
    _, answer = admin.ask(legacy, "How much?", features=CODE)
    (run,) = [item for item in answer["output"] if item["type"] == "open_webui:code_interpreter"]
    assert "disconnected" in run["output"]["stderr"]
    assert answer["output"][-1]["content"][0]["text"].startswith("You said: How much?")


def test_without_an_engine_the_image_switch_does_nothing(
    admin: Account, standin: StandIn, legacy: str
) -> None:
    """The model is asked as without it."""
    for model in (MODEL, legacy):
        standin.reset()
        admin.ask(model, "Draw a boat.", features={"image_generation": True})
        admin.ask(model, "Draw a boat.")
        one, two = (request.body for request in answers(standin))
        assert (one["input"], one.get("tools")) == (two["input"], two.get("tools"))


@pytest.mark.parametrize(
    ("feature", "call", "made", "files"),
    [
        ("image_generation", 'generate_image args={"prompt":"a boat"}', "/api/v1/files/", 1),
        ("web_search", 'search_web args={"query":"tower"}', "42 floors", 0),
    ],
    ids=["picture", "search"],
)
def test_what_a_model_calls_for_is_sent_again(
    admin: Account, standin: StandIn, feature: str, call: str, made: str, files: int
) -> None:
    """The call and what came of it, in the same bytes; a picture belongs to the answer."""
    with drawing(admin), searching(admin):
        texts = (f"[[standin: call={call}]] Please.", "Thank you.")
        (_, answer), _ = talk(admin, MODEL, *texts, features={feature: True})
    output = str(inputs(standin)[1][-1]["output"])
    assert made in output
    assert [each["url"] in output for each in answer.get("files", [])] == [True] * files
    assert each_continues(inputs(standin)[1:])


def test_a_picture_of_the_hosts_leaves_the_front_alone(admin: Account, standin: StandIn, legacy: str) -> None:
    """What the host says of it stands before its own question, in that one request."""
    sent = None
    with drawing(admin):
        for number, wanted in enumerate([False, True, False]):
            features = {"image_generation": wanted}
            sent, answer = admin.ask(legacy, f"Draw {number}.", after=sent, features=features)
            assert len(answer.get("files", [])) == wanted
    first, second, third = inputs(standin)
    assert len(standin.responses) == 4  # the host asked once for the picture's prompt
    assert [len(texts_of(each, "system")) for each in (first, second, third)] == [0, 1, 0]
    assert "The requested image has been created" in texts_of(second)[-2]
    assert each_continues([first, second[:-2], third])


def test_what_the_host_found_stands_behind_the_question(
    admin: Account, standin: StandIn, legacy: str
) -> None:
    """Of its own turn alone; the answer names the page as its source."""
    with searching(admin):
        sent, answer = admin.ask(legacy, "How many floors?", features={"web_search": True})
        admin.ask(legacy, "Thank you.", after=sent)
    first, second = inputs(standin)
    assert len(standin.responses) == 4  # the host asked twice for queries
    words, found = (part["text"] for part in first[0]["content"])
    assert words == "How many floors?"
    assert "42 floors" in found
    assert answer["sources"][0]["source"]["urls"] == ["https://example.org/tower"]
    assert second[0]["content"] == first[0]["content"][:1]


def test_a_memory_that_a_model_adds_stands_before_the_next_question(admin: Account, standin: StandIn) -> None:
    """And nowhere before it: each request begins with all of the one before."""
    call = '[[standin: call=add_memory args={"content":"Has two cats."}]]'
    with embeddings(admin):
        talk(admin, MODEL, f"{call} I have two cats.", "And now?", "And then?", features={"memory": True})
    _, second, third, fourth = inputs(standin)
    assert texts_of(third)[-2] == "<memory_context>\n[User Memory]\n- Has two cats.\n</memory_context>"
    assert fourth[-2] == third[-2]
    assert third[: len(second)] == second
    assert fourth[: len(third) - 2] == third[:-2]


# --- servers of tools ---


@pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning")  # an older server's own
def test_a_servers_tool_is_called_and_its_result_is_sent_again(admin: Account, standin: StandIn) -> None:
    """The model reads the results in the same turn; the next turn begins with the same bytes."""
    calls = " ".join(call_of(tool, title="Emma") for tool in (MCP_TOOL, OPENAPI_TOOL))
    with tool_servers(admin):
        talk(admin, CLAUDE, f"{calls} Where is it?", "Thank you.", tool_ids=SERVERS)
    first, second, third = (each.body for each in answers(standin))
    assert {MCP_TOOL, OPENAPI_TOOL} <= {each.get("name") for each in first["tools"]}
    assert is_older() or INSTRUCTIONS in str(first["input"][0])
    called = [(item["name"], item["call_id"]) for item in second["input"] if item["type"] == "function_call"]
    assert [name for name, _ in called] == [MCP_TOOL, OPENAPI_TOOL]
    assert [item["call_id"] for item in second["input"][-2:]] == [call_id for _, call_id in called]
    found, due = outputs_of(second["input"])
    assert "stands on floor 42" in str(found)
    assert "2027-01-31" in str(due)
    assert first["tools"] == second["tools"] == third["tools"]
    assert each_continues([without_marks(body["input"]) for body in (second, third)])


# --- recall ---

LIST = '[[standin: call=list_orders args={"page": 0}]] List page 0.'
ASK = '[[standin: call=recall args={"query": "customer 377"}]] [[standin: quote="customer 377"]] Who is 377?'
BOTH = (
    '[[standin: call=recall args={"reference": "$reference", "query": "customer 42"}]]'
    ' [[standin: call=list_orders args={"page": 1}]] [[standin: quote="customer 42"]] Both, please.'
)


def test_what_a_shortened_output_said_is_answered_after_one_call(
    open_webui: OpenWebUI, admin: Account, standin: StandIn, valves: Valves
) -> None:
    """The tool is offered once something is gone, at the end of all tools, and the next turn has its pair.

    Beside a tool of the host both are answered in one turn, in order; what follows begins with the same bytes.
    """
    # what the tool returned is a fact as soon as the next turn begins
    valves(CONTEXT_STRATEGY="prune", TOOL_OUTPUT_PRUNING="every_turn", TOOL_OUTPUT_RETENTION_TURNS=1)
    open_webui.add_tool("recalled_orders", ORDERS)
    _, (_, answer), (_, both) = talk(admin, MODEL, LIST, ASK, BOTH, tool_ids=["recalled_orders"])
    requests = answers(standin)
    offered = [[tool.get("name") for tool in request.body["tools"]] for request in requests]
    assert ["recall" in names for names in offered] == [False, False, True, True, True, True]
    assert [names[-1] for names in offered[2:]] == ["recall"] * 4
    assert "customer 377" not in outputs_of(inputs(standin)[2])[0]
    assert "customer 377" in answer["content"]
    assert "customer 42" in both["content"]
    made = [kind for kind in kinds(answer["output"]) if kind != "reasoning"]
    assert made == ["function_call", "function_call_output", "assistant"]
    assert answer["usage"]["cost"] == pytest.approx(sum((each.usage or {})["cost"] for each in requests[2:4]))
    last = inputs(standin)[-1]
    calls = [(item["name"], item["call_id"]) for item in last if item["type"] == "function_call"]
    assert [name for name, _ in calls] == ["list_orders", "recall", "recall", "list_orders"]
    assert kinds(last)[-4:] == ["function_call"] * 2 + ["function_call_output"] * 2
    assert [item["call_id"] for item in last[-2:]] == [call_id for _, call_id in calls[-2:]]
    assert each_continues(inputs(standin)[-2:])
