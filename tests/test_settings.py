"""Settings: the forms of the valves, what becomes of stored values, and what both become for one request."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from itertools import groupby, product
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.host.model_rows import ModelRowSettings
from open_webui_openrouter_pipe.media.choice import MediaSettings
from open_webui_openrouter_pipe.money.limits import read_limits
from open_webui_openrouter_pipe.openrouter.controls import ControlSettings
from open_webui_openrouter_pipe.openrouter.offer import Filters, OfferSettings, Variant
from open_webui_openrouter_pipe.openrouter.problems import MOST_PROBLEMS, NamedModels
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.settings import (
    Settings,
    bound_key,
    read_settings,
    tokenizer_folder,
    unknown_groups,
)
from open_webui_openrouter_pipe.turn.bill import SpendingSettings
from open_webui_openrouter_pipe.valves import (
    GUARDED,
    RULES,
    USER_PERMISSIONS,
    Advanced,
    HostValves,
    StoredUserValves,
    UserValves,
    ValveFields,
    Valves,
    _texts,
    read_advanced,
    takes,
    text_of,
    user_valves_class,
)
from scripts.paths import ROOT
from tests.support.pages import PAGES
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from open_webui_openrouter_pipe.app import App

NAMES = {
    "FILTERS": Filters(frozenset({"free"}), 8_000, None, (("frree", "free"),)),
    "LIMITS": read_limits("all: 1/day"),
    "TOKYO": ZoneInfo("Asia/Tokyo"),
    "PARAMETERS": {"models", "plugins"},
    "VARIANT": Variant("a/*", ":nitro", ""),
    "EVERY": NamedModels("MODELS", ("*",), takes(Valves, "MODELS"), are_patterns=True),
    "ADVISOR": NamedModels("SERVER_TOOLS", ("a/m",), takes(Advanced, "SERVER_TOOLS")),
}
"""Values of the table that JSON cannot say."""
CASES = Path(__file__).with_name("settings.txt")
ADMIN = rows(CASES, "a valve, its value => the setting, its value there", NAMES)
OWN = rows(CASES, "valves of the administrator, one of the user's, its value => the setting, its value there")
CLASSES: tuple[type[ValveFields], ...] = (Valves, Advanced, UserValves)
KEPT: dict[type[ValveFields], tuple[str, object]] = {
    Valves: ("MODELS", "a/*"),
    Advanced: ("WEB_FETCH", False),
    UserValves: ("IMAGE_SIZE", "4K"),
}
"""A value of each class that can be read."""
SECRET = "sk-or-v1-secret"
ARCANE = re.compile(r"\b(seal\w*|told|carrier|input budget|Empty:|artifacts?)\b", re.IGNORECASE)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    for module in ("settings", "valves"):
        monkeypatch.setattr(f"open_webui_openrouter_pipe.{module}.host_secret", lambda: "secret")


def _listed(value: object) -> object:
    """A value as JSON would say it, which knows no tuples."""
    return list(value) if type(value) is tuple else value


def test_the_key_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The valve goes before it; without both there is none."""
    keys = [read_settings(Valves()).client.api_key]
    monkeypatch.setenv("OPENROUTER_API_KEY", " sk-or-env ")
    keys += [read_settings(Valves(API_KEY=key)).client.api_key for key in (" ", "sk-or-1")]
    assert keys == ["", "sk-or-env", "sk-or-1"]


@pytest.mark.parametrize(("name", "value", "setting", "expected"), ADMIN)
def test_a_valve_sets_its_own_setting(name: str, value: object, setting: str, expected: object) -> None:
    """And no other part of the settings, but perhaps the one of its own name."""
    settings, default = read_settings(Valves.model_validate({name: value})), read_settings(Valves())
    assert _listed(attrgetter(setting)(settings)) == expected
    own = {setting.partition(".")[0], name.lower(), "checks"}
    others = [each.name for each in fields(Settings) if each.name not in own]
    assert [each for each in others if getattr(settings, each) != getattr(default, each)] == []


@pytest.mark.parametrize(("admin", "name", "value", "setting", "expected"), OWN)
def test_a_users_choice_is_combined_with_the_administrators(
    admin: Mapping[str, object], name: str, value: object, setting: str, expected: object
) -> None:
    """By the rule of its valve, where users may set it."""
    valves = Valves.model_validate({**admin, "ENABLE_USER_OVERRIDE": True})
    settings = read_settings(valves, UserValves.model_validate({name: value}))
    assert _listed(attrgetter(setting)(settings)) == expected


def test_every_valve_is_read() -> None:
    """Each stands in a table above, but for those that say what others do, and users' own keys (`test_own_key`)."""
    known = Valves.model_fields.keys() | Advanced.model_fields.keys()
    assert {row.values[0] for row in ADMIN} == known - {"ADVANCED", "USER_CONTROLS", "ENABLE_USER_OVERRIDE"}
    assert {row.values[1] for row in OWN} == UserValves.model_fields.keys() - {"API_KEY"}


def test_the_defaults_of_valves_are_those_of_each_part() -> None:
    """Who sets nothing has the settings that each part is tested and measured with, and recall beside them."""
    read = read_settings(Valves())
    assert (read.context, read.media) == (ContextSettings(recall=True), MediaSettings())
    assert (read.controls, read.spending) == (ControlSettings(), SpendingSettings())
    assert (read.offer, read.model_rows) == (OfferSettings(), ModelRowSettings())


def test_what_the_administrator_switched_off_is_said() -> None:
    """A user who wants reasoning kept reads why it is not; one who wants that too reads nothing."""
    valves = Valves.model_validate({"PERSIST_REASONING_TOKENS": "disabled"})
    wanted: list[Any] = ["conversation", "disabled", "inherit"]
    lines = [read_settings(valves, UserValves(PERSIST_REASONING_TOKENS=each)).notices for each in wanted]
    assert [len(each) for each in lines] == [1, 0, 0]


def test_limits_that_users_may_not_set_are_not_followed() -> None:
    """By default; one line names them all. Other valves of the user still hold."""
    limits: dict[str, Any] = {
        "CONTEXT_AIM": "thrifty",
        "RECALL": "off",
        "CLIP_LAST_MESSAGES": 8,
        "CLIP_BYPASS": True,
        "SUMMARY_BYPASS": True,
    }
    own = UserValves(PERSIST_REASONING_TOKENS="next_reply", **limits)
    settings = read_settings(Valves(), own)
    assert (settings.context, settings.persistence.reasoning) == (
        read_settings(Valves()).context,
        "next_reply",
    )
    (line,) = settings.notices
    assert line.endswith(f": {', '.join(limits)}.")
    assert read_settings(Valves(ENABLE_USER_OVERRIDE=True), own).notices == ()


@pytest.mark.parametrize("shown", [Valves().USER_CONTROLS, "none", " web_search , ZDR"])
def test_users_see_what_they_may_set(shown: str) -> None:
    """What is hidden is not in their form at all; their other valves always are."""
    controls = {name for name, by in USER_PERMISSIONS.items() if by == "USER_CONTROLS"}
    hidden = controls - {name.strip().upper() for name in shown.split(",")}
    limits = USER_PERMISSIONS.keys() - controls
    for allowed in (True, False):
        valves = Valves(USER_CONTROLS=shown, ENABLE_USER_OVERRIDE=allowed)
        schema = user_valves_class(valves).model_json_schema()
        missing = UserValves.model_fields.keys() - schema["properties"].keys()
        assert (schema["title"], missing) == ("UserValves", hidden | (set() if allowed else limits))


def test_hidden_controls_are_not_followed() -> None:
    """Whatever a user had set before; those that are shown go before the administrator's."""
    chosen: dict[str, Any] = {
        "REASONING_EFFORT": "high",
        "REASONING_SUMMARY": "off",
        "WEB_SEARCH": "on",
        "PROVIDER_SORT": "latency",
        "ZDR": True,
        "IMAGE_SIZE": "4K",
    }
    own = UserValves(**chosen)
    ignored = read_settings(Valves(USER_CONTROLS="none"), own)
    assert (ignored.controls, ignored.notices) == (ControlSettings(), ())
    held = [
        read_settings(Valves(USER_CONTROLS=shown), own).held_parameters
        for shown in (Valves().USER_CONTROLS, "none", "IMAGE_ASPECT_RATIO")
    ]
    ratio, size = "image_config.aspect_ratio", "image_config.image_size"
    assert held == [set(), {ratio, size}, {size}]


def test_a_users_valves_that_cannot_be_read_are_said() -> None:
    """The others stay. Without what says who pays nothing is sent, and a wrong wish for privacy is one."""
    own = StoredUserValves(REASONING_EFFORT="huge", CLIP_LAST_MESSAGES=3, ZDR="perhaps")
    assert dict(own) == dict(UserValves(CLIP_LAST_MESSAGES=3, ZDR=True))
    partly = read_settings(Valves(), own)
    assert partly.controls.provider == {"zdr": True}
    assert [each.valve for each in partly.own_problems] == ["REASONING_EFFORT", "ZDR"]
    *_, line = partly.notices
    assert (partly.refusal, all(each.line in line for each in partly.own_problems)) == ("", True)
    own = StoredUserValves(API_KEY=["sk-or-1"], WEB_SEARCH="on")
    assert (own.WEB_SEARCH, own.unreadable) == ("on", ("API_KEY",))
    assert own.model_dump(exclude_unset=True) == {"WEB_SEARCH": "on", "API_KEY": []}
    assert "API_KEY" in read_settings(Valves(), own).refusal
    hiding = read_settings(Valves(USER_CONTROLS="WEB_SEARCH"), own)
    assert (hiding.refusal, hiding.notices, hiding.own_problems) == ("", (), ())


def test_of_valves_that_are_lost_nothing_that_guards_is_taken_for_unset() -> None:
    """Who pays, and who may keep a chat."""
    lost = StoredUserValves(**{name: [0] for name in GUARDED})
    settings = read_settings(Valves(), lost)
    assert ("API_KEY" in settings.refusal, settings.controls.provider) == (True, {"zdr": True})


def test_tokenizer_files_are_looked_for_where_tiktoken_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiktoken's own variable comes first; an empty one says that nothing is cached."""
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", "/old")
    for folder, expected in ((None, Path("/old")), ("/new", Path("/new")), ("", None)):
        if folder is None:
            monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
        else:
            monkeypatch.setenv("TIKTOKEN_CACHE_DIR", folder)
        assert tokenizer_folder() == expected


# --- the forms of the valves


WRONG: tuple[Any, ...] = (
    [SECRET],
    {},
    "",
    SECRET,
    -1,
    math.inf,
    10**400,
    "9" * 5_000,
    "x" * 100_000,
    "\ud800",
    True,
)
"""What may be stored of a valve beside what it takes."""


def is_wrong(model: type[ValveFields], name: str, value: object) -> bool:
    """Whether a valve does not take a value; of texts only whether they are texts."""
    try:
        model.__pydantic_validator__.validate_assignment(model.model_construct(), name, value)
    except ValueError:
        return True
    return False


def loaded(model: type[ValveFields], **stored: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the host's class makes of stored values, and the names of those that it could not read."""
    valves = user_valves_class(Valves())(**stored) if model is UserValves else HostValves(**stored)
    advanced = valves.advanced.model_dump() if isinstance(valves, Valves) else {}
    return {**dict(valves), **advanced, "ADVANCED": ""}, valves.unreadable


def save(**form: object) -> dict[str, Any]:
    """What the host stores of a form of the administrator's."""
    return HostValves(**form).model_dump(exclude_unset=True)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        pytest.param(model, name, id=f"{model.__name__}-{name}")
        for model in CLASSES
        for name in model.model_fields
    ],
)
def test_whatever_is_stored_never_raises(model: type[ValveFields], name: str) -> None:
    """A wrong value is stored as it was given, and named; all else that is stored holds, and requests have settings."""
    strict = cast("Any", model.model_fields[name].json_schema_extra)["strict"]
    kept = dict([KEPT[model]] if KEPT[model][0] != name else [])
    for value in (*WRONG, None):
        found, unreadable = loaded(model, **kept, **{name: value})
        if value is None or name == "ADVANCED":
            continue
        assert (unreadable == (name,)) == is_wrong(model, name, value)
        if not unreadable:
            continue
        assert found == {**loaded(model, **kept)[0], **({} if strict is None else {name: strict})}
        own = StoredUserValves(**{name: value}) if model is UserValves else UserValves()
        admin = HostValves(**({} if model is UserValves else {name: value}))
        settings = read_settings(admin, own)
        problems = settings.own_problems if model is UserValves else settings.checks.problems
        assert (problems[0].valve, SECRET in problems[0].line) == (name, False)
        form = own if model is UserValves else admin
        dumped = form.model_dump(exclude_unset=True)
        again = type(form)(**dumped)
        assert (again.unreadable, again.model_dump(exclude_unset=True)) == ((name,), dumped)
        assert SECRET not in str(dumped) or name != "API_KEY"


@pytest.mark.parametrize("name", Advanced.model_fields)
def test_what_is_wrong_in_advanced_leaves_the_rest_of_it(name: str) -> None:
    """The text stays as it was typed."""
    kept = dict([KEPT[Advanced]] if KEPT[Advanced][0] != name else [])
    for value in WRONG:
        typed = json.dumps({**kept, name: value})
        valves = HostValves(ADVANCED=typed)
        assert (valves.unreadable, valves.model_dump(exclude_unset=True)) == (
            ((name,) if is_wrong(Advanced, name, value) else ()),
            {"ADVANCED": typed},
        )
        assert kept.items() <= valves.advanced.model_dump().items()


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "[" * 100_000, '{"A": ' + "9" * 5_000 + "}", 5, {}])
def test_a_stored_advanced_that_is_no_object_is_empty(text: object) -> None:
    """Whatever it is; what is stored beside it under its own name still holds."""
    valves = HostValves(ADVANCED=text, WEB_FETCH=False)
    assert (valves.advanced, valves.unreadable) == (Advanced(WEB_FETCH=False), ("ADVANCED",))


@pytest.mark.parametrize(
    ("stored", "lines"), rows(CASES, "a stored value => what is said of it", {"DEEP": "[" * 100_000})
)
def test_what_is_said_of_a_wrong_value(stored: dict[str, object], lines: str) -> None:
    """One line for each, in words that help to correct it."""
    problems = read_settings(HostValves(**stored)).checks.problems
    assert " / ".join(each.line for each in problems) == lines


@pytest.mark.parametrize(
    "name",
    ["MODEL_FILTERS", "SPENDING_LIMITS", "VARIANTS", "DOWNLOAD_HOSTS", "USER_CONTROLS", "QUANTIZATIONS"],
)
def test_of_many_wrong_words_few_are_named(name: str) -> None:
    """What was meant is found for few: nobody types more, and it takes time."""
    text = ";\n".join("vison" for _ in range(30)) if name == "SPENDING_LIMITS" else "/vison, " * 30
    settings = read_settings(HostValves(**{name: text}))
    assert [each.valve for each in settings.checks.problems] == [name] * MOST_PROBLEMS
    assert sum(meant == "vision" for _, meant in settings.offer.filters.unknown) in {0, 20}


def test_groups_that_do_not_exist_are_named() -> None:
    """Wherever groups are named."""
    checks = read_settings(
        Valves(NEW_MODEL_ACCESS="publc, Staff", SPENDING_LIMITS="group Staf: 1/day")
    ).checks
    lines = [each.what for each in unknown_groups(checks.groups, ["Staff"])]
    assert lines == [
        "`Staf` is not known; did you mean `Staff`?",
        "`publc` is not known; did you mean `public`?",
    ]
    assert read_settings(Valves(NEW_MODEL_ACCESS="public")).checks.groups == {
        "SPENDING_LIMITS": (),
        "NEW_MODEL_ACCESS": (),
    }


@pytest.mark.parametrize(
    ("stored", "setting", "value"),
    [
        ({"ZDR": "perhaps"}, "controls.provider", {"zdr": True}),
        ({"DATA_COLLECTION": "no"}, "controls.provider", {"data_collection": "deny"}),
        ({"ADVANCED": '{"DATA_COLLECTION": "deny'}, "controls.provider", {"data_collection": "deny"}),
        ({"QUANTIZATIONS": "fp9, x"}, "controls.provider", {"quantizations": ["fp8"]}),
        ({"MODELS": 5}, "offer.patterns", ("none",)),
        ({"MODEL_FILTERS": 5}, "offer.filters", Filters(frozenset({"free", "zdr"}))),
        ({"CONFIRM_ABOVE_DOLLARS": "0,5"}, "spending.confirm_dollars", 1e-6),
        ({"MAX_REQUESTS_PER_USER": "two"}, "admission.max_requests_per_user", 1),
        ({"NEW_MODEL_ACCESS": ["public"]}, "model_rows.access", ("private",)),
        ({"SEND_IDENTITY": "sesion"}, "controls.identity", "none"),
        ({"PERSIST_REASONING_TOKENS": "never"}, "persistence.reasoning", "disabled"),
        ({"BASE_URL": ["https://a.example"]}, "client.base_url", "none"),
    ],
)
def test_limits_and_access_are_read_strictly(stored: dict[str, object], setting: str, value: object) -> None:
    """Never as none; and a text that is no JSON may have had them."""
    assert attrgetter(setting)(read_settings(HostValves(**stored))) == value


def test_unknown_stored_names_have_no_effect() -> None:
    """In `ADVANCED` they are named; beside it they may be of another version."""
    valves = HostValves(ADVANCED='{"FOO": 1, "WEB_FETCH": false}', BAR=2)
    assert (valves.advanced, valves.unreadable) == (Advanced(WEB_FETCH=False), ("FOO",))


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


@pytest.mark.parametrize(
    "name", ["SPENDING_LIMITS", "PROVIDER_ONLY", "PROVIDER_IGNORE", "MAX_PRICE_INPUT", "MAX_PRICE_OUTPUT"]
)
def test_nothing_is_sent_while_a_protection_cannot_be_read(name: str) -> None:
    """Its default would let others see chats, or cost more, than the administrator has said."""
    refusal = read_settings(HostValves(**{name: [1]})).refusal
    assert (name in refusal, "administrator" in refusal) == (True, True)
    assert read_settings(HostValves(COST_LINE=[1])).refusal == ""
    broken = read_settings(HostValves(ADVANCED=f'{{"{name}": 1')).refusal
    assert (name in broken) == (name in Advanced.model_fields)


@pytest.mark.parametrize("model", CLASSES)
def test_every_valve_has_its_texts_in_plain_words(model: type[ValveFields]) -> None:
    """A number has its unit unless it is a share, and what is empty says so.

    Titles begin with their group, which stands in one place (in `ADVANCED` nobody sees more of a title), and each word
    begins with a capital, as in the titles that the host makes of the names.
    """
    assert list(_texts()[model.__name__]) == list(model.model_fields)
    for name, field in model.model_fields.items():
        text = text_of(model, name)
        assert text.help, name
        assert not ARCANE.search(re.sub(r"`[^`]*`", "", text.help)), name
        assert field.default != "" or text.stands_for, name
        assert field.annotation not in (int, float) or name.endswith("_RATIO") or text.unit, name
    titles = [text_of(model, name).title for name in model.model_fields]
    assert {title.count(" · ") for title in titles} == ({0} if model is Advanced else {1})
    groups = [title.partition(" · ")[0] for title in titles]
    assert len(list(groupby(groups))) == len(set(groups))
    assert [
        word for title in titles for word in title.replace(" ·", "").split() if not word[0].isupper()
    ] == []


def test_an_administrator_can_read_all_valves() -> None:
    """They are few, the key first and `ADVANCED` last, which holds none of them."""
    names = list(Valves.model_fields)
    assert (names[0], names[-1], len(names) <= 25) == ("API_KEY", "ADVANCED", True)
    assert not Valves.model_fields.keys() & Advanced.model_fields.keys()


def test_how_valves_of_both_are_combined_is_known_and_said() -> None:
    """The user's alone are a key of their own, and a limit that the chat's own is held against.

    Of the others the administrator reads what lets users set them: controls by their names, limits by their group.
    """
    shared = UserValves.model_fields.keys() & {**Valves.model_fields, **Advanced.model_fields}.keys()
    assert shared - RULES.keys() == {"API_KEY", "CLIP_LAST_MESSAGES"}
    assert set(RULES) <= shared
    titles = {name: text_of(UserValves, name).title for name in UserValves.model_fields}
    assert {
        **dict.fromkeys(Valves().USER_CONTROLS.split(", "), "USER_CONTROLS"),
        **{name: "ENABLE_USER_OVERRIDE" for name in titles if titles[name].startswith("Context ")},
    } == USER_PERMISSIONS
    assert "the group Context" in text_of(Valves, "ENABLE_USER_OVERRIDE").help


def test_the_examples_can_be_saved() -> None:
    """The one in the form, and the one in the documentation."""
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    shown = re.findall(r"`(\{.*\})`", text_of(Valves, "ADVANCED").help)
    documented = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert (len(shown), len(documented)) == (1, 1)
    for text in (*shown, *documented):
        assert read_advanced(text).model_fields_set == set(json.loads(text))


def test_the_documentation_names_no_other_valves() -> None:
    """A name in capitals that looks like one is one, in every page."""
    known = {name for model in CLASSES for name in model.model_fields}
    text = "".join(page.read_text("utf-8") for page in PAGES)
    stems = tuple(f"{'_'.join(name.split('_')[:length])}_" for name, length in product(known, (1, 2)))
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", text))
    assert {name for name in named - known if name.startswith(stems)} == set()


# --- the settings of one call after the other


class Asked:
    """An app that answers nothing, and keeps the settings that it was called with."""

    def __init__(self) -> None:
        self.pipe = Pipe(lambda: cast("App", self))
        self.settings: list[Settings] = []
        self.worker = SimpleNamespace(host=SimpleNamespace(stored_valves=self.stored_valves))

    async def stored_valves(self, _: str) -> dict[str, Any]:
        """As the host has them where an administrator has set none."""
        return {}

    async def answer(self, _: object, settings: Settings) -> AsyncGenerator[object]:
        self.settings.append(settings)
        nothing: tuple[object, ...] = ()
        for output in nothing:
            yield output

    async def ask(self, user_id: str, valves: UserValves) -> Settings:
        """The settings of a call with a user's valves."""
        user = {"id": user_id, "role": "user", "valves": valves}
        messages = [{"role": "user", "content": "Hello"}]
        await self.pipe.pipe(
            {"model": "openrouter.a/m", "messages": messages, "stream": False}, __user__=user
        )
        return self.settings[-1]


@pytest.mark.anyio
async def test_settings_are_read_anew_when_a_valve_has_changed() -> None:
    """The administrator's or the user's, or one that can no longer be read; a sealed key opens for its owner alone."""
    app = Asked()
    quiet, loud = UserValves(STATUS_LINES="important"), UserValves(STATUS_LINES="all")
    assert await app.ask("ada", quiet) is await app.ask("ada", quiet)
    app.pipe.valves = Pipe.Valves(BASE_URL="https://example.com")
    moved, shown = await app.ask("ada", quiet), await app.ask("ada", loud)
    assert (moved.client.base_url, moved.status_lines) == ("https://example.com", "important")
    assert (shown.status_lines, shown.refusal) == ("all", "")
    key = bound_key(UserValves(API_KEY="sk-or-v1-of-ada").API_KEY, "ada")
    own = UserValves.model_construct({"API_KEY"}, API_KEY=key)
    opened = [(await app.ask(user_id, own)).controls.own_api_key for user_id in ("ada", "bob")]
    assert opened == ["sk-or-v1-of-ada", ""]
    app.pipe.valves = Pipe.Valves(BASE_URL="https://example.com", SPENDING_LIMITS=[1])
    assert (await app.ask("ada", loud)).refusal
    for wrong in ("lo", "hi"):
        app.pipe.valves = Pipe.Valves(REASONING_EFFORT=wrong)
        assert wrong in (await app.ask("ada", loud)).checks.problems[0].line
