"""Words of parts lists: those of other languages in English, and tables of the words that the reader of lists knows."""

import functools
import re
import unicodedata
from typing import Any, Final

from advisor.catalog.files import read_toml
from advisor.catalog.parts import FOLDER

_COUNTED: Final = re.compile(r"[一二两兩三四五六七八](?=\s?[枚张張条條根块塊個个片台颗顆支只本](?!钱))")
"""Number in Chinese or Japanese before the word for pieces."""
_DIGITS: Final = str.maketrans("一二两兩三四五六七八", "1222345678")
_SIGNS: Final = str.maketrans(
    {"：": ":", "，": ", ", "；": "; ", "（": " (", "）": ") ", "￥": "¥", "？": "?", "™": "", "®": ""}
)
_UMLAUTS: Final = "äöü"
_START: Final = r"(^[\s\-*•]*|[:：]\s*)"
"""Place where a number in words is one whatever follows: at the start of a line or after its label."""
_NUMBER_AHEAD: Final = r"(?=\s+(?-i:[A-Z]\w*[\dA-Z]|\d{2}))"
"""Place behind which a number in words is one in a sentence: before a name with a number or in capitals."""


@functools.cache
def _tables(name: str) -> dict[str, Any]:
    return read_toml(FOLDER / name)


@functools.cache
def word_table(name: str) -> dict[str, tuple[str, ...]]:
    """Return the words of a table of words.toml, by what they mean."""
    return {meaning: tuple(words) for meaning, words in _tables("words.toml")[name].items()}


@functools.cache
def _forms(name: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    rows: list[list[str]] = _tables("spellings.toml")[name]
    return tuple((re.compile(expand(row[0], ""), re.IGNORECASE), row[1]) for row in rows)


def write_in_one_form(text: str, name: str) -> str:
    """Return a text with what a table of spellings.toml lists in the form that the reader of lists knows."""
    for pattern, written in _forms(name):
        text = pattern.sub(written, text)
    return text


@functools.cache
def one_of(name: str) -> str:
    """Return the pattern of a list of phrases of words.toml, in which a space is any space."""
    return f"(?:{'|'.join(word_table('phrases')[name])})".replace(" ", r"\s+")


def whole(name: str) -> re.Pattern[str]:
    """Return the pattern of the phrases of a list as whole words."""
    return re.compile(rf"\b{one_of(name)}\b", re.IGNORECASE)


_REFERENCE: Final = re.compile(r"\{((?:[a-z_]+\.)?[a-z_]+\d?)\}")


@functools.cache
def fragment(name: str) -> str:
    """Return a pattern of patterns.toml with the patterns to which it refers, such as `line.count`."""
    table, _, key = name.rpartition(".")
    if table == "phrases":
        return one_of(key)
    if key == "counts":
        return "|".join(word for words in word_table("counts").values() for word in words)
    if key == "long_labels":
        labels = (label for each in word_table("labels").values() for label in each if " " in label)
        return "|".join(sorted(labels, key=len, reverse=True))
    return expand(_tables("patterns.toml")[table][key][0], table)


def expand(text: str, table: str) -> str:
    """Return a pattern with those to which it refers, of its own table where it names none."""
    return _REFERENCE.sub(
        lambda found: fragment(found[1] if "." in found[1] else f"{table}.{found[1]}"), text
    )


@functools.cache
def regex(name: str) -> re.Pattern[str]:
    """Return a pattern of patterns.toml, compiled without regard to case."""
    return re.compile(fragment(name), re.IGNORECASE)


def write_in_english(text: str) -> str:
    """Return a line with the words of parts, numbers and units in English; other words stay.

    Source: words.toml of the catalog.
    """
    text = unicodedata.normalize("NFC", text).translate(_SIGNS)
    text = _COUNTED.sub(lambda number: f" {number.group().translate(_DIGITS)}", text)
    text = write_in_one_form(text, "foreign")
    for found, english in _patterns():
        text = found.sub(functools.partial(_in_english, english), text)
    return text


def _in_english(english: dict[str, str], found: re.Match[str]) -> str:
    """Return the English word for one that was found; a number at the start of a line takes the space behind it."""
    if found.re.groups == 1:
        return english[found[0].lower()]
    ahead, first, inside = found.groups()
    return f"{ahead}{english[first.lower()].strip()} " if first else english[inside.lower()]


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    """Return the patterns of words and of numbers, each with the English word by what is found."""
    found = []
    forms = {"words": "(WORDS)", "numbers": rf"{_START}(WORDS)\s*(?=\w)|(WORDS){_NUMBER_AHEAD}"}
    for name, form in forms.items():
        english = {
            spelling: word
            for word, each in word_table(name).items()
            for foreign in each
            for spelling in _spellings(foreign)
        }
        # Longer words come first, since they contain shorter ones.
        ordered = "|".join(map(_pattern_of, sorted(english, key=len, reverse=True)))
        in_english = {
            key.lower(): word if key[0] < "\u2e80" else f" {word} " for key, word in english.items()
        }
        found.append((re.compile(form.replace("WORDS", ordered), re.IGNORECASE), in_english))
    return tuple(found)


def _spellings(word: str) -> set[str]:
    """Return a word as written, without accents, and with an e for each umlaut."""
    bare = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    umlauts = "".join(f"{unicodedata.normalize('NFD', c)[0]}e" if c in _UMLAUTS else c for c in word)
    return {word, unicodedata.normalize("NFC", bare), umlauts}


def _pattern_of(word: str) -> str:
    """Return the pattern of a word: a whole one, except in scripts without spaces."""
    pattern = re.escape(word)
    if word[0] >= "\u2e80":
        return pattern
    return rf"\b{pattern}" + (r"\b" if word[-1].isalnum() else "")
