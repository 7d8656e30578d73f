"""The accelerators of the catalog, and what people call them."""

import functools
from typing import NamedTuple

from advisor.catalog.accelerator_file import read_accelerator
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR
from advisor.catalog.resolve import near_misses, resolve
from advisor.catalog.schema import Accelerator


class ChosenAccelerator(NamedTuple):
    """A record, and a sentence for the user where the name typed was not its id."""

    record: Accelerator
    note: str


@functools.cache
def all_accelerators() -> tuple[Accelerator, ...]:
    """Every accelerator of the catalog in the order of ids, ranked or not.

    Raises: InputFileError: a bundled file is damaged.
    """
    return tuple(read_accelerator(path) for path in sorted((DATA_DIR / "accelerators").glob("*.toml")))


@functools.cache
def _by_id() -> dict[str, Accelerator]:
    return {accelerator.id: accelerator for accelerator in all_accelerators()}


@functools.cache
def aliases() -> dict[str, str]:
    """Id by alias. `h100` is the SXM board, `a100` the 80 GB SXM board: the most rented form of each."""
    return {alias: record.id for record in all_accelerators() for alias in record.aliases}


def by_id(id_: str) -> Accelerator:
    """The accelerator with exactly this id.

    Raises: UnknownNameError: there is none; `hint` lists near misses.
    """
    record = _by_id().get(id_)
    if record is None:
        near = ", ".join(near_misses(id_, _by_id(), aliases()))
        raise UnknownNameError(
            f"unknown accelerator id '{id_}'",
            why="the catalog has no record with this id",
            fix="type an id that the catalog lists",
            hint=f"did you mean: {near}" if near else "",
        )
    return record


def get(name: str) -> ChosenAccelerator:
    """The accelerator that a person means by `name`, and a note that says which was chosen.

    Raises: UnknownNameError: nothing, or more than one thing, is called so; `hint` lists near misses.
    """
    found = resolve(name, _by_id(), aliases(), "accelerator")
    return ChosenAccelerator(_by_id()[found.id], found.note)
