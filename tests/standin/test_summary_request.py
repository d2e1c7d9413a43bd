"""Requests for a summary, and what they want summarised."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.standin.directives import DirectiveError
from scripts.standin.summaries import Passage, SummaryRequest, is_summary_request
from tests.standin.client import output, user

FIELDS = "Write summary_text, key_facts, open_questions, decisions and action_items."
CALL = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    user("Before"),
    {"role": "assistant", "content": "Yes."},
    user("Deploy <v2>\n& more, as it was said"),
    {"type": "reasoning", "id": "rs_1", "summary": []},
    CALL,
    output(CALL),
    {"role": "assistant", "content": "Deployed."},
    user("Thanks"),
    {"role": "assistant", "content": "Gladly."},
    user("After"),
]
PART = (
    Passage("user", "Deploy <v2>\n& more, as it was said"),
    Passage("tool", "sunny"),
    Passage("assistant", "Deployed."),
    Passage("user", "Thanks"),
    Passage("assistant", "Gladly."),
)


def suffix(first: str, last: str) -> str:
    """The instruction at the end of a live chat."""
    return (
        f"{FIELDS} From <first_user_message>{first}</first_user_message> "
        f"to <last_user_message>{last}</last_user_message>."
    )


def source(body: dict[str, Any]) -> tuple[Passage, ...]:
    """What a request wants summarised."""
    asked = SummaryRequest.of(body)
    assert asked
    return asked.source


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"input": "Hi"}, False),
        ({"input": FIELDS}, True),
        ({"input": FIELDS.replace("decisions", "choices")}, False),
        ({"input": [user(FIELDS), {"role": "assistant", "content": "No."}]}, True),
        ({"input": [user(FIELDS), user("Hi")]}, False),
        ({"input": "Hi", "instructions": FIELDS}, True),
        ({"input": [{"role": "developer", "content": FIELDS}, user("Hi")]}, True),
        ({"input": [{"role": "assistant", "content": FIELDS}]}, False),
    ],
)
def test_a_request_is_known_by_its_five_fields(body: dict[str, Any], asked: bool) -> None:  # noqa: FBT001
    """In the last user message, or in what the system says."""
    assert (is_summary_request(body), SummaryRequest.of(body) is not None) == (asked, asked)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("Deploy <v2>\n& more, as it was said", "Thanks"),
        ("Deploy &lt;v2&gt; &amp; more", "Thanks"),
        ("Deploy &lt;v2&gt; &amp; mo…", " Th… "),
        ("Deploy &amp;lt;v2", "T"),
        ("Deploy &lt;v2&g", "Thanks..."),
    ],
)
def test_the_part_is_found_by_its_quotes(first: str, last: str) -> None:
    """Whole, cut off, escaped or with other blanks; it ends with the last one's answer."""
    assert source({"input": [*CHAT, user(suffix(first, last))]}) == PART


def test_a_part_may_be_one_turn() -> None:
    """Then both quotes are the same, and the chat's last turn ends at the instruction."""
    assert source({"input": [*CHAT, user(suffix("Thanks", "Thanks"))]}) == PART[3:]
    assert source({"input": [*CHAT, user(suffix("After", "After"))]}) == (Passage("user", "After"),)


def test_an_exact_match_goes_before_a_beginning() -> None:
    """Turn 1 is not turn 10."""
    chat = [user("Turn 10"), user("Turn 1"), user("Turn 11")]
    assert source({"input": [*chat, user(suffix("Turn 1", "Turn 1"))]}) == (Passage("user", "Turn 1"),)


def test_a_wrong_quote_is_an_error() -> None:
    """A test whose client quotes what nobody said must not pass by accident."""
    with pytest.raises(DirectiveError, match="no user message begins with 'Never'"):
        SummaryRequest.of({"input": [*CHAT, user(suffix("Never", "Thanks"))]})
    with pytest.raises(DirectiveError, match="no user message begins with 'Before'"):
        SummaryRequest.of({"input": [*CHAT, user(suffix("Thanks", "Before"))]})


def test_a_request_without_quotes_means_the_whole_chat() -> None:
    """All that was said before it, without the system."""
    assert source({"input": [*CHAT, user(FIELDS)]}) == (
        Passage("user", "Before"),
        Passage("assistant", "Yes."),
        *PART,
        Passage("user", "After"),
    )


TRANSCRIPT = (
    "user: Hi\nall\n[tool get_weather] sunny\n<assistant>Warm.</assistant>\n### User:\nIs tool use on?"
)


def test_a_transcript_names_its_speakers() -> None:
    """By the marks at the beginning of a line; a name inside a line is a word like any other."""
    body = {"instructions": FIELDS, "input": f"<conversation>\n{TRANSCRIPT}\n</conversation>"}
    assert source(body) == (
        Passage("user", "Hi\nall"),
        Passage("tool", "sunny"),
        Passage("assistant", "Warm.</assistant>"),
        Passage("user", "Is tool use on?"),
    )


def test_a_system_prompt_alone_may_ask_for_a_summary() -> None:
    """Then all that was said is the part."""
    body = {"instructions": FIELDS, "input": [{"role": "assistant", "content": "Hi"}]}
    assert source(body) == (Passage("assistant", "Hi"),)


def test_a_transcript_without_speakers_is_anyones() -> None:
    """What it says counts for each of them."""
    asked = SummaryRequest.of({"instructions": FIELDS, "input": "<conversation>42 GB</conversation>"})
    assert asked
    assert [asked.said_by("user"), asked.said_by("tool"), asked.text()] == [["42 GB"], ["42 GB"], "42 GB"]


def test_the_instruction_is_read_from_its_message() -> None:
    """The last message of a live chat, or the system's, or what stands around the transcript."""
    ending = suffix("Thanks", "Thanks")
    bodies: list[dict[str, Any]] = [
        {"input": [*CHAT, user(ending)]},
        {"input": [{"role": "system", "content": FIELDS}, user("<conversation>Hi</conversation>")]},
        {"input": f"{FIELDS}<conversation>Hi</conversation>"},
    ]
    instructions = [asked.instruction.strip() for body in bodies if (asked := SummaryRequest.of(body))]
    assert instructions == [ending, FIELDS, FIELDS]


def test_quotes_inside_a_transcript_are_text() -> None:
    """In a request of its own they do not choose a part."""
    body = {"instructions": FIELDS, "input": f"<conversation>user: {suffix('a', 'b')}</conversation>"}
    assert source(body) == (Passage("user", suffix("a", "b")),)
