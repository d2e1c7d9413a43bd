"""What Open WebUI lists: the offered models, or why there are none, from one base URL and one key.

Joins the catalogue, the test of the key and the administrator's choice. Never waits but for the very first list. Owns
the entry that says what is wrong: the lines about each kind of trouble are named after it.
"""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from ..errors import (
    AccessDenied,
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    ModelNotFound,
    NotOpenRouter,
    PipeError,
    RequestRejected,
)
from ..ports import Model
from ..words.lines import listed, notice
from .catalog import (
    KEY_PATH,
    MODELS_PATH,
    OF_ACCOUNT,
    OWN_MODELS_PATH,
    ZDR_PATH,
    Fetch,
    FetchFailure,
    KeyFacts,
    LastGood,
    ListsBeside,
    Start,
    has_rows,
    read_key,
    read_models,
    read_zdr_ids,
    with_gone,
)
from .offer import (
    ZDR,
    OfferSettings,
    default_model,
    gone_models,
    is_offered,
    nearest_model,
    offered_models,
)
from .problems import (
    MOST_PROBLEMS,
    NO_CHECKS,
    Checks,
    NamedModels,
    Problem,
    nearest,
    unknown_word,
)

STATUS_ID: Final = "status"
"""The id of the entry; OpenRouter's own ids have a slash."""

Kind = Literal[
    "address",
    "no_key",
    "key_unusable",
    "key_refused",
    "key_used_up",
    "not_openrouter",
    "unreachable",
    "failing",
    "loading",
    "zdr_unknown",
    "unmatched",
    "filtered",
    "settings",
    "ready",
]

_PASSING: Final[frozenset[Kind]] = frozenset({"unreachable", "failing", "loading", "zdr_unknown"})
"""Troubles that may be over soon; with any other an administrator has to help."""
_WITH_MODELS: Final[frozenset[Kind]] = frozenset({"ready", "settings"})
"""When the offered models can be used, so that it helps to know how many they are."""
_LIST_FAILURES: Final[tuple[tuple[type[PipeError] | tuple[type[PipeError], ...], Kind], ...]] = (
    (ConfigurationError, "address"),
    (AuthenticationFailed, "key_refused"),
    (ConnectionFailed, "unreachable"),
    ((NotOpenRouter, ModelNotFound, RequestRejected), "not_openrouter"),
    (PipeError, "failing"),
)
_WITHOUT_OWN_LIST: Final = (
    AccessDenied,
    AuthenticationFailed,
    ConfigurationError,
    ModelNotFound,
    NotOpenRouter,
    RequestRejected,
)
"""Where a key has no list of its own, for want of a right or of the address, that of all models is read."""
_NO_MODELS: Final[Mapping[str, Model]] = MappingProxyType({})
_NAME_CHARACTERS: Final = 60
"""Of what is wrong with a setting, in the name of the entry: the page shows less of it."""
_KEY_FRESH_SECONDS: Final = 300.0
_KEY_WAIT_SECONDS: Final = 1.0
"""How long the very first list waits for the test of the key; it is the slower one only by accident."""
_REPORT_AGE_SECONDS: Final = 10.0
_REPORT_WAIT_SECONDS: Final = 5.0
"""How old what an administrator reads in a chat may be, and how long its answer waits for something newer."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Status:
    """How things stand: "ready", or what is wrong, since when, and what is wrong with settings."""

    kind: Kind = "ready"
    since: datetime | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """The name of the entry, of which the page shows about 28 characters: what is wrong, then what to do."""
        return notice("status_entry", status=self._line(f"status_{self.kind}"))

    def answer(self, key: KeyFacts | None, *, model_count: int, is_admin: bool) -> str:
        """Return what the entry answers: to users only whether to wait or whom to ask."""
        if not is_admin:
            wait_or_ask = "wait" if self.kind in _PASSING else "ask"
            return notice(f"status_for_users_{'ready' if self.kind in _WITH_MODELS else wait_or_ask}")
        offers = [notice("status_models", count=model_count)] if self.kind in _WITH_MODELS else []
        advice = [] if self.kind == "settings" else [self._line(f"status_{self.kind}_advice")]
        wrong = listed(each.line for each in self.problems)
        facts = listed([*offers, *(key.lines() if key else ())])
        heading = [notice("problems"), wrong] if wrong else []
        paragraphs = [each for each in (*advice, *heading, facts) if each]
        return notice("joined", lines=paragraphs, separator="\n\n")

    def _line(self, name: str) -> str:
        since = f"{self.since:%Y-%m-%d %H:%M} UTC" if self.since else ""
        valve, what, _ = self.problems[0] if self.problems else ("", "", "")
        return notice(
            name, since=since, valve=valve, what=what.replace("`", "")[:_NAME_CHARACTERS].rstrip(".")
        )


def _list_trouble(failure: FetchFailure | None) -> Status:
    """Why there is no list of models, not even an old one."""
    if failure is None:
        return Status("loading")
    kind = next(kind for errors, kind in _LIST_FAILURES if isinstance(failure.error, errors))
    return Status(kind, failure.since)


def _names(models: Mapping[str, Model]) -> set[str]:
    """What a valve may name: models, and all of a maker."""
    return {*models, *(f"{name.partition('/')[0]}/*" for name in models)}


def _file(folder: Path | None, kind: str, *names: str) -> Path | None:
    """Where the last list of a kind is kept for these names; no name can be read from it."""
    digest = hashlib.sha256("\n".join(filter(None, names)).encode("utf-8", "surrogatepass"))
    return folder / f"{kind}-{digest.hexdigest()}.json" if folder else None


class _Chosen(NamedTuple):
    """What is offered, and what was before it left the list; by the lists and the choice that this follows from."""

    models: Mapping[str, Model]
    zdr_ids: object
    offer: OfferSettings
    offered: tuple[Model, ...]
    gone: tuple[Model, ...]


class ModelListing:
    """What OpenRouter says to one base URL and one key, and what the administrator offers of it.

    `rows` are the models by their ids, another object after each successful fetch, `zdr_ids` the names of those that
    some endpoint serves without keeping data, and `key` is what the key may spend, None where there is no key. With a
    key, the models are those that its account's settings let answer. The last good lists are on disk, and there after
    a restart; each key has its own.
    """

    def __init__(
        self,
        fetch: Fetch,
        fetch_without_key: Fetch,
        *,
        start: Start,
        base_url: str,
        api_key: str,
        folder: Path | None = None,
    ) -> None:
        """`fetch` uses the key, `fetch_without_key` does not; `start` owns tasks, `folder` keeps the last lists."""

        async def fetch_list(path: str) -> Any:
            try:
                return await fetch(path)
            except (AuthenticationFailed, ConfigurationError):  # OpenRouter's own lists need no key
                return await fetch_without_key(path)

        async def fetch_models() -> Any:
            main: Any = None
            if api_key:
                with suppress(*_WITHOUT_OWN_LIST):
                    main = await fetch(OWN_MODELS_PATH)
            main = {**main, OF_ACCOUNT: True} if has_rows(main) else await fetch_list(MODELS_PATH)
            return {**main, **await beside.joined(main["data"])} if has_rows(main) else main

        beside = ListsBeside(fetch_list)
        models = _file(folder, "models", base_url, api_key)
        self.rows = LastGood(fetch_models, read_models, start=start, path=models, join=with_gone)
        zdr = _file(folder, "zdr", base_url)
        self.zdr_ids = LastGood(partial(fetch_list, ZDR_PATH), read_zdr_ids, start=start, path=zdr)
        key = LastGood(
            partial(fetch, KEY_PATH), self._read_key, start=start, fresh_seconds=_KEY_FRESH_SECONDS
        )
        self.key = key if api_key else None
        self._chosen: _Chosen | None = None
        self._unmatched: tuple[object, tuple[NamedModels, ...], tuple[Problem, ...]] | None = None

    @property
    def models(self) -> Mapping[str, Model]:
        """The models by their ids, empty while none is known."""
        return self.rows.value or _NO_MODELS

    def find(self, model_id: str) -> Model | None:
        """Return a model by its id or canonical id; variants (`:free`, `@preset/x`) and `~` aliases have a base."""
        plain = model_id.partition("@")[0]
        base = plain.partition(":")[0]
        names = (model_id, plain, base, base.removeprefix("~"), f"~{base}")
        found = next(filter(None, map(self.models.get, names)), None)
        dated = (row for row in self.models.values() if row.canonical_id in {plain, base} - {""})
        return found or min(dated, key=lambda row: (row.gone_since, len(row.id)), default=None)

    def _lists(self, model_id: str) -> bool:
        """Whether a model is there, and not gone."""
        model = self.find(model_id)
        return bool(model and not model.gone_since)

    async def offered(self, offer: OfferSettings) -> tuple[Model, ...]:
        """Return the offered models, in the order and with the names that are shown."""
        await self.rows.current()
        zdr_ids = await self.zdr_ids.current() if ZDR in offer.filters.words else None
        models, last = self.models, self._chosen
        if last is None or last.models is not models or last.zdr_ids is not zdr_ids or last.offer != offer:
            listed = [model for model in models.values() if not model.gone_since]
            chosen = offered_models(listed, offer, zdr_ids=zdr_ids)
            self._chosen = last = _Chosen(models, zdr_ids, offer, chosen, gone_models(models.values(), offer))
        return last.offered

    async def gone(self, offer: OfferSettings) -> tuple[Model, ...]:
        """Return the models that would be offered if OpenRouter listed them still, each with the day since when."""
        await self.offered(offer)
        return self._chosen.gone if self._chosen else ()

    def unmatched(self, named: tuple[NamedModels, ...]) -> tuple[Problem, ...]:
        """Return which of the models that valves name are not there; none while the list is not known."""
        models, last = self.models, self._unmatched
        if last is None or last[0] is not models or last[1] != named:
            listed = {name: model for name, model in models.items() if not model.gone_since}
            missing = (
                unknown_word(each.valve, name, near=nearest(name, _names(listed)), takes=each.takes)
                for each in (named if listed else ())
                for name in each.names
                if not (
                    fnmatch.filter(listed, name.removeprefix("!")) if each.are_patterns else self._lists(name)
                )
            )
            self._unmatched = last = (models, named, tuple(islice(missing, MOST_PROBLEMS)))
        return last[2]

    async def entries(self, offer: OfferSettings, checks: Checks = NO_CHECKS) -> list[dict[str, str]]:
        """Return what Open WebUI lists: `id` and `name` of each; first what is wrong, if anything is."""
        test = self.key.refresh() if self.key else None
        await self.rows.load()
        is_first = not self.models
        offered = await self.offered(offer)
        if test and is_first:
            await asyncio.wait({test}, timeout=_KEY_WAIT_SECONDS)
        entries = [{"id": model.id, "name": model.name} for model in offered]
        status = self.status(offer, offered=len(offered), checks=checks)
        if status.kind == "ready" and not offer.shows_status:
            return entries
        return [{"id": STATUS_ID, "name": status.name}, *entries]

    async def report(self, offer: OfferSettings, checks: Checks = NO_CHECKS, *, is_admin: bool) -> str:
        """Return the answer of the entry in a chat, from what is known now."""
        await self.rows.load()
        asked = (each.refresh(max_age_seconds=_REPORT_AGE_SECONDS) for each in (self.rows, self.key) if each)
        if running := {task for task in asked if task}:
            await asyncio.wait(running, timeout=_REPORT_WAIT_SECONDS)
        offered = await self.offered(offer)
        count, key = len(offered), self.key.value if self.key else None
        status = self.status(offer, offered=count, checks=checks)
        report = status.answer(key, model_count=count, is_admin=is_admin)
        proposed = default_model(offered) if is_admin and status.kind in _WITH_MODELS else None
        if proposed is None:
            return report
        price = (proposed.prices.input or 0.0) * 1_000_000
        facts = {"name": proposed.name, "input": price, "tokens": proposed.context_tokens}
        proposal = notice(
            "sentences", first=notice("default_needed"), second=notice("default_proposed", **facts)
        )
        return notice("joined", lines=(report, proposal), separator="\n\n")

    async def replacement(self, gone: Model, offer: OfferSettings) -> str:
        """Return the answer of the entry of a model that is not listed any more: which one to take."""
        nearest = nearest_model(gone, await self.offered(offer))
        name = "model_gone_take" if nearest else "model_gone_none"
        return notice(name, name=gone.name, date=gone.gone_since, other=nearest.name if nearest else "")

    def status(self, offer: OfferSettings, *, offered: int, checks: Checks = NO_CHECKS) -> Status:
        """Return how things stand with so many models offered: of several troubles the first to solve."""
        wrong = (*checks.problems, *self.unmatched(checks.models))
        trouble = next(self._troubles(offer, offered), Status("settings" if wrong else "ready"))
        return replace(trouble, problems=wrong)

    def _troubles(self, offer: OfferSettings, offered: int) -> Iterator[Status]:
        """What is wrong, in the order in which an administrator has to solve it."""
        of_list = None if self.models else _list_trouble(self.rows.failure)
        if of_list and of_list.kind == "address":
            yield of_list
        refusal = self.key.failure.error if self.key and self.key.failure else None
        if self.key is None:
            yield Status("no_key")
        if isinstance(refusal, AuthenticationFailed | ConfigurationError):
            yield Status("key_refused" if isinstance(refusal, AuthenticationFailed) else "key_unusable")
        if of_list:
            yield of_list
        if ZDR in offer.filters.words and self.zdr_ids.value is None:
            failure = self.zdr_ids.failure
            yield Status("zdr_unknown", failure.since if failure else None)
        if not offered:
            listed = [name for name, model in self.models.items() if not model.gone_since]
            is_matched = any(is_offered(name, offer.patterns) for name in listed)
            yield Status("filtered" if is_matched else "unmatched")
        if self.key and self.key.value and self.key.value.is_used_up:
            yield Status("key_used_up")

    def _read_key(self, wire: Any) -> KeyFacts | None:
        """Read the key's facts, and log them when the key is first accepted, or again after it was refused."""
        key = read_key(wire)
        if key and self.key and (self.key.value is None or self.key.failure):
            _log.info("the API key is accepted. %s", " ".join(key.lines()))
        return key
