"""Fetches files from addresses that users and models name, without ever reaching what is not public.

Owns the resolving, the connection, redirects, limits and retries; `addresses` judges. The checked IP address itself is
connected to, under the name's Host header and certificate, so that no second answer of a name server can lead
elsewhere. Each request has a transport of its own, below httpx's client: no cookies, no proxy, no connection that
another name has opened, and nobody else who reads a redirect's location.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import unquote, urljoin

import httpx

from ..errors import AttachmentUnavailable
from ..notices import notice
from ..ports import FileContent
from .addresses import IPAddress, WebAddress, address_refused, is_public, read_address
from .kinds import media_type_of

_MAX_REDIRECTS = 3
_MAX_ADDRESSES = 4
"""How many addresses of a host are tried in turn."""
_BACKOFF_SECONDS: Final = (0.5, 1.0)
_CONNECT_TIMEOUT_SECONDS = 5.0
_SILENCE_SECONDS = 20.0
_MAX_NAME_CHARACTERS = 120
_BYTES_IN_MEGABYTE = 1024 * 1024
_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (compatible; open-webui-openrouter-pipe)",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Connection": "close",
}

_NAME_PARAMETER = re.compile(r"filename(\*)?=(?:\"([^\"]*)\"|([^;\s\"]+))", re.IGNORECASE)
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069<>:\"|?*]+")
"""Controls, marks that turn the direction of writing, and what file systems refuse."""

_log = logging.getLogger(__name__)

Resolve = Callable[[str], Awaitable[Sequence[str]]]


class NewTransport(Protocol):
    """What makes the transport of one request."""

    def __call__(self, *, verify: ssl.SSLContext) -> httpx.AsyncBaseTransport:
        """Return one whose certificates are verified by this context."""


@dataclass(frozen=True, slots=True)
class DownloadSettings:
    """What downloads may do: hosts reached although they are not public, and limits for each file."""

    allowed_hosts: tuple[str, ...] = ()
    max_bytes: int = 20 * _BYTES_IN_MEGABYTE
    max_seconds: float = 60.0
    allow_http: bool = False


class _NotNow(AttachmentUnavailable):
    """It failed before anything was read, so that another attempt may succeed."""


async def resolve_host(host: str) -> list[str]:
    """Return all IP addresses of a host, the ones to prefer first; raises OSError."""
    records = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(record[4][0]) for record in records))


class GuardedDownloads:
    """The port `Downloads`. Without `tls`, the machine's or certifi's authorities are trusted."""

    def __init__(
        self,
        settings: DownloadSettings,
        *,
        resolve: Resolve = resolve_host,
        transport: NewTransport = httpx.AsyncHTTPTransport,
        tls: ssl.SSLContext | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._resolve = resolve
        self._transport = transport
        self._tls = tls
        self._sleep = sleep

    async def fetch(self, url: str) -> FileContent:
        """Fetch the file, whose type is that of its content. Raises AttachmentUnavailable."""
        limit_seconds = self._settings.max_seconds
        try:
            async with asyncio.timeout(limit_seconds):
                return await self._follow(url)
        except TimeoutError as error:
            raise AttachmentUnavailable(notice("download_too_slow", seconds=limit_seconds)) from error

    async def _follow(self, url: str) -> FileContent:
        """Fetch it through its redirects, each judged anew."""
        for _ in range(_MAX_REDIRECTS + 1):
            found = await self._request_persistently(url)
            if isinstance(found, FileContent):
                return found
            url = found
        raise AttachmentUnavailable(notice("download_redirects"))

    async def _request_persistently(self, url: str) -> FileContent | str:
        for wait_seconds in _BACKOFF_SECONDS:
            try:
                return await self._request(url)
            except _NotNow as error:
                _log.info("retrying in %.1f s: %s", wait_seconds, error)
                await self._sleep(wait_seconds)
        return await self._request(url)

    async def _request(self, url: str) -> FileContent | str:
        """Make one attempt: the file, or the URL to which it redirects."""
        address = read_address(
            url, allow_http=self._settings.allow_http, allowed_hosts=self._settings.allowed_hosts
        )
        ips = await self._checked_ips(address)
        if self._tls is None:
            self._tls = await asyncio.to_thread(httpx.create_ssl_context)
        async with self._transport(verify=self._tls) as transport:
            response = await _send(transport, address, ips)
            try:
                if response.has_redirect_location:
                    return _joined(address, response.headers["location"])
                _check_status(response)
                content = await self._read(response)
            finally:
                await response.aclose()
        name = _file_name(response.headers.get("content-disposition", ""), address.target)
        return FileContent(name, await asyncio.to_thread(media_type_of, content), content)

    async def _checked_ips(self, address: WebAddress) -> list[IPAddress]:
        """Resolve the host; each of its addresses must be public, unless the administrator allows the host."""
        if address.ip is not None:
            return [address.ip]
        try:
            ips = [ip_address(each) for each in await self._resolve(address.host)]
        except (OSError, UnicodeError) as error:
            reason = notice("download_unreachable")
            raise AttachmentUnavailable(reason, detail=f"{address.host}: {error!r}") from error
        if not address.trusted:
            for ip in ips:
                if not is_public(ip):
                    raise address_refused(f"{address.host} resolves to {ip}")
        return ips[:_MAX_ADDRESSES]

    async def _read(self, response: httpx.Response) -> bytes:
        """Read the body, at most as many bytes as allowed, and never inflated."""
        limit_bytes = self._settings.max_bytes
        too_large = AttachmentUnavailable(
            notice("attachment_too_large", megabytes=limit_bytes / _BYTES_IN_MEGABYTE)
        )
        if response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
            raise AttachmentUnavailable(notice("download_compressed"))
        if int(response.headers.get("content-length", "0")) > limit_bytes:
            raise too_large
        content = bytearray()
        try:
            async for portion in response.aiter_raw():
                content += portion
                if len(content) > limit_bytes:
                    raise too_large
        except httpx.HTTPError as error:
            raise AttachmentUnavailable(notice("download_broken"), detail=repr(error)) from error
        return bytes(content)


async def _send(
    transport: httpx.AsyncBaseTransport, address: WebAddress, ips: Sequence[IPAddress]
) -> httpx.Response:
    """Request it from the first of its IP addresses that accepts a connection."""
    failure: httpx.HTTPError | None = None
    timeout = httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_TIMEOUT_SECONDS)
    for ip in ips:
        request = httpx.Request(
            "GET",
            httpx.URL(
                scheme=address.scheme, host=str(ip), port=address.port, raw_path=address.target.encode()
            ),
            headers={"Host": address.authority, **_HEADERS},
            extensions={"sni_hostname": address.host, "timeout": timeout.as_dict()},
        )
        try:
            return await transport.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = error
        except httpx.HTTPError as error:
            failure = error
            break
    detail = f"{address.host}: {failure!r}"
    raise _NotNow(notice("download_unreachable"), detail=detail) from failure


def _joined(address: WebAddress, location: str) -> str:
    """Return the URL of a redirect, which may be relative."""
    try:
        return urljoin(address.url, location)
    except ValueError:
        raise address_refused("a redirect to what is not a URL") from None


def _check_status(response: httpx.Response) -> None:
    if response.status_code == httpx.codes.OK:
        return
    is_passing = response.status_code == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error
    error = _NotNow if is_passing else AttachmentUnavailable
    raise error(notice("download_refused", status=response.status_code))


def _file_name(disposition: str, target: str) -> str:
    """Return the name that a Content-Disposition header gives, else the path's last part; "file" without any."""
    names = {bool(found[1]): found[2] or found[3] or "" for found in _NAME_PARAMETER.finditer(disposition)}
    extended = names.get(True, "").rpartition("'")[2]
    name = unquote(extended) or names.get(False, "") or unquote(target.partition("?")[0])
    name = _NOT_IN_NAMES.sub(" ", name.replace("\\", "/").rstrip("/").rpartition("/")[2]).strip(" .")
    stem, dot, ending = name.rpartition(".")
    if dot and len(ending) < _MAX_NAME_CHARACTERS // 2:
        return f"{stem[: _MAX_NAME_CHARACTERS - len(ending) - 1]}.{ending}"
    return name[:_MAX_NAME_CHARACTERS] or "file"
