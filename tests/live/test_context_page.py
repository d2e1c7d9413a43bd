"""The pages of `/context` and `/spending` in Open WebUI's page, on a desktop and a phone, light and dark.

They are looked at, used and judged by axe.
A function of the tests answers the names of reports with their pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from open_webui_openrouter_pipe.context.page import context_page
from open_webui_openrouter_pipe.context.spending import spending_file, spending_page
from scripts.harness.browser import Browser
from scripts.harness.openwebui import OpenWebUI
from tests.support.axe import findings, load_axe
from tests.support.context_reports import REPORTS
from tests.support.spending_reports import ADMIN, SPENDING_REPORTS

pytestmark = [pytest.mark.live, pytest.mark.browser]

FUNCTION = "reports"
DRAWN = {
    **{name: context_page(report) for name, report in REPORTS.items()},
    **{name: spending_page(report) for name, report in SPENDING_REPORTS.items()},
}
FUNCTION_TEXT = f"""
import json

PAGES = json.loads({json.dumps(DRAWN)!r})


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
IS_WHOLE = "return Math.abs(innerHeight - document.documentElement.getBoundingClientRect().height) < 2"
UNFOLD = "for (const each of document.querySelectorAll('details')) each.open = {}"
SEEN_COLOUR = "return getComputedStyle(document.body).backgroundColor"
COLOURS: dict[Theme, str] = {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 23, 23)"}


@pytest.fixture
def page(open_webui: OpenWebUI, browser: Browser) -> Iterator[Browser]:
    """The browser, logged in, at the model of the tests."""
    api = open_webui.admin.api
    api.install_function(FUNCTION, FUNCTION, FUNCTION_TEXT)
    api.models()
    browser.log_in(open_webui.admin)
    browser.pick_model(FUNCTION)
    yield browser
    api.delete(f"/api/v1/functions/id/{FUNCTION}/delete")
    api.models()


def look_as(page: Browser, size: tuple[int, int], theme: Theme) -> None:
    """Have the browser show the page in a window of this size, in a theme that the system prefers."""
    features = [{"name": "prefers-color-scheme", "value": theme}]
    page.resize(size)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def ask_for(page: Browser, *names: str) -> None:
    """Have the pages of reports drawn, in one new answer."""
    page.send(" ".join(names))
    page.wait_for_answer()
    page.wait(lambda: len(page.driver.find_elements(*FRAMES)) == len(names))


@contextmanager
def embed(page: Browser, number: int = 0) -> Iterator[Chrome]:
    """The driver, which looks into the frame of an embed."""
    driver = page.driver
    frame = driver.find_elements(*FRAMES)[number]
    driver.execute_script("arguments[0].scrollIntoView()", frame)
    driver.switch_to.frame(frame)
    page.wait(lambda: bool(driver.find_elements(By.TAG_NAME, "h1")))
    yield driver
    driver.switch_to.default_content()


def wait_until_whole(page: Browser) -> None:
    """Wait until the frame is as high as its content."""
    page.wait(lambda: page.driver.execute_script(IS_WHOLE))


@pytest.mark.parametrize(
    ("size", "theme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")]
)
def test_the_page_is_whole_and_accessible(page: Browser, size: tuple[int, int], theme: Theme) -> None:
    """Closed and opened it is as high as its content, nothing sticks out, and axe finds nothing.

    The words of a hostile chat are shown as they are: no script runs, nothing is loaded, and nothing is sent.
    """
    axe = load_axe()
    look_as(page, size, theme)
    ask_for(page, *DRAWN)
    for number, name in enumerate(DRAWN):
        with embed(page, number) as driver:
            wait_until_whole(page)
            assert driver.execute_script(SEEN_COLOUR) == COLOURS[theme]
        page.screenshot(f"context-{name}-{'phone' if size == PHONE else 'desktop'}-{theme}")
        with embed(page, number) as driver:
            driver.execute_script(UNFOLD.format("true"))
            wait_until_whole(page)
            assert driver.execute_script(OUTSIDE) == []
            assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
            if name.endswith("hostile"):
                assert driver.execute_script("return document.title") != "owned"
                assert len(driver.find_elements(By.CSS_SELECTOR, "img,script,style")) == 2
                assert "onerror=alert(1)" in driver.find_element(By.CSS_SELECTOR, ".text,.sums").text
            if name in {"long", "hostile"}:  # axe would take minutes
                driver.execute_script(UNFOLD.format("false"))
            assert findings(driver, axe) == []
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= size[0]
    assert page.driver.find_elements(By.XPATH, "//button[normalize-space()='Confirm']") == []


def test_a_button_sends_its_command_once_it_is_confirmed(page: Browser) -> None:
    """By keyboard alone: open the first summary, go on to Restore, press it, and confirm the host's question."""
    ask_for(page, "small")
    with embed(page) as driver:
        button = driver.find_element(By.CSS_SELECTOR, "button[value='/restore 2-5']")
        button.find_element(By.XPATH, "ancestor::details/summary").send_keys(Keys.ENTER)
        page.wait(button.is_displayed)
        ActionChains(driver).send_keys(Keys.TAB).perform()
        assert driver.switch_to.active_element == button
        assert button.value_of_css_property("outline-style") == "solid"
        ActionChains(driver).send_keys(Keys.ENTER).perform()
    page.find(By.XPATH, "//*[contains(text(), '/restore 2-5')]")
    page.screenshot("context-restore-question")
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.wait_for_text("received /restore 2-5")


def test_what_was_spent_is_sorted_unfolded_and_taken_away(page: Browser, tmp_path: Path) -> None:
    """By the heads of its tables, as often as one likes; and the file is the one that the report has."""
    place = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", place)
    ask_for(page, "spending-admin")
    with embed(page) as driver:
        table = driver.find_element(By.CSS_SELECTOR, "table[aria-label='User']")

        def column(number: int) -> list[str]:
            cells = table.find_elements(By.CSS_SELECTOR, f"tbody tr>:nth-child({number})")
            return [cell.text for cell in cells if cell.is_displayed()]

        assert len(column(1)) == 10
        driver.find_element(By.XPATH, "//button[normalize-space()='Show all 14']").send_keys(Keys.ENTER)
        names, costs = column(1), column(2)
        assert len(names) == len(costs) == len(ADMIN.users)
        head = table.find_element(By.XPATH, ".//th[2]/button")
        for order, expected in (("descending", costs), ("ascending", costs[::-1])):
            head.send_keys(Keys.ENTER)
            assert (column(2), table.find_element(By.XPATH, ".//th[2]").get_attribute("aria-sort")) == (
                expected,
                order,
            )
        table.find_element(By.XPATH, ".//th[1]/button").send_keys(Keys.ENTER)
        assert (column(1)[0], column(1)[-1]) == ("王小明 8", "Ada Lovelace 0")
        driver.find_element(By.XPATH, "//a[normalize-space()='Download CSV']").send_keys(Keys.ENTER)
    file = tmp_path / "spending.csv"
    page.wait(file.exists)
    assert file.read_text("utf-8-sig") == spending_file(ADMIN)


def test_the_page_follows_the_hosts_theme_where_it_may_see_it(open_webui: OpenWebUI, page: Browser) -> None:
    """With embeds of the same origin, the host's own theme counts, also while it changes, and no question is asked."""
    settings, api = "/api/v1/users/user/settings/update", open_webui.admin.api
    ui = {"showChangelog": False, "iframeSandboxAllowSameOrigin": True}
    api.post(settings, {"ui": ui})
    look_as(page, DESKTOP, "light")
    page.driver.refresh()
    page.pick_model(FUNCTION)
    ask_for(page, "small")
    with embed(page) as driver:
        page.wait(lambda: driver.execute_script(SEEN_COLOUR) == COLOURS["light"])
    page.driver.execute_script("document.documentElement.classList.add('dark')")
    with embed(page) as driver:
        page.wait(lambda: driver.execute_script(SEEN_COLOUR) == COLOURS["dark"])
        driver.execute_script(UNFOLD.format("true"))
        driver.find_element(By.CSS_SELECTOR, "button[value='/discard 2-5']").click()
    page.wait_for_text("received /discard 2-5")
    api.post(settings, {"ui": {**ui, "iframeSandboxAllowSameOrigin": False}})
