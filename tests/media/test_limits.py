"""What goes when a request would hold too much: in batches, said once, and without a new name for any turn."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation, name_turns
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.media.choice import Attachment, MediaSettings, choose, limit_size
from open_webui_openrouter_pipe.summaries.segments import SegmentSizes, SummaryIndex
from open_webui_openrouter_pipe.turn.memory import Memory
from tests.media.test_library import chat, data_url, image, library, lines, model, path, sent
from tests.support.files import FakeFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from open_webui_openrouter_pipe.conversation.conversation import Conversation
    from open_webui_openrouter_pipe.media.library import MediaLibrary
    from open_webui_openrouter_pipe.responses.items import InputPart

pytestmark = pytest.mark.anyio

TURNS, LIMIT = 60, 20
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0"
PARTS: list[list[InputPart]] = [[image(data_url(PNG + b"%d" % turn))] for turn in range(TURNS)]
"""One image with each message."""


async def filled_chats(shown: MediaLibrary) -> list[Any]:
    """The chat as each of its requests has it."""
    return [await shown.fill(*chat(*PARTS[: turn + 1])) for turn in range(TURNS)]


async def test_images_go_in_batches() -> None:
    """In sixty turns the prefix breaks four times, each time with one line; in between it grows at its end alone."""
    requests = await filled_chats(library(max_images=LIMIT))
    breaks = [
        turn
        for turn, (earlier, later) in enumerate(pairwise(requests), start=2)
        if list(later.items[: len(earlier.items)]) != list(earlier.items)
    ]
    assert breaks == [21, 32, 43, 54]
    memory = Memory()
    said = {
        turn: new
        for turn, request in enumerate(requests, start=1)
        if (new := memory.new_lines("ada", "chat", request.notices))
    }
    assert said == {
        turn: [f"Earlier images no longer shown to the model: {count}."]
        for turn, count in zip(breaks, (11, 22, 33, 44), strict=True)
    }
    shown = [sum("image_url" in part for part in sent(request)) for request in requests]
    assert (max(shown), min(shown[LIMIT:])) == (LIMIT, LIMIT // 2)


async def conversation(shown: MediaLibrary) -> Conversation:
    items, turns = chat(*PARTS)
    filled = await shown.fill(items, turns)
    return name_turns(build_conversation(filled.items, turns), items)


async def test_summaries_outlive_the_images_of_their_turns() -> None:
    """Turns have the same names and end the same segments, whatever is shown of their images and to which model."""
    sizes = SegmentSizes(min_tokens=40, closing_tokens=80, max_tokens=160, max_turns=0, max_summaries=2)
    found = [
        await conversation(each)
        for each in (library(max_images=LIMIT), library(max_images=0), library(reads=model()))
    ]
    counter = TokenCounter(ContentCache())
    named = [
        ([turn.chain for turn in each.turns], SummaryIndex(each, counter, sizes, {}).ends) for each in found
    ]
    assert named[0] == named[1] == named[2]
    assert len(named[0][1]) > 1
    assert len({each.turns[0].sent_chain for each in found}) == len(found)
    other = build_conversation(*chat([image(data_url(PNG))]))
    assert other.turns[0].chain != found[0].turns[0].chain


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 6))
def test_a_longer_chat_goes_on_with_the_choice_of_a_shorter_one(counts: list[int], limit: int) -> None:
    """Never more than the limit; what has gone stays away; and it goes at once, down to half of the limit."""
    images = [
        Attachment(item, part, "image", item, True, f"{item}.{part}", "")  # noqa: FBT003 - a position
        for item, count in enumerate(counts)
        for part in range(count)
    ]
    ends = list(accumulate(counts))
    settings = MediaSettings(max_images=limit)
    chosen = [choose(images[:end], item, settings, None) for item, end in enumerate(ends)]
    for (earlier, later), added in zip(pairwise(chosen), counts[1:], strict=True):
        assert set(earlier.omitted) <= set(later.omitted)
        if set(later.omitted) - set(earlier.omitted):
            assert len(later.sent) == max(min(added, limit), limit // 2)
        else:
            assert later.sent[: len(earlier.sent)] == earlier.sent
    assert all(len(each.sent) <= limit for each in chosen)
    for each, end in zip(chosen, ends, strict=True):
        assert each.sent == tuple(images[end - len(each.sent) : end])


async def test_more_images_than_allowed_in_one_message() -> None:
    """The first turn has no earlier images: those that no request has shown were not sent."""
    items, turns = chat([image(path(f"f{number}")) for number in range(7)])
    files = FakeFiles.of({f"f{number}": PNG for number in range(7)})
    filled = await library(files, max_images=5).fill(items, turns)
    assert [part.get("text") for part in sent(filled)] == [
        *(f"[Image: file f{number} not sent: a request holds at most 5 images]" for number in (0, 1)),
        *[None] * 5,
    ]
    assert lines(filled) == ["Images not sent: 2. A request holds at most 5."]
    assert sorted(files.read_ids) == [f"f{number}" for number in range(2, 7)]


async def test_images_that_are_not_selected_are_named_once() -> None:
    """At each turn there is one more of them."""
    shown = library(image_selection="user_turn_only")
    names = [set((await shown.fill(*chat(*PARTS[:turn]))).notices) for turn in (2, 3)]
    assert names == [{"images_unselected"}] * 2


MEGABYTE = 1024 * 1024


def sent_of(sizes_mb: Sequence[int], **settings: Any) -> tuple[list[int], set[str]]:
    """The numbers of those that are sent of files of these sizes, each in a message of its own; why others are not."""
    files = [Attachment(at, 1, "file", at, True, f"f{at}", "") for at in range(len(sizes_mb))]  # noqa: FBT003
    chosen = limit_size(
        choose(files, len(files), MediaSettings(**settings), None),
        {f"f{at}": size * MEGABYTE for at, size in enumerate(sizes_mb)},
        MediaSettings(**settings),
    )
    return [each.item for each in chosen.sent], set(chosen.omitted.values())


@pytest.mark.parametrize(
    ("sizes_mb", "limit_mb", "left", "omissions"),
    [
        ([20, 20, 10], 50, [0, 1, 2], set()),
        ([20, 20, 10, 1], 50, [2, 3], {"too_large"}),
        ([20, 20, 10, 1, 30], 50, [2, 3, 4], {"too_large"}),
        ([60], 50, [], {"too_large_at_once"}),
        ([10, 0, 45], 50, [1, 2], {"too_large"}),
        ([60] * 3, 0, [0, 1, 2], set()),
    ],
)
def test_all_attachments_have_a_size_together(
    sizes_mb: list[int], limit_mb: int, left: list[int], omissions: set[str]
) -> None:
    """The oldest go first; what could not be read takes no room."""
    assert sent_of(sizes_mb, max_total_bytes=limit_mb * MEGABYTE) == (left, omissions)


async def test_what_is_too_large_together_is_named() -> None:
    """Documents as well as images, inline or read; a file that has gone is not read again."""
    large = PNG + bytes(2 * MEGABYTE)
    files = FakeFiles.of({"f1": b"%PDF-1.4 " + large})
    parts: list[InputPart] = [{"type": "input_file", "filename": "a.pdf", "file_id": "f1"}]
    limited = library(files, max_total_bytes=3 * MEGABYTE)
    both = await limited.fill(*chat(parts, [image(data_url(large))]))
    assert cast("Any", sent(both)[0])["text"] == "[File: a.pdf, file f1 no longer shown]"
    assert [part["type"] for part in sent(both)] == ["input_text", "input_image"]
    assert lines(both) == ["Earlier attachments no longer sent: 1. All together are larger than 3 MB."]
    await limited.fill(*chat(parts, [image(data_url(large))], []))
    assert files.read_ids == ["f1"]
    at_once = await limited.fill(*chat([*parts, image(data_url(large))]))
    assert cast("Any", sent(at_once)[0])["text"].endswith(" not sent: all together are larger than 3 MB]")
    assert lines(at_once) == ["Attachments not sent: 1. All together are larger than 3 MB."]
