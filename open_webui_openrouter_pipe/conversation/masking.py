"""Masks secrets: those that are known as such, and those of known forms, whatever stands around them.

Owns the forms: private keys in PEM, tokens with their issuer's prefix or behind "Bearer", passwords in addresses and in
short options of commands. A secret of another form stays, whatever the name of its field. It works in linear time.
"""

from __future__ import annotations

import re
from typing import Any, Final, Self, SupportsIndex

MASK: Final = "[masked]"

_START: Final = r"(?:(?<![\w.\\-])|(?<=\\[nrt]))"
"""Where a word begins: also after a line end that is written as two characters."""
_OPTIONS: Final = r"[^\r\n|;]{0,200}?\s"
_SECRETS: Final = (
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
    re.compile(r"(?:(?<=://)|(?<=:\\/\\/))[^\s/:@\"']{0,80}+:(?P<value>[^\s/?#\"'`]{1,200})(?=@)"),
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
"""What stands in place of a secret: nothing, a placeholder, a type, a rule."""


class Secret(str):
    """A key or a passphrase: whoever shows it shows a mask.

    It equals its text, and joins, encodes and is written into JSON as that; `repr`, `str`, `format`, a pickle, and so a
    log and a traceback with the values of variables, do not hold it. A part of it is one, too.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Take a text, or another secret."""
        return text if isinstance(text, cls) else super().__new__(cls, text)

    def __str__(self) -> str:
        return MASK if self else ""

    def __repr__(self) -> str:
        return f"'{MASK}'" if self else "''"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __getitem__(self, index: SupportsIndex | slice) -> Self:
        return type(self)(super().__getitem__(index))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce_ex__(self, _: SupportsIndex) -> tuple[Any, ...]:
        return type(self), (str(self),)

    def strip(self, characters: str | None = None) -> Self:
        """Return it without blanks around it."""
        return type(self)(super().strip(characters))


NO_SECRET: Final = Secret("")


def mask_secrets(text: str) -> str:
    """Return the text with "[masked]" in place of the secrets in it."""
    for form in _SECRETS:
        text = form.sub(_mask_end, text)
    return text


def _mask_end(match: re.Match[str]) -> str:
    """Return a match with its value, which is its end, masked."""
    value = match["value"]
    return match[0] if _NOTHING.fullmatch(value) else match[0].removesuffix(value) + MASK
