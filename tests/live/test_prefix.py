"""The beginning of requests in a real Open WebUI: a system prompt that moves, memories, skills, tools and files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from scripts.harness.openwebui import TOOL, Account, OpenWebUI, Sent
from scripts.standin import StandIn
from tests.live.chats import preset, talk
from tests.live.items import answers, each_continues, inputs, stored_rows, texts_of
from tests.live.models import CLAUDE, MODEL, NO_TOOLS
from tests.support.embeddings import embeddings
from tests.support.tool_servers import MCP_TOOL, MCP_TOOLS, call_of, tool_servers
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("accepted")]

WRITTEN = "You serve {{USER_NAME}}.\nIt is {{CURRENT_DATETIME}}.\nBe brief."
SKILL = {"id": "whisk", "name": "Whisk", "description": "How to beat cream", "content": "Beat it for long."}
MENTION = "<$whisk|Whisk> How do I begin?"
MOVING = ("Your instructions stand", "<memory_context>")
"""How what stands before a question alone begins."""


@pytest.fixture(scope="module")
def skill(admin: Account) -> Iterator[None]:
    """A skill of the administrator's."""
    admin.api.post("/api/v1/skills/create", SKILL)
    yield
    admin.api.delete("/api/v1/skills/id/whisk/delete")


@pytest.fixture(params=[MODEL])
def valet(admin: Account, skill: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """A model with a clock in its prompt and a skill, on a host that keeps memories and has a tool server."""
    meta = {**NO_TOOLS, "skillIds": [SKILL["id"]]}
    with (
        embeddings(admin),
        tool_servers(admin),
        preset(admin, request.param, meta=meta, system=WRITTEN) as name,
    ):
        yield name


def ask_at(admin: Account, model: str, text: str, minute: int, after: Sent | None, **fields: Any) -> Sent:
    """Send a question as the page does at a time of day, with the host's memory switched on."""
    variables = {"{{CURRENT_DATETIME}}": f"2026-11-23 10:{minute:02}:00", "{{USER_NAME}}": "Ada"}
    prompt = [{"role": "system", "content": "Answer in English."}]
    more = {"variables": variables, "features": {"memory": True}, "messages": prompt, **fields}
    return admin.ask(model, text, after=after, **more)[0]


def test_the_front_stays_and_the_time_stands_before_the_question(
    admin: Account, standin: StandIn, valet: str
) -> None:
    """Each request begins with all of the one before but what that had before its own question.

    A round with a call of a tool has the same note as its turn.
    """
    sent, turns, calling = None, 6, 2
    for turn in range(turns):
        # those of the kind `user` are in every prompt, those of `context` where they fit the question
        memory = {"content": f"Has {turn} cats.", "type": "context" if turn % 2 else "user"}
        admin.api.post("/api/v1/memories/add", memory)
        call = "[[standin: call=get_weather]] " if turn == calling else ""
        text = f"{call}What time is it? ({turn})"
        sent = ask_at(admin, valet, text, turn, sent, tool_ids=[TOOL] if turn == calling else [])
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
        notes = [text for text in texts if text.startswith(MOVING[0])]
        assert len(notes) == (turn > 0)
        if notes:
            assert texts[-3] == notes[0]
            assert notes[0].endswith(f"It now reads:\n> It is 2026-11-23 10:{turn:02}:00.")
    for earlier, later in pairwise(found):
        kept = [text for text in earlier[:-1] if not text.startswith(MOVING)]
        assert later[: len(kept)] == kept


def test_an_edited_prompt_is_sent_anew(admin: Account, standin: StandIn, valet: str) -> None:
    """However little was edited; and from then on it is the one that stays."""
    sent = ask_at(admin, valet, "one", 1, None)
    row = admin.api.get(f"/api/v1/models/model?id={valet}")
    params = {**row["params"], "system": WRITTEN.replace("brief", "kind")}
    admin.api.post(f"/api/v1/models/model/update?id={valet}", {**row, "params": params})
    admin.api.models()
    sent = ask_at(admin, valet, "two", 2, sent)
    ask_at(admin, valet, "three", 3, sent)
    one, two, three = (texts_of(each) for each in inputs(standin))
    assert ["Be kind." in texts[0] for texts in (one, two)] == [False, True]
    assert "10:02:00" in two[0]
    assert three[0] == two[0]
    assert three[-2].endswith("> It is 2026-11-23 10:03:00.")


@pytest.mark.usefixtures("skill")
@pytest.mark.parametrize("mentioned_at", [0, 1])
def test_a_mentioned_skill_is_read_from_then_on(admin: Account, standin: StandIn, mentioned_at: int) -> None:
    """In the system prompt where the first message mentions it, and later before each question: the front stays."""
    texts = ["And then?"] * (mentioned_at + 2)
    texts[mentioned_at] = MENTION
    talk(admin, MODEL, *texts)
    found, skill = inputs(standin), SKILL["content"]
    told = [texts_of(items) for items in found]
    places = [[at - len(texts) for at, text in enumerate(texts) if skill in text] for texts in told]
    if mentioned_at == 0:
        assert places == [[-2], [-4]]
        assert told[0][-1] == "Whisk How do I begin?"
        assert each_continues(found)
    else:
        assert "<name>Whisk</name>" in told[0][0]
        assert places == [[], [-2], [-2]]
        assert each_continues([found[0], found[1][:-2], found[2]])


@pytest.mark.parametrize("valet", [CLAUDE], indirect=True)
def test_a_steady_prompt_breaks_nothing(
    open_webui: OpenWebUI, admin: Account, standin: StandIn, valet: str
) -> None:
    """With all that Open WebUI mixes into requests, and a clock that moves, nothing is lost from the cache.

    That is memories that grow, a skill, a document, a knowledge base, tools in any order, and those of an MCP server.
    """
    page = admin.upload("house.txt", b"The house has nine rooms. " * 5, "text/plain")
    rules = admin.upload("rules.txt", b"Nobody runs in the hall. " * 5, "text/plain")
    form = {"name": "Rules", "description": "The rules of the house."}
    base = admin.api.post("/api/v1/knowledge/create", form)["id"]
    admin.api.post(f"/api/v1/knowledge/{base}/file/add", {"file_id": rules["id"]})
    files = [page, {"type": "collection", "id": base, "name": "Rules", "status": "processed"}]
    calls = {1: "[[standin: call=get_weather]] ", 3: f"{call_of(MCP_TOOL, title='Emma')} "}
    sent = None
    for turn in range(20):
        if turn % 3 == 2:
            admin.api.post("/api/v1/memories/add", {"content": f"Has {turn} cats.", "type": "user"})
        text = f"{calls.get(turn % 5, '')}What time is it? {turn} {'word ' * 100}"
        tools = [MCP_TOOLS, TOOL][:: 1 if turn % 2 else -1]
        sent = ask_at(admin, valet, text, turn, sent, tool_ids=tools, files=[] if turn else files)
    assert sent is not None
    requests = answers(standin)
    assert len({json.dumps(each.body["tools"]) for each in requests}) == 1
    query = "SELECT break_cause FROM openrouter_pipe_audit WHERE chat_id = ?"
    wait_until(lambda: len(stored_rows(open_webui, query, sent.chat_id)) >= len(requests))
    assert {cause for (cause,) in stored_rows(open_webui, query, sent.chat_id)} == {""}
    usages = [request.usage or {} for request in requests[-6:]]
    cached = [usage["input_tokens_details"]["cached_tokens"] / usage["input_tokens"] for usage in usages]
    assert min(cached) > 0.8, cached
