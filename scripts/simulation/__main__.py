"""`./scripts/simulate`: years of use, seed by seed; a seed that fails is shrunk to a short story."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from . import story as stories
from .seeds import run_seed, running_servers, write_short
from .world import Ran, run

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_SECONDS = 3_600
SHOWN_LINES, SHOWN_CHARS = 30, 200
"""Of the log, where a law does not hold."""


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--years", type=float, default=1.0, help="years of one user's messages for each seed")
    parser.add_argument("--minutes", type=float, default=0.0, help="go on with the next seeds for so long")
    parser.add_argument("--jobs", type=int, default=1, help="how many seeds run at once")
    parser.add_argument("--story", type=Path, help="run this story instead of a seed's")
    parser.add_argument("--log", type=Path, help="write the whole log of one run here")
    parser.add_argument("--stories", type=Path, help="write stories that fail into this folder, shrunk")
    parser.add_argument(
        "--backend", choices=("sqlite", "servers"), default="sqlite", help="where rows are kept"
    )
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.story or given.log:
        told = (
            json.loads(given.story.read_text("utf-8"))
            if given.story
            else stories.draw(given.seed, given.years)
        )
        ran = run(told, keeps_all=True)
        if given.log:
            given.log.write_text("\n".join(ran.lines), "utf-8", "surrogatepass")
        _tell(given.seed, ran)
        return 1 if ran.broken else 0
    if given.backend == "servers":
        return _run_on_servers(given)
    return _run_seeds(given)


def _run_on_servers(given: argparse.Namespace) -> int:
    """Run seeds one after the other on a PostgreSQL and a Redis that are started for them."""
    end, seed, broken = time.monotonic() + given.minutes * 60, given.seed, False
    with running_servers() as servers:
        while not broken and (seed == given.seed or time.monotonic() < end):
            ran = run(stories.draw(seed, given.years), servers=servers)
            _tell(seed, ran)
            broken, seed = ran.broken is not None, seed + 1
    return 1 if broken else 0


def _run_seeds(given: argparse.Namespace) -> int:
    begun, counts, struck, judged = time.monotonic(), Counter[str](), Counter[str](), Counter[str]()
    failed = dict[int, Ran]()
    for seed, ran in _seeds(given):
        _tell(seed, ran)
        counts.update(ran.counts)
        struck.update(ran.struck)
        judged.update(ran.judged)
        counts["worlds"] += 1
        if ran.broken:
            failed[seed] = ran
            if given.stories:
                path = write_short(given.stories, seed, stories.draw(seed, given.years), ran)
                print(f"a short story: {path}")
    seconds = time.monotonic() - begun
    years = counts["messages"] / stories.MESSAGES_PER_YEAR
    print(json.dumps(counts), f"{sum(struck.values())} faults:", json.dumps(struck.most_common()))
    print("laws asked:", json.dumps(judged))
    print(
        f"{counts['messages'] / seconds:.1f} messages a second, {years / seconds * HOUR_SECONDS:.1f} user-years an hour"
    )
    print(f"broken: {[*failed]}" if failed else "every law holds")
    return 1 if failed else 0


def _seeds(given: argparse.Namespace) -> Iterator[tuple[int, Ran]]:
    """Run a seed for each job, then the next ones as long as there is time."""
    end, seed = time.monotonic() + given.minutes * 60, given.seed
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        running = {pool.submit(run_seed, seed + at, given.years): seed + at for at in range(given.jobs)}
        seed += given.jobs
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for each in done:
                yield running.pop(each), each.result()
                if time.monotonic() < end:
                    running[pool.submit(run_seed, seed, given.years)] = seed
                    seed += 1


def _tell(seed: int, ran: Ran) -> None:
    """Print what came of a run."""
    faults = sum(ran.struck.values())
    counted = f"{json.dumps(ran.counts)} {faults} faults"
    print(f"seed {seed}: {ran.digest[:16]} {counted}, {ran.processor_seconds:.1f} s of a core")
    if ran.broken:
        print(*(line[:SHOWN_CHARS] for line in ran.lines[-SHOWN_LINES:]), sep="\n")
        print(f"broken: {ran.broken}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
