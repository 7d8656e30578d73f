"""Names that a filter or an option may have, and what is said where nothing is left."""

from collections.abc import Iterable

from advisor.catalog.dtypes import dtype_of
from advisor.catalog.errors import InfeasibleError, UnknownNameError
from advisor.catalog.resolve import near_misses


def known_value(name: str | None, known: Iterable[str], kind: str) -> None:
    """Refuse a filter value that no record has: an empty list would hide the typing mistake.

    Raises: UnknownNameError: it is not among the known ones.
    """
    values = sorted(set(known))
    if name is None or name in values:
        return
    near = near_misses(name, values, {})
    raise UnknownNameError(
        f"unknown {kind} '{name}'",
        why=f"no record of the catalog has it; there are {', '.join(values)}",
        fix=f"--{kind} {near[0] if near else values[0]}" if values else "",
    )


def known_dtype(name: str | None, option: str = "precision") -> tuple[str | None, str]:
    """The number format that an option names, and a note where it goes by another name; None where none is named.

    Raises: UnknownNameError: there is no such format.
    """
    if name is None:
        return None, ""
    found = dtype_of(name, option)
    return found.id, found.note


def nothing_left(kind: str) -> InfeasibleError:
    """The failure of filters that exclude each other."""
    return InfeasibleError(f"no {kind} passes all filters together", fix="loosen one of them")
