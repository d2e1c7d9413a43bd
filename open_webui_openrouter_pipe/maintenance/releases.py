"""What a release says of itself, and whether who holds the key has signed it. Pure.

A release's `update.json`, written by `scripts/build --sign`, is an object with

    version     "1.2.0": up to four numbers
    changelog   Markdown
    files       by name, such as "openrouter.py": an object with `bytes` and `sha256`, in hexadecimal digits
    signature   Ed25519 (RFC 8032) over `signed_text`, in base64

The files lie beside it. A key is written as base64 of its 32 bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ..errors import UpdateRefused
from ..responses.values import as_object, as_text, clean_text

UPDATE_FILE: Final = "update.json"
_CONTEXT: Final = "open-webui-openrouter-pipe release"
"""Begins what is signed: a signature of anything else that the key has signed is none of a release."""

_VERSION: Final = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}", re.ASCII)
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\.py", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_FIELD: Final = re.compile(r"^([a-z_]+): (.*)$", re.MULTILINE)
_MAX_FILE_BYTES: Final = 8 * 1024 * 1024

UNREADABLE: Final = "What stands at the address is not the `update.json` of a release."
NO_KEY: Final = (
    "The valve *Public Key* is no Ed25519 key: it has 44 characters, as `scripts/build --new-key` prints it."
)
NOT_SIGNED: Final = (
    "**The release is not signed with the key in the valve *Public Key*. Nothing was installed.** Somebody may have "
    "changed it, or it has another key: ask those who publish it, on another way than this address."
)
UNKNOWN_VERSION: Final = (
    "`{version}` is no version that could be compared with another. Nothing was installed."
)
CHANGED: Final = "`{name}` is not the file that was signed: {what}. Nothing was installed."


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of a release: its size, and its SHA-256 in hexadecimal digits."""

    size_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Release:
    """A release as its `update.json` describes it; whether that is true, `check_signature` says."""

    version: str
    changelog: str
    files: Mapping[str, ReleaseFile]
    signature: str


def signed_text(version: str, changelog: str, digests: Mapping[str, str]) -> bytes:
    """Return what the key signs, in UTF-8: lines that each end in a newline, with nothing that could stand otherwise.

    The name of this format; the version; the changelog's SHA-256; each file's name, a space, and its SHA-256, by name.
    So no file, version or changelog can be exchanged for that of another release.
    """
    files = [f"{name} {digest}" for name, digest in sorted(digests.items())]
    lines = [_CONTEXT, version, hashlib.sha256(changelog.encode()).hexdigest(), *files]
    return "".join(f"{line}\n" for line in lines).encode()


def read_release(text: str) -> Release:
    """Read an `update.json`. Raises UpdateRefused for what is none."""
    try:
        stored = as_object(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise UpdateRefused(UNREADABLE) from error
    version, changelog = as_text(stored.get("version")), clean_text(as_text(stored.get("changelog")))
    files = {name: _read_file(each) for name, each in as_object(stored.get("files")).items()}
    if not (_VERSION.fullmatch(version) and files and all(map(_NAME.fullmatch, files))):
        raise UpdateRefused(UNREADABLE)
    return Release(version, changelog, files, as_text(stored.get("signature")))


def _read_file(stored: Any) -> ReleaseFile:
    fields = as_object(stored)
    size, digest = fields.get("bytes"), as_text(fields.get("sha256"))
    if not isinstance(size, int) or not 0 < size <= _MAX_FILE_BYTES or not _DIGEST.fullmatch(digest):
        raise UpdateRefused(UNREADABLE)
    return ReleaseFile(size, digest)


def check_signature(release: Release, public_key: str) -> None:
    """Raise UpdateRefused unless the holder of the key has signed all that the release says of itself."""
    try:
        key = Ed25519PublicKey.from_public_bytes(b64decode(public_key, validate=True))
    except ValueError as error:
        raise UpdateRefused(NO_KEY) from error
    digests = {name: file.digest for name, file in release.files.items()}
    try:
        signature = b64decode(release.signature, validate=True)
        key.verify(signature, signed_text(release.version, release.changelog, digests))
    except (ValueError, InvalidSignature) as error:
        raise UpdateRefused(NOT_SIGNED) from error


def check_file(name: str, content: bytes, release: Release) -> str:
    """Return a file's text; raise UpdateRefused unless it is the release's, and says the same of itself."""
    file = release.files[name]
    if len(content) != file.size_bytes:
        what = f"it has {len(content):,} bytes instead of {file.size_bytes:,}"
    elif hashlib.sha256(content).hexdigest() != file.digest:
        what = "its digest is another one"
    elif (found := frontmatter(content.decode("utf-8", "replace")).get("version")) != release.version:
        what = f"it says that it is version {found}"
    else:
        return content.decode()
    raise UpdateRefused(CHANGED.format(name=name, what=what))


def frontmatter(content: str) -> dict[str, str]:
    """Return the fields at the beginning of a function's text; the host reads them in the same way."""
    head = content[4:].partition('"""')[0] if content.startswith('"""\n') else ""
    return dict(_FIELD.findall(head))


def is_newer(version: str, than: str) -> bool:
    """Whether a version comes after another, by its numbers. Raises UpdateRefused where one has none."""
    return _numbers(version) > _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    if not (found := _VERSION.match(version)):
        raise UpdateRefused(UNKNOWN_VERSION.format(version=version))
    numbers = [int(number) for number in found[0].split(".")]
    return (*numbers, *[0] * (4 - len(numbers)))
