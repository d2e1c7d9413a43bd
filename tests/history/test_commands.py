"""Commands among messages: they and our answers are taken out, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.slash import (
    ChatCommand,
    Compact,
    Help,
    Restore,
    SetAim,
    ShowContext,
)
from open_webui_openrouter_pipe.errors import InvalidHistory
from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.reading import (
    ANSWER_MARK,
    erase_commands,
    find_commands,
    read_history,
)
from tests.history import chats
from tests.history.builders import build, compact
from tests.support.cases import CHATS


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


OURS = f"{ANSWER_MARK}Done."
PAIR = [user("/help"), assistant(OURS)]


def texts(messages: list[Any], prompt: str | None = None) -> list[str]:
    """What is sent of a chat, as texts."""
    built = build_input(read_history(messages, prompt=prompt), {}, Options())
    items: list[Any] = [*built.items]
    return [item["content"][0]["text"] for item in items]


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


def test_commands_say_after_which_turn_they_hold() -> None:
    """Only those that we have answered, and the last one, which waits for its answer."""
    chat = [
        *[
            user("/aim thrifty"),
            assistant(OURS),
            user("Hi."),
            assistant("Hello."),
            user("/compact"),
            assistant(""),
        ],
        *[user("/restore 1"), assistant(OURS), user("How?"), assistant("So."), user("/compact names")],
    ]
    history = read_history(chat)
    assert history.commands == (
        ChatCommand(0, SetAim("thrifty")),
        ChatCommand(1, Restore((range(1, 2),))),
        ChatCommand(2, Compact("names")),
    )
    assert history.asked == Compact("names")
    assert texts(chat) == ["Hi.", "Hello.", "How?", "So.", ""]


def test_what_another_model_has_answered_stays() -> None:
    """Nobody's words are lost because they read like a command."""
    chat = [user("/help"), assistant("How can I help?"), user("Go on.")]
    assert texts(chat) == ["/help", "How can I help?", "Go on."]
    assert read_history(chat).commands == ()


@pytest.mark.parametrize(
    "answer",
    [
        assistant("", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}]),
        assistant("", output=[{"type": "reasoning", "id": "r", "summary": []}]),
    ],
)
def test_an_answer_without_words_that_did_something_stays(answer: Any) -> None:
    """It is not ours, and not an unfinished one."""
    assert find_commands([user("/help"), answer, user("Go on.")]).left[0] == user("/help")


@pytest.mark.parametrize(
    "content",
    [
        [
            {"type": "text", "text": "/help"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        ],
        [{"type": "text", "text": "/help"}, {"type": "text", "text": "me"}],
        [{"type": "image_url", "image_url": {"url": "/help"}}],
    ],
)
def test_a_message_with_an_attachment_is_not_a_command(content: Any) -> None:
    """Whatever its text is."""
    assert read_history([user(content)]).asked is None


def test_what_the_host_wrote_around_a_command_does_not_hide_it() -> None:
    """Retrieved text stands beside the user's own words, which its metadata names."""
    chat = [user("Hi."), assistant("Hello."), user("### Task: answer from <source>...</source>\n/context")]
    assert read_history(chat, prompt="/context").asked == ShowContext()
    assert texts(chat, prompt="/context") == ["Hi.", "Hello.", ""]


def test_a_prompt_that_has_something_attached_is_not_a_command() -> None:
    """Its files reach the model by another way than the message."""
    assert read_history([user("/context")], prompt="").asked is None


def test_an_answer_that_is_continued_is_given_anew() -> None:
    """The host then sends the chat with our answer at its end."""
    history = read_history([user("Hi."), assistant("Hello."), *PAIR])
    assert (history.asked, len(history.turns)) == (Help(), 2)


def test_tasks_do_not_quote_commands() -> None:
    """As the host writes a chat into the prompts of its tasks."""
    quoted = f"USER: Hi.\nASSISTANT: Hello.\nUSER: /context\nASSISTANT: {OURS}\n| 1 | two |\n\nmore"
    prompt = f"Write a title.\n<chat_history>\n{quoted}\nUSER: How?\nASSISTANT: So.\n</chat_history>"
    expected = "USER: Hi.\nASSISTANT: Hello.\nUSER: How?\nASSISTANT: So."
    assert erase_commands(prompt) == f"Write a title.\n<chat_history>\n{expected}\n</chat_history>"
    last = f"<chat_history>\n{quoted}\n</chat_history>"
    assert erase_commands(last) == "<chat_history>\nUSER: Hi.\nASSISTANT: Hello.\n</chat_history>"
    other = "USER: /context\nASSISTANT: What is that?"
    assert erase_commands(other) == other


def test_an_assistants_message_behind_our_answer_stays() -> None:
    """A filter or a caller of the API may have put it there."""
    assert texts([*PAIR, assistant("Remember this."), user("And?")]) == ["Remember this.", "And?"]


def test_our_answer_is_taken_out_also_where_its_command_is_gone() -> None:
    """The beginning of a chat may be cut, or the command edited into something else."""
    assert texts([assistant(OURS), user("Hello")]) == ["Hello"]
    assert texts([user("/nothing"), assistant(OURS), user("Hello")]) == ["/nothing", "Hello"]


@pytest.mark.parametrize(
    "prompt",
    [
        f"<chat_history>\nUSER: /compact\nthe names\nASSISTANT: {OURS}\nof it\nUSER: Hi\n</chat_history>",
        f"<chat_history>\nASSISTANT: {OURS}\nof it\nUSER: Hi\n</chat_history>",
    ],
)
def test_tasks_do_not_quote_long_commands_or_answers_alone(prompt: str) -> None:
    """The host quotes the last messages of a chat, each as it is."""
    assert erase_commands(prompt) == "<chat_history>\nUSER: Hi\n</chat_history>"
