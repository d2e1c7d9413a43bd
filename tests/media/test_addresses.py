"""Which URLs and addresses may be reached: judged by tables, and by the standard library where it is strict."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import AttachmentUnavailable
from open_webui_openrouter_pipe.media.download import WebAddress, is_public, read_address
from tests.media import hostile

PUBLIC = hostile.words(
    """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255
    128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0
    192.0.1.0 192.0.3.0 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 198.17.255.255
    198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255 2000::1
    2001:200::1 2001:4860:4860::8888 2001:db7::1 2001:db9::1 2606:2800:220:1::34 3ffe::1
    3fff:1000::1 2002:101:101::1 64:ff9b::8.8.8.8 ::ffff:8.8.8.8
    """
)
"""Public addresses, among them the neighbours of each range that is not."""


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_reached(address: str) -> None:
    """Also directly beside what is reserved, and where it is embedded in another address."""
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", [*hostile.IPV4, *(host.strip("[]") for host in hostile.IPV6)])
def test_an_address_inside_may_not_be_reached(address: str) -> None:
    """Nor one that embeds it."""
    assert not is_public(ip_address(address))


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_what_is_public_is_global_for_the_standard_library(address: IPv4Address | IPv6Address) -> None:
    """But for 6to4 and NAT64, which its versions judge in different ways."""
    embeds = any(
        address in IPv6Network(network) for network in ("2002::/16", "64:ff9b::/96", "::ffff:0:0/96")
    )
    assert not is_public(address) or embeds or address.is_global


@given(st.ip_addresses(v=4))
def test_an_embedded_address_is_judged_like_itself(address: IPv4Address) -> None:
    """Mapped, translated by NAT64, or of 6to4 with any subnet behind it."""
    number = int(address)
    embedding = (
        0xFFFF << 32 | number,
        0x64_FF9B << 96 | number,
        0x2002 << 112 | number << 80 | 0xFFFF_0000_0000_0001,
    )
    assert {is_public(IPv6Address(each)) for each in embedding} == {is_public(address)}


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://files.example.com", WebAddress("https", "files.example.com", 443, "/")),
        (
            " HTTPS://Files.Example.COM.:443/A?b=c#d\n",
            WebAddress("https", "files.example.com", 443, "/A?b=c"),
        ),
        ("https://files.example.com?q", WebAddress("https", "files.example.com", 443, "/?q")),
        (
            "https://bücher.example.com/ü ?ä=%41",
            WebAddress("https", "xn--bcher-kva.example.com", 443, "/%C3%BC%20?%C3%A4=%41"),
        ),
        ("https://my_files.example.com/", WebAddress("https", "my_files.example.com", 443, "/")),
        ("https://8.8.8.8/a", WebAddress("https", "8.8.8.8", 443, "/a", IPv4Address("8.8.8.8"))),
        (
            "https://[2001:4860:0::8888]/",
            WebAddress("https", "2001:4860::8888", 443, "/", IPv6Address("2001:4860::8888")),
        ),
    ],
)
def test_a_url_is_read_into_its_one_form(url: str, address: WebAddress) -> None:
    """Lower case, IDNA, no root's dot, no fragment, and all of the target in ASCII."""
    assert read_address(url) == address


def test_a_url_is_written_as_it_was_read() -> None:
    """Brackets around IPv6, and a port only where it is not the scheme's own."""
    urls = ["https://a.example.com/b?c", "https://[2001:4860::8888]/"]
    assert [read_address(url).url for url in urls] == urls
    inside = "https://[fd00::1]:8443/a"
    assert read_address(inside, allowed_hosts=["[FD00:0::1]"]).url == inside


def test_http_needs_the_administrators_leave() -> None:
    """And has its own port, which HTTPS may not use, nor HTTP that of HTTPS."""
    assert read_address("http://a.example.com/", allow_http=True).port == 80
    for url in ("http://a.example.com:443/", "https://a.example.com:80/"):
        with pytest.raises(AttachmentUnavailable):
            read_address(url, allow_http=True)


def test_an_allowed_host_may_be_inside_and_have_any_port() -> None:
    """It is compared in its one form; entries that are no hosts are passed over, and so are its subdomains."""
    allowed = [" Redis. ", "10.0.0.1", "bücher.example", "not a host", ""]
    for url, host in {
        "https://redis:6379/": "redis",
        "https://10.0.0.1:8443/": "10.0.0.1",
        "https://BÜCHER.example:1/": "xn--bcher-kva.example",
    }.items():
        address = read_address(url, allowed_hosts=allowed)
        assert (address.host, address.trusted) == (host, True)
    for url in (
        "https://a.redis:6379/",
        "https://10.0.0.2/",
        "http://redis/",
        "https://redis:0/",
        "https://redis:65536/",
    ):
        with pytest.raises(AttachmentUnavailable):
            read_address(url, allowed_hosts=allowed)


@pytest.mark.parametrize("url", [*hostile.URLS, *(f"https://{host}/" for host in hostile.HOSTS)])
def test_a_hostile_url_is_refused_as_it_stands(url: str) -> None:
    """With one reason for the user, and another one for the log."""
    with pytest.raises(AttachmentUnavailable) as refused:
        read_address(url)
    assert refused.value.user_message == "the address is not allowed"
    assert refused.value.detail
