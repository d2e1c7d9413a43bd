"""What people read: the price before, a line a case, the differences, the bill; and all of it as JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scripts.exchanges.cases import Case
    from scripts.exchanges.run import Result
    from scripts.exchanges.service import Service


def prices(real: Service, cases: Iterable[Case]) -> tuple[list[str], float]:
    """Return a line for each group of cases, with what it costs at most, and the sum in dollars."""
    counts, dollars = Counter[str](), defaultdict[str, float](float)
    for case in cases:
        counts[case.group] += 1
        dollars[case.group] += case.most_dollars(real.choose(case) or [])
    lines = [f"{group:14} {count:3} cases   at most ${dollars[group]:.4f}" for group, count in counts.items()]
    total = sum(dollars.values())
    return [*lines, f"{'all':14} {sum(counts.values()):3} cases   at most ${total:.4f}"], total


def line(result: Result) -> str:
    """Return the line of a case in the table."""
    models = ", ".join(result.models)
    ours = ", ".join(result.standin_models)
    asked = models if models == ours else f"{models} / {ours}"
    cost = f"${result.dollars:.5f}" if result.dollars else ""
    return f"{result.verdict:8} {result.case.group:14} {result.case.name:40} {cost:9} {asked}".rstrip()


def summary(results: Sequence[Result]) -> list[str]:
    """Return the differences, what was skipped, the counts and the bill."""
    lines = list[str]()
    for verdict, head in (("differs", "Differences"), ("skipped", "Skipped")):
        found = [each for each in results if each.verdict == verdict]
        lines += ["", f"{head}:"] if found else []
        for each in found:
            lines += [f"  {each.case.name}", *(f"    {detail}" for detail in each.details)]
    counts = Counter[str](each.verdict for each in results)
    told = ", ".join(f"{counts[verdict]} {word}" for verdict, word in WORDS.items() if counts[verdict])
    bill = sum(each.dollars for each in results)
    return [*lines, "", f"{len(results)} cases: {told or 'none'}. Billed: ${bill:.4f}."]


WORDS = {"same": "the same", "differs": "different", "skipped": "skipped"}


def as_json(results: Sequence[Result]) -> str:
    """Return all of it."""
    rows: list[dict[str, Any]] = [
        {
            "case": each.case.name,
            "group": each.case.group,
            "verdict": each.verdict,
            "details": each.details,
            "models": each.models,
            "standin_models": each.standin_models,
            "dollars": each.dollars,
        }
        for each in results
    ]
    dollars = sum(each.dollars for each in results)
    return json.dumps({"dollars": dollars, "cases": rows}, indent=2, ensure_ascii=False)
