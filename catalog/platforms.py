"""Families of hardware as a team meets them, and hardware that is described but not ranked."""

import datetime
import functools
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field

from advisor.catalog.files import named_records
from advisor.catalog.schema import Accelerator
from advisor.catalog.schema.record import Record

Support = Literal["native", "plugin", "experimental", "none"]
Weights = Literal["any", "adapters", "listed"]


class FrameworkSupport(Record):
    """Support level of a framework on a platform, with its source."""

    level: Support
    source: str


class Published(Record):
    """Whether results that others can check were published."""

    found: bool
    text: str
    date: datetime.date
    source: str


class PlatformHardware(Record):
    """Number of accelerators that would be bought together."""

    count: int = Field(ge=1)
    accelerator: str


class Platform(Record):
    """Family of accelerators with one software stack."""

    id: str
    name: str
    vendors: tuple[str, ...]
    architectures: tuple[str, ...] = ()
    """Architectures of the vendors' accelerators that belong to the family; empty means all."""
    access: str
    service: str = ""
    """Name of the API through which the family is sold, if no provider rents out the hardware."""
    trains: bool
    weights: Weights
    weights_source: str = "open engines load any checkpoint"
    own: tuple[PlatformHardware, ...] = ()
    """Hardware to buy if no provider rents it out."""
    frameworks: Mapping[str, FrameworkSupport]
    inference: Published
    training: Published

    def includes(self, accelerator: Accelerator) -> bool:
        """Whether an accelerator belongs to the family."""
        if accelerator.vendor not in self.vendors:
            return False
        return not self.architectures or accelerator.architecture in self.architectures


class Described(Record):
    """Hardware outside the ranking, with what it is and what it is for."""

    id: str
    name: str
    what: str
    use: str
    source: str
    accelerators: tuple[str, ...] = ()
    """Catalog records that belong to it."""
    memory_gb: float | None = Field(default=None, gt=0)
    bandwidth_gb_per_s: float | None = Field(default=None, gt=0)


_FILE: Final = "platforms.toml"


@functools.cache
def all_platforms() -> tuple[Platform, ...]:
    """Return every family that is ranked.

    Raises: InputFileError: the bundled file is damaged.
    Source: data/platforms.toml, each fact with its own source.
    """
    return tuple(named_records(Platform, _FILE, "platform").values())


@functools.cache
def all_described() -> tuple[Described, ...]:
    """Return every kind of hardware that is only described.

    Raises: InputFileError: the bundled file is damaged.
    Source: data/platforms.toml.
    """
    return tuple(named_records(Described, _FILE, "described").values())
