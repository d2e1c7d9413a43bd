"""A system prompt that moves, in a real Open WebUI: a clock, the user's name, memories and a skill; the front stays."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.embeddings import embeddings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI, Sent
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

MODEL = "openrouter.openai/gpt-5.2"
PRESET = "valet"
WRITTEN = "You serve {{USER_NAME}}.\nIt is {{CURRENT_DATETIME}}.\nBe brief."
CHAT_PROMPT = {"role": "system", "content": "Answer in English."}
TURNS = 6
ROOM = '''
class Tools:
    def look(self) -> str:
        """
        Look into the room.
        """
        return "It is dark."
'''


def form(system: str) -> dict[str, Any]:
    """A preset with a prompt and a skill of its own, and without the host's many tools."""
    return {
        "id": PRESET,
        "base_model_id": MODEL,
        "name": PRESET,
        "meta": {"capabilities": {"builtin_tools": False}, "skillIds": ["tea"]},
        "params": {"system": system},
    }


@pytest.fixture(scope="module", autouse=True)
def memories(open_webui: OpenWebUI) -> Iterator[None]:
    """A host that keeps memories."""
    with embeddings(open_webui):
        yield


@pytest.fixture(scope="module", autouse=True)
def preset(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[None]:
    """A model with a clock in its prompt, and a skill; other tests find neither."""
    assert MODEL in live_pipe
    api = open_webui.admin.api
    api.post("/api/v1/skills/create", {"id": "tea", "name": "Tea", "content": "Warm the pot first."})
    api.post("/api/v1/models/create", form(WRITTEN))
    api.models()
    open_webui.add_tool("room", ROOM)
    yield
    api.delete("/api/v1/skills/id/tea/delete")
    api.post("/api/v1/models/model/delete", {"id": PRESET})


@pytest.fixture(autouse=True)
def afterwards(open_webui: OpenWebUI) -> Iterator[None]:
    """Other tests find the valves as they were; none of them switches memories on."""
    yield
    open_webui.admin.api.set_valves("openrouter", {"STEADY_SYSTEM_PROMPT": None})


def remember(open_webui: OpenWebUI, memory: str, kind: str = "user") -> None:
    """Add a memory; those of the kind `user` are in every prompt, those of `context` where they fit the question."""
    open_webui.admin.api.post("/api/v1/memories/add", {"content": memory, "type": kind})


def ask(open_webui: OpenWebUI, text: str, minute: int, after: Sent | None, **fields: Any) -> Sent:
    """Send a question as the page does at a time of day, with the host's memory switched on."""
    variables = {"{{CURRENT_DATETIME}}": f"2026-11-23 10:{minute:02}:00", "{{USER_NAME}}": "Ada"}
    sent, _ = open_webui.admin.ask(
        PRESET,
        text,
        after=after,
        variables=variables,
        features={"memory": True},
        messages=[CHAT_PROMPT],
        **fields,
    )
    return sent


def texts_of(request: RecordedRequest) -> list[str]:
    """The texts of the messages in a request, in their order."""
    messages = [item for item in request.body["input"] if item["type"] == "message"]
    return ["\n".join(part["text"] for part in item["content"]) for item in messages]


def test_the_front_stays_and_the_time_stands_before_the_question(
    open_webui: OpenWebUI, standin: StandIn
) -> None:
    """Each request begins with all of the one before but what that had before its own question.

    A round with a call of a tool has the same note as its turn.
    """
    sent = None
    for turn in range(TURNS):
        remember(open_webui, f"Has {turn} cats.", "context" if turn % 2 else "user")
        call = "[[standin: call=look]] " if turn == 2 else ""
        tools = {"tool_ids": ["room"]} if turn == 2 else {}
        sent = ask(open_webui, f"{call}What time is it? ({turn})", turn, sent, **tools)
    requests = [request for request in standin.responses if "What time" in texts_of(request)[-1]]
    assert [(request.status, request.warnings) for request in standin.responses] == [(200, [])] * (TURNS + 1)
    first = texts_of(requests[0])[0]
    assert first.startswith(
        "You serve Ada.\nIt is 2026-11-23 10:00:00.\nBe brief.\nAnswer in English.\n<skill"
    )
    assert "memory_context" not in first
    for turn, request in enumerate(requests[:3] + requests[-3:]):
        texts = texts_of(request)
        assert texts[0] == first
        *_, before, question = texts
        assert question.endswith(f"What time is it? ({turn})")
        assert f"- Has {turn} cats." in before
        notes = [text for text in texts if text.startswith("Your instructions stand")]
        assert len(notes) == (turn > 0)
        if notes:
            assert texts[-3] == notes[0]
            assert notes[0].endswith(f"It now reads:\n> It is 2026-11-23 10:{turn:02}:00.")
    for before_request, after_request in pairwise(requests):
        kept = [text for text in texts_of(before_request)[:-1] if not _is_volatile(text)]
        assert texts_of(after_request)[: len(kept)] == kept


def _is_volatile(text: str) -> bool:
    return text.startswith(("Your instructions stand", "<memory_context>"))


def test_an_edited_prompt_is_sent_anew(open_webui: OpenWebUI, standin: StandIn) -> None:
    """However little was edited; and from then on it is the one that stays."""
    sent = ask(open_webui, "one", 1, None)
    edited = WRITTEN.replace("brief", "kind")
    open_webui.admin.api.post(f"/api/v1/models/model/update?id={PRESET}", form(edited))
    open_webui.admin.api.models()
    try:
        sent = ask(open_webui, "two", 2, sent)
        ask(open_webui, "three", 3, sent)
    finally:
        open_webui.admin.api.post(f"/api/v1/models/model/update?id={PRESET}", form(WRITTEN))
        open_webui.admin.api.models()
    fronts = [texts_of(request)[0] for request in standin.responses]
    assert ["Be kind." in front for front in fronts] == [False, True, True]
    assert fronts[1] == fronts[2]
    assert "10:02:00" in fronts[1]
    note = texts_of(standin.responses[-1])[-3]  # the memories stand between it and the question
    assert note.endswith("> It is 2026-11-23 10:03:00.")


def test_switched_off_the_prompt_is_the_hosts(open_webui: OpenWebUI, standin: StandIn) -> None:
    """With its clock and its memories in front."""
    open_webui.admin.api.set_valves("openrouter", {"STEADY_SYSTEM_PROMPT": False})
    remember(open_webui, "Has a dog.")
    sent = ask(open_webui, "one", 1, None)
    ask(open_webui, "two", 2, sent)
    one, two = (texts_of(request) for request in standin.responses)
    assert one[1:] == ["one"]
    assert one[0].replace("10:01", "10:02") == two[0]
    assert "- Has a dog." in one[0]
    assert len(two) == len(one) + 2
