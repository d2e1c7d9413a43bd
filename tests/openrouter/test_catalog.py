"""What OpenRouter says of its models and of a key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import ConnectionFailed
from open_webui_openrouter_pipe.openrouter.catalog import (
    MODELS_PATH,
    KeyFacts,
    ModelCatalog,
    read_key,
    read_models,
    read_zdr_ids,
)
from open_webui_openrouter_pipe.ports import Model

if TYPE_CHECKING:
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
    "canonical_slug": "a/m-2026",
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
    reasons=True,
    supported_efforts=("low", "high"),
    description="Writes.",
    created=1_750_000_000,
    expires="2027-03-01",
    price_cache_write_1h=0.000006,
    price_search=0.01,
    reasoning_is_mandatory=True,
    canonical_id="a/m-2026",
)
BARE = Model("b", "b")
WIRE = {"data": [ROW]}


class FakeSource:
    """Returns the same response to every GET of a path; what is an exception is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"models": WIRE, **answers}
        self.paths: list[str] = []

    async def __call__(self, path: str) -> Any:
        self.paths.append(path)
        answer = self.answers["zdr" if path.endswith("zdr") else "models"]
        if isinstance(answer, Exception):
            raise answer
        return answer


def catalog_of(source: FakeSource, base_url: str = "https://a.example", **options: Any) -> ModelCatalog:
    """A catalogue that fetches from the source, in tasks of the running loop."""
    return ModelCatalog(source, start=asyncio.create_task, base_url=base_url, **options)


def test_a_row_is_read() -> None:
    """All that the pipe wants to know of a model is taken from its row."""
    assert read_models(WIRE) == {"a/m": READ}


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
    assert read_models({"data": [None, 7, {"id": None}, {"id": ""}, worse, odd]}) == {"b": BARE}


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
    models = read_models({"data": [{"id": "a/m", **fields}]})
    assert models
    assert models["a/m"].reasons == reasons


@pytest.mark.parametrize("wire", [None, [], {"data": None}, {"data": {}}, "x"])
def test_a_response_without_rows(wire: Any) -> None:
    """What is not a list of models is none."""
    assert read_models(wire) is None


async def test_models_are_listed() -> None:
    """All of them, from one fetch."""
    source = FakeSource()
    assert (await catalog_of(source).rows.current(), source.paths) == ({"a/m": READ}, [MODELS_PATH])


async def test_the_lists_survive_a_restart_and_belong_to_their_address(tmp_path: Path) -> None:
    """Both are on disk; those of another address are not shown, and a way back finds the first ones again."""
    zdr = {"data": [{"model_id": "a/m"}]}
    first = catalog_of(FakeSource(zdr=zdr), folder=tmp_path)
    await first.rows.current()
    await first.zdr_ids.current()
    down = FakeSource(models=ConnectionFailed("down"), zdr=ConnectionFailed("down"))
    elsewhere = catalog_of(down, "https://b.example", folder=tmp_path)
    again = catalog_of(down, folder=tmp_path)
    assert (await elsewhere.rows.current(), await elsewhere.zdr_ids.current()) == (None, None)
    assert await again.rows.current() == {"a/m": READ}
    assert await again.zdr_ids.current() == frozenset({"a/m"})
    assert (first.rows.fetches, again.rows.fetches) == (1, 0)


@pytest.mark.parametrize(
    "wire", [None, {"data": []}, {"data": [{"model_id": None}, 3]}, {"data": {"a/m": 1}}]
)
def test_a_list_that_names_no_model_is_none(wire: Any) -> None:
    """It is not the answer of the service, so nothing is known."""
    assert read_zdr_ids(wire) is None


async def test_the_list_of_those_that_keep_no_data_is_read_when_it_is_wanted() -> None:
    """By its names, each once; while it cannot be had nothing is known."""
    rows = [{"model_id": "a/m"}, {"model_id": "a/m", "tag": "other"}, {"model_id": "b/n-2026"}]
    catalog = catalog_of(FakeSource(zdr={"data": rows}))
    assert catalog.zdr_ids.value is None
    assert await catalog.zdr_ids.current() == frozenset({"a/m", "b/n-2026"})
    unknown = catalog_of(FakeSource(zdr=ConnectionFailed("down"))).zdr_ids
    assert (await unknown.current(), unknown.failure is not None) == (None, True)


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
    catalog = catalog_of(FakeSource(models={"data": rows}))
    await catalog.rows.current()
    model = catalog.find(asked)
    assert (model and model.id) == found


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
FACTS = KeyFacts(
    limit=10,
    remaining=3.206,
    used=1234.5,
    used_this_month=6.794,
    used_today=0.1,
    resets="monthly",
    expires="2027-01-01T00:00:00Z",
)
NOTHING = KeyFacts(None, None, None, None, None)


@pytest.mark.parametrize(
    ("wire", "facts"),
    [
        ({"data": DATA}, FACTS),
        ({"data": {"label": "x", "limit": "none", "limit_reset": 3, "is_free_tier": "yes"}}, NOTHING),
        ({"data": {"is_free_tier": True}}, KeyFacts(None, None, None, None, None, is_free_tier=True)),
        ({"data": {}}, None),
        ({"data": []}, None),
        ([], None),
        (None, None),
    ],
)
def test_a_key_is_read(wire: Any, facts: KeyFacts | None) -> None:
    """What is missing or of another type is not known; an answer that says nothing of a key is none."""
    assert read_key(wire) == facts


@pytest.mark.parametrize(("remaining", "used_up"), [(None, False), (0.01, False), (0.0, True), (-0.2, True)])
def test_a_key_is_used_up_when_nothing_is_left(remaining: float | None, used_up: bool) -> None:  # noqa: FBT001
    """One without a limit never is."""
    assert KeyFacts(10, remaining, 10, 1, 1).is_used_up is used_up


def test_an_administrator_reads_what_a_key_may_spend() -> None:
    """In dollars; its label is left to OpenRouter's own page."""
    assert FACTS.lines() == [
        "The API key has used $1,234.50: $6.79 this month, $0.10 today.",
        "Its limit is $10.00 a month; $3.21 are left.",
        "It expires at 2027-01-01T00:00:00Z.",
    ]
    assert KeyFacts(None, None, 0, 0, 0, is_free_tier=True).lines() == [
        "The API key has used $0.00: $0.00 this month, $0.00 today.",
        "It has no limit of its own; the account's credits limit it.",
        (
            "No credits have been bought yet: only free models can be used, with few requests a day. Credits are at "
            "https://openrouter.ai/settings/credits."
        ),
    ]
