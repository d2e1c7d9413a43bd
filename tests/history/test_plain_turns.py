"""Turns that are read and built once: the same as if they were read again, wherever they stand."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.conversation import KeptObjects
from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.folded import TOOL_IMAGES_TEXT
from open_webui_openrouter_pipe.history.reading import PlainTurn, read_history
from tests.history.builders import ulid

Message = dict[str, Any]


def user(content: Any) -> Message:
    """What a user says."""
    return {"role": "user", "content": content}


def answer(text: str, **more: Any) -> Message:
    """What the model says."""
    return {"role": "assistant", "content": text, **more}


FIRST, LAST = [user("Hello"), answer("Hi")], [user("And now?")]
PLAIN = [user("Tell me more."), answer("There is more."), answer("Much more.")]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLED = [
    user("Look."),
    answer("", tool_calls=[CALL]),
    {"role": "tool", "tool_call_id": "c1", "content": "A gull."},
]
SHOWN = [user("Show."), answer("![gull](/api/v1/files/1f2e3d4c/content)")]
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/gull.png"}}
PICTURES = user([{"type": "text", "text": TOOL_IMAGES_TEXT}, PICTURE])
MARKED = [user("Think."), answer(f"[{ulid(1)}]: #\n\nThought.")]
CHATS: dict[str, list[Message]] = {
    "plain": [*PLAIN, *PLAIN],
    "behind another turn": [*CALLED, *PLAIN],
    "with more messages before it": [*FIRST, answer("Hi again"), *PLAIN],
    "calls of one id": [*CALLED, *PLAIN, *CALLED, *PLAIN],
    "an image twice": [*SHOWN, *SHOWN, *PLAIN],
    "markers": [*MARKED, *PLAIN, *MARKED],
    "instructions in between": [*PLAIN, {"role": "system", "content": "Be brief."}, *PLAIN],
    "images of tools": [*PLAIN, PICTURES, answer("Seen.")],
    "a stored answer": [user("Hm."), answer("", output=[{"type": "message", "content": []}]), *PLAIN],
    "a command": [user("/aim thrifty"), answer("Done."), *PLAIN],
    "what is no message": [*PLAIN, "text", *PLAIN, {}, *PLAIN],  # type: ignore[list-item]
    "questions alone": [user("One"), user("Two"), user(""), user("Three")],
    "phases": [user("Go."), answer("First.", phase="commentary"), answer("Then."), *PLAIN],
}


@pytest.mark.parametrize("name", CHATS)
def test_a_kept_turn_is_what_it_would_be(name: str) -> None:
    """Also the second time, and behind every other chat that was read meanwhile."""
    keep = KeptObjects().of
    for other in (name, *CHATS, name):
        messages = [*FIRST, *CHATS[other], *LAST]
        expected, read = read_history(messages), read_history(messages, keep=keep)
        assert read == expected
        artifacts: Any = {ulid(1): {"type": "web_search_call", "id": "ws_1", "status": "completed"}}
        options = Options(model_id="openai/gpt-5.2")
        built = build_input(read, artifacts, options)
        assert repr(built) == repr(build_input(expected, artifacts, options))


def test_a_plain_turn_is_built_once() -> None:
    """Its items are the same objects in every later request."""
    keep = KeptObjects().of
    messages = [*FIRST, *PLAIN, *LAST]
    built = [build_input(read_history(messages, keep=keep), {}, Options()).items for _ in range(2)]
    assert [first is second for first, second in zip(*built, strict=True)] == [False] * 2 + [True] * 3 + [
        False
    ]
    turns = read_history(messages, keep=keep).turns
    assert [type(turn) is PlainTurn for turn in turns] == [False, True, False]
