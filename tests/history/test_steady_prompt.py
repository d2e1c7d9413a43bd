"""The system prompt that a chat keeps sending: what is kept, what the note says, and what of it the input holds."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.history.build import Options, build_input, present_prompt
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.history.steady import MAX_NOTE_CHARACTERS, SteadyPrompt, steady_prompt
from tests.history.builders import assistant, build, system, user
from tests.support.rows import rows

HEADING = (
    "Your instructions stand at the beginning of this conversation as they were when it began. These lines of them "
    "have changed since, and now hold as follows:\n\n"
)
LONG = "You help the people of a small library. It is ten. " * 4


@pytest.mark.parametrize(
    ("title", "kept", "present", "note"), rows(Path(__file__).with_name("steady.txt"), "notes")
)
def test_a_few_lines_are_said_in_a_note(title: str, kept: str, present: str, note: str) -> None:
    """The kept prompt is sent, and the note quotes what each line was and what it reads now."""
    assert steady_prompt(kept, present) == SteadyPrompt(kept, f"{HEADING}{note}", "lines"), title


NEW = {
    "there was none": ("", "Be brief."),
    "there is none now": ("Be brief.", " \n"),
    "more than a note may hold": ("a\nb", f"a\n{'x' * MAX_NOTE_CHARACTERS}\nb"),
    "many lines": ("\n".join(map(str, range(100))), "\n".join(map(str, range(100, 200)))),
    "many changes": (
        "".join(f"{n}\nsame {n}\n" for n in range(60)),
        "".join(f"x{n}\nsame {n}\n" for n in range(60)),
    ),
}


@pytest.mark.parametrize(("kept", "present"), NEW.values(), ids=NEW)
def test_a_larger_change_is_a_new_prompt(kept: str, present: str) -> None:
    """The present prompt is sent, with nothing to explain."""
    assert steady_prompt(kept, present) == SteadyPrompt(present, "", "new")


# --- laws ---

LINES = st.sampled_from(
    ["", " ", "a", "b", "> a", "A part of line 1 was:", "It now reads:", "It is ten. " * 30, LONG]
) | st.text(st.characters(exclude_characters="\n"), max_size=8)


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, str]:
    """A prompt, and the same after a few lines have changed, come or removed."""
    lines = draw(st.lists(LINES, min_size=1, max_size=30))
    now = list(lines)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(now) - 1)))
        now[at : at + draw(st.integers(0, 2))] = draw(st.lists(LINES, max_size=2))
    if draw(st.booleans()) and now:
        at = draw(st.integers(0, len(now) - 1))
        sentences = now[at].split(". ")
        sentences[draw(st.integers(0, len(sentences) - 1))] = draw(st.text("ab. ", max_size=6))
        now[at] = ". ".join(sentences)
    return "\n".join(lines), "\n".join(now)


def rebuilt(sent: str, note: str) -> str:
    """The present prompt as a reader of both would write it down: judged by the note's words alone."""
    lines = sent.split("\n")
    pieces = note.removeprefix(HEADING).split("\n\n") if note else []
    for piece in reversed(pieces):
        heading, *quoted = piece.split("\n")
        numbers = [int(number) for number in re.findall(r"\d+", heading)]
        middle = next((at for at, line in enumerate(quoted) if not line.startswith(">")), None)
        old, new = [
            [line.removeprefix("> ") for line in part] for part in (quoted[:middle], quoted[1:][middle:])
        ]
        if heading.startswith("A part of"):
            (was,), (reads,) = old, new
            assert lines[numbers[0] - 1].count(was) == 1
            lines[numbers[0] - 1] = lines[numbers[0] - 1].replace(was, reads)
        elif "there is now" in heading:
            after = numbers[0] if heading.startswith("After") else 0
            lines[after:after] = [line.removeprefix("> ") for line in quoted]
        else:
            removed = slice(numbers[0] - 1, numbers[-1])
            assert lines[removed] == (
                old if middle is not None else [line.removeprefix("> ") for line in quoted]
            )
            lines[removed] = new if middle is not None else []
    return "\n".join(lines)


@given(edited())
def test_what_is_sent_and_the_note_say_what_the_prompt_now_is(prompts: tuple[str, str]) -> None:
    """Nothing of the present prompt is lost, whatever changed; without a change there is no note."""
    kept, present = prompts
    steady = steady_prompt(kept, present)
    assert rebuilt(steady.sent, steady.note) == present
    assert (steady.change == "none") == (kept == present)
    assert bool(steady.note) == (steady.change == "lines")
    assert steady.sent == (present if steady.change == "new" else kept)


@given(st.integers(2, 4_000), st.sets(st.integers(0, 1_999), min_size=1, max_size=10))
def test_a_clock_in_any_few_lines_is_kept(size: int, positions: set[int]) -> None:
    """Also in a prompt of thousands of lines, of which many are blank."""
    lines = [f"line {number}" if number % 3 else "" for number in range(size)]
    kept, present = (
        "\n".join(f"It is {now}." if number in positions else line for number, line in enumerate(lines))
        for now in ("10:00", "10:05")
    )
    assert steady_prompt(kept, present).sent == kept


# --- in the input ---

MEMORY = "<memory_context>\n[User Memory]\n- Likes foxes.\n</memory_context>"
OTHER_MEMORY = "<memory_context>\n[Relevant Context]\n- Has a dog.\n</memory_context>"


def texts(built: Any) -> list[str]:
    """The texts of the built items, in their order."""
    return ["\n".join(part["text"] for part in item["content"]) for item in built.items]


def sent_of(chat: list[dict[str, Any]], kept: str | None, base: str) -> list[str]:
    """What is sent of a chat that keeps a prompt, or keeps its present one."""
    history = read_history(chat)
    present = present_prompt(history, base)
    steady = steady_prompt(present if kept is None else kept, present)
    return texts(build_input(history, {}, Options(base_system_prompt=base, steady=steady)))


def test_memories_and_the_note_stand_before_the_question() -> None:
    """Also with sources that the host has written behind its base prompt; of the front nothing changes."""
    first = f"It is ten.\n{MEMORY}\n<available_skills>\nx"
    second = f"It is noon.\n{OTHER_MEMORY}\n<available_skills>\nx"
    chat = [user("1"), assistant("a"), user("2")]
    kept = present_prompt(read_history([system(first), *chat[:1]]), first)
    assert kept == "It is ten.\n<available_skills>\nx"
    assert sent_of([system(first), *chat[:1]], None, first) == [kept, MEMORY, "1"]
    note = f"{HEADING}Line 1 was:\n> It is ten.\nIt now reads:\n> It is noon."
    assert sent_of([system(f"{second}\nSources: x"), *chat], kept, second) == [
        *(kept, "1", "a"),
        *(note, f"{OTHER_MEMORY}\nSources: x", "2"),
    ]


BEHIND = f"{MEMORY}\n<available_skills>\nx"


@pytest.mark.parametrize(
    ("chat", "base", "sent"),
    [
        ([system(MEMORY), user("1")], MEMORY, [MEMORY, "1"]),
        ([system(BEHIND), user("1")], BEHIND, ["<available_skills>\nx", MEMORY, "1"]),
        (
            [system("a"), system("b"), user("1"), assistant("x"), system("c"), user("2")],
            "a",
            ["a\nb", "1", "x", "c", "2"],
        ),
        ([system(f"a\n{MEMORY}"), assistant("x")], "a", [f"a\n{MEMORY}", "x"]),
    ],
    ids=["memories alone", "what stands behind them", "several system messages are one", "nobody asks"],
)
def test_only_memories_leave_the_front(chat: list[dict[str, Any]], base: str, sent: list[str]) -> None:
    """For the place before the question, if there is one."""
    assert sent_of(chat, None, base) == sent


def test_switched_off_the_prompt_is_as_the_host_has_it() -> None:
    """With its memories where they were."""
    prompt = f"a\n{MEMORY}"
    assert texts(build([system(prompt), user("1")], base_system_prompt=prompt)) == [prompt, "1"]


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from(["", MEMORY, OTHER_MEMORY])), min_size=2))
def test_nothing_before_the_question_changes_when_lines_change(sends: list[tuple[int, str]]) -> None:
    """Each request begins with what the one before had before its own question."""
    chat: list[dict[str, Any]] = []
    requests = []
    kept: str | None = None
    for number, (minute, memory) in enumerate(sends):
        chat.append(user(f"question {number}"))
        prompt = "\n".join(filter(None, (f"Be brief.\nIt is {minute}.", memory)))
        if kept is None:
            kept = present_prompt(read_history([system(prompt), *chat]), prompt)
        requests.append(sent_of([system(prompt), *chat], kept, prompt))
        assert (f"It is {minute}." in kept) == (HEADING not in "".join(requests[-1]))
        chat.append(assistant("answer"))
    for before, after in pairwise(requests):
        chat_before = [text for text in before[:-1] if not text.startswith((HEADING, "<memory_context>"))]
        assert after[: len(chat_before)] == before[: len(chat_before)] == chat_before
