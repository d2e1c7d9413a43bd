"""Looks for a newer release where an administrator says, installs what is signed, and goes back without a network.

Only what `releases` accepts reaches the host, and only a version above the installed one: an old release that is sent
again is refused. The code that is replaced is kept in a folder, and what is kept there is what `update back` installs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import httpx

from ..errors import UpdateRefused
from .releases import (
    Release,
    check_file,
    check_signature,
    frontmatter,
    is_newer,
    read_release,
)

FOLDER: Final = "replaced"
_MAX_RELEASE_BYTES: Final = 256 * 1024
_NEEDS: Final = "required_open_webui_version"
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that may be asked without TLS."""

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


class FunctionCode(Protocol):
    """The host's functions, and its version."""

    @property
    def host_version(self) -> str:
        """Such as "0.12.4"."""
        ...

    async def contents(self) -> Mapping[str, str]:
        """Return the code of all functions by their ids."""
        ...

    async def replace(self, function_id: str, content: str, *, message: str) -> None:
        """Put other code in a function's place. Raises UpdateRefused with the host's reason."""
        ...


@dataclass(frozen=True, slots=True)
class Updates:
    """Updates of the functions by an author; `address` and `public_key` are as the administrator entered them.

    `folder` keeps what was replaced; a file has `fetch_seconds` to arrive, with the connection.
    """

    code: FunctionCode
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
