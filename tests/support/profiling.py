"""What is called while something runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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
