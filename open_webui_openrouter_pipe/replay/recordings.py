"""Reads recordings: the exchanges that an administrator had written down, and what a reader makes of each answer.

Owns the lines of these files (`openrouter.recorder` writes them) and their table. A line is one exchange: its request,
and the events of its answer or the body that came instead, with placeholders for all texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..errors import InvalidHistory
from ..responses.effects import ResponseFailed, ResponseFinished
from ..responses.items import Item
from ..responses.reducer import Reducer, reduce_response
from ..responses.values import as_list, as_object, as_text, json_text

HEAD: Final = ("#", "model", "sent", "status", "ended", "events", "answer", "tokens", "cost", "failure")
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One request and its answer; `kind` is how the pipe has classified a failure, None where there was none."""

    request: Mapping[str, Any]
    status: int | None
    ending: str
    kind: str | None
    events: Sequence[Mapping[str, Any]]
    body: Mapping[str, Any] | None

    @property
    def input(self) -> Sequence[Any]:
        """The items that were sent."""
        return as_list(self.request.get("input"))

    def result(self) -> ResponseFinished | ResponseFailed:
        """Return what a reader makes of the answer."""
        if self.body is not None:
            effects = reduce_response(dict(self.body))
        else:
            reducer = Reducer()
            effects = [effect for event in self.events for effect in reducer.feed(event)]
            effects += reducer.close()
        last = effects[-1]
        assert isinstance(last, ResponseFinished | ResponseFailed)
        return last

    def as_json(self) -> dict[str, Any]:
        """Return the exchange with its result."""
        result = self.result()
        usage = asdict(result.usage) if result.usage else None
        items: Sequence[Item] = result.items if isinstance(result, ResponseFinished) else ()
        known = {"status": self.status, "ending": self.ending, "kind": self.kind}
        return {**known, "request": self.request, "items": list(items), "usage": usage}

    def as_stream(self) -> str:
        """Return the answer as a stream of server-sent events, such as the tests read."""
        frames = self.events or [{"type": "response.completed", "response": self.body}]
        return "".join(f"data: {json_text(frame)}\n\n" for frame in frames) + "data: [DONE]\n\n"

    def row(self, number: int) -> Sequence[str]:
        """Return its cells in the table."""
        result = self.result()
        kinds = [as_text(as_object(item).get("type")) for item in getattr(result, "items", ())]
        usage = result.usage
        cells = (number, self.request.get("model", ""), len(self.input), self.status or "-", self.ending)
        tokens = f"{usage.input_tokens}+{usage.output_tokens}" if usage else ""
        cost = f"${usage.cost:.6f}" if usage else ""
        return (*map(str, cells), str(len(self.events)), ", ".join(kinds), tokens, cost, self.kind or "")


def read_recording(value: Any) -> tuple[RecordedExchange, ...] | None:
    """Read the lines of a recording; None where this is no recording.

    Raises:
        InvalidHistory: It is one of a later version.
    """
    lines = value if isinstance(value, list) else [value]
    if not lines or not all(isinstance(line, dict) and "request_headers" in line for line in lines):
        return None
    if any(line.get("format") != _FORMAT for line in lines):
        raise InvalidHistory("The recording is from another version of the pipe.")
    return tuple(_exchanges(lines))


def _exchanges(lines: Sequence[Mapping[str, Any]]) -> Iterator[RecordedExchange]:
    for line in lines:
        body = line.get("body")
        yield RecordedExchange(
            as_object(line.get("request")),
            line.get("status"),
            as_text(line.get("ending")),
            line.get("kind"),
            [event for event in map(as_object, as_list(line.get("events"))) if as_text(event.get("type"))],
            body if isinstance(body, dict) else None,
        )
