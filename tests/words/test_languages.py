"""The files of words: complete, with the same values and names as the English lines, and formed alike."""

from __future__ import annotations

import importlib.util
import re
from datetime import date
from pathlib import Path
from string import Formatter

import pytest

from open_webui_openrouter_pipe.maintenance import commands, pipe, updates
from open_webui_openrouter_pipe.money.prices import dollars
from open_webui_openrouter_pipe.words.lines import (
    ENGLISH,
    LANGUAGES,
    Language,
    find_language,
    in_language,
    notice,
)
from scripts.paths import PACKAGE
from tests.support.host_source import is_older
from tests.support.rows import rows

CASES = Path(__file__).with_name("languages.txt")
OTHERS = [language for language in LANGUAGES.values() if language is not ENGLISH]
FORMS = {"number", "day", "months"}
SECTIONS = {
    section.partition("\n")[0]: set(re.findall(r"^([\w.]+) = ", section, re.MULTILINE))
    for section in re.split(r"^# ", (PACKAGE / "words" / "en.txt").read_text("utf-8"), flags=re.MULTILINE)
}
"""The names of the English lines by the heads of their sections."""
ENGLISH_ONLY = SECTIONS["the list of models, which is English for all users"]
ALIKE = {
    "part_instructions",
    "context_tokens",
    "context_no",
    "cost_seconds",
    "cost_speed",
    "problem",
    "sentences",
}
"""Lines that several languages share."""
LONGEST_CHARACTERS = 300
NAMES = re.compile(r"https://[a-z0-9./-]*[a-z0-9]|`[^`]+`|\b[A-Z][A-Z_]{3,}[A-Z]\b|max_tokens", re.ASCII)
"""What is called the same in every language: addresses, code, and the names of valves."""

each_language = pytest.mark.parametrize("language", OTHERS, ids=lambda language: language.code)


def fields(template: str) -> set[str]:
    """The values of a template with their forms, also of values within forms."""
    found = set()
    for _, name, form, _ in Formatter().parse(template):
        if name is not None:
            separates = name in {"lines", "details"}
            found |= {name if separates else f"{name}:{form}", *fields(form or "")}
    return found


def has_words(template: str) -> bool:
    """Whether there is anything to translate."""
    return any(letter.isalpha() for text, *_ in Formatter().parse(template) for letter in text)


def test_each_line_of_a_file_has_a_name_and_a_text() -> None:
    """Nothing stands twice, and a comment begins its line."""
    for path in sorted((PACKAGE / "words").glob("??.txt")):
        lines = [line for line in path.read_text("utf-8").split("\n")[:-1] if not line.startswith("# ")]
        names = [re.fullmatch(r"([a-z_]+(?:\.admin|\.no_button)?) = \S(?:.*\S)?", line) for line in lines]
        assert [line for line, name in zip(lines, names, strict=True) if not name] == []
        assert len({name[1] for name in names if name}) == len(lines)
    assert {path.stem for path in (PACKAGE / "words").glob("??.txt")} == set(LANGUAGES)


def test_nobody_reads_of_a_pipe() -> None:
    """A word of Open WebUI's inside, and a vulgar or an odd one in some languages: neither lines, nor valves."""
    files = sorted((PACKAGE / "words").glob("*.txt"))
    said = [
        path.name
        for path in files
        if re.search(r"\bpipes?\b|パイプ|管道", path.read_text("utf-8"), re.IGNORECASE)
    ]
    assert (said, len(files)) == ([], len(LANGUAGES) + 1)
    reports = [
        text
        for module in (commands, pipe, updates)
        for name, text in vars(module).items()
        if name.isupper() and isinstance(text, str)
    ]
    assert not [text for text in reports if re.search(r"(?<!-)\bpipes?\b", text, re.IGNORECASE)]


@each_language
def test_a_file_has_every_line_that_can_be_said_in_its_language(language: Language) -> None:
    """And no other."""
    missing = ENGLISH.lines.keys() - ENGLISH_ONLY - language.lines.keys()
    assert {name for name in missing if has_words(ENGLISH.lines[name])} == set()
    assert set(language.lines) <= ENGLISH.lines.keys() - ENGLISH_ONLY


@each_language
def test_a_line_is_one_like_the_english_one_in_its_own_words(language: Language) -> None:
    """The same values in the same forms, the same names, the same ending; short, and nowhere left in English."""

    def ending(line: str) -> str:
        """A wait ends in dots, a sentence in a period, and a name with its value in neither."""
        found = re.search(r"(\.\.\.|[.。?\uff1f]|)(?:\{quote\}| \{quote\}| )?$", line)
        assert found
        return found[1].replace("。", ".").replace("\uff1f", "?")

    for name in language.lines.keys() - FORMS:
        line, english = language.lines[name], ENGLISH.lines[name]
        assert fields(line) == fields(english), name
        assert set(NAMES.findall(line)) == set(NAMES.findall(english)), name
        assert line == re.sub(r"[ \t]+", " ", line), name
        assert len(line) <= LONGEST_CHARACTERS, name
        assert line != english or name in ALIKE, name
        assert ending(line) == ending(english) or name in ALIKE, name


def test_no_word_depends_on_a_count() -> None:
    """Of one as of many: a line names what is counted, and the count behind it."""
    found = [
        name
        for name, line in ENGLISH.lines.items()
        if re.search(r"\{(?:count|requests)\b[^}]*\} [a-z]+s\b", line)
    ]
    assert found == ["problem_passphrase"]  # of which there are always many


@each_language
def test_the_button_has_the_hosts_own_name(language: Language) -> None:
    """As the installed page shows it, under which the user looks for it."""
    host = importlib.util.find_spec("open_webui")
    if host is None or host.origin is None:
        pytest.skip("Open WebUI is not installed")
    if language.code == "zh" and is_older():
        pytest.skip("this Open WebUI names it otherwise in Chinese")
    texts = (
        path.read_text("utf-8")
        for path in Path(host.origin).parent.glob("frontend/_app/immutable/chunks/*.js")
    )
    names = {found[1] for text in texts if (found := re.search(r'"Continue Response":"([^"]+)"', text))}
    for line in ("answer_at_output_limit", "answer_cut_off"):
        assert any(name in language.lines[line] for name in names)
        assert not any(name in language.lines[f"{line}.no_button"] for name in names)


@pytest.mark.parametrize(("code", "said"), rows(CASES, "language => tokens, two amounts, a day"))
def test_numbers_money_and_days_have_the_languages_form(code: str, said: str) -> None:
    """Also where they stand in another line, which is English wherever nobody asks for another language."""
    language, (tokens, *forms) = LANGUAGES[code], said.split("; ")
    cut = notice("lacking_shortened", count=3, of=1200, tokens=12_345)
    assert tokens in in_language(cut, language)
    assert "about 12,345 tokens less" in cut
    when = notice("on_day_at", day=date(2026, 11, 3), clock="08:00")
    lines = (dollars(1234.5), dollars(0.0095), when)
    assert [in_language(line, language) for line in lines] == forms
    until = in_language(notice("next_cost_until", cached=lines[0], cold=lines[1], when=when), language)
    assert all(part in until for part in forms)


@pytest.mark.parametrize("code", LANGUAGES)
def test_lines_within_lines_are_in_the_same_language(code: str) -> None:
    """A list of reasons, a wait within an error with its reference, and lines that have no words of their own."""
    language = LANGUAGES[code]
    details = (notice("artifact_missing", count=2), notice("artifact_too_large", count=3))
    said = in_language(notice("artifacts_missing", count=5, details=details), language)
    assert all(in_language(detail, language) in said for detail in details)
    wait = notice("wait_for", time="20 s")
    error = notice("provider_slow", provider=notice("the_provider", name="Acme"), wait=wait)
    said = in_language(notice("with_reference", line=error, reference="BCDFGH"), language)
    assert in_language(wait, language) in said
    assert in_language(notice("the_provider", name="Acme"), language) in said
    size = notice("context_page_number", number=12_345)
    assert in_language(notice("list_item", line=size), language) == f"- {language.number(12_345, ',')}"


def test_a_line_without_a_translation_is_english() -> None:
    """Such as those of the list of models; and a text that is not a line stays as it is."""
    german = LANGUAGES["de"]
    assert in_language(notice("preset", preset="team"), german) == "Preset: team"
    assert in_language("plain {text}", german) == "plain {text}"


def test_values_are_not_read_as_templates() -> None:
    """What a provider or a user wrote stays as it is."""
    line = notice("searched_for", query="{count} {0.__class__} 1,5")
    assert in_language(line, LANGUAGES["de"]) == "Im Web gesucht: {count} {0.__class__} 1,5"


@pytest.mark.parametrize(("tags", "code"), rows(CASES, "tags of a browser => the language"))
def test_a_language_is_found_by_its_tag(tags: list[str], code: str) -> None:
    """Whatever its region; traditional Chinese has no file, and English stands in for what has none."""
    assert find_language(tags).code == code
