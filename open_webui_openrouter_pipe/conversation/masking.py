"""Masks the values of fields that name secrets, in whatever notation a text has them, and secrets of known forms.

Owns which names are secret (passwords, keys, tokens, cookies) and which only sound like it (max_tokens, primary_key),
and the forms that need no name: private keys in PEM, addresses with a password, tokens with their issuer's prefix.
Any other secret without a name stays. It works in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

MASK: Final = "[masked]"

_QUOTE: Final = r"(?:[\"'`]|&(?:quot|apos|#34|#39);)"
_MARK: Final = rf"\\{{0,8}}{_QUOTE}"
_START: Final = r"(?:(?<![\w.\\-])|(?<=\\[nrt]))"
"""Where a word begins: also after a line end that is written as two characters."""
_AFTER_NAME: Final = r"[ \t]{0,9}+(?:=>|:=|:(?![:/])|=(?!=))\*{0,2}+[ \t]{0,9}+"
_AFTER_OPTION: Final = r"(?(dashes)[ \t]{1,9}+|(?!))"
_BESIDE: Final = (
    r"(?(mark)[\s,](?:(?!\n[ \t]{0,40}+-)[^{}\[\]<>]){0,200}?|\r?\n[ \t]{1,40}+)"
    rf"\b(?i:value)(?:{_MARK})?[ \t]{{0,9}}+[:=][ \t]{{0,9}}+"
)
"""From a name to the value beside it: `"name": "A", "value": "b"`, in YAML on the next line, or an attribute."""
_AFTER_TAG: Final = (
    r"(?P<element>(?(tag)[^<>]{0,200}?(?<!/)(?:>|&gt;)|"
    r"(?(attribute)>|</(?P<closed>\w{1,20}+)>\s{0,40}+<(?!(?P=closed)>)\w{1,20}+>)))"
)
"""Of `<A>b</A>`; else of `<x name="A">b</x>` or `<key>A</key><string>b</string>`."""
_FIELD: Final = re.compile(
    rf"(?:(?P<line>(?:^|(?<=\\n))[ \t]{{0,40}}+(?:- )?)|(?P<tag>(?<!:)(?:<|&lt;)(?:\w{{1,20}}+:)?)|{_START})"
    rf"(?P<dashes>--?)?(?P<attribute>(?<=name=)|(?<=key=))?(?P<mark>{_MARK})?"
    rf"(?P<name>[A-Za-z_][\w.-]{{0,80}}+)(?(mark)(?P=mark))(?:\]|\*\*)?"
    rf"(?=(?P<separator>{_AFTER_NAME}|{_AFTER_OPTION}|{_BESIDE}|{_AFTER_TAG}))",
    re.MULTILINE,
)
_ESCAPE: Final = r"\\(?P=backslashes)"
_QUOTED: Final = re.compile(
    rf"\s{{0,9}}+(?:[bfru]{{1,2}}(?=[\"']))?(?P<mark>(?P<backslashes>\\{{0,8}}){_QUOTE})"
    rf"(?P<value>(?:{_ESCAPE}(?:{_ESCAPE}|(?P=mark))|(?!(?P=mark))[^\r\n])*+)"
)
_STRING: Final = (
    r"(?P<backslashes>\\{0,8})\""
    rf"(?:{_ESCAPE}(?:{_ESCAPE}|(?P=backslashes)\")|(?!(?P=backslashes)\")[^\r\n]){{0,400}}+(?P=backslashes)\""
)
_CONTAINER: Final = re.compile(
    rf"\s{{0,9}}+(?P<value>(?:(?P<brace>\{{)|\[)(?:{_STRING}|(?(brace)[^{{}}]|[^\[\]])){{0,4000}}+(?(brace)\}}|\]))"
)
_PARTS: Final = re.compile(r"[^\s\"'\\,:{}\[\]]++")
_BLOCK: Final = re.compile(
    r"(?:[|>][-+\d]{0,2}+[ \t]{0,9}+\r?\n|\r?\n(?![ \t]{1,80}+(?:[-#\"'\[{]|[\w.-]{1,80}+[ \t]{0,9}+[:=])))"
    r"(?P<indent>[ \t]{1,80}+)(?P<value>[^\r\n]{1,400}+)"
)
_ELEMENT: Final = re.compile(r"\s{0,9}+(?:<!\[CDATA\[)?(?P<value>(?:(?!&lt;|\]\]>)[^<]){1,400}+)")
_EXPRESSION: Final = (
    r"(?:[A-Za-z_][\w.]{0,80}+[(\[]|"
    r"(?:self|this|process|os|env|config|settings|args|request|secrets)\.[A-Za-z])"
)
"""A call, a subscript or an attribute in a program's text: a name of the value, and not the value."""
_WORD: Final = re.compile(
    rf"(?!{_EXPRESSION})(?P<value>(?:(?:Bearer|Basic|Digest|Token)[ \t]{{1,9}}+)?[^\s\"'\\,;&<>()\[\]{{}}]{{1,400}}+)"
)
_LINE: Final = re.compile(rf"(?!{_EXPRESSION})(?P<value>[^\r\n\"'\\]{{1,400}}+)")
_REST: Final[Mapping[re.Pattern[str], re.Pattern[str]]] = {
    _WORD: re.compile(r"[^\s\"'\\,;&<>()\[\]{}]*+"),
    _LINE: re.compile(r"[^\r\n\"'\\]*+"),
    _ELEMENT: re.compile(r"(?:(?!&lt;|\]\]>)[^<])*+"),
    _BLOCK: re.compile(
        r"(?P<indent>[ \t]{1,80}+)[^\r\n]*+(?:(?:\r?\n[ \t]*+(?=[\r\n]))*+\r?\n(?P=indent)[^\r\n]++)*+"
    ),
}
"""A value is judged by its beginning, so that no line is read once for each of its fields; it is masked whole."""

_OPTIONS: Final = r"[^\r\n|;]{0,200}?\s"
_UNNAMED: Final = (
    re.compile(
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}?PRIVATE KEY(?: BLOCK)?-----"
        r"(?P<value>(?:(?!-----)[\s\S])*+(?=-----END)|(?:(?:\s|\\{1,8}[nr])*+[A-Za-z0-9+/=]{16,}+)*+)"
    ),
    re.compile(
        rf"{_START}(?P<value>(?:sk|rk|gh[oprsu]|github_pat|glpat|xox[a-z]|hf|npm|pypi|gsk|whsec)[_-]"
        r"(?=(?:[A-Za-z_-]{0,80}+\d){3})[\w-]{16,4000}+|A[KS]IA[0-9A-Z]{16}\b|AIza[\w-]{35}(?![\w-])|"
        r"eyJ[\w-]{8,4000}+\.[\w-]{8,4000}+\.[\w-]{0,4000}+)"
    ),
    re.compile(r"(?<=\bBearer )(?=[A-Za-z._~+/=-]{0,400}+\d)(?P<value>[\w.~+/=-]{8,4000}+)"),
    re.compile(r"(?<=://)[^\s/:@\"']{0,80}+:(?P<value>[^\s/?#\"'`]{1,200})(?=@)"),
    re.compile(
        rf"\b(?:curl\b{_OPTIONS}(?:-u|--(?:proxy-)?user)[ =]?[\"']?[^\s:\"']{{1,80}}+:|"
        rf"(?:mysql|mariadb)\w{{0,9}}+{_OPTIONS}-p[\"']?|redis-cli\b{_OPTIONS}-a ?[\"']?|"
        rf"(?:sshpass|docker login|mongo\w{{0,9}}+)\b{_OPTIONS}-p ?[\"']?)(?P<value>[^\s\"'\\]{{1,200}}+)"
    ),
)
"""What is secret by its form: private keys, tokens by their prefix, passwords in addresses and in short options."""

_NOTHING: Final = re.compile(
    r"null|none|nil|true|false|undefined|\W{0,4}|[*•.]+|<[^<>]*>|\$?\{+[^{}\"':]*\}+|\$\w+|\$\([^()]*\)|"
    r"(?:str|string|bytes|required|optional|must|should|see|expired|invalid|missing|unchanged)(?:[\s,;=].*)?",
    re.IGNORECASE,
)
"""What a secret's field holds when it does not hold a secret: nothing, a placeholder, a type, a rule."""
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_DIGIT, _LETTER, _SPACE = re.compile(r"\d"), re.compile(r"[^\W\d_]"), re.compile(r"\s")
_PLAIN_WORD: Final = re.compile(r"[A-Za-z]?[a-z-]*")
_WORDS_IN_NAME: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRETS: Final = _words(
    "password passwords passwd passwort pgpassword passphrase passcode secret secrets credential credentials "
    "authorization apikey apikeys secretkey privatekey accesskey accesstoken authtoken sessionid sessid phpsessid "
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
_SUFFIXES: Final = _words("hash value base base64 confirmation data")


def _is_random(value: str, min_characters: int) -> bool:
    """Whether a value looks as if a machine had drawn it."""
    is_mixed = _DIGIT.search(value) is not None and _LETTER.search(value) is not None
    return len(value) >= min_characters and is_mixed and not _SPACE.search(value)


def _is_drawn(value: str) -> bool:
    """Whether a value can be a token: long, without spaces, and not a word."""
    return len(value) >= 8 and not _SPACE.search(value) and not _PLAIN_WORD.fullmatch(value)


def _holds_cookie(value: str) -> bool:
    return "=" in value or _DIGIT.search(value) is not None


_IF_LIKELY: Final[Mapping[str, Callable[[str], bool]]] = {
    "key": lambda value: _is_random(value, 16) and "/" not in value,
    "token": _is_drawn,
    "auth": _is_drawn,
    "pass": lambda value: len(value) >= 4 and not _SPACE.search(value),
    "pwd": lambda value: "/" not in value,
    "session": lambda value: _is_random(value, 8),
    "cookie": _holds_cookie,
    "cookies": _holds_cookie,
}
"""Names that are a secret's only with some values: a key may be a column's name, and a token a word."""


def mask_secrets(text: str) -> str:
    """Return the text with "[masked]" in place of the values of fields that name secrets, and of secrets by form."""
    for form in _UNNAMED:
        text = form.sub(_mask_end, text)
    pieces, end = [], 0
    for start, stop, replacement in _secret_values(text):
        pieces += [text[end:start], replacement]
        end = stop
    return "".join([*pieces, text[end:]])


def _mask_end(match: re.Match[str]) -> str:
    """Return a match with its value, which is its end, masked."""
    value = match["value"]
    return match[0] if _NOTHING.fullmatch(value) else match[0].removesuffix(value) + MASK


def _secret_values(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where the values stand, and what to put there; in JSON it stays a string."""
    done = 0
    for field in _FIELD.finditer(text):
        words = tuple(map(str.lower, _WORDS_IN_NAME.findall(field["name"])))
        is_secret = _secret_test(words)
        if field.start() < done or is_secret is None:
            continue
        value = _find_value(text, field, is_header=not _HEADERS.isdisjoint(words))
        held = value["value"].strip() if value else MASK
        parts = _PARTS.findall(held) if value and value.re is _CONTAINER else [held]
        is_name = held.lower() == field["name"].lower()
        if (
            value
            and held != MASK
            and not is_name
            and not _NOTHING.fullmatch(held)
            and any(map(is_secret, parts))
        ):
            done = _end(text, value)
            mark = field["mark"] if value.re in {_WORD, _CONTAINER} and field["mark"] != "`" else None
            yield value.start("value"), done, f"{mark or ''}{MASK}{mark or ''}"


def _find_value(text: str, field: re.Match[str], *, is_header: bool) -> re.Match[str] | None:
    """Return the beginning of a field's value, in the first form that it can have."""
    has_lines = field["line"] is not None or "\n" in field["separator"]
    goes_on = ":" in field["separator"] and (has_lines or is_header) and field["mark"] in {None, "`"}
    block = (_BLOCK,) if has_lines else ()
    forms = (_ELEMENT,) if field["element"] else (_QUOTED, *block, _CONTAINER, _LINE if goes_on else _WORD)
    value = next((match for form in forms if (match := form.match(text, field.end("separator")))), None)
    if value and value.re is _BLOCK and len(value["indent"]) <= len(field["line"] or ""):
        return None
    return value


def _end(text: str, value: re.Match[str]) -> int:
    """Return where a value ends of which the beginning is known."""
    rest = _REST.get(value.re)
    start = value.start("indent") if value.re is _BLOCK else value.end()
    match = rest.match(text, start) if rest else None
    return match.end() if match else value.end()


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
