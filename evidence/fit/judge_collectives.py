"""Errors of the collective model on published measurements, each source predicted by fits without it.

Prints one line per source and class; rows above 64 KiB only. Constants set by hand from single published facts
(evidence/fit/collectives_fixed.toml, network steps of EFA) are not refitted.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from advisor.catalog import collectives as catalog
from advisor.evidence.collectives.case import PEAK_BYTES
from advisor.evidence.collectives.prediction import predict_rows
from advisor.evidence.fit.base import Options, by_key, errors_in_words, published_rows
from advisor.evidence.fit.collective_forms import Fit
from advisor.evidence.fit.collectives import fit_all, write
from advisor.evidence.fit.kernels import groups
from advisor.simulator.collectives import alpha_beta

SMALLEST_BYTES = 65536


def run(options: Options) -> None:
    """Leave every source out in turn."""
    rows = [cells for _, cells in published_rows(options.published_table("collectives"))]
    by_source = by_key((row["source"], row) for row in rows if "NOT A SINGLE" not in row["notes"])
    found = []
    for source in sorted(by_source):
        with use_fits(fit_all(options, source)):
            found.append(judge(by_source[source]))
    report(pd.concat(found))


@contextmanager
def use_fits(fits: list[Fit]) -> Iterator[None]:
    """Make the catalog return these fits within the block."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "efficiency" / "collectives.toml"
        path.parent.mkdir()
        write(fits, path)
        forget()
        with patch.object(catalog, "DATA_DIR", Path(folder)):
            yield
        forget()


def forget() -> None:
    caches = (catalog.records, catalog.collective, alpha_beta.curve_of, alpha_beta.streaming_curve)
    for cached in caches:
        cached.cache_clear()


def judge(rows: Sequence[Mapping[str, str]]) -> pd.DataFrame:
    found = []
    for row, prediction in zip(rows, predict_rows(rows), strict=True):
        size = float(row["msg_bytes"] or PEAK_BYTES)
        timed = bool(row["time_us"] and row["msg_bytes"])
        metric = "time_us" if timed else "busbw_gbs"
        if prediction.status != "ok" or size <= SMALLEST_BYTES or not row[metric]:
            continue
        value = float(row[metric])
        quantity = prediction.metrics[metric]
        ratio = quantity.value / value if timed else value / quantity.value
        found.append(
            {
                "source": row["source"],
                "group": f"{row['gpu']} {row['n_gpus']}/{row['nodes']}",
                "class": classify(row),
                "error": ratio - 1.0,
                "held": quantity.low <= value <= quantity.high,
            }
        )
    return pd.DataFrame(found)


def classify(row: Mapping[str, str]) -> str:
    if row["collective"].startswith("ep_"):
        return "expert exchange"
    if (row["nodes"] or "2") != "1":
        return "multi-node"
    return "one node, PCIe" if "PCIe" in row["fabric"] else "one node"


def report(judged: pd.DataFrame) -> None:
    """Print lines by class, by source and for all rows."""
    for keys in (["class"], ["source", "group"]):
        for name, part in groups(judged, keys):
            print(f"{' | '.join(name):70} {line(part)}")
    print(f"{'all':70} {line(judged)}")
    by_source = [np.median(np.abs(part["error"])) for _, part in groups(judged, ["source"])]
    print(f"macro median over sources {np.median(by_source):.3f}")


def line(part: pd.DataFrame) -> str:
    """Return errors of some rows, and the fraction inside its interval."""
    return f"{errors_in_words(part['error'] + 1.0)} coverage {part['held'].mean():.2f}"
