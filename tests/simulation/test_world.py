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
        ran = run(stories.draw(seed, SHARE_OF_YEAR))
        assert ran.broken is None, f"{ran.broken}\n" + "\n".join(ran.lines[-50:])
        assert ran.counts["messages"] >= stories.MESSAGES_PER_YEAR * SHARE_OF_YEAR
        asked |= {*ran.judged}
    assert asked == {*re.findall(r"^    (\w+)  ", str(laws.__doc__), re.MULTILINE)}


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
