"""`./scripts/simulate`: years of use, seed by seed; a seed that fails is shrunk to a short story."""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections import Counter
from pathlib import Path

from . import story as stories
from .world import Ran, run


def main() -> None:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--years", type=float, default=1.0, help="years of one user's messages for each seed")
    parser.add_argument("--minutes", type=float, default=0.0, help="go on with the next seeds for so long")
    parser.add_argument("--jobs", type=int, default=1, help="how many seeds run at once")
    parser.add_argument("--story", type=Path, help="run this story instead of a seed's")
    parser.add_argument("--write", type=Path, help="write a story that fails here, as short as it can be")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    story = json.loads(given.story.read_text("utf-8")) if given.story else stories.draw(given.seed, given.years)
    begun = time.perf_counter()
    ran = run(story)
    tell(ran, time.perf_counter() - begun)


def tell(ran: Ran, seconds: float) -> None:
    """Print what came of a run."""
    print(ran.digest)
    print(json.dumps(ran.counts), f"{ran.counts['messages'] / seconds:.1f} messages a second, {seconds:.1f} s")
    print(json.dumps(Counter(ran.struck).most_common()))
    if ran.broken:
        print(*ran.lines[-60:], sep="\n")
        print(f"broken: {ran.broken}")


if __name__ == "__main__":
    main()
