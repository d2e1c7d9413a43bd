"""Commands among messages: they and our answers are taken out, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.markers import ANSWER_MARK
from open_webui_openrouter_pipe.history.reading import erase_commands
from tests.history import chats
from tests.history.builders import assistant, build, compact, user
from tests.support.cases import CHATS

OURS = f"{ANSWER_MARK}Done."
_commands = st.sampled_from(
    ["/help", "/context", " /Context ", "/restore 3-8", "/compact the names", "/aim low"]
)
_our_answers = st.one_of(
    st.just([]),
    st.just([assistant("")]),
    st.text(max_size=20).map(lambda text: [assistant(f"{ANSWER_MARK}{text}")]),
    st.text(max_size=20).map(
        lambda text: [
            assistant(
                "", output=[{"type": "message", "content": [{"type": "output_text", "text": OURS + text}]}]
            )
        ]
    ),
)
_pairs = st.tuples(_commands, _our_answers).map(lambda pair: [user(pair[0]), *pair[1]])


@settings(max_examples=CHATS, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chats.turns(), chats.artifacts, chats.options, st.lists(st.tuples(st.integers(0, 40), _pairs), max_size=4)
)
def test_a_chat_with_commands_is_sent_like_the_chat_without(
    messages: Any, artifacts: Any, options: Any, pairs: Any
) -> None:
    """To the byte, wherever in it they stand: before any message of the user that is not the last."""
    users = [at for at, message in enumerate(messages) if is_user(message)]
    mixed = list(messages)
    for number, pair in sorted(pairs, key=lambda each: -(users[each[0] % len(users)] if users else 0)):
        at = users[number % len(users)] if users else len(mixed)
        mixed[at:at] = pair if users else []
    try:
        expected = compact(build(messages, artifacts, **options).items)
    except InvalidHistory:
        return
    assert compact(build(mixed, artifacts, **options).items) == expected


def is_user(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "user"


QUOTED = f"USER: Hi.\nASSISTANT: Hello.\nUSER: /context\nASSISTANT: {OURS}\n| 1 | two |\n\nmore\n"
HI, HOW = "USER: Hi.\nASSISTANT: Hello.\n", "USER: How?\nASSISTANT: So.\n"
OTHER = "USER: /context\nASSISTANT: What is that?\n"


@pytest.mark.parametrize(
    ("quoted", "expected"),
    [
        (f"{QUOTED}{HOW}", f"{HI}{HOW}"),
        (QUOTED, HI),
        (OTHER, OTHER),
        (f"USER: /compact\nthe names\nASSISTANT: {OURS}\nof it\n{HOW}", HOW),
        (f"ASSISTANT: {OURS}\nof it\n{HOW}", HOW),
    ],
    ids=["within", "last", "of another", "in lines", "cut off"],
)
def test_tasks_do_not_quote_commands(quoted: str, expected: str) -> None:
    """The host writes the last messages of a chat, each as it is, into the prompts of its tasks."""
    prompt = "Write a title.\n<chat_history>\n{}</chat_history>"
    assert erase_commands(prompt.format(quoted)) == prompt.format(expected)
