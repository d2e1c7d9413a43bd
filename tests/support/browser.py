"""A real browser at Open WebUI's frontend: what a person does, step by step, and what they then see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import expected_conditions as expected
from selenium.webdriver.support.ui import WebDriverWait

from scripts import machine
from scripts.paths import ARTIFACTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement

SCREENSHOTS = ARTIFACTS / "screenshots"
STEP_SECONDS = 30.0
ANSWER_SECONDS = 60.0

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,1400",
)
_ANSWER = (By.CSS_SELECTOR, "#messages-container #response-content-container")
_INPUT = (By.ID, "chat-input")
_STOP = (By.CSS_SELECTOR, "button[aria-label='Stop']")


class Browser:
    """One Chromium with a fresh profile; leaving the context closes it."""

    def __init__(self, url: str, profile: Path) -> None:
        self.url = url
        options = webdriver.ChromeOptions()
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.binary_location = str(machine.find("chromium"))
        service = webdriver.ChromeService(str(machine.find("chromedriver")))
        self.driver = webdriver.Chrome(options=options, service=service)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()

    def log_in(self, email: str, password: str) -> None:
        """Fill in the form, and wait for the chat."""
        self.driver.get(f"{self.url}/auth")
        self.find(By.CSS_SELECTOR, "input[type=email]").send_keys(email)
        self.find(By.CSS_SELECTOR, "input[type=password]").send_keys(password, Keys.ENTER)
        self.find(*_INPUT)

    def pick_model(self, name: str) -> None:
        """Choose a model by its whole displayed name."""
        self.click(By.ID, "model-selector-model-button")
        self.find(By.ID, "model-search-input").send_keys(name)
        self.click(By.CSS_SELECTOR, f"[role=option][aria-label='Select {name} model']")

    def new_chat(self) -> None:
        """Leave the present chat for an empty one."""
        self.driver.get(self.url)
        self.find(*_INPUT)

    def open_chat(self, chat_id: str) -> None:
        """Open a saved chat and wait until its last answer stands there."""
        self.driver.get(f"{self.url}/c/{chat_id}")
        self.find(*_ANSWER)

    def send(self, text: str) -> None:
        """Write into the message field and send; returns when the answer has begun."""
        before = len(self.driver.find_elements(*_ANSWER))
        self.click(*_INPUT)
        self.find(*_INPUT).send_keys(text, Keys.ENTER)
        self.wait(lambda: len(self.driver.find_elements(*_ANSWER)) > before, STEP_SECONDS)

    def wait_for_answer(self, seconds: float = ANSWER_SECONDS) -> str:
        """Wait until nothing is being generated, and return the visible text of the last answer."""
        self.wait(lambda: not self.driver.find_elements(*_STOP) and bool(self.last_answer()), seconds)
        return self.last_answer()

    def wait_for_text(self, text: str, seconds: float = ANSWER_SECONDS) -> None:
        """Wait until the last answer shows the text, finished or not."""
        self.wait(lambda: text in self.last_answer(), seconds)

    def stop(self) -> None:
        """Press Stop, and wait until it is gone."""
        self.click(*_STOP)
        self.wait(lambda: not self.driver.find_elements(*_STOP), STEP_SECONDS)

    def last_answer(self) -> str:
        """The visible text of the last answer; empty while there is none."""
        script = "return [...document.querySelectorAll(arguments[0])].at(-1)?.innerText ?? ''"
        return str(self.driver.execute_script(script, _ANSWER[1])).strip()

    def screenshot(self, name: str) -> Path:
        """Keep what is seen now as `.artifacts/screenshots/NAME.png`."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.driver.save_screenshot(str(path))
        return path

    def find(self, by: str, value: str) -> WebElement:
        """The element, once it is visible."""
        return self._waiting(STEP_SECONDS).until(expected.visibility_of_element_located((by, value)))

    def click(self, by: str, value: str) -> None:
        """Click the element, once it can be clicked."""
        self._waiting(STEP_SECONDS).until(expected.element_to_be_clickable((by, value))).click()

    def wait(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until the condition holds; selenium's TimeoutException otherwise."""
        self._waiting(seconds).until(lambda _: condition())

    def _waiting(self, seconds: float) -> WebDriverWait[webdriver.Chrome]:
        return WebDriverWait(self.driver, seconds, poll_frequency=0.1)
