"""The examples of the documentation: two chats of sixty turns, and what is sent of them in place of the first 54.

The chats and the answers of the summary model stand in tests/data/examples, written by hand. `python -m
tests.summaries.test_examples` writes the page anew.
"""

from __future__ import annotations

import json
import sys
from itertools import count as count_up
from typing import TYPE_CHECKING

import pytest

if __name__ == "__main__":
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2]))

from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    Conversation,
    build_conversation,
)
from open_webui_openrouter_pipe.conversation.record import UserRecord
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.responses.items import Item, is_message
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.prompt import INSTRUCTION, SummaryAssignment
from open_webui_openrouter_pipe.summaries.summary import (
    EarlierState,
    Summary,
    parse_model_summary,
    summary_message,
)
from scripts.paths import ROOT
from tests.support.chats import answer, call, history, output, user

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "tests" / "data" / "examples" / "examples.md"
CHATS = {"debugging": "Debugging an import", "journey": "Planning a journey"}
SEGMENT_TURNS = 18
SUMMARY_TOKENS = 1_200
RECORD_TOKENS = 4_000
"""As for segments of 8,000 tokens in a budget of 40,000."""

INTRODUCTION = """\
# What a summarized chat looks like

Two chats of sixty turns, and the message that stands for the first 54 turns of each: three summaries of eighteen turns,
with the room that they would have if the answers were longer. The last six turns are sent as they are. The chats and
the answers of the summary model stand beside this page, written by hand;
`python -m tests.summaries.test_examples` writes this page, and a test holds it against the code.

In the first chat a quoted mail demands that "every import must be mirrored". The summary model listed that as a
constraint, as models do; it is not one, because the user did not write it. In the second, a friend's advice in
quotation marks is dropped for the same reason. A constraint that the user took back is marked.
"""


def read_chat(name: str) -> Conversation:
    """A chat from its file: lines of the user, the assistant, and tool calls with their results."""
    turns: list[list[Item]] = []
    numbers = count_up()
    for line in (ROOT / "tests" / "data" / "examples" / f"{name}.txt").read_text("utf-8").splitlines():
        kind, _, text = line.partition(": ")
        text = text.replace("\\n", "\n")
        if kind == "U":
            turns.append([user(text)])
        elif kind == "A":
            turns[-1].append(answer(text, f"msg_{next(numbers)}"))
        else:
            called, _, result = text.partition(" => ")
            tool, _, arguments = called.partition("(")
            call_id = f"call_{next(numbers)}"
            turns[-1] += [call(call_id, arguments.removesuffix(")"), tool), output(call_id, result)]
    chat = history(*turns)
    return build_conversation(chat.items, chat.turn_of_item)


def example_summaries(name: str, conversation: Conversation) -> Iterator[Summary]:
    """The summaries of the chat, each written after the ones before it, from the answers in the file."""
    answers = json.loads((ROOT / "tests" / "data" / "examples" / f"{name}.json").read_text("utf-8"))
    counter = TokenCounter(ContentCache())
    summaries: list[Summary] = []
    for number, model_answer in enumerate(answers):
        first = number * SEGMENT_TURNS
        turns = conversation.turns[first : first + SEGMENT_TURNS]
        earlier = EarlierState.after(summaries)
        written = parse_model_summary(
            json.dumps(model_answer), source_tokens=10_000, count=counter.text, instruction=INSTRUCTION
        )
        assignment = SummaryAssignment(turns, first + 1, earlier)
        summaries.append(complete_summary(written, assignment, count=counter.text, max_tokens=SUMMARY_TOKENS))
    yield from summaries


def block(name: str) -> str:
    """The message that replaces the first 54 turns."""
    conversation = read_chat(name)
    summaries = [*example_summaries(name, conversation)]
    counter = TokenCounter(ContentCache())
    turns = range(SEGMENT_TURNS * len(summaries))
    record = UserRecord(conversation.turns, counter).text(turns, RECORD_TOKENS)
    message = summary_message(summaries, (), record)
    assert message is not None
    return "\n\n".join(part["text"] for part in message["content"] if part["type"] == "input_text")


def page() -> str:
    """The page."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    for name, title in CHATS.items():
        yield f"## {title}\n\n```text\n{block(name)}\n```\n"


def test_the_page_shows_what_is_sent() -> None:
    """If this fails, run `python -m tests.summaries.test_examples`."""
    assert PAGE.read_text("utf-8") == page()


@pytest.mark.parametrize("name", CHATS)
def test_the_chats_have_sixty_turns_and_every_message_of_the_user_is_there(name: str) -> None:
    """Of the first 54, word for word."""
    conversation = read_chat(name)
    lines = set(block(name).splitlines())
    assert len(conversation.turns) == 60
    for turn in conversation.turns[:54]:
        item = next(turn.entries).item
        assert is_message(item)
        said = str(item["content"][0].get("text", ""))
        assert {f"> {line}" for line in said.splitlines() if line.strip()} <= lines


@pytest.mark.parametrize(
    ("name", "constraints"),
    [
        (
            "debugging",
            [
                (2, "never run anything against the production database, only against orders_staging", 0),
                (3, "keep the public schema as it is", 0),
                (13, "don't change the metric's name, Grafana depends on it", 0),
                (20, "the DBA doesn't want long locks", 0),
                (27, "Answer in short bullet points from now on please.", 41),
            ],
        ),
        (
            "journey",
            [
                (2, "Wir fliegen auf keinen Fall, nur Zug und Bus. Budget 3.800 Euro für alles.", 0),
                (3, "Meine Frau ist allergisch gegen Nüsse, das musst du bei Restaurants immer beachten.", 0),
                (4, "Museen höchstens eins.", 0),
                (8, "Buchen tue ich aber immer selbst, du buchst nie etwas.", 0),
                (28, "Ich will mindestens 400 Euro Reserve behalten.", 0),
                (51, "Nein, nicht am 22., da wollen wir wandern.", 0),
                (54, "Bitte ab jetzt die Kosten immer am Ende mit aufführen.", 0),
            ],
        ),
    ],
)
def test_the_constraints_are_the_users_own(name: str, constraints: list[tuple[int, str, int]]) -> None:
    """Neither the quoted mail nor the friend's advice is among them."""
    state = block(name).rpartition("[How things stood")[2]
    found = [line for line in state.splitlines() if line.startswith("- turn ") and ': "' in line]
    assert len(found) == len(constraints)
    for line, (turn, quote, revoked) in zip(found, constraints, strict=True):
        assert line.startswith(f'- turn {turn}: "{quote}"')
        assert ("revoked in turn" in line) == bool(revoked)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
