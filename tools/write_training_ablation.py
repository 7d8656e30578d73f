"""Effect of each mechanism of a training step on runs of sources that were not in sight when it was written.

python tools/write_training_ablation.py [--processes N] [--only WORD] prints a table; docs/training-time.md has the last
one. Without a mechanism the parameters are fitted again, and in both columns every source is left out of the fit that
predicts it. Knobs that a run leaves open stay as they are with the mechanism.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from advisor.catalog.schema.training_software import TrainingSoftware
from advisor.catalog.terms import Term
from advisor.evidence.fit import training, training_parameters
from advisor.evidence.fit.base import REPOSITORY, FloatArray, Options
from advisor.evidence.fit.training import TrainingFit, TrainingRow, fit_tables, tables_of
from advisor.simulator.collectives.expert_parallel import UNLIMITED
from advisor.simulator.graph.operator import Experts
from advisor.simulator.training import cluster, step, step_exchange, step_host, step_layers, step_sharding
from advisor.simulator.training.cluster import Groups
from advisor.simulator.training.step_exchange import Exchanges
from advisor.simulator.training.step_layers import LayerPricing

ITERATIONS = (1,)
"""Gauss-Newton iterations from the shipped parameters."""
ACTS = 1e-3
"""Relative change of a prediction from which on a mechanism acts on a run."""
EVERY_SOURCE = ("*",)
"""Stands for a mechanism that was chosen while all sources were in sight."""


def _change_nothing() -> None:
    pass


@dataclass(frozen=True)
class Mechanism:
    """One mechanism: how to switch it off, and the sources whose rows were in sight when it was written."""

    switch_off: Callable[[], None] = _change_nothing
    """Switch for this process."""
    in_sight: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    """Features of jobs that stand for it."""

    def had_in_sight(self, row: TrainingRow) -> bool:
        return self.in_sight == EVERY_SOURCE or row.source in self.in_sight

    def remove_from(self, row: TrainingRow) -> TrainingRow:
        """Return the row without the features of the mechanism."""
        features = row.case.job.features - set(self.features)
        return replace(row, case=replace(row.case, job=replace(row.case.job, features=features)))


def _without_term(name: str, selects: str = "", neutral: float | None = None) -> Callable[[], None]:
    """Return a switch that drops the rows of a term that a selector's text names, fitted ones too, or sets them."""

    def switch() -> None:
        known: Callable[[], tuple[Term, ...]] = vars(training_parameters)["all_terms"]

        def drops(selector: object) -> bool:
            return selects in str(selector)

        kept = []
        for term in known():
            if term.scope == "framework" and term.term == name and drops(_selector(term.model_dump())):
                if neutral is not None:
                    kept.append(term.model_copy(update={"value": neutral}))
            else:
                kept.append(term)
        vars(training_parameters)["all_terms"] = lambda: tuple(kept)
        parameters = tuple(
            p for p in training_parameters.PARAMETERS if p.name != name or not drops(p.selector)
        )
        for module in (training, training_parameters):
            vars(module)["PARAMETERS"] = parameters

    return switch


def _selector(term: Mapping[str, object]) -> dict[str, object]:
    names = ("name", "since", "until", "architecture", "operator")
    return {name: term[name] for name in names if term.get(name)}


def _without_constant(module: object, name: str, neutral: object) -> Callable[[], None]:
    return lambda: vars(module).update({name: neutral})


def _without_software(module: object, **neutral: object) -> Callable[[], None]:
    """Return a switch that sets properties of all training software, as a module looks them up."""

    def switch() -> None:
        find = module.software_of  # type: ignore[attr-defined]

        def find_without(framework: str, software: str) -> TrainingSoftware:
            found: TrainingSoftware = find(framework, software)
            return found.model_copy(update=neutral)

        vars(module)["software_of"] = find_without

    return switch


def _switch_all(*switches: Callable[[], None]) -> Callable[[], None]:
    """Return a switch that switches several parts of a mechanism."""

    def switch() -> None:
        for each in switches:
            each()

    return switch


def _with_grouped_experts() -> None:
    """Price 16-bit experts as the grouped multiplications of serving, like those in fewer bits."""
    price = LayerPricing._experts

    def price_grouped(self: LayerPricing, experts: object) -> tuple[FloatArray, FloatArray, FloatArray]:
        low_bit, self.low_bit = self.low_bit, True
        found = price(self, experts)  # type: ignore[arg-type]
        self.low_bit = low_bit
        return found

    LayerPricing._experts = price_grouped  # type: ignore[method-assign]


def _without_method(owner: type, name: str, neutral: Callable[..., object]) -> Callable[[], None]:
    """Return a switch that replaces a method of a class."""
    return lambda: setattr(owner, name, neutral)


def _with_deepeps_exchange() -> None:
    """Price HybridEP's exchange as DeepEP's."""
    price = Groups.expert_exchange_s

    def price_as_normal(self: Groups, tokens: FloatArray, experts: Experts, **more: object) -> FloatArray:
        return price(self, tokens, experts, **more | {"mode": "normal"})  # type: ignore[arg-type]

    Groups.expert_exchange_s = price_as_normal  # type: ignore[method-assign, assignment]


DISPATCHERS = ("hybrid_dispatcher", "alltoall_dispatcher")
GRAPHS = ("graphed_mixers", "graphed_routers", "graphed_step")
MECHANISMS: Mapping[str, Mechanism] = {
    "dispatcher by recipe": Mechanism(features=DISPATCHERS),
    "exchanges beside another micro-batch, by recipe": Mechanism(features=("overlapped_experts",)),
    "CUDA graphs by recipe": Mechanism(features=GRAPHS),
    "fused experts by recipe": Mechanism(in_sight=("megatron-bridge",), features=("fused_experts",)),
    "launches of experts in few bits": Mechanism(
        _without_term("low_bit_expert_kernels", neutral=15.0), ("megatron-bridge",)
    ),
    "launches of layers in pieces": Mechanism(
        _without_term("overlapped_launches", neutral=1.0), ("megatron-bridge",)
    ),
    "launches of Megatron-LM of 2023": Mechanism(
        _without_term("kernels_per_layer", "unfused", neutral=30.0), ("vtrain-single",)
    ),
    "launches and kernels hide each other in part": Mechanism(
        _without_constant(step_host, "LAUNCH_NORM", 200.0), ("vtrain-single",)
    ),
    "power per unit of peak": Mechanism(
        _without_constant(step, "at_power", lambda costs, _: costs), ("dgxc-25.05", "megatron-bridge")
    ),
    "heat of Blackwell": Mechanism(_without_term("kernel_scale", "blackwell"), ("simumax-b200",)),
    "few bits on Blackwell until 2025-08": Mechanism(
        _without_term("low_bit_scale", "blackwell"), ("dgxc-25.05",)
    ),
    "16-bit experts as products of their own": Mechanism(
        _with_grouped_experts, ("automodel", "megatron-bridge")
    ),
    "an expert's fp32 gradient is hardly hidden": Mechanism(
        _without_constant(step_layers, "_SMALL_OVERLAP", 2.0), ("simumax-b200", "megatron-bridge")
    ),
    "gpt-oss's rotary embedding": Mechanism(
        _without_constant(step_layers, "_UNFUSED_ROTARY", ()), ("automodel", "megatron-bridge")
    ),
    "routing limited to groups": Mechanism(
        _without_constant(cluster, "GroupLimit", lambda *_: UNLIMITED), ("megatron-bridge",)
    ),
    "gpt-oss's clamps and biases": Mechanism(
        _without_constant(step_layers, "_CLAMPING", ()), ("automodel", "megatron-bridge")
    ),
    "routing of AutoModel's benchmarks": Mechanism(
        in_sight=("automodel",), features=("neighbouring_experts",)
    ),
    "plain Megatron-LM overlaps nothing": Mechanism(in_sight=("simumax-b200",), features=("no_overlap",)),
    "gradients summed in 16 bits by NVIDIA's recipes": Mechanism(
        in_sight=("dgxc-25.05",), features=("bf16_grad_reduce",)
    ),
    "MaxText's capacity of experts": Mechanism(
        _without_term("expert_capacity", neutral=0.0), ("maxtext-tiering",)
    ),
    "JAX's recomputation stops early": Mechanism(
        _without_term("partial_recompute", "maxtext", neutral=0.0), ("maxtext-tpu",)
    ),
    "collectives of tensor parallelism wait": Mechanism(
        _without_term("collective_wait_s", neutral=1e-9), ("simumax-b200",)
    ),
    "PyTorch's attention on Hopper": Mechanism(
        _without_term("attention_scale", "2026-03", neutral=1.0), ("torchtitan",)
    ),
    "PyTorch's tensor parallelism waits for sums": Mechanism(
        _without_term("hidden_by_weights", neutral=0.7), ("torchtitan",)
    ),
    "FSDP2's copies": Mechanism(_without_term("shard_copies", neutral=0.0), EVERY_SOURCE),
    "PyTorch's rings merge their parts": Mechanism(
        _switch_all(
            _without_software(step_exchange, gathers_ring=False),
            _without_term("ring_forward_bytes", neutral=0.0),
            _without_term("ring_backward_bytes", neutral=0.0),
        ),
        ("torchtitan",),
    ),
    "adapters on the matrices that have them": Mechanism(
        _without_software(step_layers, adapters_on="all_linear"),
        ("peft",),
        ("adapters_beside_matrices", "whole_matrix_adapters"),
    ),
    "InternEvo's broadcasts": Mechanism(
        _without_software(step_sharding, broadcasts_shards=False), ("internevo",)
    ),
    "HybridEP's exchange": Mechanism(_with_deepeps_exchange, ("megatron-bridge",)),
    "HybridEP sorts copies": Mechanism(
        _without_method(Exchanges, "_sorted_s", lambda _, tokens, __: 0.0 * tokens), ("megatron-bridge",)
    ),
    "activation of 16-bit experts": Mechanism(
        _without_method(LayerPricing, "_routed_activation_bytes", lambda *_: 0.0), EVERY_SOURCE
    ),
    "parameters in fp8 by NVIDIA's recipes": Mechanism(
        in_sight=("mlperf-v4.0", "mlperf-v4.1"), features=("fp8_allgather",)
    ),
    "transposed copies by scales of blocks": Mechanism(
        _without_constant(step_layers, "_CAST_BYTES", {"fp8": 1.0, "nvfp4": 7.0})
    ),
    "XTuner's kernels are fused": Mechanism(
        _without_constant(step_layers, "_FUSED_SOFTWARE", ("intern", "megatron", "unsloth", "liger")),
        ("XTuner speed pages",),
    ),
}


@dataclass(frozen=True)
class Outcome:
    """Rows on which a mechanism acts, by their place in the fit, and their ratios without it, left out."""

    acts: tuple[int, ...]
    left_out: FloatArray


def predict_without(name: str, base: TrainingFit) -> Outcome:
    """Switch a mechanism off in this process, fit along new slopes of the rows on which it acts, and predict them."""
    mechanism = MECHANISMS[name]
    with_it = base.ratios()
    before = training_parameters.PARAMETERS
    mechanism.switch_off()
    kept = [index for index, parameter in enumerate(before) if parameter in training_parameters.PARAMETERS]
    codes = base.codes[kept]
    everything = [mechanism.remove_from(row) for row in base.everything]
    change = np.exp(training.residuals(everything, codes)) / with_it - 1.0
    acts = tuple(int(index) for index in np.flatnonzero(np.abs(change) > ACTS))
    changed = {id(base.everything[index]): everything[index] for index in acts}
    rows = [changed.get(id(row), row) for row in base.rows]
    moved = [index for index, row in enumerate(base.rows) if id(row) in changed]
    slopes = base.slopes[:, kept]
    moved_rows = [rows[index] for index in moved]
    slopes[moved] = training.jacobian(moved_rows, codes, training.residuals(moved_rows, codes))
    fit = TrainingFit([everything[index] for index in acts], rows, codes, slopes)
    return Outcome(acts, fit.ratios_left_out(lambda row: row.source))


def compare(name: str, base: TrainingFit, without: Outcome, with_it: FloatArray) -> list[str]:
    """Return one cell per source on which a mechanism acts: rows, median error and bias without it and with it."""
    by_source: dict[tuple[bool, str], list[int]] = {}
    for place, index in enumerate(without.acts):
        row = base.everything[index]
        by_source.setdefault((MECHANISMS[name].had_in_sight(row), row.source), []).append(place)
    cells = []
    for (in_sight, source), chosen in sorted(by_source.items()):
        errors = [
            f"{100 * np.median(np.abs(ratios[chosen] - 1)):.1f} ({100 * np.median(ratios[chosen] - 1):+.0f})"
            for ratios in (without.left_out, with_it[list(without.acts)])
        ]
        cells.append(f"{'(in sight) ' if in_sight else ''}{source} {len(chosen)}: {' → '.join(errors)}")
    return cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared" / "data")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="a word of the names of mechanisms; default all")
    given = parser.parse_args()
    options = Options(given.data, None, False, "", 0, None)
    names = [name for name in MECHANISMS if given.only in name]
    base = fit_tables(tables_of(options), ITERATIONS)
    with_it = base.ratios_left_out(lambda row: row.source)
    with get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
        outcomes = pool.imap(partial(predict_without, base=base), names, chunksize=1)
        for name, without in zip(names, outcomes, strict=True):
            print(f"| {name} | {'; '.join(compare(name, base, without, with_it))} |", flush=True)


if __name__ == "__main__":
    main()
