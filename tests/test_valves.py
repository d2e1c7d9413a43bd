"""The forms of the valves: what they show, what they refuse, and what becomes of stored values."""

from __future__ import annotations

import json
import re
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import pytest
from fastapi import HTTPException

from open_webui_openrouter_pipe.host.platform import NotSaved
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.valves import (
    ADMIN_PROTECTIONS,
    RULES,
    USER_PERMISSIONS,
    Advanced,
    HostValves,
    UserValves,
    ValveFields,
    Valves,
    _texts,
    read_advanced,
    text_of,
    user_valves_class,
)
from scripts.paths import ROOT
from tests.support.pages import PAGES
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

CASES = Path(__file__).with_name("settings.txt")
CLASSES: tuple[type[ValveFields], ...] = (Valves, Advanced, UserValves)
ADMIN_FIELDS = {**Valves.model_fields, **Advanced.model_fields}
KEPT: dict[type[ValveFields], tuple[str, object]] = {
    Valves: ("MODELS", "a/*"),
    Advanced: ("WEB_FETCH", False),
    UserValves: ("IMAGE_SIZE", "4K"),
}
"""A value of each class that can be read."""
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


each_wrong_value = pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        pytest.param(model, name, value, id=f"{model.__name__}-{name}-{number}")
        for model in CLASSES
        for name, field in model.model_fields.items()
        for number, value in enumerate(wrong_values(field))
    ],
)


def loaded(model: type[ValveFields], **stored: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the host's class makes of stored values, and the names of those that it could not read."""
    valves = user_valves_class(Valves())(**stored) if model is UserValves else HostValves(**stored)
    advanced = valves.advanced.model_dump() if isinstance(valves, Valves) else {}
    return {**valves.model_dump(exclude={"ADVANCED"}), **advanced}, valves.unreadable


def update_function_valves_by_id(**form: object) -> dict[str, Any]:
    """What the host's function of this name does with a form of the administrator's."""
    return HostValves(**form).model_dump(exclude_unset=True)


def update_function_user_valves_by_id(**form: object) -> dict[str, Any]:
    """What the host's function of this name does with a user's form."""
    return user_valves_class(Valves())(**form).model_dump(exclude_unset=True)


save = update_function_valves_by_id


@each_wrong_value
def test_a_stored_valve_that_cannot_be_read_has_its_default(
    model: type[ValveFields], name: str, value: object
) -> None:
    """All others stay as they are stored, and its name is known; in `ADVANCED`, and beside it by its own name."""
    kept = dict([KEPT[model]] if KEPT[model][0] != name else [])
    expected = (loaded(model, **kept)[0], (name,))
    assert loaded(model, **kept, **{name: value}) == expected
    if model is Advanced:
        assert loaded(model, ADVANCED=json.dumps({**kept, name: value})) == expected


@each_wrong_value
def test_a_wrong_value_is_not_saved(model: type[ValveFields], name: str, value: object) -> None:
    """The line names the valve and what it takes, never the value."""
    form = {"ADVANCED": json.dumps({name: value})} if model is Advanced else {name: value}
    with pytest.raises(NotSaved) as refused:
        (update_function_user_valves_by_id if model is UserValves else save)(**form)
    line = str(refused.value)
    where = "ADVANCED: " if model is Advanced else ""
    assert re.match(rf"Not saved\. {where}{name} takes (one of|true|a whole|a number|text)", line)
    assert SECRET not in line
    if get_origin(model.model_fields[name].annotation) is not None:
        assert ", ".join(get_args(model.model_fields[name].annotation)) in line


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "[" * 100_000, '{"A": ' + "9" * 5_000 + "}", 5, None, {}])
def test_a_stored_advanced_that_is_no_object_is_empty(text: object) -> None:
    """Whatever it is; what is stored beside it under its own name still holds."""
    valves = HostValves(ADVANCED=text, WEB_FETCH=False)
    assert (valves.advanced, valves.unreadable) == (Advanced(WEB_FETCH=False), ("ADVANCED",))


def test_unknown_stored_names_have_no_effect() -> None:
    """In `ADVANCED` they are named; beside it they may be of another version."""
    valves = HostValves(ADVANCED='{"FOO": 1, "WEB_FETCH": false}', BAR=2)
    assert (valves.advanced, valves.unreadable) == (Advanced(WEB_FETCH=False), ("FOO",))


@pytest.mark.parametrize(
    ("form", "line"), rows(CASES, "a form that is not saved => what is said of it", {"DEEP": "[" * 100_000})
)
def test_what_is_said_of_a_wrong_form(form: dict[str, object], line: str) -> None:
    """One line, in words that help to correct it."""
    with pytest.raises(NotSaved, match=rf"^Not saved\. {re.escape(line)}$"):
        save(**form)


def test_a_refusal_is_the_answer_of_the_host() -> None:
    """As soon as the host looks whether the error is true, in order to replace its text."""
    with pytest.raises(HTTPException) as answer:
        bool(NotSaved("Not saved. ZDR takes true or false."))
    assert (answer.value.status_code, answer.value.detail) == (400, "Not saved. ZDR takes true or false.")


def test_what_is_given_by_its_own_name_moves_into_advanced() -> None:
    """It holds at once, and is stored there with the next saving; what stands there already goes before."""
    stored = {"MODELS": "a/*", "RECALL_TOOL": False, "RETRY_SECONDS": 5.0}
    assert HostValves(**stored).advanced == Advanced(RECALL_TOOL=False, RETRY_SECONDS=5.0)
    saved = save(**stored, ADVANCED='{"RETRY_SECONDS": 60}')
    assert saved == {"MODELS": "a/*", "ADVANCED": '{\n  "RECALL_TOOL": false,\n  "RETRY_SECONDS": 60\n}'}


@pytest.mark.parametrize(
    "form", [{"MODELS": "a/*", "ADVANCED": '{ "RETRY_SECONDS":60 }'}, {}, {"ADVANCED": " "}]
)
def test_what_is_saved_is_what_was_typed(form: dict[str, object]) -> None:
    """Only what is set, and `ADVANCED` as it is written."""
    assert save(**form) == form


@pytest.mark.parametrize("name", ADMIN_PROTECTIONS)
def test_nothing_is_sent_while_a_protection_cannot_be_read(name: str) -> None:
    """Its default would let others see chats, or cost more, than the administrator has said."""
    refusal = read_settings(HostValves(**{name: [1]})).refusal
    assert (name in refusal, "administrator" in refusal) == (True, True)
    assert read_settings(HostValves(COST_LINE=[1])).refusal == ""


def test_what_protects_chats_and_money_is_known() -> None:
    """Who may see a chat, and what may be spent."""
    money, data = {"SPENDING_LIMITS"}, {"ZDR", "DATA_COLLECTION", "PROVIDER_ONLY", "PROVIDER_IGNORE"}
    assert set(ADMIN_PROTECTIONS) == money | data | {"ADVANCED"}


@pytest.mark.parametrize(
    ("of", "name", "default"),
    rows(
        CASES,
        "a class, a valve => the default that its text ends with",
        {"CONTROLS": f"all of them, `{Valves().USER_CONTROLS}`"},
    ),
)
def test_every_text_ends_with_default_unit_and_range(of: str, name: str, default: str) -> None:
    """The host shows none of them; they come from the field itself, and nothing else of ours is shown."""
    (model,) = (each for each in CLASSES if each.__name__ == of)
    properties = model.model_json_schema()["properties"]
    shown = f"{text_of(model, name).help} **Default:** {default}."
    assert (properties[name]["title"], properties[name]["description"]) == (text_of(model, name).title, shown)
    keys = {"default", "description", "title", "type", "enum", "input"}
    limits = {"minimum", "maximum", "exclusiveMinimum"}
    assert {key for each in properties.values() for key in each} <= keys | limits


@pytest.mark.parametrize("model", CLASSES)
def test_every_valve_has_its_texts(model: type[ValveFields]) -> None:
    """In their order and in plain words; a number has its unit unless it is a share, and what is empty says so."""
    assert list(_texts()[model.__name__]) == list(model.model_fields)
    for name, field in model.model_fields.items():
        text = text_of(model, name)
        assert text.help, name
        assert not ARCANE.search(re.sub(r"`[^`]*`", "", text.help)), name
        if field.default == "":
            assert text.stands_for, name
        if field.annotation in (int, float) and not name.endswith("_RATIO"):
            assert text.unit, name


@pytest.mark.parametrize("model", CLASSES)
def test_valves_are_in_groups(model: type[ValveFields]) -> None:
    """Titles begin with them, and each group stands in one place; in `ADVANCED` nobody sees more of a title.

    Each word begins with a capital, as in the titles that the host makes of the names.
    """
    titles = [text_of(model, name).title.split(" · ") for name in model.model_fields]
    assert {len(title) for title in titles} == ({1} if model is Advanced else {2})
    groups = [title[0] for title in titles]
    assert len(list(groupby(groups))) == len(set(groups))
    assert [
        word for title in titles for part in title for word in part.split() if not word[0].isupper()
    ] == []


def test_an_administrator_can_read_all_valves() -> None:
    """They are few, the key first and `ADVANCED` last, which holds none of them."""
    names = list(Valves.model_fields)
    assert len(names) <= MOST_ADMIN_VALVES
    assert (names[0], names[-1]) == ("API_KEY", "ADVANCED")
    assert not Valves.model_fields.keys() & Advanced.model_fields.keys()


def test_each_valve_that_both_have_says_how_they_are_combined() -> None:
    """The others are the user's alone: a key of their own, and a limit that the chat's own is held against."""
    shared = UserValves.model_fields.keys() & ADMIN_FIELDS.keys()
    assert shared - RULES.keys() == {"API_KEY", "CLIP_LAST_MESSAGES"}
    assert set(RULES) <= shared


def test_what_lets_users_set_a_valve_is_said_to_the_administrator() -> None:
    """The controls by their names, in the default of the valve that names them; the limits by their group."""
    controls = {name for name, by in USER_PERMISSIONS.items() if by == "USER_CONTROLS"}
    assert set(Valves().USER_CONTROLS.split(", ")) == controls
    limits = {name for name, by in USER_PERMISSIONS.items() if by == "ENABLE_USER_OVERRIDE"}
    grouped = {
        name for name in UserValves.model_fields if text_of(UserValves, name).title.startswith("Context ")
    }
    assert limits == grouped
    assert "the group Context" in text_of(Valves, "ENABLE_USER_OVERRIDE").help


def test_the_examples_can_be_saved() -> None:
    """The one in the form, and the one in the documentation."""
    (shown,) = re.findall(r"`(\{.*\})`", text_of(Valves, "ADVANCED").help)
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
