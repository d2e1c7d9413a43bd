"""A real browser at Open WebUI's frontend: what a person does, step by step, and what they then see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.remote_connection import RemoteConnection
from selenium.webdriver.support import expected_conditions as expected
from selenium.webdriver.support.ui import WebDriverWait

from scripts.environment import find_program
from scripts.paths import ARTIFACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement

    from scripts.harness.openwebui import Account

SCREENSHOTS = ARTIFACTS / "screenshots"
DESKTOP, PHONE = (1280, 900), (390, 844)
DEVICES = {"desktop": DESKTOP, "phone": PHONE}
"""Widths and heights in pixels."""
STEP_SECONDS = 600.0
ANSWER_SECONDS = 900.0

_FLAGS = (
    *("headless=new", "no-sandbox", "no-first-run", "window-size=1280,1400", "disable-gpu", "disable-quic"),
    *("disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage"),
)
_CONTENT = "#response-content-container"
_ANSWER = (By.CSS_SELECTOR, f"#messages-container {_CONTENT}")
_INPUT = (By.ID, "chat-input")
_FILES = (By.CSS_SELECTOR, "input[type=file]")
_ATTACHED = (By.CSS_SELECTOR, "#message-input-container [aria-label='Remove file' i]")
_UPLOADING = (By.CSS_SELECTOR, "#message-input-container .spinner_ajPY")
_PICTURES = "#messages-container .chat-assistant img"
_STOP = (By.CSS_SELECTOR, "button[aria-label='Stop']")
_MESSAGES = "#messages-container [id^='message-']:not([id^='message-edit-'])"
_IN_MOTION = """
return document.getAnimations().some(
  each => each.playState === 'running' && each.effect.getComputedTiming().endTime !== Infinity)
"""
_LAST_TEXT = "return [...document.querySelectorAll(arguments[0])].at(-1)?.innerText ?? ''"
_KEEP_TOKEN = "localStorage.setItem('token', arguments[0])"  # noqa: S105 - a script
_CATCH_COPIED = """
navigator.clipboard.writeText = async text => { window.copied = text }
navigator.clipboard.write = async items => {
  window.copied = await (await items[0].getType('text/plain')).text()
}
"""


class Browser:
    """One Chromium with a fresh profile; leaving the context closes it. A step takes `step_seconds` at most."""

    def __init__(self, url: str, profile: Path, *, step_seconds: float = STEP_SECONDS) -> None:
        self.url, self._step_seconds = url, step_seconds
        options = webdriver.ChromeOptions()
        for flag in (*_FLAGS, f"user-data-dir={profile}"):
            options.add_argument(f"--{flag}")
        options.binary_location = str(find_program("chromium"))
        service = webdriver.ChromeService(str(find_program("chromedriver")))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(step_seconds)
        executor = self.driver.command_executor
        assert isinstance(executor, RemoteConnection)
        executor.client_config.timeout = int(ANSWER_SECONDS)  # longer than any step of the driver's

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()

    def log_in(self, account: Account) -> None:
        """Begin as someone who has signed in, and wait for the chat.

        Open WebUI lets nobody sign in for each page: fifteen times in three minutes at the most.
        """
        self.driver.get(f"{self.url}/health")  # of the same origin, without the page's own script
        self.driver.execute_script(_KEEP_TOKEN, account.api.token)
        self.new_chat()

    def pick_model(self, name: str) -> None:
        """Choose a model by its whole displayed name."""
        self.click(By.ID, "model-selector-model-button")
        self.find(By.ID, "model-search-input").send_keys(name)
        self.click(By.CSS_SELECTOR, f"[role=option][aria-label='Select {name} model']")

    def new_chat(self) -> None:
        """Open the page with an empty chat."""
        self.driver.get(self.url)
        self.find(*_INPUT)

    def open_chat(self, chat_id: str) -> None:
        """Open a saved chat and wait until its last answer is shown."""
        self.driver.get(f"{self.url}/c/{chat_id}")
        self.find(*_ANSWER)

    def send(self, text: str) -> None:
        """Write into the message field and send; returns when the answer has begun."""
        before = self.message_ids()
        self.click(*_INPUT)
        self.find(*_INPUT).send_keys(text, Keys.ENTER)
        self._wait_for_another_answer(before)

    def attach(self, paths: Sequence[Path]) -> None:
        """Choose files for the next message; returns when the page shows each of them as uploaded."""

        def is_done() -> bool:
            attached, uploading = (self.driver.find_elements(*which) for which in (_ATTACHED, _UPLOADING))
            return len(attached) == len(paths) and not uploading

        self.driver.find_element(*_FILES).send_keys("\n".join(map(str, paths)))
        self.wait(is_done)

    def regenerate(self) -> None:
        """Have the last question answered again; returns when the answer has begun."""
        before = self.message_ids()
        self._press(before[-1], "Regenerate")
        self.click(By.XPATH, "//button[normalize-space()='Try Again']")
        self._wait_for_another_answer(before)

    def copy_answer(self) -> str:
        """Press Copy below the last answer, and return what goes to the clipboard."""
        self.driver.execute_script(_CATCH_COPIED)
        self._press(self.message_ids()[-1], "Copy")
        self.wait(lambda: self.driver.execute_script("return window.copied !== undefined"))
        return str(self.driver.execute_script("return window.copied"))

    def press(self, label: str) -> None:
        """Click one of the buttons below the last answer."""
        self._press(self.message_ids()[-1], label)

    def show_statuses(self) -> None:
        """Unfold the status line of the last answer."""
        button = self.driver.find_elements(By.CSS_SELECTOR, "button[aria-label='Toggle status history']")[-1]
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()

    def message_ids(self) -> list[str]:
        """The ids of the messages on the page, oldest first; of a long chat only the last ones are."""
        script = "return [...document.querySelectorAll(arguments[0])].map(each => each.id)"
        return [name.removeprefix("message-") for name in self.driver.execute_script(script, _MESSAGES)]

    def wait_for_answer(self, seconds: float = ANSWER_SECONDS) -> str:
        """Wait until nothing is being generated, and return the visible text of the last answer."""
        self.wait(lambda: not self.driver.find_elements(*_STOP) and bool(self.last_answer()), seconds)
        return self.last_answer()

    def wait_for_text(self, text: str, seconds: float = ANSWER_SECONDS) -> None:
        """Wait until the last answer shows the text, finished or not."""
        self.wait(lambda: text in self.last_answer(), seconds)

    def wait_for_pictures(self, count: int) -> None:
        """Wait until the answers on the page show so many pictures, each of them loaded."""
        script = "return [...document.querySelectorAll(arguments[0])].filter(e => e.naturalWidth > 0).length"
        self.wait(lambda: self.driver.execute_script(script, _PICTURES) == count)

    def stop(self) -> None:
        """Press Stop, and wait until it is gone."""
        self.click(*_STOP)
        self.wait(lambda: not self.driver.find_elements(*_STOP))

    def last_answer(self) -> str:
        """The visible text of the last answer; empty while there is none."""
        return str(self.driver.execute_script(_LAST_TEXT, _ANSWER[1])).strip()

    def last_message(self) -> str:
        """The visible text of the last message, with its status lines and buttons."""
        return str(self.driver.execute_script(_LAST_TEXT, _MESSAGES))

    def screenshot(self, name: str) -> Path:
        """Keep what is seen, once nothing fades in any more, as `.artifacts/screenshots/NAME.png`."""
        self.wait(lambda: not self.driver.execute_script(_IN_MOTION))
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.driver.save_screenshot(str(path))
        return path

    def screenshots(self, name: str) -> None:
        """Keep what is seen on each device, as NAME with the device's behind it."""
        for device, size in DEVICES.items():
            self.resize(size)
            self.screenshot(f"{name}-{device}")
        self.resize()

    def resize(self, size: tuple[int, int] | None = None) -> None:
        """Show the page in a window of this size in pixels, or in the browser's own."""
        if size is None:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            return
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < height}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def find(self, by: str, value: str) -> WebElement:
        """The element, once it is visible."""
        return self._waiting(self._step_seconds).until(expected.visibility_of_element_located((by, value)))

    def click(self, by: str, value: str) -> None:
        """Click the element, once it can be clicked."""
        self._waiting(self._step_seconds).until(expected.element_to_be_clickable((by, value))).click()

    def wait(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until the condition holds; selenium's TimeoutException otherwise."""
        self._waiting(seconds or self._step_seconds).until(lambda _: condition())

    def _press(self, message_id: str, label: str) -> None:
        """Point at a message, and click one of the buttons that appear."""
        message = self.driver.find_element(By.ID, f"message-{message_id}")
        ActionChains(self.driver).move_to_element(message).perform()
        self.click(By.CSS_SELECTOR, f"[id='message-{message_id}'] button[aria-label='{label}']")

    def _wait_for_another_answer(self, before: Sequence[str]) -> None:
        def is_there() -> bool:
            last = self.message_ids()[-1:]
            return last != before[-1:] and any(self.driver.find_elements(*_answer_in(name)) for name in last)

        self.wait(is_there)

    def _waiting(self, seconds: float) -> WebDriverWait[webdriver.Chrome]:
        return WebDriverWait(self.driver, seconds, poll_frequency=0.1)


def _answer_in(message_id: str) -> tuple[str, str]:
    return By.CSS_SELECTOR, f"[id='message-{message_id}'] {_CONTENT}"
