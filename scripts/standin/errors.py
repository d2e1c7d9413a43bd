"""The error bodies of the service, in its three families.

Owns the shapes, and with ``errors.json`` the documented answer for each status; decides nothing about when an
error is due. Family A is the router's and the providers' (an integer code and metadata), family B is the
validation of /responses (a string code), family C is a failed response object with HTTP status 200. Gateway
errors in front of the service are HTML pages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

Family = Literal["A", "B", "C", "html"]

USER_ID = "user_standin"
HTML_PAGE = (
    "<!DOCTYPE html><html><head><title>openrouter.ai | {status}: {message}</title></head>"
    "<body><h1>Error {status}</h1><p>{message}</p><p>cloudflare</p></body></html>"
)


@dataclass(eq=False)
class RefusalError(Exception):
    """An answer that is an error: everything the server needs to send it."""

    status: int
    message: str
    family: Family = "A"
    error_type: str = "unmapped"
    metadata: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    said: str = ""
    """What the provider said, where it is not the message."""
    whole: Any = None
    """The body, where it was recorded as a whole."""

    def body(self) -> str:
        """The body as sent: a JSON text, or an HTML page."""
        if self.whole is not None:
            return json.dumps(self.whole, ensure_ascii=False)
        if self.family == "html":
            return HTML_PAGE.format(status=self.status, message=self.message)
        if self.family == "B":
            error: dict[str, Any] = {"code": "invalid_prompt", "message": self.message}
            return json.dumps({"error": error, "metadata": self.metadata}, ensure_ascii=False)
        error = {"code": self.status, "message": self.message, **self.extra}
        if self.metadata is not None:
            error["metadata"] = self.metadata
        return json.dumps({"error": error, "user_id": USER_ID}, ensure_ascii=False)


KNOWN: dict[int, RefusalError] = {
    refusal.status: refusal
    for refusal in TypeAdapter(list[RefusalError]).validate_json(
        Path(__file__).with_suffix(".json").read_bytes()
    )
}
"""The documented answer for each status."""


def documented(status: int) -> RefusalError:
    """The documented error for an HTTP status; an unlisted status gets a plain one of family A."""
    return replace(KNOWN.get(status) or RefusalError(status, f"HTTP {status}"))


def invalid_request(issues: list[dict[str, Any]]) -> RefusalError:
    """Family B for a body that does not fit the schema; the issues go into metadata.raw as JSON text."""
    raw = json.dumps(issues, ensure_ascii=False)
    return replace(documented(400), metadata={"raw": raw})


def bad_prompt(message: str) -> RefusalError:
    """Family B with its own message and no metadata."""
    return replace(documented(400), message=message)


def router_error(status: int, message: str, **metadata: Any) -> RefusalError:
    """Family A, said by the router itself."""
    return RefusalError(status, message, metadata=metadata or None)


def vendor_error(
    maker: str,
    provider: str,
    said: str,
    *,
    status: int = 400,
    code: str | None = None,
    param: str | None = None,
) -> RefusalError:
    """Family A, handed on from a provider: its own body, in its maker's form, is in ``metadata.raw``.

    Without words there is no more than that the provider refused.
    """
    kind = "invalid_request_error"
    form: dict[str, Any] = {"error": {"message": said, "type": kind, "param": param, "code": code or None}}
    if maker == "anthropic":
        error = {"type": kind, "message": said}
        form = {"type": "error", "error": error, "request_id": "req_standin"}
    elif maker == "google":
        form = {"error": {"code": status, "message": said, "status": "INVALID_ARGUMENT"}}
    raw = {"raw": json.dumps(form, ensure_ascii=False)} if said else {}
    metadata = {**raw, "provider_name": provider, "is_byok": False}
    return RefusalError(status, "Provider returned error", metadata=metadata, said=said)


def unsupported(path: str, value: Any, values: tuple[str, ...]) -> RefusalError:
    """Family A with status 400 for a parameter, or a value of it, that OpenAI does not take."""
    listed = ", ".join(f"'{each}'" for each in values)
    message = (
        f"Unsupported value: '{value}' is not supported with this model. Supported values are: {listed}."
        if values
        else f"Unsupported parameter: '{path}' is not supported with this model."
    )
    code = "unsupported_value" if values else "unsupported_parameter"
    return vendor_error("openai", "OpenAI", message, code=code, param=path)
