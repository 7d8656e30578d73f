"""Start-up logs of published servers against the memory plan of the same deployment.

Facts retyped from public threads and pages. Where a log does not say the release, it is that of the thread's date; 27B
and 35B of Qwen3.8 have the shape of Qwen3.6, and an H20 of 141 GB the memory of an H200.
"""

import csv
import statistics
from functools import cache
from pathlib import Path

from advisor.catalog.formats.server_log import ServerLog
from advisor.catalog.units import GIB
from advisor.evidence.server_memory import MemoryComparison, compare_memory

LOGS = Path(__file__).with_name("server_logs.csv")


def _number(text: str) -> float | None:
    return float(text) if text else None


def _whole(text: str) -> int | None:
    return int(text) if text else None


def _bytes(text: str) -> float | None:
    return float(text) * GIB if text else None


def _comparison(row: dict[str, str]) -> MemoryComparison:
    log = ServerLog(
        engine=row["engine"],
        version=row["version"],
        model=row["model"],
        weight_bytes=_bytes(row["weights_gib"]),
        kv_bytes=_bytes(row["kv_gib"]),
        kv_tokens=_whole(row["kv_tokens"]),
        max_model_len=_whole(row["max_model_len"]),
        tensor_parallel=_whole(row["tp"]),
        memory_fraction=_number(row["memory_fraction"]),
        kv_dtype=row["kv_dtype"],
        max_num_seqs=_whole(row["max_num_seqs"]),
        max_num_batched_tokens=_whole(row["max_num_batched_tokens"]),
        prefix_caching=bool(row["prefix_caching"]),
    )
    stated = {"gpu": row["gpu"]}
    if row["weight_dtype"]:
        stated["weight_dtype"] = row["weight_dtype"]
    return compare_memory(log, stated)


@cache
def _ratios(part: str) -> dict[str, float]:
    """Planned over logged, by source and settings, for one part of the memory."""
    with LOGS.open() as file:
        rows = list(csv.DictReader(file))
    found = {}
    for row in rows:
        for figure in _comparison(row).figures:
            if figure.name.startswith(part):
                found[f"{row['source']} {row['engine']} {row['model']} {row['max_model_len']}"] = figure.ratio
    return found


def test_tokens_of_published_servers_are_within_eight_percent_in_the_median() -> None:
    errors = [abs(ratio - 1.0) for ratio in _ratios("KV tokens").values()]
    assert len(errors) >= 20
    assert statistics.median(errors) < 0.04
    assert sum(error < 0.08 for error in errors) >= 0.7 * len(errors)


def test_weights_of_published_servers_are_within_three_percent() -> None:
    ratios = _ratios("weights")
    assert len(ratios) >= 10
    assert all(abs(ratio - 1.0) < 0.06 for ratio in ratios.values()), ratios
    assert statistics.median(abs(ratio - 1.0) for ratio in ratios.values()) < 0.02


def test_bytes_of_a_token_are_within_three_percent() -> None:
    """Bytes of a token are arithmetic; releases before 0.21 print another count, which is planned as they print it."""
    ratios = _ratios("cache of one token")
    assert len(ratios) >= 15
    assert all(abs(ratio - 1.0) < 0.03 for ratio in ratios.values()), ratios
