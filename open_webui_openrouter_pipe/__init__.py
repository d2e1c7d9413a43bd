"""Every OpenRouter model in Open WebUI, over the Responses API.

    pipe        what Open WebUI loads: the manifold `Pipe` with its valves
    app         the composition root
    settings    valves, and the frozen settings made of them
    engine      one request's journey over the ports
    openrouter  HTTP: client, request body, catalogue, errors
    store       sealed artifacts in the host's database
    host        all knowledge of Open WebUI
    ports       what the engine needs from outside
    context     fitting a conversation into the model's window    (pure)
    history     Open WebUI's messages → Responses input items     (pure)
    responses   the Responses vocabulary: items, events, stream   (pure)
    errors      the error tree

`docs/architecture.md` tells how they work together.
"""

from __future__ import annotations

from .pipe import Pipe

__all__ = ["Pipe", "__version__"]
__version__ = "0.1.0"
