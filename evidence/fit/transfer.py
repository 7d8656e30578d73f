"""Measure how wrong a relative's record is on an architecture that nobody measured.

python -m advisor.evidence.fit.transfer --data ../shared/data/kernels

Each measured architecture is hidden in turn; the transfer rule of the catalog picks a relative; its prediction is
compared with the hidden measurements. The middle over architectures is stored for each operator.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog.efficiencies import efficiency
from advisor.evidence.fit import elementwise, grouped_matmul, kernel_data, matmul
from advisor.simulator.operators.elementwise import ElementwiseEfficiency
from advisor.simulator.operators.grouped_matmul import GroupedMatmulEfficiency
from advisor.simulator.operators.matmul import MatmulEfficiency

Predict = Callable[[pd.DataFrame, str, dict[str, float]], np.ndarray]
_ROWS = 6000


def errors(
    operator: str, kind: Any, table: pd.DataFrame, predict: Predict
) -> Iterator[tuple[str, str, str, float]]:
    """(architecture, format, relative, median error) of every hidden architecture and format."""
    architecture_of = {system: architecture for system, (_, architecture) in kernel_data.SYSTEMS.items()}
    for (architecture, dtype), hidden in table.groupby([table.system.map(architecture_of), "dtype"]):
        found = efficiency(architecture, operator, dtype, without=architecture)
        parameters = kind.from_record(found.record, dtype)
        values = {name: getattr(parameters, name) for name in found.record.parameters}
        sample = hidden.sample(min(len(hidden), _ROWS), random_state=2)
        ratio = predict(sample, dtype, values) / sample.seconds.to_numpy()
        yield architecture, dtype, found.transferred_from, float(np.median(np.abs(ratio - 1.0)))


def main() -> None:
    options = kernel_data.arguments(__doc__ or "").parse_args()
    devices = kernel_data.devices()
    products = matmul.load(options.data, devices)
    experts = grouped_matmul.load(options.data, devices)
    cases = {
        "matmul": (
            MatmulEfficiency,
            products[matmul.weights(products) == 1.0],
            lambda table, dtype, values: matmul.predict(table, devices, dtype, values),
        ),
        "grouped_matmul": (
            GroupedMatmulEfficiency,
            experts[grouped_matmul.weights(experts) == 1.0],
            lambda table, dtype, values: grouped_matmul.predict(
                grouped_matmul.prepare(table), devices, dtype, values
            ),
        ),
        "elementwise": (
            ElementwiseEfficiency,
            elementwise.load(options.data).query("dtype == 'bf16'"),
            lambda table, dtype, values: elementwise.predict(table, devices, dtype, values),
        ),
    }
    lines = [
        "# Written by evidence/fit/transfer.py; run it again rather than edit.",
        "",
        "[median_abs_error]",
    ]
    for operator, (kind, table, predict) in cases.items():
        found = list(errors(operator, kind, table, predict))
        for row in found:
            print(operator, *row)
        lines.append(f"{operator} = {np.median([error for *_, error in found]):.3f}")
    print("\n".join(lines))
    if not options.dry_run:
        (kernel_data.EFFICIENCY_DIR / "transfer.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
