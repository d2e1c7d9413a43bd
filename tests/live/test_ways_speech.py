"""Speech in a real Open WebUI: what a call sends, and what the page has read aloud."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.chats import MODEL, SCRIPTED, inputs, texts_of
from tests.support.answering import Reply, answering
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe", "standin")]

SETTINGS = "/api/v1/audio/config"
TASKS = "/api/v1/tasks/config"
SPOKEN = "You are spoken to.\n\nKeep it short."
SILENCE = b"\xff\xfb\x90\x00" + bytes(413)
"""A frame of MP3."""


@pytest.fixture(params=[None, SPOKEN], ids=["default", "own"])
def instructions(open_webui: OpenWebUI, request: pytest.FixtureRequest) -> Iterator[str]:
    """How the instructions for a call begin: the host's own, or the administrator's."""
    api = open_webui.admin.api
    before = api.get(TASKS)
    api.post(f"{TASKS}/update", {**before, "VOICE_MODE_PROMPT_TEMPLATE": request.param or ""})
    yield request.param or "You are a friendly, concise voice assistant"
    api.post(f"{TASKS}/update", before)


@pytest.mark.parametrize("prompt", ["", "Answer in English."])
def test_speaking_and_typing_share_a_chats_beginning(
    open_webui: OpenWebUI, standin: StandIn, instructions: str, prompt: str
) -> None:
    """The instructions for a call stand directly before a spoken question, and nowhere else."""
    sent = None
    for turn, spoken in enumerate([True, False, True, False]):
        fields: dict[str, Any] = {"features": {"voice": spoken}}
        if prompt:
            fields["messages"] = [{"role": "system", "content": prompt}]
        sent, _ = open_webui.admin.ask(MODEL, f"turn {turn}", after=sent, **fields)
    found = [texts_of(each) for each in inputs(standin)]
    for turn, texts in enumerate(found):
        at = [index for index, text in enumerate(texts) if text.startswith(instructions)]
        assert at == ([len(texts) - 2] if turn % 2 == 0 else [])
    without = [[text for text in texts if not text.startswith(instructions)] for texts in found]
    assert without[0] == [*filter(None, [prompt]), "turn 0"]
    for before, after in pairwise(without):
        assert after[: len(before)] == before


@contextmanager
def speech(host: OpenWebUI) -> Iterator[list[str]]:
    """Let the host have texts spoken; gives the texts. Afterwards it speaks as before."""
    texts: list[str] = []

    def speak(_path: str, asked: Any) -> Reply:
        texts.append(asked["input"])
        return Reply("audio/mpeg", SILENCE)

    before = host.admin.api.get(SETTINGS)
    with answering(speak) as address:
        tts = {
            **before["tts"],
            "ENGINE": "openai",
            "OPENAI_API_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": "none",
        }
        host.admin.api.post(f"{SETTINGS}/update", {**before, "tts": tts})
        try:
            yield texts
        finally:
            host.admin.api.post(f"{SETTINGS}/update", before)


@pytest.mark.browser
def test_the_models_words_alone_are_read_aloud(open_webui: OpenWebUI, browser: Browser) -> None:
    """Neither thinking nor tool calls nor markers, also where one stands in the text."""
    kinds = {
        "Zebra": "[[standin: reasoning=summary]]",
        "Yak": "[[standin: search=cats]]",
        "Camel": '[[standin: reasoning=summary]] [[standin: call=get_current_timestamp]] [[standin: say="Wait."]]',
    }
    browser.log_in(open_webui.admin)
    with speech(open_webui) as texts:
        spoken = {}
        for animal, directives in kinds.items():
            answer, _ = open_webui.admin.ask(SCRIPTED, f"{directives} {animal}")
            texts.clear()
            browser.open_chat(answer.chat_id)
            browser.press("Read Aloud")
            wait_until(lambda: any("input item" in text for text in texts))
            spoken[animal] = " ".join(texts)
    assert spoken["Zebra"] == "You said: Zebra standin/script saw 1 input item."
    assert spoken["Yak"] == "You said: Yak standin/script saw 1 input item."
    assert spoken["Camel"].startswith("Wait. You said: Camel The tools answered")
