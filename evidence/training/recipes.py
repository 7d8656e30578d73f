"""Switches of NVIDIA's benchmark recipes of a container for a mixture of experts: facts read in their source.

Source: NVIDIA-NeMo/Megatron-Bridge (Apache-2.0), scripts/performance/run_script.py and configs/*/*.yaml at the tag
    v0.1.0rc4 (container 25.09: tokens beyond an expert's share are dropped, so that graphs hold whole layers),
    scripts/performance/configs/*/*workload_base_configs.py at v0.2.1 (25.11), v0.3.0 (26.02), v0.4.0 (26.04), v0.4.2
    (26.04.01) and v0.5.0 (26.06), and src/megatron/bridge/perf_recipes at v0.6.0 (26.08): moe_flex_dispatcher_backend,
    moe_a2a_overlap, cuda_graph_scope, recompute_modules, cutedsl_fused_grouped_mlp; mtp_num_layers in
    src/megatron/bridge/recipes. All divide the optimizer alone; the
    one variant with Megatron's FSDP (DeepSeek-V3 on 64 GB300s at v0.6.0) is not among them.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from advisor.catalog.files import read_text

_FILE: Final = Path(__file__).resolve().parents[1] / "data" / "training_recipes.csv"
_FIRST: Final = "25.11"
_DISPATCHERS: Final = {"hybridep": "hybrid_dispatcher", "alltoall": "alltoall_dispatcher", "deepep": ""}


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """Switches of one recipe."""

    features: frozenset[str]
    """Features of the job, as `TrainingJob.features` names them."""
    recomputes: bool
    """Whether the recipe computes single modules again in the backward pass."""
    later_tokens: int = 0
    """Number of modules that predict later tokens (mtp_num_layers); 0 without them."""


@cache
def all_rows() -> tuple[dict[str, str], ...]:
    """Return the rows of the table, none of which holds for the same case as another."""
    return tuple(csv.DictReader(read_text(_FILE).splitlines()))


def recipe_of(model: str, accelerator: str, precision: str, version: str) -> TrainingRecipe | None:
    """Return the recipe of a container for a model on an accelerator in a format; None if the table has none."""
    for row in all_rows():
        if (
            model in row["model"].split()
            and accelerator in row["accelerator"].split()
            and precision in row["precision"].split()
            and row["since"] <= version < (row["until"] or "9")
        ):
            named = {_DISPATCHERS[row["dispatcher"]]}
            named |= {f"graphed_{part}" for part in row["graphs"].split()}
            named |= {f"recomputed_{part}" for part in row["recompute"].split() if part != "modules"}
            named |= {"overlapped_experts"} if row["overlapped"] else set()
            named |= {"fused_experts"} if row["fused"] else set()
            named |= {"later_tokens"} if row["mtp"] else set()
            return TrainingRecipe(frozenset(named - {""}), bool(row["recompute"]), int(row["mtp"] or 0))
    return None


def usual_dispatcher(accelerator: str, version: str) -> frozenset[str]:
    """Return the feature of the dispatcher if the table has no recipe: HybridEP in racks since November 2025.

    Assumes: other recipes dispatch as DeepEP does.
    """
    hybrid = version >= _FIRST and accelerator.startswith("gb")
    return frozenset({"hybrid_dispatcher"} if hybrid else ())
