"""What goes when a request would hold too much: in batches, said once, and without a new name for any turn."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.record import UserRecord
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.media.choice import Attachment, MediaSettings, choose
from open_webui_openrouter_pipe.summaries.segments import SegmentSizes, SummaryIndex
from open_webui_openrouter_pipe.turn.memory import Memory
from tests.media.test_library import CONTENTS, NAMES, PNG, chat, image, library, sent
from tests.support.files import FakeFiles, data_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from open_webui_openrouter_pipe.conversation.conversation import Conversation
    from open_webui_openrouter_pipe.media.library import MediaLibrary
    from open_webui_openrouter_pipe.responses.items import InputPart

pytestmark = pytest.mark.anyio

TURNS, LIMIT, MEGABYTE = 60, 20, 1024 * 1024
PARTS: list[list[InputPart]] = [[image(data_url("image/png", PNG + b"%d" % turn))] for turn in range(TURNS)]
"""One image with each message."""


async def test_images_go_in_batches() -> None:
    """In sixty turns the prefix breaks four times, each time with one line; in between it grows at its end alone."""
    shown, memory = library(max_images=LIMIT), Memory()
    requests = [await shown.fill(*chat(*PARTS[: turn + 1])) for turn in range(TURNS)]
    breaks = [
        turn
        for turn, (earlier, later) in enumerate(pairwise(requests), start=2)
        if list(later.items[: len(earlier.items)]) != list(earlier.items)
    ]
    assert breaks == [21, 32, 43, 54]
    said = {
        turn: new
        for turn, request in enumerate(requests, start=1)
        if (new := memory.new_lines("ada", "chat", request.notices))
    }
    lines = [[f"Earlier images no longer shown to the model: {count}."] for count in (11, 22, 33, 44)]
    assert said == dict(zip(breaks, lines, strict=True))
    counts = [sum("image_url" in part for part in sent(request)) for request in requests]
    assert (max(counts), min(counts[LIMIT:])) == (LIMIT, LIMIT // 2)


async def conversation(shown: MediaLibrary) -> Conversation:
    items, turns = chat(*PARTS)
    filled = await shown.fill(items, turns)
    return build_conversation(filled.items, turns, unfilled=items)


async def test_summaries_outlive_the_images_of_their_turns() -> None:
    """Turns have the same names and end the same segments, whatever is shown of their images and to which model."""
    sizes = SegmentSizes(min_tokens=40, closing_tokens=80, max_tokens=160, max_turns=0, max_summaries=2)
    libraries = (library(max_images=LIMIT), library(max_images=0), library(reads=[]))
    found = [await conversation(each) for each in libraries]
    counter = TokenCounter(ContentCache())
    named = [
        (each.chains, SummaryIndex(each, UserRecord(each.turns, counter), sizes, {}).ends) for each in found
    ]
    assert named[0] == named[1] == named[2]
    assert len(named[0][1]) > 1
    assert len({each.turns[0].sent_chain for each in found}) == len(found)
    other = build_conversation(*chat([image(data_url("image/png", PNG))]))
    assert other.turns[0].chain != found[0].turns[0].chain


def attachment(item: int, kind: Any, name: str) -> Attachment:
    """One of a message of its own, or with others of the same item."""
    return Attachment(
        item, int(name.partition(".")[2] or 1), kind, item, from_user=True, source=name, name=""
    )


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 6))
def test_a_longer_chat_goes_on_with_the_choice_of_a_shorter_one(counts: list[int], limit: int) -> None:
    """Never more than the limit; what has gone stays away; and it goes at once, down to half of the limit."""
    images = [
        attachment(item, "image", f"{item}.{part}")
        for item, count in enumerate(counts)
        for part in range(count)
    ]
    ends = list(accumulate(counts))
    settings = MediaSettings(max_images=limit)
    chosen = [choose(images[:end], item, settings, None, {}) for item, end in enumerate(ends)]
    for (earlier, later), added in zip(pairwise(chosen), counts[1:], strict=True):
        assert set(earlier.omitted) <= set(later.omitted)
        if set(later.omitted) - set(earlier.omitted):
            assert len(later.sent) == max(min(added, limit), limit // 2)
        else:
            assert later.sent[: len(earlier.sent)] == earlier.sent
    assert all(len(each.sent) <= limit for each in chosen)
    for each, end in zip(chosen, ends, strict=True):
        assert each.sent == images[end - len(each.sent) : end]


@pytest.mark.parametrize(
    ("sizes_mb", "limit_mb", "left", "omissions"),
    [
        ([20, 20, 10], 50, [0, 1, 2], set()),
        ([20, 20, 10, 1], 50, [2, 3], {"too_large"}),
        ([20, 20, 10, 1, 30], 50, [2, 3, 4], {"too_large"}),
        ([60], 50, [], {"too_large_at_once"}),
        ([10, 0, 45], 50, [1, 2], {"too_large"}),
    ],
)
def test_all_attachments_have_a_size_together(
    sizes_mb: Sequence[int], limit_mb: int, left: list[int], omissions: set[str]
) -> None:
    """The oldest go first; what could not be read takes no room."""
    settings = MediaSettings(max_total_bytes=limit_mb * MEGABYTE)
    files = [attachment(at, "file", f"f{at}") for at in range(len(sizes_mb))]
    sizes_bytes = {f"f{at}": size * MEGABYTE for at, size in enumerate(sizes_mb)}
    chosen = choose(files, len(files), settings, None, sizes_bytes)
    assert ([each.item for each in chosen.sent], set(chosen.omitted.values())) == (left, omissions)


async def test_what_has_gone_for_its_size_is_not_read_again() -> None:
    """Its size is known from then on, even where its content is no longer kept."""
    files = FakeFiles.of(CONTENTS)
    limited = library(files, max_total_bytes=2 * MEGABYTE)
    parts = [NAMES["file large"]], [NAMES["inline large"]]
    both = [await limited.fill(*each) for each in (chat(*parts), chat(*parts, []))]
    assert [sent(each) for each in both] == [
        [{"type": "input_text", "text": "[File: large, file large no longer shown]"}, *parts[1]]
    ] * 2
    assert files.read_ids == ["large"]
