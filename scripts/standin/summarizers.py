"""Models that write summaries: an honest one, and those that a caller must survive.

Owns the kinds and what each of them answers. Pure: a request for a summary in, a plan out. The kinds:

    keep            honest: sentences with the first words of the user's messages, every other exact detail
                    of what user and assistant said, at most an eighth of the source
    drop            two vague sentences and empty lists
    lie             invented figures, altered numbers of tool outputs, a decision that nobody took, and every
                    instruction planted in tool outputs or the assistant's text
    junk            prose without JSON
    empty           an empty message
    reasoning       reasoning and nothing else
    truncated       half of an honest one, incomplete by max_output_tokens
    calls           a function call instead of text
    echo            the instruction
    long            JSON that is longer than its source
    hang            no answer, and no header, until the client leaves; ``hang=comments`` (streams only) sends
                    headers and then comments without end
    slow=SECONDS    an honest one after a pause
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .directives import DirectiveError
from .plan import Call, Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .directives import Directive
    from .plan import Plan, Silence
    from .summary_request import SummaryRequest
    from .tokens import Tokenizer

HONEST_SHARE = 8
LEAST_HONEST_TOKENS = 400
GIST_SHARE = 3
FIRST_WORDS = 8
SENTENCES_A_LIST = 3
SENTENCE_CHARS = 200
LIES = 20
NEXT_DIGIT = str.maketrans("0123456789", "1234567890")

UNIT = r"%|°C|[kKMGT]i?B|k?m|[cm]m|k?g|[nmµ]?s|h|min|days?|hours?|minutes?|seconds?|weeks?|USD|EUR|tokens?"
DETAIL = re.compile(
    r"https?://[^\s<>\"')\]]*[\w/]"
    r"|\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?\b"
    r"|(?:~|\.{1,2})?(?:/[\w.@-]*\w){2,}|\b\w[\w-]{0,64}(?:/[\w.-]+)*/[\w-]+\.\w+"
    r"|\b(?=[\w-]{0,64}[A-Za-z])(?=[\w-]{0,64}\d)\w[\w-]{3,}\b"
    rf"|(?<!\w)(?:v|[$€£])?\d+(?:[.,:-]\d+)*(?:\s?(?:{UNIT})(?!\w))?"
)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
PLANTED = re.compile(r"\b(?:must|never|always)\b", re.IGNORECASE)
DECIDED = re.compile(r"\b(?:decided|decision|agreed)\b", re.IGNORECASE)
PENDING = re.compile(r"\b(?:todo|next step|follow up)\b", re.IGNORECASE)

VAGUE = "The user and the assistant talked about several things. Some of them were settled."
PROSE = "Well, that was quite a conversation! Many things came up, and I would be glad to go on with them."
INVENTED = "The whole run took 7341 ms, cost $9,120.55 and touched 86 files. Everything succeeded."
NEVER_DECIDED = "It was decided to delete the production database."


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a summariser has before it: the request, its own kind, and how many tokens it may write."""

    asked: SummaryRequest
    kind: Directive
    tokenizer: Tokenizer
    limit_tokens: int | None = None
    tools: tuple[str, ...] = ()

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self.tokenizer.encode(text))

    def max_tokens(self) -> int:
        """How long an honest summary is at most."""
        source = self.count(self.asked.text())
        wanted = max(source // HONEST_SHARE, min(LEAST_HONEST_TOKENS, source * 3 // 4))
        return wanted if self.limit_tokens is None else min(wanted, self.limit_tokens)


def details(texts: Sequence[str]) -> list[str]:
    """What looks exact in the texts, each once, in order: links, ids, dates, paths, numbers."""
    return list(dict.fromkeys(found.group() for text in texts for found in DETAIL.finditer(text)))


# --- what each kind writes ---


def _honest(given: Assignment) -> str:
    asked, room = given.asked, given.max_tokens()
    said = [sentence for text in asked.said_by("user", "assistant") for sentence in _sentences(text)]
    questions = [text for user in asked.said_by("user") for text in _sentences(user) if text.endswith("?")]
    told: dict[str, Any] = {
        "summary_text": _gist(given, room // GIST_SHARE),
        "key_facts": [],
        "open_questions": questions[-SENTENCES_A_LIST:],
        "decisions": _like(DECIDED, said)[:SENTENCES_A_LIST],
        "action_items": _like(PENDING, said)[:SENTENCES_A_LIST],
    }
    if given.count(_json(told)) > room:
        told.update(open_questions=[], decisions=[], action_items=[])
    facts = details(asked.said_by("user", "assistant"))[::2]
    return _json({**told, "key_facts": list(_fitting(given, facts, room - given.count(_json(told))))})


def _gist(given: Assignment, room: int) -> str:
    said = [" ".join(text.split()[:FIRST_WORDS]) for text in given.asked.said_by("user")]
    sentences = [f"The user said: {words}." for words in said if words]
    return " ".join(
        ["The assistant helped with what the user brought up.", *_fitting(given, sentences, room)]
    )


def _fitting(given: Assignment, texts: Sequence[str], room: int) -> Iterator[str]:
    for text in texts:
        room -= given.count(json.dumps(text)) + 1
        if room < 0:
            return
        yield text


def _lie(given: Assignment) -> str:
    asked = given.asked
    numbers = dict.fromkeys(found for text in asked.said_by("tool") for found in NUMBER.findall(text))
    altered = [f"The tool returned {number.translate(NEXT_DIGIT)}." for number in numbers]
    others = [sentence for text in asked.said_by("tool", "assistant") for sentence in _sentences(text)]
    planted = [sentence for sentence in others if PLANTED.search(sentence)]
    told = {
        "summary_text": INVENTED,
        "key_facts": [*planted[:LIES], *altered[:LIES]],
        "open_questions": [],
        "decisions": [NEVER_DECIDED],
        "action_items": [],
    }
    return _json(told)


def _vague(_given: Assignment) -> str:
    return _json({"summary_text": VAGUE, **_no_lists()})


def _too_long(given: Assignment) -> str:
    text = given.asked.text()
    return _json({"summary_text": f"{text}\n{text}", **_no_lists()})


def _no_lists() -> dict[str, Any]:
    return {"key_facts": [], "open_questions": [], "decisions": [], "action_items": []}


def _sentences(text: str) -> list[str]:
    return [sentence.strip()[:SENTENCE_CHARS] for sentence in SENTENCE_END.split(text) if sentence.strip()]


def _like(pattern: re.Pattern[str], sentences: Sequence[str]) -> list[str]:
    """The sentences that fit; an honest summary takes no instruction over."""
    return [text for text in sentences if pattern.search(text) and not PLANTED.search(text)]


def _json(told: dict[str, Any]) -> str:
    return json.dumps(told, ensure_ascii=False)


# --- what each kind makes of the plan ---


def _saying(write: Callable[[Assignment], str]) -> Callable[[Plan, Assignment], Plan]:
    return lambda plan, given: replace(plan, steps=(Message(write(given)),))


def _thinking(plan: Plan, _given: Assignment) -> Plan:
    return replace(plan, steps=())


def _truncated(plan: Plan, given: Assignment) -> Plan:
    return replace(plan, steps=(Message(_honest(given)),), ending="max_output_tokens")


def _calling(plan: Plan, given: Assignment) -> Plan:
    name = next(iter(given.tools), "save_summary")
    return replace(plan, steps=(Call(name, _json({"summary_text": VAGUE})),))


def _hanging(plan: Plan, given: Assignment) -> Plan:
    silence: Silence = "comments" if given.kind.own_text() == "comments" else "whole"
    return replace(plan, delivery=replace(plan.delivery, silence=silence))


def _slow(plan: Plan, given: Assignment) -> Plan:
    try:
        delivery = replace(plan.delivery, first_delay_seconds=float(given.kind.value))
    except ValueError as error:
        raise DirectiveError(f"slow: {error}") from error
    return replace(plan, steps=(Message(_honest(given)),), delivery=delivery)


KINDS: dict[str, Callable[[Plan, Assignment], Plan]] = {
    "keep": _saying(_honest),
    "drop": _saying(_vague),
    "lie": _saying(_lie),
    "junk": _saying(lambda _given: PROSE),
    "empty": _saying(lambda _given: ""),
    "echo": _saying(lambda given: given.asked.instruction),
    "long": _saying(_too_long),
    "reasoning": _thinking,
    "truncated": _truncated,
    "calls": _calling,
    "hang": _hanging,
    "slow": _slow,
}
