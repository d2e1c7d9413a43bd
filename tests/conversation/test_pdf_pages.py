"""The pages of PDFs: of real programs, of hand-made structures, and of broken files."""

from __future__ import annotations

import io
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.media import count_pdf_pages

OUTLINE = b"9 0 obj\n<</Type /Outlines /Count 44444>>\nendobj\n"


def compressed_pdf(
    pages: int,
    *,
    per_stream: int = 100,
    newline: bytes = b"\n",
    revision: bytes = b"%PDF-1.5\n",
    first: int = 1,
) -> bytes:
    """A PDF, or a later revision of one, whose pages, page tree and catalog are in deflated object streams.

    Its objects are numbered from `first` on: the catalog, the page tree, then its pages.
    """
    kids = b" ".join(b"%d 0 R" % (first + 2 + number) for number in range(pages))
    page = b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 9 9]>>" % (first + 1)
    objects = [
        b"<</Type/Catalog/Pages %d 0 R>>" % (first + 1),
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, pages),
        *[page] * pages,
    ]
    written, entries, number = bytearray(revision), {}, first + len(objects)
    for begin in range(0, len(objects), per_stream):
        group = objects[begin : begin + per_stream]
        entries[number] = (1, len(written), 0)
        entries |= {first + begin + index: (2, number, index) for index in range(len(group))}
        written += object_stream(number, dict(enumerate(group, first + begin)), newline)
        number += 1
    return bytes(written) + cross_references(len(written), entries, number, first)


def object_stream(number: int, objects: dict[int, bytes], newline: bytes = b"\n") -> bytes:
    """An object stream with these objects (ISO 32000-1, 7.5.7)."""
    offsets, body = [], b""
    for each, content in objects.items():
        offsets.append(b"%d %d" % (each, len(body)))
        body += content + b"\n"
    index = b" ".join(offsets) + b"\n"
    deflated = zlib.compress(index + body)
    about = b"/N %d/First %d/Filter/FlateDecode/Length %d" % (len(objects), len(index), len(deflated))
    return b"%d 0 obj\n<</Type/ObjStm%s>>stream%s%s\nendstream\nendobj\n" % (number, about, newline, deflated)


def cross_references(
    position: int, entries: dict[int, tuple[int, int, int]], number: int, root: int
) -> bytes:
    """The cross-reference stream at this position, of itself and these entries (ISO 32000-1, 7.5.8)."""
    entries = {**entries, number: (1, position, 0)}
    rows = b"".join(
        kind.to_bytes(1, "big") + field.to_bytes(4, "big") + index.to_bytes(2, "big")
        for kind, field, index in (entries[each] for each in sorted(entries))
    )
    start, size = min(entries), len(entries)
    about = b"/Type/XRef/Size %d/Index[%d %d]/W[1 4 2]/Root %d 0 R" % (number + 1, start, size, root)
    deflated = zlib.compress(rows)
    head = b"%d 0 obj\n<<%s/Filter/FlateDecode/Length %d>>stream\n" % (number, about, len(deflated))
    return head + deflated + b"\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n" % position


def plain_pdf(count: int, *, root: int = 1, outline: bytes = OUTLINE) -> bytes:
    """Objects that stand plain in a file: a catalog, a page tree that claims so many pages, an outline, one page."""
    return (
        b"%%PDF-1.4\n%d 0 obj\n<</Type /Catalog /Pages 2 0 R /Outlines 9 0 R>>\nendobj\n"
        b"2 0 obj\n<</Type /Pages /Kids [3 0 R] /Count %d>>\nendobj\n3 0 obj\n<</Type /Page /Parent 2 0 R>>\nendobj\n"
        b"%strailer\n<</Size 10 /Root %d 0 R>>\n" % (root, count, outline, root)
    )


@pytest.mark.parametrize("pages", [1, 2, 99, 100, 2500])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_compressed_pages_are_counted(pages: int, newline: bytes) -> None:
    """The catalog and the page tree are found in whichever stream they are; pypdf reads the same number."""
    data = compressed_pdf(pages, newline=newline)
    assert count_pdf_pages(data) == pages
    pypdf = pytest.importorskip("pypdf")
    assert len(pypdf.PdfReader(io.BytesIO(data)).pages) == pages


def test_the_catalog_and_the_pages_may_be_in_different_streams() -> None:
    """Each is found by the numbers at the beginning of its stream."""
    assert count_pdf_pages(compressed_pdf(7, per_stream=1)) == 7


def test_the_newest_revision_counts() -> None:
    """Compressed over plain and plain over compressed: what stands last, under the same number or another."""
    compressed = compressed_pdf(30)
    assert count_pdf_pages(compressed_pdf(31, revision=compressed)) == 31
    assert count_pdf_pages(compressed_pdf(31, revision=compressed, first=500)) == 31
    assert count_pdf_pages(compressed + plain_pdf(32)) == 32
    assert count_pdf_pages(plain_pdf(32) + compressed) == 30
    assert count_pdf_pages(compressed + b"2 0 obj\n<</Type/Pages/Count 33>>\nendobj\n") == 33


def test_only_the_page_trees_root_counts() -> None:
    """An outline has a count too, and so have the branches of the tree; a number may end like another one."""
    branches = b"".join(b"%d2 0 obj\n<</Type /Pages /Count 5>>\nendobj\n" % number for number in range(1, 5))
    assert count_pdf_pages(plain_pdf(20, outline=OUTLINE + branches)) == 20


@pytest.mark.parametrize(
    ("data", "pages"),
    [
        (b"", None),
        (b"no PDF", None),
        (b"%PDF-1.4 /Type /Pages /Count 3 /Type /Page /Type /Page\n/Type/Page /Type /PageLabel", 3),
        (plain_pdf(0), 1),
        (plain_pdf(9_999_999), 1),
        (plain_pdf(5).replace(b"/Count 5", b"/Count 5 0 R"), 1),
        (plain_pdf(5).replace(b"/Root 1 0 R", b"/Root 8 0 R"), 1),
        (plain_pdf(5).replace(b"trailer", b"trailer <</Root 8 0 R>>"), 5),
        (plain_pdf(5) + b"<</Root 8 0 R>> /Root /Root", 5),
        (plain_pdf(5)[:-40], 1),
        (b"%PDF-1.5\n1 0 obj\n<</Linearized 1/L 999/N 12/T 9>>\nendobj\n" + bytes(99), 12),
        (compressed_pdf(40).replace(b"/Root", b"/Boot"), 40),
    ],
    ids=range(12),
)
def test_a_broken_file_is_counted_by_what_it_says(data: bytes, pages: int | None) -> None:
    """By an older root, by the linearization, by its page objects, also the compressed ones; None without any."""
    assert count_pdf_pages(data) == pages


def test_what_is_inflated_is_bounded() -> None:
    """A stream that would inflate to a gigabyte is not followed, and hides nothing else."""
    bomb = zlib.compress(b"1 0 " + b" " * 50_000_000, 9)
    streams = b"7 0 obj <</Type/ObjStm/N 1/First 60000/Filter/FlateDecode>>stream\n" + bomb
    assert count_pdf_pages(streams * 20) is None
    assert count_pdf_pages(streams + plain_pdf(4)) == 4


@given(st.integers(0, 3000), st.binary(max_size=8))
def test_a_damaged_file_has_pages_or_none(offset: int, damage: bytes) -> None:
    """No damage raises."""
    data = compressed_pdf(50)
    counted = count_pdf_pages(data[:offset] + damage + data[offset + len(damage) :])
    assert counted is None or counted > 0


def test_pdfs_of_real_programs_are_counted() -> None:
    """Pillow's and pypdf's, as they are written, after an incremental update, and encrypted."""
    pictures, pypdf = pytest.importorskip("PIL.Image"), pytest.importorskip("pypdf")
    picture, by_pillow = pictures.new("RGB", (9, 9)), io.BytesIO()
    picture.save(by_pillow, "PDF", save_all=True, append_images=[picture] * 22)
    assert count_pdf_pages(by_pillow.getvalue()) == 23
    writers = [
        pypdf.PdfWriter(by_pillow, incremental=True),
        pypdf.PdfWriter(io.BytesIO(compressed_pdf(22)), incremental=True),
        pypdf.PdfWriter(clone_from=by_pillow),
    ]
    writers[2].encrypt("secret")
    for writer, pages in zip(writers, (24, 23, 24), strict=True):
        writer.add_blank_page(9, 9)
        writer.add_outline_item("An outline", 0)
        written = io.BytesIO()
        writer.write(written)
        assert count_pdf_pages(written.getvalue()) == pages
