"""Which URLs and addresses may be reached, by `addresses.txt`, and by the standard library where it is strict."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import AttachmentUnavailable
from open_webui_openrouter_pipe.media.download import WebAddress, is_public, read_address
from tests.support.rows import rows

CASES = Path(__file__).with_name("addresses.txt")


def words(section: str) -> list[str]:
    """The words of a section."""
    text = CASES.read_text("utf-8").partition(f"## {section}\n")[2].partition("\n\n")[0]
    return text.partition("\n")[2].split()


INSIDE = [*words("Not public, IPv4"), *words("Not public, IPv6")]
HOSTS = [*INSIDE, *words("Other forms of IPv4"), "localhost", "user@127.0.0.1"]
HOSTILE = [
    *(row.values[0] for row in rows(CASES, "URLs")),
    *(f"https://{host}/" for host in HOSTS),
    f"https://{'a.' * 130}example.com/",
    f"https://files.example.com/{'a' * 9000}",
]


@pytest.mark.parametrize(
    ("address", "expected"),
    [*((each, True) for each in words("Public")), *((each.strip("[]"), False) for each in INSIDE)],
)
def test_only_public_addresses_may_be_reached(address: str, *, expected: bool) -> None:
    """Also directly beside what is reserved; what is embedded in another address counts."""
    assert is_public(ip_address(address)) is expected


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_what_is_public_is_global_for_the_standard_library(address: IPv4Address | IPv6Address) -> None:
    """But for 6to4 and NAT64, which its versions judge in different ways."""
    networks = map(IPv6Network, ("2002::/16", "64:ff9b::/96", "::ffff:0:0/96"))
    assert not is_public(address) or address.is_global or any(address in network for network in networks)


@given(st.ip_addresses(v=4))
def test_an_embedded_address_is_judged_like_itself(address: IPv4Address) -> None:
    """Mapped, translated by NAT64, or of 6to4 with any subnet behind it."""
    number = int(address)
    of_6to4 = 0x2002 << 112 | number << 80 | 0xFFFF_0000_0000_0001
    embedding = (0xFFFF << 32 | number, 0x64_FF9B << 96 | number, of_6to4)
    assert {is_public(IPv6Address(each)) for each in embedding} == {is_public(address)}


def read(url: str, allowed: Any) -> WebAddress:
    return read_address(url, allow_http=allowed is None, allowed_hosts=allowed or ())


@pytest.mark.parametrize(("url", "allowed", "form", "host", "port", "trusted"), rows(CASES, "Read"))
def test_a_url_is_read_into_its_one_form(
    url: str, allowed: Any, form: str, host: str, port: int, *, trusted: bool
) -> None:
    """Lower case, IDNA, no root's dot, no fragment, all of the target in ASCII; a port where it is not the scheme's."""
    address, scheme = read(url, allowed), urlsplit(form).scheme
    ip = ip_address(host) if host.replace(".", "").isdigit() or ":" in host else None
    target = form.removeprefix(f"{scheme}://{address.authority}")
    assert (address, address.url) == (WebAddress(scheme, host, port, target, ip, trusted), form)


@pytest.mark.parametrize(
    ("url", "allowed"), [*(row.values for row in rows(CASES, "Refused")), *((url, []) for url in HOSTILE)]
)
def test_a_hostile_url_is_refused_as_it_stands(url: str, allowed: Any) -> None:
    """With one reason for the user, and another one for the log."""
    with pytest.raises(AttachmentUnavailable) as refused:
        read(url, allowed)
    assert refused.value.user_message == "the address is not allowed"
    assert refused.value.detail


def test_a_url_has_a_length() -> None:
    """At most 8,192 characters."""
    longest = "https://files.example.com/".ljust(8192, "a")
    assert read(longest, []).url == longest
    with pytest.raises(AttachmentUnavailable):
        read(f"{longest}a", [])
