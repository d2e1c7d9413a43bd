"""A stand-in for OpenRouter's Responses API that is at least as strict as the real service.

For development and tests only: ``python -m scripts.standin --port 8399`` serves it on loopback, and ``with
StandIn() as s`` runs it inside a test. The module docstrings say the rest: ``server`` the endpoints, ``plan`` and
``planner`` what a chat message can order, ``summaries`` how requests for summaries are answered, ``seal`` how
replayed reasoning is judged, ``cache`` how prompt caching is counted and priced.
"""

from .server import StandIn

__all__ = ["StandIn"]
