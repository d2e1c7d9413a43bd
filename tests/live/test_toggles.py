"""The switches beside the message field in a real Open WebUI: code interpreter, images, web search and memory.

Each in both of the host's ways: tools that the model calls, and, with "legacy" function calling, what the host does
before it asks the model.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.embeddings import embeddings
from tests.support.engines import drawing, searching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("legacy")]

MODEL = "openrouter.openai/gpt-5.2"
LEGACY = "with-legacy-calling"
CODE = {"code_interpreter": True}
RESULT = {"execute:python": {"stdout": "42\n", "stderr": "", "result": None}}
TAGGED = '[[standin: text="Let me see.\\n\\n<code_interpreter type=\\"code\\">\\nprint(6*7)\\n</code_interpreter>"]]'


@pytest.fixture(scope="module")
def legacy(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[None]:
    """A preset whose function calling is not native."""
    assert MODEL in live_pipe
    params = {"function_calling": "legacy"}
    form = {"id": LEGACY, "base_model_id": MODEL, "name": LEGACY, "meta": {}, "params": params}
    open_webui.admin.api.post("/api/v1/models/create", form)
    open_webui.admin.api.models()
    yield
    open_webui.admin.api.post("/api/v1/models/model/delete", {"id": LEGACY})


def types_of(items: list[dict[str, Any]]) -> list[str]:
    """Items by their types, messages by their roles."""
    return [item.get("role") or item["type"] for item in items]


def chats(standin: StandIn) -> list[list[dict[str, Any]]]:
    """The inputs of the requests for answers, all of them valid to the letter."""
    verdicts = [(request.status, request.warnings) for request in standin.responses]
    assert verdicts == [(200, [])] * len(verdicts)
    return [each.body["input"] for each in standin.responses if "session_id" in each.body]


def test_code_that_a_model_calls_for_runs_on_the_page(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Its output is sent in the same turn, and again in the next."""
    call = '[[standin: call=execute_code args={"code":"print(6*7)"}]]'
    with open_webui.admin.session(RESULT) as tab:
        sent, _ = open_webui.admin.ask(MODEL, f"{call} How much?", session_id=tab.id, features=CODE)
        open_webui.admin.ask(MODEL, "And now?", after=sent, session_id=tab.id, features=CODE)
    first, second, third = chats(standin)
    assert types_of(first) == ["system", "user"]
    assert types_of(third)[2:] == [
        "reasoning",
        "function_call",
        "function_call_output",
        "reasoning",
        "assistant",
        "user",
    ]
    assert json.loads(third[4]["output"])["stdout"] == "42\n"
    assert [first, second] == [third[: len(first)], third[: len(second)]]


def test_code_between_tags_runs_as_well(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The answer goes on behind its result; the stored answer and the next turn have both, thoughts in their places."""
    standin.script(TAGGED)
    with open_webui.admin.session(RESULT) as tab:
        sent, answer = open_webui.admin.ask(LEGACY, "How much?", session_id=tab.id, features=CODE)
        assert len(tab.of_type("execute:python")) == 1
        open_webui.admin.ask(LEGACY, "And now?", after=sent, session_id=tab.id, features=CODE)
    items = [item for item in answer["output"] if item["type"] != "message" or item["content"][0]["text"]]
    assert types_of(items) == [
        "reasoning",
        "assistant",
        "open_webui:code_interpreter",
        "reasoning",
        "assistant",
    ]
    assert (items[2]["code"], items[2]["output"]["stdout"]) == ("print(6*7)", "42\n")
    _, second, third = chats(standin)
    assert types_of(second) == ["user", "reasoning", "assistant"]
    assert "<code_interpreter_output>\n42\n" in second[2]["content"][0]["text"]
    assert types_of(third) == ["user", "reasoning", "assistant", "reasoning", "assistant", "user"]
    assert third[1:3] == second[1:]


def test_without_a_page_the_code_says_so(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Nobody waits for a browser that is gone."""
    standin.script(TAGGED)
    _, answer = open_webui.admin.ask(LEGACY, "How much?", features=CODE)
    (run,) = [item for item in answer["output"] if item["type"] == "open_webui:code_interpreter"]
    assert "disconnected" in run["output"]["stderr"]
    assert answer["output"][-1]["content"][0]["text"].startswith("You said: How much?")
    standin.reset()
    open_webui.admin.ask(MODEL, '[[standin: call=execute_code args={"code":"1"}]] How much?', features=CODE)
    assert "disconnected" in chats(standin)[-1][-1]["output"]


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


@pytest.mark.parametrize("model", [MODEL, LEGACY])
def test_without_an_engine_the_image_switch_does_nothing(
    open_webui: OpenWebUI, standin: StandIn, model: str
) -> None:
    """The model is asked as without it."""
    open_webui.admin.ask(model, "Draw a boat.", features={"image_generation": True})
    open_webui.admin.ask(model, "Draw a boat.")
    one, two = (request.body for request in standin.responses)
    assert (one["input"], one.get("tools")) == (two["input"], two.get("tools"))


@pytest.mark.usefixtures("painter")
def test_a_picture_that_a_model_calls_for_is_shown(open_webui: OpenWebUI, standin: StandIn) -> None:
    """It belongs to the answer; the call and what came of it are sent again."""
    call = '[[standin: call=generate_image args={"prompt":"a boat"}]]'
    features = {"image_generation": True}
    sent, answer = open_webui.admin.ask(MODEL, f"{call} Draw a boat.", features=features)
    open_webui.admin.ask(MODEL, "Thank you.", after=sent, features=features)
    (picture,) = answer["files"]
    *_, second, third = chats(standin)
    assert picture["url"] in str(second[-1]["output"])
    assert third[: len(second)] == second


@pytest.mark.usefixtures("painter")
def test_a_picture_of_the_hosts_leaves_the_front_alone(open_webui: OpenWebUI, standin: StandIn) -> None:
    """What the host says of it stands before its own question, in that one request."""
    sent = None
    for number, wanted in enumerate([False, True, False]):
        features = {"image_generation": wanted}
        sent, answer = open_webui.admin.ask(LEGACY, f"Draw {number}.", after=sent, features=features)
        assert len(answer.get("files", [])) == wanted
    requests = chats(standin)
    assert len(standin.responses) == 4  # the host asked once for the picture's prompt
    said = [[item for item in each if item.get("role") == "system"] for each in requests]
    assert [len(each) for each in said] == [0, 1, 0]
    assert requests[1][-2] == said[1][0]
    assert "The requested image has been created" in said[1][0]["content"][0]["text"]
    assert requests[1][:1] == requests[0]
    assert requests[2][: len(requests[1]) - 2] == requests[1][:-2]


@pytest.mark.usefixtures("searcher")
def test_a_search_that_a_model_calls_for_is_sent_again(open_webui: OpenWebUI, standin: StandIn) -> None:
    """With what it found, in the same bytes."""
    call = '[[standin: call=search_web args={"query":"tower"}]]'
    features = {"web_search": True}
    sent, _ = open_webui.admin.ask(MODEL, f"{call} How many floors?", features=features)
    open_webui.admin.ask(MODEL, "Thank you.", after=sent, features=features)
    *_, second, third = chats(standin)
    assert "42 floors" in str(second[-1]["output"])
    assert third[: len(second)] == second


@pytest.mark.usefixtures("searcher")
def test_what_the_host_found_stands_behind_the_question(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Of its own turn alone; the answer names the page as its source."""
    features = {"web_search": True}
    sent, answer = open_webui.admin.ask(LEGACY, "How many floors?", features=features)
    open_webui.admin.ask(LEGACY, "Thank you.", after=sent)
    first, second = chats(standin)
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
    _, second, third, fourth = chats(standin)
    assert third[: len(second)] == second
    assert (
        third[-2]["content"][0]["text"]
        == "<memory_context>\n[User Memory]\n- Has two cats.\n</memory_context>"
    )
    assert fourth[-2] == third[-2]
    assert fourth[: len(third) - 2] == third[:-2]
