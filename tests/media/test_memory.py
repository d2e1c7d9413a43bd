"""One budget of bytes for all that a worker holds of files: never exceeded, fair, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import ContentCache
from open_webui_openrouter_pipe.errors import AttachmentUnavailable, TooBusy
from open_webui_openrouter_pipe.media.choice import Encoded
from open_webui_openrouter_pipe.media.library import HeldFiles
from open_webui_openrouter_pipe.media.memory import (
    FILE_SHARE,
    MAX_ASKED,
    READING_COPIES,
    REQUEST_SHARE,
    ByteBudget,
    EncodedFiles,
)
from open_webui_openrouter_pipe.ports import FileContent
from open_webui_openrouter_pipe.words.lines import notice
from tests.media.test_library import PNG, FakeDownloads, chat, image, library, next_call, sent

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.media.library import MediaLibrary
    from open_webui_openrouter_pipe.ports import Room
    from open_webui_openrouter_pipe.responses.items import InputPart

pytestmark = pytest.mark.anyio

LIMIT = 100
PATIENCE = 100_000
"""Rounds of the event loop in which everybody has long had what they want."""


@dataclass
class Wish:
    """What one request does: it comes late, holds some bytes for a while, and may leave before its end."""

    user: str
    size: int
    late: int
    rounds: int
    leaves_after: int | None


WISHES = st.builds(
    Wish,
    st.sampled_from("abc"),
    st.integers(0, 250),
    st.integers(0, 6),
    st.integers(0, 6),
    st.one_of(st.none(), st.integers(0, 9)),
)


async def turns_of_the_loop(count: int) -> None:
    """Let others run."""
    for _ in range(count):
        await asyncio.sleep(0)


@given(st.lists(WISHES, max_size=12), st.lists(st.integers(1, 60), max_size=6))
@settings(deadline=None)
async def test_the_budget_holds_whatever_comes(wishes: list[Wish], cached: list[int]) -> None:
    """What is really held and cached never exceeds it; everybody gets it or leaves, and nothing stays behind."""
    budget, really_held, most = ByteBudget(LIMIT, max_wait_seconds=3600), 0, 0
    cache: ContentCache[int] = ContentCache(80, int)
    budget.watch(cache)

    def look() -> None:
        nonlocal most
        most = max(most, really_held + cache.size, budget.used_bytes)

    async def request(wish: Wish) -> None:
        nonlocal really_held
        await turns_of_the_loop(wish.late)
        reservation = await budget.reserve(wish.user, wish.size)
        assert reservation.size_bytes == min(wish.size, LIMIT)
        try:
            really_held += reservation.size_bytes
            look()
            await turns_of_the_loop(wish.rounds)
        finally:
            really_held -= reservation.size_bytes
            reservation.release()

    async def request_until_it_leaves(wish: Wish) -> None:
        task = asyncio.ensure_future(request(wish))
        if wish.leaves_after is not None:
            await turns_of_the_loop(wish.leaves_after)
            task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() or task.exception() is None

    async def fill_the_cache() -> None:
        for number, size in enumerate(cached):
            cache.put(b"%d" % number, size)
            budget.settle()
            look()
            await asyncio.sleep(0)

    tasks = {asyncio.ensure_future(request_until_it_leaves(wish)) for wish in wishes}
    tasks.add(asyncio.ensure_future(fill_the_cache()))
    for _ in range(PATIENCE):
        if all(task.done() for task in tasks):
            break
        await asyncio.sleep(0)
    assert all(task.done() for task in tasks)
    for task in tasks:
        await task
    assert (most <= LIMIT, budget.held_bytes, really_held) == (True, 0, 0)


async def granted_in_order(wishes: str, limit: int = 10) -> str:
    """Who gets it, one after the other, where everybody wants all of it; each letter is a user's request."""
    budget, order = ByteBudget(limit), list[str]()
    first = await budget.reserve("first", limit)

    async def request(user: str) -> None:
        reservation = await budget.reserve(user, limit)
        order.append(user)
        reservation.release()

    tasks = [asyncio.ensure_future(request(user)) for user in wishes]
    await asyncio.sleep(0)
    first.release()
    await asyncio.gather(*tasks)
    return "".join(order)


@pytest.mark.parametrize(
    ("came", "served"),
    [("aaa", "aaa"), ("aaab", "abaa"), ("aabbcc", "abcabc"), ("aaabc", "abcaa")],
)
async def test_users_take_turns(came: str, served: str) -> None:
    """In the order of their coming, and nobody twice while another waits for the first time."""
    assert await granted_in_order(came) == served


async def test_who_wants_more_than_all_gets_all_alone() -> None:
    """Small ones of others pass it, until they have got as much as it waits for."""
    budget, seen = ByteBudget(LIMIT), list[str]()
    held = await budget.reserve("a", 10)

    async def request(user: str, size: int) -> None:
        reservation = await budget.reserve(user, size)
        seen.append(f"{user} {reservation.size_bytes}")
        reservation.release()

    large = asyncio.ensure_future(request("b", 10_000))
    await asyncio.sleep(0)
    small = [asyncio.ensure_future(request(f"c{number}", 30)) for number in range(9)]
    await turns_of_the_loop(9)
    assert seen == ["c0 30", "c1 30", "c2 30"]
    held.release()
    await asyncio.gather(large, *small)
    assert seen == ["c0 30", "c1 30", "c2 30", "b 100", *(f"c{number} 30" for number in range(3, 9))]


async def test_a_wait_has_an_end() -> None:
    """Then the request is told so, and waits no more."""
    budget = ByteBudget(LIMIT, max_wait_seconds=0)
    held = await budget.reserve("a", LIMIT)
    with pytest.raises(TooBusy) as refused:
        await budget.reserve("b", 1)
    assert refused.value.user_message == notice("memory_slow", seconds=0)
    held.release()
    assert budget.has_room(LIMIT)


async def test_what_is_granted_is_taken_before_others_are_evicted_for_it() -> None:
    """Caches make room, the first one first and no more than must; what is taken out of one stays with its holder."""
    budget, files = ByteBudget(6000), list[Encoded | None]()
    encoded = EncodedFiles(budget)
    texts: ContentCache[str] = ContentCache(1000, len)
    budget.watch(texts, unit_bytes=2)
    texts.put(b"t", "x" * 400)
    for name in "ab":
        encoded.put("ada", name, Encoded(name, "image/png", "x" * 1000, 750))
    both = encoded.size
    held = await budget.reserve("ada", 5500, lambda: files.append(encoded.get("ada", "a")))
    assert [each and each.name for each in files] == ["a"]
    assert (encoded.size, texts.size, budget.used_bytes) == (0, 0, 5500)
    known = encoded.known("ada", "a")
    assert known
    assert (known.data_url, known.size_bytes) == ("", 750)
    held.release()
    texts.put(b"t", "x" * 400)
    encoded.put("ada", "a", Encoded("a", "image/png", "x" * 1000, 750))
    (await budget.reserve("ada", 6000 - 800)).release()
    assert (encoded.size, texts.size) == (0, 400)
    assert both > 2000


# --- many addresses in one chat


@dataclass
class CountedDownloads(FakeDownloads):
    """All addresses have a picture of the same size; what is being read is counted, and so is what each turn asked."""

    size_bytes: int = 0
    budget: ByteBudget | None = None
    most_used: int = 0
    broken: set[str] = field(default_factory=set)

    async def fetch(self, url: str, room: Room) -> FileContent:
        """Make the picture only once there is room for it."""
        room.ask()
        self.fetched.append(url)
        await asyncio.sleep(0)
        await room.take(self.size_bytes)
        if self.budget:
            self.most_used = max(self.most_used, self.budget.used_bytes)
            assert self.budget.held_bytes >= self.size_bytes * READING_COPIES
        if url in self.broken:
            raise AttachmentUnavailable("the connection was lost")
        content = PNG + bytes(self.size_bytes - len(PNG))
        await asyncio.sleep(0)
        return FileContent("page", "", content)


def addresses(count: int) -> list[InputPart]:
    return [image(f"https://example.org/{number}.png") for number in range(count)]


def limited(downloads: CountedDownloads, limit_bytes: int, **others: Any) -> MediaLibrary:
    """A library whose sizes are in the proportion to its memory that settings have."""
    downloads.budget = ByteBudget(limit_bytes)
    return library(
        downloads=downloads,
        encoded=EncodedFiles(downloads.budget),
        max_images=0,
        max_bytes=limit_bytes // FILE_SHARE,
        max_total_bytes=limit_bytes // REQUEST_SHARE,
        **others,
    )


async def test_many_large_files_take_no_more_than_the_budget() -> None:
    """As counted, and as it is in memory; 180 in proportion to it as 4 MB to 256. All is free after the call."""
    limit_bytes = 6_400_000
    downloads = CountedDownloads(size_bytes=100_000)
    shown = limited(downloads, limit_bytes)
    items, turns = chat(addresses(90), addresses(180)[90:])
    tracemalloc.start()
    try:
        filled = await shown.fill(items, turns)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    budget = shown.encoded.budget
    assert downloads.most_used <= limit_bytes
    assert peak_bytes <= limit_bytes
    shown_files = [part for part in sent(filled) if part["type"] == "input_image"]
    assert len(shown_files) == limit_bytes // REQUEST_SHARE // 100_000
    assert len(downloads.fetched) < len(shown_files) + 8  # what is older has no place, and is not asked
    assert budget.held_bytes >= sum(len(part["image_url"]) for part in shown_files)
    again = await shown.fill(items, turns)  # the same call asks for nothing twice
    assert [each["type"] for each in sent(again)] == [each["type"] for each in sent(filled)]
    shown.held.release()
    assert budget.held_bytes == 0


async def test_chats_of_several_users_share_the_budget() -> None:
    """Each is answered with its own files, one after another where it must be."""
    downloads = CountedDownloads(size_bytes=100_000)
    first = limited(downloads, 2_400_000)
    libraries = [replace(first, user_id=user, held=HeldFiles()) for user in "abcdef"]

    async def answer(shown: MediaLibrary) -> int:
        filled = await shown.fill(*chat(addresses(7)))
        downloads.most_used = max(downloads.most_used, first.encoded.budget.used_bytes)
        await turns_of_the_loop(20)
        shown.held.release()
        return sum("image_url" in part for part in sent(filled))

    assert await asyncio.gather(*map(answer, libraries)) == [7] * 6
    assert downloads.most_used <= 2_400_000
    assert first.encoded.budget.held_bytes == 0


async def test_a_later_request_of_a_call_holds_nothing_while_it_waits() -> None:
    """Two calls that hold most of the budget together, and both come to need more, both get it."""
    downloads = CountedDownloads(size_bytes=100_000)
    first = limited(downloads, 2_400_000)
    both = [replace(first, user_id=user, held=HeldFiles()) for user in "ab"]
    for shown in both:
        await shown.fill(*chat(addresses(6)))
    others = await first.encoded.budget.reserve("others", 300_000)
    assert not first.encoded.budget.has_room(100_000 * READING_COPIES)
    answered = [asyncio.ensure_future(shown.fill(*chat(addresses(7)))) for shown in both]
    done, _ = await asyncio.wait(answered, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    assert done
    for shown, answer in zip(both, answered, strict=True):
        if answer in done:
            shown.held.release()
    for shown, answer in zip(both, answered, strict=True):
        assert sum("image_url" in part for part in sent(await answer)) == 7
        shown.held.release()
    others.release()
    assert first.encoded.budget.held_bytes == 0


async def test_a_user_who_leaves_holds_nothing() -> None:
    """Whether while waiting or while reading."""
    downloads = CountedDownloads(size_bytes=100_000)
    shown = limited(downloads, 2_400_000)
    budget = shown.encoded.budget
    other = await budget.reserve("other", 2_000_000)
    for rounds in (0, 1, 3, 6, 12):
        leaving = asyncio.ensure_future(shown.fill(*chat(addresses(9))))
        await turns_of_the_loop(rounds)
        leaving.cancel()
        await asyncio.wait({leaving})
        shown.held.release()
        assert budget.held_bytes == 2_000_000
    other.release()
    assert budget.has_room(2_400_000)


async def test_at_most_so_many_addresses_are_asked_in_a_turn() -> None:
    """The newest first; the rest is said in one line. A failed one is not asked again, whatever is asked besides."""
    downloads = CountedDownloads(size_bytes=1000)
    downloads.broken = {f"https://example.org/{number}.png" for number in range(200)}
    shown = limited(downloads, 64_000_000)
    items, turns = chat(addresses(250))
    filled = await shown.fill(items, turns)
    asked = {f"https://example.org/{number}.png" for number in range(150, 250)}
    assert (len(downloads.fetched), set(downloads.fetched)) == (MAX_ASKED, asked)
    reason = notice("address_not_asked", count=MAX_ASKED)
    failure = "The image was not sent: the connection was lost."
    assert [*filled.notices.values()] == [notice("addresses_not_asked", reason=reason), failure]
    assert sent(filled)[0]["text"] == f"[Image: https://example.org/0.png not sent: {reason}]"
    assert sum("image_url" in part for part in sent(filled)) == 50
    for later in (shown, next_call(shown)):
        assert (await later.fill(items, turns)).items == filled.items
    assert len(downloads.fetched) == MAX_ASKED
    await next_call(shown, turn="chat\nm2").fill(items, turns)
    assert len(downloads.fetched) == 2 * MAX_ASKED
    assert len(set(downloads.fetched)) == 2 * MAX_ASKED


async def test_what_cannot_be_had_takes_no_room() -> None:
    """Once it is known."""
    downloads = CountedDownloads(size_bytes=1000, broken={"https://example.org/0.png"})
    shown = limited(downloads, 64_000)
    await shown.fill(*chat(addresses(1)))
    shown.held.release()
    assert shown.encoded.budget.held_bytes == 0


async def test_a_picture_of_an_answer_waits_for_nobody() -> None:
    """A call that holds files must not wait for more: without room the picture stays at its address."""
    downloads = CountedDownloads(size_bytes=1000)
    shown = limited(downloads, 64_000)
    assert len((await shown.fetch("https://example.org/1.png")).content) == 1000
    assert shown.encoded.budget.held_bytes == 0
    other = await shown.encoded.budget.reserve("other", 62_000)
    with pytest.raises(AttachmentUnavailable):
        await shown.fetch("https://example.org/2.png")
    other.release()
    assert shown.encoded.budget.held_bytes == 0
