"""Names of CPUs: which CPU of the catalog typed words mean, by its model number."""

import re
from typing import Final

from advisor.catalog import parts
from advisor.catalog.schema.part import Cpu

CPU_WORDS: Final = frozenset(
    ("ryzen", "epyc", "xeon", "core", "threadripper", "cpu", "processor", "athlon", "celeron", "pentium")
)
"""Words of families of CPUs, beside which a number is that of a CPU."""
_VERSIONED: Final = re.compile(r"(\d{4})[- ]?v(\d)s?\b", re.IGNORECASE)
_SAMPLE: Final = re.compile(r"(\d{4}[a-z]?)[- ]?(es|qs)\b", re.IGNORECASE)
"""Engineering or qualification sample: EPYC 9554ES has the sockets, channels and lanes of the CPU that is sold."""
_VERSION: Final = re.compile(r"v\d")


_FAMILIES: Final = frozenset(
    ("threadripper", "epyc", "xeon", "ryzen", "i3", "i5", "i7", "i9", "athlon", "celeron", "pentium")
)
"""Families of CPUs that a line may state; several use the same numbers."""
_FAMILY_CODES: Final = frozenset(("e5", "e7", "gold", "silver", "platinum", "bronze"))
"""Words that stand for a family of Xeons without that name: E5-2690v4, Gold 6138."""
_SERIES_BY_NUMBER: Final = (
    (re.compile(r"\be5[- ]?[124]6\d\d[a-z]?[- ]?v[34]\b", re.IGNORECASE), "lga2011-3"),
    (re.compile(r"\be5[- ]?[124]6\d\d[a-z]?[- ]?v2\b", re.IGNORECASE), "lga2011"),
    (
        re.compile(r"\b(?:gold|silver|platinum|bronze)\s+(?:[3-6]|8)[12]\d\d[a-z]{0,2}\b", re.IGNORECASE),
        "lga3647",
    ),
    (
        re.compile(r"\b(?:gold|silver|platinum|bronze)\s+(?:[3-6]|8)3\d\d[a-z]{0,2}\b", re.IGNORECASE),
        "lga4189",
    ),
    (
        re.compile(
            r"\b(?:gold|silver|platinum|bronze|max)\s+(?:[3-6]|8|9)[45]\d\d[a-z]{0,2}\b", re.IGNORECASE
        ),
        "lga4677",
    ),
    (re.compile(r"\bi[3579][- ]?(?:[6-8][1-7]|9[1-79])\d\d[kfst]{0,2}\b", re.IGNORECASE), "lga1151"),
    (
        re.compile(
            r"\b(?:i[3579][- ]?\d{4,5}|ultra\s+[579]\s+\d{3})(?:[uph]|hx|hk|hq|g[1-7])\b"
            r"|\bryzen\s+(?:ai\s+)?[3579]\s+(?:pro\s+)?(?:hx\s+\d{3}|\d{3,4}(?:u|hs|hx|h|hx3d))\b",
            re.IGNORECASE,
        ),
        "mobile",
    ),
    (re.compile(r"\bepyc\s+7[0-9][0-9fh]1p?\b", re.IGNORECASE), "epyc-sp3-naples"),
    (re.compile(r"\bepyc\s+7[0-9a-z][0-9a-z][23][px]?\b", re.IGNORECASE), "epyc-sp3"),
    (re.compile(r"\bepyc\s+9[0-9a-z][0-9a-z]4[pxf]?\b", re.IGNORECASE), "epyc-sp5"),
    (re.compile(r"\bepyc\s+9[0-9a-z][0-9a-z]5[pxf]?\b", re.IGNORECASE), "epyc-sp5-turin"),
)
"""Series of a server's CPU by its number, as the makers number them: the digit of the generation tells the socket."""


def cpu_by_number(text: str) -> Cpu | None:
    """Return a server's CPU that is in no record, by its number: socket, memory and lanes of its series, cores and
    power of the CPU in the middle of the series by power. None if the number is of no series.

    Source: makers' numbering; flagged `figures_assumed`.
    """
    for pattern, series in _SERIES_BY_NUMBER:
        found = pattern.search(text)
        if found is None:
            continue
        pool = (*parts.planner_parts(Cpu), *parts.parts_for_lists(Cpu))
        alike = sorted(
            (cpu for cpu in pool if cpu.series.id == series), key=lambda cpu: (cpu.power_w, cpu.name)
        )
        usual = alike[len(alike) // 2]
        flags = (*usual.flags, "figures_assumed")
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


def plain_words(text: str) -> str:
    """Return the words in the form in which they are compared: lower case, without makers that users do not type."""
    return " ".join(re.findall(r"[a-z0-9.+]+", text.lower().replace("geforce", " ").replace("nvidia", " ")))


def find_cpu(text: str, *, is_labelled: bool = False) -> Cpu | None:
    """Return the CPU whose model number is among the words.

    Numbers of servers' CPUs (EPYC 7302) are those of other things too: they count beside the name of their family, if
    the line has no label.
    """
    words = set(plain_words(_SAMPLE.sub(r"\1 \2", _VERSIONED.sub(r"\1 v\2", text))).split())
    best: Cpu | None = None
    stated = _FAMILIES & (words | ({"threadripper"} if "tr" in words else set()))
    pool = [(cpu, False) for cpu in parts.planner_parts(Cpu)]
    pool += [(cpu, True) for cpu in parts.parts_for_lists(Cpu)]
    for cpu, needs_family in pool:
        name = plain_words(cpu.name).split()
        number = [word for word in name if any(c.isdigit() for c in word) and len(word) >= 4]
        if not number or number[-1] not in words:
            continue
        if stated and not stated & set(name):
            continue  # a Threadripper 9960X is no Core i9 9960X
        version = name[-1] if _VERSION.fullmatch(name[-1]) else ""
        if version and version not in words:
            continue
        if not version and "xeon" in name and any(map(_VERSION.fullmatch, words)):
            continue  # an E5-2680 v4 is no E5-2680
        is_plain = number[-1].isdigit() or len(number[-1]) < 5
        families = CPU_WORDS | {"tr"} | set(name[:1]) | (_FAMILY_CODES & set(name))
        if needs_family and is_plain and not is_labelled and not words & families:
            continue
        if best is None or len(cpu.name) < len(best.name):
            best = cpu
    return best
