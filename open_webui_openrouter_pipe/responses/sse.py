r"""Server-sent events: bytes in any portions become the data of whole frames.

The framing is WHATWG's "event stream interpretation": `data:` lines joined by newlines, comments and other fields
ignored, LF, CR and CRLF as line ends. A line may have any length: one frame may echo all instructions and tools.
"""

from __future__ import annotations

_DONE = b"[DONE]"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Decoder:
    """Turns portions of bytes into frames, wherever the bytes are cut.

    `done` becomes true with `[DONE]`; whatever follows it is ignored.
    """

    __slots__ = ("_after_cr", "_data", "_first_line", "_partial", "done")

    def __init__(self) -> None:
        """Begin before the first byte."""
        self.done = False
        self._partial: list[bytes] = []
        self._data: list[bytes] = []
        self._after_cr = False
        self._first_line = True

    def feed(self, portion: bytes) -> list[str]:
        """Take more bytes and return the frames that they complete."""
        if not portion:
            return []
        if self._after_cr and portion.startswith(b"\n"):
            portion = portion[1:]
        self._after_cr = portion.endswith(b"\r")
        frames: list[str] = []
        for line in portion.splitlines(keepends=True):
            self._partial.append(line)
            if line.endswith((b"\n", b"\r")):
                self._end_line(frames)
        return frames

    def flush(self) -> list[str]:
        """Return the last frame at the end of the stream, though no blank line closed it."""
        frames: list[str] = []
        if self._partial:
            self._end_line(frames)
        self._dispatch(frames)
        return frames

    def _end_line(self, frames: list[str]) -> None:
        line = b"".join(self._partial).rstrip(b"\r\n")
        self._partial.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            self._dispatch(frames)
            return
        field, _, value = line.partition(b":")
        if field != b"data":
            return
        value = value.removeprefix(b" ")
        if value == _DONE and not self._data:
            self.done = True  # at once: some servers keep the connection open without closing the frame
        else:
            self._data.append(value)

    def _dispatch(self, frames: list[str]) -> None:
        data = b"\n".join(self._data)
        self._data.clear()
        if data and not self.done:
            frames.append(data.decode("utf-8", "replace"))
