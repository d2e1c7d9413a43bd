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
from typing import TYPE_CHECKING, Any

from . import story as stories
from .world import Ran, run

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_SECONDS = 3_600
SHRINKING_SECONDS = 600.0


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
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.story or given.log:
        told = json.loads(given.story.read_text("utf-8")) if given.story else stories.draw(given.seed, given.years)
        ran = run(told, keeps_all=True)
        if given.log:
            given.log.write_text("\n".join(ran.lines), "utf-8", "surrogatepass")
        _tell(given.seed, ran)
        return 1 if ran.broken else 0
    return _run_seeds(given)


def _run_seeds(given: argparse.Namespace) -> int:
    begun, counts, struck, failed = time.monotonic(), Counter[str](), Counter[str](), dict[int, Ran]()
    for seed, ran in _seeds(given):
        _tell(seed, ran)
        counts.update(ran.counts)
        struck.update(ran.struck)
        counts["worlds"] += 1
        if ran.broken:
            failed[seed] = ran
            if given.stories:
                _write(given.stories, seed, stories.draw(seed, given.years), ran)
    seconds = time.monotonic() - begun
    years = counts["messages"] / stories.MESSAGES_PER_YEAR
    print(json.dumps(counts), f"{sum(struck.values())} faults:", json.dumps(struck.most_common()))
    print(f"{counts['messages'] / seconds:.1f} messages a second, {years / seconds * HOUR_SECONDS:.1f} user-years an hour")
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


def run_seed(seed: int, years: float) -> Ran:
    """Run the story of a seed."""
    logging.disable(logging.CRITICAL)
    return run(stories.draw(seed, years))


def _write(folder: Path, seed: int, told: dict[str, Any], ran: Ran) -> None:
    """Write a story that breaks the same law, as short as it gets in some minutes."""
    end = time.monotonic() + SHRINKING_SECONDS
    assert ran.broken

    def fails(each: dict[str, Any]) -> bool:
        if time.monotonic() > end or not each["moments"]:
            return False
        try:
            again = run(each)
        except Exception:  # noqa: BLE001 - another failure than the one that is looked for
            return False
        return again.broken is not None and again.broken.law == ran.broken.law  # type: ignore[union-attr]

    short = stories.shrunk({**told, "moments": told["moments"][: ran.broken.at + 1]}, fails)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{ran.broken.law.replace(' ', '_')}-{seed}.json"
    path.write_text(json.dumps(short, indent=1) + "\n", "utf-8")
    print(f"{len(short['moments'])} moments fail: {path}")


def _tell(seed: int, ran: Ran) -> None:
    """Print what came of a run."""
    print(f"seed {seed}: {ran.digest[:16]} {json.dumps(ran.counts)} {sum(ran.struck.values())} faults, {ran.seconds:.1f} s")
    if ran.broken:
        print(*(line[:600] for line in ran.lines[-40:]), sep="\n")
        print(f"broken: {ran.broken}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
