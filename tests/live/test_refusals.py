"""A chat in a real Open WebUI survives each recorded refusal of its reasoning.

The stand-in says what was recorded, in its shape, for each request that holds reasoning.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from scripts.harness.browser import Browser
from scripts.harness.openwebui import Account
from scripts.paths import ROOT
from scripts.standin import StandIn
from tests.live.chats import talk
from tests.live.items import error_of, inputs, kinds, statuses, text_of
from tests.live.models import MODEL
from tests.live.test_page import NAME, begin, say

pytestmark = pytest.mark.live

ROWS: Final[list[dict[str, Any]]] = json.loads(
    (ROOT / "tests" / "data" / "openrouter" / "errors.json").read_text("utf-8")
)
REFUSED: Final = [row for row in ROWS if row["kind"] == "reasoning_refused"]
LINE: Final = "The provider rejected the request; asked again without reasoning."
UNEXPLAINED: Final = "OpenAI (via relay)"
"""Who does not say that reasoning was the reason."""


def order(row: dict[str, Any]) -> str:
    """What makes the stand-in refuse so."""
    said = {name: value for name, value in row.items() if name in {"status", "shape", "body", "message"}}
    return f"recorded={json.dumps(said)} holds=reasoning"


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row["provider"])
def test_a_chat_survives_each_refusal_of_its_reasoning(
    admin: Account, standin: StandIn, row: dict[str, Any]
) -> None:
    """The question is answered without it, said in one status line, and the next one as if nothing had been."""
    texts = ("Good morning", f"[[standin: {order(row)}]] And good night", "And the next day")
    answered = talk(admin, MODEL, *texts)
    assert [error_of(answer) for _, answer in answered] == [""] * 3
    assert "You said: And good night" in text_of(answered[1][1])
    assert LINE in statuses(answered[1][1])
    sent = [kinds(each) for each in inputs(standin)]
    assert sent[0] == ["user"]
    assert "reasoning" in sent[1]
    # what a server fails with, and does not explain, may have passed by the next question
    first = ["user", "reasoning"] if row["provider"] == UNEXPLAINED else ["user"]
    assert sent[-1] == [*first, "assistant", "user", "reasoning", "assistant", "user"]


@pytest.mark.browser
@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row["provider"])
def test_a_person_sees_that_it_was_answered_without_reasoning(
    page: Browser, standin: StandIn, row: dict[str, Any]
) -> None:
    """One line above the answer, no error, and the chat goes on."""
    begin(page, NAME)
    say(page, "Good morning")
    standin.script(order(row), times=4)
    assert "You said: And good night" in say(page, "And good night")
    seen = page.last_message()
    page.screenshot(f"answered-without-reasoning-{REFUSED.index(row)}")
    assert LINE in seen
    standin.reset()
    assert "You said: And on" in say(page, "And on")
