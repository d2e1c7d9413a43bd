"""The beginning of requests in a real Open WebUI: a system prompt that moves, memories, skills, prompts; and its price.

A chat has all that Open WebUI mixes into requests: a preset with a clock and the user's name in its prompt, a skill,
memories, a document, a knowledge base, tools, and those of an MCP server.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.live.chats import CLAUDE, MODEL, NO_TOOLS, WEATHER, answers, inputs, preset, stored_rows, texts_of
from tests.support.embeddings import embeddings
from tests.support.tool_servers import MCP_TOOL, MCP_TOOLS, call_of, tool_servers
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scripts.harness.openwebui import OpenWebUI, Sent
    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

TURNS: Final = 20
PROMPT: Final = (
    "You serve {{USER_NAME}}.\nIt is {{CURRENT_DATETIME}}.\n" + "Keep to the rules of the house. " * 400
)
TOOLKIT: Final = '''
class Tools:
    def {name}(self, where: str = "here") -> str:
        """
        Look somewhere.

        :param where: The place.
        """
        return "It is dark. " * 50
'''
NAMES: Final = ("look", "listen")
CALLS: Final = {1: f"[[standin: call={NAMES[0]}]] ", 3: f"{call_of(MCP_TOOL, title='Emma')} "}
"""What is called in a turn, by its number's remainder of five."""
WRITTEN: Final = "You serve {{USER_NAME}}.\nIt is {{CURRENT_DATETIME}}.\nBe brief."
SKILL: Final = {
    "id": "whisk",
    "name": "Whisk",
    "description": "How to beat cream",
    "content": "Beat it for long.",
}
MENTION: Final = "<$whisk|Whisk> How do I begin?"


@pytest.fixture(scope="module")
def skill(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[None]:
    """A skill of the administrator's."""
    assert live_pipe
    open_webui.admin.api.post("/api/v1/skills/create", SKILL)
    yield
    open_webui.admin.api.delete("/api/v1/skills/id/whisk/delete")


# --- a prompt that moves ---


@pytest.fixture(scope="module")
def valet(open_webui: OpenWebUI, skill: None) -> Iterator[str]:
    """A model with a clock in its prompt and a skill, on a host that keeps memories."""
    open_webui.add_tool("room", WEATHER)
    meta = {**NO_TOOLS, "skillIds": [SKILL["id"]]}
    with embeddings(open_webui), preset(open_webui, meta=meta, system=WRITTEN) as name:
        yield name


def remember(host: OpenWebUI, memory: str, kind: str = "user") -> None:
    """Add a memory; those of the kind `user` are in every prompt, those of `context` where they fit the question."""
    host.admin.api.post("/api/v1/memories/add", {"content": memory, "type": kind})


def ask_at(host: OpenWebUI, model: str, text: str, minute: int, after: Sent | None, **fields: Any) -> Sent:
    """Send a question as the page does at a time of day, with the host's memory switched on."""
    variables = {"{{CURRENT_DATETIME}}": f"2026-11-23 10:{minute:02}:00", "{{USER_NAME}}": "Ada"}
    prompt = [{"role": "system", "content": "Answer in English."}]
    features = {"memory": True}
    more = {"variables": variables, "features": features, "messages": prompt, **fields}
    return host.admin.ask(model, text, after=after, **more)[0]


@pytest.mark.usefixtures("accepted")
def test_the_front_stays_and_the_time_stands_before_the_question(
    open_webui: OpenWebUI, standin: StandIn, valet: str
) -> None:
    """Each request begins with all of the one before but what that had before its own question.

    A round with a call of a tool has the same note as its turn.
    """
    sent, turns, calling = None, 6, 2
    for turn in range(turns):
        remember(open_webui, f"Has {turn} cats.", "context" if turn % 2 else "user")
        fields = {"tool_ids": ["room"]} if turn == calling else {}
        call = "[[standin: call=get_weather]] " if turn == calling else ""
        sent = ask_at(open_webui, valet, f"{call}What time is it? ({turn})", turn, sent, **fields)
    found = [texts_of(each) for each in inputs(standin)]
    assert len(found) == turns + 1
    first = found[0][0]
    front = "You serve Ada.\nIt is 2026-11-23 10:00:00.\nBe brief.\nAnswer in English.\n<skill"
    assert first.startswith(front)
    assert "memory_context" not in first
    for turn, texts in enumerate(found[: calling + 1] + found[calling + 2 :]):
        assert texts[0] == first
        *_, before, question = texts
        assert question.endswith(f"What time is it? ({turn})")
        assert f"- Has {turn} cats." in before
        notes = [text for text in texts if text.startswith("Your instructions stand")]
        assert len(notes) == (turn > 0)
        if notes:
            assert texts[-3] == notes[0]
            assert notes[0].endswith(f"It now reads:\n> It is 2026-11-23 10:{turn:02}:00.")
    moving = ("Your instructions stand", "<memory_context>")
    for earlier, later in pairwise(found):
        kept = [text for text in earlier[:-1] if not text.startswith(moving)]
        assert later[: len(kept)] == kept


def test_an_edited_prompt_is_sent_anew(open_webui: OpenWebUI, standin: StandIn, valet: str) -> None:
    """However little was edited; and from then on it is the one that stays."""
    api, path = open_webui.admin.api, f"/api/v1/models/model/update?id={valet}"
    before = api.get(f"/api/v1/models/model?id={valet}")
    edited = {**before["params"], "system": WRITTEN.replace("brief", "kind")}
    sent = ask_at(open_webui, valet, "one", 1, None)
    api.post(path, {**before, "params": edited})
    api.models()
    try:
        sent = ask_at(open_webui, valet, "two", 2, sent)
        ask_at(open_webui, valet, "three", 3, sent)
    finally:
        api.post(path, before)
        api.models()
    found = [texts_of(each) for each in inputs(standin)]
    fronts = [texts[0] for texts in found]
    assert ["Be kind." in front for front in fronts] == [False, True, True]
    assert fronts[1] == fronts[2]
    assert "10:02:00" in fronts[1]
    assert found[-1][-3].endswith("> It is 2026-11-23 10:03:00.")  # the memories stand behind it


def test_switched_off_the_prompt_is_the_hosts(
    open_webui: OpenWebUI, standin: StandIn, valet: str, valves: Callable[..., None]
) -> None:
    """With its clock and its memories in front."""
    valves(STEADY_SYSTEM_PROMPT=False)
    remember(open_webui, "Has a dog.")
    sent = ask_at(open_webui, valet, "one", 1, None)
    ask_at(open_webui, valet, "two", 2, sent)
    one, two = (texts_of(each) for each in inputs(standin))
    assert one[1:] == ["one"]
    assert one[0].replace("10:01", "10:02") == two[0]
    assert "- Has a dog." in one[0]
    assert len(two) == len(one) + 2


# --- skills and prompts ---


@pytest.mark.usefixtures("skill")
@pytest.mark.parametrize("mentioned_at", [0, 1])
def test_a_mentioned_skill_is_read_from_then_on(
    open_webui: OpenWebUI, standin: StandIn, mentioned_at: int
) -> None:
    """In the system prompt where the first message mentions it, and later before each question: the front stays."""
    sent = None
    for turn in range(mentioned_at + 2):
        text = MENTION if turn == mentioned_at else "And then?"
        sent, _ = open_webui.admin.ask(MODEL, text, after=sent)
    found, skill = inputs(standin), SKILL["content"]
    assert "<name>Whisk</name>" in texts_of(found[0], "system")[0] or mentioned_at == 0
    if mentioned_at == 0:
        assert skill in texts_of(found[0], "system")[0]
        assert texts_of(found[0], "user") == ["Whisk How do I begin?"]
        assert found[1][: len(found[0])] == found[0]
        return
    first, second, third = found
    assert skill not in str(first)
    assert second[: len(first)] == first
    assert skill in second[-2]["content"][0]["text"]
    assert third[: len(second) - 2] == second[:-2]
    assert skill in third[-2]["content"][0]["text"]


@pytest.mark.browser
def test_a_prompt_is_sent_with_its_variables_filled(
    open_webui: OpenWebUI, page: Browser, standin: StandIn
) -> None:
    """The model reads the text as it stood in the message field."""
    api = open_webui.admin.api
    form = {"command": "wave", "name": "Wave", "content": "Greet {{name}} kindly."}
    created = api.post("/api/v1/prompts/create", form)
    sent, _ = open_webui.admin.ask(MODEL, "Hello.")
    page.open_chat(sent.chat_id)
    field = page.find(By.ID, "chat-input")
    field.send_keys("/wave")
    page.wait(lambda: "Wave" in page.find(By.TAG_NAME, "body").text)
    field.send_keys(Keys.ENTER)
    page.find(By.ID, "input-variable-0").send_keys("Emma", Keys.ENTER)
    page.wait(lambda: "Greet Emma kindly." in page.find(By.ID, "chat-input").text)
    page.find(By.ID, "chat-input").send_keys(Keys.ENTER)
    page.wait_for_text("You said: Greet Emma kindly.")
    page.screenshot("prompt-with-a-variable")
    api.delete(f"/api/v1/prompts/id/{created['id']}/delete")
    assert texts_of(inputs(standin)[-1])[-1] == "Greet Emma kindly."


# --- what breaks a long chat's beginning, and its price ---


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a chat; `breaks` are those that nobody announced, by place and cause."""

    cached_share: float
    input_dollars: float
    lost_dollars: float
    breaks: dict[str, int]


@pytest.fixture(scope="module")
def butler(open_webui: OpenWebUI, skill: None) -> Iterator[str]:
    """A model with a clock in its long prompt and a skill, on a host that keeps memories and has tools."""
    for name in NAMES:
        open_webui.add_tool(name, TOOLKIT.format(name=name))
    meta = {**NO_TOOLS, "skillIds": [SKILL["id"]]}
    with (
        embeddings(open_webui),
        tool_servers(open_webui),
        preset(open_webui, CLAUDE, meta=meta, system=PROMPT) as name,
    ):
        yield name


def converse(host: OpenWebUI, standin: StandIn, model: str, *, moves: bool) -> Totals:
    """A long chat whose clock goes on and whose memories grow, or stand still."""
    standin.reset()
    page = host.admin.upload("house.txt", b"The house has nine rooms. " * 5, "text/plain")
    base = knowledge_base(host)
    sent = None
    for turn in range(TURNS):
        if moves and turn % 3 == 2:
            remember(host, f"Has {turn} cats.")
        clock = f"2026-11-{1 + turn // 24 if moves else 1:02} {turn % 24 if moves else 0:02}:00:00"
        call = CALLS.get(turn % 5, "")
        sent, _ = host.admin.ask(
            model,
            f"{call}What time is it? {turn} {'word ' * 100}",
            after=sent,
            variables={"{{CURRENT_DATETIME}}": clock, "{{USER_NAME}}": "Ada"},
            features={"memory": True},
            tool_ids=[MCP_TOOLS, *(NAMES if turn % 2 else reversed(NAMES))],
            **({"files": [page, base]} if turn == 0 else {}),
        )
    assert sent is not None
    requests = answers(standin)
    assert {each.status for each in requests} == {200}
    assert len({json.dumps(each.body["tools"]) for each in requests}) == 1
    rows = audited(host, sent.chat_id, len(requests))
    usages = [each.usage for each in requests if each.usage]
    cached = sum(usage["input_tokens_details"]["cached_tokens"] for usage in usages)
    return Totals(
        cached_share=cached / sum(usage["input_tokens"] for usage in usages),
        input_dollars=sum(usage["cost_details"]["upstream_inference_input_cost"] for usage in usages),
        lost_dollars=sum(cost for _, _, cost in rows),
        breaks=dict(Counter(f"{where}: {cause}" for where, cause, _ in rows if cause)),
    )


def knowledge_base(host: OpenWebUI) -> dict[str, str]:
    """A collection of one file, as the page attaches it to a message."""
    form = {"name": "Rules", "description": "The rules of the house."}
    base = host.admin.api.post("/api/v1/knowledge/create", form)["id"]
    rules = host.admin.upload("rules.txt", b"Nobody runs in the hall. " * 5, "text/plain")
    host.admin.api.post(f"/api/v1/knowledge/{base}/file/add", {"file_id": rules["id"]})
    return {"type": "collection", "id": base, "name": form["name"], "status": "processed"}


def audited(host: OpenWebUI, chat_id: str, count: int) -> list[tuple[Any, ...]]:
    """Where and why the chat's requests begin otherwise, and what that cost, once all of them are in the audit."""
    query = "SELECT break_position, break_cause, lost_cost FROM openrouter_pipe_audit WHERE chat_id = ?"
    return wait_until(lambda: len(found := stored_rows(host, query, chat_id)) >= count and found)


@pytest.fixture(scope="module")
def still(open_webui: OpenWebUI, standin_session: StandIn, butler: str) -> Totals:
    """The totals of the chat with a clock that stands still."""
    return converse(open_webui, standin_session, butler, moves=False)


def test_every_break_is_found_named_and_priced(
    open_webui: OpenWebUI, standin: StandIn, butler: str, still: Totals, valves: Callable[..., None]
) -> None:
    """With a still clock nothing is found; with one that moves, every turn, by name and price.

    The administrator has one line for the cause.
    """
    valves(STEADY_SYSTEM_PROMPT=False)
    moving = converse(open_webui, standin, butler, moves=True)
    assert (still.breaks, moving.breaks) == ({}, {"instructions: prompt": TURNS - 1})
    assert moving.cached_share < 0.6 * still.cached_share
    # what was reckoned is what the provider billed more
    assert moving.lost_dollars == pytest.approx(moving.input_dollars - still.input_dollars, rel=0.15)
    log = open_webui.log.read_text("utf-8", "replace")
    lines = [line for line in log.splitlines() if "begins otherwise than the last one of its chat" in line]
    assert ["Cause 'prompt'" in line for line in lines if butler in line] == [True]
    assert "cats" not in "".join(lines)


def test_a_steady_prompt_breaks_nothing(
    open_webui: OpenWebUI, standin: StandIn, butler: str, still: Totals, valves: Callable[..., None]
) -> None:
    """With a clock that moves and memories that grow, nothing is found, and nine tenths are cached of what could be."""
    valves(STEADY_SYSTEM_PROMPT=True)
    steady = converse(open_webui, standin, butler, moves=True)
    assert steady.breaks == {}
    assert steady.cached_share >= 0.9 * still.cached_share
