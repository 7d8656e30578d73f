"""Models whose weights are not published, by the names that people type: they run at their maker's API only."""

import functools
import re
from typing import Final

from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, check_record, read_toml
from advisor.catalog.schema.record import Record

_SPACES: Final = re.compile(r"[\s_]+")


class ClosedFamily(Record):
    """Models of one maker without published weights."""

    id: str
    """Organisation of the maker, as it stands before a slash in a model's id."""
    maker: str
    names: tuple[str, ...]
    """Patterns of the names that people type, in lower case."""
    open: str
    """Catalog id of an open model to ask about instead."""


@functools.cache
def closed_families() -> tuple[ClosedFamily, ...]:
    """Return the families of models without published weights.

    Raises: InputFileError: the bundled file is damaged.
    Source: data/closed_models.toml.
    """
    rows = read_toml(DATA_DIR / "closed_models.toml")
    return tuple(
        check_record(ClosedFamily, {"id": name, **values}, f"closed_models.toml: {name}")
        for name, values in rows.items()
    )


def closed_model_error(typed: str) -> UnknownNameError | None:
    """Return the error for a name that means a model without published weights; None for any other name."""
    organisation, _, name = _SPACES.sub("-", typed.strip().lower()).rpartition("/")
    for family in closed_families():
        if organisation in ("", family.id) and any(re.fullmatch(each, name) for each in family.names):
            return UnknownNameError(
                f"the weights of '{typed}' are not published",
                why=f"it runs at the API of {family.maker} and of its partners only: no hardware serves it for others",
                fix=f"--model {family.open}, an open model to compare it with",
            )
    return None
