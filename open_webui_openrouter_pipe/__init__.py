"""Every OpenRouter model in Open WebUI, over the Responses API.

`docs/architecture.md` says what stands in which folder, and how they work together. Beside `Pipe`, the root exports the
functions that turn a chat into input, for tests that replay chats with artifacts of their own; `docs/inside.md` shows
how.
"""

from __future__ import annotations

from .history.calls import classify_function_call_artifacts
from .history.markers import extract_marker_ulid
from .pipe import Pipe
from .replay.exports import transform_messages_to_input

__all__ = [
    "Pipe",
    "__version__",
    "classify_function_call_artifacts",
    "extract_marker_ulid",
    "transform_messages_to_input",
]
__version__ = "1.0.0"
