"""Machines of a published training run: accelerator, number, fabrics and networks."""

import math
import re
from functools import lru_cache
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import BITS_PER_BYTE, GB, GIGA, TERA
from advisor.evidence.prediction import UnsupportedCaseError
from advisor.evidence.table import Cells
from advisor.simulator.collectives.operations import is_torus
from advisor.simulator.device import with_power_cap
from advisor.simulator.training.cluster import NodeNetwork, TrainingCluster

_HOPPER_SINCE: Final = "2023-07"
_STATE_BYTES: Final = 16.0
_STATE_SHARE: Final = 0.7
"""Fraction of the memory that weights, gradients and optimizer state take in a run whose size is not stated."""


def cluster_of(cells: Cells, unstated: set[str]) -> tuple[TrainingCluster, int]:
    """Return the machines of a row and the number of accelerators; anything it leaves open is added to `unstated`.

    Assumes: an accelerator that is not stated is the one most rented at the time, A100 before July 2023 and H100 since.
    A number that is not stated follows from the degrees, or is the smallest power of two whose memory holds 16 bytes
    per parameter in 70 % of it.

    Raises: InputFileError: a number is none. UnsupportedCaseError: the catalog does not know the accelerator.
    """
    tested = (cells.positive("gpu_mem_gb"), cells.positive("mem_bw_tb_s"), cells.positive("power_cap_w"))
    accelerator = _as_tested(_accelerator_id(cells, unstated), *tested)
    num_accelerators = cells.degree("n_gpus")
    if num_accelerators is None:
        num_accelerators = _count_accelerators(cells, accelerator, unstated)
    per_node = _domain(accelerator, num_accelerators, cells)
    network = _network(cells.text("interconnect"), cells.degree("gpus_per_node") or per_node)
    stated = NodeNetwork(network) if network else None
    return TrainingCluster(accelerator, per_node, stated), num_accelerators


def _accelerator_id(cells: Cells, unstated: set[str]) -> str:
    name = cells.text("gpu")
    if name:
        try:
            return accelerators.get(name).record.id
        except UnknownNameError as error:
            raise UnsupportedCaseError(f"accelerator {name!r} is not in the catalog") from error
    unstated.add("accelerator")
    date = cells.text("date")
    return "a100-sxm-80gb" if date and date < _HOPPER_SINCE else "h100-sxm"


def _count_accelerators(cells: Cells, accelerator: Accelerator, unstated: set[str]) -> int:
    degrees = [cells.degree(name) for name in ("tp", "pp", "cp", "dp")]
    if any(degrees[:2]):
        return math.prod(degree or 1 for degree in degrees)
    unstated.add("num_accelerators")
    held = _STATE_BYTES * GIGA * (cells.positive("params_b") or 0.0)
    room = _STATE_SHARE * (accelerator.memory_bytes or 80 * GB)
    return int(2 ** math.ceil(math.log2(max(held / room, 1.0))))


@lru_cache(maxsize=256)
def _as_tested(
    name: str, memory_gb: float | None, bandwidth_tb_s: float | None, power_cap_w: float | None
) -> Accelerator:
    accelerator = accelerators.by_id(name)
    changes: dict[str, float] = {}
    if memory_gb:
        changes["memory_bytes"] = memory_gb * GB
    if bandwidth_tb_s:
        changes["bandwidth_bytes_per_s"] = bandwidth_tb_s * TERA
    return with_power_cap(accelerator.model_copy(update=changes) if changes else accelerator, power_cap_w)


def _domain(accelerator: Accelerator, num_accelerators: int, cells: Cells) -> int:
    """Number of accelerators that share one fast fabric: a slice of a torus, an equal part of a rack, else a node."""
    scale_up = accelerator.scale_up
    if scale_up is not None and is_torus(scale_up.kind):
        slices = re.search(r"(\d+) slice", cells.text("interconnect"))
        return max(1, min(num_accelerators // (int(slices[1]) if slices else 1), scale_up.max_domain))
    if scale_up is not None and scale_up.max_domain > accelerator.node_size:
        widest = min(scale_up.max_domain, num_accelerators)
        return next(size for size in range(widest, 0, -1) if num_accelerators % size == 0)
    return min(cells.degree("gpus_per_node") or accelerator.node_size, num_accelerators)


_FASTEST_PORT_GBIT: Final = 800
_MOST_PORTS: Final = 16
"""Most network ports of one node; a larger number in a text counts another thing."""


def _network(text: str, per_node: int) -> float:
    """Network bandwidth of one accelerator that a line of text states [bytes/s]; 0 if it states none.

    Read are `8x400Gb`, `4x ConnectX-7 IB NDR 400Gb/Sec` and `800 Gb/s inter-node`, ports of one node; storage and
    management networks are passed over.
    """
    for part in re.split(r"[|,;]", text.lower()):
        if re.search(r"storage:|management|gig ", part) and "compute:" not in part:
            continue
        part = part.split("compute:")[-1]
        ports = re.search(r"\b(\d+)\s*x(?=[\s\d]).*?\b(\d+)\s*g(?:b|bps|be|bit|\b)", part.replace("x", "x "))
        if ports and int(ports[1]) <= _MOST_PORTS and int(ports[2]) <= _FASTEST_PORT_GBIT:
            return int(ports[1]) * float(ports[2]) * GIGA / BITS_PER_BYTE / per_node
        whole = re.search(r"\b(\d+)\s*g(?:b|bps|bit)(?:/s)?\s*(?:inter-node|per node)", part)
        if whole:
            return float(whole[1]) * GIGA / BITS_PER_BYTE / per_node
    return 0.0
