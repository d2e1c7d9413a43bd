"""Videos in the real page: before, while and after one is made, stopped and taken up again; each is a screenshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from scripts.harness.browser import Browser
    from scripts.standin import StandIn
    from tests.live.models import Valves

pytestmark = [pytest.mark.live, pytest.mark.browser]

PLAYS = (
    "return [...document.querySelectorAll('#messages-container video')].filter(e => e.duration > 1).length"
)


def wait_for_players(page: Browser, count: int) -> None:
    page.wait(lambda: page.driver.execute_script(PLAYS) == count)


def test_a_video_is_made_played_stopped_and_taken_up(page: Browser, standin: StandIn, valves: Valves) -> None:
    """One job for a message, however often it is asked for until its video is there."""
    valves(CONFIRM_ABOVE_DOLLARS=0.3, COST_LINE="cost")
    page.new_chat()
    page.pick_model("Stand-in: film")
    page.send("A lighthouse at night. [[video: polls=3]]")
    page.find(By.XPATH, "//*[contains(text(), 'that costs about $0.40')]")
    page.screenshots("video-before")
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.wait(lambda: "is being made, 0:3" in page.last_message())
    page.screenshots("video-while")
    page.stop()
    page.wait(lambda: "still made and billed" in page.last_message())
    page.screenshots("video-stopped")
    page.regenerate()
    wait_for_players(page, 1)
    page.screenshots("video-after")
    page.driver.refresh()
    wait_for_players(page, 1)
    page.screenshots("video-reloaded")
    page.pick_model("Stand-in: script")
    page.send("What did you see?")
    assert "What did you see?" in page.wait_for_answer()
    page.screenshots("video-next")
    assert [each.path for each in standin.requests if each.method == "POST"].count("/videos") == 1
