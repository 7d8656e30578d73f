"""Records of llama.cpp's captured decode steps on CUDA boards, of what its later releases fuse, and of Arc boards.

Since 2025 llama.cpp captures decode steps as CUDA graphs on boards of compute capability 8 and later. Their weights
are read as before; small operators take less. Two numbers, shared by all these boards, are fitted on
measured_decoding.csv, all else as fitted by local.py on kernels that are launched one by one, or read in the source.
This program owns the levels `llama.cpp-cuda-graphs` and `llama.cpp-cuda-fused`, and local.py all others. Arc boards
get the memory_fraction of their own runs, all else from Ada's launched kernels.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from advisor.catalog.efficiencies import efficiency
from advisor.catalog.schema.efficiency import EfficiencyRecord
from advisor.evidence.fit.base import FloatArray, Options, cauchy, errors_in_words
from advisor.evidence.fit.kernels import record_of, residual, write_records
from advisor.evidence.fit.local import (
    CAPTURED_LEVELS,
    EXPERT_TILE_ROWS,
    FUSED,
    NEVER_LAUNCHED,
    ROBUST,
    SOURCE,
    others,
    with_fused_attention,
    with_one_expert_kernel,
)
from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.deployment import deployment_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.local_surface import build_local_surface, format_family, kernel_level, local_library
from advisor.simulator.operators.local import LocalDecodeEfficiency, LocalPrefillEfficiency
from advisor.simulator.step_cost import decode_iteration_s
from advisor.simulator.surface import SurfaceInputs

FACTS = Path(__file__).with_name("measured_decoding.csv")
CAPTURED = {
    **{(name, family): name for name in ("ampere", "ampere-geforce", "ada") for family in ("bf16", "q4_k_m")},
    ("blackwell-geforce", "bf16"): "ada",
    ("blackwell-geforce", "q4_k_m"): "ada",
}
"""Architectures and families that get records of captured steps, with the architecture whose records of local.py they
change. GB10's record of 8 bits was fitted on captured steps and stays."""

LENT_PROMPTS = {
    ("blackwell-geforce", "bf16"): ("ada", "bf16"),
    ("blackwell-geforce", "q4_k_m"): ("blackwell-geforce", "q8_0"),
}
"""Architectures and families whose prompts local.py did not fit, with those that lend them a record."""
OWN = {"xe-hpg": "arc-a770", "xe2": "arc-b580"}
"""Architectures that have no other run, with the board of theirs."""
FAMILY = "q4_k_m"
START = {"layer_s": 6e-5, "expert_layer_s": 1e-5}
SIGMA = {"layer_s": 1.0, "expert_layer_s": 1.0}


def read_facts() -> Iterator[tuple[ServingCase, Deployment, float]]:
    """Yield case, deployment and measured time of a decode step [s] of each fact."""
    with FACTS.open(encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        for number, row in enumerate(rows, start=2):
            cells = {"engine": "llama.cpp", "load": "batch1", "isl": "0", "kv_dtype": "fp16"} | row
            case = parse_case(cells, number)
            yield case, deployment_of(case), 1.0 / float(row["decode_tok_s"])


def level_of(case: ServingCase, deployment: Deployment) -> str:
    """Return the level of a fact's kernels."""
    return kernel_level(
        deployment.engine, deployment.accelerator, version=case.engine_version, date=case.date
    )


def predicted_s(case: ServingCase, deployment: Deployment, stored: LocalDecodeEfficiency) -> float:
    """Time of a decode step with these parameters [s]."""
    library = local_library(
        deployment.engine, deployment.accelerator, version=case.engine_version, date=case.date
    )
    library.assume("local_decode", format_family(case.weight_dtype), stored)
    context = case.context_depth + case.osl / 2.0
    surface = build_local_surface(deployment, library, SurfaceInputs(1, 1, 1, context))
    return decode_iteration_s(surface, 1, context)


def stored_s(case: ServingCase, deployment: Deployment) -> float:
    """Time of a decode step by the catalog's records [s]."""
    library = local_library(
        deployment.engine, deployment.accelerator, version=case.engine_version, date=case.date
    )
    stored = library.parameters(LocalDecodeEfficiency, "local_decode", format_family(case.weight_dtype))
    return predicted_s(case, deployment, stored)


def without_graphs(architecture: str, family: str) -> LocalDecodeEfficiency:
    """Return the parameters of kernels that are launched one by one."""
    return LocalDecodeEfficiency.from_record(efficiency(architecture, "local_decode", family).record)


def with_graphs(
    launched: LocalDecodeEfficiency, level: str, times: dict[str, float]
) -> LocalDecodeEfficiency:
    """Return the parameters of a captured step; fused attention reads keys and values once for a group of heads."""
    repeat = 0.0 if level == FUSED else launched.cache_repeat
    return replace(launched, **times, cache_repeat=repeat)


def captured_s(case: ServingCase, deployment: Deployment, times: dict[str, float]) -> float:
    """Time of a captured decode step if small operators take these times [s]."""
    architecture = deployment.accelerator.architecture
    family = format_family(case.weight_dtype)
    launched = without_graphs(CAPTURED.get((architecture, family), architecture), family)
    return predicted_s(case, deployment, with_graphs(launched, level_of(case, deployment), times))


def launched_prompts(architecture: str, family: str) -> EfficiencyRecord:
    """Return the record of prompts with attention and experts in kernels of their own."""
    source, lent = LENT_PROMPTS.get((architecture, family), (architecture, family))
    return efficiency(source, "local_prefill", lent).record


def later_prompts(architecture: str, family: str, level: str) -> LocalPrefillEfficiency:
    """Return the parameters of prompts with all quantised experts in one kernel, and from FUSED on with fused
    attention."""
    found = LocalPrefillEfficiency.from_record(launched_prompts(architecture, family))
    if family != "bf16":
        found = with_one_expert_kernel(found, EXPERT_TILE_ROWS)
    if level == FUSED:
        return with_fused_attention(found, architecture)
    if architecture in NEVER_LAUNCHED:
        # Its own runs are fused: before, attention was that of a relative.
        other = LocalPrefillEfficiency.from_record(launched_prompts("ada", family))
        names = ("attention_fraction", "attention_rows", "wide_sum_fraction")
        found = replace(found, **{name: getattr(other, name) for name in names})
    return found


def fit_graphs(facts: list[tuple[ServingCase, Deployment, float]]) -> tuple[dict[str, float], FloatArray]:
    """Return the two times of small operators [s], and the predicted times of the facts [s]."""
    measured = np.log([seconds for _, _, seconds in facts])
    names = list(START)

    def times(x: FloatArray) -> dict[str, float]:
        return {name: START[name] * float(np.exp(x[i] - 1.0)) for i, name in enumerate(names)}

    def loss(x: FloatArray) -> FloatArray:
        miss = np.log([captured_s(case, one, times(x)) for case, one, _ in facts]) - measured
        return np.concatenate([cauchy(miss / ROBUST), (x - 1.0) / list(SIGMA.values())])

    found = times(least_squares(loss, np.ones(len(names)), diff_step=0.02, max_nfev=12).x)
    return found, np.array([captured_s(case, one, found) for case, one, _ in facts])


def fit_reading(facts: list[tuple[ServingCase, Deployment, float]], middle: LocalDecodeEfficiency) -> float:
    """Return the fraction of the bandwidth with which runs of one board are met in the median."""
    grid = np.linspace(0.3, 0.95, 66)
    misses = [
        abs(
            np.median(
                [
                    np.log(predicted_s(case, one, replace(middle, memory_fraction=float(part))) / seconds)
                    for case, one, seconds in facts
                ]
            )
        )
        for part in grid
    ]
    return float(grid[int(np.argmin(misses))])


def run(options: Options) -> None:
    """Fit, report, and write the records."""
    facts = list(read_facts())
    for back_end in sorted({level_of(case, one) for case, one, _ in facts}):
        mine = [fact for fact in facts if level_of(*fact[:2]) == back_end]
        ratios = [stored_s(case, one) / seconds for case, one, seconds in mine]
        print(f"stored {back_end:24s} {errors_in_words(1.0 / np.array(ratios))}")
    mine = [fact for fact in facts if level_of(*fact[:2]) in CAPTURED_LEVELS]
    found, times = fit_graphs(mine)
    left = residual(times, np.array([seconds for _, _, seconds in mine]))
    gpus = sorted({case.gpu for case, _, _ in mine})
    print(found)
    steps: dict[str, list[dict[str, object]]] = defaultdict(list)
    prompts: dict[str, list[dict[str, object]]] = defaultdict(list)
    for (architecture, family), base in CAPTURED.items():
        for level in CAPTURED_LEVELS:
            # Where local.py has no launched kernels, the newest level stands for all.
            name = "any" if level == FUSED and base != architecture else level
            values = asdict(with_graphs(without_graphs(base, family), level, found))
            steps[architecture].append(record_of(family, name, gpus, values, left))
            prompt = launched_prompts(architecture, family)
            values = asdict(later_prompts(architecture, family, level))
            unchanged = prompt.residual.model_dump(exclude_none=True)
            prompts[architecture].append(record_of(family, name, prompt.fitted_on, values, unchanged))
    for operator, by_architecture in (("local_decode", steps), ("local_prefill", prompts)):
        for architecture, records in by_architecture.items():
            write_levels(operator, architecture, records, options)
    write_own(facts, options)


def write_levels(
    operator: str, architecture: str, records: list[dict[str, object]], options: Options
) -> None:
    """Write the records of captured steps, after those of local.py."""
    source = SOURCE | {"where": SOURCE["where"] + ", and evidence/fit/llama_graphs.py"}
    kept = others(operator, architecture, {(each["dtype"], each["engine"]) for each in records})
    write_records(operator, architecture, [*kept, *records], source, "local", options)


def write_own(facts: list[tuple[ServingCase, Deployment, float]], options: Options) -> None:
    """Write the records of architectures that have no other run."""
    for architecture, board in OWN.items():
        mine = [fact for fact in facts if fact[0].gpu == board]
        middle = without_graphs("ada", FAMILY)
        part = fit_reading(mine, middle)
        values = replace(middle, memory_fraction=part)
        times = np.array([predicted_s(case, one, values) for case, one, _ in mine])
        left = residual(times, np.array([seconds for _, _, seconds in mine]))
        record = record_of(FAMILY, "any", [board], asdict(values), left)
        own = SOURCE | {"where": "evidence/fit/measured_decoding.csv"}
        write_records("local_decode", architecture, [record], own, "llama_graphs", options)
