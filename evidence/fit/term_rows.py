"""What a fit writes into the table of terms: rows that replace those of the same case."""

from collections.abc import Iterable

from advisor.catalog.terms import FILE, Term, read_terms, write_terms

_FOUND = ("value", "unit", "kind", "source", "fitted_on", "residual")
"""What a fit finds; the other fields say for which case."""


def merged(terms: Iterable[Term], found: Iterable[Term]) -> list[Term]:
    """The rows, with those of a fit in place of the ones for the same case; new cases follow at the end. A row keeps
    its source: what a person wrote about the case."""
    new = {_case(term): term for term in found}
    kept = [
        new.pop(_case(term)).model_copy(update={"source": term.source}) if _case(term) in new else term
        for term in terms
    ]
    return [*kept, *new.values()]


def write_found(found: Iterable[Term]) -> None:
    """Replace the shipped rows of the same cases."""
    write_terms(FILE, merged(read_terms(FILE), found))


def _case(term: Term) -> tuple[object, ...]:
    return tuple(getattr(term, name) for name in Term.model_fields if name not in _FOUND)
