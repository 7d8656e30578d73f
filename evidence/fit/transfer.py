"""Measure the error of a relative's record on an architecture that was not measured.

Each measured architecture is hidden in turn; the transfer rule of the catalog picks a relative; its prediction is
compared with the hidden measurements. The median over architectures is stored for each operator.
"""

from collections.abc import Iterator

import numpy as np

from advisor.catalog.efficiencies import efficiency
from advisor.evidence.fit import elementwise, grouped_matmul, matmul
from advisor.evidence.fit.base import Options
from advisor.evidence.fit.kernels import EFFICIENCY_DIR, OperatorFit, groups

_ROWS = 6000


def errors(fit: OperatorFit) -> Iterator[float]:
    """Yield the median error of every hidden architecture and format."""
    table = fit.table[fit.judged(fit.table)]
    if fit.operator == "elementwise":
        table = table[table["dtype"] == "bf16"]
    for (architecture, dtype), hidden in groups(table, ["architecture", "dtype"]):
        found = efficiency(architecture, fit.operator, dtype, without=architecture)
        sample = hidden.sample(min(len(hidden), _ROWS), random_state=2)
        ratio = fit.predict(dict(found.record.parameters), sample, dtype) / sample["time_s"].to_numpy()
        error = float(np.median(np.abs(ratio - 1.0)))
        print(fit.operator, architecture, dtype, found.transferred_from, error)
        yield error


def run(options: Options) -> None:
    """Measure transfers of matmuls, routed experts and elementwise operators."""
    lines = [
        "# Written by evidence/fit/transfer.py; run it again rather than edit.",
        "",
        "[median_abs_error]",
    ]
    for program in (matmul, grouped_matmul, elementwise):
        fit = program.operator(options)
        lines.append(f"{fit.operator} = {np.median(list(errors(fit))):.3f}")
    print("\n".join(lines))
    if options.write:
        (EFFICIENCY_DIR / "transfer.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
