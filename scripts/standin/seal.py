"""Sealing reasoning items, and verifying them when they come back.

Owns what can be wrong with replayed reasoning; ``rules`` has what a maker says of it. A seal is authenticated
encryption over the item, its place, and what it is bound to; only the calls' reasoning ids are remembered, so that a
half-dropped turn can be noticed. It must not know HTTP. The kinds of trouble:

* ``unsigned``: no seal, where the family seals; ``unspelled``: one that is not base64; ``foreign``: another family's;
  ``damaged``: changed, or in another order than issued.
* ``elsewhere``: Gemini's signatures hold for the provider that made them.
* ``unbound``: Claude's thinking holds for its system prompt, and for the conversation, which its first user message
  names.
* ``alone``, OpenAI: what directly follows an item is not what directly followed it when issued, ``openrouter:*`` items
  aside. An item that led to nothing (an interrupted answer) can therefore not be replayed. The others: nothing else
  that the model said or called follows an item.
* ``partial``: a turn has some of its reasoning, but not all that preceded its calls; of Gemini's last turn all must be
  there.

No reasoning at all is accepted, but for Gemini's last turn.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken

from .prompt import SYSTEM_ROLES, input_items, text_of

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
Binding = tuple[str, str]
"""Digests of a system prompt, and of what names a conversation."""
SECRET = b"the stand-in keeps no secrets"


@dataclass(eq=False)
class TroubleError(Exception):
    """What is wrong with replayed reasoning: which kind of trouble, with the item at which place, and more to say."""

    kind: str
    place: int
    fields: dict[str, Any] = field(default_factory=dict)


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
    bound: Binding


class Sealer:
    """Issues seals and judges replayed items; remembers which reasoning led to which call."""

    def __init__(self) -> None:
        self._fernet = Fernet(base64.urlsafe_b64encode(hashlib.sha256(SECRET).digest()))
        self._serials = itertools.count(time.time_ns())
        self._reasoning_of_call: dict[str, frozenset[str]] = {}

    def seal(
        self, output: list[Item], model: Model, tokens: dict[str, int], bound: Binding = ("", "")
    ) -> dict[str, Item]:
        """Seal the reasoning items of one response.

        Args:
            output: All output items of the response, in order; left as they are.
            model: The model that issues them.
            tokens: Reasoning tokens by item id, for which a replay is billed.
            bound: The system prompt and the conversation.

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
            item["id"]: self._sealed_fields(output, at, model, tokens[item["id"]], bound)
            for at, item in enumerate(output)
            if item["type"] == "reasoning"
        }

    def verify(self, items: list[Item], model: Model, bound: Binding = ("", "")) -> dict[str, Sealed]:
        """Accept the reasoning among the input items.

        Returns:
            What each seal says, by item id; unsealed raw reasoning of a raw model is not among them.

        Raises:
            TroubleError: The provider would not take it.
        """
        seals: dict[str, Sealed] = {}
        for at, item in enumerate(items):
            if item.get("type") == "reasoning" and (sealed := self._opened(at, item, model)):
                _require(all(sealed.serial > other.serial for other in seals.values()), "damaged", at, item)
                _check_bounds(at, sealed, model, bound)
                seals[item["id"]] = sealed
        if model.family == "openai":
            _check_followers(items, seals)
        elif model.family != "raw":
            _check_positions(items, seals)
            self._check_whole_turns(items, seals, model)
        return seals

    def _sealed_fields(self, output: list[Item], at: int, model: Model, tokens: int, bound: Binding) -> Item:
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
            "bound": bound,
        }
        token = self._fernet.encrypt(json.dumps(claims).encode()).decode()
        return _seal_fields(model.family, endpoint, token, output[at])

    def _opened(self, at: int, item: Item, model: Model) -> Sealed | None:
        carried = item.get("encrypted_content") or item.get("signature") or ""
        if model.family == "raw" and not carried:
            return None
        _require(carried, "unsigned", at, item)
        token = carried.partition(".")[0]
        _require(re.fullmatch(r"[\w=-]+", token, re.ASCII), "unspelled", at, item)
        try:
            claims = json.loads(self._fernet.decrypt(token.encode()))
        except InvalidToken:
            raise TroubleError("damaged", at, {"id": item["id"]}) from None
        sealed = Sealed(**{**claims, "calls": tuple(claims["calls"]), "bound": tuple(claims["bound"])})
        _require(sealed.family == model.family, "foreign", at, item)
        genuine = (sealed.id, sealed.digest) == (item["id"], _digest(item)) and _canonical(token)
        as_issued = _seal_fields(model.family, sealed.endpoint, token, item)
        kept = {key: item[key] for key in SEAL_FIELDS if item.get(key)}
        _require(genuine and as_issued == kept, "damaged", at, item)
        return sealed

    def _check_whole_turns(self, items: list[Item], seals: dict[str, Sealed], model: Model) -> None:
        turns = list(_turns(items))
        for turn in turns:
            kept = {item["id"] for _, item in turn if item.get("type") == "reasoning"}
            is_due = kept & seals.keys() or (model.family == "google" and turn is turns[-1])
            for at, item in turn if is_due else ():
                known = self._reasoning_of_call.get(item.get("call_id", ""), frozenset[str]())
                if item.get("type") == "function_call" and (missing := known - kept):
                    raise TroubleError("partial", at, {"id": min(missing), "name": item["name"]})


def binding(body: dict[str, Any]) -> Binding:
    """What Claude's thinking is bound to: its system prompt, and the conversation by its first user message."""
    items = input_items(body)
    opening = [text_of(item) for item in items[:1] if item.get("role") in SYSTEM_ROLES]
    first = next((text_of(item) for item in items if item.get("role") == "user"), "")
    return _hashed([body.get("instructions"), *opening]), _hashed(first)


def _check_bounds(at: int, sealed: Sealed, model: Model, bound: Binding) -> None:
    here = sealed.endpoint.rpartition("|")[2] == model.provider.lower()
    _require(model.family != "google" or here, "elsewhere", at)
    if model.family == "anthropic" and sealed.bound != bound:
        is_system = sealed.bound[0] != bound[0]
        hint = " The `system` prompt differs from the one this block was created with." if is_system else ""
        raise TroubleError("unbound", at, {"hint": hint})


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


def _check_followers(items: list[Item], seals: dict[str, Sealed]) -> None:
    for at, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        following = next((_name(other) for other in items[at + 1 :] if not _is_server_tool(other)), None)
        due = seals[item["id"]].follows
        _require(due is not None and following == due, "alone", at, item)


def _check_positions(items: list[Item], seals: dict[str, Sealed]) -> None:
    """Something else that the model said or called follows its reasoning; calls that it led to come behind it."""
    others = [(at, item) for at, item in enumerate(items) if not _is_server_tool(item)]
    seen: set[str] = set()
    end = (0, {"role": "user"})
    for (at, item), (_, following) in zip(others, [*others[1:], end], strict=True):
        if item.get("type") == "function_call":
            seen.add(item["call_id"])
        if item.get("type") != "reasoning" or item["id"] not in seals:
            continue
        is_said = following.get("role", "assistant") == "assistant" and following.get("type") != OUTPUT_TYPE
        _require(is_said, "alone", at, item)
        _require(seen.isdisjoint(seals[item["id"]].calls), "damaged", at, item)


def _turns(items: list[Item]) -> Iterator[list[tuple[int, Item]]]:
    turn: list[tuple[int, Item]] = []
    for at, item in enumerate(items):
        if item.get("role") == "user":
            yield turn
            turn = []
        turn.append((at, item))
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
    return _hashed({key: item[key] for key in SEALED_FIELDS if item.get(key)})


def _hashed(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _require(holds: object, kind: str, at: int, item: Item | None = None) -> None:
    if not holds:
        raise TroubleError(kind, at, {"id": item["id"]} if item else {})
