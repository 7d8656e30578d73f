"""Base of every catalog record: frozen, strict about unknown fields, and with a source."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

Provenance = Literal["datasheet", "measured", "derived", "estimate"]


class Record(BaseModel):
    """Frozen catalog record in SI units; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Source(Record):
    """Place where a number was read, and the day."""

    kind: Provenance
    title: str
    where: str = ""
    """Repository path, table or page inside the source."""
    accessed: str = ""
    """ISO date of reading."""
    note: str = ""
