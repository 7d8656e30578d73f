"""All-reduce as serving engines do it inside one scale-up domain: direct reads of the peers' buffers."""

import numpy as np

from advisor.catalog.collectives import collective
from advisor.simulator.collectives.alpha_beta import FloatArray
from advisor.simulator.collectives.topology import Topology


def custom_all_reduce_s(sizes: FloatArray, topology: Topology, engine: str = "any") -> list[FloatArray]:
    """Times of an engine's one-shot, two-shot and multicast kernels [s]; empty where the engine has none.

    one-shot: every rank reads all peers' buffers, size · (n − 1) over the link; two-shot: reduce-scatter and
    all-gather, 2 · size · (n − 1) / n; multicast: through the switch, size · (1 + 1/n). Each starts after
    base + (n − 1) · step.

    Assumes: captured in a CUDA graph; not used over PCIe by more than two ranks, nor without peer access.
    Error: docs/collectives.md.
    Source: vLLM csrc/custom_all_reduce.cuh; parameters from catalog/data/efficiency/collectives.toml.
    """
    n = topology.num_ranks
    if topology.intra_fabric.startswith("pcie") and (n > 2 or not topology.peer_to_peer):
        return []
    parameters = collective(topology.fit_fabric, "all_reduce", f"custom-{engine}").record.parameters
    wires = custom_wire_factors(n)
    return [
        np.asarray(
            parameters[f"base_{kind}_s"]
            + (n - 1) * parameters[f"step_{kind}_s"]
            + sizes * (wire / (topology.intra_bytes_per_s * parameters[f"efficiency_{kind}"])),
            dtype=np.float64,
        )
        for kind, wire in wires.items()
        if f"efficiency_{kind}" in parameters and (kind != "multicast" or topology.in_network_reduction)
    ]


def custom_wire_factors(num_ranks: int) -> dict[str, float]:
    """Bytes over a rank's link per byte of the buffer, by kind of kernel.

    Source: counts of what each kernel reads and writes.
    """
    n = num_ranks
    return {"one_shot": float(n - 1), "two_shot": 2.0 * (n - 1) / n, "multicast": 1.0 + 1.0 / n}
