"""What Open WebUI lists: the offered models, or why there are none, from one base URL and one key.

Joins the catalogue, the test of the key and the administrator's choice. Never waits but for the very first list.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from ..errors import AuthenticationFailed, ConfigurationError
from ..ports import Model
from .account import KEY_PATH, KeyFacts, read_key
from .catalog import Fetch, ModelCatalog
from .last_good import LastGood, Start
from .offer import ZDR, OfferSettings, is_offered, offered_models
from .status import STATUS_ID, Known, Status, find_status

_KEY_FRESH_SECONDS: Final = 300.0
_KEY_WAIT_SECONDS: Final = 1.0
"""How long the very first list waits for the test of the key; it is the slower one only by accident."""
_REPORT_AGE_SECONDS: Final = 10.0
_REPORT_WAIT_SECONDS: Final = 5.0
"""How old what an administrator reads in a chat may be, and how long its answer waits for something newer."""

_log = logging.getLogger(__name__)


class ModelListing:
    """The models of one base URL and one key, as the administrator offers them."""

    def __init__(
        self,
        fetch: Fetch,
        fetch_without_key: Fetch,
        *,
        start: Start,
        base_url: str,
        has_key: bool,
        folder: Path | None = None,
    ) -> None:
        """`fetch` uses the key, `fetch_without_key` does not; `start` owns tasks, `folder` keeps the last lists."""

        async def fetch_list(path: str) -> Any:
            try:
                return await fetch(path)
            except (AuthenticationFailed, ConfigurationError):  # OpenRouter's own lists need no key
                return await fetch_without_key(path)

        self.catalog = ModelCatalog(fetch_list, start=start, base_url=base_url, folder=folder)
        self._has_key = has_key
        self._key = LastGood(
            lambda: fetch(KEY_PATH), self._read_key, start=start, fresh_seconds=_KEY_FRESH_SECONDS
        )
        self._chosen: tuple[object, object, OfferSettings, tuple[Model, ...]] | None = None

    async def offered(self, offer: OfferSettings) -> tuple[Model, ...]:
        """Return the offered models, in the order and with the names that are shown."""
        await self.catalog.list()
        zdr_ids = await self.catalog.zdr_ids() if ZDR in offer.filters.words else None
        models = self.catalog.models
        last = self._chosen
        if last is None or last[0] is not models or last[1] is not zdr_ids or last[2] != offer:
            chosen = offered_models(models.values(), offer, zdr_ids=zdr_ids)
            self._chosen = last = (models, zdr_ids, offer, chosen)
        return last[3]

    async def entries(self, offer: OfferSettings) -> list[dict[str, str]]:
        """Return what Open WebUI lists: `id` and `name` of each; first what is wrong, if anything is."""
        test = self._test_key()
        await self.catalog.load()
        is_first = not self.catalog.models
        offered = await self.offered(offer)
        if test and is_first:
            await asyncio.wait({test}, timeout=_KEY_WAIT_SECONDS)
        entries = [{"id": model.id, "name": model.name} for model in offered]
        status = self._status(offer, offered)
        if status.kind == "ready" and not offer.shows_status:
            return entries
        return [{"id": STATUS_ID, "name": status.name}, *entries]

    async def report(self, offer: OfferSettings, *, is_admin: bool) -> str:
        """Return the answer of the entry in a chat, from what is known now."""
        await self.catalog.load()
        tasks = (
            self.catalog.refresh(max_age_seconds=_REPORT_AGE_SECONDS),
            self._test_key(_REPORT_AGE_SECONDS),
        )
        if running := {task for task in tasks if task}:
            await asyncio.wait(running, timeout=_REPORT_WAIT_SECONDS)
        offered = await self.offered(offer)
        status = self._status(offer, offered)
        return status.answer(self._key.value, model_count=len(offered), is_admin=is_admin)

    def _status(self, offer: OfferSettings, offered: Collection[Model]) -> Status:
        models = self.catalog.models
        known = Known(
            has_key=self._has_key,
            key=self._key.value,
            key_failure=self._key.failure,
            is_listed=bool(models),
            list_failure=self.catalog.failure,
            has_zdr_ids=self.catalog.has_zdr_ids,
            zdr_failure=self.catalog.zdr_failure,
            matched=bool(offered) or any(is_offered(name, offer.patterns) for name in models),
            offered=len(offered),
        )
        return find_status(known, offer)

    def _test_key(self, max_age_seconds: float | None = None) -> asyncio.Task[None] | None:
        return self._key.refresh(max_age_seconds=max_age_seconds) if self._has_key else None

    def _read_key(self, wire: Any) -> KeyFacts | None:
        """Read the key's facts, and log them when the key is first accepted, or again after it was refused."""
        key = read_key(wire)
        if key and (self._key.value is None or self._key.failure):
            _log.info("the API key is accepted. %s", " ".join(key.lines()))
        return key
