"""Exact details found in prose, and which of them a summary misses."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from random import Random

import pytest

from open_webui_openrouter_pipe.summaries.details import exact_details, mentioned_paths, missing_details
from tests.support.growth import MAX_GROWTH, growth

DETAILS_OF_A_KIND = 400
MIN_SHARE = 0.98

_WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "iris",
    "jetty",
    "kelp",
    "lumen",
    "maple",
    "north",
    "orbit",
    "pine",
]
_FRAMES = (
    "We talked about it and {} came up.",
    "So the answer is {}, I think.",
    "It was {} (as you said before).",
    "Please remember: {}. Then go on",
    "- **{}** is what we want",
    "Maybe ({}) or something else?",
    "{} was never in question; the team agreed",
    "Das ist {} und nichts anderes.",
)
_MONTHS = ("January", "Mar", "May", "August", "Sept", "Oktober", "December")
_UNITS = [
    "GB",
    "MiB",
    "ms",
    "s",
    "min",
    "h",
    "days",
    "weeks",
    "km",
    "m",
    "cm",
    "mm",
    "kg",
    "g",
    "mg",
    "t",
    "%",
    "‰",
    "°C",
    "K",
    "V",
    "kW",
    "MHz",
    "rpm",
    "fps",
    "px",
    "EUR",
    "USD",
    "requests/s",
    "km/h",
    "MB/s",
    "tokens",
    "rows",
    "users",
    "dollars",
    "litres",
    "m²",
    "kWh",
    "ppm",
    "bar",
    "dB",
    "people",
    "years",
    "milliseconds",
]


def _number(random: Random) -> str:
    return random.choice(
        [
            f"{random.randint(2, 99)}",
            f"{random.randint(100, 9999)}",
            f"{random.randint(1, 999)},{random.randint(0, 999):03}",
            f"{random.uniform(0, 100):.{random.randint(1, 3)}f}",
            f"{random.randint(1, 99)}.{random.randint(0, 999):03}.{random.randint(0, 999):03}",
            f"-{random.randint(1, 40)}",
            f"{random.randint(1, 9)}-{random.randint(10, 99)}",
        ]
    )


def _quantity(random: Random) -> str:
    money = (
        f"{random.choice('$€£')}{random.randint(1, 999)},{random.randint(0, 999):03}.{random.randint(10, 99)}"
    )
    measure = f"{_number(random)}{random.choice(['', ' ', ' '])}{random.choice(_UNITS)}"
    rate = (
        f"{random.randint(2, 500)} {random.choice(['requests per second', 'USD per month', 'million users'])}"
    )
    mixed = f"{random.randint(1, 9)} h {random.randint(2, 59)} min"
    return random.choice([measure] * 6 + [money, rate, mixed, f"CHF {random.randint(2, 90)}.50"])


def _date(random: Random) -> str:
    year, month, day = random.randint(1950, 2049), random.randint(1, 12), random.randint(1, 28)
    clock = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}"
    name = random.choice(_MONTHS)
    return random.choice(
        [
            f"{year}-{month:02}-{day:02}",
            f"{year}-{month:02}-{day:02}T{clock}:00Z",
            f"{year}-{month:02}-{day:02} {clock}",
            f"{year}-{month:02}-{day:02}T{clock}:00+02:00",
            f"{day:02}.{month:02}.{year}",
            f"{month}/{day}/{year}",
            f"{name} {day}, {year}",
            f"{day} {name} {year}",
            f"{day}. Oktober {year}",
            f"Tuesday, {name} {day}, {year}",
            f"{day}th of {name} {year}",
            f"Q{random.randint(1, 4)} {year}",
            clock,
            f"{clock} UTC",
            f"{random.randint(1, 12)}:{random.randint(10, 59)} pm",
            f"{random.randint(1, 12)} a.m.",
        ]
    )


def _identifier(random: Random) -> str:
    number = random.randint(100, 99_999)
    return random.choice(
        [
            str(uuid.UUID(int=random.getrandbits(128))),
            f"{random.getrandbits(160):040x}",
            f"a{random.getrandbits(24):06x}9",
            f"{random.choice(_WORDS).upper()}-{number}",
            f"#{number}",
            f"ORD{number}X",
            f"req_{random.getrandbits(64):016x}",
            f"{random.randint(1, 255)}.{random.randint(0, 255)}.{random.randint(0, 255)}.7:{number}",
            f"v{random.randint(1, 9)}.{random.randint(0, 20)}.{random.randint(0, 9)}-rc1",
            f"+49 30 {number}{number}",
            f"{number}-{number}",
            f"0x{random.getrandbits(32):08X}",
            f"gpt-{random.randint(4, 9)}.1-mini",
        ]
    )


def _path(random: Random) -> str:
    one, two, three = random.sample(_WORDS, 3)
    return random.choice(
        [
            f"/{one}/{two}",
            f"/etc/{one}.conf",
            f"src/{one}/{two}.py",
            f"./{one}/{two}_{three}.sh",
            f"../{one}",
            f"~/{one}/{two}.toml",
            f"C:\\{one}\\{two} {three}\\{one}.docx",
            f"{one}-{two}.pdf",
            f"{one}/{two}/{three}",
            f"packages/{one}/",
            f"/api/v2/{one}",
            f".{one}rc",
        ]
    )


def _link(random: Random) -> str:
    one, two, three = random.sample(_WORDS, 3)
    return random.choice(
        [
            f"https://{one}.example/{two}?q={three}&n={random.randint(1, 99)}#top",
            f"http://localhost:{random.randint(1000, 9999)}/{one}",
            f"https://en.example.org/wiki/{one}_({two})",
            f"www.{one}-{two}.com/{three}",
            f"postgres://{one}@db.{three}.io/main",
            f"{one}.{two}@{three}.example.org",
        ]
    )


def _code_name(random: Random) -> str:
    one, two, three = random.sample(_WORDS, 3)
    return random.choice(
        [
            f"{one}_{two}",
            f"{one}{two.title()}{three.title()}",
            f"{one.title()}{two.title()}",
            f"{one}.{two}.{three}",
            f"{one}_{two}".upper(),
            f"{one}_{two}()",
            f"{one}::{two}",
            f"--{one}-{two}",
            f"__{one}__",
            f"`{one} {two} --{three}`",
            f"`{one}`",
        ]
    )


def _quotation(random: Random) -> str:
    said = " ".join(random.sample(_WORDS, random.randint(2, 8)))
    return random.choice(
        [f'"{said}"', f"'{said}'", f"“{said}”", f"«{said}»", f"„{said}“", f'"{said}, it\'s 5!"']
    )


KINDS: Mapping[str, Callable[[Random], str]] = {
    "quantities": _quantity,
    "dates": _date,
    "identifiers": _identifier,
    "paths": _path,
    "links": _link,
    "code names": _code_name,
    "quotations": _quotation,
}


@pytest.mark.parametrize("kind", ["identifiers", "paths", "links", "code names", "quotations"])
def test_planted_details_are_found_as_they_are(kind: str) -> None:
    """At least 98 in 100 of each kind, as the planted string itself, wherever in a sentence it stands."""
    random = Random(kind)
    planted = [KINDS[kind](random) for _ in range(DETAILS_OF_A_KIND)]
    sentences = [random.choice(_FRAMES).format(detail) for detail in planted]
    found = exact_details("\n".join(sentences))
    missed = [(detail, line) for detail, line in zip(planted, sentences, strict=True) if detail not in found]
    assert len(missed) <= (1 - MIN_SHARE) * DETAILS_OF_A_KIND, missed


@pytest.mark.parametrize("kind", KINDS)
def test_every_planted_number_is_in_a_detail(kind: str) -> None:
    """Composed quantities and dates may be several details, which together have all their numbers."""
    random = Random(kind)
    for _ in range(DETAILS_OF_A_KIND):
        planted = KINDS[kind](random)
        found = exact_details(random.choice(_FRAMES).format(planted))
        words = [word.strip("\"'“”„«»`,!") for word in planted.split() if any(map(str.isdigit, word))]
        assert all(any(word in detail for detail in found) for word in words), (planted, found)


def test_plain_prose_has_no_details() -> None:
    """Small numbers in lists, abbreviations and apostrophes are none."""
    text = (
        "1. First, e.g. this and/or that.\n2) The users' wishes don't matter, it's fine, i.e. 3 of them.\n"
        "## A heading\n---\nI SAID THAT LOUDLY, rock and roll; the 2nd time it was 'n' again... ok?"
    )
    assert exact_details(text) == {}


def test_details_stand_once_in_their_order() -> None:
    """What is said twice is one detail, and a quotation is one detail with all that it holds."""
    text = 'Set max_tokens to 4,096 tokens, "not 8192 in app.py", and max_tokens again. 我们有48GB内存, see 「報告書」.'
    assert tuple(exact_details(text)) == (
        "max_tokens",
        "4,096 tokens",
        '"not 8192 in app.py"',
        "48GB",
        "「報告書」",
    )


LINE = (
    "The pool in src/pool.py leaks 131 handles after 42 s, because nobody awaits its close() method; the limit is "
    "MAX_OPEN=4,096 tokens, as the manual says on its last page, which hardly anybody has read so far."
)


def test_details_stand_with_the_words_around_them() -> None:
    """Up to 80 characters of their line, without cut words; neighbours share them, and nothing is said twice."""
    first = "The pool in src/pool.py leaks 131 handles after 42 s, because nobody awaits its"
    second = "close() method; the limit is MAX_OPEN=4,096 tokens, as the manual says on its"
    assert exact_details(f"Before.\n{LINE}\nAfter.") == {
        "src/pool.py": first,
        "131 handles": first,
        "42 s": first,
        "close()": second,
        "MAX_OPEN": second,
        "4,096 tokens": second,
    }


@pytest.mark.parametrize(
    "text",
    [
        LINE,
        LINE * 3,
        "一" * 100 + "共有48GB内存" + "二" * 100,
        f"{'x' * 300} MAX_ROWS {'y' * 300}",
        f"see {'a/' * 60}b.py",
    ],
    ids=["line", "longer", "unspaced", "long words", "long detail"],
)
def test_the_words_have_a_length(text: str) -> None:
    """A detail that is longer stands alone; where no spaces divide words, they are cut anywhere."""
    for detail, words in exact_details(text).items():
        assert detail in words
        assert words == detail if len(detail) > 80 else len(words) <= 80
    assert len(exact_details("一" * 100 + "共有48GB内存" + "二" * 100)["48GB"]) == 80


def test_words_are_not_cut() -> None:
    """Neither before nor behind a detail, wherever it stands in a line."""
    for before in range(20, 30):
        line = "alphabet " * before + "x" * (before % 9) + " MAX_ROWS " + "alphabet " * 30
        (words,) = exact_details(line).values()
        assert set(words.split()) <= {"alphabet", "MAX_ROWS", "x" * (before % 9)}
        assert len(words) > 60


def test_a_number_without_an_owner_has_no_words() -> None:
    """Nobody could say what it is of; a name or a path needs no owner."""
    text = "42 s · 31 s · 20 s · 131 · 191\n| 17.5 | 2024-05-01 | 10:30 |\nMAX_ROWS\nretries: 131"
    details = exact_details(text)
    assert {detail for detail, words in details.items() if not words} == {
        "42 s", "31 s", "20 s", "191", "17.5", "2024-05-01", "10:30"
    }  # fmt: skip
    assert (details["MAX_ROWS"], details["131"]) == ("MAX_ROWS", "retries: 131")


def test_secrets_are_no_details() -> None:
    """Neither the value nor a link's password; the words around a detail have them masked."""
    text = "It uses password=hunter2-9Zq on port 8080 of postgres://ada:pw-9Zq@db.example/main_db."
    assert "9Zq" not in str(exact_details(text))
    assert "9Zq" not in str(mentioned_paths(text))
    assert "[masked]" in exact_details(text)["8080"]


def test_mentions_are_files_and_links() -> None:
    """Links lose the punctuation of the sentence; addresses and names from code are no files."""
    text = "Read [this](https://ex.org/a_(b)). Then edit src/app.py, report.pdf; mail a@ex.org, call os.path, 3/4."
    assert mentioned_paths(text) == ("https://ex.org/a_(b)", "src/app.py", "report.pdf")


def test_a_part_of_a_longer_number_or_word_is_no_occurrence() -> None:
    """Only the whole detail counts, and one whole occurrence is enough."""
    text = "It has 148 GB, 3.5 ms and snake_cases; 12 %."
    assert missing_details(["48 GB", "5 ms", "snake_case", "12 %", "148 GB"], text) == (
        "48 GB",
        "5 ms",
        "snake_case",
    )
    assert missing_details(["48 GB"], "148 GB, then 48 GB.") == ()


def test_data_is_no_detail() -> None:
    """A picture as base64 or a token longer than any name is omitted."""
    text = f"data:image/png;base64,{'iVBORw0KGgo1' * 200} and {'a1' * 400}"
    assert exact_details(text) == {}


_HOSTILE = (
    "'a ",
    "1 ",
    "1,",
    "+1 ",
    "5 square ",
    "Mon ",
    '"a ',
    "a*",
    "C:\\a",
    "http://(a",
    "1-1-",
    "2026-01-",
    "--a",
)


@pytest.mark.parametrize("seed", [*_HOSTILE, "".join(_HOSTILE), "a", "1", "/", "\\", '"', "中", "(", " "])
def test_exact_details_take_linear_time(seed: str) -> None:
    """A text twice as long takes about twice the processor time."""
    assert growth(exact_details, lambda size: (seed * (size // len(seed) + 1))[:size]) < MAX_GROWTH
