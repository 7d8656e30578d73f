"""Effect of each serving mechanism: core rows of a table of published runs, predicted without it.

python tools/write_ablation.py TRUTH.csv [--processes N] prints a table; docs/validation.md has the last one. Parameters
stay as shipped: nothing is fitted again around the hole.
"""

import argparse
import csv
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from advisor.catalog import engines
from advisor.catalog.terms import terms_by_name
from advisor.commands.validate.serving_accuracy_view import METRIC_NAMES
from advisor.evidence.scores import JudgedRow
from advisor.evidence.serving.accuracy import is_core, serving_accuracy
from advisor.evidence.serving.prediction import predict_row
from advisor.simulator import engine_costs, surface
from advisor.simulator.collectives import topology
from advisor.simulator.deployment import Deployment
from advisor.simulator.engine_costs import EngineCosts

ONE = ("_scale", "_fraction")
TERMS = (
    "step_s",
    "sequence_s",
    "mixed_step_s",
    "eager_launch_s",
    "collective_launch_s",
    "request_s",
    "request_launch_s",
    "state_launch_s",
    "launch_scale",
    "prefill_scale",
    "expert_scale",
    "expert_prefill_scale",
    "expert_spared_fraction",
    "layer_s",
    "release_scale",
    "expert_block_rows",
    "fused_quantisation",
    "delivery_s",
    "message_s",
    "first_burst_s",
    "unmeasured_scale",
    "uneven_streams",
)


def _without_term(name: str) -> None:
    """Leave a term's rows without effect: 1 for factors, 0 for what is added."""
    table = terms_by_name()
    key = ("engine", name)
    neutral = 1.0 if name.endswith(ONE) else 0.0
    rows = tuple(row.model_copy(update={"value": neutral}) for row in table[key])
    table[key] = rows  # type: ignore[index]


def _without_kernels(unwanted: Callable[[str, str], bool]) -> None:
    """Let models get an engine's usual kernels."""
    chosen = engine_costs.chosen_kernels

    def usual(deployment: Deployment, **release: str) -> dict[str, str]:
        found = chosen(deployment, **release)
        return {name: level for name, level in found.items() if not unwanted(name, level)}

    engine_costs.chosen_kernels = usual


def _without_windows() -> None:
    by_id = engines.by_id
    engines.by_id = lambda name: by_id(name).model_copy(  # type: ignore[assignment]
        update={"windowed_cache_fraction": 0.0}
    )


def _without_sockets() -> None:
    topology._SOCKET_RANKS = 64  # type: ignore[misc]


def _without_blocking() -> None:
    surface.launch_ahead_s = partial(_floor_s, ahead=True)  # type: ignore[assignment]
    surface.prompt_floor_s = partial(_floor_s, ahead=False)  # type: ignore[assignment]


def _floor_s(deployment: Deployment, costs: EngineCosts, *, ahead: bool) -> float:
    runs_ahead = deployment.engine.prompt_launches == "ahead"
    return engine_costs.launch_floor_s(deployment, costs) if runs_ahead == ahead else 0.0


def _without_limit() -> None:
    surface.power_limit = lambda *_: None  # type: ignore[assignment]


def _without_edges() -> None:
    surface._TILE_ROWS = 1 << 30  # type: ignore[misc]


MECHANISMS: Mapping[str, Callable[[], None]] = {
    "routers in fp32": lambda: _without_kernels(lambda name, _: name == "router"),
    "experts without a tuned kernel": lambda: _without_kernels(
        lambda name, level: (name, level) == ("grouped_matmul", "sglang")
    ),
    "Triton's kernels for some models": lambda: _without_kernels(lambda _, level: level == "sglang-triton"),
    "weight-only kernels": lambda: _without_kernels(lambda name, _: name == "weight_only"),
    "prompts' launches hold everybody up": _without_blocking,
    "rows beyond a whole tile": _without_edges,
    "the power limit of prompts": _without_limit,
    "sums across sockets staged in host memory": _without_sockets,
    "windowed layers' caches by engine": _without_windows,
}


def errors(job: tuple[str, Path]) -> tuple[str, list[float]]:
    """Median error of the core rows by metric, with one mechanism switched off; a row that fails counts 1."""
    name, path = job
    if name in TERMS:
        _without_term(name)
    elif name in MECHANISMS:
        MECHANISMS[name]()
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if is_core(row)]
    found = serving_accuracy(
        [JudgedRow(row, predict_row(row, number).metrics) for number, row in enumerate(rows, start=2)]
    )
    assert found is not None, f"{path} has no core rows"
    return name, [found.core[metric].overall.median_ape_missing_as_1 for metric in METRIC_NAMES]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    names = ("nothing", *MECHANISMS, *TERMS)
    print(f"| without | {' | '.join(METRIC_NAMES.values())} |\n|---|{'---|' * len(METRIC_NAMES)}")
    with get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
        for name, medians in pool.imap(errors, [(name, given.truth) for name in names], chunksize=1):
            print(f"| {name} | {' | '.join(f'{100 * each:.1f} %' for each in medians)} |", flush=True)


if __name__ == "__main__":
    main()
