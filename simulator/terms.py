"""Lookup of terms: the only way to a fitted, measured, read or assumed number of the table of terms.

Of the rows that hold for a case the most specific counts: the one that fills most selectors (name of the scope, span of
releases, architecture, mixer, number format, operator). A tie of two rows is refused when the table is read.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeVar

from advisor.catalog.releases import belongs
from advisor.catalog.terms import Scope, Term, Terms, matches, terms_by_name

RecordT = TypeVar("RecordT")


@dataclass(frozen=True, slots=True)
class TermCase:
    """Case that a term is looked up for; an empty field matches only rows that do not select by it."""

    name: str = ""
    """Name of the scope: an engine, a framework, a device, a fabric."""
    version: str = ""
    date: str = ""
    """Date of the run if it names no version; without version and date the run used the newest release."""
    architecture: str = ""
    mixer: str = ""
    dtype: str = ""
    operator: str = ""


@lru_cache(maxsize=8192)
def find(scope: Scope, term: str, case: TermCase) -> Term | None:
    """Return the row of the shipped table that holds for a case, or None.

    Source: catalog/data/terms.csv.
    """
    return find_in(terms_by_name(), scope, term, case)


def find_in(terms: Terms, scope: Scope, term: str, case: TermCase) -> Term | None:
    """Return the row of `terms` that holds for a case, or None. Fits use it with tables that are not shipped yet.

    Source: own definition.
    """
    return next((row for row in terms.get((scope, term), ()) if _holds(row, case)), None)


def value(scope: Scope, term: str, case: TermCase) -> float:
    """Return the number of a term, in its own unit.

    Raises: KeyError: no row holds for the case.
    Source: catalog/data/terms.csv.
    """
    found = find(scope, term, case)
    if found is None:
        raise KeyError(f"no {term} of {scope} for {case}")
    return found.value


def fill_record(
    record_type: type[RecordT], scope: Scope, case: TermCase, *, prefix: str = "", terms: Terms | None = None
) -> RecordT:
    """Return a record whose fields are terms (`prefix` plus the field's name), each in its own unit; a field without a
    row keeps its default.

    Source: catalog/data/terms.csv.
    """
    table = terms_by_name() if terms is None else terms
    names = [field.name for field in fields(record_type)]  # type: ignore[arg-type]
    rows = {name: find_in(table, scope, prefix + name, case) for name in names}
    values: dict[str, Any] = {name: row.value for name, row in rows.items() if row is not None}
    return record_type(**values)


def _holds(row: Term, case: TermCase) -> bool:
    return (
        (not row.name or case.name in row.name)
        and (not row.mixer or case.mixer in row.mixer)
        and (not row.dtype or case.dtype in row.dtype)
        and (not row.operator or case.operator in row.operator)
        and (not row.architecture or any(matches(name, case.architecture) for name in row.architecture))
        and belongs(row.since, row.until, version=case.version, date=case.date)
    )
