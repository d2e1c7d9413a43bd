"""What OpenRouter says of its models and of a key: see `tables.txt`."""

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
from tests.openrouter.test_errors import TABLES
from tests.support.rows import rows

if TYPE_CHECKING:
    from pathlib import Path

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
WIRE = {"data": [ROW]}
DOWN = ConnectionFailed("down")


class FakeSource:
    """Returns the same response to every GET of a path; what is an exception is raised."""

    def __init__(self, models: Any = WIRE, zdr: Any = None) -> None:
        self.models, self.zdr = models, zdr
        self.paths: list[str] = []

    async def __call__(self, path: str) -> Any:
        self.paths.append(path)
        answer = self.zdr if path.endswith("zdr") else self.models
        if isinstance(answer, Exception):
            raise answer
        return answer


def catalog_of(source: FakeSource, base_url: str = "https://a.example", **options: Any) -> ModelCatalog:
    """A catalogue that fetches from the source, in tasks of the running loop."""
    return ModelCatalog(source, start=asyncio.create_task, base_url=base_url, **options)


def test_rows_are_read_with_tolerance() -> None:
    """Nulls, missing fields and wrong types leave a value unknown; only a row without an id is skipped."""
    pricing = {"prompt": "-1", "completion": "x"}
    odd: dict[str, Any] = {"id": "b", "name": None, "pricing": pricing, "top_provider": None}
    absent = {"supported_parameters": None, "reasoning": None}
    wrong = {
        "architecture": [],
        "context_length": True,
        "created": "x",
        "expiration_date": "?",
        "description": 3,
    }
    wire = {"data": [None, 7, {"id": None}, {"id": ""}, {**odd, **absent, **wrong}, odd]}
    assert read_models(wire) == {"b": Model("b", "b")}


@pytest.mark.parametrize(("fields", "reasons"), rows(TABLES, "reasoning models"))
def test_a_model_reasons_if_its_row_says_so_in_any_way(fields: dict[str, Any], *, reasons: bool) -> None:
    """Older rows only list the parameter."""
    assert (read_models({"data": [{"id": "a/m", **fields}]}) or {})["a/m"].reasons is reasons


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
    source, down = FakeSource(zdr={"data": zdr}), FakeSource(models=DOWN, zdr=DOWN)
    first = catalog_of(source, folder=tmp_path)
    assert (await first.rows.current(), source.paths) == ({"a/m": READ}, [MODELS_PATH])
    assert (first.zdr_ids.value, await first.zdr_ids.current()) == (None, both)
    elsewhere = catalog_of(down, "https://b.example", folder=tmp_path)
    again = catalog_of(down, folder=tmp_path)
    assert (await elsewhere.rows.current(), await elsewhere.zdr_ids.current()) == (None, None)
    assert (await again.rows.current(), await again.zdr_ids.current()) == ({"a/m": READ}, both)
    assert (first.rows.fetches, again.rows.fetches, elsewhere.zdr_ids.failure is None) == (1, 0, False)


@pytest.mark.anyio
@pytest.mark.parametrize(("asked", "found"), rows(TABLES, "found models"))
async def test_models_are_found_by_variants_presets_and_aliases(asked: str, found: str | None) -> None:
    """A model is found by its own id, and by its variants, presets and aliases."""
    catalog = catalog_of(FakeSource({"data": [{"id": "a/m"}, {"id": "a/m:free"}, {"id": "~a/latest"}]}))
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


@pytest.mark.parametrize(("wire", "amounts", "more"), rows(TABLES, "keys", {"DATA": DATA}))
def test_a_key_is_read(wire: Any, amounts: list[Any] | None, more: dict[str, Any]) -> None:
    """What is missing or of another type is not known; an answer that says nothing of a key is none."""
    assert read_key(wire) == (None if amounts is None else KeyFacts(*amounts, **more))


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
