"""Two workers on one database, one Redis and one cache folder, whose clocks are twenty minutes apart."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.store.beside import Leases
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from tests.app.chat import (
    LATE,
    MODEL,
    Chat,
    NewChat,
    app_on,
    audit_of,
    received_reasoning_ids,
    sent_reasoning_ids,
    stored_summaries,
    summary_claims,
)
from tests.app.test_summaries import TURNS
from tests.store.fakes import FakeRedis

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

FAST_SECONDS, SLOW_SECONDS = 600.0, -600.0
OFFSET: ContextVar[float] = ContextVar("OFFSET", default=0.0)
"""By how much the clock of the worker is wrong that does this; tasks have that of who started them."""


async def test_clocks_that_differ_by_minutes_cost_nothing(
    tmp_path: Path, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finds what the other has stored and summarized, each request is in the audit, and a lease is one's alone."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + OFFSET.get())
    shared = GuardedRedis(FakeRedis(), prefix="x")
    OFFSET.set(FAST_SECONDS)
    async with app_on(tmp_path, redis=shared, cache_folder=tmp_path) as fast:
        OFFSET.set(SLOW_SECONDS)
        async with app_on(tmp_path, redis=shared, cache_folder=tmp_path) as slow:
            workers = [(FAST_SECONDS, fast), (SLOW_SECONDS, slow)] * 4
            chat = NewChat(fast, standin)(model=MODEL, user_id="ada")
            for number, (seconds, app) in enumerate(workers):
                OFFSET.set(seconds)
                chat.app = app
                answer = await chat.ask(f"[[standin: reasoning=encrypted]] question {number}")
                assert (answer.error, answer.notices) == (None, ())
                assert sent_reasoning_ids(standin) == received_reasoning_ids(standin)[:-1]
                await app.idle()
            long_chat: Chat = NewChat(slow, standin, LATE)().grow(TURNS)
            for seconds, app in workers[:2]:
                OFFSET.set(seconds)
                long_chat.app = app
                assert (await long_chat.ask_next()).error is None
                await app.idle()
            written = await stored_summaries(fast)
            assert written == await stored_summaries(slow) != []
            assert await summary_claims(fast) == []
            assert len(await audit_of(fast)) + len(await audit_of(slow)) >= 2 * len(standin.responses) - len(
                workers
            )
            takers = [(seconds, Leases(app.worker.host.database)) for seconds, app in workers[:2]]
            for order in (takers, takers[::-1]):
                taken = []
                for seconds, lease in order:
                    OFFSET.set(seconds)
                    taken.append(await lease.take("one", 60))
                assert taken == [True, False]
                await order[0][1].release("one")
