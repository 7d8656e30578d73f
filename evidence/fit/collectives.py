"""Fit the α–β parameters of collectives and write catalog/data/efficiency/collectives.toml.

Every record is one (fabric, operation, algorithm); group size and link rate enter by formula, so that it serves
every group. Rows are first reduced to the median over library versions per (system, ranks, bytes).
"""

from pathlib import Path

import numpy as np
import pandas as pd

from advisor.evidence.fit.base import Options, errors_in_words
from advisor.evidence.fit.collective_forms import Fit, all_fits, fit_expert_exchange
from advisor.evidence.fit.collective_rows import (
    engine_rows,
    library_rows,
    nccl_rows,
    own_rows,
    published_sweeps,
)
from advisor.evidence.fit.kernels import EFFICIENCY_DIR

HEAD = Path(__file__).with_name("collectives_fixed.toml")


def run(options: Options) -> None:
    """Fit all collectives."""
    fits = fit_all(options)
    if options.write:
        write(fits, EFFICIENCY_DIR / "collectives.toml")
    for fit in fits:
        name = f"{fit.fabric:14} {fit.operation:15} {fit.algorithm:20}"
        print(name, errors_in_words(fit.errors + 1.0))


def fit_all(options: Options, left_out: str = "") -> list[Fit]:
    """Return fits of library, engines and expert exchange, without one source of published rows."""
    engines = engine_rows(options)
    rows = [nccl_rows(options), library_rows(engines), published_sweeps(options, left_out), own_rows()]
    return [*all_fits(pd.concat(rows), engines), *fit_expert_exchange(options)]


def write(fits: list[Fit], out: Path) -> None:
    """Write the fitted records after the hand-written ones, which rest on single published facts."""
    lines = [HEAD.read_text(encoding="utf-8").rstrip(), ""]
    for fit in fits:
        ids = ", ".join(f'"{name}"' for name in fit.fitted_on)
        parameters = ", ".join(f"{name} = {value:.4g}" for name, value in fit.parameters.items())
        error = np.abs(fit.errors)
        residual = f"num_points = {len(error)}, median_abs_error = {np.median(error):.3f}"
        residual += f", p90_abs_error = {np.quantile(error, 0.9):.3f}, bias = {np.median(fit.errors):.3f}"
        lines += [
            "[[records]]",
            f'fabric = "{fit.fabric}"',
            f'operation = "{fit.operation}"',
            f'algorithm = "{fit.algorithm}"',
            f"num_ranks = {fit.num_ranks}",
            'source = "kernels"',
            f"fitted_on = [{ids}]",
            f"parameters = {{ {parameters} }}",
            f"residual = {{ {residual} }}",
            "",
        ]
    out.write_text("\n".join(lines), encoding="utf-8")
