"""Common parts of all programs: options, published rows, robust losses, words for errors, and rows of terms."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.catalog.terms import FILE, Term, read_terms, write_terms
from advisor.evidence.table import read_cases

FloatArray = NDArray[np.float64]
ItemT = TypeVar("ItemT")

REPOSITORY = Path(__file__).resolve().parents[2]
_FOUND = ("value", "unit", "kind", "source", "fitted_on", "residual")
"""Fields that a fit determines; the other fields name the case."""


@dataclass(frozen=True)
class Options:
    """Command line of every program."""

    data: Path
    """Folder of measured tables: kernels and truth."""
    truth: Path | None
    """Table of published runs to use; None means the folder's own."""
    write: bool
    only: str
    """Part of the work to do, in the program's own division: architectures, an engine or an engine/era; empty means
    all."""
    points: int
    """Number of measurements drawn per fit of kernels."""
    dump: Path | None
    processes: int = 1
    """Number of processes that run at once."""

    def published_table(self, kind: str) -> Path:
        """Return the table of published runs of a kind: serving, training or collectives."""
        return self.truth or self.data / "truth" / f"{kind}.csv"

    def all_published(self, kind: str) -> list[Path]:
        """Return the table of published runs of a kind, and the tables of blind rounds that are over."""
        path = self.published_table(kind)
        return [path, *sorted(path.parent.glob(f"{path.stem}_blind*.csv"))]

    def kernels(self, name: str) -> Path:
        """Return a table of measured kernels."""
        return self.data / "kernels" / f"{name}.parquet"

    def wants(self, part: str) -> bool:
        """Whether a part of the work was requested."""
        return not self.only or part in self.only.split(",")


def published_rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield number and cells of the readable rows of a table."""
    return ((row.number, row.cells) for row in read_cases(path, ()) if not row.problem)


def errors_in_words(ratios: ArrayLike) -> str:
    """Return number, median, 90th percentile and bias of predicted over measured, in words."""
    values = np.asarray(ratios, dtype=np.float64) - 1.0
    if not values.size:
        return "-"
    median, p90 = np.quantile(np.abs(values), (0.5, 0.9))
    return f"n {values.size:4} median {median:.3f} p90 {p90:.3f} bias {np.median(values):+.3f}"


def by_key(items: Iterable[tuple[str, ItemT]]) -> dict[str, list[ItemT]]:
    """Return items by their key, in the order in which keys first appear."""
    found: dict[str, list[ItemT]] = {}
    for key, item in items:
        found.setdefault(key, []).append(item)
    return found


def cauchy(scaled: FloatArray) -> FloatArray:
    """Return residuals whose squares are Cauchy's loss, which limits the influence of outliers."""
    return np.asarray(np.copysign(np.sqrt(np.log1p(scaled**2)), scaled))


def merge_terms(terms: Iterable[Term], found: Iterable[Term]) -> list[Term]:
    """Return the rows, with those of a fit in place of the ones for the same case; new cases follow at the end. A row
    keeps its source, which a person wrote about the case."""
    new = {_case(term): term for term in found}
    kept = [
        new.pop(_case(term)).model_copy(update={"source": term.source}) if _case(term) in new else term
        for term in terms
    ]
    return [*kept, *new.values()]


def write_found(found: Iterable[Term]) -> None:
    """Replace the shipped rows of the same cases."""
    write_terms(FILE, merge_terms(read_terms(FILE), found))


def _case(term: Term) -> tuple[object, ...]:
    return tuple(getattr(term, name) for name in Term.model_fields if name not in _FOUND)
