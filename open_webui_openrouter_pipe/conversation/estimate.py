"""How many tokens a text has, without a tokenizer.

The model is linear: bytes are reduced to classes (lower, upper, digit, space,
quote, punctuation, and a class for each family of scripts), and single classes and pairs of neighbours are
counted, because tokens begin where the class changes. Letters and scripts that are rare in the vocabulary cost more.
Long runs of base64 and hexadecimal digits are counted by their length.

The weights are least-squares fits to o200k_base over source code, prose in some sixty languages, JSON, CSV, logs
and encoded data, aimed 2 % above the truth; docs/context.md has the errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONG_RUN_BYTES = 40
HEX_TOKENS_PER_BYTE = 0.588
BASE64_TOKENS_PER_BYTE = 0.697
DIGIT_TOKENS_PER_BYTE = 0.34
MIN_TOKENS_PER_BYTE = 0.1
MAX_SURCHARGE = 1.2
"""Share of its other tokens that a text's spelling may add."""
SLICES = 16
SLICE_BYTES = 1024
"""The spelling of a longer text is judged by so many slices of it."""

_ASCII_CLASSES = (
    ("l", "abcdefghijklmnopqrstuvwxyz"),
    ("u", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    ("d", "0123456789"),
    ("s", " "),
    ("n", "\n"),
    ("t", "\t"),
    ("q", "\"'`"),
    ("c", "".join(map(chr, [*range(9), *range(11, 32)]))),
)
_LEAD_BYTE_CLASSES = (
    (0xC0, "G"),  # Latin with accents, Greek
    (0xCE, "R"),  # Cyrillic
    (0xD5, "A"),  # Armenian, Hebrew, Arabic
    (0xDC, "O"),  # Syriac, Thaana, N'Ko
    (0xE0, "I"),  # scripts of India, Thai
    (0xE1, "V"),  # Georgian, Ethiopic, Khmer, Vietnamese
    (0xE2, "E"),  # general punctuation, symbols
    (0xE3, "J"),  # kana and the punctuation of Chinese and Japanese
    (0xE4, "C"),  # Han
    (0xEA, "K"),  # Hangul
    (0xEE, "F"),  # full-width forms
    (0xF0, "X"),  # emoji and rare scripts
)
_WEIGHT_TABLE = """
    G 1.863   R 0.397   A 0.451   I 0.489   V 0.416   E 0.309   J 0.646   C 0.752   K 0.72    F 1.943   X 2.068
    O 2.25
    p 0.18    d 0.216   n 1.116
    sl 0.872  su 1.196  sd 2.183  sp 0.816  sq 1.048  ls 0.195  lu 1.045  ld 1.917  lp 0.702  lq 1.925
    pl 0.686  pu 1.545  pd 1.481  nu 1.476  qs 1.587  qd 1.271  du 1.776  tl 1.264
"""
"""Tokens for each occurrence of a class, or of two classes side by side."""

_SPELLING_TABLE = """
    ko 3.79   q 3.03    ga 2.94   fu 2.69   zi 2.56   az 2.16   ek 1.99   ud 1.95   ka 1.62   ke 1.55
    ia 1.46   eg 1.44   ru 1.43   ik 1.29   ee 1.25   fa 1.21   ja 1.19   nn 1.15   gi 1.14   mi 1.01
    sc 0.97   tt 0.96   ni 0.88   j 0.87    py 0.84   ad 0.77   ra 0.67   _y 0.30   h -0.06   y -0.09
    tr -0.64  io -0.70  if -0.91  rm -0.96  ov -1.06  fr -1.18  tp -1.23  pt -1.32  au -1.34  do -1.65
    _g -1.89  _k -2.00  ey -2.09  ok -2.21  qu -3.12 wy 1.50   ydd 1.50  ae 1.00
"""
"""Tokens that letters and pairs of letters add (`_` is a space): they distinguish Basque or Zulu from English."""

_RARE_BLOCKS = (
    (0xE0, 0xA0, 0xA3, 2.4),  # Samaritan and other old scripts
    (0xE0, 0xA8, 0xA9, 0.14),  # Gurmukhi
    (0xE0, 0xAC, 0xAD, 0.25),  # Odia
    (0xE0, 0xB6, 0xB7, 0.24),  # Sinhala
    (0xE0, 0xBA, 0xBB, 1.33),  # Lao
    (0xE0, 0xBC, 0xBF, 1.07),  # Tibetan
    (0xE1, 0x80, 0x82, 0.15),  # Burmese
    (0xE1, 0x84, 0x87, 2.5),  # Hangul Jamo
    (0xE1, 0x88, 0x8D, 1.85),  # Ethiopic
    (0xE1, 0x8E, 0x9D, 2.75),  # Cherokee, Canadian syllables, runes
    (0xE1, 0x9E, 0x9F, 0.2),  # Khmer
    (0xE1, 0xA0, 0xB7, 2.75),  # Mongolian and many smaller scripts
    (0xE2, 0x88, 0x8B, 1.0),  # mathematics
    (0xE2, 0x94, 0x97, 0.4),  # frames and blocks
    (0xE2, 0xA0, 0xBF, 2.4),  # Braille, Glagolitic, Coptic
    (0xE3, 0x90, 0xBF, 2.2),  # rare Han
    (0xE4, 0x80, 0xB7, 2.2),  # rare Han
    (0xEA, 0x80, 0xAF, 2.3),  # Yi, Vai, Javanese
    (0xF0, 0x90, 0x9D, 2.1),  # ancient scripts, mathematical letters
    (0xF0, 0xA0, 0xBF, 2.1),  # rarest Han
)
"""First byte, range of the second, and the tokens that each such character adds to its class's weight."""


def _weights(table: str) -> tuple[tuple[bytes, float], ...]:
    cells = table.split()
    names = [name.replace("_", " ").encode() for name in cells[::2]]
    return tuple(zip(names, map(float, cells[1::2]), strict=True))


_WEIGHTS = _weights(_WEIGHT_TABLE)
_SPELLING = _weights(_SPELLING_TABLE)
_RARE = tuple(
    (bytes([lead]), re.compile(b"%c[%c-%c]" % (lead, low, high)), tokens)
    for lead, low, high, tokens in _RARE_BLOCKS
)


def _class_table() -> bytes:
    """Return the class of each byte; each range of lead bytes overwrites the end of the one before."""
    table = bytearray(b"p" * 0x80 + b"." * 0x80)
    for name, members in _ASCII_CLASSES:
        for member in members:
            table[ord(member)] = ord(name)
    for first, name in _LEAD_BYTE_CLASSES:
        table[first:] = name.encode() * (0x100 - first)
    return bytes(table)


CLASS_OF_BYTE = _class_table()

_RUN_BYTES = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/_-"
_IN_RUN = bytes(b"01"[byte in _RUN_BYTES] for byte in range(256))
_RUN = b"1" * LONG_RUN_BYTES


def estimate_tokens(text: str) -> int:
    """Return the tokens of a text as o200k_base would count them, within a few per cent."""
    raw = text.encode("utf-8", "surrogatepass")
    encoded, plain, copied = 0.0, bytearray(), 0
    for start, end in _long_runs(raw):
        if tokens := _encoded_tokens(raw[start:end]):
            encoded += tokens
            plain += raw[copied:start]
            copied = end
    plain += raw[copied:]
    classes = plain.translate(CLASS_OF_BYTE)
    counted = max(_weighted_count(_WEIGHTS, classes), MIN_TOKENS_PER_BYTE * len(plain))
    surcharge = min(MAX_SURCHARGE * counted, max(0.0, _spelling_surcharge(plain)))
    rare = sum(tokens * len(block.findall(plain)) for lead, block, tokens in _RARE if lead in plain)
    return round(encoded + counted + surcharge + rare) or bool(text)


def _weighted_count(weights: tuple[tuple[bytes, float], ...], raw: bytes | bytearray) -> float:
    return sum(weight * raw.count(pattern) for pattern, weight in weights)


def _spelling_surcharge(plain: bytearray) -> float:
    """Return what letters add; for a long text, scaled up from evenly spaced slices."""
    if len(plain) <= SLICES * SLICE_BYTES:
        return _weighted_count(_SPELLING, plain)
    step = len(plain) // SLICES
    slices = b"".join(plain[at * step : at * step + SLICE_BYTES] for at in range(SLICES))
    return _weighted_count(_SPELLING, slices) * len(plain) / len(slices)


def _long_runs(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of at least `LONG_RUN_BYTES` letters and digits, padding included."""
    mask = raw.translate(_IN_RUN)
    start = mask.find(_RUN)
    while start >= 0:
        end = mask.find(b"0", start)
        end = len(mask) if end < 0 else end
        while raw[end : end + 1] == b"=":
            end += 1
        yield start, end
        start = mask.find(_RUN, end)


def _encoded_tokens(run: bytes) -> float:
    """Return the tokens of a run of base64, hexadecimal digits or letters; zero for a path or a name."""
    classes = run.translate(CLASS_OF_BYTE)
    upper, lower, digits = (classes.count(name) for name in (b"u", b"l", b"d"))
    if min(upper, lower) > len(run) // 6 and digits > len(run) // 32:
        return BASE64_TOKENS_PER_BYTE * len(run)
    if digits == len(run):
        return DIGIT_TOKENS_PER_BYTE * len(run)
    if upper + lower + digits == len(run):
        return HEX_TOKENS_PER_BYTE * len(run)
    return 0.0
