"""The examples of the documentation: two chats of sixty turns, and what is sent of them in place of the first 54.

The chats and the answers of the summary model stand in tests/data/examples, written by hand. `python -m
tests.summaries.test_examples` writes the page anew.
"""

from __future__ import annotations

import json
import sys
from itertools import count as count_up

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
from open_webui_openrouter_pipe.responses.items import Item
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.segments import Segment, SummaryTarget
from open_webui_openrouter_pipe.summaries.summary import (
    EarlierState,
    Summary,
    parse_model_summary,
    summary_message,
)
from scripts.paths import ROOT
from tests.support.chats import answer, call, history, output, user

EXAMPLES = ROOT / "tests" / "data" / "examples"
PAGE = EXAMPLES / "examples.md"
CHATS = {"debugging": "Debugging an import", "journey": "Planning a journey"}
SEGMENT_TURNS = 18
SUMMARY_TOKENS = 1_200
RECORD_TOKENS = 4_000
"""As for segments of 8,000 tokens in a budget of 40,000."""


def read_chat(name: str) -> Conversation:
    """A chat from its file: lines of the user, the assistant, and tool calls with their results."""
    turns: list[list[Item]] = []
    numbers = count_up()
    for line in (EXAMPLES / f"{name}.txt").read_text("utf-8").splitlines():
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


def block(name: str) -> str:
    """The message that replaces the first 54 turns: each summary is written after the ones before it."""
    conversation = read_chat(name)
    answers = json.loads((EXAMPLES / f"{name}.json").read_text("utf-8"))
    counter = TokenCounter(ContentCache())
    summaries: list[Summary] = []
    for first, model_answer in zip(count_up(0, SEGMENT_TURNS), answers, strict=False):
        turns = conversation.turns[first : first + SEGMENT_TURNS]
        written = parse_model_summary(json.dumps(model_answer), source_tokens=10_000, count=counter.text)
        part = Segment(b"", b"", len(turns))
        target = SummaryTarget(part, turns, 0, first + 1, earlier=EarlierState.after(summaries))
        summaries.append(complete_summary(written, target, count=counter.text, max_tokens=SUMMARY_TOKENS))
    replaced = range(SEGMENT_TURNS * len(summaries))
    record = UserRecord(conversation.turns, counter).text(replaced, RECORD_TOKENS)
    message = summary_message(summaries, (), record)
    assert message is not None
    return "\n\n".join(part["text"] for part in message["content"] if part["type"] == "input_text")


def page() -> str:
    """The page, of which the introduction is written by hand."""
    introduction, mark, _ = PAGE.read_text("utf-8").partition("\n## ")
    sections = [f"{title}\n\n```text\n{block(name)}\n```\n" for name, title in CHATS.items()]
    return mark.join([introduction, *sections])


def test_the_page_shows_what_is_sent() -> None:
    """If this fails, run `python -m tests.summaries.test_examples`."""
    assert PAGE.read_text("utf-8") == page()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
