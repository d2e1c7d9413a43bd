"""What is called while something runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
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
