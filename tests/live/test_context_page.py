"""The picture of a context in Open WebUI's page: seen on a desktop and a phone, light and dark, used and judged by axe.

A function of the tests answers the names of reports with their pages.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, Self

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from open_webui_openrouter_pipe.context.page import context_page
from tests.support.axe import findings, load_axe
from tests.support.context_reports import REPORTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.browser]

FUNCTION = "context_reports"
FUNCTION_TEXT = f"""
import json

PAGES = json.loads({json.dumps({name: context_page(report) for name, report in REPORTS.items()})!r})


class Pipe:
    async def pipe(self, body, __event_emitter__):
        text = body["messages"][-1]["content"]
        embeds = [PAGES[name] for name in text.split() if name in PAGES]
        await __event_emitter__({{"type": "embeds", "data": {{"embeds": embeds}}}})
        return f"received {{text}}"
"""
FRAMES = (By.CSS_SELECTOR, "[id*='-embeds-'] iframe")
DESKTOP, PHONE = (1280, 1400), (360, 780)
Theme = Literal["light", "dark"]
OUTSIDE = """
return [...document.querySelectorAll("body *")].filter(
  each => each.getBoundingClientRect().right > innerWidth + 0.5 || each.getBoundingClientRect().left < -0.5
).map(each => each.outerHTML.slice(0, 120))
"""
HEIGHTS = "return [innerHeight, document.documentElement.getBoundingClientRect().height]"
SEEN_COLOUR = "return getComputedStyle(document.body).backgroundColor"
COLOURS: dict[Theme, str] = {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 23, 23)"}


@pytest.fixture(scope="module")
def reports(open_webui: OpenWebUI) -> Iterator[OpenWebUI]:
    """The session's Open WebUI with the function; afterwards it is gone."""
    api = open_webui.admin.api
    api.install_function(FUNCTION, FUNCTION, FUNCTION_TEXT)
    assert FUNCTION in api.models()
    yield open_webui
    api.delete(f"/api/v1/functions/id/{FUNCTION}/delete")
    api.models()


@pytest.fixture
def page(reports: OpenWebUI, browser: Browser) -> Browser:
    """The browser, logged in, at the model of the tests."""
    browser.log_in(reports.admin)
    browser.pick_model(FUNCTION)
    return browser


def look_as(page: Browser, size: tuple[int, int], theme: Theme) -> None:
    """Have the browser show the page in a window of this size, in a theme that the system prefers."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
    features = [{"name": "prefers-color-scheme", "value": theme}]
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def ask_for(page: Browser, *names: str) -> None:
    """Have the pages of reports drawn, in one new answer."""
    page.send(" ".join(names))
    page.wait_for_answer()
    page.wait(lambda: len(page.driver.find_elements(*FRAMES)) == len(names))


class Embed:
    """What is inside of an embed, as a context: the driver looks into its frame."""

    def __init__(self, page: Browser, number: int = 0) -> None:
        self.page, self.driver, self.number = page, page.driver, number

    def __enter__(self) -> Self:
        frame = self.driver.find_elements(*FRAMES)[self.number]
        self.driver.execute_script("arguments[0].scrollIntoView()", frame)
        self.driver.switch_to.frame(frame)
        self.page.wait(lambda: bool(self.driver.find_elements(By.TAG_NAME, "h1")))
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.switch_to.default_content()

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def open_all(self, opened: str = "true") -> None:
        self.run(f"for (const each of document.querySelectorAll('details')) each.open = {opened}")

    def wait_until_whole(self) -> None:
        """Wait until the frame is as high as its content."""
        self.page.wait(lambda: abs(self.run(HEIGHTS)[0] - self.run(HEIGHTS)[1]) < 2)


@pytest.mark.parametrize(
    ("size", "theme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")]
)
def test_the_page_is_whole_and_accessible(page: Browser, size: tuple[int, int], theme: Theme) -> None:
    """Closed and opened it is as high as its content, nothing sticks out, and axe finds nothing."""
    axe = load_axe()
    look_as(page, size, theme)
    ask_for(page, *REPORTS)
    for number, name in enumerate(REPORTS):
        with Embed(page, number) as embed:
            embed.wait_until_whole()
            assert embed.run(SEEN_COLOUR) == COLOURS[theme]
        page.screenshot(f"context-{name}-{'phone' if size == PHONE else 'desktop'}-{theme}")
        with Embed(page, number) as embed:
            embed.open_all()
            embed.wait_until_whole()
            assert embed.run(OUTSIDE) == []
            if name in {"long", "hostile"}:  # axe would take minutes
                embed.open_all("false")
            assert findings(page.driver, axe) == []
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= size[0]


def test_a_button_sends_its_command_once_it_is_confirmed(page: Browser) -> None:
    """By keyboard alone: open the first summary, go on to Restore, press it, and confirm the host's question."""
    ask_for(page, "small")
    with Embed(page) as embed:
        button = page.driver.find_element(By.CSS_SELECTOR, "button[value='/restore 2-5']")
        button.find_element(By.XPATH, "ancestor::details/summary").send_keys(Keys.ENTER)
        page.wait(button.is_displayed)
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        assert embed.run("return document.activeElement.value") == "/restore 2-5"
        assert embed.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
        ActionChains(page.driver).send_keys(Keys.ENTER).perform()
    page.find(By.XPATH, "//*[contains(text(), '/restore 2-5')]")
    page.screenshot("context-restore-question")
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.wait_for_text("received /restore 2-5")


def test_the_page_follows_the_hosts_theme_where_it_may_see_it(reports: OpenWebUI, page: Browser) -> None:
    """With embeds of the same origin, the host's own theme counts, also while it changes, and no question is asked."""
    settings = "/api/v1/users/user/settings/update"
    api = reports.admin.api
    ui = {"showChangelog": False}
    api.post(settings, {"ui": {**ui, "iframeSandboxAllowSameOrigin": True}})
    try:
        look_as(page, DESKTOP, "light")
        page.driver.refresh()
        page.pick_model(FUNCTION)
        ask_for(page, "small")
        with Embed(page) as embed:
            page.wait(lambda: embed.run(SEEN_COLOUR) == COLOURS["light"])
        page.driver.execute_script("document.documentElement.classList.add('dark')")
        with Embed(page) as embed:
            page.wait(lambda: embed.run(SEEN_COLOUR) == COLOURS["dark"])
            embed.open_all()
            page.driver.find_element(By.CSS_SELECTOR, "button[value='/discard 2-5']").click()
        page.wait_for_text("received /discard 2-5")
    finally:
        api.post(settings, {"ui": {**ui, "iframeSandboxAllowSameOrigin": False}})


def test_a_hostile_chat_does_nothing_to_the_page(page: Browser) -> None:
    """Its words are shown as they are: no script of theirs runs, nothing is loaded, and nothing is sent."""
    ask_for(page, "hostile")
    with Embed(page) as embed:
        embed.wait_until_whole()
        embed.open_all()
        assert embed.run("return document.title") != "owned"
        assert embed.run("return performance.getEntriesByType('resource').length") == 0
        assert embed.run("return document.querySelectorAll('img,script,style').length") == 2
        assert "onerror=alert(1)" in page.driver.find_element(By.CSS_SELECTOR, ".text").text
    assert page.driver.find_elements(By.XPATH, "//button[normalize-space()='Confirm']") == []
