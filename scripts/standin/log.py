"""The record of what clients asked and what they got.

Owns the recorded requests and their JSON form. Secrets stay out: of the bearer only a digest is kept.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any

ACCOUNT_CHARS = 12
SECRET_HEADERS = frozenset({"authorization", "cookie"})


@dataclass(slots=True)
class RecordedRequest:
    """One request; ``status`` (0 until and unless it is sent) and what follows are filled in while it is answered.

    ``usage`` and ``output`` are those of the terminal event, ``disconnected`` says that the client left before the end,
    ``finished`` that the last byte was handed over, ``is_summary`` that it asks for a summary. The times are seconds
    on the stand-in's clock.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    account: str
    raw: bytes
    body: Any
    received_at: float
    status: int = 0
    response_id: str = ""
    usage: dict[str, Any] | None = None
    output: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    is_summary: bool = False
    disconnected: bool = False
    finished: bool = False
    ended_at: float | None = None

    def wire(self) -> dict[str, Any]:
        """The record as JSON values; the raw bytes as base64."""
        shown = {name: getattr(self, name) for name in self.__slots__ if name != "raw"}
        return {**shown, "raw_base64": base64.b64encode(self.raw).decode()}


def public_headers(headers: dict[str, str]) -> dict[str, str]:
    """Headers without the values of those that hold secrets."""
    return {name: "" if name in SECRET_HEADERS else value for name, value in headers.items()}


def account_of(bearer: str) -> str:
    """What names the account of a bearer without telling it."""
    return hashlib.sha256(bearer.encode()).hexdigest()[:ACCOUNT_CHARS] if bearer else ""
