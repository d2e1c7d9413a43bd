"""Which figures of a model's words its source holds, and what is left out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import Turn, build_conversation
from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from open_webui_openrouter_pipe.conversation.tool_facts import state_fact
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.details import NUMBER_WORDS, GroundingSource, drop_ungrounded
from open_webui_openrouter_pipe.summaries.prompt import suffix_instruction
from open_webui_openrouter_pipe.summaries.summary import (
    ModelSummary,
    Summary,
    SummaryRefused,
    parse_model_summary,
    render_summary,
)
from scripts.standin import catalogue
from scripts.standin.plan import Message
from scripts.standin.planner import ReplyOptions, plan_answer
from scripts.standin.summaries import INVENTED, NUMBER
from tests.support.chats import answer, call, histories, history, output, reasoning, user

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from open_webui_openrouter_pipe.responses.items import Item

ROOM = 3_000
MEGABYTE = 2**20
LONGEST_SECONDS = 5.0
"""Many times of what it takes on an idle machine, and little beside what a square would take."""


def turns(*of: Sequence[Item]) -> tuple[Turn, ...]:
    """Turns of these items."""
    chat = history(*of)
    return build_conversation(chat.items, chat.turn_of_item).turns


def _day(number: int) -> date:
    """A day after the twelfth of its month, so that it cannot be taken for a month."""
    start = date(1950, 1, 1) + timedelta(days=31 * (number % 900))
    return start.replace(day=13 + number % 16)


def _clock(number: int) -> tuple[int, int]:
    return 13 + number % 11, number % 60


WAYS: Mapping[str, Sequence[Callable[[int], str]]] = {
    "number": (
        lambda at: f"{at} rows",
        lambda at: f"{at:,} rows",
        lambda at: f"**{at}**ms",
        lambda at: f"{at:,}".replace(",", "\u202f"),
        lambda at: f"${at:,}.00",
        lambda at: f"{at}.0 %",
        lambda at: f"{at / 1_000}k tokens",
        lambda at: f"EUR {at:,}".replace(",", "."),
    ),
    "decimal": (
        lambda at: f"{at / 100:.2f} s",
        lambda at: f"{at / 100:.4f}",
        lambda at: f"€{at / 100:.2f}",
        lambda at: f"{at / 100:.2f}".replace(".", ","),
    ),
    "date": (
        lambda at: _day(at).isoformat(),
        lambda at: f"{_day(at):%d.%m.%Y}",
        lambda at: f"{_day(at):%m/%d/%Y}",
        lambda at: f"{_day(at):%B %d, %Y}",
        lambda at: f"{_day(at):%d %b %Y}",
    ),
    "time": (
        lambda at: "{:02}:{:02}".format(*_clock(at)),
        lambda at: f"{_clock(at)[0] - 12}:{_clock(at)[1]:02} p.m.",
    ),
    "identifier": (lambda at: f"TICK-{at}", lambda at: f"`tick_{at}`", lambda at: f'"tick {at}"'),
    "hash": (lambda at: f"{at * 0x9E3779B97F4A7C15:040x}", lambda at: f"{at * 0x9E3779B97F4A7C15:040X}"),
    "address": (
        lambda at: f"10.{100 + at % 97}.200.{at % 101}",
        lambda at: f"10.{100 + at % 97}.200.{at % 101}:443",
    ),
    "version": (lambda at: f"v3.{at}.1", lambda at: f"Release 3.{at}.1"),
    "path": (lambda at: f"/srv/data/part{at}/x.csv", lambda at: f"data/part{at}/x.csv"),
    "link": (lambda at: f"https://example.org/t/{at}?all", lambda at: f"example.org/t/{at}"),
}
LONGER = (WAYS["path"][0], WAYS["link"][0], WAYS["address"][1])
"""These say more than the other ways of their kinds."""
PAIRS = [(kind, one, two) for kind, ways in WAYS.items() for one in ways for two in ways]
ALIKE = [pair for pair in PAIRS if pair[1] not in LONGER or pair[1] is pair[2]]
MEANT: Mapping[str, Callable[[int], object]] = {
    "date": _day,
    "time": _clock,
    "address": lambda at: (at % 97, at % 101),
}
AMOUNTS = st.integers(1_001, 9_999).filter(lambda at: at % 100)


@settings(max_examples=25, deadline=None)
@given(at=AMOUNTS)
@pytest.mark.parametrize(("kind", "told", "said"), ALIKE)
def test_a_figure_may_be_written_otherwise(
    kind: str, told: Callable[[int], str], said: Callable[[int], str], at: int
) -> None:
    """As long as it is the same one."""
    assert GroundingSource.of([f"It was {said(at)}, and that was it."]).founds(f"There: {told(at)}."), kind


@settings(max_examples=40, deadline=None)
@given(at=AMOUNTS, others=st.sets(AMOUNTS, min_size=1, max_size=4))
@pytest.mark.parametrize(("kind", "told", "said"), PAIRS)
def test_an_altered_figure_is_left_out(
    kind: str, told: Callable[[int], str], said: Callable[[int], str], at: int, others: set[int]
) -> None:
    """Whatever else of its kind the source says, and however it is written."""
    meant = MEANT.get(kind, str)
    assume(meant(at) not in map(meant, others))
    source = [f"It was {said(other)}, and that was it." for other in others]
    true = ModelSummary("All went well.", ("nothing more",))
    false = f"It was {told(at)}."
    lie = ModelSummary(
        f"{false} All went well. {false}", ("nothing more", false), (false,), (false,), (false,)
    )
    assert drop_ungrounded(lie, source) == (true, (false,) * 6)


WORDS = """1 5 12 42 2024 345 000 03 , . : - / ' k M a pm th million % $ ab _ # @ \\ ( ) AB é 行 March * of to v ` "
www. https://x.y .py ~ + 。 !"""
BITS = [*WORDS.split(), " ", " ", "\n", "\u202f", ". A"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(BITS),
        max_size=25,
    ).map("".join)
)
def test_the_sources_own_words_lose_nothing(text: str) -> None:
    """However strange they are."""
    assert drop_ungrounded(ModelSummary(text.strip(), (text,)), ["Before.", text, "After."])[1] == ()


@settings(max_examples=60, deadline=None)
@given(histories(most_turns=4), st.data())
def test_an_honest_summary_loses_nothing(chat: Any, data: st.DataObject) -> None:
    """Whether it quotes the user, the model, a tool's name, its arguments or its output."""
    of = build_conversation(chat.items, chat.turn_of_item).turns
    said = [text for item in chat.items for text in _said(item)]
    lines = [line[:200].rpartition(" ")[0] for text in said for line in text.splitlines()]
    quotes = data.draw(st.lists(st.sampled_from(lines), max_size=8)) if lines else []
    told = ModelSummary("\n".join(["They talked.", *quotes]), tuple(dict.fromkeys(quotes)))
    assert complete_summary(told, of, count=estimate_tokens, max_tokens=ROOM).unfounded == ()


def _said(item: Any) -> list[str]:
    if item["type"] == "message":
        return [part["text"] for part in item["content"]]
    return [item[name] for name in ("name", "arguments", "output") if name in item]


SAID = (
    "We met on March 3\u20137 with twelve people in building B2. See src/app/main.py and README.md. Node 20 and "
    "Python 3.12.4 run at 1920x1080, 64-bit, p95 is 40 ms (5.0 %), it costs 2.5 million USD. Call +49 30 1234567."
)


@pytest.mark.parametrize(
    "told",
    [
        "The 1st, the 2nd and the 21st of 5 things.",
        "1. They met.\n2. They talked.\n 12) They left.",
        "12 people from 3 to 7 March",
        "On 5 things they agreed: read/write/execute, and/or nothing",
        "Read README.md and `main.py` under src/app/main.py",
        "Node.js 20 and Python 3.12",
        "a 95th percentile of 40ms, at 5%",
        "64 bit; 1920 \u00d7 1080",
        "$2.5M or 2,500,000 US dollars",
        "B2 and A4",
        "the number is +49-30-1234567",
        "INFERRED: it took 7341 ms.",
        "**INFERRED:** all 86 of them",
    ],
)
def test_what_is_no_figure_or_the_same_one_stays(told: str) -> None:
    """Ordinals, numbers of lists, single digits, what is marked as concluded, and words."""
    assert drop_ungrounded(ModelSummary(told), [SAID]) == (ModelSummary(told), ())


@pytest.mark.parametrize("word", sorted(NUMBER_WORDS))
def test_numbers_may_have_been_words(word: str) -> None:
    """Those that are often written so."""
    assert GroundingSource.of([f"About {word} of them."]).founds(f"About {NUMBER_WORDS[word]} of them.")
    assert not GroundingSource.of(["About some of them."]).founds(f"About {NUMBER_WORDS[word]} of them.")


def test_sentences_are_left_out_one_by_one() -> None:
    """The others stay as they are, with the lines that they stand in; an abbreviation ends none."""
    text = "It ran.\n- It took approx. 99 ms. It (e.g. the cat) slept.\n\n它用了99毫秒。它睡了。\nDone at 10:30! Bye."
    assert drop_ungrounded(ModelSummary(text), ["Done at 10:30."]) == (
        ModelSummary("It ran.\nIt (e.g. the cat) slept.\n\n它睡了。\nDone at 10:30! Bye."),
        ("- It took approx. 99 ms.", "它用了99毫秒。"),
    )


def test_everything_that_was_said_and_done_is_the_source() -> None:
    """Both sides, attachments, names, arguments and outputs of tools, and what is stated of them; no reasoning."""
    message = user("I have 11 cats.")
    message["content"].append({"type": "input_file", "filename": "plan 17.pdf", "file_data": "data:,18"})
    thought: Any = {**reasoning(), "summary": [{"type": "summary_text", "text": "Perhaps 19."}]}
    numbers = json.dumps([{"n": 700 + at} for at in range(60)])
    of = turns(
        [
            message,
            thought,
            call("99", '{"q": "12 dogs"}', "search_v13"),
            output("99", f"Found {numbers}"),
            answer("There are 14."),
        ]
    )
    facts = tuple(f"It is {number}." for number in (11, 12, "search_v13", 14, 17, 60, 758, 18, 19, 99, 15))
    summary = complete_summary(ModelSummary("Fine.", facts), of, count=estimate_tokens, max_tokens=ROOM)
    assert (summary.told.key_facts, summary.unfounded) == (facts[:7], facts[7:])


def test_how_much_was_left_out_is_said_in_a_line() -> None:
    """And not what; a text that is gone leaves the lists."""
    of = turns([user("Hello."), answer("Hello.")])
    told = ModelSummary("It took 99 ms.", ("It cost $12.50.", "They greeted."))
    summary = complete_summary(told, of, count=estimate_tokens, max_tokens=ROOM)
    assert summary == Summary(
        ModelSummary("", ("They greeted.",)), unfounded=("It took 99 ms.", "It cost $12.50.")
    )
    assert render_summary(summary).splitlines() == [
        "[Summary of a part of the conversation]",
        "Facts recorded:",
        "- They greeted.",
        "(2 statements with figures that nobody gave there: left out.)",
        "[End of this summary]",
    ]


def test_nothing_but_lies_is_no_summary() -> None:
    """It is refused like an empty one."""
    of = turns([user("Hello."), answer("Hello.")])
    with pytest.raises(SummaryRefused, match="not founded in its source"):
        complete_summary(
            ModelSummary("It took 99 ms.", ("It cost $12.50.",)), of, count=estimate_tokens, max_tokens=ROOM
        )


def test_a_liar_tells_nothing_false_of_tools() -> None:
    """Of altered and invented figures none is shown, and every line about a tool is true."""
    outputs = [
        json.dumps({"rows": [{"city": f"c{at}", "mm": 4_000 + 37 * at + row} for row in range(5)]})
        for at in range(20)
    ]
    of = turns(
        *(
            [
                user(f"And at {at}?"),
                call(f"c{at}", json.dumps({"at": at})),
                output(f"c{at}", text),
                answer("So."),
            ]
            for at, text in enumerate(outputs)
        )
    )
    items = [entry.item for turn in of for entry in turn.entries]
    plan = plan_answer(
        {"input": [*items, suffix_instruction(of, max_tokens=ROOM)]},
        catalogue.BY_ID["standin/script"],
        ReplyOptions("", "lie"),
    )
    message = plan.steps[-1]
    assert isinstance(message, Message)
    told = parse_model_summary(message.text, source_tokens=9_999, count=estimate_tokens, instruction="")
    summary = complete_summary(told, of, count=estimate_tokens, max_tokens=ROOM)
    true = {number for text in [*outputs, *map(state_fact, outputs)] for number in NUMBER.findall(text)}
    shown = "\n".join([summary.told.summary_text, *summary.told.key_facts, *summary.told.decisions])
    assert {number for number in NUMBER.findall(shown) if len(number) > 1} <= true
    assert INVENTED.partition(". ")[0] in summary.unfounded[0]
    assert len(summary.unfounded) >= 10
    lines = [f'search({{"at": {at}}}): {state_fact(text)}' for at, text in enumerate(outputs)]
    assert list(summary.tool_facts) == lines


REPEATED = [
    "1",
    "1.",
    "1,",
    "123 ",
    "1-",
    "12:",
    "a",
    "a1/",
    "_",
    "\\",
    " ",
    " \n",
    "1k ",
    "On May 5, it was 42. ",
]
LONG = {
    "rows": json.dumps([{"id": at * 7919, "at": f"2024-03-{at % 28 + 1:02}T10:30"} for at in range(22_000)]),
    **{text: text * (MEGABYTE // len(text)) for text in REPEATED},
}


@pytest.mark.parametrize("text", LONG.values(), ids=map(repr, LONG))
def test_a_long_source_is_read_in_linear_time(text: str) -> None:
    """A megabyte, and a summary of a tenth of it."""
    started = time.perf_counter()
    drop_ungrounded(ModelSummary(text[: MEGABYTE // 10]), [text])
    assert time.perf_counter() - started < LONGEST_SECONDS
