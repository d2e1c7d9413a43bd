"""Wrong values of valves: the list, chats and commands work all the same, and whoever can mend them reads which."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.money.limits import Group
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.valves import Advanced, StoredUserValves, UserValves, Valves
from open_webui_openrouter_pipe.words.lines import LANGUAGES
from scripts.harness.page import Page, PipeInProcess
from tests.app.chat import MODEL, NewChat, app_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

WRONG: dict[str, Any] = {"list": [1], "word": "abc", "infinite": math.inf}
CLAUDE = "anthropic/claude-sonnet-4.5"
"""Of a provider that keeps nothing."""
LOCKING = ("SPENDING_LIMITS", "PROVIDER_ONLY", "PROVIDER_IGNORE", "MAX_PRICE_INPUT", "MAX_PRICE_OUTPUT")
"""While these cannot be read, nothing is sent."""
ERRORS = {
    ("API_KEY", "word"): "did not accept",
    ("API_KEY", "list"): "No OpenRouter API key",
    ("API_KEY", "infinite"): "No OpenRouter API key",
    ("PROVIDER_ONLY", "word"): "not available with the settings",
}
"""Without its key nothing can be asked; and which providers there are no list says."""
ANY_TEXT = (
    "API_KEY",
    "NEW_MODEL_ACCESS",
    "BASE_URL",
    "DOWNLOAD_HOSTS",
    "APP_TITLE",
    "HTTP_REFERER",
    "PROVIDER_ORDER",
    "PROVIDER_ONLY",
    "PROVIDER_IGNORE",
)
"""Whatever is written there may be right; which groups there are is not known here."""
LIMITS = "user: 2/dya"
EXAMPLE = "`user: 2/day 20/month; each of Students: 0.5/day; group Staff: 50/month; all: 100/month`"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("settings", "valves"):
        monkeypatch.setattr(f"open_webui_openrouter_pipe.{module}.host_secret", lambda: "secret")


@pytest.fixture
async def pipe(tmp_path: Path, standin: StandIn) -> AsyncIterator[Pipe]:
    """A pipe that knows its models."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as opened:
        yield opened


async def helped(page: Page) -> str:
    """What a user reads of /help, which always answers."""
    answer = await page.ask("/help")
    assert answer.error is None
    assert "/context" in answer.text
    return answer.text


@pytest.mark.parametrize(
    "name",
    [*Valves.model_fields, *(name for name in Advanced.model_fields if name not in Valves.model_fields)],
)
async def test_a_wrong_valve_stops_neither_list_nor_chats_nor_commands(
    pipe: Pipe, standin: StandIn, name: str
) -> None:
    """It is named in the first entry and in /help for administrators, and for nobody else."""
    fixed = {"API_KEY": "sk-or-test", "BASE_URL": standin.base_url, "COST_LINE": "off"}
    for kind, value in WRONG.items():
        wrong = {"ADVANCED": json.dumps({name: value})} if name in Advanced.model_fields else {name: value}
        pipe.valves = Pipe.Valves(**{**fixed, **wrong})
        is_said = kind != "word" or name not in ANY_TEXT
        entries = await pipe.pipes()
        user, admin = (
            Page(pipe, CLAUDE, chat_id=f"{role}-{kind}", user_id=role) for role in ("user", "admin")
        )
        admin.user["role"] = "admin"
        texts = [await helped(user), await helped(admin)]
        assert [f"`{name}`: " in text for text in texts] == [False, is_said]
        assert entries[0]["id"] == "status" or not is_said
        answer = await user.ask("Hello")
        is_locked = name in LOCKING and (kind != "word" or name not in ANY_TEXT)
        expected = name if is_locked else ERRORS.get((name, kind), "BASE_URL" * (name == "BASE_URL"))
        assert (expected in (answer.error or ""), bool(answer.text)) == (True, not expected), kind


@pytest.mark.parametrize("name", UserValves.model_fields)
async def test_a_users_wrong_valve_is_said_to_that_user(pipe: Pipe, name: str) -> None:
    """In /help, and once above an answer."""
    for kind, value in WRONG.items():
        own = StoredUserValves(**{name: value})
        page = Page(pipe, CLAUDE, chat_id=kind, user_id=f"user-{kind}", valves=own)
        is_read = kind == "word" and name in ("API_KEY", "SPEECH_VOICE")
        answers = [await page.ask("Hello") for _ in range(2)]
        said = [f"`{name}`: " in "".join(answer.notices) for answer in answers]
        if name == "API_KEY":
            assert all("API" in (answer.error or "") for answer in answers)
        else:
            assert [(each.error, bool(each.text)) for each in answers] == [(None, True)] * 2
            assert said == [not is_read, False]
        assert (f"`{name}`: " in await helped(page)) != is_read


async def test_a_hidden_valve_of_a_user_is_not_said(pipe: Pipe, standin: StandIn) -> None:
    """Nothing of it is followed."""
    pipe.valves = Pipe.Valves(
        API_KEY="sk-or-test", BASE_URL=standin.base_url, USER_CONTROLS="none", COST_LINE="off"
    )
    page = Page(pipe, MODEL, valves=StoredUserValves(WEB_SEARCH="of"))
    answer = await page.ask("Hello")
    assert (answer.error, answer.notices, "WEB_SEARCH" in await helped(page)) == (None, [], False)


@pytest.mark.parametrize(
    ("valves", "refusal"),
    [
        ({"SPENDING_LIMITS": LIMITS}, "SPENDING_LIMITS"),
        ({"SPENDING_LIMITS": "user: 0/day"}, "is used up"),
        ({"API_KEY": ""}, "No OpenRouter API key"),
        ({"SPENDING_LIMITS": "each of Students: 1/day"}, "cannot be checked"),
    ],
)
async def test_commands_answer_when_nothing_may_be_sent(
    new_chat: NewChat, standin: StandIn, valves: dict[str, Any], refusal: str
) -> None:
    """Those that send nothing themselves."""
    chat = new_chat(**valves)

    async def fail(user_id: str) -> Sequence[Group]:
        raise StoreUnavailable("The groups cannot be read.", detail=user_id)

    chat.app.worker.spending = replace(chat.app.worker.spending, groups=fail)
    chat.grow(6)
    for command in ("/help", "/context", "/aim thrifty", "/restore 1", "/discard"):
        answer = await chat.ask(command)
        assert (answer.error, bool(answer.text)) == (None, True), command
    summarizing, asking = await chat.ask("/compact"), await chat.ask("Hello")
    assert refusal in (asking.error or "")
    assert refusal in (summarizing.error or "") or not valves.get("SPENDING_LIMITS")
    assert standin.responses == []


async def test_an_own_key_that_is_lost_does_not_stop_commands(new_chat: NewChat) -> None:
    """Nor one that no header can hold."""
    for key in ("", "sk-or-ü"):
        chat = new_chat()
        chat.settings = replace(
            chat.settings, controls=replace(chat.settings.controls, own_api_key=Secret(key))
        )
        assert ((await chat.ask("/context")).error, bool((await chat.ask("Hello")).error)) == (None, True)


@pytest.mark.parametrize("code", LANGUAGES)
async def test_administrators_read_what_is_wrong_in_their_language(new_chat: NewChat, code: str) -> None:
    """In /help, /context and the answer of the entry: the valve, what was meant, and an example."""
    wrong = {"SPENDING_LIMITS": LIMITS, "MODEL_FILTERS": "vison", "SUMMARY_MODEL": "openai/gpt-5.3"}
    chat = new_chat(role="admin", language=LANGUAGES[code], **wrong)
    await chat.app.models(chat.settings)
    texts = [(await chat.ask(command)).text for command in ("/help", "/context")]
    chat.model = "status"
    texts.append((await chat.ask("What is wrong?")).text)
    (say,) = [LANGUAGES[code].lines["problems"]]
    for text in texts:
        assert say in text
        said = [
            part in text for part in (EXAMPLE, "`vison`", "`vision`", "`openai/gpt-5.3`", "`openai/gpt-5.2`")
        ]
        assert said == [True] * 5
    (entry, *_) = await chat.app.models(chat.settings)
    assert entry["name"].startswith("OpenRouter: wrong SPENDING_LIMITS (user: 2/dya cannot be read")


async def test_a_limit_that_cannot_be_read_stops_those_whom_it_names(
    tmp_path: Path, standin: StandIn
) -> None:
    """The members of its group; others and administrators chat."""

    async def groups(user_id: str) -> Sequence[Group]:
        return [Group("g", "Students")] if user_id == "ada" else []

    async def names() -> list[str]:
        return ["Students"]

    async with app_on(tmp_path, groups=groups, group_names=names) as app:
        new_chat = NewChat(app, standin, {"SPENDING_LIMITS": "each of Students: 1/dya; group Studnts: 5/day"})
        ada, bob, admin = new_chat(), new_chat(user_id="bob"), new_chat(role="admin")
        answers = [await chat.ask("Hello") for chat in (ada, bob, admin)]
        text = (await admin.ask("/help")).text
    assert [bool(each.error) for each in answers] == [True, False, False]
    assert "`each of Students: 1/dya` cannot be read" in text
    assert "`Studnts` is not known; did you mean `Students`?" in text
