"""Downloads over real connections, with a real name server: what is fetched, and what is never reached."""

from __future__ import annotations

import asyncio
import gzip
import itertools
from typing import Any

import httpx
import pytest

from open_webui_openrouter_pipe.errors import AttachmentUnavailable
from open_webui_openrouter_pipe.media.download import DownloadSettings, GuardedDownloads, resolve_host
from open_webui_openrouter_pipe.ports import FileContent
from tests.media import hostile
from tests.support.network import (
    PUBLIC_IPS,
    LocalInternet,
    Visit,
    answer,
    in_turn,
    portions,
    redirect,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
PUBLIC = "93.184.216.34"
REFUSED = "the address is not allowed"


class Waits:
    """Sleeps no time, and keeps what was asked for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def downloads(internet: LocalInternet, waits: Waits | None = None, **settings: Any) -> GuardedDownloads:
    """Downloads in the local internet, where `files.example.com` is public."""
    internet.names.records.setdefault("files.example.com", ((PUBLIC,),))
    return GuardedDownloads(
        DownloadSettings(**settings),
        resolve=internet.names.resolve,
        transport=internet.transport,
        tls=internet.certificates.client,
        sleep=waits or Waits(),
    )


async def failure(fetching: GuardedDownloads, url: str) -> str:
    """The line for the user of a download that fails."""
    with pytest.raises(AttachmentUnavailable) as failed:
        await fetching.fetch(url)
    return failed.value.user_message


# --- what is fetched ---


async def test_a_file_is_fetched_under_its_name(internet: LocalInternet) -> None:
    """From the checked address, with the name in the Host header and in the certificate, and no cookies."""
    internet.answers["/a%20b.png?x=1"] = answer(PNG, "Content-Type: text/html")
    fetched = await downloads(internet).fetch("https://files.example.com/a b.png?x=1#top")
    assert fetched == FileContent("a b.png", "image/png", PNG)
    assert internet.visits == [Visit(PUBLIC, 443, "files.example.com", "/a%20b.png?x=1")]
    assert set(internet.visits[0].headers) == {
        "host",
        "accept",
        "accept-encoding",
        "connection",
        "user-agent",
    }
    assert internet.visits[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("host", "ip"),
    [("bücher.example.com", "2606:2800:220:1::34"), (PUBLIC, PUBLIC), ("cdn.example.com.", PUBLIC)],
)
async def test_hosts_in_other_forms_are_reached(internet: LocalInternet, host: str, ip: str) -> None:
    """A name in another script at an IPv6 address, a public address itself, the root's dot."""
    internet.names.records |= {"xn--bcher-kva.example.com": ((ip,),), "cdn.example.com": ((ip,),)}
    internet.answers["/"] = answer(b"hello")
    assert (await downloads(internet).fetch(f"https://{host}/")).media_type == "text/plain"
    assert [visit.ip for visit in internet.visits] == [ip]


async def test_http_is_fetched_where_it_is_allowed(internet: LocalInternet) -> None:
    """On its own port."""
    internet.answers["/"] = answer(b"hello")
    assert (await downloads(internet, allow_http=True).fetch("http://files.example.com/")).content == b"hello"
    assert internet.visits == [Visit(PUBLIC, 80, "files.example.com", "/")]


async def test_an_allowed_host_inside_is_reached(internet: LocalInternet) -> None:
    """By httpx's own transport and the machine's own resolver, on any port; and nothing else at its address."""
    port = internet.ports["inside"]
    fetching = GuardedDownloads(DownloadSettings(allowed_hosts=("127.0.0.1", "localhost"), allow_http=True))
    for host in ("127.0.0.1", "localhost"):
        assert (await fetching.fetch(f"http://{host}:{port}/")).content == b"secret"
    assert len(internet.came_inside) == 2
    assert await failure(fetching, f"http://127.0.0.2:{port}/") == REFUSED
    strict = GuardedDownloads(DownloadSettings(allow_http=True))
    assert [await failure(strict, f"http://{host}:{port}/") for host in ("127.0.0.1", "localhost")] == [
        REFUSED
    ] * 2
    assert len(internet.came_inside) == 2


async def test_the_machines_resolver_returns_every_address_once() -> None:
    """And a name that does not exist is an error of the operating system."""
    assert "127.0.0.1" in await resolve_host("127.0.0.1")
    with pytest.raises(OSError, match=r".+"):
        await resolve_host("no-such-host.invalid")


async def test_redirects_are_followed(internet: LocalInternet) -> None:
    """Absolute, relative, and with every status that means one; no more than three."""
    internet.answers |= {
        "/1": redirect("/2", "301 Moved Permanently"),
        "/2": redirect("https://files.example.com/3", "307 Temporary Redirect"),
        "/3": redirect("//files.example.com/4", "308 Permanent Redirect"),
        "/4": answer(b"hello"),
        "/0": redirect("1"),
    }
    assert (await downloads(internet).fetch("https://files.example.com/1")).name == "4"
    assert (
        await failure(downloads(internet), "https://files.example.com/0") == "the address redirects too often"
    )
    assert len(internet.visits) == 8


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
    internet.answers[path] = answer(
        b"hello", *([f"Content-Disposition: {disposition}"] if disposition else [])
    )
    assert (await downloads(internet).fetch(f"https://files.example.com{path}")).name == name


# --- what is never reached ---


async def assert_refused(internet: LocalInternet, url: str, visits: int) -> None:
    """It fails, even where HTTP is allowed, after so many requests to public servers, and nobody was inside."""
    internet.visits.clear()
    assert await failure(downloads(internet, allow_http=True), url) == REFUSED
    assert (internet.came_inside, len(internet.visits)) == ([], visits)


@pytest.mark.parametrize("url", [url for url in hostile.URLS if not url.startswith("http://")])
async def test_a_hostile_url_reaches_nothing(internet: LocalInternet, url: str) -> None:
    """No scheme but the web's, no user info, no port of another service, no host that is read in two ways."""
    internet.answers["/"] = answer(b"hello")
    await assert_refused(internet, url, 0)


async def test_http_is_not_reached_by_default(internet: LocalInternet) -> None:
    """Neither at once nor by a redirect of a server that speaks HTTPS."""
    internet.answers |= {"/": answer(b"hello"), "/a": redirect("http://files.example.com/")}
    for url in ("http://files.example.com/", "https://files.example.com/a"):
        assert await failure(downloads(internet), url) == REFUSED
    assert [(visit.port, visit.path) for visit in internet.visits] == [(443, "/a")]


@pytest.mark.parametrize("host", hostile.HOSTS)
@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_a_host_inside_is_not_reached(internet: LocalInternet, scheme: str, host: str) -> None:
    """In no form of its address."""
    await assert_refused(internet, f"{scheme}://{host}/", 0)


@pytest.mark.parametrize("name", [name for name, ips in hostile.NAMES.items() if ips])
async def test_a_name_of_something_inside_is_not_reached(internet: LocalInternet, name: str) -> None:
    """Each of its addresses must be public, of both families."""
    internet.names.records[name] = (hostile.NAMES[name],)
    await assert_refused(internet, f"https://{name}/", 0)
    assert internet.names.queries


@pytest.mark.parametrize("host", [*hostile.HOSTS, "private.example.com", "localhost", "user@127.0.0.1"])
async def test_a_redirect_to_the_inside_is_not_followed(internet: LocalInternet, host: str) -> None:
    """Neither at once nor after a public one; nor to another scheme."""
    internet.names.records["private.example.com"] = (hostile.NAMES["private.example.com"],)
    internet.answers |= {
        "/a": redirect("/b"),
        "/b": redirect(f"https://{host}/"),
        "/c": redirect(f"http://{host}/"),
    }
    await assert_refused(internet, "https://files.example.com/a", 2)
    await assert_refused(internet, "https://files.example.com/c", 1)


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "gopher://127.0.0.1/", "https://[::1", "//[fe80::1%25eth0]/"],
)
async def test_a_redirect_to_what_is_not_the_web_is_not_followed(
    internet: LocalInternet, location: str
) -> None:
    """Nor to what cannot be read."""
    internet.answers["/a"] = redirect(location)
    await assert_refused(internet, "https://files.example.com/a", 1)


@pytest.mark.parametrize("inside", ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_a_second_answer_of_the_name_server_leads_nowhere_else(
    internet: LocalInternet, inside: str
) -> None:
    """The name is resolved once, and the address that was checked is the one that is connected to."""
    internet.names.records["files.example.com"] = ((PUBLIC,), (inside,))
    internet.answers["/"] = answer(b"hello")
    assert (await downloads(internet).fetch("https://files.example.com/")).content == b"hello"
    assert internet.names.queries == [("files.example.com", 1), ("files.example.com", 28)]
    assert await failure(downloads(internet), "https://files.example.com/") == REFUSED
    assert (internet.came_inside, len(internet.visits)) == ([], 1)


async def test_each_redirect_and_each_attempt_is_checked_again(internet: LocalInternet) -> None:
    """A name that was public a request ago may be inside now."""
    internet.names.records |= dict.fromkeys(
        ("files.example.com", "cdn.example.com"), ((PUBLIC,), ("127.0.0.1",))
    )
    internet.answers |= {"/a": redirect("/b"), "/busy": answer(b"", status="503 Busy")}
    for url in ("https://files.example.com/a", "https://cdn.example.com/busy"):
        assert await failure(downloads(internet), url) == REFUSED
    assert (internet.came_inside, len(internet.visits)) == ([], 2)


async def test_no_proxy_of_the_environment_is_used(
    internet: LocalInternet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would resolve the name again."""
    for variable in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{internet.ports['inside']}")
    internet.answers["/"] = answer(b"hello")
    assert (await downloads(internet).fetch("https://files.example.com/")).content == b"hello"
    assert internet.came_inside == []


async def test_the_certificate_must_be_of_the_name(internet: LocalInternet) -> None:
    """A certificate of another name, or of an authority that nobody trusts, ends it before anything is sent."""
    internet.names.records["other.example.com"] = ((PUBLIC,),)
    internet.answers["/"] = answer(b"hello")
    assert (
        await failure(downloads(internet), "https://other.example.com/") == "the server could not be reached"
    )
    distrusting = GuardedDownloads(
        DownloadSettings(), resolve=internet.names.resolve, transport=internet.transport, sleep=Waits()
    )
    assert await failure(distrusting, "https://files.example.com/") == "the server could not be reached"
    assert internet.visits == []


# --- limits ---


async def test_a_file_at_the_limit_is_fetched_and_a_larger_one_is_not(internet: LocalInternet) -> None:
    """Whether the server says its length or not."""
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    internet.answers |= {
        "/fits": portions(head, b"x" * 600, b"x" * 400),
        "/large": portions(head, b"x" * 1001),
    }
    internet.answers |= {"/fits too": answer(b"x" * 1000), "/large too": answer(b"x" * 1001)}
    for path in ("/fits", "/fits%20too"):
        internet.answers.setdefault(path, internet.answers["/fits too"])
        fetched = await downloads(internet, max_bytes=1000).fetch(f"https://files.example.com{path}")
        assert len(fetched.content) == 1000
    assert (
        await failure(downloads(internet, max_bytes=1000), "https://files.example.com/large")
        == "it is larger than 0 MB"
    )


async def test_a_length_beyond_the_limit_ends_it_before_the_body(internet: LocalInternet) -> None:
    """The server sends no body at all, and is not waited for."""
    internet.answers["/"] = portions(b"HTTP/1.1 200 OK\r\nContent-Length: 3145729\r\n\r\n", hang=True)
    line = await failure(downloads(internet, max_bytes=3 * 1024 * 1024), "https://files.example.com/")
    assert line == "it is larger than 3 MB"


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_endless_body_ends_at_the_limit(internet: LocalInternet, *, chunked: bool) -> None:
    """Without a length, or in chunks."""
    head = b"HTTP/1.1 200 OK\r\n" + (b"Transfer-Encoding: chunked\r\n" if chunked else b"") + b"\r\n"
    portion = b"x" * 65536
    internet.answers["/"] = portions(head, endless=b"10000\r\n" + portion + b"\r\n" if chunked else portion)
    line = await failure(downloads(internet, max_bytes=1024 * 1024), "https://files.example.com/")
    assert line == "it is larger than 1 MB"


@pytest.mark.parametrize(
    "response",
    [
        portions(hang=True),
        portions(b"HTTP/1.1 200 OK\r\n", hang=True),
        portions(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", hang=True),
        portions(b"HTTP/1.1 200 OK\r\n\r\n", endless=b"x", pause_seconds=0.01),
        portions(endless=b"HTTP/1.1 103 Early Hints\r\n\r\n", pause_seconds=0.01),
    ],
    ids=["silent", "half a head", "half a body", "drip", "hints for ever"],
)
async def test_a_slow_server_is_left_at_the_limit(internet: LocalInternet, response: Any) -> None:
    """However it spreads what it sends: the time is that of everything together."""
    internet.answers["/"] = response
    line = await failure(downloads(internet, max_seconds=0.5), "https://files.example.com/")
    assert line == "it took longer than 0 seconds"


async def test_the_limit_is_that_of_the_settings(internet: LocalInternet) -> None:
    """No time at all lets nothing through, however fast."""
    internet.answers["/"] = answer(b"hello")
    line = await failure(downloads(internet, max_seconds=0), "https://files.example.com/")
    assert line == "it took longer than 0 seconds"


async def test_a_slow_name_server_is_left_at_the_limit(internet: LocalInternet) -> None:
    """The time begins with the name."""

    async def resolve(_host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    fetching = GuardedDownloads(
        DownloadSettings(max_seconds=0.05), resolve=resolve, transport=internet.transport
    )
    assert await failure(fetching, "https://files.example.com/") == "it took longer than 0 seconds"


async def test_a_gzip_bomb_is_not_inflated(internet: LocalInternet) -> None:
    """A body that was sent compressed is refused unread; a compressed file stays as it is."""
    bomb = gzip.compress(bytes(50_000_000))
    for coding in ("gzip", "GZIP", "deflate", "br", "zstd", "gzip, gzip"):
        internet.answers["/"] = answer(bomb, f"Content-Encoding: {coding}")
        assert (
            await failure(downloads(internet), "https://files.example.com/")
            == "the server sent it compressed"
        )
    internet.answers["/"] = answer(bomb, "Content-Encoding: identity", "Content-Type: image/png")
    assert await downloads(internet).fetch("https://files.example.com/") == FileContent(
        "file", "application/gzip", bomb
    )


# --- failures and attempts ---


async def test_what_passes_is_tried_again(internet: LocalInternet) -> None:
    """Twice, with growing pauses, before anything was read."""
    busy, slow = answer(b"", status="503 Busy"), answer(b"", status="429 Too Many Requests")
    internet.answers["/"] = in_turn(busy, slow, answer(b"hello"))
    waits = Waits()
    assert (await downloads(internet, waits).fetch("https://files.example.com/")).content == b"hello"
    assert waits.seconds == [0.5, 1.0]
    internet.answers["/"] = in_turn(busy, busy, busy, answer(b"hello"))
    assert (
        await failure(downloads(internet), "https://files.example.com/")
        == "the server answered with the status 503"
    )


async def test_what_does_not_pass_is_not_tried_again(internet: LocalInternet) -> None:
    """A page that is missing, a part, an answer without content, a body that breaks off, a name without a host."""
    internet.answers |= {
        "/missing": answer(b"no", status="404 Not Found"),
        "/part": answer(b"no", status="206 Partial Content"),
        "/broken": portions(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"),
    }
    lines = [
        await failure(downloads(internet), f"https://files.example.com{path}") for path in internet.answers
    ]
    status = "the server answered with the status"
    assert lines == [f"{status} 404", f"{status} 206", "the connection was lost"]
    assert len(internet.visits) == 3
    assert (
        await failure(downloads(internet), "https://none.example.com/") == "the server could not be reached"
    )
    assert internet.names.queries.count(("none.example.com", 1)) == 1


async def test_the_next_address_is_tried_when_one_is_unreachable(internet: LocalInternet) -> None:
    """In the order of the resolver; when none answers, again after a pause, and then no more."""
    internet.names.records["files.example.com"] = ((PUBLIC, "2606:2800:220:1::34"),)
    internet.answers["/"] = answer(b"hello")
    internet.unreachable = {PUBLIC}
    waits = Waits()
    fetching = downloads(internet, waits)
    assert (await fetching.fetch("https://files.example.com/")).content == b"hello"
    assert [visit.ip for visit in internet.visits] == ["2606:2800:220:1::34"]
    internet.unreachable = set(PUBLIC_IPS)
    assert await failure(fetching, "https://files.example.com/") == "the server could not be reached"
    assert waits.seconds == [0.5, 1.0]


async def test_a_connection_serves_one_request_alone(internet: LocalInternet) -> None:
    """Each one opens its own, so that no name is served by what another one has opened, and closes it."""
    opened = itertools.count()
    closed: list[int] = []

    class Counted(httpx.AsyncBaseTransport):
        def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
            self.inner, self.number = inner, next(opened)

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return await self.inner.handle_async_request(request)

        async def aclose(self) -> None:
            closed.append(self.number)
            await self.inner.aclose()

    internet.answers |= {"/a": redirect("/b"), "/b": answer(b"hello", "Set-Cookie: a=b")}
    fetching = downloads(internet)
    fetching._transport = lambda *, verify: Counted(internet.transport(verify=verify))
    await fetching.fetch("https://files.example.com/a")
    assert (next(opened), closed) == (2, [0, 1])
    assert not any("cookie" in visit.headers for visit in internet.visits)


async def test_cancelling_a_download_closes_its_connection(internet: LocalInternet) -> None:
    """And is not mistaken for a time limit."""
    internet.answers["/"] = portions(b"HTTP/1.1 200 OK\r\n\r\n", hang=True)
    task = asyncio.create_task(downloads(internet).fetch("https://files.example.com/"))
    await eventually(lambda: internet.visits)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
