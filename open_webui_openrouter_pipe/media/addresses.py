"""Which URLs and IP addresses may be reached: everything public, and the hosts that an administrator allows.

Owns the reading of a URL and the judgement of an address. It resolves no names and opens no connections. What it reads
is what is connected to: nobody parses the URL a second time in another way.

Sources: RFC 3986 (URLs), RFC 3490 (host names), the IANA registries of special-purpose addresses for IPv4 and IPv6,
RFC 6052 and 8215 (NAT64), RFC 3056 (6to4). `ipaddress.is_global` is not asked: its answer for site-local, 6to4 and
others depends on Python's version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import quote

from ..errors import AttachmentUnavailable
from ..notices import notice

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

_NOT_PUBLIC_IPV4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's services for its virtual machines
            "169.254.0.0/16",  # link-local, metadata services
            "172.16.0.0/12",
            "192.0.0.0/24",  # IETF protocols
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_GLOBAL_IPV6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_IPV6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF protocols: Teredo, benchmarks, ORCHID
            "2001:db8::/32",  # documentation
            "3fff::/20",  # documentation
        ),
    )
)
_EMBEDDED_IPV4: Final = (
    (IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
"""Networks whose addresses hold an IPv4 address, and how many bits follow it.

NAT64's local prefix 64:ff9b:1::/48 is not among them: where it holds the address is known to its operator alone.
"""


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
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_IPV4)
    for network, bits_behind in _EMBEDDED_IPV4:
        if address in network:
            return is_public(IPv4Address(int(address) >> bits_behind & 0xFFFFFFFF))
    return address in _GLOBAL_IPV6 and not any(address in network for network in _NOT_PUBLIC_IPV6)


def address_refused(reason: str) -> AttachmentUnavailable:
    """Return the error of an address that may not be reached; the reason is for the log alone."""
    return AttachmentUnavailable(notice("download_address_refused"), detail=reason)


def _read_host(host: str) -> tuple[str, IPAddress | None]:
    """Return the host in its one form, and its address if it is one.

    IPv4 addresses have exactly four decimal numbers: the octal, hexadecimal, short and long forms are refused.
    """
    if ":" not in host:
        host = _host_name(host)
        if not _NUMBER.fullmatch(host.rpartition(".")[2]):
            return host, None
    try:
        ip = ip_address(host)
    except ValueError:
        raise address_refused("an unusual form of an IP address") from None
    return str(ip), ip


def _host_name(host: str) -> str:
    """Return a host name in ASCII and lower case, without the dot of the root."""
    try:
        name = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        name = ""
    name = name.lower().removesuffix(".")
    if len(name) > _MAX_HOST_CHARACTERS or _AMBIGUOUS.search(host) or not _HOST_NAME.fullmatch(name):
        raise address_refused("not a host name")
    return name


@lru_cache(maxsize=256)
def _canonical_host(allowed: str) -> str | None:
    """Return a host of the administrator's list in its one form; None if it is not a host."""
    try:
        return _read_host(allowed.strip().removeprefix("[").removesuffix("]"))[0]
    except AttachmentUnavailable:
        return None
