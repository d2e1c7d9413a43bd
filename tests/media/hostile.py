"""Addresses by which a server is tricked into reaching what is inside."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Its words, which blanks and line breaks part."""
    return tuple(text.split())


IPV4 = words(
    """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1
    127.1.2.3 127.255.255.255 168.63.129.16 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255
    192.0.0.8 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 192.168.255.255 198.18.0.1
    198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
    """
)
"""This host, private, carrier-grade NAT, loopback, link-local, metadata, documentation, multicast, reserved."""

IPV4_FORMS = words(
    """
    2130706433 0x7f000001 017700000001 0x7f.0x0.0x0.0x1 0177.0.0.1 0177.0.0.01 127.1 127.0.1 0x7f.1
    0177.1 0 0x0 10.1 0xa.1 167772161 0xA9FEA9FE 2852039166 169.254.43518 0251.0376.0251.0376
    0300.0250.1 192.168.1 192.168.257 127.0.0.1. 127.00.00.01 00000177.0.0.1 127.0.0.0x1
    \uff11\uff12\uff17.\uff10.\uff10.\uff11 127\u30020\u30020\u30021
    \u2460\u2461\u2466.\u24ea.\u24ea.\u2460 0x7F000001. \u24eax7f.1
    """
)
"""Decimal, octal, hexadecimal, short, mixed, with the root's dot, and in characters that are mapped to digits."""

IPV6 = words(
    """
    [::] [::1] [::2] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [::ffff:10.0.0.1]
    [::ffff:169.254.169.254] [::ffff:100.64.0.1] [::127.0.0.1] [::10.0.0.1] [::ffff:0:127.0.0.1]
    [fe80::1] [febf::1] [fec0::1] [feff::1] [fc00::1] [fd00::1] [fd00:ec2::254] [fdff:ffff::1]
    [ff02::1] [ff0e::1] [100::1] [2001:db8::1] [3fff::1] [2001:2::1] [2001:10::1] [2001:0:7f00:1::]
    [2001:0:4136:e378:8000:63bf:80ff:fffe] [2002:7f00:1::] [2002:a00:1::1] [2002:a9fe:a9fe::]
    [2002:c0a8:101::1] [64:ff9b::7f00:1] [64:ff9b::10.0.0.1] [64:ff9b::169.254.169.254]
    [64:ff9b:1::7f00:1] [64:ff9b:1:a00:0:100::] [64:ff9b:1::93.184.216.34] [4000::1] [5f00::1]
    [::FFFF:127.0.0.1]
    """
)
"""Loopback, mapped, compatible, translated, link-local, site-local, unique-local, multicast, Teredo, 6to4, NAT64."""

HOSTS = (*IPV4, *IPV4_FORMS, *IPV6)

URLS = (
    "http://files.example.com/",
    "ftp://files.example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
    "dict://127.0.0.1:11211/stats",
    "data:text/plain,hello",
    "javascript:alert(1)",
    "http\u017f://127.0.0.1/",
    "//127.0.0.1/",
    "/etc/passwd",
    "https:127.0.0.1/",
    "https:/127.0.0.1/",
    "https:///127.0.0.1/",
    "https://",
    "https:///",
    "",
    "https://user@127.0.0.1/",
    "https://user:password@files.example.com/",
    "https://files.example.com@127.0.0.1/",
    "https://files.example.com:443@127.0.0.1/",
    "https://127.0.0.1\\@files.example.com/",
    "https://files.example.com\\@127.0.0.1/",
    "https://127.0.0.1\\.files.example.com/",
    "https:\\\\127.0.0.1\\",
    "https://127.0.0.1#@files.example.com/",
    "https://127.0.0.1?@files.example.com/",
    "https://127.0.0.1%2f@files.example.com/",
    "https://127.0.0.1%00.files.example.com/",
    "https://127.0.0.1\x00.files.example.com/",
    "https://127.0.0.1\r\n.files.example.com/",
    "https://127.0.0.1\t/",
    "https://files.example.com\r\nHost: inside/",
    "https://files.example.com /",
    "https://%31%32%37.0.0.1/",
    "https://[::1",
    "https://::1/",
    "https://[127.0.0.1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[::1]files.example.com/",
    "https://[v1.a]/",
    "https://localhost/",
    "https://LOCALHOST./",
    "https://redis/",
    "https://\u24dbocalhost/",
    "https://files.example.com:22/",
    "https://files.example.com:80/",
    "https://files.example.com:0/",
    "https://files.example.com:65979/",
    "https://files.example.com:99999/",
    "https://files.example.com:-1/",
    "https://files.example.com:/",
    "https://files.example.com:443:443/",
    "https://127.0.0.1:443/",
    "https://127.0.0.1:8080/",
    "https://.example.com/",
    "https://files..example.com/",
    "https://-files-.example.com./x y\x7f",
    f"https://{'a' * 64}.example.com/",
    f"https://{'a.' * 130}example.com/",
    f"https://files.example.com/{'a' * 9000}",
    "https://\ud800.example.com/",
    "https://faß.example.com/",
    "https://files.example.com/\r\nHost: inside",
    "https://files.example.com/\ud800",
)
"""Schemes, user info, ports, hosts that parsers read in different ways, and what is no host at all."""

NAMES = {
    "private.example.com": ("10.0.0.1",),
    "loopback.example.com": ("127.0.0.1",),
    "metadata.example.com": ("169.254.169.254",),
    "carrier.example.com": ("100.64.0.1",),
    "wireserver.example.com": ("168.63.129.16",),
    "first-public.example.com": ("93.184.216.34", "192.168.0.1"),
    "last-public.example.com": ("192.168.0.1", "93.184.216.34"),
    "many.example.com": (*["93.184.216.34"] * 20, "127.0.0.1"),
    "unique-local.example.com": ("fd00::1",),
    "site-local.example.com": ("fec0::1",),
    "mapped.example.com": ("::ffff:127.0.0.1",),
    "six-to-four.example.com": ("2002:7f00:1::",),
    "translated.example.com": ("64:ff9b::7f00:1",),
    "teredo.example.com": ("2001:0:7f00:1::",),
    "mixed-families.example.com": ("93.184.216.34", "::1"),
    "link-local.example.com": ("fe80::1",),
    "none.example.com": (),
}
"""Names, and what the name server says they are."""
