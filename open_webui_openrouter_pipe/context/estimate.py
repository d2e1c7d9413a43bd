"""How many tokens a text has, without a vocabulary.

Owns one number per text. The model is linear: bytes are reduced to classes (lower, upper, digit, space,
quote, punctuation, and a class for each family of scripts), and single classes and pairs of neighbours are
counted, for tokens begin where the class changes. Long runs of base64 and hexadecimal digits are counted by
their length.

The weights are a least-squares fit to o200k_base over about ten million characters of source code, prose in
some sixty languages, JSON, CSV, logs and encoded data, aimed 2 % above the truth; `docs/context.md` has the
errors.
"""

from __future__ import annotations

from collections.abc import Iterator

LONG_RUN_BYTES = 40
HEX_TOKENS_PER_BYTE = 0.588
BASE64_TOKENS_PER_BYTE = 0.697
DIGIT_TOKENS_PER_BYTE = 0.34
LEAST_TOKENS_PER_BYTE = 0.1

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
    p 0.18    d 0.216   n 1.116
    sl 0.872  su 1.196  sd 2.183  sp 0.816  sq 1.048  ls 0.195  lu 1.045  ld 1.917  lp 0.702  lq 1.925
    pl 0.686  pu 1.545  pd 1.481  nu 1.476  qs 1.587  qd 1.271  du 1.776  tl 1.264
"""
"""Tokens for each occurrence of a class, or of two classes side by side."""

_CELLS = _WEIGHT_TABLE.split()
_WEIGHTS = tuple(zip([name.encode() for name in _CELLS[::2]], map(float, _CELLS[1::2]), strict=True))


def _class_table() -> bytes:
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
    """The tokens of a text as o200k_base would count them, give or take a few per cent."""
    raw = text.encode("utf-8", "surrogatepass")
    encoded, plain, at = 0.0, bytearray(), 0
    for start, end in _long_runs(raw):
        if tokens := _encoded_tokens(raw[start:end]):
            encoded += tokens
            plain += raw[at:start]
            at = end
    plain += raw[at:]
    classes = plain.translate(CLASS_OF_BYTE)
    counted = sum(weight * classes.count(pattern) for pattern, weight in _WEIGHTS)
    return round(encoded + max(counted, LEAST_TOKENS_PER_BYTE * len(plain))) or bool(text)


def _long_runs(raw: bytes) -> Iterator[tuple[int, int]]:
    """Where at least as many letters and digits as `_RUN` stand together, padding included."""
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
    """The tokens of a run of base64, hexadecimal digits or letters; zero for a path or a name."""
    classes = run.translate(CLASS_OF_BYTE)
    upper, lower, digits = (classes.count(name) for name in (b"u", b"l", b"d"))
    if min(upper, lower) > len(run) // 6 and digits > len(run) // 32:
        return BASE64_TOKENS_PER_BYTE * len(run)
    if digits == len(run):
        return DIGIT_TOKENS_PER_BYTE * len(run)
    if upper + lower + digits == len(run):
        return HEX_TOKENS_PER_BYTE * len(run)
    return 0.0
