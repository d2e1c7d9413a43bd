"""What a turn makes the real host do, beside its own connection and the shortest possible pipe: counts, no times."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING

import pytest

from scripts.benchmarks._upstream import directive
from scripts.benchmarks.host import MODELS, Host
from scripts.harness.openwebui import Sent
from scripts.launch.process import printing_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live

TURNS = 8
"""Beside some of them the host reads the chat once more, by chance: the fewest count."""
WRITES = ("UPDATE chat", "UPDATE chat_message", "INSERT chat_message")


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A host with the three kinds of models."""
    with printing_server("scripts.benchmarks._upstream") as base_url, Host(base_url) as host:
        for kind in MODELS:
            host.ask(kind, directive(deltas=1))
        yield host


@pytest.fixture(scope="module")
def statements(host: Host) -> dict[str, Counter[str]]:
    """What the database gets for one plain turn of each kind, without what happens beside some of them."""
    found: dict[str, list[Counter[str]]] = {kind: [] for kind in MODELS}
    for _ in range(TURNS):
        for kind, each in found.items():
            before = host.statements()
            ask(host, kind)
            each.append(host.statements(before))
    return {kind: reduce(lambda one, other: one & other, each) for kind, each in found.items()}


def ask(host: Host, kind: str, after: Sent | None = None) -> tuple[Sent, int]:
    """Send a message; return it, and how many events the page gets until the host has ended the turn."""
    host.page.events.clear()
    sent = host.ask(kind, directive(deltas=1), after=after)
    host.page.wait_for("chat:active", 2)
    return sent, len(host.page.events)


def test_a_plain_answer_writes_no_chat_more_often(statements: dict[str, Counter[str]]) -> None:
    """Each status line would: the host stores it by reading and writing the whole chat."""
    own, ours = ({name: statements[kind][name] for name in WRITES} for kind in ("own", "ours"))
    assert 0 not in own.values()
    assert ours == own


def test_a_turn_reads_what_the_host_reads_for_each_pipe(statements: dict[str, Counter[str]]) -> None:
    """Beside the shortest one its valves, the user's, and who may use a model that has a row; nothing of its own."""
    more = statements["ours"] - statements["floor"]
    read = {name: count for name, count in more.items() if name.startswith("SELECT")}
    assert read == {"SELECT function": 1, "SELECT user": 1, "SELECT access_grant": 2}


def test_a_turn_sends_the_page_no_more_events(host: Host) -> None:
    """In a chat that goes on: one for the beginning, the text and the end each, where its own connection has nine."""
    counts = dict[str, int]()
    for kind in ("own", "ours"):
        first, _ = ask(host, kind)
        _, counts[kind] = ask(host, kind, first)
    assert counts == {"own": 15, "ours": 11}
