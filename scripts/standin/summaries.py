"""Prompts that programs write: requests for summaries, with models that fail at them, and Open WebUI's own tasks.

A request asks for a summary when its last user message, or what the system says, names all five fields. There are
two forms:

* the end of a live chat, whose last user message quotes how the part's first and last user messages begin,
  in ``<first_user_message>`` and ``<last_user_message>``, up to 200 characters each; XML escapes, blanks and
  a trailing ellipsis do not matter. An exact match goes before a beginning, and the earliest before a later.
* a request of its own, whose user message holds the part between ``<conversation>`` and ``</conversation>``.
  A line that begins with ``user``, ``assistant`` or ``tool``, marks around it and a ``:``, ``]`` or ``>``
  behind it (``user:``, ``[tool get_weather]``, ``<assistant>``), says who speaks from there on.

Without quotes and tags the whole chat before the last user message is the part. The kinds of models:

    keep            honest: the first words of the user's messages, the exact details of what user and assistant
                    said, at most an eighth of the source; what the user demanded, where the request names a
                    field `constraints`
    junk            prose without JSON
    empty           an empty message
    reasoning       reasoning and nothing else
    truncated       half of an honest one, incomplete by max_output_tokens
    calls           a function call instead of text
    echo            the instruction
    hang            no answer, and no header, until the client leaves
    slow=SECONDS    an honest one after a pause
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .plan import DirectiveError, call, message, plain_text
from .prompt import input_items, last_user, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .plan import Directive, Plan
    from .prompt import Tokenizer

FIELDS = ("summary_text", "key_facts", "open_questions", "decisions", "action_items")
QUOTES = tuple(
    re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("first_user_message", "last_user_message")
)
CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)
SPEAKING = re.compile(
    r"^[^\w\n]{0,4}(user|assistant|tool)\b[^\n:\]>]{0,80}[:\]>]", re.IGNORECASE | re.MULTILINE
)
CUT_ENTITY = re.compile(r"&\w*$")

HONEST_SHARE = 8
LEAST_HONEST_TOKENS = 400
FIRST_WORDS = 8
SENTENCE_CHARS = 200
DETAIL = re.compile(r"[^\s\"'()<>,;]*[\d/@][^\s\"'()<>,;]*\w")
"""Links, addresses, ids, times, paths, numbers of more than one digit: a word that does not read like one."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
DEMAND = re.compile(r"\b(?:must|never|always)\b", re.IGNORECASE)
PROSE = "Well, that was quite a conversation! Many things came up, and I would be glad to go on with them."

Passage = tuple[str, str]
"""Who speaks ("user", "assistant", "tool", or "" where the transcript does not say), and what, without directives."""


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
        items = input_items(body)
        last = last_user(items)
        instruction = text_of(items[last]) if last >= 0 else ""
        system = "\n".join(
            [
                body.get("instructions") or "",
                *(text_of(each) for each in items if each.get("role") in {"system", "developer"}),
            ]
        )
        if not (_names_all(instruction) or _names_all(system)):
            return None
        framed = CONVERSATION.search(instruction)
        quotes = [quote.search(instruction) for quote in QUOTES]
        if framed and (_names_all(system) or not all(quotes)):
            outside = instruction[: framed.start()] + instruction[framed.end() :]
            return cls(system if _names_all(system) else outside, tuple(_transcribed(framed[1])))
        chat = items[:last] if last >= 0 else items
        part = _part(chat, *(quote[1] for quote in quotes if quote)) if all(quotes) else chat
        return cls(instruction if _names_all(instruction) else system, tuple(_passages(part)))

    def said_by(self, *speakers: str) -> list[str]:
        """What these said, in order; a text whose speaker is not known counts for each."""
        return [text for speaker, text in self.source if speaker in {*speakers, ""}]

    def text(self) -> str:
        """All of the part."""
        return "\n".join(text for _, text in self.source)


def is_summary_request(body: dict[str, Any]) -> bool:
    """Whether an accepted request asks for a summary, whatever it quotes."""
    try:
        return SummaryRequest.of(body) is not None
    except DirectiveError:
        return True


def _names_all(text: str) -> bool:
    return all(field in text for field in FIELDS)


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
    while (plain := html.unescape(text)) != text:
        text = plain
    return "".join(text.split())


def _passages(items: Sequence[dict[str, Any]]) -> Iterator[Passage]:
    for item in items:
        speaker = "tool" if item.get("type") == "function_call_output" else item.get("role")
        if speaker in {"user", "assistant", "tool"}:
            yield speaker, plain_text(text_of(item))


def _transcribed(transcript: str) -> Iterator[Passage]:
    opening, *rest = SPEAKING.split(plain_text(transcript))
    for speaker, text in zip(["", *rest[::2]], [opening, *rest[1::2]], strict=True):
        if said := text.strip():
            yield speaker.lower(), said


# --- what each kind makes of the plan ---


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """What a summariser has before it: the request, its own kind, and how many tokens it may write."""

    asked: SummaryRequest
    kind: Directive
    tokenizer: Tokenizer
    limit_tokens: float
    tools: tuple[str, ...] = ()

    def honest(self) -> str:
        """A summary that a caller accepts; it takes no demand over but as a constraint."""
        room = self._max_tokens()
        users = self.asked.said_by("user")
        gist = [f"The user said: {' '.join(text.split()[:FIRST_WORDS])}." for text in users if text.split()]
        demands = [each for text in users for each in _sentences(text) if DEMAND.search(each)]
        opening = "The assistant helped with what the user brought up."
        fields: dict[str, Any] = {
            "summary_text": " ".join([opening, *self._fitting(gist, room // 3)]),
            **{name: [] for name in FIELDS[1:]},
        }
        if "constraints" in self.asked.instruction:
            fields["constraints"] = [{"quote": text} for text in self._fitting(demands, room // 3)]
        details = (
            found for text in self.asked.said_by("user", "assistant") for found in DETAIL.findall(text)
        )
        facts = self._fitting(list(dict.fromkeys(details)), room - self._count(_json(fields)))
        return _json({**fields, "key_facts": list(facts)})

    def _max_tokens(self) -> int:
        source = self._count(self.asked.text())
        wanted = max(source // HONEST_SHARE, min(LEAST_HONEST_TOKENS, source * 3 // 4))
        return int(min(wanted, self.limit_tokens))

    def _fitting(self, texts: Sequence[str], room: int) -> Iterator[str]:
        for text in texts:
            room -= self._count(json.dumps(text)) + 1
            if room < 0:
                return
            yield text

    def _count(self, text: str) -> int:
        return len(self.tokenizer.encode(text))


def _sentences(text: str) -> list[str]:
    return [sentence.strip()[:SENTENCE_CHARS] for sentence in SENTENCE_END.split(text) if sentence.strip()]


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False)


def _saying(write: Callable[[SummaryTask], str], **changes: Any) -> Callable[[Plan, SummaryTask], Plan]:
    return lambda plan, task: replace(plan, items=(message(write(task)),), **changes)


def _calling(plan: Plan, task: SummaryTask) -> Plan:
    return replace(plan, items=(call(next(iter(task.tools), "save_summary"), '{"summary_text": "A talk."}'),))


def _hanging(plan: Plan, _task: SummaryTask) -> Plan:
    return replace(plan, delivery=replace(plan.delivery, silent=True))


def _slow(plan: Plan, task: SummaryTask) -> Plan:
    try:
        delivery = replace(plan.delivery, first_delay_seconds=float(task.kind.value))
    except ValueError as error:
        raise DirectiveError(f"slow: {error}") from error
    return replace(plan, items=(message(task.honest()),), delivery=delivery)


KINDS: dict[str, Callable[[Plan, SummaryTask], Plan]] = {
    "keep": _saying(SummaryTask.honest),
    "junk": _saying(lambda _task: PROSE),
    "empty": _saying(lambda _task: ""),
    "echo": _saying(lambda task: task.asked.instruction),
    "truncated": _saying(SummaryTask.honest, ending="max_output_tokens"),
    "reasoning": lambda plan, _task: replace(plan, items=()),
    "calls": _calling,
    "hang": _hanging,
    "slow": _slow,
}

# --- Open WebUI's own prompts ---

TASK = "### Task:"
TITLE_WORDS = 4
USER_LINE = re.compile(r"^USER: (.*)$", re.MULTILINE)
COMPACTION = "Summarize the conversation history that will be compacted"
COMPACTED = re.compile(r"### Messages Being Compacted:\n(.*)\n### Recent Messages Kept", re.DOTALL)
EARLIER = re.compile(r"### Previous Summary:\n(.*?)\n*### Messages Being Compacted:", re.DOTALL)
EARLIER_CHARS = 400
COMPACTED_MESSAGES = 5
COMPACTED_WORDS = 12


def task_answer(text: str) -> str | None:
    """What one of Open WebUI's own prompts asks for, JSON or prose; None for any other text."""
    if not text.startswith(TASK):
        return None
    if text.removeprefix(TASK).lstrip().startswith(COMPACTION):
        return _compacted(text)
    said = USER_LINE.findall(text)
    topic = " ".join((plain_text(said[-1]) if said else "New chat").split()[:TITLE_WORDS])
    answers: dict[str, Any] = {
        '{ "title":': {"title": topic.title()},
        '{ "tags":': {"tags": ["General", "Testing"]},
        '"follow_ups":': {"follow_ups": ["Tell me more.", "Why is that?", "Show an example."]},
        '"queries":': {"queries": [topic]},
        '{ "text":': {"text": "and so on."},
        '"prompt":': {"prompt": f"A picture of {topic}"},
    }
    return next((json.dumps(answer) for sign, answer in answers.items() if sign in text), None)


def _compacted(text: str) -> str:
    """A few sentences: what the summary before said, and how the user's last messages began."""
    messages, earlier = COMPACTED.search(text), EARLIER.search(text)
    before = earlier[1].strip()[:EARLIER_CHARS] if earlier else ""
    said = USER_LINE.findall(messages[1] if messages else text)[-COMPACTED_MESSAGES:]
    asked = [f'The user said: "{" ".join(plain_text(line).split()[:COMPACTED_WORDS])}".' for line in said]
    return " ".join([*([before] if before else []), *asked, "The assistant answered."])
