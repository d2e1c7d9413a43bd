"""Stored items on their way back: whole ones unchanged, others repaired or rejected. See `artifacts.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from open_webui_openrouter_pipe.history.artifacts import (
    LoadedArtifact,
    Reader,
    model_family,
    normalize_persisted_item,
)
from open_webui_openrouter_pipe.responses.items import ITEM_KINDS
from scripts.standin import sdk_schema
from tests.history.builders import DEEP, assert_valid, call, reasoning, thinking
from tests.support.rows import rows

CASES: Final = Path(__file__).with_name("artifacts.txt")
NAMES: Final = {
    "sealed": reasoning("r"),
    "signed": thinking("r"),
    "gemini": reasoning("r", format="google-gemini-v1"),
    "summary": {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "t"}]},
    "plain": {
        "type": "reasoning",
        "id": "r",
        "summary": [],
        "content": [{"text": "hm"}],
        "format": "unknown",
    },
}


@pytest.mark.parametrize("item", rows(CASES, "whole"))
def test_whole_items_come_back_as_they_are(item: dict[str, Any]) -> None:
    """A valid item is the same object, so its bytes cannot differ."""
    assert normalize_persisted_item(item) is item
    assert sdk_schema.item_issues(item) == []


@pytest.mark.parametrize(("title", "item", "repaired"), rows(CASES, "repaired"))
def test_an_item_is_repaired(title: str, item: dict[str, Any], repaired: dict[str, Any]) -> None:
    """Only what the schema refuses changes, and the result is what the schema accepts."""
    assert normalize_persisted_item(item) == repaired, title
    assert sdk_schema.item_issues(repaired) == []


def test_reasoning_without_an_id_gets_one_of_its_content() -> None:
    """The id is required; the same content always gets the same one."""
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]}
    found: Any = normalize_persisted_item(item)
    assert found == normalize_persisted_item(dict(item))
    assert found["id"].startswith("rs_")
    assert_valid([found, {"type": "message", "role": "user", "content": "x"}])


@pytest.mark.parametrize("item", [pytest.param(call("c1", DEEP), id="deep"), *rows(CASES, "unusable")])
def test_an_unusable_item_is_not_sent(item: Any) -> None:
    """It lacks its call id, its required fields or a type that input accepts."""
    assert normalize_persisted_item(item) is None


def test_required_fields_are_those_of_the_sdk() -> None:
    """For every item type passed on as it is, the official SDK accepts it with no less than what is required here."""
    known = sdk_schema._input_classes()
    repaired = {"message", "reasoning", "function_call", "function_call_output"}
    for kind, required in ((name, row.required) for name, row in ITEM_KINDS.items() if name not in repaired):
        fields = {
            field.alias or name
            for name, field in known[kind][0].model_fields.items()
            if field.is_required() and name != "type"
        }
        assert set(required or ()) == fields, kind


@pytest.mark.parametrize(("model_id", "family"), rows(CASES, "families"))
def test_the_author_names_the_family(model_id: str | None, family: str | None) -> None:
    """Aliases, variants and presets do not matter."""
    assert model_family(model_id) == family


@pytest.mark.parametrize(("item", "writer", "target", "why"), rows(CASES, "reasoning", NAMES))
def test_reasoning_has_a_problem(item: Any, writer: str | None, target: str | None, why: str | None) -> None:
    """Seals of other families, missing seals and empty reasoning are not sent; what cannot be judged is trusted."""
    stored = LoadedArtifact(item, writer and f"{writer}/one")
    assert Reader(target and f"{target}/two").problem(stored, is_running=False) == why


@pytest.mark.parametrize(("item", "stored", "reader", "earlier", "running"), rows(CASES, "readers", NAMES))
def test_reasoning_goes_to_whom_it_can_serve(
    item: Any, stored: Any, reader: Any, earlier: str | None, running: str | None
) -> None:
    """Formats, the catalogue, prompt and provider decide; in its own turn it goes to whoever may have written it."""
    written, asked = LoadedArtifact(item, **stored), Reader(**reader)
    found = [asked.problem(written, is_running=is_running) for is_running in (False, True)]
    assert found == [earlier, running]
