"""What a person sees on Open WebUI's page, state by state; each is kept as a screenshot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

from open_webui_openrouter_pipe.words.lines import LANGUAGES, in_language, notice
from scripts import build
from scripts.harness.openwebui import OpenWebUI
from scripts.launch import pipe
from scripts.launch.api import ApiError
from scripts.standin.state import account_of
from tests.live.chats import (
    CLAUDE,
    CUT_OFF,
    MODEL,
    NO_TOOLS,
    REPLAYED,
    SCRIPTED,
    WEATHER,
    answers,
    given,
    kinds,
    preset,
    saved_chat,
    statuses,
    texts_of,
    wire,
)
from tests.support.browser import Browser
from tests.support.long_chats import words
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scripts.harness.openwebui import Account
    from scripts.standin import StandIn

    Valves = Callable[..., None]

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

NAME = "OpenAI: GPT-5.2"
TINY, TINY_NAME = "openrouter.mistralai/mistral-small-8k", "Mistral: Small 8k"
DEEPSEEK = "openrouter.deepseek/deepseek-v3.2"
STATUS = "openrouter.status"
VARIANT, VARIANT_NAME = "openai/gpt-5.2:nitro@preset/team", "OpenAI: GPT-5.2 (nitro) (preset team)"
KEY = "sk-or-v1-my-own-key"
MARKER = re.compile(r"\[[0-9A-Z]{20}\]")
CUT = re.compile(r"\d+ of \d+ earlier turns (?:were|was) (?:left out|shortened): about [\d,]+ tokens")
RETRIEVED = re.compile(
    r"The retrieved text was cut to its beginning: about [\d,]+ of its [\d,]+ tokens were left out\."
)
COST = re.compile(
    r"\$[\d.]+ · next message from \$[\d.]+ \(\$[\d.]+ after (tomorrow at )?\d\d:\d\d( UTC)?\)"
    r" · [\d,]+ tokens in( \([\d,]+ cached\))? · [\d,]+ out · [\d.]+ s( · [\d,]+ tok/s)?"
)
DECLINED = re.compile(r"Not sent: you did not agree to about \$[\d.]+\. Nothing was charged\.")
REACHED = re.compile(
    r"The spending limit of all users of \$[\d.]+ a month is used up, until .+ Nothing was sent\."
)
LIBRARY = """
class Filter:
    def request(self, body: dict) -> dict:
        sources = [
            f'<source id="{number}" name="report {number}">{"The ship was late. " * 400}</source>'
            for number in range(1, 13)
        ]
        found = {"role": "system", "content": "\\n".join(sources)}
        return {**body, "messages": [found, *body["messages"]]}
"""
SEEN = {
    "de-DE": (
        "früheren Nachrichten mit ihren Antworten wurden",
        "Das OpenRouter-Konto hat",
        "Antwort fortsetzen",
    ),
    "ja-JP": ("応答とともに", "OpenRouter アカウントのクレジット", "応答の続きを生成"),
}
"""Of a cut, of an error, and the name of the button that continues."""


def plain_turns(count: int, tokens: int = 900) -> list[tuple[str, str | dict[str, Any]]]:
    """Turns of about so many tokens."""
    return [(f"Question {at}", f"Answer {at}: {words(tokens, at)}") for at in range(count)]


def wait_for(page: Browser, line: str | re.Pattern[str]) -> None:
    """Wait until the last message shows a line."""
    pattern = re.compile(re.escape(line)) if isinstance(line, str) else line
    page.wait(lambda: bool(pattern.search(page.last_message())))


def say(page: Browser, text: str) -> str:
    """Send a message, and return the answer."""
    page.send(text)
    return page.wait_for_answer()


def point_at_usage(page: Browser) -> str:
    """Point at the last answer's info button until its text appears, and return the text."""

    def text() -> str:
        button = page.driver.find_elements(By.CSS_SELECTOR, "[id^='info-']")[-1]
        ActionChains(page.driver).move_to_element(button).perform()
        return "".join(box.text for box in page.driver.find_elements(By.CSS_SELECTOR, "[data-tippy-root]"))

    page.wait(lambda: "cost" in text())
    return text()


# --- chats ---


@pytest.mark.browser
def test_a_person_chats(page: Browser, standin: StandIn) -> None:
    """Thinking, answer and usage are seen, the marker is not; an answer is stopped, and an error is one line."""
    page.pick_model(NAME)
    first, second = say(page, "Good morning"), say(page, "And good night")
    page.driver.find_elements(By.XPATH, "//*[contains(text(), 'Thought for')]")[-1].click()
    page.wait_for_text("the last one matters most")
    thinking, usage = page.last_answer(), point_at_usage(page)
    page.screenshot("two-reasoned-turns")
    assert "You said: Good morning" in first
    assert "You said: And good night" in second
    assert "Reading the request" in thinking
    assert "cached_tokens" in usage
    assert not MARKER.search(first + thinking)
    one, two = answers(standin)
    assert kinds(two.body["input"]) == REPLAYED
    assert wire(two.body["input"], "reasoning") == wire(one.output, "reasoning")

    page.new_chat()
    page.pick_model("Stand-in: script")
    page.send("[[standin: slow=600]] count")
    page.wait(lambda: len(page.last_answer().split()) > 5)
    page.stop()
    assert page.last_answer()
    assert "You said" in say(page, "go on")
    page.screenshot("stopped-and-gone-on")

    standin.script({"do": "error=402", "times": 9})
    page.send("one")
    page.wait_for_text("credits")
    page.screenshot("error")
    assert "\n" not in page.last_answer()


@pytest.mark.browser
def test_tools_and_words_of_an_answer(open_webui: OpenWebUI, page: Browser, standin: StandIn) -> None:
    """Tool cards stand where the calls were made, with no marker between; Copy gives the model's words alone."""
    open_webui.add_tool("seen_weather", WEATHER)
    plot = (
        '[[standin: reasoning=summary]] [[standin: say="I look."]] [[standin: call=get_weather times=2]] '
        "[[standin: rounds=2]] Weather?"
    )
    sent, _ = open_webui.admin.ask(SCRIPTED, plot, tool_ids=["seen_weather"])
    page.open_chat(sent.chat_id)
    page.wait_for_text("The tools answered")
    seen, copied = page.last_answer(), page.copy_answer()
    page.screenshot("tool-at-work")
    assert seen.count("Explored") == 2
    assert not MARKER.search(seen)
    assert copied.split() == " ".join(texts_of(given(answers(standin)))).split()


# --- what is omitted ---


@pytest.mark.browser
def test_what_a_small_model_does_not_get_is_said(
    open_webui: OpenWebUI, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """The built-in tools, earlier turns after a change of the model, and retrieved text, each by a line."""
    admin = open_webui.admin
    page.pick_model(TINY_NAME)
    assert "You said: Hello small model." in say(page, "Hello small model. " + "It is late. " * 500)
    wait_for(page, "Built-in tools of Open WebUI omitted")
    page.screenshot("tools-omitted")
    (request,) = answers(standin)
    assert (request.status, request.body.get("tools")) == (200, None)

    valves(CONTEXT_STRATEGY="prune")
    standin.reset()
    sent, answer = admin.ask(MODEL, "And the large model?", after=saved_chat(admin, MODEL, plain_turns(14)))
    assert statuses(answer) == []
    page.open_chat(sent.chat_id)
    page.pick_model(TINY_NAME)
    assert "You said: And the small model?" in say(page, "And the small model?")
    wait_for(page, CUT)
    page.screenshot("notice-smaller-model")
    large, small = answers(standin)
    assert len(small.raw) < len(large.raw)

    admin.api.install_function("library", "library", LIBRARY)
    standin.reset()
    with preset(open_webui, TINY, meta={**NO_TOOLS, "filterIds": ["library"]}) as name:
        page.open_chat(saved_chat(admin, name, plain_turns(2, 40)).chat_id)
        assert "You said: Was the ship late?" in say(page, "Was the ship late?")
        wait_for(page, RETRIEVED)
        page.screenshot("notice-retrieved-text")
    (request,) = answers(standin)
    text = request.raw.decode()
    found = [part in text for part in ('name=\\"report 1\\"', 'name=\\"report 12\\"', "Question 0")]
    assert (request.status, found) == (200, [True, False, True])


# --- languages ---


@pytest.mark.browser
@pytest.mark.parametrize("locale", SEEN)
def test_lines_are_in_the_language_of_the_page(
    open_webui: OpenWebUI, page: Browser, standin: StandIn, valves: Valves, locale: str
) -> None:
    """A cut, the button that a line names, and an error; the language is nowhere in a request."""
    cut, error, button = SEEN[locale]
    valves(CONTEXT_STRATEGY="prune")
    page.driver.execute_script("localStorage.setItem('locale', arguments[0])", locale)
    try:
        page.open_chat(saved_chat(open_webui.admin, TINY, plain_turns(9)).chat_id)
        page.send("How long is this?")
        wait_for(page, cut)
        page.screenshot(f"cut-{locale}")
        page.open_chat(saved_chat(open_webui.admin, TINY, plain_turns(1, 20)).chat_id)
        page.send(f"Count. {CUT_OFF}")
        wait_for(page, button)
        page.wait(lambda: bool(page.driver.find_elements(By.CSS_SELECTOR, f"button[aria-label='{button}']")))
        assert all(locale not in request.raw.decode() for request in standin.responses)
        standin.script({"do": "error=402", "times": 9})
        page.send("And this?")
        wait_for(page, error)
        page.screenshot(f"error-{locale}")
    finally:
        page.driver.execute_script("localStorage.setItem('locale', 'en-US')")


@pytest.mark.usefixtures("standin")
def test_a_user_without_the_permission_reads_nothing_of_the_button(open_webui: OpenWebUI) -> None:
    """But what to do in its place."""
    api, user = open_webui.admin.api, open_webui.add_user("quiet")
    path = "/api/v1/users/default/permissions"
    permissions: dict[str, Any] = api.get(path)
    said = []
    try:
        for allowed in (True, False):
            api.post(path, {**permissions, "chat": {**permissions["chat"], "continue_response": allowed}})
            _, answer = user.ask(TINY, f"Count. {CUT_OFF}", variables={"{{USER_LANGUAGE}}": "pt-BR"})
            said.append([line for line in statuses(answer) if "max_tokens" in line])
    finally:
        api.post(path, permissions)
    portuguese = LANGUAGES["pt"]
    without = portuguese.lines["answer_at_output_limit.no_button"]
    assert said == [[in_language(notice("answer_at_output_limit"), portuguese)], [without]]


# --- money ---


@pytest.mark.browser
def test_money_is_shown_asked_about_and_limited(
    open_webui: OpenWebUI, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """The line with its forecast, the question before an expensive message, and the refusal at a limit."""
    valves(COST_LINE="forecast")
    page.open_chat(saved_chat(open_webui.admin, CLAUDE, plain_turns(4)).chat_id)
    say(page, "What does this cost?")
    wait_for(page, COST)
    (request,) = answers(standin)
    assert request.usage
    assert f"{request.usage['input_tokens']:,} tokens in" in page.last_message()
    page.screenshot("money-line")

    standin.reset()
    valves(COST_LINE="off", CONFIRM_ABOVE_DOLLARS=0.001)
    page.send("Is this expensive?")
    page.find(By.XPATH, "//*[contains(text(), 'Send this for about')]")
    page.screenshot("money-question")
    page.click(By.XPATH, "//button[normalize-space()='Cancel']")
    wait_for(page, DECLINED)
    page.screenshot("money-declined")
    assert standin.responses == []
    page.send("And now?")
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.wait(lambda: "And now?" in page.last_answer())
    assert len(answers(standin)) == 1

    valves(CONFIRM_ABOVE_DOLLARS=None, SPENDING_LIMITS="all: 0/month")
    page.send("One more?")
    wait_for(page, REACHED)
    page.screenshot("money-limit")
    assert len(answers(standin)) == 1


# --- what users switch ---


@pytest.fixture
def own_valves(open_webui: OpenWebUI) -> Iterator[None]:
    """The administrator's own valves, which other tests find empty."""
    yield
    open_webui.admin.api.set_user_valves("openrouter", {})


def open_valves(page: Browser, screenshot: str) -> set[str]:
    """Open the user's valves by the button in the message field, and return the lines that they show."""
    page.new_chat()
    page.pick_model(NAME)
    page.click(By.CSS_SELECTOR, "#message-input-container button[aria-label='Valves']")
    dialog = page.find(By.CSS_SELECTOR, "[role=dialog]")
    page.wait(lambda: "Storage · Persist Reasoning Tokens" in dialog.text)
    page.screenshot(screenshot)
    return set(dialog.text.splitlines())


@pytest.mark.browser
@pytest.mark.usefixtures("own_valves")
def test_a_search_on_the_users_own_key(
    open_webui: OpenWebUI, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """The form shows what is set and not hidden, but not the key; search, source and replay are the user's to pay."""
    api = open_webui.admin.api
    api.set_user_valves("openrouter", {"WEB_SEARCH": "on", "API_KEY": KEY, "REASONING_EFFORT": "high"})
    shown = open_valves(page, "user-valves")
    hideable = {"Models · Reasoning Effort", "OpenRouter · My Own API Key"}
    assert {"Search · Web Search", *hideable} <= shown
    assert KEY not in page.driver.page_source
    page.new_chat()
    page.pick_model(NAME)
    answer = say(page, "Search the web for tall cats.")
    wait_for(page, "Searched the web for: tall cats.")
    wait_for(page, "1 Source")
    page.screenshot("answer-with-sources")
    say(page, "Thank you.")
    one, two = answers(standin)
    assert "What was found" in answer
    assert {each.status for each in standin.responses} == {200}
    assert {each.account for each in standin.responses} == {account_of(KEY)}
    kind = "openrouter:web_search"
    assert wire(two.body["input"], kind) == wire(one.output, kind) != []
    assert KEY.encode() not in open_webui.log.read_bytes()
    stored = api.get("/api/v1/functions/id/openrouter/valves/user")
    assert stored["API_KEY"].startswith("sealed:owned:")
    assert (stored["WEB_SEARCH"], stored["REASONING_EFFORT"]) == ("on", "high")
    valves(USER_CONTROLS="WEB_SEARCH")
    shown = open_valves(page, "user-valves-hidden")
    assert "Search · Web Search" in shown
    assert hideable.isdisjoint(shown)


@pytest.mark.usefixtures("own_valves")
def test_what_no_longer_fits_is_not_taken_for_the_defaults(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Open WebUI hands on the defaults then. What can be read holds; without zero data retention nothing is sent."""
    admin = open_webui.admin
    settings = admin.api.get("/api/v1/users/user/settings") or {}
    kept = dict((settings.get("functions") or {}).get("valves") or {})

    def ask_with(**chosen: object) -> str:
        functions = {"valves": {**kept, "openrouter": chosen}}
        admin.api.post("/api/v1/users/user/settings/update", {**settings, "functions": functions})
        return str(admin.complete(CLAUDE, [{"role": "user", "content": "Hello"}]))

    assert "You said: Hello" in ask_with(ZDR=True, REASONING_EFFORT="huge")
    assert standin.responses[-1].body["provider"] == {"zdr": True}
    asked = len(standin.responses)
    with pytest.raises(ApiError, match=r"Nothing was sent.*ZDR"):
        ask_with(ZDR="perhaps")
    assert len(standin.responses) == asked


# --- the list of models ---


def listed(open_webui: OpenWebUI) -> list[str]:
    """The pipe's models once the test of the key is over: an entry's answer waits for it."""
    api = open_webui.admin.api
    api.models()
    if STATUS in api.models():
        open_webui.admin.complete(STATUS, [{"role": "user", "content": "?"}])
    return [name for name in api.models() if name.startswith("openrouter.")]


@pytest.fixture
def connection(open_webui: OpenWebUI) -> Iterator[Callable[..., list[str]]]:
    """Sets valves, and lists the models; other tests find both as they were."""
    api = open_webui.admin.api
    before = api.valves("openrouter")

    def change(**values: Any) -> list[str]:
        api.set_valves("openrouter", {"API_KEY": before["API_KEY"], "BASE_URL": before["BASE_URL"], **values})
        return listed(open_webui)

    yield change
    change(**dict.fromkeys(("MODELS", "VARIANTS", "STATUS_ENTRY")))


def options(page: Browser, screenshot: str) -> list[str]:
    """The names of the models in the selector, in their order."""
    page.new_chat()
    page.click(By.ID, "model-selector-model-button")
    page.find(By.CSS_SELECTOR, "[role=option]")
    page.screenshot(screenshot)
    script = "return [...document.querySelectorAll('[role=option]')].map(each => each.ariaLabel)"
    labels: list[str] = page.driver.execute_script(script)
    return [label.removeprefix("Select ").removesuffix(" model") for label in labels if label]


@pytest.mark.browser
def test_the_list_says_what_is_wrong(
    open_webui: OpenWebUI, page: Browser, standin: StandIn, connection: Callable[..., list[str]]
) -> None:
    """By an entry before the models, whose answer says what to do, or whom to ask, or what the key may spend."""
    models = connection(API_KEY="sk-or-bad")
    refused = "OpenRouter: key refused (check API_KEY in the valves)"
    assert (models[0], len(models) > 20) == (STATUS, True)
    assert refused in options(page, "status-refused-key-selector")
    page.new_chat()
    page.pick_model(refused)
    assert "OpenRouter refuses the API key" in say(page, "Why does nothing work?")
    page.screenshot("status-refused-key-answer")
    user = open_webui.add_user("status-reader")
    asked = user.complete(STATUS, [{"role": "user", "content": "Why?"}])
    assert asked["choices"][0]["message"]["content"].startswith("OpenRouter cannot be used at present.")

    assert connection(BASE_URL="not a url") == [STATUS]
    address = "OpenRouter: wrong BASE_URL (it is not an address)"
    assert address in options(page, "status-wrong-address-selector")

    connection(STATUS_ENTRY="always")
    page.new_chat()
    page.pick_model("OpenRouter: ready")
    assert "Its limit is $50.00 a month" in say(page, "How much is left?")
    page.screenshot("status-ready-answer")
    assert answers(standin) == []


@pytest.mark.browser
@pytest.mark.usefixtures("accepted")
def test_a_variant_is_chosen_and_answers(
    open_webui: OpenWebUI, page: Browser, standin: StandIn, connection: Callable[..., list[str]]
) -> None:
    """Open WebUI takes ids with a colon and an at sign, and the pipe asks for them by their own name."""
    models = connection(MODELS="openai/*", VARIANTS=f"{VARIANT}, @preset/team")
    assert {f"openrouter.{VARIANT}", "openrouter.@preset/team"} <= set(models)
    page.new_chat()
    page.pick_model(VARIANT_NAME)
    assert "You said: Good morning" in say(page, "Good morning")
    page.screenshot("variant-answer")
    open_webui.admin.ask("openrouter.@preset/team", "Good morning")
    assert [each.body["model"] for each in answers(standin)] == [VARIANT, "@preset/team"]


# --- access to models ---


@pytest.fixture
def controlled(tmp_path: Path, standin: StandIn) -> Iterator[OpenWebUI]:
    """An Open WebUI that asks who may use which model, with our pipe in it."""
    server = OpenWebUI(tmp_path / "controlled", {"BYPASS_MODEL_ACCESS_CONTROL": "false"})
    try:
        content = build.build(target=tmp_path / "dist").read_text("utf-8")
        pipe.install(server.admin.api, content, pipe.Upstream(pipe.STANDIN_KEY, standin.base_url))
        yield server
    finally:
        server.close()


def shown(account: Account) -> dict[str, Any]:
    """The pipe's models as the page gets them for this account, by their id."""
    models = account.api.get("/api/models?refresh=true")["data"]
    return {model["id"]: model for model in models if model["id"].startswith("openrouter.")}


def selector(page: Browser, name: str) -> str:
    """Open the list of models, keep what is seen with all icons, and return its text."""
    page.click(By.ID, "model-selector-model-button")
    page.find(By.CSS_SELECTOR, "[role=option]")
    loaded = "return [...document.querySelectorAll('[role=option] img')].every(each => each.naturalWidth > 0)"
    page.wait(lambda: bool(page.driver.execute_script(loaded)))
    page.screenshot(name)
    return page.find(By.CSS_SELECTOR, "[role=listbox]").text


@pytest.mark.browser
def test_models_have_rows_and_are_opened_to_everybody(controlled: OpenWebUI, tmp_path: Path) -> None:
    """The administrator sees names, icons and tags at once; a user nothing, until one valve opens all models."""
    admin, eve = controlled.admin, controlled.add_user("eve")
    eve.api.post("/api/v1/users/user/settings/update", {"ui": {"showChangelog": False}})
    models = wait_until(lambda: all("info" in each for each in shown(admin).values()) and shown(admin))
    claude, deepseek = (models[name]["info"]["meta"] for name in (CLAUDE, DEEPSEEK))
    assert (claude["capabilities"]["vision"], deepseek["capabilities"]["vision"]) == (True, False)
    assert "Price per million tokens" in claude["description"]
    assert {"name": "Anthropic"} in models[CLAUDE]["tags"]
    assert shown(eve) == {}
    with Browser(controlled.url, tmp_path / "admin") as page:
        page.log_in(admin)
        assert "Anthropic" in selector(page, "models-as-administrator")

    opened = {"NEW_MODEL_ACCESS": "public", "MODEL_ACCESS_APPLIES_TO": "all"}
    admin.api.set_valves(pipe.FUNCTION_ID, opened)
    shown(admin)  # the list is asked for, which sets off the pass
    wait_until(lambda: shown(eve).keys() == models.keys())
    with Browser(controlled.url, tmp_path / "eve") as page:
        page.log_in(eve)
        assert "Anthropic" in selector(page, "models-as-user")
        page.driver.refresh()
        page.pick_model(models[CLAUDE]["name"])
        assert "You said: Good morning" in say(page, "Good morning")
        page.screenshot("first-chat-of-a-user")
