"""Published quality of models: one score on one benchmark, with its source; most models have none here."""

import functools
from collections.abc import Mapping
from typing import Final, NamedTuple

from advisor.catalog.files import DATA_DIR, read_csv

QUALITY_FILE: Final = DATA_DIR / "model_quality.csv"


class Quality(NamedTuple):
    """Score of a model's instruction-tuned checkpoint on one benchmark."""

    benchmark: str
    score_percent: float
    source: str


@functools.cache
def read_quality() -> Mapping[str, Quality]:
    """Return the known scores by model id.

    Source: data/model_quality.csv, each row with its source.
    """
    columns = ("model", "benchmark", "score_percent", "source")
    return {
        cells["model"]: Quality(cells["benchmark"], float(cells["score_percent"]), cells["source"])
        for _, cells in read_csv(QUALITY_FILE, columns)
    }
