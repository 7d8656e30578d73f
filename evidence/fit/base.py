"""What all programs share: their options, published rows, robust losses, and how errors are told."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.evidence.table import read_cases

FloatArray = NDArray[np.float64]
ItemT = TypeVar("ItemT")

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Options:
    """The command line of every program."""

    data: Path
    """Folder of measured tables: kernels and truth."""
    truth: Path | None
    """A table of published runs instead of the folder's own."""
    write: bool
    only: str
    """Architectures, an engine or an engine/era, as the program divides its work; empty is all."""
    points: int
    """Measurements drawn per fit of kernels."""
    dump: Path | None
    processes: int = 1
    """That run at once."""

    def published(self, kind: str) -> Path:
        """The table of published runs of a kind: serving, training or collectives."""
        return self.truth or self.data / "truth" / f"{kind}.csv"

    def all_published(self, kind: str) -> list[Path]:
        """That table, and those of blind rounds that are over."""
        path = self.published(kind)
        return [path, *sorted(path.parent.glob(f"{path.stem}_blind*.csv"))]

    def kernels(self, name: str) -> Path:
        """A table of measured kernels."""
        return self.data / "kernels" / f"{name}.parquet"

    def wants(self, part: str) -> bool:
        """Whether a part of the work was asked for."""
        return not self.only or part in self.only.split(",")


def published_rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Number and cells of the rows of a table that can be read."""
    return ((row.number, row.cells) for row in read_cases(path, ()) if not row.problem)


def errors_in_words(ratios: ArrayLike) -> str:
    """Number, median, 90th percentile and bias of predicted over measured."""
    values = np.asarray(ratios, dtype=np.float64) - 1.0
    if not values.size:
        return "-"
    median, p90 = np.quantile(np.abs(values), (0.5, 0.9))
    return f"n {values.size:4} median {median:.3f} p90 {p90:.3f} bias {np.median(values):+.3f}"


def by_key(items: Iterable[tuple[str, ItemT]]) -> dict[str, list[ItemT]]:
    """Items by their key, in the order in which keys first appear."""
    found: dict[str, list[ItemT]] = {}
    for key, item in items:
        found.setdefault(key, []).append(item)
    return found


def cauchy(scaled: FloatArray) -> FloatArray:
    """Residuals whose squares are Cauchy's loss: what is far off counts little."""
    return np.asarray(np.copysign(np.sqrt(np.log1p(scaled**2)), scaled))
