"""Whether a summary has content: what is refused although its form is right.

Owns the signs of an answer without content (a placeholder, a refusal, the form's own texts, a few words, words of
another matter). It reads words, not meaning: a lie in the source's own words passes here. It must not correct anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

from .prompt import INSTRUCTION
from .summary import MODEL_FIELDS, ModelSummary, Summary, SummaryRefused

MIN_SHARE: Final = 0.02
MIN_TOKENS: Final = 60
"""A summary has so much of its source, and at least so many tokens where the source has enough for that."""
MIN_OVERLAP: Final = 0.30
"""Of the rare words of a summary: how many occur in a source of the same language."""
TOP_WORDS: Final = 10
MIN_TOP_SHARE: Final = 0.30
"""Of the most frequent short words of a source: how many a summary in its language uses at least, whatever it is of."""
MIN_JUDGED_WORDS: Final = 20
"""Fewer rare words prove nothing."""
MIN_SCRIPT_SHARE: Final = 0.1
"""Words in a script that the source hardly uses cannot occur in it."""
MIN_ECHO_CHARACTERS: Final = 20

_LETTERS_ONLY: Final = re.compile(r"[\W_]+")
_PLACEHOLDER_WORDS: Final = (
    "na none null nil nothing tbd todo empty string text summary unknown nosummary notapplicable noinformation keine "
    "keines nichts leer zusammenfassung aucun aucune rien néant vide résumé ninguno ninguna nada vacío resumen nenhum "
    "nenhuma vazio resumo nessuno nessuna niente vuoto riassunto нет ничего пусто 无 無 没有 空 なし 特になし 없음"
)
_PLACEHOLDERS: Final = frozenset(_PLACEHOLDER_WORDS.split())
_NESTED: Final = re.compile(r"[\s`]*+(?:json)?\s*+\{\s*+\"")
_FORM: Final = re.compile(
    r"[^\w<]*+(?:<?(?:a |an |the )?(?:list of )?strings?\b[:;,.]|<[a-z_ ]{1,100}+>\W*+\Z)"
)
_REFUSAL: Final = re.compile(
    r"\W*(?:(?:i['\u2019]?m|i am|we['\u2019]re) (?:very |so |really )?(?:sorry|afraid|unable|not able)\b"
    r"|(?:sorry|apologies)\b[^.]{0,30}\b(?:can(?:no|['\u2019])t|unable)|my apologies"
    r"|i (?:can(?:no|['\u2019])t|can not|won['\u2019]t|will not|must decline|am not able|do not feel)\b"
    r"|as an ai(?: (?:language )?(?:model|assistant))?,"
    r"|(?:es )?tut mir (?:sehr )?leid|ich (?:kann|darf|werde) (?:dies|das|diese|dabei|dazu|leider|ihnen|dir|nicht)"
    r"|(?:leider|entschuldigung)\b[^.]{0,20}\bkann ich|als ki(?:-\w+)?,"
    r"|(?:je suis |désolée?,? je suis )?désolée?\b|je (?:ne peux|ne suis) pas|je regrette|en tant qu['\u2019]ia,"
    r"|lo siento|no puedo|lamento|como (?:una )?ia,|desculpe|sinto muito|não posso|mi dispiace|non posso"
    r"|(?:很|非常)?(?:抱歉|对不起|對不起)|我(?:无法|無法|不能|没有办法|沒有辦法)|作为(?:一个)?(?:AI|人工智能)"
    r"|(?:大変)?(?:申し訳|すみません|ごめんなさい)|(?:죄송|미안)|(?:к сожалению|извините|простите),? ?(?:но )?я не"
    r"|я не могу|het spijt me|ik kan (?:dit|dat|niet)|przykro mi|nie mogę|üzgünüm|ne yaz\u0131k ki)",
    re.IGNORECASE,
)
"""How an answer begins in which a model speaks of itself instead of the conversation."""
_WORD: Final = re.compile(r"[^\W_]+")
_RARE_CHARACTERS: Final = 5
"""A word as long as this is rarely a function word; words with one beginning of this length are taken as one."""
_UNSPACED: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"})


def require_content(summary: Summary) -> None:
    """Raise SummaryRefused when a summary, stored or new, says nothing: cheap, and by its own words alone."""
    _require_words(summary.by_model.summary_text)


def judge_content(
    summary: ModelSummary, source: Iterable[str], *, source_tokens: int, count: Callable[[str], int]
) -> None:
    """Raise SummaryRefused when an answer in the right form is not a summary of its source."""
    _require_words(summary.summary_text)
    texts = [*summary.texts]
    if sum(map(count, texts)) < min(MIN_TOKENS, MIN_SHARE * source_tokens):
        raise SummaryRefused("too short")
    if not _shares_words(texts, source):
        raise SummaryRefused("not about its source")


def _require_words(text: str) -> None:
    letters = _LETTERS_ONLY.sub("", text).casefold()
    if not letters or letters in _PLACEHOLDERS or letters in _FIELD_NAMES:
        raise SummaryRefused("no content")
    plain = " ".join(text.split())
    if _NESTED.match(plain):
        raise SummaryRefused("malformed")
    if _FORM.match(plain) or (len(plain) >= MIN_ECHO_CHARACTERS and plain.rstrip(".;") in _PLAIN_INSTRUCTION):
        raise SummaryRefused("repeats its prompt")
    if _REFUSAL.match(plain):
        raise SummaryRefused("refused")


_FIELD_NAMES: Final = frozenset(_LETTERS_ONLY.sub("", name) for name in MODEL_FIELDS)
_PLAIN_INSTRUCTION: Final = " ".join(INSTRUCTION.split())


# --- words in common ---


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """The words of some texts: how often each short one occurs, and the rare ones, each with its script.

    Where no spaces divide words, pairs of characters are the rare words.
    """

    short: Counter[str]
    rare: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Vocabulary:
        words = Counter(word for text in texts for word in _WORD.findall(text.casefold()))
        short, rare = Counter[str](), set[tuple[str, str]]()
        for word, times in words.items():
            script = _script(word[0])
            if script in _UNSPACED:
                rare.update((_script(word[at]), word[at : at + 2]) for at in range(len(word) - 1))
            elif len(word) >= _RARE_CHARACTERS or (script == "DIGIT" and len(word) > 1):
                rare.add((script, word[:_RARE_CHARACTERS]))
            else:
                short[word] += times
        return cls(short, frozenset(rare))

    @property
    def scripts(self) -> frozenset[str]:
        """The scripts of a good part of the rare words."""
        counts = Counter(script for script, _ in self.rare)
        return frozenset(script for script in counts if counts[script] >= MIN_SCRIPT_SHARE * len(self.rare))


def _shares_words(texts: Iterable[str], source_texts: Iterable[str]) -> bool:
    """Whether enough of the rare words of a summary occur in its source.

    Where the two differ in language, one name, number or loan word is enough; where they differ in script, words are
    not judged at all.
    """
    summary, source = _Vocabulary.of(texts), _Vocabulary.of(source_texts)
    judged = {word for word in summary.rare if word[0] in source.scripts}
    unspaced = _UNSPACED & (summary.scripts | source.scripts)
    if len(judged) < MIN_JUDGED_WORDS or not unspaced <= (summary.scripts & source.scripts):
        return True
    top = [word for word, _ in source.short.most_common(TOP_WORDS)]
    is_same_language = bool(unspaced) or sum(word in summary.short for word in top) >= MIN_TOP_SHARE * len(
        top
    )
    return len(judged & source.rare) >= (MIN_OVERLAP * len(judged) if is_same_language else 1)


@cache
def _script(character: str) -> str:
    """Return the script of a character by its name in Unicode."""
    return "DIGIT" if character.isdigit() else unicodedata.name(character, "UNKNOWN").split()[0]
