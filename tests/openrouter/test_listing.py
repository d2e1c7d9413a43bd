"""What is listed, with fake sources: what the first list waits for, and when the choice is made anew."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import ConnectionFailed
from open_webui_openrouter_pipe.openrouter import listing as module
from open_webui_openrouter_pipe.openrouter.listing import ModelListing
from open_webui_openrouter_pipe.openrouter.offer import OfferSettings, read_filters

pytestmark = pytest.mark.anyio

ZDR = OfferSettings(filters=read_filters(["zdr"]))


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


async def test_the_very_first_list_waits_for_the_test_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever has just set a key sees at once whether it works."""
    monkeypatch.setattr(module, "_KEY_WAIT_SECONDS", 60.0)
    entries = await listing_of(FakeService()).entries(OfferSettings())
    assert [entry["id"] for entry in entries] == ["status", "a/m"]


async def test_a_list_of_those_that_keep_no_data_counts_at_once() -> None:
    """Whatever was chosen while it was not known."""
    service = FakeService()
    listing = listing_of(service)
    before = await listing.offered(ZDR)
    service.zdr = {"data": [{"model_id": "a/m"}]}
    task = listing.catalog._zdr_ids.refresh(max_age_seconds=0)
    assert task is not None
    await task
    assert (before, [model.id for model in await listing.offered(ZDR)]) == ((), ["a/m"])


async def test_the_choice_is_made_once_as_long_as_nothing_changes() -> None:
    """Each request of a user asks what is offered."""
    listing = listing_of(FakeService())
    assert await listing.offered(OfferSettings()) is await listing.offered(OfferSettings())
