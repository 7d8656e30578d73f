"""Rate of copies between an accelerator and its host's memory, for caches, experts and training states."""

from typing import Final

from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import GB
from advisor.simulator.collectives.topology import PCIE_COPY_FRACTION, pcie_bytes_per_s

_COHERENT_LINK_BYTES_PER_S: Final = {"gh200": 450 * GB, "gb200": 225 * GB, "gb300": 225 * GB}
"""Rate of NVLink-C2C to the processor's memory, one direction, the share of one accelerator, by prefix of its id
[bytes/s]."""


def host_link_bytes_per_s(accelerator: Accelerator) -> float:
    """Rate at which an accelerator reads from host memory [bytes/s].

    0.83 · lanes · rate of the PCIe generation, or of the share of NVLink-C2C on boards that have it

    Raises: InfeasibleError: the record does not say how it is attached.
    Source: PCI-SIG rates; NVIDIA Grace Hopper and GB200 datasheets; 83 %: copies measured by the probes on PCIe 5 x16.
    """
    if accelerator.unified_memory and accelerator.bandwidth_bytes_per_s:
        return accelerator.bandwidth_bytes_per_s
    for beginning, coherent in _COHERENT_LINK_BYTES_PER_S.items():
        if accelerator.id.startswith(beginning):
            return coherent * PCIE_COPY_FRACTION
    if (rate := pcie_bytes_per_s(accelerator)) is None:
        raise InfeasibleError(f"how {accelerator.id} is attached to its host is not recorded")
    return rate
