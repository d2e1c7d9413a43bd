"""What the recorded refusals are taken for: by the table, without the table, and without what one provider has said.

The kinds in `tests/data/openrouter/errors.json` were given by who recorded them, and judge the table.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from open_webui_openrouter_pipe.errors import ProviderError, RequestTooLarge
from open_webui_openrouter_pipe.openrouter.errors import (
    RULES,
    WORDINGS,
    Rule,
    Wordings,
    read_wordings,
    rule_of,
    to_error,
)
from open_webui_openrouter_pipe.responses.failure import Failure, read_failure
from open_webui_openrouter_pipe.words.lines import for_admins
from scripts.paths import ROOT
from tests.support.rows import rows

RECORDED: Final[list[dict[str, Any]]] = json.loads(
    (ROOT / "tests" / "data" / "openrouter" / "errors.json").read_text("utf-8")
)
KINDS: Final = {
    "reasoning_missing": "reasoning_missing reasoning_not_accepted",
    "reasoning_refused": "reasoning_not_accepted reasoning_missing",
    "too_long": "too_long",
    "tools_unsupported": "no_tool_provider",
    "no_endpoints": "no_endpoint no_allowed_provider privacy_restricted",
    "model_not_found": "model_not_found no_endpoint",
    "moderation": "moderated",
    "rate_limit": "provider_busy free_daily_limit free_limit",
    "overloaded": "provider_overloaded provider_unavailable",
    "provider_down": "provider_unavailable provider_overloaded",
    "bad_key": "key_rejected",
    "no_credit": "no_credits budget_in_use prompt_unaffordable",
    "key_limit": "key_limit_reached",
    "other": "request_rejected access_denied history_rejected schema_rejected",
    "unsupported_parameter": "parameter_rejected effort_rejected schema_rejected",
    "image_unsupported": "image_unusable no_attachment_provider",
    "file_unsupported": "file_unusable no_attachment_provider",
    "tool_pairing": "history_rejected",
    "duplicate_item": "history_rejected",
    "budget_too_small": "output_too_short",
    "max_tokens_too_small": "output_too_short",
    "max_tokens_too_large": "output_too_long",
    "timeout": "provider_slow",
}
"""The lines that a kind may lead to."""
BY_ITS_PLACE: Final = {"reasoning_missing", "reasoning_refused", "too_long"}
"""Kinds that are found without a word: the request holds reasoning, or nearly fills the window."""
ADVICE: Final = re.compile(
    r"(?i)\b(please|try again|choose|raise|lower|add|remove|switch|shorten|start|check|change|press)\b"
)


def failure_of(row: Mapping[str, Any]) -> Failure:
    """A recorded error as it is read; of one that is an end of an answer, the reason is the message."""
    body = row.get("body")
    if body is None and row["status"] == 200:
        details = {"reason": row["message"]}
        body = {"status": "incomplete", "incomplete_details": details, "output": []}
    elif body is None:
        body = {"error": {"code": row["status"], "message": row["message"]}}
    return read_failure(None if row["shape"] == "sse event" else row["status"], body)


def is_right(row: Mapping[str, Any], rule: Rule) -> bool:
    """Whether it leads to a line of its kind, or to the try that needs no word for it."""
    by_place = rule.remedy == "any" or rule.error is RequestTooLarge
    return rule.notice in KINDS[row["kind"]].split() or (row["kind"] in BY_ITS_PLACE and by_place)


def judged(wordings: Mapping[str, Wordings], numbers: Iterable[int]) -> tuple[int, list[str]]:
    """How many of these rows are right, and what the others were taken for."""
    wrong, count = [], 0
    for number in numbers:
        row, rule = RECORDED[number], rule_of(failure_of(RECORDED[number]), wordings)
        count += 1
        if not is_right(row, rule):
            wrong.append(f"{number}: {row['kind']} of {row['provider']} is taken for {rule.notice}")
    return count - len(wrong), wrong


def test_each_recorded_error_is_what_it_is() -> None:
    """At least 95 % of all; two by what the request holds, the others by their words, codes or status."""
    right, wrong = judged(WORDINGS, range(len(RECORDED)))
    assert right >= 0.95 * len(RECORDED), f"{right} of {len(RECORDED)}: {wrong}"
    by_place = [
        row["message" if "message" in row else "kind"]
        for row in RECORDED
        if rule_of(failure_of(row)).notice not in KINDS[row["kind"]].split()
    ]
    assert len(by_place) <= 3, by_place


def test_without_the_table_most_are_found_all_the_same() -> None:
    """By `error_type`, codes and statuses, and by the tries that need no word: 60 % at least."""
    without_texts = {name: Wordings(each.codes) for name, each in WORDINGS.items()}
    right, wrong = judged(without_texts, range(len(RECORDED)))
    assert right >= 0.60 * len(RECORDED), f"{right} of {len(RECORDED)}: {wrong}"


def maker(provider: str) -> str:
    """Who has said it, without the way that it took."""
    name = re.sub(r"\(.*?\)", "", provider).strip().removeprefix("OpenRouter / ").strip()
    return "Google" if name.startswith("Google") else name.partition(" / ")[0]


BY_MAKER: Final = defaultdict[str, list[int]](list)
for _number, _row in enumerate(RECORDED):
    BY_MAKER[maker(_row["provider"])].append(_number)


def without(name: str) -> dict[str, Wordings]:
    """The table without the lines that only this provider is known for."""
    return {
        section: replace(
            each,
            texts=tuple(
                (who, pieces)
                for who, pieces in each.texts
                if {known for known in who if not known.startswith(name)}
            ),
        )
        for section, each in WORDINGS.items()
    }


@pytest.mark.parametrize("name", BY_MAKER)
def test_without_one_providers_lines_its_errors_are_found_all_the_same(name: str) -> None:
    """80 % of them at least: others say it in the same words, or the request says it."""
    right, wrong = judged(without(name), BY_MAKER[name])
    assert right >= 0.80 * len(BY_MAKER[name]), f"{right} of {len(BY_MAKER[name])}: {wrong}"


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row['kind']}-{row['provider']}"[:60])
def test_each_leads_to_one_line_that_says_what_to_do(row: dict[str, Any]) -> None:
    """To users and to administrators, in bearable length, with no key or account in it."""
    error = to_error(failure_of(row))
    assert isinstance(error, ProviderError)
    for line in (error.user_message, for_admins(error.user_message)):
        assert (len(line.splitlines()), len(line) <= 500) == (1, True)
        assert ADVICE.search(line), line
        assert not re.search(r"[0-9a-f]{16,}", line.partition("It said:")[0])


def test_every_section_is_read_by_a_rule() -> None:
    """And no words stand in two sections, where the later would never be reached."""
    assert set(WORDINGS) <= {rule.section for rule in RULES}
    seen: dict[tuple[str, ...], str] = {}
    for section, each in WORDINGS.items():
        for _, pieces in each.texts:
            assert seen.setdefault(pieces, section) == section
    codes = [code for each in WORDINGS.values() for code in each.codes]
    assert len(codes) == len(set(codes))


def test_a_line_is_read() -> None:
    """Who says it, and the pieces in their order; what makes no difference is taken out."""
    read = read_wordings(
        "# a note\n[a]\nX, Y: The `Big_one` ... isn't\ncodes: p q\ncodes: r\n\n[b]\n".splitlines()
    )
    assert read == {
        "a": Wordings(frozenset({"p", "q", "r"}), ((frozenset({"X", "Y"}), ("the big one", "isnt")),)),
        "b": Wordings(),
    }
    assert [
        read["a"].are_in(said) for said in ("so the big one isnt", "isnt the big one", "the big one")
    ] == [
        True,
        False,
        False,
    ]


def test_the_page_shows_lines_of_the_file() -> None:
    """In the form in which they stand there."""
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    for section, each in read_wordings(page.split("```text\n")[1].split("```")[0].splitlines()).items():
        assert each.codes <= WORDINGS[section].codes
        assert {pieces for _, pieces in each.texts} <= {pieces for _, pieces in WORDINGS[section].texts}


@pytest.mark.parametrize(
    ("title", "status", "body", "name"), rows(ROOT / "tests" / "openrouter" / "tables.txt", "what decides")
)
def test_what_decides(title: str, status: int | None, body: Any, name: str) -> None:
    """Words of machines before texts, and a status that says what it is before texts that quote anything."""
    assert rule_of(read_failure(status, body)).notice == name, title


def test_the_hash_of_a_key_is_not_shown() -> None:
    """Though the address of the key's page has it."""
    (row,) = [row for row in RECORDED if "<64 hex>" in row.get("message", "")]
    said = row["message"].replace("<64 hex>", "0123456789abcdef" * 4)
    error = to_error(read_failure(402, {"error": {"code": 402, "message": said}}))
    assert ("0123456789abcdef" in str(error), "[redacted]" in str(error)) == (False, True)


@pytest.mark.parametrize(
    ("kind", "affordable"), [("no_credit", [3919, 30104, 27342, 3395, 734, 3324]), ("key_limit", [0, 56097])]
)
def test_of_several_numbers_the_smallest_can_be_paid(kind: str, affordable: list[int]) -> None:
    """Each provider that was asked has counted in its own prices."""
    errors: list[Any] = [to_error(failure_of(row)) for row in RECORDED if row["kind"] == kind]
    found = [getattr(error, "affordable_tokens", None) for error in errors]
    assert [each for each in found if each is not None] == affordable
    said = [error.user_message for error, number in zip(errors, found, strict=True) if number]
    named = [
        str(f"possible: {number:,}." in line) for number, line in zip(filter(None, found), said, strict=True)
    ]
    assert named == [str(kind == "no_credit")] * len(said)


def test_who_pays_with_an_own_key_waits_for_own_requests_too() -> None:
    """They have credits; only where these are too few is that said of the key's owner."""
    in_flight = {"error": {"message": "m", "metadata": {"limit_source": "openrouter_in_flight_budget"}}}
    lines = [
        to_error(read_failure(402, body), is_own_key=True).user_message
        for body in (in_flight, {"error": {"message": "m"}})
    ]
    assert [line.partition(" OpenRouter")[0] for line in lines] == [
        "Other requests are using what is left of the",
        "Your own",
    ]
