"""Masks the values of fields that name secrets, in whatever notation a text has them.

Owns which names are secret (passwords, keys, tokens, cookies) and which only sound like it (max_tokens, primary_key).
It goes by names, not by what a value may be; a secret without a name stays. It works in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

MASK: Final = "[masked]"

_MARK: Final = r"\\{0,8}[\"']|&(?:quot|#34|#39);"
_NAME: Final = re.compile(
    rf"(?:(?P<line>^[ \t]{{0,40}}+(?:- )?)|(?<![\w.-]))(?P<dashes>--)?(?P<mark>{_MARK})?"
    r"(?P<name>[A-Za-z_][\w.-]{0,80}+)(?(mark)(?P=mark))\]?"
    r"(?:[ \t]{0,9}+(?:=>|:(?![:/])|=(?!=))\s{0,9}+|(?(dashes)[ \t]{1,9}+|(?!)))",
    re.MULTILINE,
)
"""A name and what separates it from its value: JSON (escaped, too), YAML, headers, `name=value`, `--name value`."""
_QUOTED: Final = re.compile(rf"(?P<mark>{_MARK})(?P<value>(?:(?!(?<!\\)(?P=mark))[^\r\n])*+)")
_CONTAINER: Final = re.compile(r"(?P<value>\{[^{}]{0,4000}+\}|\[[^\[\]]{0,4000}+\])")
_PARTS: Final = re.compile(r"[^\s\"'\\,:{}\[\]]++")
_WORD: Final = re.compile(
    r"(?P<value>(?:(?:Bearer|Basic|Digest|Token)[ \t]{1,9}+)?[^\s\"'\\,;&<>()\[\]{}]{1,400}+)"
)
_LINE: Final = re.compile(r"(?P<value>[^\r\n\"'\\]{1,400}+)")
_REST: Final = {_WORD: re.compile(r"[^\s\"'\\,;&<>()\[\]{}]*+"), _LINE: re.compile(r"[^\r\n\"'\\]*+")}
"""A value is judged by its beginning, so that no line is read once for each of its fields; it is masked whole."""
_BEARER: Final = re.compile(r"(?<=\bBearer )(?=[A-Za-z._~+/=-]{0,400}+\d)[\w.~+/=-]{8,4000}+")
_IN_ADDRESS: Final = re.compile(r"(?<=://)([^\s/:@\"']{0,80}+:)[^\s/@\"']{1,200}+(?=@)")

_NOTHING: Final = re.compile(
    r"(?:|null|none|nil|true|false|undefined|\*+|<[^<>]*>|\$\{?\w+\}?)", re.IGNORECASE
)
"""What a secret's field holds when it does not hold a secret."""
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_DIGIT, _LETTER, _SPACE = re.compile(r"\d"), re.compile(r"[^\W\d_]"), re.compile(r"\s")
_WORDS_IN_NAME: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRETS: Final = _words(
    "password passwords passwd passwort pwd passphrase secret secrets credential credentials authorization cookie "
    "cookies apikey apikeys secretkey privatekey accesskey accesstoken authtoken sessionid sessid phpsessid "
    "jsessionid"
)
_HEADERS: Final = frozenset({"authorization", "cookie"})
"""Their values go on to the end of the line."""
_KEY_OWNERS: Final = _words(
    "access account admin api app application auth authentication authorization aws bearer bot client csrf deploy "
    "encryption id jwt license master oauth personal private refresh secret security service session signing ssh "
    "webhook xsrf"
)
"""Before "key" or "token" they make it a secret."""
_HARMLESS_OWNERS: Final = _words(
    "bos cache column continuation eos foreign group i18n idempotency index next object order pad page partition "
    "prev previous primary public registry row sort translation unique unk"
)
_SUFFIXES: Final = frozenset({"hash", "value", "base64"})


def _is_random(value: str, min_characters: int) -> bool:
    """Whether a value looks as if a machine had drawn it."""
    is_mixed = _DIGIT.search(value) is not None and _LETTER.search(value) is not None
    return len(value) >= min_characters and is_mixed and not _SPACE.search(value)


_IF_LIKELY: Final[Mapping[str, Callable[[str], bool]]] = {
    "key": lambda value: _is_random(value, 16) and "/" not in value,
    "token": lambda value: len(value) >= 8 and not any(map(str.isspace, value)),
    "auth": lambda value: len(value) >= 8 and not any(map(str.isspace, value)),
    "pass": lambda value: len(value) >= 4 and not any(map(str.isspace, value)),
    "session": lambda value: _is_random(value, 8),
}
"""Names that are a secret's only with some values: a key may be a column's name, and a token a word."""


def mask_secrets(text: str) -> str:
    """Return the text with "[masked]" in place of the values of fields that name secrets."""
    pieces, end = [], 0
    for start, stop, replacement in _secret_values(text):
        pieces += [text[end:start], replacement]
        end = stop
    named = "".join([*pieces, text[end:]])
    return _IN_ADDRESS.sub(rf"\1{MASK}", _BEARER.sub(MASK, named))


def _secret_values(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where the values stand, and what to put there; in JSON it stays a string."""
    done = 0
    for field in _NAME.finditer(text):
        words = tuple(map(str.lower, _WORDS_IN_NAME.findall(field["name"])))
        is_secret = _secret_test(words)
        if field.start() < done or is_secret is None:
            continue
        goes_on = ":" in field[0] and (field["line"] is not None or _HEADERS.intersection(words))
        forms = (_QUOTED, _CONTAINER, _LINE if goes_on else _WORD)
        value = next((match for form in forms if (match := form.match(text, field.end()))), None)
        held = value["value"].strip() if value else MASK
        parts = _PARTS.findall(held) if value and value.re is _CONTAINER else [held]
        if value and held != MASK and not _NOTHING.fullmatch(held) and any(map(is_secret, parts)):
            rest = _REST.get(value.re)
            done = rest.match(text, value.end()).end() if rest else value.end()  # type: ignore[union-attr]
            mark = "" if value.re is _QUOTED else field["mark"] or ""
            yield value.start("value"), done, f"{mark}{MASK}{mark}"


def _secret_test(words: tuple[str, ...]) -> Callable[[str], bool] | None:
    """Return which values are secret in a field with these words in its name; None when none are."""
    while words and words[-1] in _SUFFIXES:
        words = words[:-1]
    if not words:
        return None
    last, owner = words[-1], words[-2] if len(words) > 1 else ""
    if last in _SECRETS or "".join(words) in _SECRETS:
        return bool
    if (owner, last) == ("session", "id"):
        return bool
    kind = last.removesuffix("s") if owner in _KEY_OWNERS else last
    if kind not in _IF_LIKELY or owner in _HARMLESS_OWNERS:
        return None
    if kind in {"key", "token"} and owner in _KEY_OWNERS:
        return lambda value: not _NUMBER.fullmatch(value)
    likely = _IF_LIKELY[kind]
    return lambda value: not _NUMBER.fullmatch(value) and likely(value)
