"""80 % intervals of step times: quantiles of measured / predicted over published runs whose source was left out."""

from functools import cache
from typing import Final

from advisor.catalog.files import DATA_DIR, read_toml
from advisor.simulator.graph.model import num_experts
from advisor.simulator.quantity import Basis, Quantity
from advisor.simulator.training.cluster import TrainingCluster
from advisor.simulator.training.job import TrainingJob

_FILE: Final = DATA_DIR / "training_intervals.toml"
_TESTED_FAMILIES: Final = ("megatron", "fsdp", "maxtext", "peft")
_TESTED_ARCHITECTURES: Final = ("ampere", "ada", "hopper", "blackwell", "tpu")
_NODE: Final = 8
_WIDEST: Final = (0.6, 1.7)


def step_class(
    job: TrainingJob, cluster: TrainingCluster, num_accelerators: int, *, assumed: bool = False
) -> str:
    """The class of residuals that a step belongs to.

    Untested where no published run of the framework or of the kind of chip was at hand; `assumed` where the layout had
    to be chosen; other vendors' chips, adapters, experts, and the rest by whether it leaves a node.

    Source: own definition.
    """
    if not _is_tested(job, cluster):
        return "untested"
    if cluster.accelerator.vendor != "nvidia":
        return "other_vendor"
    if assumed:
        return "assumed_layout"
    if job.method != "full":
        return "adapters"
    where = "multi_node" if num_accelerators > _NODE else "single_node"
    return f"{where}_{'experts' if num_experts(job.model) else 'dense'}"


def _is_tested(job: TrainingJob, cluster: TrainingCluster) -> bool:
    tested_framework = job.framework in _TESTED_FAMILIES or "intern" in job.software.casefold()
    return tested_framework and cluster.accelerator.architecture.startswith(_TESTED_ARCHITECTURES)


def step_quantity(seconds: float, class_name: str, basis: Basis = "modelled") -> Quantity:
    """A step time with its 80 % interval [s].

    Source: catalog/data/training_intervals.toml, written by evidence/fit/training.py.
    """
    low, high = step_factors(class_name)
    return Quantity(seconds, seconds * min(low, 1.0), seconds * max(high, 1.0), basis)


def step_factors(class_name: str) -> tuple[float, float]:
    """(low, high) of measured / predicted step time between which 80 % of left-out runs of the class lie.

    Source: as step_quantity.
    """
    known = _classes()
    low, high = known.get(class_name, known.get("any", _WIDEST))
    return float(low), float(high)


@cache
def _classes() -> dict[str, tuple[float, float]]:
    return dict(read_toml(_FILE)["step_time"]) if _FILE.is_file() else {}
