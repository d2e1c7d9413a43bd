"""Open WebUI's HTTP interface, as far as installing and configuring a function needs it.

One account per object. Answers other than success raise ApiError with Open WebUI's own words.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping

CALL_SECONDS = 300.0


class ApiError(Exception):
    """Open WebUI refused a call: `status` is the HTTP status, the message names the call and its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Calls as one signed-in account; close it after use, or use it as a context."""

    def __init__(self, base_url: str, token: str = "") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.base_url = base_url
        self.token = token
        self._client = httpx.Client(base_url=base_url, headers=headers, timeout=CALL_SECONDS, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def get(self, path: str) -> Any:
        """GET, and the JSON of the answer."""
        return _successful(self._client.get(path)).json()

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """POST a JSON body, and the JSON of the answer."""
        return _successful(self._client.post(path, json=dict(body or {}))).json()

    def delete(self, path: str) -> Any:
        """DELETE, and the JSON of the answer."""
        return _successful(self._client.delete(path)).json()

    def content(self, path: str) -> bytes:
        """GET, and the bytes of the answer."""
        return _successful(self._client.get(path)).content

    def upload(self, name: str, content: bytes, media_type: str, *, process: bool = True) -> dict[str, Any]:
        """Store a file and return its row; `process` has its text extracted first, which may fail without a word."""
        answer = self._client.post(
            "/api/v1/files/",
            params={"process": process, "process_in_background": False},
            files={"file": (name, content, media_type)},
        )
        return dict(_successful(answer).json())

    def lines(self, path: str, body: Mapping[str, Any]) -> list[str]:
        """POST a JSON body, and the lines of a streamed answer."""
        return _successful(self._client.post(path, json=dict(body))).text.splitlines()

    def sign_in(self, email: str, password: str) -> Api:
        """The same server as another account."""
        answer = self.post("/api/v1/auths/signin", {"email": email, "password": password})
        return Api(self.base_url, answer["token"])

    def install_function(self, function_id: str, name: str, content: str, *, description: str = "") -> None:
        """Create the function or replace its code, and see to it that it is active."""
        meta = {"description": description or name}
        form = {"id": function_id, "name": name, "content": content, "meta": meta}
        known = {function["id"]: function for function in self.get("/api/v1/functions/")}
        if function_id not in known:
            active = self.post("/api/v1/functions/create", form)["is_active"]
        else:
            self.post(f"/api/v1/functions/id/{function_id}/update", form)
            active = self.get(f"/api/v1/functions/id/{function_id}")["is_active"]
        if not active:
            self.post(f"/api/v1/functions/id/{function_id}/toggle")

    def valves(self, function_id: str) -> dict[str, Any]:
        """The valves that an administrator has set, without those left at their defaults."""
        return dict(self.get(f"/api/v1/functions/id/{function_id}/valves") or {})

    def set_valves(self, function_id: str, valves: Mapping[str, Any]) -> None:
        """Set these valves and keep the others, also in `ADVANCED`; None returns a valve to its default."""
        stored = self.valves(function_id)
        if advanced := json.loads(stored.get("ADVANCED") or "{}"):
            kept = {name: value for name, value in advanced.items() if name not in valves}
            stored["ADVANCED"] = json.dumps(kept) if kept else None
        self.post(f"/api/v1/functions/id/{function_id}/valves/update", {**stored, **valves})

    def set_user_valves(self, function_id: str, valves: Mapping[str, Any]) -> None:
        """Replace this account's own valves of the function."""
        self.post(f"/api/v1/functions/id/{function_id}/valves/user/update", valves)

    def models(self) -> list[str]:
        """The ids of all models; asking makes Open WebUI load them, without which no chat finds its model."""
        return [model["id"] for model in self.get("/api/models?refresh=true")["data"]]


def _successful(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    call = f"{response.request.method} {response.request.url.path}"
    raise ApiError(response.status_code, f"{call}: {response.status_code} {response.text[:500]}")
