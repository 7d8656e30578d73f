"""Names of CPUs: which CPU of the catalog typed words mean, by its model number."""

import re
from typing import Final

from advisor.catalog import parts
from advisor.catalog.schema.part import Cpu

CPU_WORDS: Final = frozenset(
    ("ryzen", "epyc", "xeon", "core", "threadripper", "cpu", "processor", "athlon", "celeron", "pentium")
)
"""Words of families of CPUs, beside which a number is that of a CPU."""
_VERSIONED: Final = re.compile(r"(\d{4})[- ]?v(\d)\b", re.IGNORECASE)
_SAMPLE: Final = re.compile(r"(\d{4}[a-z]?)[- ]?(es|qs)\b", re.IGNORECASE)
"""Engineering or qualification sample: EPYC 9554ES has the sockets, channels and lanes of the CPU that is sold."""
_VERSION: Final = re.compile(r"v\d")


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
    pool = [(cpu, False) for cpu in parts.planner_parts(Cpu)]
    pool += [(cpu, True) for cpu in parts.parts_for_lists(Cpu)]
    for cpu, needs_family in pool:
        name = plain_words(cpu.name).split()
        number = [word for word in name if any(c.isdigit() for c in word) and len(word) >= 4]
        if not number or number[-1] not in words:
            continue
        version = name[-1] if _VERSION.fullmatch(name[-1]) else ""
        if version and version not in words:
            continue
        is_plain = number[-1].isdigit() or len(number[-1]) < 5
        if needs_family and is_plain and not is_labelled and not words & (CPU_WORDS | {"tr"} | set(name[:1])):
            continue
        if best is None or len(cpu.name) < len(best.name):
            best = cpu
    return best
