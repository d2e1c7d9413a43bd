"""Downloads over real connections, with a real name server: what is fetched, and what is never reached."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from open_webui_openrouter_pipe.errors import AttachmentUnavailable
from open_webui_openrouter_pipe.media.download import DownloadSettings, GuardedDownloads, resolve_host
from open_webui_openrouter_pipe.media.memory import READING_COPIES, ByteBudget, FileRoom, Reservation
from open_webui_openrouter_pipe.ports import FileContent
from tests.media.test_addresses import CASES, HOSTILE, HOSTS
from tests.support.network import (
    PUBLIC_IPS,
    Certificates,
    LocalInternet,
    Visit,
    answer,
    in_turn,
    new_certificates,
    portions,
    redirect,
)
from tests.support.rows import rows
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
PUBLIC, IPV6 = "93.184.216.34", "2606:2800:220:1::34"
SITE = "https://files.example.com"
HELLO = answer(b"hello")
BUSY, SLOW = answer(b"", status="503 Busy"), answer(b"", status="429 Too Many Requests")
HEAD = b"HTTP/1.1 200 OK\r\n"
MEGABYTE = 1024 * 1024

REFUSED = "the address is not allowed"
UNREACHABLE = "the server could not be reached"
TOO_LATE = "it took longer than 0 seconds"
STATUS = "the server answered with the status"
NAMES = {row.values[0]: tuple(row.values[1]) for row in rows(CASES, "Names")}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Made once, since keys take time."""
    return new_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
async def internet(certificates: Certificates) -> AsyncIterator[LocalInternet]:
    """A running one, with nothing inside visited, where `files.example.com` is public."""
    async with LocalInternet(certificates).running() as running:
        running.names.records["files.example.com"] = ((PUBLIC,),)
        running.answers["/"] = HELLO
        yield running


def downloads(internet: LocalInternet, **settings: Any) -> GuardedDownloads:
    """Downloads in the local internet."""
    return GuardedDownloads(
        DownloadSettings(**settings),
        resolve=internet.names.resolve,
        transport=internet.transport,
        tls=internet.certificates.client,
    )


def room(max_bytes: int = 20 * MEGABYTE) -> FileRoom:
    """Room for one file, to which any number of requests leads."""
    return FileRoom(max_bytes, list)


async def outcome(fetching: GuardedDownloads, url: str, max_bytes: int = 20 * MEGABYTE) -> bytes | str:
    """The content, or the line for the user."""
    try:
        return (await fetching.fetch(url, room(max_bytes))).content
    except AttachmentUnavailable as error:
        return error.user_message


# --- what is fetched


async def test_a_file_is_fetched_under_its_name(internet: LocalInternet) -> None:
    """From the checked address, with the name in the Host header and in the certificate, and no cookies."""
    internet.answers["/a%20b.png?x=1"] = answer(PNG, "Content-Type: text/html")
    fetched = await downloads(internet).fetch(f"{SITE}/a b.png?x=1#top", room())
    assert fetched == FileContent("a b.png", "image/png", PNG)
    assert internet.visits == [Visit(PUBLIC, 443, "files.example.com", "/a%20b.png?x=1")]
    headers = internet.visits[0].headers
    assert set(headers) == {"host", "accept", "accept-encoding", "connection", "user-agent"}
    assert headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("url", "settings", "visit"),
    [
        ("https://bücher.example.com/", {}, Visit(IPV6, 443, "xn--bcher-kva.example.com", "/")),
        (f"https://{PUBLIC}/", {}, Visit(PUBLIC, 443, PUBLIC, "/")),
        ("https://cdn.example.com./", {}, Visit(PUBLIC, 443, "cdn.example.com", "/")),
        ("http://files.example.com/", {"allow_http": True}, Visit(PUBLIC, 80, "files.example.com", "/")),
    ],
)
async def test_hosts_in_other_forms_are_reached(
    internet: LocalInternet, url: str, settings: dict[str, Any], visit: Visit
) -> None:
    """A name in another script at an IPv6 address, a public address itself, the root's dot, HTTP if allowed."""
    internet.names.records |= {"xn--bcher-kva.example.com": ((IPV6,),), "cdn.example.com": ((PUBLIC,),)}
    assert await outcome(downloads(internet, **settings), url) == b"hello"
    assert internet.visits == [visit]


async def test_an_allowed_host_inside_is_reached(internet: LocalInternet) -> None:
    """By httpx's own transport and the machine's own resolver, on any port; and nothing else at its address."""
    port = internet.ports["inside"]
    settings = {"allow_http": True, "allowed_hosts": ("127.0.0.1", "localhost")}
    found = [
        await outcome(GuardedDownloads(DownloadSettings(**each)), f"http://{host}:{port}/")
        for each in (settings, {"allow_http": True})
        for host in ("127.0.0.1", "localhost", "127.0.0.2")
    ]
    assert found == [b"secret", b"secret", *[REFUSED] * 4]
    assert len(internet.came_inside) == 2
    assert "127.0.0.1" in await resolve_host("127.0.0.1")


@pytest.mark.parametrize(
    ("disposition", "path", "name"),
    [
        ("", "/", "file"),
        ("", "/a/b%2Fc.PNG", "c.PNG"),
        ("", "/%2e%2e", "file"),
        ("attachment", "/a.png", "a.png"),
        ('attachment; filename="r\u00e9sum\u00e9 1.pdf"', "/a", "résumé 1.pdf"),
        ("attachment; filename=plain.txt; size=3", "/a", "plain.txt"),
        ("attachment; filename=\"a.txt\"; filename*=UTF-8''%E2%82%AC%20rates.txt", "/a", "€ rates.txt"),
        ('attachment; filename="../../etc/passwd"', "/a", "passwd"),
        ('attachment; filename="..\\\\..\\\\boot.ini"', "/a", "boot.ini"),
        ('attachment; filename=".."', "/a", "file"),
        ("attachment; filename*=UTF-8''a%00%0d%0ab%e2%80%aegnp.exe", "/a", "a b gnp.exe"),
        (f'attachment; filename="{"n" * 300}.pdf"', "/a", "n" * 116 + ".pdf"),
        (f'attachment; filename="n.{"e" * 300}"', "/a", "n." + "e" * 118),
    ],
)
async def test_a_name_is_cleaned(internet: LocalInternet, disposition: str, path: str, name: str) -> None:
    """No folders, no controls, no marks of direction, and no more than 120 characters, its ending among them."""
    headers = [f"Content-Disposition: {disposition}"] if disposition else []
    internet.answers[path] = answer(b"hello", *headers)
    assert (await downloads(internet).fetch(f"{SITE}{path}", room())).name == name


# --- what is never reached


async def test_a_hostile_url_reaches_nothing(internet: LocalInternet) -> None:
    """Even where HTTP is allowed; neither at once nor by a redirect, also behind one of a public server."""
    fetching = downloads(internet, allow_http=True)
    internet.names.records["private.example.com"] = (NAMES["private.example.com"],)
    urls = [f"{scheme}://{host}/" for scheme in ("https", "http") for host in (*HOSTS, "private.example.com")]
    for url in [*urls, *(url for url in HOSTILE if not url.startswith("http://"))]:
        assert await outcome(fetching, url) == REFUSED, url
    assert (internet.came_inside, internet.visits) == ([], [])
    internet.answers["/a"] = redirect("/b")
    for url in [*urls, "file:///etc/passwd", "gopher://127.0.0.1/"]:
        internet.answers["/b"] = redirect(url)
        assert await outcome(fetching, f"{SITE}/a") == REFUSED, url
    assert (internet.came_inside, {visit.path for visit in internet.visits}) == ([], {"/a", "/b"})


async def test_http_is_not_reached_by_default(internet: LocalInternet) -> None:
    """Neither at once nor by a redirect of a server that speaks HTTPS."""
    internet.answers["/a"] = redirect("http://files.example.com/")
    for url in ("http://files.example.com/", f"{SITE}/a"):
        assert await outcome(downloads(internet), url) == REFUSED
    assert [(visit.port, visit.path) for visit in internet.visits] == [(443, "/a")]


@pytest.mark.parametrize("name", [name for name, ips in NAMES.items() if ips])
async def test_a_name_of_something_inside_is_not_reached(internet: LocalInternet, name: str) -> None:
    """Each of its addresses must be public, of both families."""
    internet.names.records[name] = (NAMES[name],)
    assert await outcome(downloads(internet), f"https://{name}/") == REFUSED
    assert internet.names.queries
    assert (internet.came_inside, internet.visits) == ([], [])


@pytest.mark.parametrize("inside", ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_a_second_answer_of_the_name_server_leads_nowhere_else(
    internet: LocalInternet, inside: str
) -> None:
    """The name is resolved once for each request, and the address that was checked is the one that is connected to."""
    internet.names.records |= dict.fromkeys(
        ("files.example.com", "cdn.example.com"), ((PUBLIC,), (PUBLIC,), (inside,))
    )
    internet.answers |= {"/a": redirect("/b"), "/b": redirect("/c")}
    found = [await outcome(downloads(internet), f"{SITE}/")]
    assert internet.names.queries == [("files.example.com", 1), ("files.example.com", 28)]
    found += [await outcome(downloads(internet), url) for url in (f"{SITE}/a", "https://cdn.example.com/a")]
    assert found == [b"hello", REFUSED, REFUSED]
    assert internet.came_inside == []
    assert [visit.path for visit in internet.visits] == ["/", "/a", "/a", "/b"]


async def test_no_proxy_of_the_environment_is_used(
    internet: LocalInternet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would resolve the name again."""
    for variable in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{internet.ports['inside']}")
    assert await outcome(downloads(internet), f"{SITE}/") == b"hello"
    assert internet.came_inside == []


async def test_the_certificate_must_be_of_the_name(internet: LocalInternet) -> None:
    """A certificate of another name, or of an authority that nobody trusts, ends it before anything is sent."""
    internet.names.records["other.example.com"] = ((PUBLIC,),)
    distrusting = downloads(internet)
    distrusting.tls = None
    assert await outcome(downloads(internet), "https://other.example.com/") == UNREACHABLE
    assert await outcome(distrusting, f"{SITE}/") == UNREACHABLE
    assert internet.visits == []


# --- limits, failures and attempts

FITS = {"max_bytes": 1000}
CHUNKED = b"Transfer-Encoding: chunked\r\n"
ENDLESS_CHUNK = b"10000\r\n" + b"x" * 65536 + b"\r\n"


@pytest.mark.parametrize(
    ("answers", "settings", "expected"),
    [
        ({"/": portions(HEAD, b"\r\n", b"x" * 600, b"x" * 400)}, FITS, b"x" * 1000),
        ({"/": answer(b"x" * 1000)}, FITS, b"x" * 1000),
        ({"/": portions(HEAD, b"\r\n", b"x" * 1001)}, FITS, "it is larger than 0 MB"),
        # the server says its length, and is not waited for
        (
            {"/": portions(HEAD, b"Content-Length: 3145729\r\n\r\n", hang=True)},
            {"max_bytes": 3 * MEGABYTE},
            "it is larger than 3 MB",
        ),
        (
            {"/": portions(HEAD, b"\r\n", endless=b"x" * 65536)},
            {"max_bytes": MEGABYTE},
            "it is larger than 1 MB",
        ),
        (
            {"/": portions(HEAD, b"Transfer-Encoding: chunked\r\n\r\n", endless=ENDLESS_CHUNK)},
            {"max_bytes": MEGABYTE},
            "it is larger than 1 MB",
        ),
        # however the server spreads what it sends, the time is that of everything together
        ({"/": portions(hang=True)}, {"max_seconds": 0.5}, TOO_LATE),
        ({"/": portions(HEAD, hang=True)}, {"max_seconds": 0.5}, TOO_LATE),
        ({"/": portions(HEAD, b"Content-Length: 9\r\n\r\nx", hang=True)}, {"max_seconds": 0.5}, TOO_LATE),
        (
            {"/": portions(HEAD, b"\r\n", endless=b"x", pause_seconds=0.01)},
            {"max_seconds": 0.5},
            TOO_LATE,
        ),
        (
            {"/": portions(endless=b"HTTP/1.1 103 Early Hints\r\n\r\n", pause_seconds=0.01)},
            {"max_seconds": 0.5},
            TOO_LATE,
        ),
        ({}, {"max_seconds": 0}, TOO_LATE),
        # nothing is asked twice
        ({"/": in_turn(BUSY, HELLO)}, {}, f"{STATUS} 503"),
        ({"/": in_turn(SLOW, HELLO)}, {}, f"{STATUS} 429"),
        ({"/": in_turn(answer(b"", status="404 Not Found"), HELLO)}, {}, f"{STATUS} 404"),
        ({"/": in_turn(answer(b"no", status="206 Partial Content"), HELLO)}, {}, f"{STATUS} 206"),
        (
            {"/": in_turn(portions(HEAD, b"Content-Length: 9\r\n\r\nx"), HELLO)},
            {},
            "the connection was lost",
        ),
        # redirects of every status, relative ones too, but no more than three, and none to what is no URL
        (
            {
                "/": redirect("/2", "301 Moved Permanently"),
                "/2": redirect(f"{SITE}/3", "307 Temporary Redirect"),
                "/3": redirect("//files.example.com/4", "308 Permanent Redirect"),
                "/4": HELLO,
            },
            {},
            b"hello",
        ),
        (
            {"/": redirect("/1"), **{f"/{at}": redirect(f"/{at + 1}") for at in (1, 2, 3)}, "/4": HELLO},
            {},
            "the address redirects too often",
        ),
        ({"/": redirect("https://[::1")}, {}, REFUSED),
        ({"/": redirect("//[fe80::1%25eth0]/")}, {}, REFUSED),
    ],
)
async def test_limits_and_failures(
    internet: LocalInternet, answers: Mapping[str, Any], settings: dict[str, Any], expected: bytes | str
) -> None:
    """What a server does, and what comes of it."""
    internet.answers |= answers
    limits = {"max_bytes": 20 * MEGABYTE, **settings}
    max_bytes = limits.pop("max_bytes")
    assert await outcome(downloads(internet, **limits), f"{SITE}/", max_bytes) == expected


@pytest.mark.parametrize(
    ("length", "reserved_bytes"),
    [(b"Content-Length: 5\r\n", 5), (b"", 1000), (CHUNKED + b"Content-Length: 1\r\n", 1000)],
)
async def test_there_is_room_for_what_may_come(
    internet: LocalInternet, length: bytes, reserved_bytes: int
) -> None:
    """A length beside chunks is none (RFC 9112, section 6.3): otherwise a server takes more memory than it says."""
    body = b"5\r\nhello\r\n0\r\n\r\n" if CHUNKED in length else b"hello"
    internet.answers["/"] = portions(HEAD, length, b"\r\n", body)
    budget, reserved = ByteBudget(), list[int]()

    async def reserve(size_bytes: int) -> Reservation:
        reserved.append(size_bytes)
        return await budget.reserve("ada", size_bytes)

    found = await downloads(internet).fetch(f"{SITE}/", FileRoom(1000, list, reserve))
    assert (found.content, reserved) == (b"hello", [READING_COPIES * reserved_bytes])


async def test_a_slow_name_server_is_left_at_the_limit(internet: LocalInternet) -> None:
    """The time begins with the name."""
    fetching = downloads(internet, max_seconds=0.05)
    fetching.resolve = lambda _: asyncio.Event().wait()  # type: ignore[assignment,return-value]
    assert await outcome(fetching, f"{SITE}/") == TOO_LATE


async def test_a_gzip_bomb_is_not_inflated(internet: LocalInternet) -> None:
    """A body that was sent compressed is refused unread; a compressed file stays as it is."""
    bomb = gzip.compress(bytes(50_000_000))
    for coding in ("gzip", "GZIP", "deflate", "br", "zstd", "gzip, gzip"):
        internet.answers["/"] = answer(bomb, f"Content-Encoding: {coding}")
        assert await outcome(downloads(internet), f"{SITE}/") == "the server sent it compressed"
    internet.answers["/"] = answer(bomb, "Content-Encoding: identity", "Content-Type: image/png")
    assert await downloads(internet).fetch(f"{SITE}/", room()) == FileContent(
        "file", "application/gzip", bomb
    )


async def test_the_next_address_is_tried_when_one_is_unreachable(internet: LocalInternet) -> None:
    """In the order of the resolver; a name without a host has none."""
    internet.names.records["files.example.com"] = ((PUBLIC, IPV6),)
    internet.unreachable = {PUBLIC}
    fetching = downloads(internet)
    assert await outcome(fetching, f"{SITE}/") == b"hello"
    assert [visit.ip for visit in internet.visits] == [IPV6]
    internet.unreachable = set(PUBLIC_IPS)
    assert await outcome(fetching, f"{SITE}/") == UNREACHABLE
    assert await outcome(fetching, "https://none.example.com/") == UNREACHABLE
    assert internet.names.queries.count(("none.example.com", 1)) == 1


async def test_a_connection_serves_one_request_alone(internet: LocalInternet) -> None:
    """Each one opens its own, so that no name is served by what another one has opened, and closes it."""
    opened, closed = list[httpx.AsyncBaseTransport](), list[httpx.AsyncBaseTransport]()

    class Counted(httpx.AsyncBaseTransport):
        def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
            self.inner = inner
            opened.append(self)

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return await self.inner.handle_async_request(request)

        async def aclose(self) -> None:
            closed.append(self)
            await self.inner.aclose()

    internet.answers |= {"/a": redirect("/b"), "/b": answer(b"hello", "Set-Cookie: a=b")}
    fetching = downloads(internet)
    fetching.transport = lambda *, verify: Counted(internet.transport(verify=verify))
    await fetching.fetch(f"{SITE}/a", room())
    assert (len(opened), closed) == (2, opened)
    assert not any("cookie" in visit.headers for visit in internet.visits)


async def test_cancelling_a_download_closes_its_connection(internet: LocalInternet) -> None:
    """And is not mistaken for a time limit."""
    internet.answers["/"] = portions(b"HTTP/1.1 200 OK\r\n\r\n", hang=True)
    task = asyncio.create_task(downloads(internet).fetch(f"{SITE}/", room()))
    await eventually(lambda: internet.visits)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
