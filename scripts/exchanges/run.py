"""All cases against both sides, one after the other, within a limit of dollars; and what comes of it."""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from scripts.exchanges.service import PASSING, Service
from scripts.exchanges.shape import Shape, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scripts.exchanges.cases import Case

Verdict = Literal["same", "differs", "skipped"]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a case: why it was skipped, or in what the sides differ; `dollars` is what the service billed."""

    case: Case
    verdict: Verdict
    details: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    standin_models: tuple[str, ...] = ()
    dollars: float = 0.0


@dataclass(slots=True)
class Purse:
    """What may be spent, and what is; in dollars."""

    limit: float
    spent: float = 0.0
    results: list[Result] = field(default_factory=list)


async def run(
    real: Service, standin: Service, cases: Iterable[Case], purse: Purse, said: Callable[[Result], None]
) -> None:
    """Run the cases, and stop asking the service where the next one could cost more than is left.

    What comes of them is in the purse, also where it is cancelled: the case that was running then is skipped.
    """
    for case in cases:
        result = await _run_case(real, standin, case, purse)
        purse.results.append(result)
        purse.spent += result.dollars
        said(result)


async def _run_case(real: Service, standin: Service, case: Case, purse: Purse) -> Result:
    models, ours = real.choose(case), standin.choose(case)
    if models is None or ours is None:
        where = " and ".join(each.name for each, found in ((real, models), (standin, ours)) if found is None)
        return Result(case, "skipped", (f"no model that fits in the catalogue of {where}",))
    named = tuple(model.id for model in models), tuple(model.id for model in ours)
    most = case.most_dollars(models)
    if purse.spent + most > purse.limit:
        return Result(case, "skipped", (f"could cost ${most:.4f}, and ${purse.spent:.4f} are spent",), *named)
    try:
        theirs = await real.make(case, models)
    except CancelledError:
        purse.results.append(Result(case, "skipped", ("interrupted",), *named, most))
        raise
    except Exception as error:  # noqa: BLE001 - what breaks one case shall not end a run that costs money
        # what it may have cost before is not known: as much as it could
        return Result(case, "skipped", (f"{real.name}: {type(error).__name__}",), *named, most)
    if any(each.kind in PASSING for each in theirs):
        return Result(case, "skipped", (f"{real.name} was busy",), *named, sum(each.cost for each in theirs))
    # of what comes without a bill it is not known either
    is_billed = not case.stops and all(each.bill != "no bill" for each in theirs)
    dollars = sum(each.cost for each in theirs) if is_billed else most
    try:
        details = tuple(compare(theirs, await standin.make(case, ours)))
    except CancelledError:
        purse.results.append(Result(case, "skipped", ("interrupted",), *named, dollars))
        raise
    except Exception as error:  # noqa: BLE001 - as above
        return Result(case, "skipped", (f"{standin.name}: {type(error).__name__}",), *named, dollars)
    return Result(case, "differs" if details else "same", details, *named, dollars)


def compare(theirs: Sequence[Shape], ours: Sequence[Shape]) -> Iterable[str]:
    """Say in what two series of exchanges differ, with the number of the exchange where there are several."""
    if len(theirs) != len(ours):
        yield f"exchanges: {len(theirs)} there, {len(ours)} here"
    several = max(len(theirs), len(ours)) > 1
    for number, (real, standin) in enumerate(zip(theirs, ours, strict=False), 1):
        prefix = f"exchange {number}: " if several else ""
        yield from (f"{prefix}{line}" for line in differences(real, standin))
