"""Errors of the collective model on published measurements, each source predicted by fits without it.

    python -m advisor.evidence.fit.judge_collectives --data ../shared/data

Prints one line per source and class; rows above 64 KiB only. Constants set by hand from single published facts
(evidence/fit/collectives_fixed.toml, network steps of EFA) are not refitted.
"""

import argparse
import csv
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from advisor.catalog import collectives as catalog
from advisor.evidence.collectives.prediction import predict_rows
from advisor.evidence.fit.collective_forms import all_fits, fit_expert_exchange
from advisor.evidence.fit.collective_rows import engine_rows, handed_over, nccl_rows, own_rows, published_rows
from advisor.evidence.fit.collectives import write
from advisor.simulator.collectives import alpha_beta

SMALLEST_BYTES = 65536
PEAK_BYTES = 8 * 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("ADVISOR_SHARED_DATA", "../shared/data"))
    )
    parser.add_argument("--in-sample", action="store_true", help="judge the shipped fits instead")
    arguments = parser.parse_args()
    with (arguments.data / "truth" / "collectives.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if "NOT A SINGLE" not in row["notes"]]
    judged = pd.concat(judgements(arguments.data, rows, arguments.in_sample))
    report(judged)


def judgements(data: Path, rows: list[dict[str, str]], in_sample: bool) -> Iterator[pd.DataFrame]:
    if in_sample:
        yield judge(rows)
        return
    engines, exchange = engine_rows(data), list(fit_expert_exchange(data))
    for source in sorted({row["source"] for row in rows}):
        library = pd.concat([nccl_rows(data), handed_over(engines), published_rows(data, source), own_rows()])
        with (
            tempfile.TemporaryDirectory() as folder,
            fitted(Path(folder), [*all_fits(library, engines), *exchange]),
        ):
            yield judge([row for row in rows if row["source"] == source])


@contextmanager
def fitted(folder: Path, fits: list) -> Iterator[None]:
    """The catalog as if it held these fits."""
    write(fits, folder / "collectives.toml")
    forget()
    with patch.object(catalog, "_path", lambda: folder / "collectives.toml"):
        yield
    forget()


def forget() -> None:
    caches = (
        catalog.records,
        catalog._index,
        catalog.collective,
        alpha_beta.curve_of,
        alpha_beta.streaming_curve,
    )
    for cached in caches:
        cached.cache_clear()


def judge(rows: list[dict[str, str]]) -> pd.DataFrame:
    found = []
    for row, prediction in zip(rows, predict_rows(rows), strict=True):
        size = float(row["msg_bytes"] or PEAK_BYTES)
        timed = bool(row["time_us"] and row["msg_bytes"])
        metric = "time_us" if timed else "busbw_gbs"
        if prediction.status != "ok" or size <= SMALLEST_BYTES or not row[metric]:
            continue
        value, quantity = float(row[metric]), prediction.metrics[metric]
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


def classify(row: dict[str, str]) -> str:
    if row["collective"].startswith("ep_"):
        return "expert exchange"
    if (row["nodes"] or "2") != "1":
        return "multi-node"
    return "one node, PCIe" if "PCIe" in row["fabric"] else "one node"


def report(judged: pd.DataFrame) -> None:
    for keys in (["class"], ["source", "group"]):
        for name, part in judged.groupby(keys):
            print(f"{' | '.join(name):70} {line(part)}")
    print(f"{'all':70} {line(judged)}")
    by_source = judged.groupby("source").error.agg(lambda e: np.median(np.abs(e)))
    print(f"macro median over sources {by_source.median():.3f}")


def line(part: pd.DataFrame) -> str:
    error = np.abs(part.error)
    return (
        f"n={len(part):4} median {np.median(error):.3f} p90 {np.quantile(error, 0.9):.3f}"
        f" bias {np.median(part.error):+.3f} coverage {part.held.mean():.2f}"
    )


if __name__ == "__main__":
    main()
