"""Fit the α–β parameters of collectives and write catalog/data/efficiency/collectives.toml.

    python -m advisor.evidence.fit.collectives --data ../shared/data

Every record is one (fabric, operation, algorithm); group size and link rate enter by formula, so that it serves
every group. Rows are first reduced to the median over library versions per (system, ranks, bytes).
"""

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.evidence.fit.collective_forms import Fit, all_fits, fit_expert_exchange
from advisor.evidence.fit.collective_rows import engine_rows, handed_over, nccl_rows, own_rows, published_rows

HEAD = Path(__file__).with_name("collectives_fixed.toml")
OUT = Path(__file__).resolve().parents[2] / "catalog" / "data" / "efficiency" / "collectives.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shared = os.environ.get("ADVISOR_SHARED_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(shared))
    parser.add_argument("--leave-out", default="", help="source of published rows to leave out")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    fits = fit_all(arguments.data, arguments.leave_out)
    write(fits, arguments.out)
    for fit in fits:
        error = np.abs(fit.errors)
        name = f"{fit.fabric:14} {fit.operation:15} {fit.algorithm:20}"
        print(f"{name} n={len(error):5} median {np.median(error):.3f} p90 {np.quantile(error, 0.9):.3f}")


def fit_all(data: Path, left_out: str = "") -> list[Fit]:
    engines = engine_rows(data)
    library = pd.concat([nccl_rows(data), handed_over(engines), published_rows(data, left_out), own_rows()])
    return [*all_fits(library, engines), *fit_expert_exchange(data)]


def write(fits: list[Fit], out: Path) -> None:
    """The fitted records after the hand-written ones, which rest on single published facts."""
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


if __name__ == "__main__":
    main()
