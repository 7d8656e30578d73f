"""Providers and makers of accelerators that a question in words names, which limit where and what is rented."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from advisor.catalog import accelerators
from advisor.catalog.errors import AdvisorError
from advisor.catalog.prices import all_providers, bundled_prices, provider_names

_PARTED: Final = r"(?:\s*,\s*(?:or|and)\s+|\s*[,/&+]\s*|\s+(?:or|and|vs\.?|versus|oder|und|ou|et|o|e|y)\s+)"
"""Separators between names of a list."""
_BEHIND: Final = r"(?:\s+(?:cloud|gpus?|cards?|instances?|machines?|servers?|vms?|accelerators?|hardware))?"
"""Words behind a name that tell nothing more."""
_PHRASE_ENDS: Final = (
    r"(?=\s*(?:$|[.,;:?!)]|(?:and|or|for|with|under|below|within|in|at|by|spot|budget|für|mit|im|pour|avec|en|para"
    r"|con|per|\d)\b))"
)
"""Words and signs that follow a name that is a place to rent: `on google` is one, `on google reviews` is none."""


class Providers(NamedTuple):
    """Providers that a question names."""

    ids: tuple[str, ...]
    words: tuple[str, ...]
    """Words with which they are named."""
    rest: str
    """The question without them."""
    refusal: AdvisorError | None
    """Why the question is refused if machines are rented: it leaves one out, or names one without prices."""


def providers_in(text: str, words: Mapping[str, Any]) -> Providers:
    """Return the providers that a question names."""
    common = frozenset(words["providers"]["common"])
    names = provider_names()
    place = _any(words["before"]["provider"])
    refusal: AdvisorError | None = None
    if foreign := re.search(rf"(?<![\w-])(?:{_any(words['providers']['unpriced'])})(?![\w-])", text):
        refusal = AdvisorError(
            f"no price of '{foreign[0]}' is known",
            why=f"the catalog has prices of {len(all_providers())} other providers",
            fix=f"leave '{foreign[0]}' out of the question to compare those, or --price-file FILE with its prices",
        )
    listed = rf"(?<![\w-])(?:{_any(names)})(?![\w-])"
    pattern = re.compile(
        rf"(?:(?P<place>\b(?:{place}))\s+(?:the\s+)?)?(?P<list>{listed}(?:{_PARTED}{listed})*){_BEHIND}"
        rf"(?P<end>{_PHRASE_ENDS})?"
    )

    def counts(found: re.Match[str]) -> bool:
        named = re.findall(listed, found["list"])
        return any(name not in common for name in named) or bool(found["place"] and found["end"] is not None)

    ids: list[str] = []
    typed: list[str] = []
    while (found := next(filter(counts, pattern.finditer(text)), None)) is not None:
        named = [names[name] for name in re.findall(listed, found["list"])]
        if without := _left_out(text[: found.start()], words):
            others = ",".join(id_ for id_ in all_providers() if id_ not in named)
            refusal = AdvisorError(
                f"'{without} {found[0].strip()}' leaves providers out",
                why="--provider names those that may be taken",
                fix=f"leave these words out of the question, and add --provider {others}",
            )
        ids += named
        typed.append(found["list"])
        text = " ".join(f"{text[: found.start()]} {text[found.end() :]}".split())
    return Providers(tuple(dict.fromkeys(ids)), tuple(typed), text, refusal)


class Makers(NamedTuple):
    """Makers or families of accelerators that a question names, as `--gpu` takes them."""

    names: tuple[str, ...]
    rest: str


def makers_in(text: str, words: Mapping[str, Any]) -> Makers:
    """Return the makers or families of accelerators on which a question wants to run.

    Raises: AdvisorError: it leaves one out.
    """
    by_word = {
        word: name for kind in ("makers", "families") for name, each in words[kind].items() for word in each
    }
    listed = rf"(?<![\w-])(?:{_any(by_word)})(?![\w-])"
    several = rf"{listed}(?:{_PARTED}{listed})*"
    families = _any(word for each in words["families"].values() for word in each)
    pattern = re.compile(
        rf"\b(?:{_any(words['before']['hardware'])})\s+(?:the\s+)?(?P<run>{several}){_BEHIND}{_PHRASE_ENDS}"
        rf"|(?P<cards>{several})\s+(?:gpus?|cards?|accelerators?|hardware)\b"
        rf"|(?P<family>(?<![\w-])(?:{families})(?![\w-]))"
    )
    found = pattern.search(text)
    if found is None:
        return Makers((), text)
    named = [by_word[word] for word in re.findall(listed, found["run"] or found["cards"] or found["family"])]
    if without := _left_out(text[: found.start()], words):
        out = {id_ for name in named for id_ in accelerators.of_family(name)}
        sold = {price.accelerator for price in bundled_prices()}
        makers = dict.fromkeys(accelerators.by_id(id_).vendor for id_ in sorted(sold - out))
        raise AdvisorError(
            f"'{without} {found[0].strip()}' leaves accelerators out",
            why="--gpu names those that may be taken",
            fix=f"leave these words out of the question, and add --gpu {','.join(makers)}",
        )
    rest = " ".join(f"{text[: found.start()]} {text[found.end() :]}".split())
    return Makers(tuple(dict.fromkeys(named)), rest)


def _left_out(before: str, words: Mapping[str, Any]) -> str:
    """Return the word at the end of a text that leaves out what stands behind it; empty if there is none."""
    place = _any([*words["before"]["provider"], *words["before"]["hardware"]])
    found = re.search(
        rf"\b(?P<word>{_any(words['before']['but'])})[\s-]+(?:(?:{place}|the)\s+)*$", f"{before} "
    )
    return found["word"] if found else ""


def _any(words: Iterable[str]) -> str:
    """Return a pattern of any of these words, of which longer ones count first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
