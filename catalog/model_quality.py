"""Published quality of models: one score on one benchmark, with its source; most models have none here."""

import functools
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from advisor.catalog.files import DATA_DIR, read_csv

QUALITY_FILE: Final = DATA_DIR / "model_quality.csv"


class Quality(NamedTuple):
    """Score of a model's instruction-tuned checkpoint on one benchmark."""

    benchmark: str
    score_percent: float
    source: str
    setting: str
    """How the model answers: `direct`, or `reasoning` before the answer, which scores higher and takes more tokens."""

    @property
    def words(self) -> str:
        """Score with its setting: `85.3 % (reasoning)`."""
        return f"{self.score_percent:g} % ({self.setting})"


@functools.cache
def read_quality() -> Mapping[str, Quality]:
    """Return the known scores by model id.

    Source: data/model_quality.csv, each row with its source.
    """
    columns = ("model", "benchmark", "setting", "score_percent", "source")
    return {
        cells["model"]: Quality(
            cells["benchmark"], float(cells["score_percent"]), cells["source"], cells["setting"]
        )
        for _, cells in read_csv(QUALITY_FILE, columns)
    }


def sources_of(scores: Iterable[Quality | None]) -> list[str]:
    """Return one line for each source of some scores; a line that says so where there is none."""
    lines = dict.fromkeys(f"{score.benchmark}: {score.source}" for score in scores if score is not None)
    return list(lines) or ["no model of this list has a sourced score in the catalog"]
