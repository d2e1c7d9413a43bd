"""Puts tiktoken's vocabularies where the tests find them without a network.

tiktoken downloads them at first use. The wheel of litellm carries copies under the very file names of
tiktoken's cache; it is fetched once, never installed, and the package itself works without any of this.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from scripts.paths import CACHE

DIRECTORY = CACHE / "tiktoken"

_SOURCE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_VOCABULARIES = ("cl100k_base", "o200k_base")


def prepare() -> None:
    """Fetch the vocabularies unless they are there; without them some counts are tested by estimate alone."""
    wanted = {hashlib.sha1(_SOURCE.format(name).encode()).hexdigest() for name in _VOCABULARIES}  # noqa: S324 - tiktoken's naming
    if all((DIRECTORY / name).exists() for name in wanted):
        return
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        if wheel := _download(Path(directory)):
            _extract(wheel, wanted)
    if absent := sorted(name for name in wanted if not (DIRECTORY / name).exists()):
        print(f"warning: no tiktoken vocabulary could be had ({', '.join(absent)})", flush=True)


def _download(directory: Path) -> Path | None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--dest", str(directory), "litellm"], check=False)
    return next(directory.glob("*.whl"), None)


def _extract(wheel: Path, wanted: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            name = PurePosixPath(member).name
            if name in wanted:
                (DIRECTORY / name).write_bytes(archive.read(member))
