"""Writes what people install into Open WebUI, and judges whether a file is one of those."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from open_webui_openrouter_pipe.maintenance.updates import UPDATE_FILE, signed_text
from scripts.bundle import builder, verifier
from scripts.bundle.builder import MAINTENANCE, PIPE, BuildError, Function, Package
from scripts.paths import DIST, PACKAGE, ROOT, VENV

if TYPE_CHECKING:
    from collections.abc import Callable

BUNDLE = f"{PIPE.id}.py"
"""Open WebUI takes a function's id from the name of the file that it imports."""

KEY_VARIABLE = "SIGNING_KEY_FILE"
"""The environment's variable that names the file with the key, for who builds releases by a script."""

STUB = f"pip/{PIPE.id}.py"
MANIFEST = "manifest.json"
RELEASED = (*(f"{each.id}.{kind}" for each in (PIPE, MAINTENANCE) for kind in ("py", "json")), STUB)
"""What a release holds beside its wheel and its manifest."""


def build(
    target: Path = DIST,
    *,
    write: Callable[[Package, Function], str] = builder.pack,
    links: dict[str, str] | None = None,
) -> Path:
    """Write a release's files, all but the wheel; return the path of the single file. `write` gives it its kind."""
    content = builder.read_package(PACKAGE, links)
    files = {STUB: builder.stub(content)}
    for function in (PIPE, MAINTENANCE):
        part = builder.part_of(content, function)
        text = write(part, function)
        files |= {
            f"{function.id}.py": text,
            f"{function.id}.json": builder.import_file(part, function, text),
        }
    for name, text in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, "utf-8")
    return target / BUNDLE


def build_wheel(target: Path) -> None:
    """Write the package for pip beside them; raises BuildError with what the tool says."""
    for old in target.glob("*.whl"):
        old.unlink()
    command = [str(VENV / "bin" / "uv"), "build", "--quiet", "--wheel", "--out-dir", str(target), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (target / ".gitignore").unlink(missing_ok=True)  # the tool's own
    if done.returncode:
        raise BuildError(f"the wheel cannot be built: {done.stderr.strip()}")


def write_manifest(target: Path, *, links: dict[str, str]) -> None:
    """Write down which release the folder holds: its function, its version, and the digest of each file."""
    paths = [*(target / name for name in sorted(RELEASED)), *target.glob("*.whl")]
    files = {
        path.relative_to(target).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in paths
    }
    about = builder.manifest_fields(builder.part_of(builder.read_package(PACKAGE, links), PIPE), PIPE)
    (target / MANIFEST).write_text(json.dumps({**about, "files": files}, indent=1) + "\n", "utf-8")


def new_key(path: Path) -> str:
    """Write an Ed25519 key that only this account can read, and return its public half; raises BuildError."""
    key = Ed25519PrivateKey.generate()
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    except OSError as error:
        raise BuildError(f"the key cannot be written: {error}") from error
    return b64encode(key.public_key().public_bytes_raw()).decode()


def sign(target: Path, key_file: Path, *, changelog: str, version: str) -> Path:
    """Write what the maintenance function looks for beside a release's functions, signed; raises BuildError."""
    try:
        key = load_pem_private_key(key_file.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise BuildError(f"{key_file} cannot be read as a key without a passphrase: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BuildError(f"{key_file} is not an Ed25519 key")
    contents = {f"{each.id}.py": (target / f"{each.id}.py").read_bytes() for each in (PIPE, MAINTENANCE)}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    release = {
        "version": version,
        "changelog": changelog,
        "files": {
            name: {"bytes": len(content), "sha256": digests[name]} for name, content in contents.items()
        },
        "signature": b64encode(key.sign(signed_text(version, changelog, digests))).decode(),
    }
    path = target / UPDATE_FILE
    path.write_text(json.dumps(release, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return path


def newest_changes(changelog: str) -> str:
    """The first section of a changelog, which is about what is built, without its heading."""
    sections = re.split(r"^## .*\n", changelog, maxsplit=2, flags=re.MULTILINE)
    return sections[1].strip() if len(sections) > 1 else ""


def _verify(path: Path) -> int:
    """Say what a file is; 0 when it is as it was built."""
    verdict = verifier.verify(path.read_text("utf-8"), builder.read_package(PACKAGE))
    print(f"{path}: version {verdict.version}, {verdict.files} files, digest {verdict.digest}")
    for fault in verdict.faults:
        print(f"  NOT as it was built: {fault}")
    if not verdict.faults:
        print("  as it was built")
    if verdict.differing:
        print(f"  other than in this tree: {', '.join(verdict.differing)}")
    else:
        print("  the same files as in this tree")
    return 1 if verdict.faults else 0


def _build(options: argparse.Namespace) -> int:
    links = dict.fromkeys(builder.LINKS, options.home) if options.home else {}
    build(options.target, write=builder.readable if options.readable else builder.pack, links=links)
    build_wheel(options.target)
    write_manifest(options.target, links=links)
    names = [*RELEASED, MANIFEST]
    (options.target / UPDATE_FILE).unlink(missing_ok=True)
    if options.sign:
        changes = newest_changes((ROOT / "CHANGELOG.md").read_text("utf-8"))
        version = builder.read_package(PACKAGE).version
        names.append(sign(options.target, options.sign, changelog=changes, version=version).name)
    for path in (*(options.target / name for name in names), *options.target.glob("*.whl")):
        print(f"{path} ({path.stat().st_size:,} bytes)")
    return 0


def main() -> int:
    """Build or verify from the command line; say what was written or found."""
    parser = argparse.ArgumentParser(prog="scripts/build", description=__doc__)
    parser.add_argument("--target", type=Path, default=DIST, help="where the release goes")
    parser.add_argument("--home", metavar="URL", help="the project's page, which the function then links to")
    parser.add_argument(
        "--readable", action="store_true", help="leave the files in the functions as they are, to be edited"
    )
    parser.add_argument(
        "--verify", type=Path, metavar="FILE", help="build nothing; judge a file or an export"
    )
    parser.add_argument(
        "--sign",
        type=Path,
        metavar="KEYFILE",
        default=os.environ.get(KEY_VARIABLE) or None,
        help=f"sign the release too, in {UPDATE_FILE}; without it, with the file that {KEY_VARIABLE} names",
    )
    parser.add_argument(
        "--new-key", type=Path, metavar="KEYFILE", help="build nothing; make a key, and print its public half"
    )
    options = parser.parse_args()
    try:
        if options.new_key:
            print(new_key(options.new_key))
            return 0
        return _verify(options.verify) if options.verify else _build(options)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
