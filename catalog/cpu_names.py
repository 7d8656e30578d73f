"""Names of CPUs: which CPU of the catalog typed words mean, by its model number."""

import functools
import re
from typing import Final, NamedTuple

from advisor.catalog import parts
from advisor.catalog.schema.part import FIGURES_ASSUMED, Cpu

CPU_WORDS: Final = frozenset(
    ("ryzen", "epyc", "xeon", "core", "threadripper", "cpu", "processor", "athlon", "celeron", "pentium")
)
"""Words of families of CPUs, beside which a number is that of a CPU."""
_VERSIONED: Final = re.compile(r"(\d{4})[- ]?v(\d)s?\b", re.IGNORECASE)
_SAMPLE: Final = re.compile(r"(\d{4}[a-z]?)[- ]?(es|qs)\b", re.IGNORECASE)
"""Engineering or qualification sample: EPYC 9554ES has the sockets, channels and lanes of the CPU that is sold."""
_VERSION: Final = re.compile(r"v\d")
_GENERATION: Final = re.compile(
    r"\b(epyc|xeon|ryzen|threadripper|core)\s+(?:(?:\d(?:st|nd|rd|th)[- ]gen(?:eration)?|naples|rome|milan(?:-x)?"
    r"|genoa(?:-x)?|bergamo|siena|turin|skylake|cascade\s?lake|ice\s?lake|(?:sapphire|emerald|granite)\s+rapids)\s+)+",
    re.IGNORECASE,
)


_FAMILIES: Final = frozenset(
    ("threadripper", "epyc", "xeon", "ryzen", "i3", "i5", "i7", "i9", "athlon", "celeron", "pentium")
)
"""Families of CPUs that a line may state; several use the same numbers."""
_FAMILY_CODES: Final = frozenset(("e3", "e5", "e7", "fx", "gold", "silver", "platinum", "bronze"))
"""Words that stand for a family of Xeons without that name: E5-2690v4, Gold 6138."""


def cpu_by_number(text: str) -> Cpu | None:
    """Return a CPU that is in no record, by its number: socket, memory and lanes of its series, cores and power of the
    CPU in the middle of the series by power. None if the number is of no series.

    Source: makers' numbering; flagged `figures_assumed`.
    """
    for pattern, series in _numbers_of_series():
        found = pattern.search(_without_generation(text))
        if found is None:
            continue
        pool = (*parts.planner_parts(Cpu), *parts.parts_for_lists(Cpu))
        alike = sorted(
            (cpu for cpu in pool if cpu.series.id == series), key=lambda cpu: (cpu.power_w, cpu.name)
        )
        usual = alike[len(alike) // 2]
        flags = (*usual.flags, FIGURES_ASSUMED)
        source = f"number of the series; cores and power of {usual.name}"
        return usual.model_copy(
            update={
                "name": " ".join(found.group().split()),
                "id": "",
                "price_class": "",
                "flags": flags,
                "source": source,
            }
        )
    return None


@functools.cache
def _numbers_of_series() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the patterns of model numbers, each with the id of the series."""
    return tuple(
        (re.compile(rf"\b{number}(?![\w])", re.IGNORECASE), series.id)
        for series in parts.cpu_series().values()
        for number in series.numbers
    )


def _without_generation(text: str) -> str:
    """Return a text without the generation and the code name that people write between a family and a number: `EPYC 5th
    gen 9135`, `EPYC Milan 7713`."""
    return _GENERATION.sub(r"\1 ", text)


@functools.lru_cache(maxsize=16384)
def plain_words(text: str) -> str:
    """Return the words in the form in which they are compared: lower case, without makers that users do not type."""
    return " ".join(
        re.findall(
            r"[a-z0-9+]+(?:\.[a-z0-9+]+)*", text.lower().replace("geforce", " ").replace("nvidia", " ")
        )
    )


class _NumberedCpu(NamedTuple):
    """CPU with the words of its name, as lines of lists are compared with it."""

    cpu: Cpu
    needs_family: bool
    """Whether its number counts beside the name of its family alone, in lines without a label."""
    name: list[str]
    number: str


@functools.cache
def _cpus_by_number() -> dict[str, list[tuple[int, _NumberedCpu]]]:
    """Return the CPUs with their place among all, by the last word of their name that is a model number."""
    found: dict[str, list[tuple[int, _NumberedCpu]]] = {}
    pool = [(cpu, False) for cpu in parts.planner_parts(Cpu)]
    pool += [(cpu, True) for cpu in parts.parts_for_lists(Cpu)]
    for place, (cpu, needs_family) in enumerate(pool):
        name = plain_words(cpu.name).split()
        numbers = [word for word in name if any(c.isdigit() for c in word) and len(word) >= 4]
        if numbers:
            numbered = _NumberedCpu(cpu, needs_family, name, numbers[-1])
            found.setdefault(numbers[-1], []).append((place, numbered))
    return found


def find_cpu(text: str, *, is_labelled: bool = False) -> Cpu | None:
    """Return the CPU whose model number is among the words, as `find_cpus` finds it first."""
    return next(iter(find_cpus(text, is_labelled=is_labelled)), None)


def find_cpus(
    text: str, *, is_labelled: bool = False, socket: str = "", ram_type: str = ""
) -> tuple[Cpu, ...]:
    """Return the CPUs whose model number is among the words, the likeliest first.

    Numbers of servers' CPUs (EPYC 7302) are those of other things too: they count beside the name of their family, if
    the line has no label. Of several CPUs of one number (Core i9-7960X, Threadripper 7960X) the one for the socket of
    the board is meant, else the one for the memory, else the newer one.
    """
    words = set(plain_words(_SAMPLE.sub(r"\1 \2", _VERSIONED.sub(r"\1 v\2", text))).split())
    found: list[Cpu] = []
    named = {place: found for word in words for place, found in _cpus_by_number().get(word, ())}
    stated = _FAMILIES & (words | ({"threadripper"} if "tr" in words else set()))
    for _, (cpu, needs_family, name, number) in sorted(named.items()):
        if stated and not stated & set(name):
            continue  # a Threadripper 9960X is no Core i9 9960X
        version = name[-1] if _VERSION.fullmatch(name[-1]) else ""
        if version and version not in words:
            continue
        if not version and "xeon" in name and any(map(_VERSION.fullmatch, words)):
            continue  # an E5-2680 v4 is no E5-2680
        is_plain = number.isdigit() or len(number) < 5
        families = CPU_WORDS | {"tr"} | set(name[:1]) | (_FAMILY_CODES & set(name))
        if needs_family and is_plain and not is_labelled and not words & families:
            continue
        found.append(cpu)
    return tuple(
        sorted(
            found,
            key=lambda cpu: (
                cpu.series.socket != socket,
                bool(ram_type) and ram_type not in cpu.series.ram_types,
                -cpu.series.pcie_generation,
                len(cpu.name),
            ),
        )
    )
