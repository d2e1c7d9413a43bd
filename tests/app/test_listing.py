"""What Open WebUI lists: the offered models, or why there are none, and what that entry answers in a chat."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from open_webui_openrouter_pipe.history.markers import ANSWER_MARK
from open_webui_openrouter_pipe.openrouter import catalog
from open_webui_openrouter_pipe.responses.effects import ResponseFinished
from open_webui_openrouter_pipe.words.lines import LANGUAGES
from scripts.standin import catalogue, endpoints, videos
from tests.app.chat import Broken, Chat, NewChat, app_on, sent, settings
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from open_webui_openrouter_pipe.app import App
    from open_webui_openrouter_pipe.settings import Settings
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

LISTED = {
    model.id
    for model in catalogue.MODELS
    if {"text", "image"} & set(model.outputs) and not model.id.endswith(":batch")
}
LISTED |= set(catalogue.ROUTERS)
LISTED = {name for name in LISTED if not name.endswith(":batch")}
BESIDE = {*videos.BY_ID, *endpoints.DRAWING}
LISTED |= {*BESIDE, *endpoints.SPEAKING, *endpoints.TRANSCRIBING}
CASES = Path(__file__).with_name("listings.txt")


def down() -> Broken:
    """No path works."""
    return Broken("/models", "/key", "/endpoints/zdr", "/responses")


async def listed(app: App, chosen: Settings) -> list[dict[str, str]]:
    """What is listed once all that was begun is over."""
    await app.models(chosen)
    await app.idle()
    return await app.models(chosen)


def status_names(entries: Sequence[dict[str, str]]) -> list[str]:
    """The names of the entries that are no models, which stand first."""
    assert all(entry["id"] != "status" for entry in entries[1:])
    return [entry["name"] for entry in entries if entry["id"] == "status"]


async def test_all_is_well(app: App, standin: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    """Only models are listed, by provider; the log has what the key may spend, and not the key."""
    with caplog.at_level(logging.INFO, logger="open_webui_openrouter_pipe"):
        entries = await listed(app, settings(standin))
    assert {entry["id"] for entry in entries} == LISTED
    providers = [entry["name"].partition(": ")[0].casefold() for entry in entries if ": " in entry["name"]]
    assert providers == sorted(providers)
    assert "Its limit is $50.00 a month; $50.00 are left." in caplog.text
    assert "sk-or-test" not in caplog.text


@pytest.mark.parametrize(
    ("key", "name"), rows(CASES, "an API key => the entry that stands before the models")
)
async def test_a_key_that_does_not_work_is_found_at_once(
    app: App, standin: StandIn, key: str, name: str
) -> None:
    """The very first list has the entry before the models, which need no key; nothing is asked with no key."""
    entries = await app.models(settings(standin, API_KEY=key))
    assert (status_names(entries), len(entries) - 1) == ([name], len(LISTED))
    assert bool(key) or "/key" not in [request.path for request in standin.requests]


async def test_another_key_is_tested_at_once(app: App, standin: StandIn) -> None:
    """And with a good one the entry is not there any more."""
    names = [
        status_names(await listed(app, settings(standin, API_KEY=key))) for key in ("sk-or-bad", "sk-or-1")
    ]
    assert (len(names[0]), names[1]) == (1, [])


@pytest.mark.parametrize(
    ("base_url", "answer", "name"),
    rows(
        CASES,
        "an address | what is answered there, if not the truth => what the only entry ends with",
    ),
)
async def test_a_server_without_a_list_is_named(
    tmp_path: Path, standin: StandIn, base_url: str, answer: tuple[int, str] | None, name: str
) -> None:
    """In the terms of the valve of its address; there is nothing else to list."""
    broken = Broken("/models", answer=httpx.Response(answer[0], text=answer[1])) if answer else None
    async with app_on(tmp_path, broken) as app:
        (entry,) = await app.models(settings(standin, BASE_URL=base_url.replace("STANDIN", standin.url)))
    assert (entry["id"], name in entry["name"]) == ("status", True)


async def test_the_list_survives_everything(tmp_path: Path, standin: StandIn) -> None:
    """A restart, and another key or address and back, with the network down; each has a list of its own."""
    elsewhere = settings(standin, BASE_URL=f"{standin.url}/elsewhere")
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        first = await app.models(settings(standin))
    async with app_on(tmp_path, down(), cache_folder=tmp_path) as app:
        again = await app.models(settings(standin))
        other_key = await app.models(settings(standin, API_KEY="sk-or-2"))
        other_address = await app.models(elsewhere)
        back = await app.models(settings(standin))
    assert len(first) == len(LISTED)
    assert (again, back) == (first, first)
    assert [[entry["id"] for entry in each] for each in (other_key, other_address)] == [["status"]] * 2


async def test_only_what_the_account_lets_answer_is_listed(tmp_path: Path, standin: StandIn) -> None:
    """By the key's own list; where there is none, all models are."""

    class Own(Broken):
        own: httpx.Response

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/models/user"):
                return self.own
            return await super().handle_async_request(request)

    row = {"id": "openai/gpt-5.2", "name": "One"}
    found = []
    for own in (
        httpx.Response(200, json={"data": [row]}),
        httpx.Response(200, json={"data": []}),
        *(httpx.Response(status, text="no") for status in (400, 401, 403, 404)),
    ):
        network = Own()
        network.own = own
        async with app_on(tmp_path, network) as app:
            found.append(len(await app.models(settings(standin))))
    assert found == [
        1 + len(BESIDE),
        *[len(LISTED)] * 5,
    ]  # what endpoints of their own serve, no account's list has


class Without(Broken):
    """The network, on which the list lacks a model as long as it `lacks` it."""

    lacks = True

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if self.lacks and "/models" in request.url.path:
            rows = json.loads(await response.aread())["data"]
            left = [row for row in rows if row["id"] != "openai/gpt-4o"]
            return httpx.Response(200, json={"data": left})
        return response


async def test_a_model_that_is_gone_says_which_one_to_take(tmp_path: Path, standin: StandIn) -> None:
    """Behind the others in the list, while rows are written, where it can be hidden; at no cost, and not for tasks."""
    chosen = settings(standin, MODELS="openai/*")
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        before = await listed(app, chosen)
    async with app_on(tmp_path, Without(), cache_folder=tmp_path) as app:
        after = await listed(app, chosen)
        without_rows = await listed(app, settings(standin, MODELS="openai/*", SYNC_MODEL_INFO=False))
        chat = Chat(app, chosen, model="openai/gpt-4o", language=LANGUAGES["de"])
        answer = await chat.ask("Hello")
        title = await chat.title()
        helped = await chat.ask("/help")
        program = Chat(app, chosen, model="openai/gpt-4o", chat_id="")
        refused = await program.ask("Hello")
        assert standin.responses == []
        chat.model = "openai/gpt-5"
        await chat.ask("And now?")
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        assert await listed(app, chosen) == before
    gone = {"id": "openai/gpt-4o", "name": "OpenAI: GPT-4o (withdrawn)"}
    others = [entry for entry in before if entry["id"] != gone["id"]]
    assert (after, without_rows) == ([*others, gone], others)
    assert answer.text.lstrip(ANSWER_MARK).startswith("**OpenAI: GPT-4o** wird seit dem 20")
    assert "Nehmen Sie stattdessen **OpenAI: GPT-5" in answer.text
    assert [type(output) for output in title] == [ResponseFinished]
    assert "Take **OpenAI: GPT-5" in (refused.error or "")
    assert "`/context`" in helped.text
    assert [(item["role"], item["content"][0]["text"]) for item in sent(standin)["input"]] == [
        ("user", "Hello"),
        ("user", "And now?"),
    ]


async def test_where_nothing_is_left_any_other_model_is_named(tmp_path: Path, standin: StandIn) -> None:
    """The words for it do not name one."""
    chosen = settings(standin, MODELS="openai/gpt-4o")
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        await listed(app, chosen)
    async with app_on(tmp_path, Without(), cache_folder=tmp_path) as app:
        entries = await listed(app, chosen)
        answer = await Chat(app, chosen, model="openai/gpt-4o").ask("Hello")
    assert [entry["id"] for entry in entries] == ["status", "openai/gpt-4o"]
    assert "Choose another model below" in answer.text


async def test_an_administrator_reads_which_default_costs_little(new_chat: NewChat, standin: StandIn) -> None:
    """Where everything is in order; nobody else does."""
    asked = [("admin", "sk-or-1"), ("user", "sk-or-1"), ("admin", "sk-or-bad")]
    answers = [await new_chat(API_KEY=key, model="status", role=role).ask("?") for role, key in asked]
    assert ["Set as Selected Model" in answer.text for answer in answers] == [True, False, False]
    assert "One that costs little is **xAI: Grok 4.1 Fast**" in answers[0].text
    assert "(2,000,000 tokens), of those whose input costs less than the median ($0.20 for" in answers[0].text


async def test_only_so_many_keys_and_addresses_are_remembered(app: App, standin: StandIn) -> None:
    """One that was forgotten is read again."""
    for number in range(12):
        await app.models(settings(standin, BASE_URL=f"{standin.url}{'/' * number}/api/v1"))
    entries = await app.models(settings(standin))
    assert (len(app.worker.listings), len(entries)) == (4, len(LISTED))


@pytest.mark.parametrize(("valves", "ids"), rows(CASES, "valves => what is listed"))
async def test_the_administrator_chooses(
    app: App, standin: StandIn, valves: dict[str, str], ids: list[str]
) -> None:
    """What is offered follows the valves; where nothing is, the entry says why."""
    entries = await listed(app, settings(standin, **valves))
    assert [entry["id"] for entry in entries] == ids


async def test_what_keeps_no_data_is_offered_only_once_that_is_known(
    tmp_path: Path, standin: StandIn
) -> None:
    """It fails closed, also when the models are known, and is then tried again; it is asked for only if wanted."""
    chosen = settings(standin, MODEL_FILTERS="zdr")
    network = Broken("/endpoints/zdr", answer=httpx.Response(503))
    async with app_on(tmp_path, network, cache_folder=tmp_path) as app:
        await listed(app, settings(standin))
        unasked = "/endpoints/zdr" not in network.asked
        entries = await listed(app, chosen)
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        later = await listed(app, chosen)
    async with app_on(tmp_path, down(), cache_folder=tmp_path) as app:
        offline = await app.models(chosen)
    assert unasked
    assert entries == [
        {"id": "status", "name": "OpenRouter: no zdr list yet (see MODEL_FILTERS in the valves)"}
    ]
    assert {entry["id"].partition("/")[0] for entry in later} >= {"anthropic", "google"}
    assert "openai" not in {entry["id"].partition("/")[0] for entry in later}
    assert offline == later


@pytest.mark.parametrize(
    "model",
    [
        *("openai/gpt-5.2:nitro", "openai/gpt-5.2:floor", "openai/gpt-5.2:exacto", "openai/gpt-5.2:online"),
        *("openai/gpt-5.2@preset/team", "openai/gpt-5.2:nitro@preset/team", "@preset/team"),
        "meta-llama/llama-3.3-70b-instruct:free",
    ],
)
async def test_each_variant_answers(new_chat: NewChat, standin: StandIn, model: str) -> None:
    """It is asked for by its own name, twice, and what is known of its model holds for it."""
    chat = new_chat(model=model)
    assert [(await chat.ask(text)).error for text in ("one", "two")] == [None, None]
    asked = [(each.body["model"], each.status, each.warnings) for each in standin.responses]
    assert asked == [(model, 200, [])] * 2
    if model.startswith("openai/"):
        assert standin.responses[0].body["include"] == ["reasoning.encrypted_content"]


# --- the entry in a chat


@pytest.mark.parametrize(
    ("role", "key", "line"), rows(CASES, "who asks the entry | with which API key => what the answer has")
)
async def test_the_entry_answers_in_a_chat(
    new_chat: NewChat, standin: StandIn, role: str, key: str, line: str
) -> None:
    """With what is true now, at no cost: no model is asked."""
    answer = await new_chat(API_KEY=key, model="status", role=role).ask("What is wrong?")
    assert (answer.error, line in answer.text) == (None, True)
    assert standin.responses == []
    assert "$" not in answer.text or role == "admin"


async def test_while_openrouter_cannot_be_reached_only_the_entry_tries_again(
    tmp_path: Path, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list says since when, and asks nobody; who has repaired the network asks the entry, and reads it there."""
    network = down()
    async with app_on(tmp_path, network) as app:
        chat = Chat(app, settings(standin), model="status", role="admin")
        (entry,) = await listed(app, chat.settings)
        asked = len(network.asked)
        assert (await app.models(chat.settings), len(network.asked)) == ([entry], asked)
        before = (await chat.ask("And now?")).text
        network.paths = ()
        monkeypatch.setattr(catalog, "monotonic", lambda: asyncio.get_running_loop().time() + 15)
        after = (await chat.ask("And now?")).text
    assert entry["name"].startswith("OpenRouter: unreachable since 20")
    assert "cannot be reached since" in before
    assert "Everything is in order." in after


async def test_a_chat_goes_on_with_a_model(new_chat: NewChat, standin: StandIn) -> None:
    """Which does not take the entry's answer for its own; a task gets nothing from it."""
    chat = new_chat(model="status", role="admin")
    assert [type(output) for output in await chat.title()] == [ResponseFinished]
    await chat.ask("one")
    chat.model = "openai/gpt-5.2"
    answer = await chat.ask("two")
    (request,) = standin.responses
    assert (answer.error, request.status, len(request.body["input"])) == (None, 200, 2)
