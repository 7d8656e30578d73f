"""Fit an all-reduce through host memory over narrow PCIe slots on published runs of vLLM on an owner's own cards.

No nccl-tests of such a machine are published, so three fractions of the link rate are fitted on the iteration times of
whole models: decode steps of 1 to 64 sequences, and prompts of single streams. Latencies stay those of the same cards
in full slots. Each model is left out in turn. Prints the record that evidence/fit/collectives_fixed.toml holds.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.optimize import minimize

from advisor.catalog.collectives import collective
from advisor.catalog.units import MILLISECOND_S
from advisor.evidence.fit.base import FloatArray, Options, errors_in_words, published_rows
from advisor.evidence.fit.kernels import residual
from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.deployment import replica_of
from advisor.simulator.collectives import operations
from advisor.simulator.collectives.alpha_beta import PROTOCOLS, AlphaBeta, curve_of
from advisor.simulator.replica_model import ReplicaModel
from advisor.simulator.step_cost import decode_iteration_s, prefill_s

FABRIC = "pcie4-x4-host"
FULL_SLOT = "pcie4-x16-host"
START = (0.12, 0.25, 0.33)
"""Fractions of the link rate under LL, LL128 and large chunks from which the fit starts."""
SIMPLE_OVER_BULK = 0.891
"""Ratio of the link rate of large chunks (simple) to that in bulk, from the same cards in full slots."""
DECODE_WEIGHT = 0.5
FORMATS = ("bf16", "fp8")
"""Cache formats whose attention is known."""
SLOWEST_PROMPT_TOK_S = 300.0
"""Rate of a prompt below which a single client's prompt was found in the prefix cache [tokens/s]."""
OUTPUT_TOKENS = 128


@dataclass(frozen=True)
class HostPoint:
    """Operating point: time of a decode step [s], and of a prompt if one client runs alone."""

    case: ServingCase
    step_s: float
    prompt_s: float | None


def read_points(path: Path) -> list[HostPoint]:
    """Return points of vLLM over four capped cards, repeats reduced to their medians.

    Where no length is stated it is what was computed: the time to the first token times the rate of the prompt.
    """
    same = defaultdict(list)
    for number, row in published_rows(path):
        if not (row["engine"] == "vllm" and row["power_cap_w"] and row["tp"] == "4" and row["prefill_tok_s"]):
            continue
        rate = float(row["prefill_tok_s"])
        alone = row["concurrency"] == "1"
        if row["kv_dtype"] not in FORMATS or (alone and rate < SLOWEST_PROMPT_TOK_S):
            continue
        if not row["isl"]:
            tokens = float(row["ttft_ms_p50"]) * MILLISECOND_S * rate
            row = {**row, "isl": str(round(tokens, -2)), "osl": str(OUTPUT_TOKENS)}
        case = parse_case(row, number)
        seconds = (float(row["tpot_ms_p50"]) * MILLISECOND_S, case.isl / rate if alone else np.nan)
        same[case.model, case.kv_dtype, case.isl, case.concurrency].append((case, *seconds))
    points = []
    for repeats in same.values():
        step_s, prompt_s = (float(np.median([one[i] for one in repeats])) for i in (1, 2))
        points.append(HostPoint(repeats[0][0], step_s, None if np.isnan(prompt_s) else prompt_s))
    return points


def curve(shares: FloatArray) -> AlphaBeta:
    """Return the narrow fabric's branches with these fractions."""
    full = collective(FULL_SLOT, "all_reduce", "nccl").record.parameters
    low, middle, bulk = (float(share) for share in shares)
    return AlphaBeta(
        tuple(full[f"base_{name}_s"] for name in PROTOCOLS),
        tuple(full[f"step_{name}_s"] for name in PROTOCOLS),
        (low, middle, SIMPLE_OVER_BULK * bulk, bulk),
    )


def misses(points: list[HostPoint], shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln(predicted / measured) of decode steps, and of prompts."""
    fitted = curve(shares)

    def instead(fabric: str, operation: str, algorithm: str) -> AlphaBeta:
        return fitted if fabric == FABRIC else curve_of(fabric, operation, algorithm)

    with patch.object(operations, "curve_of", instead):  # the library looks curves up by this name only
        pairs = [(point, replica_of(point.case)) for point in points]
    steps = [np.log(_step_s(point.case, replica) / point.step_s) for point, replica in pairs]
    prompts = [
        np.log(_prompt_s(point.case, replica) / point.prompt_s) for point, replica in pairs if point.prompt_s
    ]
    return np.array(steps), np.array(prompts)


def _step_s(case: ServingCase, replica: ReplicaModel) -> float:
    return decode_iteration_s(replica.surface, case.concurrency or 1, case.isl + case.osl / 2.0)


def _prompt_s(case: ServingCase, replica: ReplicaModel) -> float:
    return prefill_s(replica.surface, case.isl, replica.policy.max_num_batched_tokens)


def fit(points: list[HostPoint]) -> FloatArray:
    """Return the fractions with the least mean absolute error."""

    def loss(logs: FloatArray) -> float:
        steps, prompts = misses(points, np.exp(logs))
        return float(np.concatenate([DECODE_WEIGHT * np.abs(steps), np.abs(prompts)]).mean())

    start = np.log(START)
    simplex = np.vstack([start, start + 0.3 * np.eye(len(START))])
    found = minimize(loss, start, method="Nelder-Mead", options={"maxfev": 60, "initial_simplex": simplex})
    return np.asarray(np.exp(found.x))


def report(title: str, points: list[HostPoint], shares: FloatArray) -> None:
    """Print errors of decode steps and prompts."""
    steps, prompts = (errors_in_words(np.exp(found)) for found in misses(points, shares))
    print(f"{title:34s} shares {np.round(shares, 4)} steps {steps} prompts {prompts}")


def run(options: Options) -> None:
    """Fit the fractions, with each model left out in turn."""
    points = read_points(options.published_table("serving"))
    for model in sorted({point.case.model for point in points}):
        rest = [point for point in points if point.case.model != model]
        report(f"left out {model}", [point for point in points if point.case.model == model], fit(rest))
    shares = fit(points)
    report("all", points, shares)
    fitted = curve(shares)
    for name, *values in zip(PROTOCOLS, fitted.base_s, fitted.step_s, fitted.efficiency, strict=True):
        kinds = zip(("base_{}_s", "step_{}_s", "efficiency_{}"), values, strict=True)
        print(", ".join(f"{kind.format(name)} = {value:.4g}" for kind, value in kinds))
    both = np.exp(np.concatenate(misses(points, shares)))
    print(residual(both, np.ones(len(both))))
