"""Who sells accelerators, of which class they are, and whether they sell them one by one."""

from functools import cache
from typing import Literal

from pydantic import ConfigDict, Field

from advisor.catalog.files import DATA_DIR, named_records, read_toml
from advisor.catalog.schema.record import Record


class Provider(Record):
    """One seller of accelerator time."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    id: str
    name: str
    kind: Literal["hyperscaler", "neocloud", "marketplace"] = Field(alias="class")
    per_accelerator: tuple[str, ...] = ()
    """Accelerators ("*": all) whose one-accelerator price also holds for several of one node."""
    node_of: int = Field(default=1, ge=1)
    """Accelerators of the least that can be rented, where prices are quoted per accelerator."""
    largest_cluster: int | None = Field(default=None, ge=1)
    """Most accelerators that it joins with a network, where it says so."""

    def sells_singly(self, accelerator: str) -> bool:
        return "*" in self.per_accelerator or accelerator in self.per_accelerator


@cache
def all_providers() -> dict[str, Provider]:
    """Every known provider by id.

    Raises: InputFileError: the bundled file is damaged.
    """
    path = DATA_DIR / "providers.toml"
    return named_records(Provider, read_toml(path), path.name)
