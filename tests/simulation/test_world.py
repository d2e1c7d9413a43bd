"""A seed is a whole world: the same run in every process, with every law kept; and one that is broken becomes short."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.money.limits import AccountLimit
from open_webui_openrouter_pipe.store import bills
from open_webui_openrouter_pipe.store.sweep import Sweep
from open_webui_openrouter_pipe.store.table import SqlRows
from scripts.paths import ROOT
from scripts.simulation import laws
from scripts.simulation import story as stories
from scripts.simulation.seeds import write_short
from scripts.simulation.world import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from open_webui_openrouter_pipe.store.schema import SealedRow
    from scripts.harness.servers import RedisServer

SHARE_OF_YEAR = 0.006
"""Some twenty-five messages."""
STORIES = sorted((Path(__file__).parent / "stories").glob("*.json"))


STEP = {"user": 0, "model": "standin/small", "worker": 0, "chat": -1, "words": 9, "number": 7, "orders": ""}
CALLS = '[[standin: call=look_up args={"size": 30, "about": "north"}]]'


def told(*steps: dict[str, Any], **valves: Any) -> dict[str, Any]:
    """A story of one user, one step a moment."""
    moments = [{"after": 5000.0, "seed": at, "steps": [STEP | step]} for at, step in enumerate(steps)]
    return {"seed": 1, "users": 2, "workers": 1, "valves": valves, "moments": moments}


def digest_of(seed: int, hash_seed: str) -> str:
    """What a run of its own process prints first."""
    command = [sys.executable, "-m", "scripts.simulation", "--seed", str(seed), "--years", str(SHARE_OF_YEAR)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.split()[2]


def test_a_seed_gives_the_same_log_in_every_process() -> None:
    """Neither the order of sets nor memory addresses, the time of day or the machine's randomness have a part in it."""
    first, second, other = digest_of(3, "1"), digest_of(3, "77"), digest_of(4, "1")
    assert first == second != other


def test_every_law_is_asked_and_holds_in_a_share_of_a_year() -> None:
    """Much longer runs are those of `./scripts/simulate`."""
    asked = set[str]()
    for seed in (101, 102):
        story = stories.draw(seed, SHARE_OF_YEAR)
        gone = {"act": "depart", "user": 1}
        more = told({"act": "remember"}, gone, {"act": "ask"}, {"act": "ask"})["moments"]
        more[2]["after"] = more[3]["after"] = 4 * 86_400.0
        story["moments"] += more
        story["valves"] |= {"SPENDING_LIMITS": "user: 0.02/day"} if seed == 102 else {}
        ran = run(story)
        assert ran.broken is None, f"{ran.broken}\n" + "\n".join(ran.lines[-50:])
        assert ran.counts["messages"] >= stories.MESSAGES_PER_YEAR * SHARE_OF_YEAR
        asked |= {*ran.judged}
    assert asked == {*re.findall(r"^    (\w+)  ", str(laws.__doc__), re.MULTILINE)}


@pytest.mark.parametrize("mode", ["host", "pipe"])
def test_a_world_has_its_tools_run_where_its_valve_says(mode: str) -> None:
    """By the host between two calls, or by the pipe within one; a chat then goes on in the same way."""
    story = told({"act": "tools", "orders": CALLS}, {"act": "ask", "number": 8}, TOOL_EXECUTION=mode)
    ran = run(story)
    assert ran.broken is None, ran.broken
    by = {name: ran.counts.get(f"tools_by_{name}", 0) for name in ("host", "pipe")}
    assert by == {"host": 0, "pipe": 0} | {mode: 1}


def test_a_world_whose_limit_is_reached_refuses_to_send_more() -> None:
    """Neither answers nor titles; the law has looked at each answer."""
    steps = [{"act": "ask", "number": number, "words": 300} for number in range(4)]
    story = told(*(step | {"user": 1} for step in steps), SPENDING_LIMITS="user: 0.0001/day")
    ran = run(story, keeps_all=True)
    assert ran.broken is None, ran.broken
    assert sum(" answer " in line and "is used up" in line for line in ran.lines) == 3
    assert ran.judged["limit"] == 4  # one request, and three refusals


def test_limits_that_do_not_hold_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world in which every request may begin is none in order."""
    monkeypatch.setattr(bills, "may_begin", lambda *_: True)
    monkeypatch.setattr(AccountLimit, "is_reached", property(lambda _: False))
    steps = [{"act": "ask", "number": number, "words": 300, "user": 1} for number in range(2)]
    ran = run(told(*steps, SPENDING_LIMITS="user: 0.0001/day"))
    assert ran.broken is not None
    assert ran.broken.law == "limit"


def test_what_a_killed_worker_has_held_must_become_a_bill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its estimate is held until somebody writes it; where it is forgotten instead, that is found."""
    slow = {"act": "ask", "user": 1, "orders": "[[standin: deltas=20]] [[standin: delay=0.3]]"}
    steps = [slow | {"number": number} for number in (1, 2)]
    story = told(*steps, SPENDING_LIMITS="user: 9/day")
    story["moments"][0]["faults"] = [{"kind": "kill", "worker": "w0", "turns": 250}]
    ran = run(story)
    assert (ran.broken, ran.counts["kills"]) == (None, 1)
    monkeypatch.setattr(bills, "read_bill", lambda _: None)
    ran = run(story)
    assert ran.broken is not None
    assert ran.broken.law == "bill"


def test_rows_of_a_deleted_user_that_are_not_swept_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked for when they are due."""

    async def nothing(*_: object) -> None:
        """Sweep no table."""

    days = [0, 0, 4, 4]
    story = told(
        *({"act": act, "user": user} for act, user in (("tools", 1), ("depart", 1), ("ask", 0), ("ask", 0)))
    )
    for moment, count in zip(story["moments"], days, strict=True):
        moment["after"] += count * 86_400.0
    ran = run(story)
    assert (ran.broken, ran.judged["gone"]) == (None, 2)  # of the user, and of their chat
    monkeypatch.setattr(Sweep, "_sweep_table", nothing)
    ran = run(story)
    assert ran.broken is not None
    assert ran.broken.law == "gone"


def test_a_worker_that_has_not_seen_that_it_is_to_quote_need_not() -> None:
    """Another one must: what is asked for there was not sent word for word."""
    small = {"model": "mistralai/mistral-small-8k"}
    asked = [small | {"act": "ask", "number": 30_000_004 + at, "words": 2_000} for at in range(4)]
    remember = small | {"act": "remember", "number": 4}  # what the first one says
    story = told(*asked, remember, remember | {"worker": 1})
    story["workers"] = 2
    story["moments"][4]["faults"] = [{"kind": "settings", "worker": "w0", "valves": {"RECALL": False}}]
    ran = run(story)
    assert (ran.broken, ran.judged["recall"]) == (None, 1)


@pytest.mark.servers
def test_the_laws_hold_on_real_servers(postgres_url: str, redis_server: RedisServer) -> None:
    """There a seed need not repeat."""
    ran = run(stories.draw(5, SHARE_OF_YEAR), servers=(postgres_url, redis_server.url))
    assert ran.broken is None, f"{ran.broken}\n" + "\n".join(ran.lines[-50:])


@pytest.mark.parametrize("path", STORIES, ids=[path.stem for path in STORIES])
def test_what_once_broke_a_law_keeps_it(path: Path) -> None:
    """Each story is that of a defect."""
    ran = run(json.loads(path.read_text("utf-8")))
    assert ran.broken is None, f"{ran.broken}\n" + "\n".join(ran.lines[-50:])


def test_a_broken_law_is_found_and_its_story_is_short(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows that are never written leave markers behind that name nothing: one message is enough to show that."""

    async def lost(self: SqlRows, rows: Sequence[SealedRow]) -> None:
        """Forget them."""

    monkeypatch.setattr(SqlRows, "put", lost)
    told = stories.draw(5, SHARE_OF_YEAR)
    ran = run(told)
    assert ran.broken is not None
    assert ran.broken.law == "marker"
    short: dict[str, Any] = json.loads(write_short(tmp_path, 5, told, ran).read_text("utf-8"))
    assert [len(moment["steps"]) for moment in short["moments"]] == [1]
    assert len(told["moments"]) > 5
