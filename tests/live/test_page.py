"""What a person sees on Open WebUI's page, state by state; each is kept as a screenshot."""

from __future__ import annotations

import re
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from open_webui_openrouter_pipe.words.lines import LANGUAGES, in_language, notice
from scripts.harness.browser import Browser
from scripts.harness.openwebui import TOOL, Account, OpenWebUI
from scripts.standin import StandIn
from scripts.standin.state import account_of
from tests.live.chats import preset, saved_chat
from tests.live.items import answers, given, inputs, kinds, statuses, texts_of, wire
from tests.live.models import CLAUDE, NO_TOOLS, REPLAYED, SCRIPTED, Valves
from tests.support.long_chats import words

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("admin")]

CUT_OFF = "[[standin: incomplete=max_output_tokens]]"
NAME = "OpenAI: GPT-5.2"
TINY, TINY_NAME = "openrouter.mistralai/mistral-small-8k", "Mistral: Small 8k"
STATUS = "openrouter.status"
VARIANT, VARIANT_NAME = "openai/gpt-5.2:nitro@preset/team", "OpenAI: GPT-5.2 (nitro) (preset team)"
KEY = "sk-or-v1-my-own-key"
MARKER = re.compile(r"\[[0-9A-Z]{20}\]")
RETRIEVED = re.compile(r"Retrieved text cut to its beginning: [\d,]+ of [\d,]+ tokens")
COST = re.compile(r"\$[\d.]+ · next message from \$[\d.]+ \(\$[\d.]+ after (.+ at )?\d\d:\d\d( UTC)?\)")
BOTH = re.compile(r"\$([\d.]+) \+ \$([\d.]+) at your provider")
DECLINED = re.compile(r"Not sent: you did not agree to about \$[\d.]+\. Nothing was charged\.")
REACHED = re.compile(r"The spending limit of all users of \$[\d.]+ a month is used up, until ")
LIBRARY = """
class Filter:
    def request(self, body: dict) -> dict:
        source = '<source id="{0}" name="report {0}">' + "The ship was late. " * 400 + "</source>"
        sources = "\\n".join(source.format(number) for number in range(1, 13))
        return {**body, "messages": [{"role": "system", "content": sources}, *body["messages"]]}
"""


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


def begin(page: Browser, model: str = NAME) -> None:
    """Begin a chat with a model."""
    page.new_chat()
    page.pick_model(model)


# --- chats ---


@pytest.mark.browser
def test_a_person_chats(page: Browser, standin: StandIn) -> None:
    """Thinking and answer are seen, the marker is not; after Stop the chat goes on; an error is one line."""
    page.pick_model(NAME)
    first, second = say(page, "Good morning"), say(page, "And good night")
    page.driver.find_elements(By.XPATH, "//*[contains(text(), 'Thought for')]")[-1].click()
    page.wait_for_text("the last one matters most")
    thinking = page.last_answer()
    page.screenshot("two-reasoned-turns")
    assert "You said: Good morning" in first
    assert "You said: And good night" in second
    assert "Reading the request" in thinking
    assert not MARKER.search(first + thinking)
    assert kinds(inputs(standin)[1]) == REPLAYED
    assert wire(inputs(standin)[1], "reasoning") == wire(answers(standin)[0].output, "reasoning")

    begin(page, "Stand-in: script")
    standin.reset()
    page.send("[[standin: reasoning=summary]] [[standin: slow=600]] count")
    page.wait(lambda: len(page.last_answer().partition("Models).")[2].split()) > 5)
    page.stop()
    assert not MARKER.search(page.last_answer())
    assert "You said" in say(page, "go on")
    page.screenshot("stopped-and-gone-on")
    assert kinds(inputs(standin)[-1]) == REPLAYED
    assert answers(standin)[0].disconnected

    standin.script("error=402", times=9)
    page.send("one")
    page.wait_for_text("credits")
    page.screenshot("error")
    assert "\n" not in page.last_answer()


@pytest.mark.browser
def test_tools_prompts_and_commands(admin: Account, page: Browser, standin: StandIn) -> None:
    """Tool cards stand where the calls were made, and Copy gives the words alone; what is typed is sent with Enter.

    A prompt is sent as it stood in the field; of one that begins like a command, a space leaves the command.
    """
    plot = (
        '[[standin: reasoning=summary]] [[standin: say="I look."]] [[standin: call=get_weather times=2]] '
        "[[standin: rounds=2]] Weather?"
    )
    sent, _ = admin.ask(SCRIPTED, plot, tool_ids=[TOOL])
    page.open_chat(sent.chat_id)
    page.wait_for_text("The tools answered")
    seen, copied = page.last_answer(), page.copy_answer()
    page.screenshot("tool-at-work")
    assert seen.count("Explored") == 2
    assert not MARKER.search(seen)
    assert copied.split() == " ".join(texts_of(given(answers(standin)))).split()

    forms = [("wave", "Greet {{name}} kindly."), ("context-of-ours", "Tell me more.")]
    prompts = [
        admin.api.post("/api/v1/prompts/create", {"command": name, "name": name.title(), "content": content})[
            "id"
        ]
        for name, content in forms
    ]
    field = (By.ID, "chat-input")
    page.find(*field).send_keys("/wave")
    page.wait(lambda: "Wave" in page.find(By.TAG_NAME, "body").text)
    page.find(*field).send_keys(Keys.ENTER)
    page.find(By.ID, "input-variable-0").send_keys("Emma", Keys.ENTER)
    page.wait(lambda: "Greet Emma kindly." in page.find(*field).text)
    page.find(*field).send_keys(Keys.ENTER)
    page.wait_for_text("You said: Greet Emma kindly.")
    page.wait_for_answer()
    assert texts_of(inputs(standin)[-1])[-1] == "Greet Emma kindly."

    standin.reset()
    page.find(*field).send_keys("/context")
    page.wait(lambda: "context-of-ours" in page.find(By.TAG_NAME, "body").text)
    page.screenshot("command-menu")
    page.find(*field).send_keys(" ")
    page.wait(lambda: "context-of-ours" not in page.find(By.TAG_NAME, "body").text)
    page.find(*field).send_keys(Keys.ENTER)
    page.wait_for_text("The same as text")  # folded, below the page
    page.screenshot("command-context")
    assert "/summarize" in say(page, "/help")
    assert standin.responses == []
    for name in prompts:
        admin.api.delete(f"/api/v1/prompts/id/{name}/delete")


# --- what is omitted, and in which language it is said ---


@pytest.mark.browser
def test_what_a_small_model_does_not_get_is_said(admin: Account, page: Browser, standin: StandIn) -> None:
    """The built-in tools, and retrieved text, each by a line."""
    page.pick_model(TINY_NAME)
    assert "You said: Hello small model." in say(page, "Hello small model. " + "It is late. " * 500)
    wait_for(page, "Built-in tools left out")
    page.screenshot("tools-omitted")
    admin.api.install_function("library", "library", LIBRARY)
    with preset(admin, TINY, meta={**NO_TOOLS, "filterIds": ["library"]}) as name:
        page.open_chat(saved_chat(admin, name, plain_turns(2, 40)).chat_id)
        assert "You said: Was the ship late?" in say(page, "Was the ship late?")
        wait_for(page, RETRIEVED)
        page.screenshot("notice-retrieved-text")
    first, second = answers(standin)
    text = second.raw.decode()
    found = [part in text for part in ('name=\\"report 1\\"', 'name=\\"report 12\\"', "Question 0")]
    assert (first.status, len(first.body.get("tools") or ()) < 10) == (200, True)  # of some thirty
    assert (second.status, found) == (200, [True, False, True])


@pytest.mark.browser
def test_lines_are_in_the_language_of_the_page(
    admin: Account, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """A cut, the button that a line names, and an error; the language is nowhere in a request."""
    valves(CONTEXT_STRATEGY="prune")
    page.driver.execute_script("localStorage.setItem('locale', 'ja-JP')")
    page.open_chat(saved_chat(admin, TINY, plain_turns(9)).chat_id)
    page.send("How long is this?")
    wait_for(page, "応答とともに")
    page.screenshot("cut-ja-JP")
    page.open_chat(saved_chat(admin, TINY, plain_turns(1, 20)).chat_id)
    page.send(f"Count. {CUT_OFF}")
    button = "応答の続きを生成"
    wait_for(page, button)
    page.wait(lambda: bool(page.driver.find_elements(By.CSS_SELECTOR, f"button[aria-label='{button}']")))
    assert all("ja-JP" not in request.raw.decode() for request in standin.responses)
    standin.script("error=402", times=9)
    page.send("And this?")
    wait_for(page, "OpenRouter アカウントのクレジット")
    page.screenshot("error-ja-JP")


@pytest.mark.usefixtures("standin")
def test_a_user_without_the_permission_reads_nothing_of_the_button(
    open_webui: OpenWebUI, admin: Account
) -> None:
    """But what to do in its place."""
    user, path = open_webui.add_user("quiet"), "/api/v1/users/default/permissions"
    permissions: dict[str, Any] = admin.api.get(path)
    said = []
    for allowed in (False, True):
        chat = {**permissions["chat"], "continue_response": allowed}
        admin.api.post(path, {**permissions, "chat": chat})
        _, answer = user.ask(TINY, f"Count. {CUT_OFF}", variables={"{{USER_LANGUAGE}}": "pt-BR"})
        said.append([line for line in statuses(answer) if "max_tokens" in line])
    admin.api.post(path, permissions)
    portuguese = LANGUAGES["pt"]
    without = portuguese.lines["answer_at_output_limit.no_button"]
    assert said == [[without], [in_language(notice("answer_at_output_limit"), portuguese)]]


# --- money ---


@pytest.mark.browser
def test_behind_a_router_the_page_names_who_answered(page: Browser, standin: StandIn, valves: Valves) -> None:
    """In the line about costs, and among the figures at the button below the answer."""
    valves(COST_LINE="cost")
    begin(page, "Auto Router")
    say(page, "Who are you?")
    wait_for(page, "answered by Anthropic: Claude Sonnet 4.5")
    page.screenshot("who-answered-behind-a-router")
    figures = page.driver.find_elements(By.CSS_SELECTOR, "button[id^='info-']")[-1]
    ActionChains(page.driver).move_to_element(figures).perform()
    page.wait(lambda: 'provider: "Anthropic"' in page.find(By.TAG_NAME, "body").text)
    page.screenshot("the-figures-behind-a-router")
    assert [request.body["model"] for request in answers(standin)] == ["openrouter/auto"]


@pytest.mark.browser
def test_money_is_shown_asked_about_and_limited(
    admin: Account, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """The line with its forecast, the question before an expensive message, and the refusal at a limit."""
    valves(COST_LINE="forecast")
    page.open_chat(saved_chat(admin, CLAUDE, plain_turns(4)).chat_id)
    say(page, "What does this cost?")
    wait_for(page, COST)
    page.screenshot("money-line")

    standin.reset()
    valves(COST_LINE="off", CONFIRM_ABOVE_DOLLARS=0.001)
    page.send("Is this expensive?")
    page.find(By.XPATH, "//*[contains(text(), 'Send this for about')]")
    page.screenshot("money-question")
    page.click(By.XPATH, "//button[normalize-space()='Cancel']")
    wait_for(page, DECLINED)
    assert standin.responses == []
    page.send("And now?")
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.wait(lambda: "And now?" in page.last_answer())

    valves(CONFIRM_ABOVE_DOLLARS=None, SPENDING_LIMITS="all: 0/month")
    page.send("One more?")
    wait_for(page, REACHED)
    page.screenshot("money-limit")
    assert len(answers(standin)) == 1


@pytest.mark.browser
def test_what_a_provider_is_paid_is_shown(
    admin: Account, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """Where its own key is in the OpenRouter account: in the line, the stored usage, `/context` and `/spending`."""
    valves(COST_LINE="cost")
    begin(page, "Stand-in: own key")
    say(page, words(900, 1))
    wait_for(page, BOTH)
    found = BOTH.search(page.last_message())
    usage = answers(standin)[0].usage or {}
    upstream = usage["cost_details"]["upstream_inference_cost"]
    assert found
    assert [float(part) for part in found.groups()] == pytest.approx([upstream * 0.05, upstream], rel=0.05)
    page.screenshot("money-at-the-provider")
    say(page, "/context")
    page.driver.switch_to.frame(page.find(By.CSS_SELECTOR, "[id*='-embeds-'] iframe"))
    page.wait(lambda: "at your provider so far" in page.find(By.TAG_NAME, "body").text)
    page.driver.switch_to.default_content()
    page.screenshot("money-at-the-provider-context")
    say(page, "/spending")
    frames = (By.CSS_SELECTOR, "[id*='-embeds-'] iframe")
    page.wait(lambda: len(page.driver.find_elements(*frames)) == 2)
    page.driver.switch_to.frame(page.driver.find_elements(*frames)[1])
    page.wait(lambda: "Requests" in page.find(By.TAG_NAME, "body").text)
    spent = page.find(By.TAG_NAME, "body").text
    assert spent.startswith("Spending of all users")
    assert admin.api.get("/api/v1/auths/")["name"] in spent
    assert "at your provider" in spent
    page.driver.switch_to.default_content()
    assert "<details>" not in page.last_message()
    page.screenshot("money-spending")
    _, answer = admin.ask("openrouter.standin/own-key", "And stored?")
    billed = answers(standin)[-1].usage or {}
    paid = billed["cost_details"]["upstream_inference_cost"]
    assert answer["usage"]["total_cost"] == pytest.approx(billed["cost"] + paid)
    assert (answer["usage"]["is_byok"], answer["usage"]["cost"]) == (True, pytest.approx(billed["cost"]))


# --- what users switch ---


def open_valves(page: Browser, screenshot: str) -> set[str]:
    """Open the user's valves by the button in the message field, and return the lines that they show."""
    begin(page)
    page.click(By.CSS_SELECTOR, "#message-input-container button[aria-label='Valves']")
    dialog = page.find(By.CSS_SELECTOR, "[role=dialog]")
    page.wait(lambda: "Storage · Persist Reasoning Tokens" in dialog.text)
    page.screenshot(screenshot)
    return set(dialog.text.splitlines())


@pytest.mark.browser
def test_a_search_on_the_users_own_key(
    open_webui: OpenWebUI, admin: Account, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """The form shows what is set and not hidden, but not the key; search, source and replay are the user's to pay."""
    admin.api.set_user_valves("openrouter", {"WEB_SEARCH": "on", "API_KEY": KEY, "REASONING_EFFORT": "high"})
    shown = open_valves(page, "user-valves")
    hideable = {"Models · Reasoning Effort", "OpenRouter · My Own API Key"}
    assert {"Search · Web Search", *hideable} <= shown
    assert KEY not in page.driver.page_source
    begin(page)
    assert "What was found" in say(page, "Search the web for tall cats.")
    wait_for(page, "Web Search")
    wait_for(page, "1 Source")
    page.screenshot("answer-with-sources")
    say(page, "Thank you.")
    one, two = answers(standin)
    assert {(each.status, each.account) for each in standin.responses} == {(200, account_of(KEY))}
    kind = "openrouter:web_search"
    assert wire(two.body["input"], kind) == wire(one.output, kind) != []
    assert KEY.encode() not in open_webui.log.read_bytes()
    stored = admin.api.get("/api/v1/functions/id/openrouter/valves/user")
    assert stored["API_KEY"].startswith("sealed:owned:")
    assert (stored["WEB_SEARCH"], stored["REASONING_EFFORT"]) == ("on", "high")
    valves(USER_CONTROLS="WEB_SEARCH")
    shown = open_valves(page, "user-valves-hidden")
    assert "Search · Web Search" in shown
    assert hideable.isdisjoint(shown)


@pytest.mark.usefixtures("valves")
def test_what_no_longer_fits_is_not_taken_for_the_defaults(admin: Account, standin: StandIn) -> None:
    """Open WebUI hands on the defaults then. What can be read holds, and data retention is read strictly."""
    settings = admin.api.get("/api/v1/users/user/settings") or {}

    def ask_with(**chosen: object) -> str:
        changed = {**settings, "functions": {"valves": {"openrouter": chosen}}}
        admin.api.post("/api/v1/users/user/settings/update", changed)
        return str(admin.complete(CLAUDE, [{"role": "user", "content": "Hello"}]))

    assert "You said: Hello" in ask_with(ZDR=True, REASONING_EFFORT="huge")
    assert "You said: Hello" in ask_with(ZDR="perhaps")
    assert [each.body["provider"] for each in standin.responses] == [{"zdr": True}] * 2


# --- the list of models ---


def listed(admin: Account) -> list[str]:
    """The pipe's models once the test of the key is over: an entry's answer waits for it."""
    admin.api.models()
    if STATUS in admin.api.models():
        admin.complete(STATUS, [{"role": "user", "content": "?"}])
    return [name for name in admin.api.models() if name.startswith("openrouter.")]


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
def test_the_list_says_what_is_wrong_and_has_variants(
    admin: Account, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """An entry before the models says what to do, or what the key may spend; a variant is asked by its own name."""
    stored = admin.api.valves("openrouter")
    valves(API_KEY="sk-or-bad")
    models = listed(admin)
    refused = "OpenRouter: key refused (check API_KEY in the valves)"
    assert (models[0], len(models) > 20) == (STATUS, True)
    assert refused in options(page, "status-refused-key-selector")
    begin(page, refused)
    assert "OpenRouter refuses the API key" in say(page, "Why does nothing work?")
    page.screenshot("status-refused-key-answer")
    valves(API_KEY=stored["API_KEY"], BASE_URL="not a url")
    assert listed(admin) == [STATUS]
    address = "OpenRouter: wrong BASE_URL (it is not an address)"
    assert address in options(page, "status-wrong-address-selector")
    valves(BASE_URL=stored["BASE_URL"], STATUS_ENTRY="always")
    listed(admin)
    begin(page, "OpenRouter: ready")
    assert "Its limit is $50.00 a month" in say(page, "How much is left?")
    assert answers(standin) == []

    valves(MODELS="openai/*", VARIANTS=f"{VARIANT}, @preset/team", STATUS_ENTRY=None)
    assert {f"openrouter.{VARIANT}", "openrouter.@preset/team"} <= set(listed(admin))
    begin(page, VARIANT_NAME)
    assert "You said: Good morning" in say(page, "Good morning")
    page.screenshot("variant-answer")
    admin.ask("openrouter.@preset/team", "Good morning")
    found = [(each.body["model"], each.status, each.warnings) for each in answers(standin)]
    assert found == [(VARIANT, 200, []), ("@preset/team", 200, [])]
