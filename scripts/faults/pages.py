"""Users at a real browser: they ask, stop, have an answer written again, and close the page in the middle."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING

from selenium.common.exceptions import WebDriverException

from scripts.faults.upstream import TAG
from scripts.faults.users import text_of
from scripts.harness.browser import Browser

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.faults.users import Asked, User

STEP_SECONDS = 120.0
"""For what the page has to show; then the turn counts as refused, and the next chat begins."""
ACTS_HERE = ("ask", "ask", "stop", "regenerate", "close")
"""How somebody at a page spends a turn, whatever the plan has for it."""


class Person:
    """A user's turns in a browser with a profile of its own."""

    def __init__(self, user: User, profile: Path) -> None:
        self.user, self._profile = user, profile
        self._chat: list[Asked] = []

    def run(self) -> None:
        """Take turns until there are none."""
        user, turns = self.user, self.user.turns
        with Browser(user.account.api.base_url, self._profile, step_seconds=STEP_SECONDS) as browser:
            browser.log_in(user.account)
            while (number := turns.take()) is not None:
                chance = Random(f"page {user.seed} {number}")  # noqa: S311 - no secret
                act, began = chance.choice(ACTS_HERE), time.monotonic()
                try:
                    self._turn(browser, number, act, chance)
                except WebDriverException as error:
                    turns.count(f"at a page: {type(error).__name__}")
                    self._chat.clear()
                else:
                    turns.end(f"{act} at a page", began)
                turns.rest(chance)
            browser.screenshot(f"{user.name}-at-the-end")

    def _turn(self, browser: Browser, number: int, act: str, chance: Random) -> None:
        if not self._chat or len(self._chat) >= self.user.turns.length:
            self._chat.clear()
            browser.driver.get(f"{browser.url}/?model=openrouter.{self.user.model}")
            browser.find("id", "chat-input")
        if act == "regenerate" and self._chat:
            self._chat[-1].acts.add(act)
            browser.regenerate()
        else:
            path = self._chat[-1].path if self._chat else ()
            self._chat.append(self.user.note_asked(number, act, path))
            browser.send(text_of(number, "slow" if act == "stop" else act, chance))
        if act == "stop":
            browser.wait_for_text("You said", STEP_SECONDS)  # before that, the page ignores it
            browser.stop()
        if act == "close":
            browser.wait(lambda: "/c/" in browser.driver.current_url)
            name = browser.driver.current_url.rpartition("/c/")[2]
            browser.driver.get("about:blank")
            browser.open_chat(name)
        shown = browser.wait_for_answer(STEP_SECONDS)
        asked = self._chat[-1]
        if others := {*map(int, TAG.findall(shown))} - {asked.number}:
            self.user.turns.wrong.append(f"question {asked.number}: the page shows the answer to {others}")
