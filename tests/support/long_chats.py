"""Long chats, made of plain short words, and what the requests of such a chat hold.

The words are so short that a stand-in on which four bytes are a token (`byte_standin`) never bills more for a request
than the pipe counts, so that no bill moves the line at which a request is too large. Each is a token of o200k_base, and
about one by the pipe's estimate.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest

Json = dict[str, Any]

HEADER = "[Earlier parts of this conversation, shortened."
_TEXT = "no go hi us at up is a run to ah it or ye all an if now eh"
_WORDS = _TEXT.split()


def words(count: int, seed: object) -> str:
    """So many short words, the same for the same seed."""
    return " ".join(random.Random(str(seed)).choices(_WORDS, k=count))


def message(text: str, name: object) -> Json:
    """A message of the assistant as the host stores it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": f"msg_{name}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def tool_round(call_id: str, name: str, arguments: str, output: str) -> tuple[Json, Json]:
    """A tool call and its result as the host stores them."""
    named = {"call_id": call_id, "status": "completed"}
    call = {"type": "function_call", "id": f"fc_{call_id}", "name": name, "arguments": arguments, **named}
    part = {"type": "input_text", "text": output}
    return call, {"type": "function_call_output", "id": f"fco_{call_id}", "output": [part], **named}


def summary_requests(standin: StandIn) -> list[RecordedRequest]:
    return [request for request in standin.responses if request.is_summary]


def last_request(standin: StandIn) -> RecordedRequest:
    return [request for request in standin.responses if not request.is_summary][-1]


def input_texts(request: RecordedRequest) -> list[str]:
    return ["\n".join(_texts(item)) for item in request.body["input"]]


def summary_blocks(request: RecordedRequest) -> list[int]:
    """The indexes of the input items that hold summaries."""
    return [index for index, text in enumerate(input_texts(request)) if text.startswith(HEADER)]


def questions_sent(request: RecordedRequest) -> list[int]:
    """The numbers of the questions that the input holds word for word."""
    found = (re.match(r"Question (\d+):", text) for text in input_texts(request))
    return [int(match[1]) for match in found if match]


def transcribed_questions(request: RecordedRequest) -> list[int]:
    """The numbers of the questions in the transcript of a request for a summary."""
    return [int(number) for number in re.findall(r"Question (\d+):", input_texts(request)[-1])]


def _texts(item: Json) -> Iterator[str]:
    content = item.get("content")
    parts: Sequence[Json] = content if isinstance(content, list) else [{"text": content or ""}]
    yield from (part.get("text", "") for part in parts)
    yield str(item.get("output", ""))
    yield item.get("arguments", "")
