"""Open WebUI's own compaction beside the pipe: its summary stands once in the input, and nothing else moves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.markers import erase_markers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

MODEL = "openrouter.openai/gpt-5.2"
PRESET = "compacted"
SUMMARISER = "standin/plain"
"""Says its prompt again, so that a summary quotes what it stands for, unless a test scripts its words."""

CONFIG = "/api/v1/chats/config"
THRESHOLD_TOKENS = 1200
TURNS = 8
PAGES = '''
class Tools:
    def read_page(self, number: int) -> str:
        """
        Read a page.

        :param number: The page.
        """
        return f"page {number} " + "row " * 2000
'''
CALL = '[[standin: call=read_page args={"number": "%d"}]] [[standin: rounds=9]]'


@pytest.fixture(scope="module", autouse=True)
def preset(open_webui: OpenWebUI, live_pipe: list[str]) -> None:
    """A model with a prompt of its own and without the host's many tools, whose tokens would count."""
    assert MODEL in live_pipe
    form = {
        "id": PRESET,
        "base_model_id": MODEL,
        "name": PRESET,
        "meta": {"capabilities": {"builtin_tools": False}},
        "params": {"system": "Be brief."},
    }
    open_webui.admin.api.post("/api/v1/models/create", form)
    open_webui.admin.api.models()


@pytest.fixture(autouse=True)
def compaction(open_webui: OpenWebUI) -> Iterator[None]:
    """Open WebUI compacts early; other tests find its settings as they were."""
    api = open_webui.admin.api
    before = api.get(CONFIG)
    changed = {
        "ENABLE_CONTEXT_COMPACTION": True,
        "CONTEXT_COMPACTION_TOKEN_THRESHOLD": THRESHOLD_TOKENS,
        "CONTEXT_COMPACTION_TOKEN_CAP": THRESHOLD_TOKENS,
        "CONTEXT_COMPACTION_MODEL": f"openrouter.{SUMMARISER}",
        "CONTEXT_COMPACTION_PROMPT_TEMPLATE": "Before: {{PREVIOUS_SUMMARY}}\nNow: {{COMPACTED_MESSAGES}}",
    }
    api.post(CONFIG, {**before, **changed})
    yield
    api.post(CONFIG, before)


@pytest.fixture(autouse=True)
def accepted(standin: StandIn) -> Iterator[None]:
    """Every request is valid to the letter and shows no marker."""
    yield
    shown = [request.raw.decode() for request in standin.responses]
    assert [(request.status, request.warnings) for request in standin.responses] == [(200, [])] * len(shown)
    assert [erase_markers(text) for text in shown] == shown


def host_summaries(standin: StandIn) -> list[str]:
    """What the host's summariser said, in order."""
    found = [request for request in standin.responses if request.body["model"] == SUMMARISER]
    return [item["content"][0]["text"] for request in found for item in request.output if "content" in item]


def answering(standin: StandIn) -> list[RecordedRequest]:
    """The requests for answers."""
    return [request for request in standin.responses if request.body["model"] != SUMMARISER]


def texts_of(request: RecordedRequest) -> str:
    """All texts of the messages in a request, without the marks before the lines of a record."""
    messages = [item for item in request.body["input"] if item["type"] == "message"]
    texts = "\n\n".join(part["text"] for item in messages for part in item["content"])
    return texts.replace("\n> ", "\n")


def counts(request: RecordedRequest, texts: Sequence[str]) -> list[int]:
    """How often each text occurs in a request, blank lines aside."""
    whole = _packed(texts_of(request))
    return [whole.count(_packed(text)) for text in texts]


def _packed(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.strip())


def system_of(request: RecordedRequest) -> str:
    """The system prompt as it lies on the wire."""
    return json.dumps(request.body["input"][0])


def reasoning_of(items: Sequence[dict[str, Any]]) -> list[str]:
    """The reasoning among some items, as it lies on the wire."""
    return [json.dumps(item) for item in items if item["type"] == "reasoning"]


def test_a_compacted_chat_has_one_summary(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The newest summary occurs once, the system prompt keeps its bytes, and kept turns keep their reasoning.

    Behind its summary the host writes more instructions, here of its code interpreter: they stay instructions.
    """
    sent = None
    for number in range(TURNS):
        question = f"question {number} {'word ' * 60}"
        sent, _ = open_webui.admin.ask(PRESET, question, after=sent, features={"code_interpreter": True})
    summaries, requests = host_summaries(standin), answering(standin)
    assert len(summaries) > 1
    assert counts(requests[-1], [summaries[-1], "question 0", f"question {TURNS - 1}"]) == [1, 2, 1]

    assert len({system_of(request) for request in requests}) == 1
    assert requests[0].body["input"][0]["content"][0]["text"].startswith("Be brief.\n\n\n##### Pyodide")

    kept = reasoning_of(requests[-1].body["input"])
    given = [piece for request in requests[:-1] for piece in reasoning_of(request.output)]
    assert 0 < len(kept) < TURNS - 1
    assert kept == given[-len(kept) :]


def test_a_compacted_tool_loop_has_each_summary_once(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Within a loop the host keeps the chat's summary and adds one of the loop, which it then replaces.

    The calls that it keeps keep their reasoning; of the finished turn it keeps nothing but a summary.
    """
    admin = open_webui.admin
    open_webui.add_tool("pages", PAGES)
    sent, _ = admin.ask(PRESET, "one")
    chat, first, second = "They met.", "One page was read.", "Two pages were read."
    standin.script(f'text="{chat}"')
    admin.api.post(f"/api/v1/chats/{sent.chat_id}/compact", {"model": PRESET})
    standin.script(CALL % 1, CALL % 2, f'text="{first}"', CALL % 3, f'text="{second}"', 'text="Done."')
    sent, answer = admin.ask(PRESET, "Read.", after=sent, tool_ids=["pages"])
    admin.ask(PRESET, "And now?", after=sent, tool_ids=["pages"])

    requests = answering(standin)
    texts = [chat, first, second]
    assert host_summaries(standin)[:3] == texts
    assert [counts(request, texts) for request in requests] == [
        [0, 0, 0],
        [1, 0, 0],
        [1, 0, 0],
        [1, 1, 0],
        [1, 0, 1],
        [0, 0, 1],
    ]
    assert "error" not in answer
    assert len({system_of(request) for request in requests}) == 1
    given = {piece for request in requests for piece in reasoning_of(request.output)}
    kept = [len(given.intersection(reasoning_of(request.body["input"]))) for request in requests]
    assert kept == [0, 1, 2, 1, 1, 0]
