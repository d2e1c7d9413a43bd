"""The forms of the valves: what they show, what they refuse, and what becomes of stored values."""

from __future__ import annotations

import json
import re
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, get_args, get_origin

import pytest
from fastapi import HTTPException
from pydantic import BaseModel, Field

from open_webui_openrouter_pipe.advanced import Advanced, read_advanced
from open_webui_openrouter_pipe.host.platform import NotSaved
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.valve_fields import ValveFields
from open_webui_openrouter_pipe.valves import (
    ADMIN_PROTECTIONS,
    HostValves,
    UserValves,
    Valves,
    user_valves_class,
)
from scripts.paths import ROOT
from tests.support.pages import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

CLASSES: tuple[type[ValveFields], ...] = (Valves, Advanced, UserValves)
SECRET = "sk-or-v1-secret"
MOST_ADMIN_VALVES = 25
ARCANE = re.compile(r"\b(seal\w*|told|carrier|input budget|Empty:|artifacts?)\b", re.IGNORECASE)


def wrong_values(field: FieldInfo) -> Iterator[object]:
    """Values that a field cannot take: of no type that it has, and beyond each of its limits."""
    yield [SECRET]
    if field.annotation is not str:
        yield SECRET
    for limit in field.metadata:
        for name, step in (("ge", -1), ("gt", 0), ("le", 1)):
            if hasattr(limit, name):
                yield getattr(limit, name) + step


def each_wrong_value(model: type[BaseModel]) -> list[Any]:
    """Each field with each of its wrong values."""
    return [
        pytest.param(name, value, id=f"{name}-{number}")
        for name, field in model.model_fields.items()
        for number, value in enumerate(wrong_values(field))
    ]


async def update_function_valves_by_id(**form: object) -> dict[str, Any]:
    """What the host's function of this name does with a form of the administrator's."""
    return HostValves(**form).model_dump(exclude_unset=True)


def update_function_user_valves_by_id(**form: object) -> dict[str, Any]:
    """What the host's function of this name does with a user's form."""
    return user_valves_class(Valves())(**form).model_dump(exclude_unset=True)


def save(**form: object) -> dict[str, Any]:
    """Save the administrator's form without an event loop."""
    saving = update_function_valves_by_id(**form)
    try:
        saving.send(None)
    except StopIteration as done:
        stored: dict[str, Any] = done.value
        return stored
    raise AssertionError


@pytest.mark.parametrize(("name", "value"), each_wrong_value(Valves))
def test_a_stored_valve_that_cannot_be_read_has_its_default(name: str, value: object) -> None:
    """All others stay as they are stored, and its name is known."""
    others = {"MODELS": "a/*"} if name != "MODELS" else {"SUMMARY_MODEL": "a/b"}
    valves = HostValves(**others, **{name: value})
    assert (valves.model_dump(), valves.unreadable) == (Valves(**others).model_dump(), (name,))


@pytest.mark.parametrize(("name", "value"), each_wrong_value(Advanced))
def test_a_stored_name_of_advanced_that_cannot_be_read_has_its_default(name: str, value: object) -> None:
    """In `ADVANCED`, and where it is still stored as a valve of its own."""
    kept = ("WEB_FETCH", False) if name != "WEB_FETCH" else ("RECALL_TOOL", False)
    expected = Advanced.model_validate(dict([kept]))
    for stored in ({"ADVANCED": json.dumps(dict([kept, (name, value)]))}, dict([kept, (name, value)])):
        valves = HostValves(**stored)
        assert (valves.advanced, valves.unreadable) == (expected, (name,))


@pytest.mark.parametrize(("name", "value"), each_wrong_value(UserValves))
def test_a_user_s_stored_valve_that_cannot_be_read_has_its_default(name: str, value: object) -> None:
    """All others stay as they are stored, and its name is known."""
    others = {"IMAGE_SIZE": "4K"} if name != "IMAGE_SIZE" else {"CLIP_BYPASS": True}
    valves = user_valves_class(Valves())(**others, **{name: value})
    assert (valves.model_dump(), valves.unreadable) == (
        UserValves.model_validate(others).model_dump(),
        (name,),
    )


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "[" * 100_000, '{"A": ' + "9" * 5_000 + "}", 5, None, {}])
def test_a_stored_advanced_that_is_no_object_is_empty(text: object) -> None:
    """Whatever it is; what is stored beside it under its own name still holds."""
    valves = HostValves(ADVANCED=text, WEB_FETCH=False)
    assert (valves.advanced, valves.unreadable) == (Advanced(WEB_FETCH=False), ("ADVANCED",))


def test_unknown_stored_names_have_no_effect() -> None:
    """In `ADVANCED` they are named; beside it they may be of another version."""
    valves = HostValves(ADVANCED='{"FOO": 1, "WEB_FETCH": false}', BAR=2)
    assert (valves.advanced, valves.unreadable) == (Advanced(WEB_FETCH=False), ("FOO",))


@pytest.mark.parametrize(("name", "value"), [*each_wrong_value(Valves), *each_wrong_value(Advanced)])
def test_a_wrong_value_is_not_saved(name: str, value: object) -> None:
    """The line names the valve and what it takes, never the value."""
    field = {**Valves.model_fields, **Advanced.model_fields}[name]
    form = {name: value} if name in Valves.model_fields else {"ADVANCED": json.dumps({name: value})}
    with pytest.raises(NotSaved) as refused:
        save(**form)
    line = str(refused.value)
    assert re.match(rf"Not saved\. (ADVANCED: )?{name} takes (one of|true|a whole|a number|text)", line)
    assert SECRET not in line
    if get_origin(field.annotation) is not None:
        assert ", ".join(get_args(field.annotation)) in line


@pytest.mark.parametrize(("name", "value"), each_wrong_value(UserValves))
def test_a_user_s_wrong_value_is_not_saved(name: str, value: object) -> None:
    """The line names the valve and what it takes, never the value."""
    with pytest.raises(NotSaved, match=rf"Not saved\. {name} takes ") as refused:
        update_function_user_valves_by_id(**{name: value})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (
            {"ADVANCED": '{"RETRY_SECOND": 1}'},
            "ADVANCED: there is no RETRY_SECOND here, perhaps RETRY_SECONDS.",
        ),
        ({"ADVANCED": '{"MODELS": "*"}'}, "ADVANCED: there is no MODELS here."),
        (
            {"ADVANCED": '{"RETRY_SECONDS": '},
            'ADVANCED: this is not JSON like {"RETRY_SECONDS": 60}: Expecting value, line 1, column 19.',
        ),
        ({"ADVANCED": "60"}, 'ADVANCED: names and values are needed, such as {"RETRY_SECONDS": 60}.'),
        ({"ADVANCED": "[" * 100_000}, "ADVANCED: this JSON has numbers too long or levels too deep."),
        ({"QUANTIZATIONS": "fp9, fp8"}, "ADVANCED: QUANTIZATIONS: unknown quantizations: fp9."),
        (
            {"ZDR": "perhaps", "CONFIRM_ABOVE_DOLLARS": float("inf")},
            "CONFIRM_ABOVE_DOLLARS takes a number, 0 or more; ZDR takes true or false.",
        ),
        (
            {"ADVANCED": json.dumps({f"N{number}": 0 for number in range(7)})},
            f"ADVANCED: {'; '.join(f'there is no N{number} here' for number in range(5))}; and 2 more.",
        ),
    ],
)
def test_what_is_said_of_a_wrong_form(form: dict[str, object], line: str) -> None:
    """One line, in words that help to correct it."""
    with pytest.raises(NotSaved) as refused:
        save(**form)
    assert str(refused.value) == f"Not saved. {line}"


def test_a_refusal_is_the_answer_of_the_host() -> None:
    """As soon as the host looks whether the error is true, in order to replace its text."""
    with pytest.raises(HTTPException) as answer:
        bool(NotSaved("Not saved. ZDR takes true or false."))
    assert (answer.value.status_code, answer.value.detail) == (400, "Not saved. ZDR takes true or false.")


def test_what_was_a_valve_of_its_own_moves_into_advanced() -> None:
    """It holds at once, and is stored there with the next saving; what stands there already goes before."""
    stored = {"MODELS": "a/*", "RECALL_TOOL": False, "RETRY_SECONDS": 5.0}
    assert (HostValves(**stored).advanced, HostValves(**stored).unreadable) == (
        Advanced(RECALL_TOOL=False, RETRY_SECONDS=5.0),
        (),
    )
    saved = save(**stored, ADVANCED='{"RETRY_SECONDS": 60}')
    assert saved == {"MODELS": "a/*", "ADVANCED": '{\n  "RECALL_TOOL": false,\n  "RETRY_SECONDS": 60\n}'}
    assert save(**saved) == saved


def test_what_is_saved_is_what_was_typed() -> None:
    """Only what is set, and `ADVANCED` as it is written."""
    form = {"MODELS": "a/*", "ADVANCED": '{ "RETRY_SECONDS":60 }'}
    assert save(**form) == form
    assert save() == {}
    assert save(ADVANCED=" ") == {"ADVANCED": " "}


@pytest.mark.parametrize("name", ADMIN_PROTECTIONS)
def test_nothing_is_sent_while_a_protection_cannot_be_read(name: str) -> None:
    """Its default would let others see chats, or cost more, than the administrator has said."""
    refusal = read_settings(HostValves(**{name: [1]})).refusal
    assert (name in refusal, "administrator" in refusal) == (True, True)
    assert read_settings(HostValves(COST_LINE=[1])).refusal == ""


def schema_of(model: type[ValveFields]) -> dict[str, Any]:
    """What the host shows of each field."""
    properties: dict[str, Any] = model.model_json_schema()["properties"]
    return properties


def test_every_text_ends_with_default_unit_and_range() -> None:
    """The host shows none of them; they come from the field itself."""

    class Example(ValveFields):
        DAYS: int = Field(default=90, ge=0, description="When.", json_schema_extra={"unit": "days"})
        SHARE: float = Field(default=0.70, gt=0, le=1, description="How much.")
        LAST: int = Field(
            default=4, ge=1, le=50, description="Which.", json_schema_extra={"unit": "messages"}
        )
        PRICE: float = Field(
            default=0,
            ge=0,
            description="The most.",
            json_schema_extra={"unit": "$", "stands_for": "no limit"},
        )
        TIMEOUT: float = Field(default=300.0, gt=0, description="How long.")
        NAME: str = Field(default="x", description="Who.")
        OTHERS: str = Field(default="", description="Whom.", json_schema_extra={"stands_for": "nobody"})
        ASK: bool = Field(default=True, description="Whether.")

    shown = schema_of(Example)
    assert [each["description"] for each in shown.values()] == [
        "When. **Default:** 90 days (0 or more).",
        "How much. **Default:** 0.7 (above 0, up to 1).",
        "Which. **Default:** 4 messages (1 to 50).",
        "The most. **Default:** 0 $, no limit (0 or more).",
        "How long. **Default:** 300 (above 0).",
        "Who. **Default:** `x`.",
        "Whom. **Default:** nobody.",
        "Whether. **Default:** on.",
    ]
    assert not {"unit", "stands_for"} & {key for each in shown.values() for key in each}
    for model in (HostValves, Advanced, user_valves_class(Valves(ENABLE_USER_OVERRIDE=True))):
        assert all(
            re.search(r" \*\*Default:\*\* .+\.$", each["description"]) for each in schema_of(model).values()
        )


@pytest.mark.parametrize("model", CLASSES)
def test_every_default_says_what_it_is(model: type[ValveFields]) -> None:
    """A number has its unit unless it is a share, and what is empty says what happens then."""
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        if field.default == "":
            assert extra.get("stands_for"), name
        if field.annotation in (int, float) and not name.endswith("_RATIO"):
            assert extra.get("unit"), name


@pytest.mark.parametrize("model", CLASSES)
def test_valves_are_in_groups(model: type[ValveFields]) -> None:
    """Titles begin with them, and each group stands in one place; in `ADVANCED` nobody sees more of a title."""
    titles = [(field.title or "").split(" · ") for field in model.model_fields.values()]
    assert {len(title) for title in titles} == ({1} if model is Advanced else {2})
    groups = [title[0] for title in titles]
    assert len(list(groupby(groups))) == len(set(groups))


def test_an_administrator_can_read_all_valves() -> None:
    """They are few, the key first and `ADVANCED` last, which holds none of them."""
    names = list(Valves.model_fields)
    assert len(names) <= MOST_ADMIN_VALVES
    assert (names[0], names[-1]) == ("API_KEY", "ADVANCED")
    assert not Valves.model_fields.keys() & Advanced.model_fields.keys()


@pytest.mark.parametrize("model", CLASSES)
def test_texts_are_plain(model: type[ValveFields]) -> None:
    """No word of our own house, and none for an emptiness that the host's form does not allow."""
    texts = [re.sub(r"`[^`]*`", "", field.description or "") for field in model.model_fields.values()]
    assert [text for text in texts if ARCANE.search(text)] == []


def test_the_examples_can_be_saved() -> None:
    """The one in the form, and the one in the documentation."""
    (shown,) = re.findall(r"`(\{.*\})`", Valves.model_fields["ADVANCED"].description or "")
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    (documented,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    for text in (shown, documented):
        assert read_advanced(text).model_fields_set == set(json.loads(text))


def test_the_documentation_lists_every_valve() -> None:
    """Each name with what it takes, in the section of its class."""
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    sections = re.split(
        r"^## (?:For the administrator|ADVANCED|For each user|Parameters.*)$", page, flags=re.MULTILINE
    )
    for model, section in zip(CLASSES, sections[1:4], strict=True):
        assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == list(model.model_fields)


def test_the_documentation_names_no_other_valves() -> None:
    """A name in capitals that looks like one is one, in every page."""
    known = {name for model in CLASSES for name in model.model_fields}
    named = {
        name for page in PAGES for name in re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", page.read_text("utf-8"))
    }
    stems = {"_".join(name.split("_")[:length]) for name, length in product(known, (1, 2))}
    assert {name for name in named - known if any(name.startswith(f"{stem}_") for stem in stems)} == set()
