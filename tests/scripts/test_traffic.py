"""What counts a turn's messages, and what says how a stage grows."""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate

import pytest

from scripts.benchmarks import traffic
from scripts.benchmarks.scale import LEAST_SECONDS, exponents
from scripts.benchmarks.traffic import read_postgres, read_redis
from scripts.paths import ROOT


def message(kind: bytes, text: bytes = b"") -> bytes:
    """A message of PostgreSQL's protocol; those that begin a connection have no letter."""
    return kind + (len(text) + 4).to_bytes(4, "big") + text


POSTGRES = (
    message(b"", b"\0\3\0\0user\0postgres\0\0"),
    message(b"Q", b"\0"),
    message(b"Q", b"BEGIN\0"),
    message(b"P", b"\0SELECT 1\0\0\0") + message(b"B", b"x" * 300) + message(b"E", b"\0\0\0\0\0"),
    message(b"S"),
    message(b"Q", b"ROLLBACK\0"),
    message(b"Q", b"show x\0"),
)


def test_messages_to_postgresql_are_counted_wherever_they_are_cut() -> None:
    """A statement executed or sent as it is, a transaction, a ping, and whatever is waited for."""
    sent = b"".join(POSTGRES)
    for cut in {0, 1, 3, 40, len(sent) - 2, *accumulate(map(len, POSTGRES))}:
        first, rest = read_postgres(sent[:cut])
        second, left = read_postgres(rest + sent[cut:])
        assert left == b""
        assert Counter(first + second) == {"round_trips": 5, "pings": 1, "transactions": 1, "statements": 2}


def test_commands_to_redis_are_counted_wherever_they_are_cut() -> None:
    """By their names, whatever the values look like."""
    sent = b"*2\r\n$4\r\nMGET\r\n$1\r\nk\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n*1\r\n$4\r\nPI\r\n"
    for cut in range(len(sent)):
        first, rest = read_redis(sent[:cut])
        second, left = read_redis(rest + sent[cut:])
        assert (left, Counter(first + second)) == (b"", {"commands": 2, "MGET": 1, "SET": 1})


@pytest.mark.servers
def test_a_turn_sends_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """On real servers, by the rows of the page that a short chat can show."""
    monkeypatch.setattr(traffic, "LONG_TURNS", 24)
    found = traffic.run()
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    rows = {"plain": "plain", "with a tool, so of two requests": "tool"}
    rows |= {"plain, under limits of the user and of all": "limits"}
    for words, name in rows.items():
        said = re.search(rf"^\| {words} \| (\d+), (\d+), (\d+) \| .* KB \| (\d+) \|", page, re.MULTILINE)
        database, cache = found[name]["postgresql"], found[name]["redis"]
        counted = [database[each] for each in ("statements", "transactions", "round_trips")]
        assert said, words
        assert [*map(int, said.groups())] == [*counted, cache["commands"]], name


def test_an_exponent_is_that_of_the_power() -> None:
    """Of all four sizes and of the last doubling; of a short time there is none."""
    sizes = [1, 2, 4, 8]
    assert exponents(sizes, [1.0, 4.0, 16.0, 64.0]) == {"exponent": 2.0, "last": 2.0}
    assert exponents(sizes, [1.0, 1.0, 1.0, 2.0])["last"] == 1.0
    assert exponents(sizes, [0.1, 0.1, 0.1, LEAST_SECONDS / 2]) == {}
