"""One copy of the tree in which tests are run: once to map what they reach, then once for each mutant.

Owns how long a run may last. The checkout itself is never touched.
"""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.mutation import reach

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.mutation.mutants import Mutant

_OMITTED = shutil.ignore_patterns(
    ".git", ".venv*", ".cache", ".data", ".artifacts", ".*_cache", "dist", "__pycache__"
)
_PLUGIN = "reach_of_tests"
_NO_TESTS, _USAGE = 5, 4
_START_SECONDS = 60
_PATIENCE = 5
"""A run may take this many times the processor time that its tests took before, and what the start takes."""
_ASLEEP_SECONDS = 60.0
_AWAKE_SHARE = 0.03
"""Who neither ran nor waited for a processor in this share of a minute waits for something that never comes."""
_MEMORY_BYTES = 8 << 30


@dataclass(slots=True)
class Copy:
    """A copy of the tree in this folder."""

    root: Path
    folder: Path
    _times: Iterator[int] = field(default_factory=lambda: itertools.count(1_000_000_000))

    def __post_init__(self) -> None:
        """Copy what tests read; the environment and tiktoken's vocabularies stay where they are."""
        shutil.copytree(self.root, self.folder, ignore=_OMITTED, symlinks=True)
        shutil.copy(reach.__file__, self.folder / f"{_PLUGIN}.py")
        for link in (".venv", ".cache/tiktoken"):
            (self.folder / link).parent.mkdir(exist_ok=True)
            (self.folder / link).symlink_to((self.root / link).resolve())

    def map(self, package: str, target: Path, jobs: int) -> None:
        """Run all tests and write into `target` what each of them reaches."""
        words = ["-n", str(jobs)] if jobs > 1 else []
        target.mkdir(parents=True, exist_ok=True)
        process = self._start(*words, REACH_MAP=str(target.resolve()), REACH_PACKAGE=package)
        output = process.communicate()[0]
        print("\n".join(output.splitlines()[-5:]), flush=True)
        if not any(target.glob("seconds-*")):
            raise RuntimeError("no test could be run")

    def kills(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
        """True if one of the tests, which took these seconds of processor time, fails or hangs on the mutant."""
        path = self.folder / mutant.path
        source = path.read_text("utf-8")
        self._write(path, mutant.applied(source))
        try:
            return self.fails(tests, seconds)
        finally:
            self._write(path, source)

    def fails(self, tests: Sequence[str], seconds: float) -> bool:
        """True if one of the tests fails or hangs in the tree as it is."""
        listed = self.folder / "chosen-tests"
        listed.write_text("\0".join(tests), "utf-8")
        files = sorted({test.partition("::")[0] for test in tests})
        process = self._start("-x", *files, REACH_TESTS=str(listed))
        limit = int(_START_SECONDS + _PATIENCE * seconds)
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit + 5))
        resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        output = _watched(process)
        if process.returncode == _NO_TESTS or "unrecognized arguments" in output:
            raise RuntimeError(output)
        return process.returncode != 0

    def _write(self, path: Path, source: str) -> None:
        """Write a source with a time that no earlier one had, so that no stale bytecode is run."""
        path.write_text(source, "utf-8")
        stamp = next(self._times)
        os.utime(path, (stamp, stamp))

    def _start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        fixed = ["-p", _PLUGIN, "-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        environment = {**os.environ, "TIKTOKEN_CACHE_DIR": str(self.folder / ".cache/tiktoken"), **variables}
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *fixed, *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def _watched(process: subprocess.Popen[str]) -> str:
    """What a process wrote until it ended, or until it had been asleep for a minute and was ended."""
    judged, wanted = time.monotonic(), 0.0
    while True:
        try:
            output, _ = process.communicate(timeout=1.0)
        except subprocess.TimeoutExpired:
            if (passed := time.monotonic() - judged) < _ASLEEP_SECONDS:
                continue
            before, wanted, judged = wanted, _wanted_seconds(process.pid), time.monotonic()
            if wanted - before < _AWAKE_SHARE * passed:
                os.killpg(process.pid, signal.SIGKILL)
        else:
            return output


def _wanted_seconds(pid: int) -> float:
    """How long the threads of a process ran or waited for a processor."""
    stats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(sum(map(int, stat.read_text().split()[:2])) for stat in stats) / 1e9
