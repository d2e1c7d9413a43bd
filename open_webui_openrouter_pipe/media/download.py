"""Fetches files from addresses that users and models name, without ever reaching what is not public.

Owns the judgement of addresses, the resolving, the connection, redirects and limits. The checked IP address
itself is connected to, under the name's Host header and certificate, so that no second answer of a name server can
lead elsewhere. Each request has a transport of its own, below httpx's client: no cookies, no proxy, no connection that
another name has opened, and nobody else who reads a redirect's location.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import quote, unquote, urljoin

import httpx

from ..errors import AttachmentUnavailable
from ..ports import FileContent, Room
from ..words.lines import notice
from .kinds import media_type_of

IPAddress: TypeAlias = IPv4Address | IPv6Address

_MAX_URL_CHARACTERS = 8192
_MAX_HOST_CHARACTERS = 253
_PORTS: Final = {"https": 443, "http": 80}
_TARGET_CHARACTERS = "".join(map(chr, range(0x21, 0x7F)))
"""What stays as it is in a path and a query."""

_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE | re.ASCII)
_AUTHORITY = re.compile(
    r"(?:\[([0-9a-f:.]{2,45})\]|([^\x00-\x20\x7f:@%\[\]\\]{1,253}))(?::([0-9]{1,5}))?",
    re.IGNORECASE | re.ASCII,
)
_HOST_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_AMBIGUOUS = re.compile("[\u00df\u1e9e\u03c2\u200c\u200d]")
"""Characters that the two editions of IDNA write differently, so that they name different hosts."""
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label that browsers and C libraries read as a part of an IPv4 address."""

_NOT_PUBLIC: Final = tuple(
    map(
        ip_network,
        (
            "168.63.129.16/32",  # Azure's services for its virtual machines
            "192.0.0.0/24",  # IETF protocols
            "192.88.99.0/24",  # 6to4 relays
            "224.0.0.0/4",  # multicast
            "2001::/23",  # IETF protocols: Teredo, benchmarks, ORCHID
            "3fff::/20",  # documentation
        ),
    )
)
"""Beside all that `ipaddress` takes for private or shared: what it calls global, or its versions judge differently."""
_GLOBAL_IPV6: Final = IPv6Network("2000::/3")
_EMBEDDED_IPV4: Final = (
    (IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
"""Networks whose addresses hold an IPv4 address, and how many bits follow it.

NAT64's local prefix 64:ff9b:1::/48 is not among them: where it holds the address is known to its operator alone.
"""

_MAX_REDIRECTS = 3
_MAX_ADDRESSES = 4
"""How many addresses of a host are tried in turn."""
_CONNECT_TIMEOUT_SECONDS = 5.0
_SILENCE_SECONDS = 20.0
_MAX_NAME_CHARACTERS = 120
_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (compatible; open-webui-openrouter-pipe)",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Connection": "close",
}

_NAME_PARAMETER = re.compile(r"filename(\*)?=(?:\"([^\"]*)\"|([^;\s\"]+))", re.IGNORECASE)
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069<>:\"|?*]+")
"""Controls, marks that turn the direction of writing, and what file systems refuse."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A URL that may be requested, if what its host resolves to may be reached.

    `host` is lower case, IDNA-encoded and without brackets; `ip` is set when it is an address itself. `target` is the
    path and the query in ASCII. A `trusted` host is one that the administrator allows, whatever it resolves to.
    """

    scheme: str
    host: str
    port: int
    target: str
    ip: IPAddress | None = None
    trusted: bool = False

    @property
    def authority(self) -> str:
        """The host as it stands in a URL and a Host header, with a port that is not the scheme's own."""
        host = f"[{self.host}]" if isinstance(self.ip, IPv6Address) else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL as it was read."""
        return f"{self.scheme}://{self.authority}{self.target}"


def read_address(url: str, *, allow_http: bool = False, allowed_hosts: Iterable[str] = ()) -> WebAddress:
    """Read a URL and judge all that can be judged without resolving its host.

    Only HTTPS unless `allow_http`; no user info; only the scheme's own port, and only names with a dot and public
    addresses, unless the host is among `allowed_hosts`.

    Raises:
        AttachmentUnavailable: It may not be requested.
    """
    url = url.strip(" \t\r\n")
    split = _URL.match(url) if len(url) <= _MAX_URL_CHARACTERS and url.isprintable() else None
    authority = split and _AUTHORITY.fullmatch(split[2])
    if not (split and authority):
        raise address_refused("not a URL of the web, or one with user info")
    scheme = split[1].lower()
    if scheme == "http" and not allow_http:
        raise address_refused("not HTTPS")
    host, ip = _read_host(authority[1] or authority[2])
    port = int(authority[3] or _PORTS[scheme])
    trusted = host in {_canonical_host(each) for each in allowed_hosts}
    if not trusted:
        if port != _PORTS[scheme]:
            raise address_refused(f"port {port}")
        if ip is None and "." not in host:
            raise address_refused(f"a name inside: {host}")
        if ip is not None and not is_public(ip):
            raise address_refused(f"not public: {ip}")
    elif not 0 < port < 65536:
        raise address_refused(f"port {port}")
    target = quote(split[3] or "/", safe=_TARGET_CHARACTERS)
    return WebAddress(scheme, host, port, target if target[0] == "/" else f"/{target}", ip, trusted)


def is_public(address: IPAddress) -> bool:
    """Return whether an address is global unicast, and what is embedded in it too."""
    for network, bits_behind in _EMBEDDED_IPV4:
        if address in network:
            return is_public(IPv4Address(int(address) >> bits_behind & 0xFFFFFFFF))
    is_unicast = isinstance(address, IPv4Address) or address in _GLOBAL_IPV6
    return is_unicast and address.is_global and not any(address in network for network in _NOT_PUBLIC)


def address_refused(reason: str) -> AttachmentUnavailable:
    """Return the error of an address that may not be reached; the reason is for the log alone."""
    return AttachmentUnavailable(notice("download_address_refused"), detail=reason)


def _read_host(host: str) -> tuple[str, IPAddress | None]:
    """Return the host in its one form, and its address if it is one: a name in lower case, without the root's dot.

    IPv4 addresses have exactly four decimal numbers: the octal, hexadecimal, short and long forms are refused.
    """
    name = host
    if ":" not in host:
        try:
            name = (host if host.isascii() else host.encode("idna").decode()).lower().removesuffix(".")
        except UnicodeError:
            name = ""
        if len(name) > _MAX_HOST_CHARACTERS or _AMBIGUOUS.search(host) or not _HOST_NAME.fullmatch(name):
            raise address_refused("not a host name")
        if not _NUMBER.fullmatch(name.rpartition(".")[2]):
            return name, None
    try:
        ip = ip_address(name)
    except ValueError:
        raise address_refused("an unusual form of an IP address") from None
    return str(ip), ip


@lru_cache(maxsize=256)
def _canonical_host(allowed: str) -> str | None:
    """Return a host of the administrator's list in its one form; None if it is not a host."""
    try:
        return _read_host(allowed.strip().removeprefix("[").removesuffix("]"))[0]
    except AttachmentUnavailable:
        return None


Resolve = Callable[[str], Awaitable[Sequence[str]]]


NewTransport = Callable[..., httpx.AsyncBaseTransport]
"""Makes the transport of one request, whose certificates are verified by the context `verify`."""


@dataclass(frozen=True, slots=True)
class DownloadSettings:
    """What downloads may do: hosts reached although they are not public, and the time for each file."""

    allowed_hosts: tuple[str, ...] = ()
    max_seconds: float = 60.0
    allow_http: bool = False


async def resolve_host(host: str) -> list[str]:
    """Return all IP addresses of a host, the ones to prefer first; raises OSError."""
    records = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(record[4][0]) for record in records))


@dataclass(slots=True, eq=False)
class GuardedDownloads:
    """Files on the web. Without `tls`, the machine's or certifi's authorities are trusted."""

    settings: DownloadSettings
    resolve: Resolve = resolve_host
    transport: NewTransport = httpx.AsyncHTTPTransport
    tls: ssl.SSLContext | None = None

    async def fetch(self, url: str, room: Room) -> FileContent:
        """Fetch the file, whose type is that of its content, once there is room for it; nothing is asked twice.

        Raises:
            AttachmentUnavailable: It cannot be had.
            TooBusy: There was no room for too long.
        """
        limit_seconds = self.settings.max_seconds
        try:
            async with asyncio.timeout(limit_seconds) as limit:
                for _ in range(_MAX_REDIRECTS + 1):  # each is judged anew
                    found = await self._request(url, room, limit)
                    if isinstance(found, FileContent):
                        return found
                    url = found
        except TimeoutError as error:
            raise AttachmentUnavailable(notice("download_too_slow", seconds=limit_seconds)) from error
        raise AttachmentUnavailable(notice("download_redirects"))

    async def _request(self, url: str, room: Room, limit: asyncio.Timeout) -> FileContent | str:
        """Ask once: the file, or the URL to which it redirects."""
        address = read_address(
            url, allow_http=self.settings.allow_http, allowed_hosts=self.settings.allowed_hosts
        )
        ips = await self._checked_ips(address)
        if self.tls is None:
            self.tls = await asyncio.to_thread(httpx.create_ssl_context)
        room.ask()
        async with self.transport(verify=self.tls) as transport:
            response = await _send(transport, address, ips)
            try:
                if response.has_redirect_location:
                    return _joined(address, response.headers["location"])
                if response.status_code != httpx.codes.OK:
                    raise AttachmentUnavailable(notice("download_refused", status=response.status_code))
                content = await self._read(response, room, limit)
            finally:
                await response.aclose()
        name = _file_name(response.headers.get("content-disposition", ""), address.target)
        return FileContent(name, await asyncio.to_thread(media_type_of, content), content)

    async def _checked_ips(self, address: WebAddress) -> list[IPAddress]:
        """Resolve the host; each of its addresses must be public, unless the administrator allows the host."""
        if address.ip is not None:
            return [address.ip]
        try:
            ips = [ip_address(each) for each in await self.resolve(address.host)]
        except (OSError, UnicodeError) as error:
            reason = notice("download_unreachable")
            raise AttachmentUnavailable(reason, detail=f"{address.host}: {error!r}") from error
        if not address.trusted:
            for ip in ips:
                if not is_public(ip):
                    raise address_refused(f"{address.host} resolves to {ip}")
        return ips[:_MAX_ADDRESSES]

    async def _read(self, response: httpx.Response, room: Room, limit: asyncio.Timeout) -> bytes:
        """Read the body, at most as many bytes as allowed, and never inflated; a wait for room is not the server's."""
        if response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
            raise AttachmentUnavailable(notice("download_compressed"))
        ends, clock = limit.when(), asyncio.get_running_loop().time
        limit.reschedule(None)
        began = clock()
        length = None if "transfer-encoding" in response.headers else response.headers.get("content-length")
        await room.take(room.max_bytes if length is None else int(length))
        limit.reschedule(ends and ends + clock() - began)
        content = bytearray()
        try:
            async for portion in response.aiter_raw():
                content += portion
                if len(content) > room.max_bytes:
                    await room.take(len(content))  # which refuses it
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
    raise AttachmentUnavailable(notice("download_unreachable"), detail=detail) from failure


def _joined(address: WebAddress, location: str) -> str:
    """Return the URL of a redirect, which may be relative."""
    try:
        return urljoin(address.url, location)
    except ValueError:
        raise address_refused("a redirect to what is not a URL") from None


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
