"""Intervals of engines on local machines: quantiles of measured / predicted on what evidence/fit/local.py left out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.files import DATA_DIR

FloatArray = NDArray[np.float64]
LEAST_POINTS = 20
HEADER = """# (low, high) of measured / predicted that hold 80 % of points left out of the fit, by engine and metric.
# One accelerator at a time is left out, or one format and degree where an engine was measured on one accelerator.
# Written by evidence/fit/local.py.
"""


def interval_lines(kinds: Sequence[tuple[str, bool]], ratios: FloatArray) -> str:
    """TOML of 10th and 90th percentiles, from predicted / measured seconds of (engine, whether a step decodes)."""
    lines = [HEADER]
    for engine in sorted({name for name, _ in kinds}):
        steps, prompts = (
            ratios[[index for index, kind in enumerate(kinds) if kind == (engine, decode)]]
            for decode in (True, False)
        )
        if min(len(steps), len(prompts)) < LEAST_POINTS:
            continue
        lines.append(f'["{engine}"]')
        for metric, values in {"ttft": 1.0 / prompts, "tpot": 1.0 / steps, "throughput": steps}.items():
            low, high = np.quantile(values, (0.1, 0.9))
            lines.append(f"{metric} = [{low:.3f}, {high:.3f}]")
        lines.append("")
    return "\n".join(lines)


def write_intervals(kinds: Sequence[tuple[str, bool]], ratios: FloatArray) -> None:
    """Replace catalog/data/local_intervals.toml."""
    (DATA_DIR / "local_intervals.toml").write_text(interval_lines(kinds, ratios), encoding="utf-8")
