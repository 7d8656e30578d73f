"""Accelerators in tables of machines, whose rows state a name and a number."""

import re
from collections import defaultdict
from typing import Final

from advisor.catalog.formats.accelerator_names import resolve_name
from advisor.catalog.formats.benchmark_result import whole_of
from advisor.catalog.formats.meanings import meaning_of
from advisor.catalog.formats.records import read_records

_COUNTED: Final = re.compile(
    r"\b(?:gpus?|accelerators?)\b.*\b(?:count|qty|quantity|number)\b|gpus?[\W_]?(?:count|num)|(?:num|count|n)\w*?[\W_]?(?:of[\W_])?gpus?\b|\bgpus\b",
    re.IGNORECASE,
)
"""Title of a column with the number of accelerators."""
_COUNT: Final = re.compile(r"count|qty|quantity|number|#", re.IGNORECASE)


def table_accelerators(text: str) -> dict[str, int]:
    """Return the accelerators by id of a table of machines, whose rows state their name and their number."""
    found: dict[str, int] = defaultdict(int)
    for record in read_records(text) if _COUNTED.search(text) else ():
        fields = {
            meaning.quantity: name for name in record if (meaning := meaning_of(name.replace(".", " ")))
        }
        counted = fields.get("num_gpus") or next(filter(_COUNT.fullmatch, record), None)
        if "gpu" not in fields or counted is None:
            continue
        named = str(record[fields["gpu"]])
        number = whole_of(record[counted])
        if number and (id_ := resolve_name(named, named, "")) is not None:
            found[id_] += number
    return dict(found)
