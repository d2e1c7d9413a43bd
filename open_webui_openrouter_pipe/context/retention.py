"""When old tool outputs become facts.

Owns one policy: outputs of the newest turns stay verbatim, older ones are stated as facts when that pays.
Only the plain count and the model's prices decide, so the frontier stays where it was put. It must not look
at the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from .fold import Bounds, Moment, prunable_tokens, retention_end
from .forms import Form
from .settings import Pruning


def retain(moment: Moment) -> Bounds:
    """The frontier moves at the beginning of a turn, and then over all that is old enough."""
    if not moment.opens_turn:
        return moment.bounds
    won = prunable_tokens(moment)
    if won <= 0 or not _PRUNING_RULES[moment.terms.settings.tool_output_pruning](moment, won):
        return moment.bounds
    return moment.bounds.moved(Form.FACTS, retention_end(moment))


def _pays(moment: Moment, won_tokens: int) -> bool:
    """Batched: once the old outputs have cost about as much as changing the prefix costs now."""
    frontier = moment.bounds.ends[Form.FACTS]
    following = moment.forms.tokens(Form.WHOLE, max(frontier, moment.bounds.ends[Form.SPENT]), moment.end)
    prices = moment.terms.prices
    return prices.pays(moment.waited.pruning_cost, prices.change_cost(following, won_tokens))


_PRUNING_RULES: Mapping[Pruning, Callable[[Moment, int], bool]] = MappingProxyType(
    {
        "batched": _pays,
        "every_turn": lambda _moment, _won: True,
        "off": lambda _moment, _won: False,
    }
)
