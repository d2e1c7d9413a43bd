"""What is called while something runs."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from scripts.paths import PACKAGE


@contextmanager
def calls_noted(note: Callable[[FrameType], None]) -> Iterator[None]:
    """Show `note` the frame of each function that is called meanwhile, in threads that start meanwhile, too."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            note(frame)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@contextmanager
def counted(into: list[int]) -> Iterator[None]:
    """Add up how many instructions of the package run meanwhile."""
    folder, before = f"{PACKAGE}/", sys.gettrace()
    into.append(0)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(folder):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        into[-1] += event == "opcode"
        return trace

    # Python 3.12 turns these events on with the first frame that wants them, for those that begin later.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@dataclass(slots=True)
class LoopWork:
    """The most that the event loop's thread did between two looks at what else waits.

    Work is lines of Python, of whatever module; what C does to a text is so many lines as it has `_LINE_CHARACTERS`.
    """

    most: int = 0
    by: Counter[CodeType] = field(default_factory=Counter)
    """How much of it each function did."""
    _now: int = 0
    _by: Counter[CodeType] = field(default_factory=Counter)

    def begin(self) -> None:
        """The loop has looked."""
        self._now, self._by = 0, Counter()

    def add(self, work: int, frame: FrameType) -> None:
        """Add work that a frame does."""
        self._now += work
        self._by[frame.f_code] += work
        if self._now > self.most:
            self.most = self._now
            self.by = self._by


_LINE_CHARACTERS = 20
_HANDLE = asyncio.events.Handle._run.__code__
_ENCODE = json.JSONEncoder.iterencode.__code__
_DECODE = json.JSONDecoder.raw_decode.__code__
_READS = frozenset(
    (
        *("search", "match", "fullmatch", "finditer", "findall", "sub"),
        *("split", "splitlines", "encode", "decode", "find", "rfind"),
        *("index", "count", "replace", "translate", "isspace", "lower"),
        *("b2a_base64", "a2b_base64", "openssl_sha256", "update"),
    )
)
"""The names of what C does to a whole text."""


@contextmanager
def loop_work() -> Iterator[LoopWork]:
    """Count what this thread does meanwhile, in a running event loop."""
    work = LoopWork()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if event == "call" and frame.f_code is _HANDLE:
            work.begin()
        elif event == "call" and frame.f_code in {_ENCODE, _DECODE}:
            work.add(_characters(frame.f_locals.get("o", frame.f_locals.get("s"))) // _LINE_CHARACTERS, frame)
        elif event == "line":
            work.add(1, frame)
        return trace

    def profile(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function.__name__ in _READS and not isinstance(function.__self__, dict):
            texts = [function.__self__, *frame.f_locals.values()]
            longest = max((len(each) for each in texts if isinstance(each, str | bytes)), default=0)
            work.add(longest // _LINE_CHARACTERS, frame)

    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        yield work
    finally:
        sys.settrace(None)
        sys.setprofile(None)


def _characters(value: object) -> int:
    """The characters of all texts in a JSON value."""
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_characters, value))
    return len(value) if isinstance(value, str | bytes) else 1
