"""What a request has cost and what became of its context: a row of the audit, of which the ledger keeps sums. Pure.

The fields of `Bill` are the one list of columns, of the type that they are annotated with. Those that
`ChatSpending` names are added up in the ledger for each chat of a user.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from ..responses.values import as_list, as_object

if TYPE_CHECKING:
    from ..conversation.budget import ContextOverflow, WindowTooSmall
    from ..planning.plan import Plan, Step

Purpose: TypeAlias = Literal["answer", "task", "summary", "summary_ahead", "failure"]
"""What a row is of: the user's answer; a title, tags and the like; or a summary, written while the user waits or in the
background. A "failure" is none of a request, but says what a call has failed by."""

_NOT_PRUNING = frozenset({"cap", "summary", "recall"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """One request, of whom it was, and what it has cost in dollars; sizes are tokens by the plain count.

    `created` is when it happened, in seconds since the epoch, 0 for when it is written; `generation` is OpenRouter's id
    of it, "" where none is known. `estimated`: nobody has said what it has cost.

    `chat_id` is "" where the chat is not kept. `tokens_before` is the size of everything, `tokens_sent` what was sent
    of it after the `steps`, 0 when the request was rejected; of a summary, the sizes of its source and of itself, with
    `details_omitted` for the calls and attachments that it does not list, and `failure` for why there is none. What
    the provider billed is zero until it has answered: `read_cost` is for what was read from the cache, `saved` what
    sending the whole chat without a cache would have cost more.

    `break_position` and `break_cause` say where and why the request begins otherwise than the one before although
    nobody announced it, "" where it does not; `lost_tokens` and `lost_cost` are its price, and `expected_cached_tokens`
    are held against those that were cached. `accounts` are those by which limits go, none where the user pays with a
    key of their own; `requests` is 0 of what costs nothing. `provider_cost` is what was paid besides `cost`, to a
    provider whose key is in the OpenRouter account.
    """

    id: str = ""
    user_id: str = ""
    chat_id: str = ""
    message_id: str = ""
    model: str = ""
    purpose: Purpose = "answer"
    window_tokens: int = 0
    budget_tokens: int = 0
    limit_tokens: int = 0
    tokens_before: int = 0
    tokens_sent: int = 0
    steps: tuple[Step, ...] = ()
    rejected: bool = False
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    input_cost: float = 0.0
    read_cost: float = 0.0
    saved: float = 0.0
    details_omitted: int = 0
    failure: str = ""
    created: int = 0
    break_position: str = ""
    break_cause: str = ""
    lost_tokens: int = 0
    expected_cached_tokens: int = 0
    lost_cost: float = 0.0
    requests: int = 1
    accounts: tuple[str, ...] = ()
    provider_cost: float = 0.0
    generation: str = ""
    estimated: bool = False

    @property
    def pruned(self) -> bool:
        """Whether old turns or tool results were shortened or dropped without a summary."""
        return bool({step.name for step in self.steps if step.triggered} - _NOT_PRUNING)


@dataclass(frozen=True, slots=True)
class ChatSpending:
    """What a user's chat has cost so far, in dollars; the fields are sums of those of its bills."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    input_cost: float = 0.0
    read_cost: float = 0.0
    saved: float = 0.0
    provider_cost: float = 0.0


REPORTED_SUMS: Final = (
    "requests",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "cost",
    "provider_cost",
    "saved",
)
"""What of `ChatSpending` is reported, in this order."""


class UsageRow(NamedTuple):
    """What was spent by all columns ("row"), or added up by one of them, 0 or "" in the others.

    `day` counts from 1970 in a time zone, `failure` is a kind of failure or "". The last four are what was spent in the
    last reported day and in its month, at OpenRouter and at providers.
    """

    by: Literal["row", "day", "account", "model", "failure"]
    day: int
    account: str
    model: str
    failure: str
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float
    provider_cost: float
    saved: float
    day_cost: float = 0.0
    month_cost: float = 0.0
    provider_day: float = 0.0
    provider_month: float = 0.0

    @property
    def spent(self) -> ChatSpending:
        """The sums."""
        return ChatSpending(**{name: getattr(self, name) for name in REPORTED_SUMS})


_COLUMNS: Final = {column.name: column for column in fields(Bill)}
AUDIT_COLUMNS: Final = tuple(
    column for name, column in _COLUMNS.items() if name not in {"requests", "accounts"}
)
"""What the audit has; the rest is for the ledger alone."""
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "Purpose": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "tuple[str, ...]": (tuple,),
    "tuple[Step, ...]": (tuple,),
}
_MOST: Final = 2**53
"""No number of a bill is that large; and a database adds up what is smaller."""


def sound_bill(bill: Bill) -> Bill:
    """Return the bill without what would spoil a sum or a row.

    A number that is none, infinite, or below nothing is 0 (`saved` may be below it); a text has no NUL and no half of a
    character.
    """
    odd = dict[str, Any]()
    for name, column in _COLUMNS.items():
        value = getattr(bill, name)
        if column.type in {"int", "float"}:
            least = -_MOST if name == "saved" else 0
            if not isinstance(value, int | float) or not least <= value <= _MOST:
                odd[name] = 0
        elif isinstance(value, str) and not (value.isascii() and value.isprintable()):
            odd[name] = value.replace("\0", "").encode("utf-8", "replace").decode()
    return replace(bill, **odd) if odd else bill


def bill_json(bill: Bill) -> str:
    """Return a bill as one line of JSON: what differs from the defaults, without the steps of its context."""
    found = {name: getattr(bill, name) for name in _COLUMNS if name != "steps"}
    changed = {name: value for name, value in found.items() if value != _COLUMNS[name].default}
    return json.dumps(changed, separators=(",", ":"))


def read_bill(text: str) -> Bill | None:
    """Read a line of `bill_json`, without what a later release has added; None where it is not one, or has no id."""
    try:
        found = {name: each for name, each in as_object(json.loads(text)).items() if name in _COLUMNS}
        found["accounts"] = tuple(as_list(found.get("accounts")))
        bill = Bill(**found)
    except (ValueError, TypeError, RecursionError):
        return None
    is_typed = all(
        isinstance(getattr(bill, name), _KINDS[str(column.type)]) for name, column in _COLUMNS.items()
    )
    known = bill.purpose in get_args(Purpose) and all(isinstance(each, str) for each in bill.accounts)
    return sound_bill(bill) if is_typed and known and bill.id else None


def sent_bill(plan: Plan) -> Bill:
    """Return the bill of a request that is sent, without what it costs."""
    return Bill(
        model=plan.model,
        window_tokens=plan.budget.window_tokens,
        budget_tokens=plan.budget.input_tokens,
        limit_tokens=plan.limit_tokens,
        tokens_before=plan.tokens_before,
        tokens_sent=plan.tokens,
        steps=plan.steps,
    )


def rejected_bill(model: str, overflow: ContextOverflow | WindowTooSmall) -> Bill:
    """Return the bill of a request that does not fit; `tokens_before` is what cannot be dropped."""
    return Bill(
        model=model,
        window_tokens=overflow.budget.window_tokens,
        budget_tokens=overflow.budget.input_tokens,
        limit_tokens=overflow.limit_tokens,
        tokens_before=overflow.needed_tokens,
        rejected=True,
        requests=0,
    )
