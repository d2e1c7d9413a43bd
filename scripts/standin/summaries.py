"""Prompts that programs write: requests for summaries, and Open WebUI's own tasks.

A request asks for a summary when its last user message, or what the system says, names all five fields. It says in one
of two forms what to summarize:

* at the end of a live chat, by how the part's first and last user messages begin, in ``<first_user_message>`` and
  ``<last_user_message>``; blanks do not matter. Without them the whole chat is the part.
* in a request of its own, between ``<conversation>`` and ``</conversation>``, where tags name the speakers.

The summary keeps the first words of the user's messages, the exact details of what both said, and what the user
demanded, in an eighth of the source at most.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from .plan import DirectiveError, plain_text
from .prompt import SYSTEM_ROLES, input_items, last_user, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .prompt import Tokenizer

FIELDS = ("summary_text", "key_facts", "open_questions", "decisions", "action_items")
QUOTES = re.compile(
    r"<first_user_message>(.*?)</first_user_message>.*?<last_user_message>(.*?)</last_user_message>",
    re.DOTALL,
)
CONVERSATION = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)
SPOKEN = re.compile(r"^<(user|assistant|tool_call)\b[^>\n]*>\n(.*?)\n</\1>$", re.DOTALL | re.MULTILINE)

SUMMARY_SHARE = 8
LEAST_SUMMARY_TOKENS = 400
FIRST_WORDS = 8
DEMAND_CHARS = 200
DETAIL = re.compile(r"[^\s\"'()<>,;]*[\d/@][^\s\"'()<>,;]*\w")
"""Links, addresses, ids, times, paths, numbers of more than one digit: a word that does not read like one."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
DEMAND = re.compile(r"\b(?:must|never|always)\b", re.IGNORECASE)

Passage = tuple[str, str]
"""Who speaks, and what, without directives."""


def instruction(body: dict[str, Any]) -> str:
    """What of a request asks for a summary; empty where nothing does."""
    items = input_items(body)
    said_by_system = [text_of(item) for item in items if item.get("role") in SYSTEM_ROLES]
    system = "\n".join([body.get("instructions") or "", *said_by_system])
    texts = (text_of(items[last_user(items)]) if last_user(items) >= 0 else "", system)
    return next((text for text in texts if all(field in text for field in FIELDS)), "")


def source_of(body: dict[str, Any]) -> list[Passage]:
    """The part that a request for a summary is about.

    Raises:
        DirectiveError: No user message begins as the request says.
    """
    items = input_items(body)
    last = last_user(items)
    asked = text_of(items[last]) if last >= 0 else ""
    if framed := CONVERSATION.search(asked):
        return [(speaker, plain_text(text)) for speaker, text in SPOKEN.findall(framed[1])]
    part, quotes = items[:last] if last >= 0 else items, QUOTES.search(asked)
    return list(_passages(_quoted_part(part, *quotes.groups()) if quotes else part))


def _quoted_part(chat: Sequence[dict[str, Any]], first: str, last: str) -> Sequence[dict[str, Any]]:
    users = [(at, _squeezed(text_of(item))) for at, item in enumerate(chat) if item.get("role") == "user"]
    start = _index_of(users, first)
    end = _index_of([(at, text) for at, text in users if at >= start], last)
    return chat[start : next((at for at, _ in users if at > end), len(chat))]


def _index_of(users: Sequence[tuple[int, str]], quoted: str) -> int:
    index = next((at for at, text in users if text.startswith(_squeezed(quoted))), None)
    if index is None:
        raise DirectiveError(f"no user message begins with {quoted!r}")
    return index


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _passages(items: Sequence[dict[str, Any]]) -> Iterator[Passage]:
    for item in items:
        speaker = "tool_call" if item.get("type") == "function_call_output" else item.get("role")
        if speaker in {"user", "assistant", "tool_call"}:
            yield speaker, plain_text(text_of(item))


def summary_of(source: Sequence[Passage], tokenizer: Tokenizer, limit_tokens: float) -> str:
    """A summary that a caller accepts; it takes no demand over but as a constraint."""

    def count(text: str) -> int:
        return len(tokenizer.encode(text))

    def fitting(texts: Iterable[str], room: int) -> Iterator[str]:
        for text in texts:
            room -= count(json.dumps(text)) + 1
            if room < 0:
                return
            yield text

    tokens = count("\n".join(text for _, text in source))
    wanted = max(tokens // SUMMARY_SHARE, min(LEAST_SUMMARY_TOKENS, tokens * 3 // 4))
    room = int(min(wanted, limit_tokens))
    users = [text for speaker, text in source if speaker == "user"]
    gist = [f"The user said: {' '.join(text.split()[:FIRST_WORDS])}." for text in users if text.strip()]
    sentences = (sentence for text in users for sentence in SENTENCE_END.split(text))
    demands = (sentence.strip()[:DEMAND_CHARS] for sentence in sentences if DEMAND.search(sentence))
    opening = "The assistant helped with what the user brought up."
    fields: dict[str, Any] = {
        **dict.fromkeys(FIELDS, ()),
        "summary_text": " ".join([opening, *fitting(gist, room // 4)]),
        "constraints": [{"quote": text} for text in fitting(demands, room // 2)],
    }
    details = (found for who, text in source if who != "tool_call" for found in DETAIL.findall(text))
    left = room - count(json.dumps(fields, ensure_ascii=False))
    return json.dumps({**fields, "key_facts": [*fitting(dict.fromkeys(details), left)]}, ensure_ascii=False)


# --- Open WebUI's own prompts ---

TASK = "### Task:"
TITLE_WORDS = 4
USER_LINE = re.compile(r"^USER: (.*)$", re.MULTILINE)


def task_answer(text: str) -> str | None:
    """What one of Open WebUI's own prompts asks for, as JSON; None for any other text."""
    if not text.startswith(TASK):
        return None
    said = USER_LINE.findall(text)
    topic = " ".join((plain_text(said[-1]) if said else "New chat").split()[:TITLE_WORDS])
    answers: dict[str, Any] = {
        "Summarize the conversation history that will be compacted": f"The user spoke of {topic}.",
        '{ "title":': {"title": topic.title()},
        '{ "tags":': {"tags": ["General", "Testing"]},
        '"follow_ups":': {"follow_ups": ["Tell me more.", "Why is that?", "Show an example."]},
        '"queries":': {"queries": [topic]},
        '{ "text":': {"text": "and so on."},
        '"prompt":': {"prompt": f"A picture of {topic}"},
    }
    return next((json.dumps(answer) for sign, answer in answers.items() if sign in text), None)
