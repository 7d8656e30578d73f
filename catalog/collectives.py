"""Fitted collectives: α–β parameters by fabric, operation and algorithm."""

import functools
import re
from typing import Final, NamedTuple

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.schema.efficiency import CollectiveRecord

# Nearest measured relatives, nearest first: similar links count before similar age of the accelerators.
_RELATIVES: Final[dict[str, tuple[str, ...]]] = {
    "nvlink1": ("nvlink2", "nvlink3"),
    "nvlink2": ("nvlink3",),
    "nvlink3": ("nvlink4",),
    "nvlink4": ("nvlink5", "nvlink3"),
    "nvlink5": ("nvlink4",),
    "nvlink6": ("nvlink5",),
    "xgmi": ("xgmi-mi300x", "nvlink3"),
    "gaudi": ("nvlink3",),
    "neuronlink": ("ici", "nvlink3"),
    "mi455x": ("xgmi-mi300x", "nvlink4"),
    "ualink": ("nvlink4",),
    "pcie": ("pcie4-x16", "pcie5-x16"),
    "pcie5": ("pcie5-x16", "pcie4-x16"),
    "pcie6": ("pcie5-x16", "pcie4-x16"),
}
_NARROW_HOST: Final = re.compile(r"pcie\d+-x[1-4]-host")
"""Ids of slots with few lanes whose cards reach each other through host memory."""
_NARROW_HOST_RELATIVE: Final = "pcie4-x4-host"
_WIDE_HOST: Final = re.compile(r"pcie\d+-x\d+-host")
"""Ids of the other slots whose cards reach each other through host memory. Curves of cards that read each other would
make a narrow link faster than a wide one."""
_WIDE_HOST_RELATIVE: Final = "pcie4-x16-host"
_RING_LIKE: Final = ("all_gather", "reduce_scatter", "all_to_all")
_FALLBACK: Final = ("nvlink3", "nvlink4", "pcie4-x16")


class ResolvedCollective(NamedTuple):
    """Record of a collective, and the fabric that it was measured on if that is not the requested one."""

    record: CollectiveRecord
    transferred_from: str = ""


@functools.cache
def records() -> tuple[CollectiveRecord, ...]:
    """Return all fitted collectives, in the file's order."""
    data = read_toml(DATA_DIR / "efficiency" / "collectives.toml")
    sources = data["sources"]
    return tuple(
        CollectiveRecord.model_validate({**entry, "source": sources[entry["source"]]})
        for entry in data["records"]
    )


@functools.cache
def collective(fabric: str, operation: str, algorithm: str) -> ResolvedCollective:
    """Return the fitted parameters of a collective, from the nearest relative if the fabric was not measured.

    The fabric's own all-reduce comes before another fabric: its steps and its rate are those of the other ring
    operations, and of an exchange within what is known. docs/collectives.md shows how far relatives differ.

    Raises: UnknownNameError: the operation with this algorithm was measured on no relative of the fabric.
    """
    index = {(record.fabric, record.operation, record.algorithm): record for record in records()}
    operations = dict.fromkeys((operation, "all_reduce")) if operation in _RING_LIKE else (operation,)
    for candidate in dict.fromkeys((fabric, *_relatives(fabric), *_FALLBACK)):
        for other in operations:
            record = index.get((candidate, other, algorithm))
            if record is not None:
                exact = candidate == fabric and other == operation
                return ResolvedCollective(record, "" if exact else candidate)
    raise UnknownNameError(
        f"no fitted collective {operation} ({algorithm}) for fabric {fabric!r}",
        why="neither the fabric nor a relative was measured",
        fix="use one of: " + ", ".join(sorted({f"{o} ({a})" for _, o, a in index})),
    )


def _relatives(fabric: str) -> tuple[str, ...]:
    """Return the relatives by the longest known beginning of the id: nvlink4-bridge-h100nvl is an nvlink4."""
    if _NARROW_HOST.fullmatch(fabric):
        return (_NARROW_HOST_RELATIVE,)
    if _WIDE_HOST.fullmatch(fabric):
        return (_WIDE_HOST_RELATIVE,)
    family = re.match(r"[a-z]+\d*", fabric)
    stems = (fabric, family.group() if family else "", re.sub(r"\d.*", "", fabric), fabric.split("-")[0])
    found = (_RELATIVES[stem] for stem in stems if stem in _RELATIVES)
    exact = tuple(stem for stem in stems if stem != fabric)
    return (*exact, *next(found, ()))
