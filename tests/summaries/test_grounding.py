"""Which details of a summary its source supports, however they are written, and what is marked."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import Turn, build_conversation
from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.details import GroundingSource, mark_ungrounded
from open_webui_openrouter_pipe.summaries.prompt import SummaryAssignment
from open_webui_openrouter_pipe.summaries.summary import (
    Entry,
    ModelSummary,
    Summary,
    SummaryRefused,
    render_summary,
)
from tests.support.chats import answer, call, entries, histories, history, output, reasoning, user
from tests.support.growth import MAX_GROWTH, growth

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from open_webui_openrouter_pipe.responses.items import Item

MAX_TOKENS = 3_000
MARK = " (unverified)"


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
MEANINGS: Mapping[str, Callable[[int], object]] = {
    "date": _day,
    "time": _clock,
    "address": lambda at: (at % 97, at % 101),
}
AMOUNTS = st.integers(1_001, 9_999).filter(lambda at: at % 100)


@settings(max_examples=25, deadline=None)
@given(at=AMOUNTS)
@pytest.mark.parametrize(("kind", "rewritten", "original"), ALIKE)
def test_a_rewritten_detail_is_supported(
    kind: str, rewritten: Callable[[int], str], original: Callable[[int], str], at: int
) -> None:
    """It says the same as in the source."""
    assert GroundingSource.of([f"It was {original(at)}, and that was it."]).supports(
        f"There: {rewritten(at)}."
    ), kind


@settings(max_examples=40, deadline=None)
@given(at=AMOUNTS, others=st.sets(AMOUNTS, min_size=1, max_size=4))
@pytest.mark.parametrize(("kind", "rewritten", "original"), PAIRS)
def test_an_altered_detail_is_marked(
    kind: str, rewritten: Callable[[int], str], original: Callable[[int], str], at: int, others: set[int]
) -> None:
    """Whatever else of its kind the source says, and however it is written."""
    meaning = MEANINGS.get(kind, str)
    assume(meaning(at) not in map(meaning, others))
    source = [f"It was {original(other)}, and that was it." for other in others]
    false = f"It was {rewritten(at)}."
    written = ModelSummary(
        f"{false} All went well. {false}",
        entries("nothing", false),
        entries(false),
        entries(false),
        entries(false),
    )
    marked = false + MARK
    expected = ModelSummary(
        f"{marked} All went well. {marked}",
        entries("nothing", marked),
        entries(marked),
        entries(marked),
        entries(marked),
    )
    assert mark_ungrounded(written, source) == (expected, (false,) * 6)


def test_a_date_with_the_year_of_another_date_is_marked() -> None:
    """Day and month of one date and the year of another do not make a third one."""
    source = GroundingSource.of(["Born on 22.07.1958, moved on 27.04.2012."])
    assert not source.supports("Born on 27 Apr 1958.")
    assert not source.supports("Born on 1958-04-27.")
    assert source.supports("Born on July 22, 1958, and moved on 27 April.")


def test_a_year_counts_only_beside_its_day() -> None:
    """Day, month and year stand together in the source, or they are no date of it."""
    source = GroundingSource.of(["It began on May 28, 2001, and ended on June 3, 1992."])
    supported = [source.supports(f"It was on {day}.") for day in ("28.05.1992", "3 June 2001", "28.05.2001")]
    assert supported == [False, False, True]
    beside = "On 27 April, in 1958."
    far = f"On 27 April we met{', and we talked' * 3}. That was in 1958."
    assert [GroundingSource.of([text]).supports("On 27.04.1958.") for text in (beside, far)] == [True, False]
    gaps = [
        GroundingSource.of([f"On 27 April{' ' * gap}1958."]).supports("On 27.04.1958.") for gap in (16, 17)
    ]
    assert gaps == [True, False]
    other = GroundingSource.of(["On 27 April (not on 3 May 1958)."])
    assert not other.supports("On 27.04.1958.")


@pytest.mark.parametrize(
    ("source", "statement"),
    [
        ("会议在3月5日。", "The meeting is on March 5."),
        ("会议在2024年12月25日。", "The meeting is on 25.12.2024."),
        ("The meeting is on March 15, 2024.", "会议在2024年3月15日。"),
        ("Le départ est le 14 juillet 2025.", "We leave on July 14, 2025."),
        ("La salida es el 21 de marzo de 2025.", "We leave on 21 March 2025."),
        ("A partida é em 13 de setembro de 2025.", "We leave on September 13, 2025."),
        ("La partenza è il 30 giugno 2025.", "We leave on June 30, 2025."),
        ("Die Abfahrt ist am 15. Dezember 2025.", "We leave on December 15, 2025."),
        ("Wir treffen uns am 25.3. um zehn.", "They meet on March 25."),
    ],
)
def test_dates_are_read_in_several_languages(source: str, statement: str) -> None:
    """The same day written otherwise is supported, and the next day is not."""
    assert GroundingSource.of([source]).supports(statement)
    assert not GroundingSource.of(["Nothing is known of it."]).supports(statement)


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("twenty-one of them", 21),
        ("zwölf Leute", 12),
        ("einundzwanzig Tische", 21),
        ("dreißig Stühle", 30),
        ("dix-sept personnes", 17),
        ("vingt et un jours", 21),
        ("soixante-quinze euros", 75),
        ("quatre-vingt-dix-sept euros", 97),
        ("dieciséis sillas", 16),
        ("treinta y cinco mesas", 35),
        ("dezesseis cadeiras", 16),
        ("quarenta e dois dias", 42),
        ("ventuno tavoli", 21),
        ("trentotto sedie", 38),
        ("我们有十二个人", 12),
        ("一共三百二十元", 320),
        ("二〇二四年", 2024),
        ("三万个用户", 30_000),
        ("二十五人が来る", 25),
    ],
)
def test_numbers_may_have_been_words_in_several_languages(source: str, number: int) -> None:
    """That number is supported, and the next one is not."""
    words = GroundingSource.of([source])
    assert [words.supports(f"There are {each} of them.") for each in (number, number + 1)] == [True, False]


def test_an_english_word_is_no_number_of_another_language() -> None:
    """In Spanish, "once" is eleven."""
    assert not GroundingSource.of(["He came once to the house."]).supports("It was 11.")
    assert GroundingSource.of(["Son once personas."]).supports("It was 11.")


@pytest.mark.parametrize(
    ("source", "true", "false"),
    [
        ("It took 90 minutes.", "It took 1.5 hours.", "It took 1.4 hours."),
        ("It took 90 minutes.", "It took 1 h 30 min.", "It took 1 h 40 min."),
        ("It took 1 hour and 30 minutes.", "It took 90 minutes.", "It took 95 minutes."),
        ("Es dauerte neunzig Minuten.", "It took 1.5 hours.", "It took 2.5 hours."),
        ("It takes an hour.", "It takes 60 minutes.", "It takes 61 minutes."),
        ("用了90分钟。", "It took 1.5 hours.", "It took 1.6 hours."),
        ("三時間かかった。", "It took 180 minutes.", "It took 190 minutes."),
        ("Il a fallu 48 heures.", "It took 2 days.", "It took 2.1 days."),
        ("Tardó dos semanas.", "It took 14 days.", "It took 15 days."),
        ("It runs for 18 months.", "It runs for 1.5 years.", "It runs for 1.6 years."),
        ("The file has 1500 MB.", "The file has 1.5 GB.", "The file has 1.6 GB."),
        ("The file has 1536 MB.", "The file has 1.5 GB.", "The file has 1.6 GiB."),
        ("It weighs 2,500 kg.", "It weighs 2.5 t.", "It weighs 2.6 t."),
        ("It is 350 cm long.", "It is 3.5 m long.", "It is 3.6 m long."),
        ("3万 users", "30,000 users", "31,000 users"),
        ("2,5 Mrd. Euro", "2.5 billion euros", "2.6 billion euros"),
    ],
)
def test_quantities_may_be_in_other_units(source: str, true: str, false: str) -> None:
    """Where they convert exactly; half, double or nearly is not the same."""
    known = GroundingSource.of([source])
    assert (known.supports(true), known.supports(false)) == (True, False)


def test_secrets_are_masked_in_what_a_model_wrote() -> None:
    """Supported or not."""
    written = ModelSummary(
        "They set password=hunter2-9Zq.", (Entry("It used token: 7x7-9Zq-abc, 4711 times."),)
    )
    marked, ungrounded = mark_ungrounded(written, ["Use password=hunter2-9Zq please."])
    assert "9Zq" not in str((marked, ungrounded))
    assert marked.summary_text.count("[masked]") == 1


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
def test_the_words_of_the_source_are_not_marked(text: str) -> None:
    """However strange they are."""
    assert mark_ungrounded(ModelSummary(text.strip(), entries(text)), ["Before.", text, "After."])[1] == ()


@settings(max_examples=60, deadline=None)
@given(histories(most_turns=4), st.data())
def test_quotations_from_the_chat_are_not_marked(chat: Any, data: st.DataObject) -> None:
    """Whether they quote the user, the model, a tool's name, its arguments or its result."""
    of = build_conversation(chat.items, chat.turn_of_item).turns
    texts = [text for item in chat.items for text in _texts(item)]
    lines = [line[:200].rpartition(" ")[0] for text in texts for line in text.splitlines()]
    quotes = data.draw(st.lists(st.sampled_from(lines), max_size=8)) if lines else []
    written = ModelSummary("\n".join(["They talked.", *quotes]), entries(*dict.fromkeys(quotes)))
    assert (
        complete_summary(
            written, SummaryAssignment(of), count=estimate_tokens, max_tokens=MAX_TOKENS
        ).unverified
        == ()
    )


def _texts(item: Any) -> list[str]:
    if item["type"] == "message":
        return [part["text"] for part in item["content"]]
    return [item[name] for name in ("name", "arguments", "output") if name in item]


SOURCE = (
    "We met on March 3\u20137 with twelve people in building B2. See src/app/main.py and README.md. Node 20 and "
    "Python 3.12.4 run at 1920x1080, 64-bit, p95 is 40 ms (5.0 %), it costs 2.5 million USD. Call +49 30 1234567."
)


@pytest.mark.parametrize(
    "statement",
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
def test_supported_statements_are_not_marked(statement: str) -> None:
    """Ordinals, numbers of lists, single digits, conclusions marked as such, and words need no support."""
    written = ModelSummary(f"{statement}\nFine.")
    assert mark_ungrounded(written, [SOURCE]) == (written, ())


@pytest.mark.parametrize(
    ("word", "number"), [("ten", 10), ("twelve", 12), ("forty", 40), ("dozen", 12), ("thousand", 1000)]
)
def test_numbers_may_have_been_words(word: str, number: int) -> None:
    """Those that are often written so."""
    assert GroundingSource.of([f"About {word} of them."]).supports(f"About {number} of them.")
    assert not GroundingSource.of(["About some of them."]).supports(f"About {number} of them.")


def test_sentences_are_marked_one_by_one() -> None:
    """The others stay as they are; an abbreviation does not end a sentence."""
    text = "It ran.\n- It took approx. 99 ms. It (e.g. the cat) slept.\n\n它用了99毫秒。它睡了。\nDone at 10:30! Bye."
    marked = (
        "It ran.\n- It took approx. 99 ms. (unverified) It (e.g. the cat) slept.\n\n"
        "它用了99毫秒。 (unverified)它睡了。\nDone at 10:30! Bye."
    )
    assert mark_ungrounded(ModelSummary(text), ["Done at 10:30."]) == (
        ModelSummary(marked),
        ("- It took approx. 99 ms.", "它用了99毫秒。"),
    )


def test_everything_that_was_said_and_done_is_the_source() -> None:
    """Both sides, attachments, names, arguments and results of tools, and facts about them; no reasoning."""
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
    written = ModelSummary("Fine.", entries(*facts))
    summary = complete_summary(written, SummaryAssignment(of), count=estimate_tokens, max_tokens=MAX_TOKENS)
    marked = tuple(fact + MARK for fact in facts[7:])
    assert (summary.by_model.key_facts, summary.unverified) == (entries(*facts[:7], *marked), facts[7:])


def test_marked_statements_are_counted_in_the_rendering() -> None:
    """The line explains the marks to whoever reads the summary."""
    of = turns([user("Hello."), answer("Hello.")])
    written = ModelSummary("It took 99 ms.", entries("It cost $12.50.", "They greeted."))
    summary = complete_summary(written, SummaryAssignment(of), count=estimate_tokens, max_tokens=MAX_TOKENS)
    assert summary == Summary(
        ModelSummary("It took 99 ms. (unverified)", entries("It cost $12.50. (unverified)", "They greeted.")),
        unverified=("It took 99 ms.", "It cost $12.50."),
        first_turn=1,
        last_turn=1,
    )
    assert render_summary(summary).splitlines() == [
        "[Summary of turns 1 to 1 of the conversation]",
        "What happened, as recorded by a model:",
        "> It took 99 ms. (unverified)",
        "Facts recorded:",
        "- It cost $12.50. (unverified)",
        "- They greeted.",
        "(2 statements are marked as unverified: the original messages do not contain their details.)",
        "[End of this summary]",
    ]


def test_a_summary_without_a_grounded_statement_is_refused() -> None:
    """One statement that the chat supports, or that states nothing exact, is enough."""
    of = turns([user("Hello."), answer("Hello.")])
    written = ModelSummary("It took 99 ms.", entries("It cost $12.50."))
    with pytest.raises(SummaryRefused, match="not grounded"):
        complete_summary(written, SummaryAssignment(of), count=estimate_tokens, max_tokens=MAX_TOKENS)


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
ROWS = json.dumps([{"id": at * 7919, "at": f"2024-03-{at % 28 + 1:02}T10:30"} for at in range(1_400)])


def check_grounding(text: str) -> object:
    """A summary that holds a tenth of its source."""
    return mark_ungrounded(ModelSummary(f"Fine.\n{text[: len(text) // 10]}"), [text])


@pytest.mark.parametrize("repeated", [*REPEATED, pytest.param(ROWS, id="rows")])
def test_grounding_takes_linear_time(repeated: str) -> None:
    """A source twice as long takes about twice the processor time."""
    assert growth(check_grounding, lambda size: (repeated * (size // len(repeated) + 1))[:size]) < MAX_GROWTH
