"""The catalogue of models."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import ConnectionFailed
from open_webui_openrouter_pipe.openrouter.catalog import (
    ModelCatalog,
    account_digest,
    offered_models,
    read_models,
)
from open_webui_openrouter_pipe.ports import Model

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from pathlib import Path

pytestmark = pytest.mark.anyio

ROW = {
    "id": "a/m",
    "name": "A: M",
    "context_length": 200_000,
    "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
    "pricing": {
        "prompt": "0.000003",
        "completion": "0.000015",
        "input_cache_read": "0.0000003",
        "input_cache_write_1h": "0.000006",
        "web_search": "0.01",
    },
    "description": "Writes.",
    "created": 1_750_000_000,
    "expiration_date": "2027-03-01T00:00:00Z",
    "top_provider": {"context_length": 180_000, "max_completion_tokens": 64_000},
    "supported_parameters": ["tools", "reasoning"],
    "reasoning": {"mandatory": True, "supported_efforts": ["low", "high"]},
}
READ = Model(
    id="a/m",
    name="A: M",
    context_tokens=180_000,
    max_output_tokens=64_000,
    input_modalities=frozenset({"text", "image"}),
    output_modalities=frozenset({"text"}),
    supported_parameters=frozenset({"tools", "reasoning"}),
    price_input=0.000003,
    price_output=0.000015,
    price_cache_read=0.0000003,
    price_cache_write=None,
    reasons=True,
    supported_efforts=("low", "high"),
    description="Writes.",
    created=1_750_000_000,
    expires="2027-03-01",
    price_cache_write_1h=0.000006,
    price_search=0.01,
    reasoning_is_mandatory=True,
)
BARE = Model(
    id="b",
    name="b",
    context_tokens=None,
    max_output_tokens=None,
    input_modalities=frozenset(),
    output_modalities=frozenset(),
    supported_parameters=frozenset(),
    price_input=None,
    price_output=None,
    price_cache_read=None,
    price_cache_write=None,
    reasons=False,
    supported_efforts=None,
)
WIRE = {"data": [ROW]}


class FakeSource:
    """Returns one response after the other, then the last one again; counts the fetches, and can be held up."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.fetches = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> Any:
        self.fetches += 1
        await self.gate.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeClock:
    """A time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def catalog_of(source: FakeSource, **options: Any) -> ModelCatalog:
    """A catalogue that fetches from the source, in tasks of the running loop."""
    return ModelCatalog(source, start=asyncio.create_task, account="x", **options)


def names(models: Iterable[Model]) -> list[str]:
    return [model.id for model in models]


def test_a_row_is_read() -> None:
    """All that the pipe wants to know of a model is taken from its row."""
    assert read_models(WIRE) == (READ,)


def test_rows_are_read_with_tolerance() -> None:
    """Nulls, missing fields and wrong types leave a value unknown; only a row without an id is skipped."""
    odd: dict[str, Any] = {
        "id": "b",
        "name": None,
        "pricing": {"prompt": "-1", "completion": "x"},
        "top_provider": None,
    }
    worse = {
        **odd,
        "architecture": [],
        "supported_parameters": None,
        "context_length": True,
        "reasoning": None,
        "created": "x",
        "expiration_date": "soon",
        "description": 3,
    }
    assert read_models({"data": [None, 7, {"id": None}, {"id": ""}, worse, odd]}) == (BARE,)


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"reasoning": {}}, True),
        ({"supported_parameters": ["reasoning"]}, True),
        ({"supported_parameters": ["include_reasoning"]}, True),
        ({"supported_parameters": ["tools"], "reasoning": None}, False),
    ],
)
def test_a_model_reasons_if_its_row_says_so_in_any_way(fields: dict[str, Any], reasons: bool) -> None:  # noqa: FBT001
    """Older rows only list the parameter."""
    (model,) = read_models({"data": [{"id": "a/m", **fields}]})
    assert model.reasons == reasons


@pytest.mark.parametrize("wire", [None, [], {"data": None}, {"data": {}}, "x"])
def test_a_response_without_rows(wire: Any) -> None:
    """What is not a list of models is an empty one."""
    assert read_models(wire) == ()


async def test_the_first_listing_waits_for_the_answer() -> None:
    """Knowing nothing, the listing waits, so that it is not empty."""
    catalog = catalog_of(FakeSource(WIRE))
    assert await catalog.list() == (READ,)


async def test_the_first_listing_does_not_wait_long() -> None:
    """A server that does not answer leaves the first listing empty, and the fetch goes on."""
    source = FakeSource(WIRE)
    source.gate.clear()
    catalog = catalog_of(source)
    first = await catalog.list(first_wait_seconds=0.01)
    source.gate.set()
    assert (first, await catalog.list(), source.fetches) == ((), (READ,), 1)


async def test_a_kept_list_is_not_a_fetched_one(tmp_path: Path) -> None:
    """What is on disk may be older than what another worker has fetched."""
    path = tmp_path / "models.json"
    assert await catalog_of(FakeSource(WIRE), path=path).list() == (READ,)
    source = FakeSource(WIRE)
    source.gate.clear()
    kept = catalog_of(source, path=path)
    assert (await kept.list(), kept.fetches) == ((READ,), 0)
    source.gate.set()
    task = kept.refresh()
    assert task is not None
    await task
    assert kept.fetches == 1


async def test_later_listings_never_wait() -> None:
    """A stale list is returned at once while the next one is fetched."""
    clock, source = FakeClock(), FakeSource(WIRE, {"data": [{**ROW, "id": "new"}]})
    catalog = catalog_of(source, clock=clock)
    await catalog.list()
    clock.now = 4000.0
    source.gate.clear()
    stale = await catalog.list()
    source.gate.set()
    task = catalog.refresh()
    assert task is not None
    await task
    assert (names(stale), names(await catalog.list()), source.fetches) == (["a/m"], ["new"], 2)


async def test_one_fetch_at_a_time() -> None:
    """Many listings at once make one fetch, and a fresh list none."""
    source = FakeSource(WIRE)
    catalog = catalog_of(source)
    await asyncio.gather(*(catalog.list() for _ in range(20)))
    await catalog.list()
    assert source.fetches == 1


@pytest.mark.parametrize("failure", [ConnectionFailed("down"), {"data": []}, None])
async def test_failures_back_off(failure: Any) -> None:
    """While OpenRouter is unavailable the attempts grow rarer, and the last good list stays."""
    clock, source = FakeClock(), FakeSource(WIRE, failure)
    catalog = catalog_of(source, clock=clock)
    await catalog.list()
    attempts = []
    for seconds in range(4000, 4200, 10):
        clock.now = float(seconds)
        task = catalog.refresh()
        if task:
            attempts.append(seconds)
            await task
    assert (attempts, names(await catalog.list())) == ([4000, 4030, 4090], ["a/m"])


async def test_the_list_survives_a_restart(tmp_path: Path) -> None:
    """The last good list is on disk, and is there at once even if OpenRouter is unavailable."""
    path = tmp_path / "very" / "deep" / "models.json"
    first = catalog_of(FakeSource(WIRE), path=path)
    await first.list()
    second = catalog_of(FakeSource(ConnectionFailed("down")), path=path)
    assert (await second.list(), [entry.name for entry in path.parent.iterdir()]) == (
        (READ,),
        ["models.json"],
    )


@pytest.mark.parametrize(
    "kept",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        json.dumps({"account": "other", "models": WIRE}).encode(),
        b'{"account":"x"}',
    ],
)
async def test_an_unusable_file_is_ignored(tmp_path: Path, kept: bytes) -> None:
    """A corrupt file, or another account's, is as good as none."""
    path = tmp_path / "models.json"
    path.write_bytes(kept)
    catalog = catalog_of(FakeSource(ConnectionFailed("down")), path=path)
    assert await catalog.list() == ()


async def test_an_unwritable_disk_does_no_harm(tmp_path: Path) -> None:
    """A list that cannot be kept is still listed."""
    (tmp_path / "file").write_text("")
    catalog = catalog_of(FakeSource(WIRE), path=tmp_path / "file" / "models.json")
    assert await catalog.list() == (READ,)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("a/m", "a/m"),
        ("a/m:free", "a/m:free"),
        ("a/m:online", "a/m"),
        ("a/m:nitro", "a/m"),
        ("a/m@preset/mine", "a/m"),
        ("a/m:free@preset/mine", "a/m:free"),
        ("~a/m", "a/m"),
        ("a/latest", "~a/latest"),
        ("a/unknown", None),
        ("", None),
    ],
)
async def test_models_are_found_by_variants_presets_and_aliases(asked: str, found: str | None) -> None:
    """A model is found by its own id, and by its variants, presets and aliases."""
    rows = [{"id": "a/m"}, {"id": "a/m:free"}, {"id": "~a/latest"}]
    catalog = catalog_of(FakeSource({"data": rows}))
    await catalog.list()
    model = catalog.find(asked)
    assert (model and model.id) == found


@pytest.mark.parametrize(
    ("patterns", "offered"),
    [
        (["*"], ["a/m", "a/n", "b/m"]),
        (["a/*"], ["a/m", "a/n"]),
        (["!a/*"], ["b/m"]),
        (["*", "!a/*", "a/m"], ["a/m", "b/m"]),
        (["c/*"], []),
    ],
)
def test_the_last_pattern_that_matches_decides(patterns: list[str], offered: list[str]) -> None:
    """A pattern includes, one with an exclamation mark excludes; a list of exclusions alone starts from all."""
    rows = [{"id": "a/m"}, {"id": "a/n"}, {"id": "b/m"}]
    assert names(offered_models(read_models({"data": rows}), patterns)) == offered


def test_models_that_neither_write_nor_draw_are_not_offered() -> None:
    """A video, a recording or a list of numbers is no answer; a model that does not say what it writes is offered."""
    outputs = [["text", "image"], ["image"], None, ["video"], ["audio"], ["embeddings"], ["text", "audio"]]
    rows = [
        {"id": str(number), "architecture": {"output_modalities": output}}
        for number, output in enumerate(outputs)
    ]
    assert names(offered_models(read_models({"data": rows}), ["*"])) == ["0", "1", "2", "6"]


async def test_the_fetch_runs_in_a_task_of_the_owner() -> None:
    """The catalogue begins no task itself, so whoever owns the task can cancel it."""
    started: list[asyncio.Task[None]] = []

    def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        started.append(asyncio.create_task(work))
        return started[-1]

    task = ModelCatalog(FakeSource(WIRE), start=start, account="x").refresh()
    assert started == [task]
    await started[0]


def test_accounts_have_different_digests() -> None:
    """Another key or address is another account, and its digest does not show the key."""
    digests = {account_digest(url, key) for url in ("u", "v") for key in ("sk-1", "sk-2")}
    assert (len(digests), any("sk" in digest for digest in digests)) == (4, False)
