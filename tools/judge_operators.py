"""Hold measured operators and steps against the simulator and write the errors as tables.

    python tools/judge_operators.py catalog/data/measured/h200-sxm-operators-2026-11-20.json --write docs/probes.md

Predictions are made from the data sheet and, in a second column, from the calibration of a machine of that kind.
Kernels alone: an engine's host time and scale play no part, except where launches are judged. `--write` replaces
what stands between the page's marks; without it the tables are printed.
"""

import argparse
import dataclasses
import datetime
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from marked_text import replace_marked

from advisor.catalog.units import GIB, KIB, MIB
from advisor.probes.calibrate import calibration_of
from advisor.probes.document import read_probe
from advisor.simulator.calibrated_device import calibrated_deployment
from advisor.simulator.collectives import all_reduce_s, topology_of
from advisor.simulator.deployment import Deployment, named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import default_costs, engine_costs
from advisor.simulator.graph.model import num_operators
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention import attention_decode_s, attention_prefill_s
from advisor.simulator.operators.attention_kernels import DecodeEfficiency, PrefillEfficiency
from advisor.simulator.operators.grouped_matmul import GroupedMatmulEfficiency, moe_s
from advisor.simulator.surface import decode_breakdown_s, prefill_breakdown_s

COMMON = default_costs()
Point = dict[str, Any]

EXPERTS = {
    "qwen3-30b-a3b": (2048, 768, 128, 8),
    "mixtral-8x7b": (4096, 14336, 8, 2),
    "deepseek-v3": (7168, 2048, 256, 8),
}
BARE = dataclasses.replace(
    COMMON, step_s=0.0, sequence_s=0.0, mixed_step_s=0.0, eager_launch_s=0.0, kernel_scale=1.0
)
"""An engine that adds nothing to its kernels."""
NAME = "operators"


@dataclass(frozen=True)
class Judged:
    """One measured time beside its two predictions [s]."""

    point: Point
    datasheet_s: float
    calibrated_s: float

    @property
    def measured_s(self) -> float:
        return float(self.point["median_s"])

    @property
    def ratio(self) -> float:
        """Predicted over measured, from the data sheet."""
        return self.datasheet_s / self.measured_s

    @property
    def calibrated_ratio(self) -> float:
        return self.calibrated_s / self.measured_s


@dataclass(frozen=True)
class Predictor:
    """The simulator for one accelerator."""

    deployment: Deployment
    library: OperatorLibrary

    def seconds(self, point: Point) -> float | None:
        """Return the simulator's time of a point [s]; None for an operator that it does not time by itself."""
        method: Callable[[Point], float] | None = getattr(self, f"_{point['operator']}", None)
        return None if method is None else method(point)

    def _matmul(self, p: Point) -> float:
        return float(self.library.matmul_s(np.array([float(p["rows"])]), p["columns"], p["depth"], "bf16")[0])

    def _attention_decode(self, p: Point) -> float:
        fitted = self.library.parameters(DecodeEfficiency, "attention_decode", "bf16")
        shape = (p["batch"], p["context"], p["heads"], p["kv_heads"], 128)
        return float(attention_decode_s(*shape, self.library.device, fitted))

    def _attention_prefill(self, p: Point) -> float:
        fitted = self.library.parameters(PrefillEfficiency, "attention_prefill", "bf16")
        return float(attention_prefill_s(p["tokens"], 0, 1, 32, 8, 128, self.library.device, fitted))

    def _experts(self, p: Point) -> float:
        fitted = self.library.parameters(GroupedMatmulEfficiency, "grouped_matmul", "bf16")
        shape = EXPERTS[p["model"]]
        return float(moe_s(p["tokens"], *shape, self.library.device, fitted, skew=p["skew"])[0])

    def _all_reduce(self, p: Point) -> float:
        group = replace(topology_of(self.deployment.accelerator, p["ranks"]), in_network_reduction=False)
        return float(all_reduce_s(p["bytes"], group, algorithm="nccl"))

    def _decode_step(self, p: Point) -> float:
        parts = partial(decode_breakdown_s, self.deployment, self.library)
        return self._step(sum(parts(BARE, p["batch"], p["context"]).values()), p)

    def _prefill_step(self, p: Point) -> float:
        parts = partial(prefill_breakdown_s, self.deployment, self.library)
        return self._step(sum(parts(BARE, p["tokens"]).values()), p)

    def _step(self, kernels_s: float, p: Point) -> float:
        """Launched kernel by kernel, a step lasts at least as long as the launches."""
        if p["instrument"] != "eager":
            return kernels_s
        costs = engine_costs(self.deployment.engine)
        return max(kernels_s, costs.eager_launch_s * num_operators(self.deployment.model))


def predictor(deployment: Deployment) -> Predictor:
    return Predictor(deployment, OperatorLibrary(device_of(deployment.accelerator), deployment.engine.id))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("measured", type=Path)
    parser.add_argument("--accelerator", default="h200-sxm")
    parser.add_argument("--probe", default="h200-sxm-x1", help="recording or file of a machine of that kind")
    parser.add_argument("--engine", default="vllm")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    runs = json.loads(options.measured.read_text(encoding="utf-8"))["runs"]
    plain = named_deployment("8b", options.accelerator, options.engine)
    measured_machine = calibration_of(read_probe(Path(options.probe)))
    judged = judge(runs, predictor(plain), predictor(calibrated_deployment(plain, measured_machine)))
    text = tables(runs, judged)
    if options.write:
        replace_marked(options.write, NAME, text)
    else:
        print(text)


def judge(runs: Sequence[dict[str, Any]], datasheet: Predictor, calibrated: Predictor) -> list[Judged]:
    """Every point that the simulator has a time for."""
    points = [point for run in runs for point in run["points"]]
    return [
        Judged(point, first, second)
        for point in points
        if (first := datasheet.seconds(point)) is not None
        and (second := calibrated.seconds(point)) is not None
    ]


def tables(runs: Sequence[dict[str, Any]], judged: list[Judged]) -> str:
    """The page's part: conditions, errors by operator, and where they lie."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    first = runs[0]
    conditions = (
        f"Measured {first['measured_on']} on {first['gpu']} ({first['power_limit_w']:.0f} W), driver "
        f"{first['driver']}, torch {first['torch']}, Triton {first['triton']}, commits "
        f"{', '.join(sorted({run['commit'] for run in runs}))}; predicted {today}. A ratio is predicted over "
        "measured; × 1.00 is right."
    )
    parts = [conditions, summary(judged), steps(judged)]
    decode = [j for j in judged if j.point["operator"] == "attention_decode" and j.point["heads"] == 32]
    parts.append(
        "Decode attention, 32 heads over 8, ratio by batch and context:\n\n"
        + grid(decode, "batch", "context")
    )
    for model in EXPERTS:
        points = [j for j in judged if j.point.get("model") == model and j.point["instrument"] == "triton"]
        parts.append(
            f"Experts of {model}, this project's kernel, ratio by tokens and skew:\n\n"
            + grid(points, "tokens", "skew")
        )
    reduce = [j for j in judged if j.point["operator"] == "all_reduce"]
    parts.append(
        "All-reduce by NCCL in a graph, ratio by message and ranks:\n\n" + grid(reduce, "bytes", "ranks")
    )
    products = [j for j in judged if j.point["operator"] == "matmul"]
    parts.append("Products, ratio by rows and columns x depth:\n\n" + grid(products, "rows", "matrix"))
    return "\n\n".join(parts)


def summary(judged: Iterable[Judged]) -> str:
    """Errors by operator and instrument."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for j in judged:
        groups[(j.point["operator"], j.point["instrument"])].append(j)
    lines = [
        "| operator | by | points | median error | 90th percentile | median ratio | calibrated: error, ratio |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (operator, instrument), members in groups.items():
        errors = [abs(j.ratio - 1.0) for j in members]
        calibrated = [j.calibrated_ratio for j in members]
        calibrated_error = median(abs(ratio - 1.0) for ratio in calibrated)
        lines.append(
            f"| {operator.replace('_', ' ')} | {instrument} | {len(members)} | {100 * median(errors):.1f} % | "
            f"{100 * np.quantile(errors, 0.9):.1f} % | × {median(j.ratio for j in members):.2f} | "
            f"{100 * calibrated_error:.1f} %, × {median(calibrated):.2f} |"
        )
    return "\n".join(lines)


def steps(judged: Iterable[Judged]) -> str:
    """Whole steps: replayed without a pause, each from rest, and launched kernel by kernel."""
    lines = [
        "| step | predicted, ms | replayed | ratio | from rest | ratio | by kernel: predicted, ms | measured | ratio |",
        "| --- |" + " ---: |" * 8,
    ]
    ways: dict[str, dict[str, Judged]] = defaultdict(dict)
    for j in judged:
        if j.point["operator"] == "decode_step":
            name = f"decode, {j.point['batch']} of {j.point['context']}"
        elif j.point["operator"] == "prefill_step":
            name = f"prompt of {j.point['tokens']}"
        else:
            continue
        ways[name][j.point["instrument"]] = j
    for name, found in ways.items():
        graph = found["graph"]
        rested = found.get("graph from rest")
        eager = found["eager"]
        cells = [f"{1e3 * graph.datasheet_s:.2f}"]
        cells += [text for j in (graph, rested) for text in (_ms(j), _ratio(j))]
        cells += [f"{1e3 * eager.datasheet_s:.2f}", _ms(eager), _ratio(eager)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ms(judged: Judged | None) -> str:
    return "" if judged is None else f"{1e3 * judged.measured_s:.2f}"


def _ratio(judged: Judged | None) -> str:
    return "" if judged is None else f"× {judged.ratio:.2f}"


def grid(judged: Sequence[Judged], down: str, across: str) -> str:
    """Ratios by two conditions."""
    rows = list(dict.fromkeys(_value(j.point, down) for j in judged))
    columns = list(dict.fromkeys(_value(j.point, across) for j in judged))
    ratios = {(_value(j.point, down), _value(j.point, across)): f"{j.ratio:.2f}" for j in judged}
    lines = [f"| {down} | " + " | ".join(columns) + " |", "| ---: |" + " ---: |" * len(columns)]
    lines += [f"| {row} | " + " | ".join(ratios.get((row, c), "") for c in columns) + " |" for row in rows]
    return "\n".join(lines)


def _value(point: Point, name: str) -> str:
    if name == "matrix":
        return f"{point['columns']} x {point['depth']}"
    value = point[name]
    if name != "bytes":
        return str(value)
    for unit, text in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if value >= unit:
            return f"{value / unit:.0f} {text}"
    return f"{value} B"


if __name__ == "__main__":
    main()
