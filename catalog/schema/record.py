"""What every catalog record shares: it is frozen, rejects unknown fields, and says where it comes from."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

Provenance = Literal["datasheet", "measured", "derived", "estimate"]


class Record(BaseModel):
    """A frozen catalog record in SI units; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Source(Record):
    """Where a number was read, and when."""

    kind: Provenance
    title: str
    where: str = ""
    """Repository path, table or page inside the source."""
    accessed: str = ""
    """ISO date of reading."""
    note: str = ""
