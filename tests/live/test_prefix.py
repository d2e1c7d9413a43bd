"""The beginning of requests in a real Open WebUI, with all that it mixes into them: what breaks it, and its price.

The chat has a preset with a clock and the user's name in its prompt, a skill, memories, a document, a knowledge base,
tools, and those of an MCP server. With `PREFIX_TURNS=200` it is ten times as long; the totals are left in the file
`prefix.json`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.embeddings import embeddings
from tests.support.tool_servers import MCP_TOOL, MCP_TOOLS, call_of, tool_servers
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe", "preset")]

TURNS: Final = int(os.environ.get("PREFIX_TURNS", "20"))
PRESET: Final = "butler"
MODEL: Final = "openrouter.anthropic/claude-sonnet-4.5"
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
AS_BEFORE: Final = {"STEADY_SYSTEM_PROMPT": False}
"""The system prompt is sent as Open WebUI writes it."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a chat; `breaks` are those that nobody announced, by place and cause."""

    turns: int
    requests: int
    input_tokens: int
    cached_share: float
    input_dollars: float
    lost_dollars: float
    breaks: dict[str, int]


@pytest.fixture(scope="module")
def preset(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[None]:
    """A model with a clock in its prompt and a skill, and a host that keeps memories; other tests find none of it."""
    assert MODEL in live_pipe
    api = open_webui.admin.api
    api.post("/api/v1/skills/create", {"id": "manners", "name": "Manners", "content": "Bow first."})
    meta = {"capabilities": {"builtin_tools": False}, "skillIds": ["manners"]}
    form = {"id": PRESET, "base_model_id": MODEL, "name": PRESET, "meta": meta, "params": {"system": PROMPT}}
    api.post("/api/v1/models/create", form)
    api.models()
    for name in NAMES:
        open_webui.add_tool(name, TOOLKIT.format(name=name))
    with embeddings(open_webui), tool_servers(open_webui):
        yield
    api.delete("/api/v1/skills/id/manners/delete")
    api.post("/api/v1/models/model/delete", {"id": PRESET})
    api.set_valves("openrouter", dict.fromkeys(AS_BEFORE))


def converse(host: OpenWebUI, standin: StandIn, *, moves: bool) -> Totals:
    """A long chat whose clock goes on and whose memories grow, or stand still."""
    standin.reset()
    page = host.admin.upload("house.txt", b"The house has nine rooms. " * 5, "text/plain")
    base = knowledge_base(host)
    sent = None
    for turn in range(TURNS):
        if moves and turn % 3 == 2:
            host.admin.api.post("/api/v1/memories/add", {"content": f"Has {turn} cats.", "type": "user"})
        clock = f"2026-11-{1 + turn // 24 if moves else 1:02} {turn % 24 if moves else 0:02}:00:00"
        call = CALLS.get(turn % 5, "")
        sent, _ = host.admin.ask(
            PRESET,
            f"{call}What time is it? {turn} {'word ' * 100}",
            after=sent,
            variables={"{{CURRENT_DATETIME}}": clock, "{{USER_NAME}}": "Ada"},
            features={"memory": True},
            tool_ids=[MCP_TOOLS, *(NAMES if turn % 2 else reversed(NAMES))],
            **({"files": [page, base]} if turn == 0 else {}),
        )
    assert sent is not None
    requests = [each for each in standin.responses if each.body.get("tools")]
    assert {each.status for each in requests} == {200}
    assert len({json.dumps(each.body["tools"]) for each in requests}) == 1
    rows = audited(host, sent.chat_id, len(requests))
    usages = [each.usage for each in requests if each.usage]
    tokens = sum(usage["input_tokens"] for usage in usages)
    cached = sum(usage["input_tokens_details"]["cached_tokens"] for usage in usages)
    return Totals(
        turns=TURNS,
        requests=len(requests),
        input_tokens=tokens,
        cached_share=round(cached / tokens, 4),
        input_dollars=round(
            sum(usage["cost_details"]["upstream_inference_input_cost"] for usage in usages), 4
        ),
        lost_dollars=round(sum(cost for _, _, cost in rows), 4),
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
    chosen = "SELECT break_position, break_cause, lost_cost FROM openrouter_pipe_audit WHERE chat_id = ?"
    with closing(sqlite3.connect(f"file:{host.data}/webui.db?mode=ro", uri=True)) as connection:
        rows = partial(connection.execute, chosen, [chat_id])
        wait_until(lambda: len(rows().fetchall()) >= count)
        return rows().fetchall()


@pytest.fixture(scope="module")
def still(open_webui: OpenWebUI, standin_session: StandIn, preset: None) -> Totals:
    """The totals of the chat with a clock that stands still."""
    return converse(open_webui, standin_session, moves=False)


def leave(artifacts: Path, **totals: Totals) -> None:
    """Leave the totals in the file."""
    file = artifacts / "prefix.json"
    earlier = json.loads(file.read_text("utf-8")) if file.exists() else {}
    found = {name: asdict(each) for name, each in totals.items()}
    file.write_text(json.dumps({**earlier, **found}, indent=2), "utf-8")


def test_every_break_is_found_named_and_priced(
    open_webui: OpenWebUI, standin: StandIn, still: Totals, artifacts: Path
) -> None:
    """With a still clock nothing is found; with one that moves, every turn, by name and price.

    The administrator has a line for each cause, and no more of them.
    """
    open_webui.admin.api.set_valves("openrouter", AS_BEFORE)
    moving = converse(open_webui, standin, moves=True)
    leave(artifacts, still=still, moving=moving)
    assert still.breaks == {}
    assert moving.breaks.keys() == {"instructions: clock", "instructions: memory"}
    assert sum(moving.breaks.values()) == TURNS - 1
    assert moving.cached_share < 0.6 * still.cached_share
    # what was reckoned is what the provider billed more
    more = moving.input_dollars - still.input_dollars
    assert moving.lost_dollars == pytest.approx(more, rel=0.15)
    log = open_webui.log.read_text("utf-8", "replace")
    lines = [line for line in log.splitlines() if "begins otherwise than the last one of its chat" in line]
    assert [sum(f"Cause '{cause}'" in line for line in lines) for cause in ("clock", "memory")] == [1, 1]
    assert "cats" not in "".join(lines)


def test_a_steady_prompt_breaks_nothing(
    open_webui: OpenWebUI, standin: StandIn, still: Totals, artifacts: Path
) -> None:
    """With a clock that moves and memories that grow, nothing is found, and nine tenths are cached of what could be."""
    open_webui.admin.api.set_valves("openrouter", {"STEADY_SYSTEM_PROMPT": True})
    steady = converse(open_webui, standin, moves=True)
    leave(artifacts, still=still, steady=steady)
    assert steady.breaks == {}
    assert steady.cached_share >= 0.9 * still.cached_share
