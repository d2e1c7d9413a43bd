"""What OpenRouter says of its models and of a key, when that is fetched, and what is kept of it."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import ConnectionFailed, ModelNotFound
from open_webui_openrouter_pipe.openrouter import catalog
from open_webui_openrouter_pipe.openrouter.catalog import (
    LISTS,
    MODELS_PATH,
    KeyFacts,
    LastGood,
    read_key,
    read_models,
    read_zdr_ids,
    with_gone,
)
from open_webui_openrouter_pipe.openrouter.listing import ModelListing
from open_webui_openrouter_pipe.ports import Model, other_model
from tests.openrouter.test_errors import TABLES
from tests.support.rows import rows

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 11, 22, 12, 4, tzinfo=UTC)
DOWN = ConnectionFailed("down")
OLD, NEW = {"data": "old"}, {"data": "new"}


class FakeSource:
    """Returns one response after the other, then the last one again; those of a path by itself; can be held up."""

    def __init__(self, *answers: Any, zdr: Any = None, **beside: Any) -> None:
        """`beside` are the lists of endpoints, which are not there by default."""
        self.answers, self.zdr, self.beside = list(answers), zdr, beside
        self.paths: list[str] = []
        self.asked_beside: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, path: str = "") -> Any:
        if path in LISTS.values():
            return self._beside(path)
        self.paths.append(path)
        await self.gate.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer = self.zdr if path.endswith("zdr") else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _beside(self, path: str) -> Any:
        name = path.split("/")[1]
        self.asked_beside.append(name)
        answer = self.beside.get(name, ModelNotFound("not there"))
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeClock:
    """A time that stands still until it is moved."""

    now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The time that the catalogue goes by."""
    found = FakeClock()
    day = SimpleNamespace(now=lambda _zone: NOON + timedelta(seconds=found.now))
    monkeypatch.setattr(catalog, "monotonic", lambda: found.now)
    monkeypatch.setattr(catalog, "datetime", day)
    return found


def last_good(source: FakeSource, path: Path | None = None) -> LastGood[str]:
    """One that reads the answer's text."""

    def read(wire: Any) -> str | None:
        return wire.get("data") if isinstance(wire, dict) else None

    return LastGood(source, read, start=asyncio.create_task, path=path)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.anyio
async def test_only_the_first_callers_wait_and_not_for_long(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Knowing nothing, they wait for the one fetch; a stale answer is returned at once while the next is fetched."""
    source = FakeSource(OLD, NEW)
    answers = last_good(source)
    source.gate.clear()
    monkeypatch.setattr(catalog, "FIRST_WAIT_SECONDS", 0.01)
    first = await answers.current()
    clock.now = 0.02
    monkeypatch.setattr(catalog, "FIRST_WAIT_SECONDS", 1e6)
    second = await asyncio.wait_for(answers.current(), timeout=10)
    source.gate.set()
    await (answers.refresh() or pytest.fail("nothing is fetched"))
    assert (first, second, await answers.current(), len(source.paths)) == (None, None, "old", 1)
    clock.now = 4000.0
    source.gate.clear()
    stale = await answers.current()
    source.gate.set()
    await (answers.refresh() or pytest.fail("nothing is fetched"))
    assert (stale, await answers.current(), len(source.paths)) == ("old", "new", 2)


@pytest.mark.anyio
async def test_many_callers_at_once_make_one_fetch() -> None:
    """All wait for it, and a fresh answer is not fetched again."""
    source = FakeSource(OLD)
    answers = last_good(source)
    assert await asyncio.gather(*(answers.current() for _ in range(20))) == ["old"] * 20
    assert (await answers.current(), len(source.paths)) == ("old", 1)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answers", "max_age_seconds", "attempts"), rows(TABLES, "attempts", {"OLD": OLD, "DOWN": DOWN})
)
async def test_an_answer_is_fetched_when_it_is_due(
    clock: FakeClock, answers: list[Any], max_age_seconds: float | None, attempts: dict[str, Any]
) -> None:
    """Attempts that fail grow rarer until one succeeds; the last good answer stays, and the failure says since when."""
    kept = last_good(FakeSource(*answers))
    made: dict[str, Any] = {}
    for seconds in range(0, int([*attempts][-1]) + 1, 10):
        clock.now = float(seconds)
        if task := kept.refresh(max_age_seconds=max_age_seconds):
            await task
            failure = kept.failure
            since = [type(failure.error).__name__, (failure.since - NOON).seconds] if failure else None
            made[str(seconds)] = since
    assert (made, kept.value) == (attempts, "old")


@pytest.mark.anyio
async def test_the_answer_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last good one is on disk, and is there at once even if OpenRouter is unavailable."""
    path = tmp_path / "very" / "deep" / "models-a.json"
    await last_good(FakeSource(OLD), path).current()
    source = FakeSource(DOWN)
    source.gate.clear()
    monkeypatch.setattr(catalog, "FIRST_WAIT_SECONDS", 1e6)
    assert await asyncio.wait_for(last_good(source, path).current(), timeout=10) == "old"
    source.gate.set()
    assert names_in(path.parent) == ["models-a.json"]


@pytest.mark.anyio
@pytest.mark.parametrize("kept", [b"", b"{", b"[]", b"null", b"\xff"])
async def test_an_unusable_file_is_ignored(tmp_path: Path, kept: bytes) -> None:
    """A corrupt one is as good as none."""
    path = tmp_path / "models-a.json"
    path.write_bytes(kept)
    assert await last_good(FakeSource(DOWN), path).current() is None


@pytest.mark.anyio
async def test_an_unwritable_disk_does_no_harm(tmp_path: Path) -> None:
    """An answer that cannot be kept is still used."""
    (tmp_path / "file").write_text("")
    answers = last_good(FakeSource(OLD), tmp_path / "file" / "models-a.json")
    assert await answers.current() == "old"


@pytest.mark.anyio
async def test_only_so_many_files_are_kept(tmp_path: Path) -> None:
    """Of one kind the four that were written last; other files stay."""
    (tmp_path / "zdr-x.json").write_text("")
    for number, name in enumerate("abcde"):
        path = tmp_path / f"models-{name}.json"
        path.write_text("")
        os.utime(path, (number, number))
    answers = last_good(FakeSource(OLD), tmp_path / "models-f.json")
    await (answers.refresh() or pytest.fail("nothing is fetched"))
    assert names_in(tmp_path) == [*(f"models-{name}.json" for name in "cdef"), "zdr-x.json"]


# --- the catalogue


def catalog_of(source: FakeSource, base_url: str = "https://a.example", **options: Any) -> ModelListing:
    """A catalogue that fetches from the source, in tasks of the running loop."""
    start = asyncio.create_task
    return ModelListing(source, source, start=start, base_url=base_url, api_key="", **options)


@pytest.mark.parametrize("wire", [None, [], {"data": None}, {"data": {}}, "x", {"data": {"a/m": 1}}])
def test_a_response_without_rows_is_no_list(wire: Any) -> None:
    """Neither of models nor of those that keep no data; of these an empty one is none either."""
    assert (read_models(wire), read_zdr_ids(wire)) == (None, None)
    assert [read_zdr_ids({"data": each}) for each in ([], [{"model_id": None}, 3])] == [None, None]


@pytest.mark.anyio
async def test_the_lists_survive_a_restart_and_belong_to_their_address(tmp_path: Path) -> None:
    """Each is fetched once, when it is wanted, and kept; another address has its own, or knows nothing."""
    zdr = [{"model_id": "a/m"}, {"model_id": "a/m", "tag": "other"}, {"model_id": "b/n-2026"}]
    both = frozenset({"a/m", "b/n-2026"})
    source, down = FakeSource({"data": [{"id": "a/m"}]}, zdr={"data": zdr}), FakeSource(DOWN, zdr=DOWN)
    first = catalog_of(source, folder=tmp_path)
    assert (await first.rows.current(), source.paths) == ({"a/m": Model("a/m", "a/m")}, [MODELS_PATH])
    assert (first.zdr_ids.value, await first.zdr_ids.current()) == (None, both)
    elsewhere = catalog_of(down, "https://b.example", folder=tmp_path)
    again = catalog_of(down, folder=tmp_path)
    assert (await elsewhere.rows.current(), await elsewhere.zdr_ids.current()) == (None, None)
    assert (await again.rows.current(), await again.zdr_ids.current()) == ({"a/m": Model("a/m", "a/m")}, both)
    assert (first.rows.fetches, again.rows.fetches, elsewhere.zdr_ids.failure is None) == (1, 0, False)


VIDEOS = {"data": [{"id": "v/film", "name": "V: Film"}, {"id": "a/m", "name": "not this one"}]}


def endpoints_in(listing: ModelListing) -> dict[str, str]:
    return {model.id: model.endpoint for model in listing.models.values() if not model.gone_since}


@pytest.mark.anyio
async def test_lists_beside_the_models_neither_empty_nor_hide_the_others(tmp_path: Path) -> None:
    """One that fails stays as it was, also after a restart; one that is not there is asked for once."""
    source = FakeSource({"data": [{"id": "a/m"}]}, videos=VIDEOS)
    listing = catalog_of(source, folder=tmp_path)
    await listing.rows.current()
    known = {"a/m": "responses", "v/film": "videos"}
    assert (endpoints_in(listing), listing.models["v/film"].row["name"]) == (known, "V: Film")
    assert (listing.models["v/film"].writes, listing.models["a/m"].name) == (False, "a/m")
    source.beside["videos"] = DOWN
    await (listing.rows.refresh(max_age_seconds=0) or pytest.fail("nothing is fetched"))
    assert (endpoints_in(listing), source.asked_beside) == (known, ["videos", "images", "videos"])
    restarted = catalog_of(source, folder=tmp_path)
    await restarted.rows.load()
    await (restarted.rows.refresh(max_age_seconds=0) or pytest.fail("nothing is fetched"))
    assert (restarted.rows.fetches, endpoints_in(restarted)) == (1, known)
    source.beside["videos"] = {"data": []}
    await (restarted.rows.refresh(max_age_seconds=0) or pytest.fail("nothing is fetched"))
    assert (endpoints_in(restarted), restarted.models["v/film"].endpoint) == ({"a/m": "responses"}, "videos")


@pytest.mark.anyio
async def test_what_is_listed_no_more_is_remembered_for_a_while(tmp_path: Path, clock: FakeClock) -> None:
    """With the day since when, also after a restart, until it is listed again or the days are over."""
    both: Any = {"data": [{"id": "a/m"}, {"id": "a/n", "name": "A: N"}]}
    one = {"data": [{"id": "a/m"}]}
    day_seconds = 24 * 3600.0
    found = []
    for wire, day in [(both, 0), (one, 1), (one, 2), (both, 3), (one, 4), (DOWN, 5), (one, 93), (one, 94)]:
        clock.now = day * day_seconds
        known = catalog_of(FakeSource(wire), folder=tmp_path).rows
        await (known.refresh() or pytest.fail("nothing is fetched"))
        again = await catalog_of(FakeSource(DOWN), folder=tmp_path).rows.current()
        assert wire is DOWN or known.value == again
        left = (again or {}).get("a/n")
        found.append(left and (left.name, left.gone_since))
    gone = [("A: N", f"2026-11-{day}") for day in (23, 26)]
    assert found == [("A: N", ""), gone[0], gone[0], ("A: N", ""), gone[1], gone[1], gone[1], None]


@pytest.mark.parametrize(
    "kept", [None, [], "x", {"data": 3, "gone": 4}, {"data": [3], "gone": [None, {"id": 5}]}]
)
def test_what_was_kept_may_be_anything(kept: Any) -> None:
    """Of it nothing is read then; nor is anything put into a response that lists nothing."""
    (model,) = (read_models(with_gone({"data": [{"id": "a/m"}]}, kept)) or {}).values()
    assert model.id == "a/m"
    assert with_gone({"data": []}, {"data": [{"id": "a/m"}]}) == {"data": []}


FOUND_AMONG = [
    {"id": "a/m", "canonical_slug": "a/m-20260101"},
    {"id": "a/m:free", "canonical_slug": "a/m-20260101"},
    {"id": "~a/latest"},
]


@pytest.mark.anyio
@pytest.mark.parametrize(("asked", "found"), rows(TABLES, "found models"))
async def test_models_are_found_by_variants_presets_and_aliases(asked: str, found: str | None) -> None:
    """A model is found by its own id, and by its variants, presets and aliases."""
    listed = catalog_of(FakeSource({"data": FOUND_AMONG}))
    await listed.rows.current()
    model = listed.find(asked)
    assert (model and model.id) == found


@pytest.mark.anyio
@pytest.mark.parametrize(("asked", "served", "named"), rows(TABLES, "other models"))
async def test_another_model_than_the_one_that_was_asked_for_is_named(
    asked: str, served: str, named: str
) -> None:
    """By its own id; a model's dated name is the model."""
    listed = catalog_of(FakeSource({"data": FOUND_AMONG}))
    await listed.rows.current()
    assert other_model(asked, served, listed.find) == named


# --- a key

DATA = {
    "label": "sk-or-v1-abc...xyz",
    "limit": 10,
    "limit_remaining": 3.206,
    "limit_reset": "monthly",
    "usage": 1234.5,
    "usage_monthly": 6.794,
    "usage_daily": 0.1,
    "is_free_tier": False,
    "expires_at": "2027-01-01T00:00:00Z",
}


def test_a_key_is_used_up_when_nothing_is_left() -> None:
    """One without a limit never is."""
    used_up = [KeyFacts(10, remaining, 10, 1, 1).is_used_up for remaining in (None, 0.01, 0.0, -0.2)]
    assert used_up == [False, False, True, True]


def test_an_administrator_reads_what_a_key_may_spend() -> None:
    """In dollars; its label is left to OpenRouter's own page."""
    facts = read_key({"data": DATA})
    assert facts
    assert facts.lines() == [
        "The API key has used $1,234.50: $6.79 this month, $0.10 today.",
        "Its limit is $10.00 a month; $3.21 are left.",
        "It expires at 2027-01-01T00:00:00Z.",
    ]
    assert KeyFacts(None, None, 0, 0, 0, is_free_tier=True).lines() == [
        "The API key has used $0.00: $0.00 this month, $0.00 today.",
        "It has no limit of its own; the account's credits limit it.",
        (
            "No credits have been bought yet: only free models can be used, with few requests a day. "
            "Credits are at https://openrouter.ai/settings/credits."
        ),
    ]
