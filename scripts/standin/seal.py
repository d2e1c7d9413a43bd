"""Sealing reasoning items, and verifying them when they come back.

Owns the rules by which a provider accepts replayed reasoning: unchanged, of its own family, in the order
issued, and with what it led to. A seal is authenticated encryption over the item and its place; only the
calls' reasoning ids are remembered, so that a half-dropped turn can be noticed. It must not know HTTP.

The rules, beyond the plain check of the seal:

* No reasoning at all is always accepted; an item twice, or two items in the wrong order, never.
* OpenAI: what directly follows an item must be what directly followed it when issued, ``openrouter:*``
  items aside. An item that led to nothing (an interrupted answer) can therefore not be replayed.
* The others: something else that the model said or called follows an item directly; a turn that still has
  some of its reasoning must have all that preceded its calls; and an item that led to a call stands before
  that call when the call is there.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken

from .errors import RefusalError, provider_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .catalogue import Family, Model

Item = dict[str, Any]

FORMATS: dict[Family, str] = {
    "openai": "openai-responses-v1",
    "xai": "xai-responses-v1",
    "anthropic": "anthropic-claude-v1",
    "google": "google-gemini-v1",
    "raw": "unknown",
}
SEAL_FIELDS = ("encrypted_content", "signature")
SEALED_FIELDS = ("id", "summary", "content", "format")
OUTPUT_TYPE = "function_call_output"
THINKING_LAST = "The final block in an assistant message cannot be `thinking`."
SECRET = b"the stand-in keeps no secrets"


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a seal says of its item."""

    id: str
    family: str
    endpoint: str
    serial: int
    digest: str
    tokens: int
    follows: str | None
    calls: tuple[str, ...]


class Sealer:
    """Issues seals and judges replayed items; remembers which reasoning led to which call."""

    def __init__(self) -> None:
        self._fernet = Fernet(base64.urlsafe_b64encode(hashlib.sha256(SECRET).digest()))
        self._serials = itertools.count(time.time_ns())
        self._reasoning_of_call: dict[str, frozenset[str]] = {}

    def seal(self, output: list[Item], model: Model, tokens: dict[str, int]) -> dict[str, Item]:
        """Seal the reasoning items of one response.

        Args:
            output: All output items of the response, in order; left as they are.
            model: The model that issues them.
            tokens: Reasoning tokens by item id, for which a replay is billed.

        Returns:
            The fields to add to each reasoning item, by its id. Empty for families that seal nothing.
        """
        if model.family == "raw":
            return {}
        for at, item in enumerate(output):
            if item["type"] == "function_call":
                thoughts = (each["id"] for each in output[:at] if each["type"] == "reasoning")
                self._reasoning_of_call[item["call_id"]] = frozenset(thoughts)
        return {
            item["id"]: self._sealed_fields(output, at, model, tokens[item["id"]])
            for at, item in enumerate(output)
            if item["type"] == "reasoning"
        }

    def verify(self, items: list[Item], model: Model) -> dict[str, Sealed]:
        """Accept the reasoning among the input items, or refuse the request.

        Returns:
            What each seal says, by item id; unsealed raw reasoning of a raw model is not among them.

        Raises:
            RefusalError: The provider's 400.
        """
        seals: dict[str, Sealed] = {}
        for item in (item for item in items if item.get("type") == "reasoning"):
            if item["id"] in seals:
                message = f"Duplicate item found with id {item['id']}."
                raise provider_error(model.provider, message)
            if sealed := self._opened(item, model):
                _require(all(sealed.serial > other.serial for other in seals.values()), item, model)
                seals[item["id"]] = sealed
        if model.family == "openai":
            _check_followers(items, seals, model)
        elif seals:
            _check_positions(items, seals, model)
            self._check_whole_turns(items, seals, model)
        return seals

    def _sealed_fields(self, output: list[Item], at: int, model: Model, tokens: int) -> Item:
        following = [_name(item) for item in output[at + 1 :] if not _is_server_tool(item)]
        endpoint = f"{model.id}|{model.provider.lower()}"
        claims = {
            "id": output[at]["id"],
            "family": model.family,
            "endpoint": endpoint,
            "serial": next(self._serials),
            "digest": _digest(output[at]),
            "tokens": tokens,
            "follows": following[0] if following else None,
            "calls": [item["call_id"] for item in output[at + 1 :] if item["type"] == "function_call"],
        }
        token = self._fernet.encrypt(json.dumps(claims).encode()).decode()
        return _seal_fields(model.family, endpoint, token, output[at])

    def _opened(self, item: Item, model: Model) -> Sealed | None:
        carried = item.get("encrypted_content") or item.get("signature") or ""
        if model.family == "raw" and not carried:
            return None
        token = carried.partition(".")[0]
        try:
            claims = json.loads(self._fernet.decrypt(token.encode()))
        except (InvalidToken, UnicodeEncodeError) as error:
            raise _unverified(item, model) from error
        sealed = Sealed(**{**claims, "calls": tuple(claims["calls"])})
        genuine = (sealed.id, sealed.family, sealed.digest) == (item["id"], model.family, _digest(item))
        as_issued = _seal_fields(model.family, sealed.endpoint, token, item)
        _require(genuine and _canonical(token), item, model)
        _require(as_issued == {key: item[key] for key in SEAL_FIELDS if item.get(key)}, item, model)
        return sealed

    def _check_whole_turns(self, items: list[Item], seals: dict[str, Sealed], model: Model) -> None:
        for turn in _turns(items):
            kept = {item["id"] for item in turn if item.get("type") == "reasoning"}
            calls = [item["call_id"] for item in turn if item.get("type") == "function_call"]
            due = frozenset[str]().union(*(self._reasoning_of_call.get(call, frozenset()) for call in calls))
            if kept & seals.keys() and due - kept:
                raise _unverified({"id": min(due - kept)}, model)


def _seal_fields(family: str, endpoint: str, token: str, item: Item) -> Item:
    """The fields that carry a token, which for most families is followed by the endpoint that issued it."""
    if family == "anthropic" and item.get("content"):
        return {"signature": token}
    slug = json.dumps({"endpoint_slug": endpoint}, separators=(",", ":"))
    suffix = base64.b64encode(slug.encode()).decode().rstrip("=")
    return {"encrypted_content": f"{token}.{suffix}"}


def _canonical(token: str) -> bool:
    """Whether the token is spelled as issued; base64 readers accept other spellings of the same bytes."""
    return base64.urlsafe_b64encode(base64.urlsafe_b64decode(token)).decode() == token


def _check_followers(items: list[Item], seals: dict[str, Sealed], model: Model) -> None:
    for at, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        following = next((_name(other) for other in items[at + 1 :] if not _is_server_tool(other)), None)
        due = seals[item["id"]].follows
        if due is None or following != due:
            message = (
                f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            )
            raise provider_error(model.provider, message)


def _check_positions(items: list[Item], seals: dict[str, Sealed], model: Model) -> None:
    """Something else that the model said or called follows its reasoning; calls that it led to come behind it."""
    others = [item for item in items if not _is_server_tool(item)]
    seen: set[str] = set()
    for item, following in zip(others, [*others[1:], {"role": "user"}], strict=True):
        if item.get("type") == "function_call":
            seen.add(item["call_id"])
        if item.get("type") != "reasoning" or item["id"] not in seals:
            continue
        if following.get("role", "assistant") != "assistant" or following.get("type") == OUTPUT_TYPE:
            raise provider_error(model.provider, THINKING_LAST)
        _require(seen.isdisjoint(seals[item["id"]].calls), item, model)


def _turns(items: list[Item]) -> Iterator[list[Item]]:
    turn: list[Item] = []
    for item in items:
        if item.get("role") == "user":
            yield turn
            turn = []
        turn.append(item)
    yield turn


def _name(item: Item) -> str:
    """What an item is called by the reasoning that led to it; a message's id may change on its way."""
    kind = item.get("type", "message")
    if kind == "message":
        return f"message {item.get('role')}"
    return f"{kind} {item.get('call_id') or item.get('id')}"


def _is_server_tool(item: Item) -> bool:
    return str(item.get("type", "")).startswith("openrouter:")


def _digest(item: Item) -> str:
    shown = {key: item[key] for key in SEALED_FIELDS if item.get(key)}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def _require(holds: bool, item: Item, model: Model) -> None:  # noqa: FBT001 - the condition is the point of the call
    if not holds:
        raise _unverified(item, model)


def _unverified(item: Item, model: Model) -> RefusalError:
    if model.family == "anthropic":
        return provider_error(model.provider, "Invalid signature in thinking block")
    message = (
        f"The encrypted content for item {item['id']} could not be verified. "
        "Reason: Encrypted content could not be decrypted or parsed."
    )
    return provider_error(model.provider, message)
