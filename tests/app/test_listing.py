"""What Open WebUI lists: the offered models, or why there are none, and what that entry answers in a chat."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import httpx
import pytest

from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.responses.effects import ResponseFinished
from open_webui_openrouter_pipe.settings import read_settings
from scripts.harness.page import Page, PipeInProcess
from scripts.standin import catalogue
from tests.app.chat import Chat, NewChat, app_on, settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App
    from open_webui_openrouter_pipe.settings import Settings
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

LISTED = {model.id for model in catalogue.MODELS if {"text", "image"} & set(model.outputs)}
KEYLESS = "OpenRouter: no API key yet (set API_KEY in the valves)"
REFUSED = "OpenRouter: key refused (check API_KEY in the valves)"


class Broken(httpx.AsyncBaseTransport):
    """The network, on which some paths do not work; `answer` is what they get, an exception or a response."""

    def __init__(self, *paths: str, answer: Exception | httpx.Response) -> None:
        self.network = httpx.AsyncHTTPTransport()
        self.paths, self.answer = paths, answer
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        self.asked.append(path)
        if path not in self.paths:
            return await self.network.handle_async_request(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def aclose(self) -> None:
        await self.network.aclose()


def down() -> Broken:
    """No path works."""
    return Broken("/models", "/key", "/endpoints/zdr", "/responses", answer=httpx.ConnectError("refused"))


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
    ("key", "name"),
    [
        ("", KEYLESS),
        ("sk-or-bad-1", REFUSED),
        ("sk-or-“x”", "OpenRouter: wrong API_KEY (it has characters that no key has)"),
        ("sk-or-exhausted", "OpenRouter: key used up (nothing is left of its limit)"),
    ],
)
async def test_a_key_that_does_not_work_is_found_at_once(
    app: App, standin: StandIn, key: str, name: str
) -> None:
    """The very first list has the entry before the models, which need no key; nothing is asked with no key."""
    entries = await app.models(settings(standin, API_KEY=key))
    assert (status_names(entries), len(entries) - 1) == ([name], len(LISTED))
    assert bool(key) or "/key" not in [request.path for request in standin.requests]


async def test_another_key_is_tested_at_once(tmp_path: Path, standin: StandIn) -> None:
    """And with a good one the entry is not there any more."""
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        names = [
            status_names(await listed(app, settings(standin, API_KEY=key)))
            for key in ("sk-or-bad", "sk-or-1", "")
        ]
    assert names == [[REFUSED], [], [KEYLESS]]


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        *(
            (each, "OpenRouter: wrong BASE_URL (it is not an address)")
            for each in ("not a url", "https//openrouter.ai/v1", "htps://openrouter.ai/v1", "https://", "")
        ),
        *(
            (f"STANDIN/{path}", "OpenRouter: wrong BASE_URL (OpenRouter's API is not there)")
            for path in ("api/v2", "_standin/x")
        ),
    ],
)
async def test_a_wrong_address_is_named_as_such(app: App, standin: StandIn, base_url: str, name: str) -> None:
    """In the terms of its valve; there is nothing else to list."""
    entries = await app.models(settings(standin, BASE_URL=base_url.replace("STANDIN", standin.url)))
    assert entries == [{"id": "status", "name": name}]


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (httpx.Response(200, text="<html>Log in</html>"), "OpenRouter's API is not there"),
        (httpx.Response(200, json={"data": []}), "OpenRouter's API is not there"),
        (httpx.Response(503), "OpenRouter: errors since 20"),
        (httpx.Response(403), "OpenRouter: errors since 20"),
    ],
)
async def test_a_server_without_a_list_is_named(
    tmp_path: Path, standin: StandIn, answer: httpx.Response, name: str
) -> None:
    """A page for people to log in is not OpenRouter's API, and an error is not the address's fault."""
    async with app_on(tmp_path, Broken("/models", answer=answer)) as app:
        (entry,) = await app.models(settings(standin))
    assert name in entry["name"]


async def test_while_openrouter_cannot_be_reached_the_entry_says_since_when(
    tmp_path: Path, standin: StandIn
) -> None:
    """Nothing waits for it again; once it can be reached, and is asked again, the models are there."""
    network = down()
    async with app_on(tmp_path, network) as app:
        (entry,) = await listed(app, settings(standin))
        asked = len(network.asked)
        assert await app.models(settings(standin)) == [entry]
        assert len(network.asked) == asked
    assert entry["name"].startswith("OpenRouter: unreachable since 20")


async def test_the_list_survives_everything(tmp_path: Path, standin: StandIn) -> None:
    """A restart, another key, and another address and back, with the network down."""
    elsewhere = settings(standin, BASE_URL=f"{standin.url}/elsewhere")
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        first = await app.models(settings(standin))
    async with app_on(tmp_path, down(), cache_folder=tmp_path) as app:
        again = await app.models(settings(standin))
        other_key = await app.models(settings(standin, API_KEY="sk-or-2"))
        other_address = await app.models(elsewhere)
        back = await app.models(settings(standin))
    assert len(first) == len(LISTED)
    assert (again, other_key, back) == (first, first, first)
    assert [entry["id"] for entry in other_address] == ["status"]


async def test_only_so_many_keys_and_addresses_are_remembered(app: App, standin: StandIn) -> None:
    """One that was forgotten is read again."""
    for number in range(12):
        await app.models(settings(standin, BASE_URL=f"{standin.url}{'/' * number}/api/v1"))
    entries = await app.models(settings(standin))
    assert (len(app.worker.listings), len(entries)) == (4, len(LISTED))


@pytest.mark.parametrize(
    ("valves", "ids"),
    [
        (
            {"MODELS": "openai/gpt-5*", "VARIANTS": "openai/gpt-5.2:nitro, @preset/team"},
            ["openai/gpt-5.2", "openai/gpt-5.2:nitro", "openai/gpt-5.6-sol", "@preset/team"],
        ),
        ({"MODEL_FILTERS": "free"}, ["meta-llama/llama-3.3-70b-instruct:free"]),
        (
            {"MODEL_FILTERS": "zdr, price<=3", "MODELS": "anthropic/*, openai/*"},
            ["anthropic/claude-sonnet-128k", "anthropic/claude-sonnet-4.5"],
        ),
        ({"MODEL_FILTERS": "newest", "MODELS": "mistralai/mistral-large*"}, ["mistralai/mistral-large-2512"]),
        ({"MODELS": "nobody/*"}, ["status"]),
        ({"MODEL_FILTERS": "free, vision", "MODELS": "openai/*"}, ["status"]),
        ({"MODEL_FILTERS": "fre"}, ["status"]),
        ({"MODELS": "openai/gpt-4o", "VARIANTS": "openai/gpt-4o"}, ["status", "openai/gpt-4o"]),
        ({"MODELS": "openai/gpt-4o", "STATUS_ENTRY": "always"}, ["status", "openai/gpt-4o"]),
    ],
)
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


async def test_a_user_falls_back_to_offered_models_alone(new_chat: NewChat, standin: StandIn) -> None:
    """What the filters leave, and the variants that are offered."""
    valves = {"MODEL_FILTERS": "price<=2", "VARIANTS": "openai/gpt-5.2:nitro", "USER_PARAMETERS": "models"}
    wanted = ["openai/gpt-5.2:nitro", "openai/gpt-5.2:floor", "openai/gpt-4o", "openai/gpt-4.1-mini"]
    await new_chat(**valves).ask("one", models=wanted)
    assert standin.responses[0].body["models"] == ["openai/gpt-5.2:nitro", "openai/gpt-4.1-mini"]


# --- the entry in a chat


@pytest.mark.parametrize(
    ("role", "key", "expected"),
    [
        ("admin", "", ["No API key is set.", "https://openrouter.ai/settings/keys"]),
        ("admin", "sk-or-bad", ["OpenRouter refuses the API key"]),
        ("admin", "sk-or-1", ["Everything is in order.", "Its limit is $50.00 a month; $50.00 are left."]),
        ("admin", "sk-or-poor", ["No credits have been bought yet"]),
        ("user", "", ["An administrator has to set it up"]),
        ("user", "sk-or-1", ["OpenRouter is ready. Choose one of its models."]),
    ],
)
async def test_the_entry_answers_in_a_chat(
    new_chat: NewChat, standin: StandIn, role: str, key: str, expected: list[str]
) -> None:
    """With what is true now, at no cost: no model is asked."""
    answer = await new_chat(API_KEY=key, model="status", role=role).ask("What is wrong?")
    assert (answer.error, [part for part in expected if part not in answer.text]) == (None, [])
    assert standin.responses == []
    assert "$" not in answer.text or role == "admin"


async def test_the_entry_tries_again_when_it_is_asked(tmp_path: Path, standin: StandIn) -> None:
    """Whoever has repaired the network need not wait for the next attempt."""
    network = down()
    async with app_on(tmp_path, network) as app:
        chat = Chat(app, settings(standin), model="status", role="admin")
        listing = app.worker.listing(chat.settings.client)
        before = (await chat.ask("And now?")).text
        network.paths = ()
        listing.catalog.rows._clock = listing._key._clock = lambda: asyncio.get_running_loop().time() + 15
        after = (await chat.ask("And now?")).text
    assert "cannot be reached since" in before
    assert "Everything is in order." in after


async def test_a_task_gets_nothing_from_the_entry(new_chat: NewChat) -> None:
    """Open WebUI then uses the user's own words as the title."""
    outputs = await new_chat(model="status").title()
    assert [type(output) for output in outputs] == [ResponseFinished]


async def test_the_entry_answers_on_the_page_and_to_bare_callers(tmp_path: Path, standin: StandIn) -> None:
    """As a stored message, as chunks and as a completion."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url, API_KEY="") as pipe:
        page = Page(pipe, "status")
        stored = (await page.ask("Hello?")).output
        body = {"model": "openrouter.status", "messages": [{"role": "user", "content": "Hello?"}]}
        streamed = await pipe.pipe({**body, "stream": True}, __user__={"id": "ada"})
        lines = "".join([line async for line in streamed.body_iterator]).split("\n\n")
        chunks = [
            json.loads(line.removeprefix("data: ")) for line in lines if line not in {"", "data: [DONE]"}
        ]
        completion = await pipe.pipe(body, __user__={"id": "ada"})
    line = "OpenRouter cannot be used at present. An administrator has to set it up; please ask one."
    assert [item["content"][0]["text"] for item in stored] == [line]
    deltas = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert ("".join(deltas), chunks[-1]["choices"][0]["finish_reason"]) == (line, "stop")
    assert completion["choices"][0]["message"]["content"] == line
    assert json.dumps(stored).count("null") == 0


async def test_a_chat_goes_on_with_a_model(new_chat: NewChat, standin: StandIn) -> None:
    """The entry's answer is part of the chat like any other."""
    chat = new_chat(model="status", role="admin")
    await chat.ask("one")
    chat.model = "openai/gpt-5.2"
    answer = await chat.ask("two")
    (request,) = standin.responses
    assert (answer.error, request.status, len(request.body["input"])) == (None, 200, 3)


def test_the_host_finds_an_entry_for_every_state() -> None:
    """The valves' own defaults are valid, and mean: all models, no filter, no variants."""
    offer = read_settings(Pipe.Valves()).offer
    found = (offer.patterns, offer.variants, offer.unknown_variants, offer.shows_status)
    assert found == (("*",), (), (), False)
