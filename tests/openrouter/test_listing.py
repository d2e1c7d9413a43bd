"""What is listed, and what stands in the list when something is wrong, and answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from open_webui_openrouter_pipe import errors
from open_webui_openrouter_pipe.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    PipeError,
)
from open_webui_openrouter_pipe.openrouter import listing as module
from open_webui_openrouter_pipe.openrouter.catalog import FetchFailure, KeyFacts
from open_webui_openrouter_pipe.openrouter.listing import (
    Kind,
    Known,
    ModelListing,
    Status,
    find_status,
    status_answer,
)
from open_webui_openrouter_pipe.openrouter.offer import OfferSettings, read_filters
from open_webui_openrouter_pipe.responses.effects import ItemFinished, TextDelta
from tests.openrouter.test_errors import TABLES
from tests.support.rows import rows

NOON = datetime(2026, 11, 22, 12, 4, tzinfo=UTC)
KEY = KeyFacts(10, 4, 6, 3, 1)
WELL = Known(
    has_key=True,
    key=KEY,
    key_failure=None,
    is_listed=True,
    list_failure=None,
    has_zdr_ids=True,
    zdr_failure=None,
    matched=True,
    offered=7,
)
NOTHING = replace(WELL, key=None, is_listed=False, has_zdr_ids=False, matched=False, offered=0)
ZDR = OfferSettings(filters=read_filters(["zdr"]))


def failed(error: type[PipeError]) -> FetchFailure:
    return FetchFailure(error("said"), NOON)


@pytest.mark.parametrize(("error", "kind"), rows(TABLES, "failed lists"))
def test_a_list_that_cannot_be_had_says_why(error: str, kind: Kind) -> None:
    """And since when; a list that is known, however old, is no trouble."""
    failure = failed(getattr(errors, error))
    assert find_status(replace(NOTHING, list_failure=failure), OfferSettings()) == Status(kind, NOON)
    assert find_status(replace(WELL, list_failure=failure), OfferSettings()) == Status("ready")


@pytest.mark.parametrize(("error", "kind"), rows(TABLES, "failed keys"))
def test_a_key_is_in_trouble_when_it_is_refused(error: str, kind: Kind) -> None:
    """Whatever else keeps it from being tested says nothing of the key."""
    known = replace(WELL, key_failure=failed(getattr(errors, error)))
    assert find_status(known, OfferSettings()).kind == kind


@pytest.mark.parametrize(
    ("known", "offer", "status"),
    [
        (WELL, OfferSettings(), Status("ready")),
        (NOTHING, OfferSettings(), Status("loading")),
        (replace(WELL, has_key=False), OfferSettings(), Status("no_key")),
        (replace(NOTHING, has_key=False), OfferSettings(), Status("no_key")),
        (replace(WELL, key=replace(KEY, remaining=0)), OfferSettings(), Status("key_used_up")),
        (replace(WELL, offered=0, matched=False), OfferSettings(), Status("unmatched")),
        (replace(WELL, offered=0), OfferSettings(), Status("filtered")),
        (replace(WELL, has_zdr_ids=False), OfferSettings(), Status("ready")),
        (replace(WELL, has_zdr_ids=False, offered=0), ZDR, Status("zdr_unknown")),
        (WELL, ZDR, Status("ready")),
        (
            replace(WELL, offered=0),
            OfferSettings(filters=read_filters(["zrd", "x", "free"])),
            Status("unknown_filter", words=("zrd", "x")),
        ),
        (WELL, OfferSettings(unknown_variants=("a/m",)), Status("unknown_variant", words=("a/m",))),
        (
            replace(NOTHING, has_key=False, list_failure=failed(ConfigurationError)),
            OfferSettings(),
            Status("address", NOON),
        ),
        (
            replace(NOTHING, key_failure=failed(AuthenticationFailed), list_failure=failed(ConnectionFailed)),
            OfferSettings(),
            Status("key_refused"),
        ),
    ],
)
def test_of_several_troubles_the_first_to_solve_is_shown(
    known: Known, offer: OfferSettings, status: Status
) -> None:
    """The address, then the key, then the list, then what the filters leave."""
    assert find_status(known, offer) == status


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_entry_says_to_everybody_what_to_do(kind: Kind) -> None:
    """Its name is one line; an administrator reads what to do, and the key's limits, a user neither."""
    status = Status(kind, NOON, ("zrd",))
    answer = status.answer(KEY, model_count=7, is_admin=True)
    assert status.name.startswith("OpenRouter: ")
    assert len(status.name) < 90
    assert "\n" not in status.name
    counted = "- Models offered: 7.\n" if kind in ("ready", "unknown_variant") else ""
    assert f"\n\n{counted}- The API key has used $6.00" in answer
    assert not status.answer(None, model_count=7, is_admin=True).endswith("\n")
    said = status.answer(KEY, model_count=7, is_admin=False)
    assert not any(word in said for word in ("$", "API_KEY", "BASE_URL", "valve", "zrd"))


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (Status("no_key"), "OpenRouter: no API key yet (set API_KEY in the valves)"),
        (Status("unreachable", NOON), "OpenRouter: unreachable since 2026-11-22 12:04 UTC"),
        (
            Status("unknown_filter", words=("zrd", "sk-or-v1-0123456789abcdef0123456789abcdef")),
            "OpenRouter: wrong MODEL_FILTERS (unknown: zrd, [redacted])",
        ),
        (Status("unknown_filter", words=("x" * 500,)), None),
    ],
)
def test_the_name_says_what_is_wrong(status: Status, name: str | None) -> None:
    """Everybody may see it: a word is shown in part, and a key that was put into the wrong valve not at all."""
    assert status.name == name if name else len(status.name) < 100


@pytest.mark.parametrize(("kind", "user_line"), rows(TABLES, "lines for users"))
def test_users_read_whether_to_wait_or_whom_to_ask(kind: Kind, user_line: str) -> None:
    """They cannot change a valve."""
    assert Status(kind, NOON).answer(None, model_count=1, is_admin=False) == user_line


def test_an_answer_is_whole() -> None:
    """Its text is streamed and stands in the finished item."""
    started, delta, finished, end = status_answer("Wait.", "msg_1")
    assert (type(started).__name__, type(end).__name__) == ("ItemStarted", "ResponseFinished")
    assert delta == TextDelta(0, 0, "Wait.")
    assert isinstance(finished, ItemFinished)
    assert finished.item["content"] == [{"type": "output_text", "text": "Wait.", "annotations": []}]  # type: ignore[typeddict-item]


# --- what is listed, with fake sources


class FakeService:
    """Answers each path; the test of the key comes only after the list, and `zdr` is what that list holds."""

    def __init__(self) -> None:
        self.listed = asyncio.Event()
        self.zdr: Any = ConnectionFailed("down")

    async def __call__(self, path: str) -> Any:
        if path == "/key":
            await self.listed.wait()
            await asyncio.sleep(0.05)
            return {"data": {"limit": 1, "limit_remaining": 0}}
        if path.endswith("zdr"):
            if isinstance(self.zdr, Exception):
                raise self.zdr
            return self.zdr
        self.listed.set()
        return {"data": [{"id": "a/m"}]}


def listing_of(service: FakeService) -> ModelListing:
    """A listing that fetches from the service, in tasks of the running loop."""
    return ModelListing(
        service, service, start=asyncio.create_task, base_url="https://a.example", has_key=True
    )


@pytest.mark.anyio
async def test_the_very_first_list_waits_for_the_test_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever has just set a key sees at once whether it works."""
    monkeypatch.setattr(module, "_KEY_WAIT_SECONDS", 60.0)
    entries = await listing_of(FakeService()).entries(OfferSettings())
    assert [entry["id"] for entry in entries] == ["status", "a/m"]


@pytest.mark.anyio
async def test_a_list_of_those_that_keep_no_data_counts_at_once() -> None:
    """Whatever was chosen while it was not known."""
    service = FakeService()
    listing = listing_of(service)
    before = await listing.offered(ZDR)
    service.zdr = {"data": [{"model_id": "a/m"}]}
    task = listing.catalog.zdr_ids.refresh(max_age_seconds=0)
    assert task is not None
    await task
    assert (before, [model.id for model in await listing.offered(ZDR)]) == ((), ["a/m"])


@pytest.mark.anyio
async def test_the_choice_is_made_once_as_long_as_nothing_changes() -> None:
    """Each request of a user asks what is offered."""
    listing = listing_of(FakeService())
    assert await listing.offered(OfferSettings()) is await listing.offered(OfferSettings())
