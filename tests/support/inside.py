"""Runs a test's function in a process of its own, in which Open WebUI can be imported with given variables.

Importing Open WebUI reads the environment once and for all, so the tests' own process never does it.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SECONDS = 900.0

Answer = TypeVar("Answer")


def inside_open_webui(
    data: Path, variables: Mapping[str, str], visit: Callable[..., Answer], *arguments: object
) -> Answer:
    """Call a function of a module with values that can be pickled; `data` is the host's data directory."""
    environment = {"DATA_DIR": str(data), "OFFLINE_MODE": "true", "WEBUI_SECRET_KEY": "secret", **variables}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=_set, initargs=(environment,)) as pool:
        return pool.submit(visit, *arguments).result(SECONDS)


def _set(environment: dict[str, str]) -> None:
    os.environ.update(environment)
