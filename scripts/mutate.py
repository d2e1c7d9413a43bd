"""Changes the package at random places, one at a time, and counts how many of the changes the tests notice.

What survives is listed: a line that no test holds. A change is tried with those tests of `./scripts/test --quick`
that reach it, the nearest folder first; whatever they notice, all tests notice. What they do not notice in `host/` is
tried with the tests of that folder that need Open WebUI, and counted apart. What became of a change is kept and holds
until its module or those tests change: an interrupted run goes on where it was.
`scripts/mutation/equivalents.toml` names changes that make no difference, with the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.environment import prepare_vocabularies
from scripts.mutation.mutants import Mutant, mutants
from scripts.mutation.reach import folder_of
from scripts.mutation.trial import Job
from scripts.mutation.verdicts import Verdicts
from scripts.paths import CACHE, PACKAGE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EQUIVALENTS = ROOT / "scripts" / "mutation" / "equivalents.toml"
VERDICTS = ROOT / "scripts" / "mutation" / "verdicts.jsonl"
"""Of what is drawn by the seed that nobody chose."""
_SEED = "1"
_OMITTED = shutil.ignore_patterns(
    ".git", ".venv*", ".cache", ".data", ".artifacts", ".*_cache", "dist", "__pycache__"
)


def drawn(found: Iterable[Mutant], count: int, seed: str) -> list[Mutant]:
    """As many mutants, each on a line of its own; every line that has one is as likely as any other.

    What is drawn follows from the seed and each line's text: another line elsewhere moves none of the others.
    """
    by_line: dict[tuple[str, str, str], dict[str, Mutant]] = defaultdict(dict)
    for mutant in found:
        by_line[mutant.path, mutant.where, mutant.code].setdefault(mutant.key, mutant)

    def rank(name: object) -> str:
        return hashlib.sha256(f"{seed}\0{name}".encode()).hexdigest()

    lines = sorted(by_line, key=rank)[:count]
    return [by_line[line][min(by_line[line], key=rank)] for line in lines]


def changed_lines(diff: str) -> dict[str, set[int]]:
    """The lines of each file that a diff without context adds or changes."""
    lines: dict[str, set[int]] = {}
    path = ""
    for row in diff.splitlines():
        if row.startswith("+++ "):
            path = row.removeprefix("+++ ")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", row):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    return lines


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A change that makes no difference, named by the text of its line: with other text it says nothing."""

    path: str
    where: str
    line: str
    change: str
    reason: str

    @property
    def key(self) -> str:
        """The key of the mutant."""
        return f"{self.path} | {self.where} | {self.line} | {self.change}"


def equivalents(file: Path = EQUIVALENTS) -> list[Equivalent]:
    """Those of the file."""
    return [Equivalent(**row) for row in tomllib.loads(file.read_text("utf-8")).get("equivalent", [])]


def void(explained: Iterable[Equivalent], root: Path = ROOT) -> list[str]:
    """The explanations of changes that no line has any more."""
    keys: dict[str, set[str]] = {}
    for each in explained:
        if each.path not in keys:
            file = root / each.path
            found = mutants(each.path, file.read_text("utf-8")) if file.exists() else []
            keys[each.path] = {mutant.key for mutant in found}
    return [each.key for each in explained if each.key not in keys[each.path]]


def tried(tree: Path, job: Job) -> None:
    """Try the mutants of a job in a copy of the tree, and say what became of each."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Path(folder).resolve() / "tree"
        shutil.copytree(tree, copy, ignore=_OMITTED, symlinks=True)
        for link in (".venv", ".cache/tiktoken"):
            (copy / link).parent.mkdir(exist_ok=True)
            (copy / link).symlink_to((tree / link).resolve())
        job.write(copy.with_suffix(".job"))
        variables = {"TIKTOKEN_CACHE_DIR": str(copy / ".cache/tiktoken"), "PYTHONPATH": str(ROOT)}
        subprocess.run(
            [sys.executable, "-m", "scripts.mutation.trial", str(copy.with_suffix(".job"))],
            cwd=copy,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            check=False,
        )


def main() -> int:
    """Try what is drawn or changed; list the survivors and the share that tests noticed."""
    options = _arguments()
    found = [
        mutant
        for path in sorted(PACKAGE.rglob("*.py"))
        for mutant in mutants(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    ]
    if options.change is not None:
        lines = _changed(options.change or _base())
        found = [mutant for mutant in found if mutant.line in lines.get(mutant.path, ())]
        print(f"{len(found)} mutants in {sum(map(len, lines.values()))} changed lines", flush=True)
    is_ordinary = options.change is None and options.seed == _SEED
    kept = VERDICTS if is_ordinary else CACHE / "mutate" / "verdicts.jsonl"
    explained = {each.key for each in equivalents()}
    within = tuple(f"{PACKAGE.name}/{path}" for path in options.within) or ("",)
    chosen = [each for each in drawn(found, options.mutants, options.seed) if each.path.startswith(within)]
    job = Job(
        package=PACKAGE.name,
        mutants=[mutant for mutant in chosen if mutant.key not in explained],
        verdicts=str(kept),
        pieces=str(CACHE / "mutate" / "reach"),
    )
    if job.mutants:
        prepare_vocabularies()
        tried(ROOT, job)
    verdicts = Verdicts(ROOT, kept)
    if is_ordinary:
        verdicts.keep(found)
    known = {mutant: verdicts.known(mutant) for mutant in job.mutants}
    survivors = [mutant for mutant, verdict in known.items() if not verdict.by]
    with_host = sum(bool(each.by) and folder_of(each.by) in each.tried for each in known.values())
    print(f"\n{len(survivors)} survived:", *(f"{each.line}: {each.key}" for each in survivors), sep="\n")
    print(_summary(len(chosen), len(chosen) - len(job.mutants), len(survivors), with_host))
    return 0


def _summary(drawn: int, explained: int, survived: int, with_host: int) -> str:
    """Those that only tests noticed that need Open WebUI are counted apart."""
    killed = drawn - explained - survived - with_host
    share = killed / max(1, drawn)
    apart = f"{with_host} killed with Open WebUI, " if with_host else ""
    return (
        f"{drawn} mutants: {killed} killed ({share:.1%}), {apart}{explained} explained, {survived} survived"
    )


def _changed(base: str) -> Mapping[str, set[int]]:
    """The lines of the package that differ from a commit, also where no commit has them yet."""
    lines = changed_lines(_git("diff", "--unified=0", "--no-prefix", base, "--", PACKAGE.name))
    for path in _git("ls-files", "--others", "--exclude-standard", "--", PACKAGE.name).splitlines():
        lines[path] = set(range(1, len((ROOT / path).read_text("utf-8").splitlines()) + 1))
    return lines


def _base() -> str:
    """Where this branch left `main`; on `main` itself, the commit before."""
    on_main = _git("rev-parse", "--abbrev-ref", "HEAD").strip() == "main"
    return "HEAD~1" if on_main else _git("merge-base", "HEAD", "main").strip()


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=300, help="how many at most (default: 300)")
    parser.add_argument("--seed", default=_SEED, help="what is drawn follows from it (default: %(default)s)")
    parser.add_argument(
        "within", nargs="*", metavar="PATH", help="modules or folders of the package (default: all of it)"
    )
    parser.add_argument(
        "--change",
        nargs="?",
        const="",
        metavar="BASE",
        help="only in lines changed since this commit (default: where the branch left main; on main, HEAD~1)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
