"""Looks for a newer release where an administrator says, installs what is signed, and goes back without a network.

Only what is signed reaches the host, and only a version above the installed one: an old release that is sent again is
refused. The code that is replaced is kept in a folder, and what is kept there is what `update back` installs.

A release's `update.json`, written by `scripts/build --sign`, is an object with

    version     "1.2.0": up to four numbers
    changelog   Markdown
    files       by name, such as "openrouter.py": an object with `bytes` and `sha256`, in hexadecimal digits
    signature   Ed25519 (RFC 8032) over `signed_text`, in base64

The files lie beside it. A key is written as base64 of its 32 bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ..errors import UpdateRefused
from ..host.platform import HostFunctionCode
from ..responses.values import as_object, as_text, clean_text

FOLDER: Final = "replaced"
UPDATE_FILE: Final = "update.json"
_CONTEXT: Final = "open-webui-openrouter-pipe release"
"""Begins what is signed: a signature of anything else that the key has signed is none of a release."""

_VERSION: Final = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,3}", re.ASCII)
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\.py", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_FIELD: Final = re.compile(r"^([a-z_]+): (.*)$", re.MULTILINE)
_MAX_FILE_BYTES: Final = 8 * 1024 * 1024
_MAX_RELEASE_BYTES: Final = 256 * 1024
_NEEDS: Final = "required_open_webui_version"
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that may be asked without TLS."""

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
NO_ADDRESS: Final = (
    "Whether a newer release exists is not looked for. To switch that on, enter the address of the release's "
    "`update.json` in this function's valve *Address*, and the key of those who publish it in *Public Key*."
)
BAD_ADDRESS: Final = "The valve *Address* has to begin with `https://`, or name this server itself."
NOTHING_INSTALLED: Final = "No function of this release is installed."
UNREACHABLE: Final = (
    "{host} did not send it: {reason}. Nothing was changed. Try again later, or check the valve *Address*."
)
TOO_LARGE: Final = "{host} sent more than {limit:,} bytes. Nothing was changed."
NOT_NEWER: Final = "**Nothing newer is at the address.** Installed: {installed}; at the address: {version}."
NEWER: Final = "**Release {version} can be installed.** Installed: {installed}."
TO_INSTALL: Final = (
    "It is signed with your key. Write `update now` to install it. Answers that are being written end on the old code, "
    "and `update back` returns to it."
)
WITHOUT_KEY: Final = (
    "Nothing is installed from here, as this function's valve *Public Key* is empty, and nothing says who wrote the "
    "release. To install it by hand, download its files, compare their SHA-256 with what those who publish it say "
    "elsewhere, and replace each function's text:"
)
INSTALLED: Final = "**Done.** {done}. Reload the page. To go back to what ran before, write `update back`."
WOULD_GO_BACK: Final = (
    "**This would go back: {done}. Nothing has been changed yet.** To do it, write `update back now`."
)
WENT_BACK: Final = "**Done.** {done}. Reload the page. `update back` returns to what ran before."
NOTHING_KEPT: Final = "Nothing has been updated from here, so there is nothing to go back to."
TOO_OLD: Final = "This release needs Open WebUI {needed}, and this is {version}. Nothing was installed."
NOT_TAKEN: Final = "Open WebUI did not take the code of `{id}`: {reason}"
NOT_KEPT: Final = "What runs cannot be kept in `{folder}` ({reason}), so nothing takes its place."
DONE_BEFORE: Final = "Done before: {done}."
OF_PIP: Final = "`{id}` runs a package that was installed with pip: update that, and restart Open WebUI."


@dataclass(frozen=True, slots=True)
class InstalledFunction:
    """A function of the host with its code."""

    id: str
    content: str

    @property
    def about(self) -> Mapping[str, str]:
        """What its code says of itself."""
        return frontmatter(self.content)

    @property
    def version(self) -> str:
        """The version that its code names."""
        return self.about.get("version", "")

    @property
    def file(self) -> str:
        """What the file is called from which it was installed."""
        return f"{self.about.get('id', '')}.py"


@dataclass(frozen=True, slots=True)
class Updates:
    """Updates of the functions by an author; `address` and `public_key` are as the administrator entered them.

    `folder` keeps what was replaced; a file has `fetch_seconds` to arrive, with the connection.
    """

    code: HostFunctionCode
    folder: Path
    author: str
    address: str
    public_key: str
    fetch_seconds: float = 30.0

    async def look(self, *, install: bool) -> str:
        """Say what is at the address, and install it if that is asked for. Raises UpdateRefused."""
        if not self.address:
            return NO_ADDRESS
        url = _checked_address(self.address)
        release = read_release((await self._fetch(url, _MAX_RELEASE_BYTES)).decode("utf-8", "replace"))
        if self.public_key:
            check_signature(release, self.public_key)
        functions = [each for each in await self._functions() if each.file in release.files]
        if not functions:
            return NOTHING_INSTALLED
        older = [each for each in functions if is_newer(release.version, each.version)]
        installed = ", ".join(f"`{each.id}` {each.version}" for each in functions)
        if not older:
            return NOT_NEWER.format(installed=installed, version=release.version)
        if self.public_key and install:
            return await self._install(release, url, older)
        head = NEWER.format(version=release.version, installed=installed)
        if self.public_key:
            return f"{head}\n\n{release.changelog}\n\n{TO_INSTALL}"
        files = [f"- {url.join(name)}, SHA-256 `{file.digest}`" for name, file in release.files.items()]
        return "\n\n".join([head, _quoted(release.changelog), WITHOUT_KEY, "\n".join(files)])

    async def _install(self, release: Release, url: httpx.URL, functions: Sequence[InstalledFunction]) -> str:
        """Fetch and check all files before the first is installed."""
        texts = {}
        for name in sorted({each.file for each in functions}):
            content = await self._fetch(url.join(name), release.files[name].size_bytes)
            texts[name] = check_file(name, content, release)
        return INSTALLED.format(done=await self._exchange([(each, texts[each.file]) for each in functions]))

    async def back(self, *, install: bool) -> str:
        """Say what was replaced, and install it in its turn if that is asked for. Raises UpdateRefused."""
        kept = await asyncio.to_thread(self._kept)
        pairs = [(each, kept[each.id]) for each in await self._functions() if each.id in kept]
        if not pairs:
            return NOTHING_KEPT
        if install:
            return WENT_BACK.format(done=await self._exchange(pairs))
        return WOULD_GO_BACK.format(done=_steps(pairs))

    async def _fetch(self, url: httpx.URL, max_bytes: int) -> bytes:
        """Fetch a file that is no larger; a redirect is not followed. Raises UpdateRefused."""
        content = bytearray()
        headers = {"Accept-Encoding": "identity"}
        beyond = 2 * self.fetch_seconds  # for each step; the limit below is for all together
        try:
            async with (
                asyncio.timeout(self.fetch_seconds),
                httpx.AsyncClient(follow_redirects=False, headers=headers, timeout=beyond) as client,
                client.stream("GET", url) as response,
            ):
                if response.status_code != httpx.codes.OK:
                    reason = f"it answered with the status {response.status_code}"
                    raise UpdateRefused(UNREACHABLE.format(host=url.host, reason=reason))
                async for piece in response.aiter_raw():
                    content += piece
                    if len(content) > max_bytes:
                        raise UpdateRefused(TOO_LARGE.format(host=url.host, limit=max_bytes))
        except TimeoutError as error:
            reason = f"it took longer than {self.fetch_seconds:g} seconds"
            raise UpdateRefused(UNREACHABLE.format(host=url.host, reason=reason)) from error
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise UpdateRefused(UNREACHABLE.format(host=url.host, reason=reason)) from error
        return bytes(content)

    async def _functions(self) -> list[InstalledFunction]:
        contents = await self.code.contents()
        functions = [InstalledFunction(name, content) for name, content in contents.items()]
        ours = [each for each in functions if each.about.get("author") == self.author]
        return sorted(ours, key=lambda each: each.id)

    async def _exchange(self, pairs: Sequence[tuple[InstalledFunction, str]]) -> str:
        """Put each text in its function's place, whose code is kept instead; return what was done."""
        for function, content in pairs:
            needed, version = frontmatter(content).get(_NEEDS, "0"), self.code.host_version
            if is_newer(needed, version):
                raise UpdateRefused(TOO_OLD.format(needed=needed, version=version))
            if "\nfrom open_webui_openrouter_pipe import" in function.content:
                raise UpdateRefused(OF_PIP.format(id=function.id))
        done: list[tuple[InstalledFunction, str]] = []
        for function, content in pairs:
            path = self.folder / f"{function.id}.py"
            try:
                waiting = await asyncio.to_thread(_write_beside, path, function.content)
            except OSError as error:
                raise UpdateRefused(NOT_KEPT.format(folder=self.folder, reason=error.strerror)) from error
            version = frontmatter(content).get("version", "")
            try:
                await self.code.replace(function.id, content, message=f"Version {version}")
            except UpdateRefused as error:
                lines = [NOT_TAKEN.format(id=function.id, reason=error.user_message)]
                lines += [DONE_BEFORE.format(done=_steps(done))] if done else []
                raise UpdateRefused("\n\n".join(lines)) from error
            await asyncio.to_thread(waiting.replace, path)
            done.append((function, content))
        return _steps(done)

    def _kept(self) -> dict[str, str]:
        """The code that was replaced, by the function's id. Blocks."""
        return {path.stem: path.read_text("utf-8") for path in sorted(self.folder.glob("*.py"))}


def _write_beside(path: Path, content: str) -> Path:
    """Write a file whole before it takes the place of another; return where it waits. Blocks."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    waiting = path.with_suffix(".waiting")
    waiting.write_text(content, "utf-8", newline="")
    return waiting


def _steps(pairs: Sequence[tuple[InstalledFunction, str]]) -> str:
    """From which version each function goes to which."""
    return ", ".join(
        f"`{function.id}` {function.version} → {frontmatter(content).get('version')}"
        for function, content in pairs
    )


def _quoted(text: str) -> str:
    """A text of which nobody knows who wrote it, as it is: no link or picture of it takes effect."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def _checked_address(address: str) -> httpx.URL:
    try:
        url = httpx.URL(address.strip())
    except httpx.InvalidURL as error:
        raise UpdateRefused(BAD_ADDRESS) from error
    if url.host and (url.scheme == "https" or (url.scheme == "http" and url.host in _LOCAL)):
        return url
    raise UpdateRefused(BAD_ADDRESS)


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
