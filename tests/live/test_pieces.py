"""Speech, transcripts and pictures in the real page: before, while and after, reloaded, and the next turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By

from scripts.standin.endpoints import tone
from tests.support.files import wav

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.harness.browser import Browser
    from scripts.harness.openwebui import Account
    from scripts.standin import StandIn
    from tests.live.models import Valves

pytestmark = [pytest.mark.live, pytest.mark.browser]

PLAYERS = (
    "return [...document.querySelectorAll('#messages-container audio')].filter(e => e.duration > 0).length"
)
SKETCHES = "return document.querySelectorAll('#messages-container .chat-assistant img[src^=data]').length"
PICTURES = SKETCHES.replace("src^=data", "src*=files")
SLOW = "[[standin: delay=3]]"


def count(page: Browser, script: str) -> int:
    return int(page.driver.execute_script(script))


def drawn(page: Browser) -> list[int]:
    """How many stored pictures, and how many partial ones, the page shows."""
    return [count(page, script) for script in (PICTURES, SKETCHES)]


def test_speech_has_a_player(page: Browser, standin: StandIn, valves: Valves) -> None:
    """Its price is asked for before; it plays after a reload, and the next model reads the chat."""
    valves(CONFIRM_ABOVE_DOLLARS=0.0001, COST_LINE="cost")
    page.new_chat()
    page.pick_model("OpenAI: GPT-4o mini TTS")
    page.send("The keeper opens the lock at noon, and the boats go through.")
    page.find(By.XPATH, "//*[contains(text(), 'that costs about $0.00072')]")
    page.screenshots("speech-before")
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.wait(lambda: count(page, PLAYERS) == 1)
    page.screenshots("speech-after")
    page.driver.refresh()
    page.wait(lambda: count(page, PLAYERS) == 1)
    page.screenshots("speech-reloaded")
    valves(CONFIRM_ABOVE_DOLLARS=0.0)
    page.pick_model("Google: Gemini 3 Flash TTS")
    page.send("And now with another voice.")
    page.wait(lambda: count(page, PLAYERS) == 2)
    page.pick_model("Stand-in: script")
    page.send("What did I say?")
    page.wait_for_answer()
    page.screenshots("speech-next")
    assert [each.path for each in standin.requests if each.method == "POST"].count("/audio/speech") == 3


def test_a_recording_is_written_down(page: Browser, admin: Account, valves: Valves, tmp_path: Path) -> None:
    """With its speakers and times; without a recording the page says what to do."""
    valves(COST_LINE="cost")
    admin.api.set_user_valves("openrouter", {"TRANSCRIPT": "speakers"})
    recording = tmp_path / "lock.wav"
    recording.write_bytes(wav(tone(7.5)))
    page.new_chat()
    page.pick_model("ElevenLabs: Scribe v2")
    page.send("What is said?")
    page.wait(lambda: "Attach a recording" in page.last_message())
    page.screenshots("transcript-without")
    page.attach([recording])
    page.send("What is said?")
    page.wait_for_text("Then the boats go through.")
    page.screenshots("transcript-after")
    page.driver.refresh()
    page.wait_for_text("Then the boats go through.")
    page.pick_model("Stand-in: script")
    page.send("Who spoke?")
    page.wait_for_answer()
    page.screenshots("transcript-next")


def test_pictures_come_by_and_by(page: Browser, standin: StandIn, admin: Account, valves: Valves) -> None:
    """Partial ones are drawn and not stored, Stop leaves none, and the next message edits the picture."""
    valves(COST_LINE="cost")
    page.new_chat()
    page.pick_model("OpenAI: GPT Image 2")
    page.send(f"A red square {SLOW}")
    page.wait(lambda: count(page, SKETCHES) == 1)
    page.screenshots("picture-while")
    page.stop()
    page.wait(lambda: count(page, SKETCHES) == 0)
    page.screenshots("picture-stopped")
    page.regenerate()
    page.wait(lambda: drawn(page) == [1, 0])
    page.screenshots("picture-after")
    page.driver.refresh()
    page.wait(lambda: drawn(page) == [1, 0])
    page.send("Make it blue")
    page.wait(lambda: drawn(page) == [2, 0])
    page.screenshots("picture-edited")
    chat_id = page.driver.current_url.rpartition("/")[2]
    assert "data:image" not in str(admin.chat(chat_id))
    assert [
        len(each.body.get("input_references", [])) for each in standin.requests if each.path == "/images"
    ] == [0, 0, 1]
