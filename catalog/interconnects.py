"""Link technologies between accelerators of a node and between nodes."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from advisor.catalog.accelerators import GbPerS
from advisor.catalog.files import DATA_DIR, check_record, read_cited_tables
from advisor.catalog.listing import make_callable
from advisor.catalog.resolve import unknown
from advisor.catalog.schema import Interconnect, Source


class InterconnectFile(Interconnect):
    """Keys of one [[interconnect]] in data/interconnects.toml: rates in GB/s, other fields as in the record."""

    per: str
    bytes_per_s: GbPerS = Field(validation_alias="gb_per_s_per_direction")
    topology: Literal["switch", "mesh", "ring", "torus", "bridge", "host", "network"]
    measured_bus_bytes_per_s: GbPerS | None = Field(default=None, validation_alias="measured_bus_gb_per_s")
    sources: tuple[Source, ...] = Field(min_length=1)


def read_interconnects(path: Path) -> Iterator[Interconnect]:
    """Yield the links that a TOML file describes.

    Raises: InputFileError: the file or one of its entries is wrong.
    """
    for where, values in read_cited_tables(path, "interconnect"):
        yield Interconnect(**dict(check_record(InterconnectFile, values, where)))


@functools.cache
def all_interconnects() -> tuple[Interconnect, ...]:
    """Return every link of the catalog, in the file's order."""
    return tuple(read_interconnects(DATA_DIR / "interconnects.toml"))


@functools.cache
def _by_id() -> dict[str, Interconnect]:
    return {link.id: link for link in all_interconnects()}


def by_id(id_: str) -> Interconnect:
    """Return the link with exactly this id.

    Raises: UnknownNameError: no link has this id; `hint` lists near misses.
    """
    if id_ not in _by_id():
        raise unknown(id_, _by_id(), {}, "interconnect")
    return _by_id()[id_]


make_callable(__name__)
