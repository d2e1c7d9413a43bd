"""The tables of languages: complete, with the same values and names as the English lines, and formed alike."""

from __future__ import annotations

import importlib.util
import re
from datetime import date
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.money.prices import dollars
from open_webui_openrouter_pipe.notices import ENGLISH, LANGUAGES, find_language, in_language, notice

# ruff: noqa: RUF001 - the lines below are meant to be in these languages

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.languages.language import Language

OTHERS = [language for language in LANGUAGES.values() if language is not ENGLISH]
IN_THE_LIST_OF_MODELS = {
    *(
        "model_expires",
        "model_variant",
        "model_preset",
        "preset",
        "status_entry",
        "status_ready",
        "status_no_key",
    ),
    *(
        "status_key_unusable",
        "status_key_refused",
        "status_key_used_up",
        "status_address",
        "status_unreachable",
    ),
    *("status_not_openrouter", "status_failing", "status_loading", "status_unmatched", "status_filtered"),
    *("status_unknown_filter", "status_zdr_unknown", "status_unknown_variant"),
}
"""The host keeps one list for all users."""
ALIKE = {
    *(
        "joined",
        "cost_line",
        "list_item",
        "sentences",
        "dollars",
        "cost_seconds",
        "cost_speed",
        "summarized_cost",
    ),
    *("part_instructions", "context_tokens", "context_no"),
    *("context_page_number", "context_page_share", "context_page_amount"),
}
"""Lines without words, or of abbreviations that several languages share."""
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


@each_language
def test_a_table_has_every_line_but_those_in_the_list_of_models(language: Language) -> None:
    """And a singular where the language has one."""
    expected = {name for name in ENGLISH.lines if language.one or not name.endswith(".one")}
    assert set(language.lines) == expected - IN_THE_LIST_OF_MODELS


@each_language
def test_a_line_has_the_values_and_names_of_the_english_one(language: Language) -> None:
    """In the same forms, whatever their order."""
    for name, line in language.lines.items():
        english = ENGLISH.lines[name]
        assert fields(line) == fields(english), name
        assert set(NAMES.findall(line)) == set(NAMES.findall(english)), name


@each_language
def test_a_line_is_one_plain_line_in_its_own_words(language: Language) -> None:
    """Short enough to be read, and nowhere left in English."""
    for name, line in language.lines.items():
        assert line == re.sub(r"[ \n\t]+", " ", line).strip(), name
        assert len(line) <= LONGEST_CHARACTERS, name
        assert line != ENGLISH.lines[name] or name in ALIKE, name


@each_language
def test_a_line_ends_as_the_english_one(language: Language) -> None:
    """A wait in dots, a sentence in a period, and a name with its value in neither."""

    def ending(line: str) -> str:
        found = re.search(r"(\.\.\.|[.。?？]|)(?:\{quote\}| \{quote\}| )?$", line)
        assert found
        return found[1].replace("。", ".").replace("？", "?")

    lines = {name: line for name, line in language.lines.items() if name not in ALIKE}
    assert {name: ending(line) for name, line in lines.items()} == {
        name: ending(ENGLISH.lines[name]) for name in lines
    }


@each_language
def test_the_button_has_the_hosts_own_name(language: Language) -> None:
    """As the installed page shows it, under which the user looks for it."""
    host = importlib.util.find_spec("open_webui")
    if host is None or host.origin is None:
        pytest.skip("Open WebUI is not installed")
    texts = (
        path.read_text("utf-8")
        for path in Path(host.origin).parent.glob("frontend/_app/immutable/chunks/*.js")
    )
    names = {found[1] for text in texts if (found := re.search(r'"Continue Response":"([^"]+)"', text))}
    for line in ("answer_at_output_limit", "answer_cut_off"):
        assert any(name in language.lines[line] for name in names)
        assert not any(name in language.lines[f"{line}.no_button"] for name in names)


SHORTENED = {
    "en": "3 of 1200 earlier turns were shortened: about 12,345 tokens less.",
    "de": "3 von 1200 früheren Nachrichten mit ihren Antworten wurden gekürzt: etwa 12.345 Token weniger.",
    "fr": (
        "3 messages précédents sur 1200 ont été raccourcis avec leurs réponses\u00a0: "
        "environ 12\u202f345 tokens de moins."
    ),
    "es": "Se han acortado 3 de 1200 mensajes anteriores con sus respuestas: unos 12.345 tokens menos.",
    "pt": "3 de 1200 mensagens anteriores foram encurtadas com as suas respostas: cerca de 12.345 tokens a menos.",
    "zh": "较早的 1200 条消息中有 3 条连同回答被缩短：约减少 12,345 个令牌。",
    "ja": "以前のメッセージ 1200 件のうち 3 件を応答とともに短縮しました：約 12,345 トークン削減。",
}


@pytest.mark.parametrize("code", SHORTENED)
def test_a_cut_is_said_in_the_users_words_and_numbers(code: str) -> None:
    """The same line, which is English wherever nobody asks for another language."""
    line = notice("turns_shortened", count=3, of=1200, tokens=12_345)
    assert (in_language(line, LANGUAGES[code]), line) == (SHORTENED[code], SHORTENED["en"])


COSTS = {
    "en": ("$1,234.50", "$0.0095", "tomorrow at 08:00", "3 November at 08:00"),
    "de": ("1.234,50\u00a0$", "0,0095\u00a0$", "morgen um 08:00", "3. November um 08:00"),
    "fr": ("1\u202f234,50\u00a0$US", "0,0095\u00a0$US", "demain à 08:00", "le 3 novembre à 08:00"),
    "es": ("1.234,50\u00a0US$", "0,0095\u00a0US$", "mañana a las 08:00", "3 de noviembre a las 08:00"),
    "pt": ("US$\u00a01.234,50", "US$\u00a00,0095", "amanhã às 08:00", "3 de novembro às 08:00"),
    "zh": ("US$1,234.50", "US$0.0095", "明天 08:00", "11月3日 08:00"),
    "ja": ("$1,234.50", "$0.0095", "明日 08:00", "11月3日 08:00"),
}


@pytest.mark.parametrize("code", COSTS)
def test_money_and_days_have_the_languages_form(code: str) -> None:
    """Also where they stand in another line."""
    when = notice("on_day_at", day=date(2026, 11, 3), clock="08:00")
    lines = (dollars(1234.5), dollars(0.0095), notice("tomorrow_at", clock="08:00"), when)
    assert tuple(in_language(line, LANGUAGES[code]) for line in lines) == COSTS[code]
    until = in_language(notice("next_cost_until", cached=lines[0], cold=lines[1], when=when), LANGUAGES[code])
    assert all(part in until for part in (COSTS[code][0], COSTS[code][1], COSTS[code][3]))


@pytest.mark.parametrize(
    ("code", "singular"),
    [("en", {1}), ("de", {1}), ("fr", {0, 1}), ("es", {1}), ("pt", {0, 1}), ("zh", set()), ("ja", set())],
)
def test_counts_take_the_languages_plural(code: str, singular: set[int]) -> None:
    """Nothing is singular in French and Brazilian Portuguese, and nothing at all has one in Chinese and Japanese."""
    language = LANGUAGES[code]
    for count in (0, 1, 2):
        line = in_language(notice("images_omitted", count=count), language)
        template = language.lines["images_omitted.one" if count in singular else "images_omitted"]
        assert line == template.format(count=count)


@pytest.mark.parametrize("code", LANGUAGES)
def test_lines_within_lines_are_in_the_same_language(code: str) -> None:
    """A list of reasons, and a wait within an error with its reference."""
    language = LANGUAGES[code]
    details = (notice("artifacts_not_found", count=2), notice("artifacts_too_large", count=3))
    said = in_language(notice("artifacts_missing", count=5, details=details), language)
    assert all(in_language(detail, language) in said for detail in details)
    wait = notice("wait_seconds", count=20)
    error = notice("provider_slow", provider=notice("the_provider", name="Acme"), wait=wait)
    said = in_language(notice("with_reference", line=error, reference="BCDFGH"), language)
    assert in_language(wait, language) in said
    assert in_language(notice("the_provider", name="Acme"), language) in said


def test_a_line_without_a_translation_is_english() -> None:
    """Such as those of the list of models; and a text that is not a line stays as it is."""
    german = LANGUAGES["de"]
    assert in_language(notice("preset", preset="team"), german) == "Preset: team"
    assert in_language("plain {text}", german) == "plain {text}"


def test_values_are_not_read_as_templates() -> None:
    """What a provider or a user wrote stays as it is."""
    line = notice("searched_for", query="{count} {0.__class__} 1,5")
    assert in_language(line, LANGUAGES["de"]) == "Im Web gesucht: {count} {0.__class__} 1,5"


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        (["de-DE"], "de"),
        (["de_CH"], "de"),
        (["fr-CA"], "fr"),
        (["pt-PT"], "pt"),
        (["zh-CN"], "zh"),
        (["zh"], "zh"),
        (["zh-TW"], "en"),
        (["zh-Hant-HK"], "en"),
        (["pl-PL"], "en"),
        (["pl-PL", "JA"], "ja"),
        (["", "*"], "en"),
        ([], "en"),
    ],
)
def test_a_language_is_found_by_its_tag(tags: list[str], code: str) -> None:
    """Whatever its region; traditional Chinese has no table, and English stands in for what has none."""
    assert find_language(tags).code == code
