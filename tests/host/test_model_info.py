"""What a model's row says of it, and what of a row is left to administrators; cases in `model_info.txt`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.host.model_rows import WRITTEN, RowInfo, icon, model_fields, updated_row
from open_webui_openrouter_pipe.ports import Model
from tests.support.rows import rows

CASES = Path(__file__).with_name("model_info.txt")
EVERYTHING = ("vision", "file_upload", "image_generation", "web_search", "code_interpreter", "builtin_tools")
ABLE = dict.fromkeys(EVERYTHING, True)
MODEL = Model(
    id="anthropic/claude-opus-5",
    name="Anthropic: Claude Opus 5",
    context_tokens=1_000_000,
    max_output_tokens=64_000,
    input_modalities=frozenset({"text", "image"}),
    output_modalities=frozenset({"text"}),
    supported_parameters=frozenset({"tools", "reasoning"}),
    price_input=0.000005,
    price_output=0.000025,
    reasons=True,
    description="Writes [well](https://example.com).\n\n![A picture](https://example.com/x.png) Thinks.",
)


def fields_of(changes: dict[str, Any], defaults: dict[str, Any] | None = None) -> dict[str, Any]:
    """The fields of the model with changes, whose lists are sets."""
    sets: dict[str, Any] = {
        key: frozenset(value) if isinstance(value, list) else value for key, value in changes.items()
    }
    return dict(model_fields(replace(MODEL, **sets), defaults or {}))


def changed(row: RowInfo, fields: dict[str, Any]) -> RowInfo:
    """The row after an update that changes something."""
    updated = updated_row(row, fields)
    assert updated is not None
    return updated


FIELDS = fields_of({})
ROW = changed(RowInfo("", {}), FIELDS)


def edited(name: str = ROW.name, **meta: Any) -> RowInfo:
    """The row after an administrator has saved other values."""
    if meta.get("capabilities"):
        meta["capabilities"] = {**ABLE, **meta["capabilities"]}
    return RowInfo(name, {**ROW.meta, **meta})


@pytest.mark.parametrize(("changes", "description", "tags"), rows(CASES, "Fields"))
def test_the_fields_of_a_model(changes: dict[str, Any], description: str | None, tags: list[str]) -> None:
    """What is known is said in plain words, what is not is not claimed, and nothing makes a browser fetch."""
    model = {"id": MODEL.id, "name": MODEL.name, **changes}
    assert fields_of(changes) == {
        "name": model["name"],
        **({"description": description} if description else {}),
        "profile_image_url": icon(model["id"].lstrip("~").partition("/")[0], tags[0]),
        "tags": [{"name": name} for name in tags],
        **{f"capabilities.{name}": value for name, value in ABLE.items()},
    }


@pytest.mark.parametrize(("changes", "description"), rows(CASES, "Descriptions"))
def test_the_description_of_a_model(changes: dict[str, Any], description: str) -> None:
    """The line before it has what is known."""
    assert fields_of(changes)["description"] == description


@pytest.mark.parametrize(("changes", "tags"), rows(CASES, "Tags"))
def test_tags_say_what_people_filter_by(changes: dict[str, Any], tags: list[str]) -> None:
    """The provider first; one that is an alias, or has no name, is called as in the id."""
    assert fields_of(changes)["tags"] == [{"name": name} for name in tags]


@pytest.mark.parametrize(("changes", "defaults", "off"), rows(CASES, "Capabilities"))
def test_capabilities_are_those_of_the_catalogue(
    changes: dict[str, Any], defaults: dict[str, Any], off: list[str]
) -> None:
    """What needs tools is off where the model calls none; the defaults for all take away, and give none."""
    found = {name: on for name, on in fields_of(changes, defaults).items() if name.startswith("capa")}
    assert found == {f"capabilities.{name}": name not in off for name in EVERYTHING}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        *rows(CASES, "Texts"),
        ("One sentence here. " * 40, "One sentence here. " * 14 + "One sentence here."),
        ("words " * 100, "words " * 48 + "words…"),
        ("x" * 500, "x" * 299 + "…"),
    ],
)
def test_what_is_kept_of_a_description(text: str, kept: str) -> None:
    """No link, picture or tag, nor one made by taking another away; at most 300 characters, to a sentence or word."""
    assert fields_of({"description": text})["description"].partition("out. ")[2] == kept


@pytest.mark.parametrize("edit", rows(CASES, "Not worth writing"))
def test_a_row_is_not_written_again(edit: dict[str, Any]) -> None:
    """As long as the catalogue says the same, whatever else the page has saved."""
    assert ROW.meta["capabilities"] == ABLE
    assert updated_row(edited(**edit), FIELDS) is None


@pytest.mark.parametrize("edit", rows(CASES, "Edits that stay"))
def test_what_an_administrator_has_edited_stays(edit: dict[str, Any]) -> None:
    """That field alone: all others go on following the catalogue, and what is not ours stays as it is."""

    def shown(row: RowInfo) -> dict[str, Any]:
        meta = {key: value for key, value in row.meta.items() if key not in {WRITTEN, "capabilities"}}
        return {"name": row.name, **meta, **(row.meta["capabilities"] or dict.fromkeys(EVERYTHING))}

    fields = fields_of(
        {
            "id": "openai/x",
            "name": "OpenAI: X",
            "description": "New.",
            "input_modalities": ["text"],
            "supported_parameters": ["seed"],
        }
    )
    updated = changed(edited(**edit), fields)
    kept = {key: value for key, value in edit.items() if key != "capabilities"}
    if "capabilities" in edit:
        kept |= edit["capabilities"] or dict.fromkeys(EVERYTHING)
    assert shown(updated) == {**shown(changed(RowInfo("", {}), fields)), **kept}
    assert updated_row(updated, fields) is None


def test_a_row_that_was_there_before_is_only_filled_up() -> None:
    """Its name and what else an administrator has set stay; what was empty is ours from then on."""
    row = RowInfo("Mine", {"description": "", "tags": [{"name": "mine"}], "capabilities": {"vision": False}})
    updated = changed(row, FIELDS)
    written = updated.meta[WRITTEN]
    assert sorted(written) == sorted(set(FIELDS) - {"name", "tags", "capabilities.vision"})
    capabilities = {**ABLE, "vision": False}
    meta = {**ROW.meta, "tags": [{"name": "mine"}], "capabilities": capabilities, WRITTEN: written}
    assert updated == RowInfo("Mine", meta)


@pytest.mark.parametrize(
    "default", ["/static/favicon.png", "https://chat.example/static/favicon.png", "", None]
)
def test_the_pages_own_default_icon_is_nobodys_choice(default: str | None) -> None:
    """The page saves it whenever it has not loaded the row's icon: ours is put back."""
    assert updated_row(edited(profile_image_url=default), FIELDS) == ROW


def test_a_row_of_which_everything_was_edited_is_never_touched() -> None:
    """Not even to keep book."""
    meta = {"description": "x", "tags": [{"name": "x"}], "profile_image_url": "https://x.example/y"}
    row = RowInfo("Mine", {**meta, "capabilities": dict.fromkeys(EVERYTHING, False)})
    assert updated_row(row, FIELDS) is None
