"""Accelerators of rented machines by the types of instances that Terraform, eksctl and cloud listings name."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

_INSTANCE: Final = re.compile(
    r"^(.*(?:instance|machine)[-_ ]?type[\"']?\s*[:=]\s*\[?\s*[\"']?)([\w./:-]+)",
    re.IGNORECASE | re.MULTILINE,
)
"""Type of a rented machine, and what stands before it."""
_REPLICAS: Final = re.compile(
    r"^\s+(?:count|(?:node|instance)_?count|num_?nodes|replicas|desired_?(?:size|count|capacity))\s*[:=]\s*(\d+)\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Number of machines of one type in Terraform and eksctl."""
_BLOCK: Final = re.compile(r"^(?=\S)|^(?=\s*- )", re.MULTILINE)
"""Start of a block of indented lines, or of an item of a list."""


def rented_accelerators(text: str, known: Mapping[str, tuple[int, str]]) -> dict[str, int]:
    """Return the accelerators by id of the rented machines whose types a text names, with how many of each it states.
    A type that several labels of one machine repeat counts once."""
    kinds: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for block in _BLOCK.split(text):
        replicas = _REPLICAS.search(block)
        for before, typed in _INSTANCE.findall(block):
            if machine := known.get(typed.rpartition("/")[2].lower()):
                kinds[before.strip()][machine[1]] += machine[0] * (int(replicas[1]) if replicas else 1)
    found: dict[str, int] = {}
    for counts in kinds.values():
        found |= {id_: max(count, found.get(id_, 0)) for id_, count in counts.items()}
    return found
