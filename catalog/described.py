"""Chips that are described and not simulated: facts with source, the reason, and the nearest that is simulated."""

import functools

from pydantic import Field

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, check_record, read_cited_tables
from advisor.catalog.resolve import match
from advisor.catalog.schema.record import Record, Source


class DescribedChip(Record):
    """Chip of which the catalog knows facts, but no kernel, engine or price that a prediction could rest on."""

    id: str
    name: str
    vendor: str
    aliases: tuple[str, ...] = ()
    facts: tuple[str, ...] = Field(min_length=1)
    why: str
    """Reason why it is not simulated."""
    nearest: str
    """Id of the nearest accelerator that the catalog has."""
    sources: tuple[Source, ...] = Field(min_length=1)


@functools.cache
def described_chips() -> dict[str, DescribedChip]:
    """Return every described chip by id.

    Raises: InputFileError: the bundled file is damaged.
    """
    rows = read_cited_tables(DATA_DIR / "described.toml", "chip")
    chips = (check_record(DescribedChip, values, where) for where, values in rows)
    return {chip.id: chip for chip in chips}


def find_described(name: str) -> DescribedChip | None:
    """Return the described chip that a name or an alias stands for; None if there is none."""
    chips = described_chips()
    aliases = {alias: chip.id for chip in chips.values() for alias in chip.aliases}
    try:
        found = match(name, chips, aliases, "chip")
    except UnknownNameError:
        return None
    return None if found is None else chips[found.id]
