"""Expected rates of links between GPUs: switched and meshed fabrics, bridges over pairs, and PCIe."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from advisor.catalog import interconnects
from advisor.catalog.schema import Accelerator, Interconnect
from advisor.catalog.units import GIGA
from advisor.probes.expectations import Expectation, pcie_bytes_per_s, published_expectation
from advisor.probes.record import Measurement, ProbedMachine

LINK_BYTES_PER_S: Final = {
    "nvlink3-bridge-ga102": 14.0625 * GIGA,
    "nvlink2": 25 * GIGA,
    "nvlink3": 25 * GIGA,
    "nvlink4": 25 * GIGA,
    "nvlink5": 50 * GIGA,
}
"""Rate of one NVLink in one direction by the longest key that the fabric's kind begins with [bytes/s]
(stas00/ml-engineering)."""
PAIR_FRACTION: Final = {"nvlink": 0.84, "xgmi": 0.72}
"""Copy rate of a pair over its links: H100 84 %, H200 86 %, A100 92 %, GB200 83 %; AMD calls 48 of 64 GB/s usable."""
GROUP_FRACTION: Final = {"ring": 0.74, "nvls": 0.90}
"""Bus bandwidth of an all-reduce of 1 GiB over a GPU's links: H200 0.73 to 0.78, A100 0.78; NVLS 0.80 to 1.03."""
PCIE_PAIR_FRACTION: Final = 0.80
"""Copy rate of a pair over the PCIe link: RTX A6000 0.84, RTX PRO 6000 0.80 to 0.86 under one processor."""
HOST_PAIR_FRACTION: Final = 0.40
PCIE_GROUP_FRACTION: Final = 0.35
"""Bus bandwidth of an all-reduce over the PCIe link: eight RTX 5090 0.44 of PCIe 5, eight RTX PRO 6000 0.35 with NCCL's
defaults. The host decides, hence the wide bands."""
_LINKED_OVER_PCIE: Final = 1.2
_AS_FAST: Final = 0.7
"""Fraction of the fastest pair's rate from which on pairs count as equally fast: healthy pairs of one fabric differ by
3 %; across two processors PCIe loses 30 %, compared with a bridge 80 %."""
_PAIR: Final = re.compile(r"(\d+) to (\d+) of")


def fabric_of(accelerator: Accelerator) -> Interconnect | None:
    """Return the link technology between boards of this kind; None if there is only PCIe."""
    return interconnects.by_id(accelerator.scale_up.kind) if accelerator.scale_up else None


def num_links(accelerator: Accelerator) -> int | None:
    """Number of NVLinks of the board [count]: its rate over the rate of one link; None if it has none."""
    kind = accelerator.scale_up.kind if accelerator.scale_up else ""
    keys = [key for key in LINK_BYTES_PER_S if kind.startswith(key)]
    if not keys or accelerator.scale_up is None:
        return None
    return round(accelerator.scale_up.bytes_per_s / LINK_BYTES_PER_S[max(keys, key=len)])


def pair_of(measurement: Measurement) -> tuple[int, int] | None:
    """Return source and target of a copy between GPUs from its pattern, e.g. "2 GPUs, 0 to 1 of 8, peer access"."""
    found = _PAIR.search(measurement.pattern)
    return (int(found[1]), int(found[2])) if found else None


def pair_rates(measurements: Iterable[Measurement]) -> dict[tuple[int, int], float]:
    """Copy rate by pair [bytes/s], the slower direction for both."""
    rates: dict[tuple[int, int], float] = {}
    for m in measurements:
        pair = pair_of(m) if m.id == "peer.copy" else None
        if pair is not None and isinstance(m.value, float):
            key = (min(pair), max(pair))
            rates[key] = min(rates.get(key, m.value), m.value)
    return rates


def fast_groups(rates: Mapping[tuple[int, int], float]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of GPUs that reach each other nearly as fast as the fastest pair; slower pairs lie between
    groups."""
    limit = _AS_FAST * max(rates.values(), default=0.0)
    group = {gpu: {gpu} for pair in rates for gpu in pair}
    for (i, j), rate in rates.items():
        if rate >= limit and group[i] is not group[j]:
            group[i] |= group[j]
            for gpu in group[j]:
                group[gpu] = group[i]
    return tuple(sorted({tuple(sorted(members)) for members in group.values()}))


def linked_pairs(
    measurements: Iterable[Measurement], accelerator: Accelerator, machine: ProbedMachine | None
) -> set[tuple[int, int]]:
    """Return the pairs that a bridge joins: from the topology, else each GPU's fastest partner if its links are up.

    If the driver reports no links, pairs faster than PCIe allows count. A fabric that joins all boards gives an empty
    set. GPUs are numbered among the measured ones, as in patterns.
    """
    fabric = fabric_of(accelerator)
    if fabric is None or fabric.topology != "bridge":
        return set()
    gpus = machine.gpus if machine is not None else ()
    if machine is not None and machine.topology is not None:
        place = {gpu.index: number for number, gpu in enumerate(gpus)}
        joined = machine.topology.nvlinked_pairs()
        return {(place[i], place[j]) for i, j in joined if i in place and j in place}
    links = {number: gpu.num_nvlinks for number, gpu in enumerate(gpus)}
    best: dict[int, tuple[float, int]] = {}
    for m in measurements:
        pair = pair_of(m) if m.id == "peer.copy" else None
        if pair is not None and isinstance(m.value, float):
            best[pair[0]] = max(best.get(pair[0], (0.0, -1)), (m.value, pair[1]))
    limit = _LINKED_OVER_PCIE * (pcie_bytes_per_s(accelerator) or 0.0)
    return {
        (source, target)
        for source, (rate, target) in best.items()
        if links.get(source) or (links.get(source) is None and rate > limit)
    }


def expected_pair(accelerator: Accelerator, measurement: Measurement, is_bridged: bool) -> Expectation | None:
    """Expected rate of a copy from one GPU to another [bytes/s]: the fabric's, else that of PCIe."""
    fabric = fabric_of(accelerator)
    scale_up = accelerator.scale_up
    if fabric is None or scale_up is None or (fabric.topology == "bridge" and not is_bridged):
        return _over_pcie(accelerator, "through the host" in measurement.pattern)
    if known := published_expectation(accelerator, "peer.copy", 2):
        return known
    rate = scale_up.bytes_per_s
    if fabric.topology == "mesh":
        if "through the host" in measurement.pattern and fabric.kind == "nvlink":
            return _over_pcie(accelerator, True)  # the cube of eight V100s joins no GPU with all others
        rate = LINK_BYTES_PER_S.get(scale_up.kind, rate / max(1, scale_up.max_domain - 1))
    fraction = PAIR_FRACTION["xgmi" if fabric.kind.startswith("xgmi") else "nvlink"]
    return Expectation(fraction * rate, "estimate", f"estimate: {fraction:.0%} of the links between two GPUs")


def _over_pcie(accelerator: Accelerator, is_through_host: bool) -> Expectation | None:
    link = pcie_bytes_per_s(accelerator)
    if link is None:
        return None
    fraction = HOST_PAIR_FRACTION if is_through_host else PCIE_PAIR_FRACTION
    way = "through the host" if is_through_host else "peer to peer"
    source = f"estimate: {fraction:.0%} of the PCIe link, {way}"
    return Expectation(fraction * link, "host" if is_through_host else "estimate", source)


def expected_all_reduce(
    accelerator: Accelerator, num_ranks: int, algorithm: str, is_bridged: bool
) -> Expectation | None:
    """Expected bus bandwidth of an all-reduce of 1 GiB [bytes/s], by the fabric of the board."""
    fabric = fabric_of(accelerator)
    scale_up = accelerator.scale_up
    if fabric is None or scale_up is None or (fabric.topology == "bridge" and not is_bridged):
        link = pcie_bytes_per_s(accelerator)
        source = f"estimate: {PCIE_GROUP_FRACTION:.0%} of the PCIe link"
        return Expectation(PCIE_GROUP_FRACTION * link, "host", source) if link else None
    algorithm = "ring" if algorithm == "ring" or not fabric.in_network_reduction else "nvls"
    if known := published_expectation(accelerator, "collective.all_reduce", num_ranks, algorithm):
        return known
    rate = scale_up.bytes_per_s
    if fabric.topology == "mesh":
        rate *= min(1.0, (num_ranks - 1) / max(1, scale_up.max_domain - 1))
    fraction = GROUP_FRACTION[algorithm]
    source = f"estimate: {fraction:.0%} of a GPU's links ({fabric.id}, {algorithm})"
    return Expectation(fraction * rate, "estimate", source)
