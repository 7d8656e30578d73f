"""Fabric texts: the line by which published results name their fabric, read into a topology."""

import re
from dataclasses import replace
from typing import Final

from advisor.catalog.schema import Accelerator
from advisor.catalog.units import BITS_PER_BYTE, GB, GIGA, MICROSECOND_S
from advisor.simulator.collectives.topology import (
    INFINIBAND_HOP_S,
    Slots,
    Topology,
    pcie_bytes_per_s,
    topology_of,
)

ASSUMED_NODES: Final = 4
"""Number of nodes of a run over a network if the source does not give it."""
_EFA_HOP_S: Final = {100.0: 27.0 * MICROSECOND_S, 200.0: 19.0 * MICROSECOND_S, 400.0: 15.0 * MICROSECOND_S}
"""Small-message step by rate of one adapter [Gb/s] in [s], from two-node sweeps on p5 and p5en instances."""
_EFA_FIRST_HOP_S: Final = 70.0 * MICROSECOND_S
"""Small-message step of the first generation [s]: four adapters of 100 Gb/s in a node (p4d, p4de)."""
_EFA_EFFICIENCY: Final = 0.96
"""Bulk rate of EFA relative to InfiniBand, from the same sweeps."""
_SOCKETS: Final = re.compile(r"\btcp\b|\bsockets?\b")
_SOCKET_FRACTION: Final = 0.45
"""Fraction of a node's rate that NCCL reaches over sockets where several ranks share its ports: 4 to 6 of 12.5 GB/s
with eight V100s a node (NVIDIA/nccl issue 450), 14.5 and 22 of 32 Gb/s with eight GPUs a node (issue 209)."""
_SOCKET_FRACTION_OF_ONE: Final = 0.97
"""Fraction of a node's rate that NCCL reaches over sockets with one rank a node: 31 of 32 Gb/s (issue 209)."""
_SOCKET_HOP_S: Final = 35.0 * MICROSECOND_S
"""Small-message step over sockets [s]. Own estimate: half of a round trip of 50 µs through the kernel, and copies to
and from host memory; between the steps of EFA's later generations and its first."""
_NETWORK: Final = re.compile(
    r"efa|infiniband|\bib\b|roce|rdma|[hnxe]dr|\bcx\d|\btcp|\bsockets?|ethernet|gbe|gbps|qsfp|ainic|sharp|slingshot|spectrum"
)
_INSIDE: Final = re.compile(
    r"nvlink|nvswitch|nvls|mnnvl|pcie|xgmi|infinity fabric|\bp2p\b|\bici\b|neuronlink"
)
_SINGLE: Final = re.compile(r"(?<![x×*] )(?<![x×*\d])(\d+)\s*g(?:b|be|bps|bit|bits)?(?:/s|ps)?\b")
"""Rate of one port without the number of ports."""
_OF_RANK: Final = re.compile(r"(?:per|each|a|/)\s*(?:gpu|accelerator|rank|card|device)\b")
_SAYS_NODE: Final = r"(?:per|each|a|/)\s*(?:node|server|machine|host|box)\b"
_OF_NODE: Final = re.compile(rf"efa|\btcp\b|ethernet|gbe\b|{_SAYS_NODE}")
_TOLD: Final = re.compile(rf"{_OF_RANK.pattern}|{_SAYS_NODE}|\d\s*[x×]|[x×]\s*\d")
"""Words that leave open neither how many ports a node has nor whose a rate is."""
_ETHERNET: Final = re.compile(r"ethernet|gbe\b")
_RDMA: Final = re.compile(r"roce|rdma|efa|infiniband|\bib\b|spectrum")
_RATE: Final = re.compile(r"\b\d+\s*g(?:b|bit)?(?:/s|ps)?\b")
KNOWN_NETWORKS: Final = (
    "InfiniBand NDR 8x400Gb",
    "InfiniBand HDR 8x200Gb",
    "RoCE 8x400Gb",
    "EFA 32x100Gb",
    "EFA 16x200Gb",
    "TCP 25Gb",
    "Ethernet 100Gb per node",
    "NVLink",
    "MNNVL",
    "PCIe Gen5",
)
"""Examples of the network texts that are understood, one of each kind."""
_SLOWEST_PORT_GBIT: Final = 10.0
_FASTEST_PORT_GBIT: Final = 800.0
_NIC_GBIT: Final = {"hdr": 200.0, "ndr": 400.0, "xdr": 800.0, "edr": 100.0, "cx7": 400.0, "cx8": 800.0}


def uses_sockets(fabric: str) -> bool:
    """Whether a text names TCP or sockets, and no RDMA. Source: own definition."""
    words = fabric.lower()
    return bool(_SOCKETS.search(words)) and not _RDMA.search(words)


def leaves_transport_open(fabric: str) -> bool:
    """Whether a text names Ethernet with neither sockets nor RDMA: sockets reach less of a wire. Source: own
    definition."""
    words = fabric.lower()
    return bool(_ETHERNET.search(words)) and not (_RDMA.search(words) or _SOCKETS.search(words))


def join_nodes(
    topology: Topology, accelerator: Accelerator, ranks_per_node: int | None, fabric: str
) -> Topology:
    """Return a group of ranks whose nodes are joined by the network that a text describes; as it is in one node.

    Ports are those of a whole node of `ranks_per_node` accelerators, or of the accelerator's usual one: a group of
    fewer shares them with the others.

    Source: as describe.
    """
    if topology.num_nodes < 2:
        return topology
    size = ranks_per_node or accelerator.node_size
    whole = replace(topology, num_ranks=2 * size, ranks_per_node=size)
    found, _ = _network(whole, accelerator, fabric.lower())
    return replace(
        topology,
        inter_bytes_per_s=found.inter_bytes_per_s,
        inter_latency_s=found.inter_latency_s,
        network_reduction=found.network_reduction,
    )


def is_understood(fabric: str) -> bool:
    """Whether a text names a network, a fabric inside machines, or a rate. Source: own definition."""
    words = fabric.lower()
    return bool(_NETWORK.search(words) or _INSIDE.search(words) or _RATE.search(words))


def describe(
    accelerator: Accelerator, fabric: str, num_ranks: int | None, num_nodes: int | None, nvls: str = ""
) -> tuple[Topology, tuple[str, ...]]:
    """Return the group that a line of text such as `NVLink4 + IB NDR 8x400` stands for, and the assumptions made.

    Assumes: a network named without ports is the accelerator's usual one; ports are per node.
    Source: vocabulary of published nccl-tests results.
    """
    words = fabric.lower()
    assumptions: list[str] = []
    accelerator = _as_wired(accelerator, words)
    networked = bool(_NETWORK.search(words)) or bool(_RATE.search(words) and not _INSIDE.search(words))
    per_node = _ranks_per_node(accelerator, words, num_ranks, num_nodes, networked)
    if num_ranks is None:
        num_ranks = per_node * (num_nodes or (ASSUMED_NODES if networked and "mnnvl" not in words else 1))
        assumptions.append(f"{num_ranks} ranks")
    topology = topology_of(accelerator, num_ranks, ranks_per_node=per_node)
    topology = _intra(topology, words, nvls)
    if topology.num_nodes > 1:
        topology, assumed = _network(topology, accelerator, words)
        assumptions.extend(assumed)
    return topology, tuple(assumptions)


def _as_wired(accelerator: Accelerator, words: str) -> Accelerator:
    """Return the accelerator without bridges if the text names PCIe alone, and at the slots' generation."""
    changes: dict[str, object] = {}
    bridged = accelerator.scale_up is not None and accelerator.scale_up.is_bridge
    if "no nvlink" in words or (bridged and "pcie" in words and "nvlink" not in words):
        changes["scale_up"] = None
    slots = re.search(r"pcie\s*(?:gen)?\s*([3-6])\b", words)
    if slots and accelerator.pcie_generation:
        changes["pcie_generation"] = min(int(slots[1]), accelerator.pcie_generation)
    return accelerator.model_copy(update=changes)


def _ranks_per_node(
    accelerator: Accelerator, words: str, num_ranks: int | None, num_nodes: int | None, networked: bool
) -> int:
    """Number of ranks that share one scale-up domain: a rack with multi-node NVLink, else the ranks of a node."""
    if "mnnvl" in words:
        return accelerator.scale_up_domain
    if num_ranks is not None and (num_nodes or not networked):
        return -(-num_ranks // (num_nodes or 1))
    return accelerator.node_size


def _intra(topology: Topology, words: str, nvls: str) -> Topology:
    """Return the topology with the scale-up side that the text states: switched sums on or off, peer access, PCIe
    instead of NVLink."""
    in_switch = topology.in_network_reduction
    if (
        nvls in ("0", "0.0")
        or "nvls off" in words
        or "nvls_enable=0" in words
        or re.search(r"\bring\b", words)
    ):
        in_switch = False
    peer = topology.peer_to_peer
    if "no p2p" in words or "without p2p" in words:
        peer = False
    elif "p2p" in words:
        peer = True
    switched = "switch" in words and not re.search(r"no \w*switch", words)
    slots: Slots = "switch" if switched else "root"
    return replace(topology, in_network_reduction=in_switch, peer_to_peer=peer, slots=slots)


def _network(topology: Topology, accelerator: Accelerator, words: str) -> tuple[Topology, tuple[str, ...]]:
    """Return the topology with network rate per rank and step between nodes from the text, and the assumptions made.

    A rank sends no faster than over its accelerator's own PCIe link, however many ports its node has.
    """
    efa = "efa" in words
    ports, gbit = _ports(words, topology.ranks_in_node)
    assumed: tuple[str, ...] = ()
    if gbit is None:
        per_rank = topology.inter_bytes_per_s
        assumed = (f"{per_rank / GB * BITS_PER_BYTE:.0f} Gb/s network per accelerator",)
    else:
        per_rank = ports * gbit * GIGA / BITS_PER_BYTE / topology.ranks_in_node
    step = INFINIBAND_HOP_S
    if efa:
        per_rank *= _EFA_EFFICIENCY
        step = _EFA_HOP_S.get(gbit or 200.0, _EFA_HOP_S[200.0])
        if gbit == 100.0 and ports <= 4:
            step = _EFA_FIRST_HOP_S
    if gbit is not None and _SINGLE.search(words) and topology.ranks_in_node > 1 and not _TOLD.search(words):
        node = f"{ports * gbit:g} Gb/s for each node"
        rank = f"{ports * gbit / topology.ranks_in_node:g} Gb/s for each accelerator"
        first, second, other = (node, rank, "GPU") if ports == 1.0 else (rank, node, "node")
        assumed = (f"{first} ({second}); add 'per {other}' if it is a {other}'s",)
    if uses_sockets(words):
        per_rank *= _SOCKET_FRACTION if topology.ranks_in_node > 1 else _SOCKET_FRACTION_OF_ONE
        step = _SOCKET_HOP_S
    link = pcie_bytes_per_s(accelerator)
    if gbit is not None and link is not None and link < per_rank:
        slots = f"PCIe {accelerator.pcie_generation} x{accelerator.pcie_lanes}"
        rate = f"{link * BITS_PER_BYTE / GIGA:.0f} of {per_rank * BITS_PER_BYTE / GIGA:.0f} Gb/s"
        assumed = (*assumed, f"{rate} of network for each accelerator, what its {slots} carries")
        per_rank = link
    shared = bool(re.search(r"sharp|collnet", words))
    return replace(
        topology, inter_bytes_per_s=per_rank, inter_latency_s=step, network_reduction=shared
    ), assumed


def _ports(words: str, ranks_in_node: int) -> tuple[float, float | None]:
    """Return the ports of a node and the rate of one [Gb/s]; (1, None) if the text states no rate.

    Understood are `8x400Gb`, `NDR 8 x 400`, `400G x8`, `4x HDR200`, `8x NDR`, `200Gb` and `CX7` (a port per
    accelerator); a rate above any port's, of TCP or Ethernet, or `per node` is that of the whole node, unless it is
    `per GPU`.
    """
    found = re.search(r"\b(\d+)\s*[x×]\s*(?:[a-z]+-?)?\s*(\d+)\s*(?:g|/|\b)", words)
    if found and float(found[2]) >= _SLOWEST_PORT_GBIT:
        return float(found[1]), float(found[2])
    turned = re.search(r"\b(\d+)\s*g(?:b|be|bps|bit)?(?:/s|ps)?\s*[x×]\s*(\d+)\b", words)
    if turned:
        return float(turned[2]), float(turned[1])
    named = re.search(r"(\d+)\s*[x×]\s*(hdr|ndr|xdr|edr|cx\d)", words)
    if named and named[2] in _NIC_GBIT:
        return float(named[1]), _NIC_GBIT[named[2]]
    if single := _SINGLE.search(words):
        whole_node = float(single[1]) > _FASTEST_PORT_GBIT or bool(_OF_NODE.search(words))
        whole_node = whole_node and not _OF_RANK.search(words)
        return (1.0 if whole_node else float(ranks_in_node)), float(single[1])
    for name, rate in _NIC_GBIT.items():
        if name in words:
            return float(ranks_in_node), rate
    return 1.0, None
