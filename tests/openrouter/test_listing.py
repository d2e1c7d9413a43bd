"""What is listed, and what stands in the list when something is wrong, and answers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from open_webui_openrouter_pipe.openrouter import listing as module
from open_webui_openrouter_pipe.openrouter.catalog import (
    LISTS,
    MODELS_PATH,
    OWN_MODELS_PATH,
    ZDR_PATH,
    KeyFacts,
)
from open_webui_openrouter_pipe.openrouter.listing import Kind, ModelListing, Status
from open_webui_openrouter_pipe.openrouter.offer import OfferSettings, read_filters
from open_webui_openrouter_pipe.openrouter.problems import (
    Checks,
    NamedModels,
    Problem,
    example,
    unknown_word,
)
from open_webui_openrouter_pipe.responses.effects import ItemFinished, TextDelta, answer_of

NOON = datetime(2026, 11, 22, 12, 4, tzinfo=UTC)
KEY = KeyFacts(10, 4, 6, 3, 1)
WRONG = unknown_word("MODEL_FILTERS", "zrd", near="zdr", takes=example("free"))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_entry_says_to_everybody_what_to_do(kind: Kind) -> None:
    """Its name is one line; an administrator reads what to do, and the key's limits, a user neither."""
    status = Status(kind, NOON, (WRONG,))
    answer = status.answer(KEY, model_count=7, is_admin=True)
    assert status.name.startswith("OpenRouter: ")
    assert len(status.name) < 90
    assert "\n" not in status.name
    counted = "- Models offered: 7.\n" if kind in ("ready", "settings") else ""
    assert f"\n\n- {WRONG.line}\n\n{counted}- The API key has used $6.00" in answer
    assert not status.answer(None, model_count=7, is_admin=True).endswith("\n")
    said = status.answer(KEY, model_count=7, is_admin=False)
    assert not any(word in said for word in ("$", "API_KEY", "BASE_URL", "valve", "zrd"))


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (Status("no_key"), "OpenRouter: no API key yet (set API_KEY in the valves)"),
        (Status("unreachable", NOON), "OpenRouter: unreachable since 2026-11-22 12:04 UTC"),
        (
            Status("settings", None, (WRONG, WRONG)),
            "OpenRouter: wrong MODEL_FILTERS (zrd is not known; did you mean zdr?)",
        ),
        (
            Status("settings", None, (unknown_word("MODELS", "sk-or-v1-0123456789abcdef0123456789abcdef"),)),
            "OpenRouter: wrong MODELS ([redacted] is not known)",
        ),
        (
            Status("settings", None, (unknown_word("MODELS", "`x" * 500),)),
            "OpenRouter: wrong MODELS (" + "'x" * 20 + "… is not known)",
        ),
    ],
)
def test_the_name_says_what_is_wrong(status: Status, name: str) -> None:
    """Everybody may see it: a word is shown in part, and a key that was put into the wrong valve not at all."""
    assert status.name == name


def test_an_answer_is_whole() -> None:
    """Its text is streamed and stands in the finished item."""
    started, delta, finished, end = answer_of("Wait.", "msg_1")
    assert (type(started).__name__, type(end).__name__) == ("ItemStarted", "ResponseFinished")
    assert delta == TextDelta(0, 0, "Wait.")
    assert isinstance(finished, ItemFinished)
    assert finished.item["content"] == [{"type": "output_text", "text": "Wait.", "annotations": []}]  # type: ignore[typeddict-item]


# --- what is listed


def listing_of(answers: dict[str, Any], *, has_key: bool = True, folder: Path | None = None) -> ModelListing:
    """A listing that fetches these answers by their paths; the test of the key ends only after the list came."""
    listed = asyncio.Event()

    async def fetch(path: str) -> Any:
        if path == "/key":
            await listed.wait()
            await asyncio.sleep(0.05)
        listed.set()
        return answers.get(path, {"data": [] if path in LISTS.values() else [{"id": "a/m"}]})

    key = "k" * has_key
    return ModelListing(
        fetch, fetch, start=asyncio.create_task, base_url="https://a", api_key=key, folder=folder
    )


@pytest.mark.anyio
async def test_the_very_first_list_waits_for_the_test_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever has just set a key sees at once whether it works."""
    monkeypatch.setattr(module, "_KEY_WAIT_SECONDS", 60.0)
    used_up = {"/key": {"data": {"limit": 1, "limit_remaining": 0}}}
    entries = await listing_of(used_up).entries(OfferSettings())
    assert [entry["id"] for entry in entries] == ["status", "a/m"]


@pytest.mark.anyio
async def test_the_choice_is_made_once_as_long_as_nothing_changes() -> None:
    """Each request of a user asks what is offered; a list of those that keep no data counts at once."""
    zdr = OfferSettings(filters=read_filters(["zdr"]))
    answers: dict[str, Any] = {ZDR_PATH: {"data": []}}
    listing = listing_of(answers)
    before = await listing.offered(zdr)
    assert (before, await listing.offered(zdr) is before) == ((), True)
    answers[ZDR_PATH] = {"data": [{"model_id": "a/m"}]}
    await (listing.zdr_ids.refresh(max_age_seconds=0) or pytest.fail("nothing is fetched"))
    assert [model.id for model in await listing.offered(zdr)] == ["a/m"]


NAMED = (
    NamedModels("MODELS", ("b/*", "!a/m", "A/m", "anthropc/*"), "Example.", are_patterns=True),
    NamedModels("SUMMARY_MODEL", ("a/m:nitro", "a/m2")),
)


@pytest.mark.anyio
async def test_models_in_valves_that_are_not_in_the_list_are_named() -> None:
    """With what is close to them; a model may be named with a variant, and while no list is known nothing is said."""
    listing = listing_of({OWN_MODELS_PATH: {"data": [{"id": "a/m"}, {"id": "anthropic/x"}]}})
    before = listing.unmatched(NAMED)
    entries = await listing.entries(OfferSettings(), Checks(models=NAMED))
    assert entries[0]["name"] == "OpenRouter: wrong MODELS (b/* is not known; did you mean a/*?)"
    assert (before, listing.unmatched(NAMED)) == (
        (),
        (
            unknown_word("MODELS", "b/*", near="a/*", takes="Example."),
            unknown_word("MODELS", "A/m", near="a/m", takes="Example."),
            unknown_word("MODELS", "anthropc/*", near="anthropic/*", takes="Example."),
            unknown_word("SUMMARY_MODEL", "a/m2", near="a/m"),
        ),
    )
    assert listing.unmatched(NAMED) is listing.unmatched(NAMED)


@pytest.mark.anyio
async def test_a_model_that_is_gone_is_none_that_a_valve_may_name(tmp_path: Path) -> None:
    """By whatever name; and patterns that only it matches are those that match nothing."""
    answers: dict[str, Any] = {
        OWN_MODELS_PATH: {"data": [{"id": "a/m"}, {"id": "a/old", "canonical_slug": "a/m-1"}]}
    }
    named = (
        NamedModels("SUMMARY_MODEL", ("a/old", "a/m-1")),
        NamedModels("MODELS", ("a/o*",), are_patterns=True),
    )
    listing = listing_of(answers, folder=tmp_path)
    offer = OfferSettings(patterns=("a/old",))
    assert (await listing.entries(offer), listing.unmatched(named)) == (
        [{"id": "a/old", "name": "a/old"}],
        (),
    )
    answers[OWN_MODELS_PATH] = {"data": [{"id": "a/m"}, {"id": "a/new", "canonical_slug": "a/m-1"}]}
    await (listing.rows.refresh(max_age_seconds=0) or pytest.fail("nothing is fetched"))
    assert [each.what for each in listing.unmatched(named)] == [
        "`a/old` is not known.",
        "`a/o*` is not known; did you mean `a/*`?",
    ]
    assert [model.id for model in await listing.gone(offer)] == ["a/old"]
    assert listing.status(offer, offered=0).kind == "unmatched"


@pytest.mark.anyio
async def test_what_an_account_may_not_use_is_not_gone(tmp_path: Path) -> None:
    """While the account's own list cannot be had, that of all models stands in for it."""
    own, rows = {"data": [{"id": "a/m"}]}, {"data": [{"id": "a/m"}, {"id": "a/other"}]}
    answers: dict[str, Any] = {OWN_MODELS_PATH: own, MODELS_PATH: rows}
    listing, found = listing_of(answers, folder=tmp_path), []
    for answer in (own, {}, own, {"data": [{"id": "b/m"}]}):
        answers[OWN_MODELS_PATH] = answer
        await (listing.rows.refresh(max_age_seconds=0) or pytest.fail("nothing is fetched"))
        offered = [model.id for model in await listing.offered(OfferSettings())]
        found.append((offered, [model.id for model in await listing.gone(OfferSettings())]))
    assert found == [(["a/m"], []), (["a/m", "a/other"], []), (["a/m"], []), (["b/m"], ["a/m"])]


@pytest.mark.anyio
async def test_what_is_wrong_with_settings_comes_after_what_keeps_models_away() -> None:
    """In the name of the entry; its answer has all of it."""
    listing = listing_of({}, has_key=False)
    checks = Checks((Problem("RECALL", "it is wrong."),))
    entries = await listing.entries(OfferSettings(), checks)
    assert [each["name"].partition(" (")[0] for each in entries] == ["OpenRouter: no API key yet", "a/m"]
    answer = await listing.report(OfferSettings(), checks, is_admin=True)
    assert "No API key is set." in answer
    assert "- `RECALL`: it is wrong." in answer
    assert "RECALL" not in await listing.report(OfferSettings(), checks, is_admin=False)
