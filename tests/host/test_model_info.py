"""What a model's row says of it, and what of a row is left to administrators."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.host.model_rows import (
    WRITTEN,
    RowInfo,
    icon,
    model_fields,
    updated_row,
)
from open_webui_openrouter_pipe.ports import Model

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
UNKNOWN = replace(
    MODEL,
    id="nobody",
    name="nobody",
    context_tokens=None,
    input_modalities=frozenset(),
    output_modalities=frozenset(),
    supported_parameters=frozenset(),
    price_input=None,
    price_output=None,
    reasons=False,
    description="",
)
EVERYTHING = ("vision", "file_upload", "image_generation", "web_search", "code_interpreter", "builtin_tools")


def capabilities(fields: Any) -> dict[str, bool]:
    return {
        name.removeprefix("capabilities."): value for name, value in fields.items() if name.startswith("capa")
    }


def described(**changes: Any) -> str:
    return str(model_fields(replace(MODEL, **changes), {})["description"])


def tags(**changes: Any) -> list[str]:
    return [tag["name"] for tag in model_fields(replace(MODEL, **changes), {})["tags"]]


def test_the_fields_of_a_model() -> None:
    """Name, description, icon, tags and capabilities as the catalogue has them."""
    assert model_fields(MODEL, {}) == {
        "name": "Anthropic: Claude Opus 5",
        "description": (
            "Context: 1,000,000 tokens. Price per million tokens: $5 in, $25 out. Writes well. A picture Thinks."
        ),
        "profile_image_url": icon("anthropic", "Anthropic"),
        "tags": [{"name": name} for name in ("Anthropic", "reasoning", "vision", "tools", "long context")],
        **{f"capabilities.{name}": True for name in EVERYTHING},
    }


def test_a_model_of_which_nothing_is_known() -> None:
    """It may be able to do everything, and nothing is claimed."""
    assert model_fields(UNKNOWN, {}) == {
        "name": "nobody",
        "profile_image_url": icon("nobody", "nobody"),
        "tags": [{"name": "nobody"}],
        **{f"capabilities.{name}": True for name in EVERYTHING},
    }


@pytest.mark.parametrize(
    ("changes", "off"),
    [
        ({"input_modalities": frozenset({"text"})}, {"vision"}),
        (
            {"supported_parameters": frozenset({"temperature"})},
            {"image_generation", "web_search", "code_interpreter", "builtin_tools"},
        ),
        (
            {
                "supported_parameters": frozenset({"seed"}),
                "output_modalities": frozenset({"image"}),
            },
            {"web_search", "code_interpreter", "builtin_tools"},
        ),
    ],
    ids=["text only", "no tools", "draws"],
)
def test_capabilities_are_those_of_the_catalogue(changes: dict[str, Any], off: set[str]) -> None:
    """Documents reach every model; what needs tools is off where the model calls none."""
    found = capabilities(model_fields(replace(MODEL, **changes), {}))
    assert found == {name: name not in off for name in EVERYTHING}


def test_what_is_off_for_all_models_stays_off() -> None:
    """The administrator's defaults can take a capability away, and give none."""
    defaults = {"web_search": False, "vision": True, "usage": True}
    found = capabilities(model_fields(replace(MODEL, input_modalities=frozenset({"text"})), defaults))
    assert found == {name: name not in {"web_search", "vision"} for name in EVERYTHING}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"price_input": 0.0, "price_output": 0.0}, "Context: 1,000,000 tokens. Free. "),
        (
            {"price_input": 0.0, "price_output": 0.0, "price_request": 0.01},
            "Context: 1,000,000 tokens. ",
        ),
        (
            {"price_input": 0.0, "price_output": 0.0, "output_modalities": frozenset({"image"})},
            "Context: 1,000,000 tokens. ",
        ),
        (
            {"price_input": 3.75e-8, "price_output": 0.00123456},
            "Context: 1,000,000 tokens. Price per million tokens: $0.0375 in, $1230 out. ",
        ),
        (
            {"context_tokens": None, "price_input": None, "expires": "2027-01-31"},
            "Withdrawn on 2027-01-31. ",
        ),
    ],
    ids=["free", "priced by the request", "priced by the picture", "odd prices", "expiring"],
)
def test_the_line_before_the_description(changes: dict[str, Any], expected: str) -> None:
    """Context, price and end, as far as they are known, in plain words."""
    assert described(**changes) == f"{expected}Writes well. A picture Thinks."


def test_nothing_in_a_description_makes_a_browser_fetch() -> None:
    """Links, pictures and tags lose what they point to."""
    text = 'See <img src="https://a.example/x"> [this](https://b.example) ![](https://c.example/y.png) end.'
    found = described(description=text)
    assert found.endswith("See this end.")
    assert "http" not in found


@pytest.mark.parametrize(
    "text",
    [
        "![![a](b)](https://a.example/p.png)",
        "![a](https://a.example/p_(1).png)",
        "![a](https://a.example/((p)).png)",
        "!!![a](b)![c](d)[e](https://a.example/((p)).png)",
        "<<b>img src='https://a.example/p.png'>",
        "<<<b>i>img src='https://a.example/p.png'>",
        "![a][b]",
    ],
)
def test_what_is_left_of_a_description_is_neither_a_picture_nor_a_tag(text: str) -> None:
    """Also where one stands in another, and taking that away would make one."""
    assert re.search(r"!\[|<\S", described(description=text).partition("out. ")[2]) is None


def test_a_long_description_ends_with_a_sentence_or_a_word() -> None:
    """At most 300 characters of it are kept."""
    assert described(description="One sentence here. " * 40).endswith(
        "out. " + "One sentence here. " * 14 + "One sentence here."
    )
    words = described(description="words " * 100).partition("out. ")[2]
    assert words.endswith("words…")
    assert 280 < len(words) <= 300
    assert len(described(description="x" * 500).partition("out. ")[2]) <= 300


def test_tags_say_what_people_filter_by() -> None:
    """The provider first; one that is an alias, or has no name, is called as in the id."""
    free = {"price_input": 0.0, "price_output": 0.0}
    assert tags(**free, expires="2027-01-31") == [
        *("Anthropic", "free", "reasoning", "vision", "tools", "long context", "expiring")
    ]
    plain = {"reasons": False, "supported_parameters": frozenset(), "context_tokens": 200_000}
    assert tags(**plain, input_modalities=frozenset({"text"}), output_modalities=frozenset({"image"})) == [
        "Anthropic",
        "images",
    ]
    assert tags(id="~x/latest", name="Latest")[0] == "x"
    assert tags(id="x/latest", name=" : Latest")[0] == "x"


def added_row(fields: Any) -> RowInfo:
    """The row of a model that had none."""
    row = updated_row(RowInfo("", {}), fields)
    assert row is not None
    return row


FIELDS = model_fields(MODEL, {})
ROW = added_row(FIELDS)


def edited(**meta: Any) -> RowInfo:
    """The row after an administrator has saved other values of `meta`."""
    return RowInfo(ROW.name, {**ROW.meta, **meta})


def test_a_new_row_is_not_written_again() -> None:
    """As long as the catalogue says the same."""
    assert ROW.meta["capabilities"] == dict.fromkeys(EVERYTHING, True)
    assert updated_row(ROW, FIELDS) is None
    saved_by_the_page = {"capabilities": {**ROW.meta["capabilities"], "citations": True}, "knowledge": None}
    assert updated_row(edited(**saved_by_the_page), FIELDS) is None


def test_a_row_follows_the_catalogue() -> None:
    """Every field of ours changes, and what else is in the row stays."""
    changed = replace(MODEL, name="A: New", description="New.", price_input=0.0, price_output=0.0)
    row = edited(toolIds=["calculator"], hidden=True)
    updated = updated_row(row, model_fields(changed, {}))
    assert updated is not None
    expected = added_row(model_fields(changed, {}))
    assert updated == RowInfo(expected.name, {**expected.meta, "toolIds": ["calculator"], "hidden": True})


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        (RowInfo("Our favourite", ROW.meta), "name", "Our favourite"),
        (edited(description="Ask Ada first."), "description", "Ask Ada first."),
        (edited(description=None), "description", None),
        (edited(tags=[{"name": "approved"}]), "tags", [{"name": "approved"}]),
        (
            edited(profile_image_url="data:image/png;base64,AAAA"),
            "profile_image_url",
            "data:image/png;base64,AAAA",
        ),
        (edited(capabilities={**ROW.meta["capabilities"], "vision": False}), "vision", False),
        (edited(capabilities=None), "vision", None),
    ],
    ids=["name", "description", "emptied", "tags", "icon", "capability", "no capabilities"],
)
def test_what_an_administrator_has_edited_stays(row: RowInfo, field: str, value: Any) -> None:
    """That field alone: all others go on following the catalogue."""

    def shown(row: RowInfo) -> dict[str, Any]:
        meta = {key: row.meta[key] for key in ("description", "tags", "profile_image_url")}
        return {"name": row.name, **meta, **dict.fromkeys(EVERYTHING), **(row.meta["capabilities"] or {})}

    changed = replace(
        MODEL,
        id="openai/x",
        name="OpenAI: X",
        description="New.",
        input_modalities=frozenset({"text"}),
        supported_parameters=frozenset({"seed"}),
    )
    fields = model_fields(changed, {})
    updated = updated_row(row, fields)
    assert updated is not None
    expected = shown(added_row(fields))
    kept = dict.fromkeys(EVERYTHING) if row.meta["capabilities"] is None else {field: value}
    assert shown(updated) == {**expected, **kept}
    assert updated_row(updated, fields) is None


def test_a_row_that_was_there_before_is_only_filled_up() -> None:
    """Its name and what else an administrator has set stay; what was empty is ours from then on."""
    row = RowInfo("Mine", {"description": "", "tags": [{"name": "mine"}], "capabilities": {"vision": False}})
    updated = updated_row(row, FIELDS)
    assert updated is not None
    assert (updated.name, updated.meta["tags"]) == ("Mine", [{"name": "mine"}])
    assert updated.meta["capabilities"] == {**dict.fromkeys(EVERYTHING, True), "vision": False}
    assert updated.meta["description"] == FIELDS["description"]
    assert sorted(updated.meta[WRITTEN]) == sorted(set(FIELDS) - {"name", "tags", "capabilities.vision"})


@pytest.mark.parametrize(
    "default", ["/static/favicon.png", "https://chat.example/static/favicon.png", "", None]
)
def test_the_pages_own_default_icon_is_nobodys_choice(default: str | None) -> None:
    """The page saves it whenever it has not loaded the row's icon: ours is put back."""
    assert updated_row(edited(profile_image_url=default), FIELDS) == ROW


def test_a_row_of_which_everything_was_edited_is_never_touched() -> None:
    """Not even to keep book."""
    row = RowInfo(
        "Mine", {"description": "x", "tags": [{"name": "x"}], "profile_image_url": "https://x.example/y"}
    )
    row.meta["capabilities"] = dict.fromkeys(EVERYTHING, False)  # type: ignore[index]
    assert updated_row(row, FIELDS) is None
