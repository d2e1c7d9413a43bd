"""Renders outputs for a channel, whose messages show an answer's text and files alone.

Open WebUI relays neither errors nor status lines to a channel: an answer that failed would be an empty message. Source:
`socket/main.py: _make_channel_emitter` of Open WebUI 0.12.
"""

from __future__ import annotations

from ..ports import Failed, Output
from .items import message
from .native import HostEvent, NativeWriter


class ChannelWriter(NativeWriter):
    """Writes the line of an error into the answer as a quotation, below what there is of it."""

    def render(self, output: Output) -> list[HostEvent]:
        """Return the events for this output, in order."""
        if not isinstance(output, Failed):
            return super().render(output)
        self._remove_calls()
        line = self._add(message(f"msg_{self._new_id()}", f"> {output.message}", status="completed"))
        return [line, self._completed(None)]
