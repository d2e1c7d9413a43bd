"""Each user's chats, as the host stores them, beside what the stand-in was sent and has answered.

A law with means of its own, nothing of the package: nothing of a chat is lost or doubled, on the way there or back, and
no request holds a word of another user or another chat.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from scripts.faults.upstream import TAG, digest
from scripts.faults.users import NARROW, Asked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scripts.faults.audit import Report

Json = dict[str, Any]

OURS = re.compile(r"\n*\[[0-9A-HJKMNP-TV-Z]{20}\]: #\n*|!\[[^\]]*\]\([^)]*\)")
"""What is beside the model's words in an answer's text: markers, and pictures."""
LEFT = {"stop", "leave", "close", "cut"}
"""Acts after which an answer may be stored in part, or not at all."""
SETTLE_SECONDS = 10.0
"""So long a busy host may take to store an answer that has ended; in an outage it is stored by nobody."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer as the host stored it: the question's number, and the text of the answer before the question.

    `before` is None where the question is a chat's first.
    """

    question: int
    text: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """When a server was away, or a worker was killed, in epoch seconds."""

    kind: str
    began: float
    ended: float

    def meets(self, request: Json) -> bool:
        """Whether a request was under way in it, or soon before."""
        return bool(
            request["began"] <= self.ended + SETTLE_SECONDS
            and (request["ended"] or request["began"]) >= self.began - SETTLE_SECONDS
        )


def read_text(message: Json) -> str:
    """The model's words in a stored answer: those of its items where it has some."""
    parts = [
        part.get("text", "")
        for item in message.get("output") or []
        if item["type"] == "message"
        for part in item["content"]
    ]
    return OURS.sub("", "\n".join(parts) if parts else str(message.get("content") or ""))


def stored_in(chat: Json) -> Iterator[Stored]:
    """The answers of a chat to questions that have a tag."""
    messages = chat["history"]["messages"]
    for message in messages.values():
        question = messages.get(message.get("parentId")) or {}
        found = TAG.search(str(question.get("content"))) if message["role"] == "assistant" else None
        if found:
            before = messages.get(question.get("parentId"))
            yield Stored(int(found[1]), read_text(message), read_text(before) if before else None)


def compare_chats(
    asked: Mapping[int, Asked],
    stored: Sequence[Stored],
    log: Sequence[Json],
    outages: Sequence[Outage],
    report: Report,
) -> None:
    """Compare what was asked, stored and logged by the stand-in, and add to the report."""
    requests = [each for each in log if each["path"] == "/responses"]
    figures, violations = report.figures, report.violations
    figures["requests that the stand-in was sent"] = len(requests)
    figures["questions"] = len(asked)
    figures["answers stored"] = len(stored)
    for request in requests:
        violations += _foreign(request, asked)
        if request["warnings"] or 400 <= request["status"] < 429:
            violations.append(
                f"refused or warned of: {request['status']} {request['error'] or request['warnings']}"
            )
    users = defaultdict[str, set[str]](set)
    answers = defaultdict[int, list[Json]](list)
    for request in requests:
        if request["kind"] == "answer" and (number := _question(request)) in asked:
            answers[number].append(request)
            users[asked[number].user].add(request["user"])
    names = [name for found in users.values() for name in found]
    violations += [f"{user} is named {sorted(found)}" for user, found in users.items() if len(found) > 1]
    violations += [f"{name} names several users" for name in {*names} if names.count(name) > 1]
    violations += _misplaced(answers, asked, stored)
    of = defaultdict[int, list[Stored]](list)
    for answer in stored:
        of[answer.question].append(answer)
    lost = 0
    for number, question in asked.items():
        wrong, gone = _unlike(question, answers[number], of[number], outages)
        violations += wrong
        lost += gone
    figures["answers that an outage, Stop or leaving has cost"] = lost


def _question(request: Json) -> int:
    """Which question a request asks, -1 for none: the last one in it."""
    numbers = [value for kind, value in request["items"] if kind == "question"]
    return int(numbers[-1]) if numbers else -1


def _foreign(request: Json, asked: Mapping[int, Asked]) -> list[str]:
    chats = {asked[number].path[0] for number in request["tags"] if number in asked}
    return [f"a request has words of several chats: {sorted(chats)}"] if len(chats) > 1 else []


def _misplaced(
    answers: Mapping[int, list[Json]], asked: Mapping[int, Asked], stored: Sequence[Stored]
) -> list[str]:
    """What is lost, doubled or exchanged of a chat in the requests for its answers.

    Of a chat that is not sent whole, the last answer is; a question may be sent while the answer before still comes.
    """
    ended = {
        digest(request["written"]): request["ended"]
        for found in answers.values()
        for request in found
        if request["is_whole"] and request["written"]
    }
    before = {each.question: digest(each.before) for each in stored if each.before is not None}
    wrong = list[str]()
    for number, found in answers.items():
        for request in found:
            numbers = [value for kind, value in request["items"] if kind == "question"]
            path, is_narrow = asked[number].path, asked[number].model in NARROW
            kept = [each for each in path if each in numbers] if is_narrow else [*path]
            if numbers != kept:
                wrong.append(f"question {number} was sent as {numbers}, and is {kept}")
                continue
            for earlier, answer in _replayed(request["items"]).items():
                expected = before.get(earlier)
                is_due = request["began"] > ended.get(expected or "", inf) + SETTLE_SECONDS and not (
                    is_narrow and earlier != number
                )
                if is_due and answer != [expected] and earlier != kept[0]:
                    wrong.append(f"question {number} was sent with other answers before {earlier}")
    return wrong


def _replayed(items: Sequence[tuple[str, Any]]) -> dict[int, list[str]]:
    """The answers before each question."""
    found, between = dict[int, list[str]](), list[str]()
    for kind, value in items:
        if kind == "question":
            found[value], between = between, []
        else:
            between.append(value)
    return found


def _unlike(
    asked: Asked, requests: Sequence[Json], stored: Sequence[Stored], outages: Sequence[Outage]
) -> tuple[list[str], int]:
    """What differs between the answers to a question and what is stored of them, and how many were left or lost."""
    if "temporary" in asked.acts:  # nobody keeps it
        return [], 0
    written = [request for request in requests if request["written"]]
    whole = [request for request in written if request["is_whole"]]
    texts = [each.text for each in stored] if asked.heard is None else [OURS.sub("", asked.heard)]
    wrong, excused = list[str](), 0
    for text in texts:
        words = " ".join(text.split())
        same = [each for each in whole if digest(each["written"]) == digest(text)]
        tags = {*map(int, TAG.findall(text))} - {asked.number}
        if same:
            whole.remove(same[0])
        elif tags or (
            written and not any(" ".join(each["written"].split()).startswith(words) for each in written)
        ):
            wrong.append(f"question {asked.number}: no answer was {words[:200]!r}")
    is_left = bool(asked.acts & LEFT)
    for request in whole if not wrong else ():
        if is_left or any(outage.meets(request) for outage in outages):
            excused += 1
        else:
            wrong.append(f"question {asked.number} was answered, and that is not stored")
    return wrong, excused
