"""Whether requests are recorded, and where: a folder beside the list of models, which all workers of a server share.

An administrator begins a recording, and it ends by itself: by its time, or when its files are as large as they may be.
That it runs stands in a file of the folder, so that every worker sees it, also after a restart. The files of one
recording are deleted with the beginning of the next. What is written in them, `recorder` decides.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = "recordings"
_SWITCH: Final = "recording.json"

MAX_MINUTES: Final = 60
MAX_BYTES: Final = 32 * 1024 * 1024
"""Of all files of a recording."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One that runs; `begun` and `until` are epoch seconds."""

    begun: int
    until: float


class Recordings:
    """The recordings in a folder; without a folder there are none.

    `switch` is the file without which none runs: whoever asks for each answer looks for it first.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.switch = folder / _SWITCH if folder else None

    def running(self, now: float) -> Recording | None:
        """Return what is being recorded at this time; never raises."""
        try:
            text = self.switch.read_text("utf-8") if self.switch else ""
        except (OSError, ValueError):
            return None
        return _read(text, now)

    def begin(self, now: float, *, minutes: int) -> None:
        """Begin a recording in the place of the last one. Raises OSError."""
        if self.folder is None or self.switch is None:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        written = self.folder / f"{_SWITCH}.new"
        seconds = 60 * min(max(minutes, 1), MAX_MINUTES)
        written.write_text(json.dumps({"begun": int(now), "until": now + seconds}), "utf-8")
        written.replace(self.switch)  # whole, for those who read it

    def end(self) -> None:
        """End the recording that runs; its files stay."""
        if self.switch:
            self.switch.unlink(missing_ok=True)

    def files(self) -> Mapping[Path, int]:
        """Return the files of the last recording with their sizes in bytes."""
        found = sorted(self.folder.glob("*.jsonl")) if self.folder else []
        return {path: path.stat().st_size for path in found}


def _read(text: str, now: float) -> Recording | None:
    try:
        stored: Any = json.loads(text)
        recording = Recording(int(stored["begun"]), float(stored["until"]))
    except (ValueError, TypeError, KeyError):
        return None
    return recording if now < recording.until else None
