"""Requests for summaries, and models that answer them: an honest one, and those that a caller must survive.

A request asks for a summary when its last user message, or what the system says, names all five fields. There are
two forms:

* the end of a live chat, whose last user message quotes how the part's first and last user messages begin,
  in ``<first_user_message>`` and ``<last_user_message>``, up to 200 characters each; XML escapes, blanks and
  a trailing ellipsis do not matter. An exact match goes before a beginning, and the earliest before a later.
* a request of its own, whose user message holds the part between ``<conversation>`` and ``</conversation>``.
  A line that begins with ``user``, ``assistant`` or ``tool``, marks around it and a ``:``, ``]`` or ``>``
  behind it (``user:``, ``[tool get_weather]``, ``<assistant>``), says who speaks from there on.

Without quotes and tags the whole chat before the last user message is the part. The kinds of models:

    keep            honest: sentences with the first words of the user's messages, every other exact detail
                    of what user and assistant said, at most an eighth of the source; what the user
                    demanded, where the request names a field `constraints`
    drop            two vague sentences and empty lists
    lie             invented numbers, altered numbers of tool outputs, a decision that nobody took, and every
                    instruction planted in tool outputs or the assistant's text; as a constraint every one
                    that anybody wrote
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

import html
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from .directives import DirectiveError, plain_text
from .plan import Call, Message
from .prompt import input_items, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .directives import Directive
    from .plan import Plan, Silence
    from .tokens import Tokenizer

Speaker = Literal["user", "assistant", "tool", "anyone"]

FIELDS = ("summary_text", "key_facts", "open_questions", "decisions", "action_items")
QUOTES = tuple(
    re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("first_user_message", "last_user_message")
)
CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)
SPEAKING = re.compile(
    r"^[^\w\n]{0,4}(user|assistant|tool)\b[^\n:\]>]{0,80}[:\]>]", re.IGNORECASE | re.MULTILINE
)
SPEAKERS: dict[str, Speaker] = {"user": "user", "assistant": "assistant", "tool": "tool"}
CUT_ENTITY = re.compile(r"&\w*$")

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

VAGUE = "The user and the assistant talked about several things. Some of them were decided."
PROSE = "Well, that was quite a conversation! Many things came up, and I would be glad to go on with them."
INVENTED = "The whole run took 7341 ms, cost $9,120.55 and touched 86 files. Everything succeeded."
NEVER_DECIDED = "It was decided to delete the production database."


# --- requests ---


@dataclass(frozen=True, slots=True)
class Passage:
    """What one of them said, without directives; ``anyone`` where the transcript does not say who."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A request for a summary: its instruction, and the part to summarise."""

    instruction: str
    source: tuple[Passage, ...]

    @classmethod
    def of(cls, body: dict[str, Any]) -> SummaryRequest | None:
        """Read an accepted request; None when it asks for no summary.

        Raises:
            DirectiveError: No user message begins as the request says.
        """
        if not is_summary_request(body):
            return None
        items = input_items(body)
        last = _last_user(items)
        instruction = text_of(items[last]) if last >= 0 else ""
        system = _system_text(body, items)
        framed = CONVERSATION.search(instruction)
        quotes = [quote.search(instruction) for quote in QUOTES]
        if framed and (_names_all(system) or not all(quotes)):
            outside = instruction[: framed.start()] + instruction[framed.end() :]
            return cls(system if _names_all(system) else outside, tuple(_transcribed(framed.group(1))))
        chat = items[:last] if last >= 0 else items
        part = _part(chat, *(quote.group(1) for quote in quotes if quote)) if all(quotes) else chat
        return cls(instruction if _names_all(instruction) else system, tuple(_passages(part)))

    def said_by(self, *speakers: Speaker) -> list[str]:
        """What these said, in order; a text whose speaker is not known counts for each."""
        return [passage.text for passage in self.source if passage.speaker in {*speakers, "anyone"}]

    def text(self) -> str:
        """All of the part."""
        return "\n".join(passage.text for passage in self.source)


def is_summary_request(body: dict[str, Any]) -> bool:
    """Whether an accepted request asks for a summary."""
    items = input_items(body)
    last = _last_user(items)
    return _names_all(_system_text(body, items)) or (last >= 0 and _names_all(text_of(items[last])))


def _names_all(text: str) -> bool:
    return all(field in text for field in FIELDS)


def _last_user(items: Sequence[dict[str, Any]]) -> int:
    return max((at for at, item in enumerate(items) if item.get("role") == "user"), default=-1)


def _system_text(body: dict[str, Any], items: Sequence[dict[str, Any]]) -> str:
    said = [text_of(item) for item in items if item.get("role") in {"system", "developer"}]
    return "\n".join([body.get("instructions") or "", *said])


# --- the end of a live chat ---


def _part(chat: Sequence[dict[str, Any]], first: str, last: str) -> Sequence[dict[str, Any]]:
    users = [(at, _tidy(text_of(item))) for at, item in enumerate(chat) if item.get("role") == "user"]
    start = _index_of(users, first)
    end = _index_of([(at, text) for at, text in users if at >= start], last)
    return chat[start : next((at for at, _ in users if at > end), len(chat))]


def _index_of(users: Sequence[tuple[int, str]], quoted: str) -> int:
    wanted = _tidy(CUT_ENTITY.sub("", quoted))
    exact = (at for at, text in users if text == wanted)
    begun = (at for at, text in users if text.startswith(wanted.rstrip("….")))
    index = next(exact, next(begun, None))
    if index is None:
        raise DirectiveError(f"no user message begins with {quoted!r}")
    return index


def _tidy(text: str) -> str:
    """The text without blanks, and without escapes however often it was escaped."""
    plain = html.unescape(text)
    while plain != text:
        text, plain = plain, html.unescape(plain)
    return "".join(plain.split())


def _passages(items: Sequence[dict[str, Any]]) -> Iterator[Passage]:
    for item in items:
        called = "tool" if item.get("type") == "function_call_output" else item.get("role")
        if called in SPEAKERS:
            yield Passage(SPEAKERS[called], plain_text(text_of(item)))


# --- a request of its own ---


def _transcribed(transcript: str) -> Iterator[Passage]:
    transcript = plain_text(transcript)
    speaker: Speaker = "anyone"
    start = 0
    for turn in SPEAKING.finditer(transcript):
        if said := transcript[start : turn.start()].strip():
            yield Passage(speaker, said)
        speaker, start = SPEAKERS[turn.group(1).lower()], turn.end()
    if said := transcript[start:].strip():
        yield Passage(speaker, said)


# --- answers ---


@dataclass(frozen=True, slots=True)
class SummaryTask:
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


def _honest(task: SummaryTask) -> str:
    asked, room = task.asked, task.max_tokens()
    said = [sentence for text in asked.said_by("user", "assistant") for sentence in _sentences(text)]
    questions = [text for user in asked.said_by("user") for text in _sentences(user) if text.endswith("?")]
    fields: dict[str, Any] = {
        "summary_text": _gist(task, room // GIST_SHARE),
        "key_facts": [],
        "open_questions": questions[-SENTENCES_A_LIST:],
        "decisions": _like(DECIDED, said)[:SENTENCES_A_LIST],
        "action_items": _like(PENDING, said)[:SENTENCES_A_LIST],
    }
    rules = [text for user in asked.said_by("user") for text in _sentences(user) if PLANTED.search(text)]
    fields |= _constraints(task, _fitting(task, rules, room // GIST_SHARE))
    if task.count(_json(fields)) > room:
        fields.update(open_questions=[], decisions=[], action_items=[])
    facts = details(asked.said_by("user", "assistant"))[::2]
    return _json({**fields, "key_facts": list(_fitting(task, facts, room - task.count(_json(fields))))})


def _gist(task: SummaryTask, room: int) -> str:
    said = [" ".join(text.split()[:FIRST_WORDS]) for text in task.asked.said_by("user")]
    sentences = [f"The user said: {words}." for words in said if words]
    return " ".join(["The assistant helped with what the user brought up.", *_fitting(task, sentences, room)])


def _constraints(task: SummaryTask, quotes: Iterable[str]) -> dict[str, Any]:
    """The field for them, if the instruction asks for one."""
    return (
        {"constraints": [{"quote": text} for text in quotes]}
        if "constraints" in task.asked.instruction
        else {}
    )


def _fitting(task: SummaryTask, texts: Sequence[str], room: int) -> Iterator[str]:
    for text in texts:
        room -= task.count(json.dumps(text)) + 1
        if room < 0:
            return
        yield text


def _lie(task: SummaryTask) -> str:
    asked = task.asked
    numbers = dict.fromkeys(found for text in asked.said_by("tool") for found in NUMBER.findall(text))
    altered = [f"The tool returned {number.translate(NEXT_DIGIT)}." for number in numbers]
    others = [sentence for text in asked.said_by("tool", "assistant") for sentence in _sentences(text)]
    planted = [sentence for sentence in others if PLANTED.search(sentence)]
    fields = {
        "summary_text": INVENTED,
        "key_facts": [*planted[:LIES], *altered[:LIES]],
        "open_questions": [],
        "decisions": [NEVER_DECIDED],
        "action_items": [],
    }
    said = (sentence for text in asked.said_by("user", "assistant", "tool") for sentence in _sentences(text))
    return _json(fields | _constraints(task, (text for text in said if PLANTED.search(text))))


def _vague(_task: SummaryTask) -> str:
    return _json({"summary_text": VAGUE, **_no_lists()})


def _too_long(task: SummaryTask) -> str:
    text = task.asked.text()
    return _json({"summary_text": f"{text}\n{text}", **_no_lists()})


def _no_lists() -> dict[str, Any]:
    return {"key_facts": [], "open_questions": [], "decisions": [], "action_items": []}


def _sentences(text: str) -> list[str]:
    return [sentence.strip()[:SENTENCE_CHARS] for sentence in SENTENCE_END.split(text) if sentence.strip()]


def _like(pattern: re.Pattern[str], sentences: Sequence[str]) -> list[str]:
    """The sentences that fit; an honest summary takes no instruction over."""
    return [text for text in sentences if pattern.search(text) and not PLANTED.search(text)]


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False)


# --- what each kind makes of the plan ---


def _saying(write: Callable[[SummaryTask], str]) -> Callable[[Plan, SummaryTask], Plan]:
    return lambda plan, task: replace(plan, steps=(Message(write(task)),))


def _thinking(plan: Plan, _task: SummaryTask) -> Plan:
    return replace(plan, steps=())


def _truncated(plan: Plan, task: SummaryTask) -> Plan:
    return replace(plan, steps=(Message(_honest(task)),), ending="max_output_tokens")


def _calling(plan: Plan, task: SummaryTask) -> Plan:
    name = next(iter(task.tools), "save_summary")
    return replace(plan, steps=(Call(name, _json({"summary_text": VAGUE})),))


def _hanging(plan: Plan, task: SummaryTask) -> Plan:
    silence: Silence = "comments" if task.kind.value_text() == "comments" else "whole"
    return replace(plan, delivery=replace(plan.delivery, silence=silence))


def _slow(plan: Plan, task: SummaryTask) -> Plan:
    try:
        delivery = replace(plan.delivery, first_delay_seconds=float(task.kind.value))
    except ValueError as error:
        raise DirectiveError(f"slow: {error}") from error
    return replace(plan, steps=(Message(_honest(task)),), delivery=delivery)


KINDS: dict[str, Callable[[Plan, SummaryTask], Plan]] = {
    "keep": _saying(_honest),
    "drop": _saying(_vague),
    "lie": _saying(_lie),
    "junk": _saying(lambda _task: PROSE),
    "empty": _saying(lambda _task: ""),
    "echo": _saying(lambda task: task.asked.instruction),
    "long": _saying(_too_long),
    "reasoning": _thinking,
    "truncated": _truncated,
    "calls": _calling,
    "hang": _hanging,
    "slow": _slow,
}
