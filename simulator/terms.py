"""The only way to a fitted, measured, read or assumed number: the row of the table that fits a case best.

Of the rows that hold for a case the most specific counts: the one that fills most selectors (name of the scope, span of
releases, architecture, mixer, number format, operator). Two that tie are refused when the table is read.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeVar

from advisor.catalog.releases import belongs
from advisor.catalog.terms import Scope, Term, Terms, matches, terms_by_name

RecordT = TypeVar("RecordT")


@dataclass(frozen=True, slots=True)
class Case:
    """What a term is asked for; what is left empty is met only by rows that do not select by it."""

    name: str = ""
    """Of the scope: an engine, a framework, a device, a fabric."""
    version: str = ""
    date: str = ""
    """Of the run, where it names no version; without either it used the newest release."""
    architecture: str = ""
    mixer: str = ""
    dtype: str = ""
    operator: str = ""


@lru_cache(maxsize=8192)
def find(scope: Scope, term: str, case: Case) -> Term | None:
    """The row of the shipped table that holds for a case; None where there is none.

    Source: catalog/data/terms.csv.
    """
    return find_in(terms_by_name(), scope, term, case)


def find_in(terms: Terms, scope: Scope, term: str, case: Case) -> Term | None:
    """The same in any table, as a program that fits terms has it.

    Source: own definition.
    """
    return next((row for row in terms.get((scope, term), ()) if _holds(row, case)), None)


def value(scope: Scope, term: str, case: Case) -> float:
    """The number of a term, in its own unit.

    Raises: KeyError: no row holds for the case.
    Source: catalog/data/terms.csv.
    """
    found = find(scope, term, case)
    if found is None:
        raise KeyError(f"no {term} of {scope} for {case}")
    return found.value


def filled(
    record_type: type[RecordT], scope: Scope, case: Case, *, prefix: str = "", terms: Terms | None = None
) -> RecordT:
    """A record whose fields are terms, each in its own unit: prefix and name of the field; its default without a row.

    Source: catalog/data/terms.csv.
    """
    table = terms_by_name() if terms is None else terms
    names = [field.name for field in fields(record_type)]  # type: ignore[arg-type]
    rows = {name: find_in(table, scope, prefix + name, case) for name in names}
    values: dict[str, Any] = {name: row.value for name, row in rows.items() if row is not None}
    return record_type(**values)


def _holds(row: Term, case: Case) -> bool:
    return (
        (not row.name or case.name in row.name)
        and (not row.mixer or case.mixer in row.mixer)
        and (not row.dtype or case.dtype in row.dtype)
        and (not row.operator or case.operator in row.operator)
        and (not row.architecture or any(matches(name, case.architecture) for name in row.architecture))
        and belongs(row.since, row.until, version=case.version, date=case.date)
    )
