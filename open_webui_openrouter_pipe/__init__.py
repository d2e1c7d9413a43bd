"""Every OpenRouter model in Open WebUI, over the Responses API.

    pipe          what Open WebUI loads: the manifold `Pipe` with its valves
    maintenance   a function of its own: moving in, and removing everything
    replay        the command line: an exported chat → the input that would be sent, and why
    app           the composition root: what calls of the host reach
    assembly      what answers one call, its documents in place
    permission    what of a call may be sent
    worker        what one worker owns, and all its calls share
    settings      the frozen settings of a request, from the valves
    valves        what administrators and users set, and how it is read
    turn          one request's journey over the ports
    openrouter    HTTP: client, request body, catalogue, errors
    store         sealed artifacts, summaries and the audit in the host's database
    media         attachments: kinds of files, guarded downloads
    host          all knowledge of Open WebUI
    ports         what a turn needs from outside
    context       what `/context` shows of a chat                          (pure)
    money         what requests cost: prices, limits, what was cached      (pure)
    planning      fitting a conversation into the model's window           (pure)
    summaries     what replaces old turns, and its prompt                  (pure)
    history       Open WebUI's messages → a conversation                   (pure)
    recall        finding again what was said, by search and by a tool     (pure)
    conversation  instructions and turns, their size, the input budget     (pure)
    responses     the Responses vocabulary: items, events, stream          (pure)
    words         every text that a person reads                           (pure)
    errors        the error tree

`docs/architecture.md` explains how they work together. Beside `Pipe`, the root exports the functions that turn a chat
into input, for tests that replay chats with artifacts of their own; `docs/inside.md` shows how.
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
__version__ = "0.1.0"
