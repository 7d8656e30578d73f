"""Fit what single published runs of llama.cpp say beyond the table of published runs: CUDA graphs, and Arc boards.

Since 2025 llama.cpp captures decode steps as CUDA graphs on boards of compute capability 8 and later. Their weights
are read as before; small operators take less. Two numbers, shared by all these boards, are fitted on
measured_decoding.csv, all else as fitted by local.py on kernels that are launched one by one. Arc boards get the
memory_fraction of their own runs, all else from Ada's launched kernels.
"""

import csv
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from advisor.catalog.efficiencies import efficiency
from advisor.evidence.fit.base import FloatArray, Options, cauchy, errors_in_words
from advisor.evidence.fit.kernels import record_of, residual, write_records
from advisor.evidence.fit.local import ROBUST, SOURCE, others
from advisor.evidence.serving.case import ServingCase, parse_case
from advisor.evidence.serving.deployment import deployment_of
from advisor.simulator.deployment import Deployment
from advisor.simulator.local_surface import build_local_surface, format_family, kernel_level, local_library
from advisor.simulator.operators.local import LocalDecodeEfficiency
from advisor.simulator.step_cost import decode_iteration_s
from advisor.simulator.surface import SurfaceInputs

FACTS = Path(__file__).with_name("measured_decoding.csv")
GRAPHS = "llama.cpp-cuda-graphs"
CAPTURED = ("ampere", "ampere-geforce", "ada")
"""Architectures whose launched kernels local.py fits, and whose graphs get records."""
OWN = {"xe-hpg": "arc-a770", "xe2": "arc-b580"}
"""Architectures that have no other run, with the board of theirs."""
FAMILY = "q4_k_m"
CLOCK_EXPONENT = 6.4
"""Exponent with which small operators slow down under a power limit: such that an RTX 3090 held to 220 of 350 W takes
as long for them as in the rig of four 3090s, on which local.py fitted the launched kernels."""
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


def predicted_s(case: ServingCase, deployment: Deployment, changes: dict[str, float]) -> float:
    """Time of a decode step with some of the catalog's parameters changed [s]."""
    library = local_library(
        deployment.engine, deployment.accelerator, version=case.engine_version, date=case.date
    )
    family = format_family(case.weight_dtype)
    stored = library.parameters(LocalDecodeEfficiency, "local_decode", family)
    library.assume("local_decode", family, replace(stored, **changes))
    context = case.context_depth + case.osl / 2.0
    surface = build_local_surface(deployment, library, SurfaceInputs(1, 1, 1, context))
    return decode_iteration_s(surface, 1, context)


def without_graphs(architecture: str, family: str) -> LocalDecodeEfficiency:
    """Return the parameters of kernels that are launched one by one."""
    return LocalDecodeEfficiency.from_record(efficiency(architecture, "local_decode", family).record)


def fit_graphs(facts: list[tuple[ServingCase, Deployment, float]]) -> tuple[dict[str, float], FloatArray]:
    """Return the two times of small operators [s], and the predicted times of the facts [s]."""
    measured = np.log([seconds for _, _, seconds in facts])
    names = list(START)

    def changes(x: FloatArray) -> dict[str, float]:
        return {name: START[name] * float(np.exp(x[i] - 1.0)) for i, name in enumerate(names)}

    def loss(x: FloatArray) -> FloatArray:
        miss = np.log([predicted_s(case, one, changes(x)) for case, one, _ in facts]) - measured
        return np.concatenate([cauchy(miss / ROBUST), (x - 1.0) / list(SIGMA.values())])

    found = changes(least_squares(loss, np.ones(len(names)), diff_step=0.02, max_nfev=12).x)
    return found, np.array([predicted_s(case, one, found) for case, one, _ in facts])


def fit_reading(facts: list[tuple[ServingCase, Deployment, float]], middle: LocalDecodeEfficiency) -> float:
    """Return the fraction of the bandwidth with which runs of one board are met in the median."""
    grid = np.linspace(0.3, 0.95, 66)
    rest = {name: value for name, value in asdict(middle).items() if name != "memory_fraction"}
    misses = [
        abs(
            np.median(
                [
                    np.log(predicted_s(case, one, rest | {"memory_fraction": float(part)}) / seconds)
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
    source = SOURCE | {"where": SOURCE["where"] + ", and evidence/fit/measured_decoding.csv"}
    for back_end in sorted({level_of(case, one) for case, one, _ in facts}):
        mine = [fact for fact in facts if level_of(*fact[:2]) == back_end]
        ratios = [predicted_s(case, one, {}) / seconds for case, one, seconds in mine]
        print(f"stored {back_end:24s} {errors_in_words(1.0 / np.array(ratios))}")
    captured = [fact for fact in facts if level_of(*fact[:2]) == GRAPHS]
    found, times = fit_graphs(captured)
    left = residual(times, np.array([seconds for _, _, seconds in captured]))
    gpus = sorted({case.gpu for case, _, _ in captured})
    for architecture in CAPTURED:
        records = [
            record_of(
                family,
                GRAPHS,
                gpus,
                asdict(replace(without_graphs(architecture, family), clock_exponent=CLOCK_EXPONENT, **found)),
                left,
            )
            for family in ("bf16", FAMILY)
        ]
        kept = others("local_decode", architecture, {(each["dtype"], GRAPHS) for each in records})
        write_records("local_decode", architecture, [*kept, *records], source, "local", options)
    for architecture, board in OWN.items():
        mine = [fact for fact in facts if fact[0].gpu == board]
        middle = without_graphs("ada", FAMILY)
        part = fit_reading(mine, middle)
        values = asdict(replace(middle, memory_fraction=part))
        times = np.array([predicted_s(case, one, values) for case, one, _ in mine])
        left = residual(times, np.array([seconds for _, _, seconds in mine]))
        record = record_of(FAMILY, "any", [board], values, left)
        own = SOURCE | {"where": "evidence/fit/measured_decoding.csv"}
        write_records("local_decode", architecture, [record], own, "llama_graphs", options)
