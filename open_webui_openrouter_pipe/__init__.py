"""Every OpenRouter model in Open WebUI, over the Responses API.

    pipe          what Open WebUI loads: the manifold `Pipe` with its valves
    replay        the command line: what an exported chat becomes, and why
    app           the composition root
    settings      valves, and the frozen settings made of them
    engine        one request's journey over the ports
    openrouter    HTTP: client, request body, catalogue, errors
    store         sealed artifacts, summaries and the audit in the host's database
    host          all knowledge of Open WebUI
    ports         what the engine needs from outside
    planning      fitting a conversation into the model's window       (pure)
    summaries     segments, a summary's form, prompt and checking      (pure)
    history       Open WebUI's messages → a conversation               (pure)
    conversation  a conversation as values, and what it counts         (pure)
    responses     the Responses vocabulary: items, events, stream      (pure)
    notices       the lines that users read                            (pure)
    errors        the error tree                                       (pure)

`docs/architecture.md` says how they work together. Beside `Pipe`, the functions that turn a chat into input are given
here, for tests that replay chats with artifacts of their own; `docs/history.md` shows how.
"""

from __future__ import annotations

from .engine.recorder import generate_item_id
from .history.artifacts import normalize_persisted_item
from .history.build import transform_messages_to_input
from .history.markers import (
    contains_marker,
    extract_marker_ulid,
    iter_marker_spans,
    serialize_marker,
    split_text_by_markers,
)
from .history.pruning import prune_tool_output
from .history.tool_calls import classify_function_call_artifacts
from .pipe import Pipe

__all__ = [
    "Pipe",
    "__version__",
    "classify_function_call_artifacts",
    "contains_marker",
    "extract_marker_ulid",
    "generate_item_id",
    "iter_marker_spans",
    "normalize_persisted_item",
    "prune_tool_output",
    "serialize_marker",
    "split_text_by_markers",
    "transform_messages_to_input",
]
__version__ = "0.1.0"
