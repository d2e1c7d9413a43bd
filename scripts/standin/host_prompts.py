"""The answers to Open WebUI's own prompts: titles, tags, follow-ups, queries, and its compaction of a chat.

Owns how such a prompt is recognised and what it is answered with. It must not know plans or requests.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .directives import plain_text

OPENING = "### Task:"
TITLE_WORDS = 4
USER_LINE = re.compile(r"^USER: (.*)$", re.MULTILINE)
COMPACTION = "Summarize the conversation history that will be compacted"
COMPACTED = re.compile(r"### Messages Being Compacted:\n(.*)\n### Recent Messages Kept", re.DOTALL)
EARLIER = re.compile(r"### Previous Summary:\n(.*?)\n*### Messages Being Compacted:", re.DOTALL)
EARLIER_CHARS = 400
COMPACTED_MESSAGES = 5
COMPACTED_WORDS = 12


def answer(text: str) -> str | None:
    """What one of Open WebUI's own prompts asks for, JSON or prose; None for any other text."""
    if not text.startswith(OPENING):
        return None
    if text.removeprefix(OPENING).lstrip().startswith(COMPACTION):
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
    before = earlier.group(1).strip()[:EARLIER_CHARS] if earlier else ""
    said = USER_LINE.findall(messages.group(1) if messages else text)[-COMPACTED_MESSAGES:]
    asked = [f'The user said: "{" ".join(plain_text(line).split()[:COMPACTED_WORDS])}".' for line in said]
    return " ".join([*([before] if before else []), *asked, "The assistant answered."])
