"""One published collective measurement as a question: its columns, parsed into a group and a message."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog.accelerators import by_id
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import BITS_PER_BYTE, GB, GIGA, MICROSECOND_S
from advisor.simulator.collectives.topology import INFINIBAND_HOP_S, Topology, topology_of

INPUT_COLUMNS: Final = ("case_id", "gpu", "n_gpus", "nodes", "fabric", "nvls", "collective", "msg_bytes")
"""All that a prediction may see: notes, source, source_ref and what was measured are not among them."""
METRICS: Final = ("time_us", "algbw_gbs", "busbw_gbs")
COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
EXPERT_EXCHANGES: Final = ("ep_dispatch", "ep_combine")
ASSUMED_NODES: Final = 4
"""Nodes of a run over a network whose size the source does not give."""
PEAK_BYTES: Final = 8 * 2**30
"""Message of a statement of peak bandwidth."""

_EFA_HOP_S: Final = {100.0: 27.0 * MICROSECOND_S, 200.0: 19.0 * MICROSECOND_S, 400.0: 15.0 * MICROSECOND_S}
"""Small-message step by rate of one adapter [Gb/s], from two-node sweeps on p5 and p5en instances."""
_EFA_FIRST_HOP_S: Final = 70.0 * MICROSECOND_S
"""The first generation, four adapters of 100 Gb/s in a node (p4d, p4de)."""
_EFA_EFFICIENCY: Final = 0.96
"""Bulk rate of EFA relative to InfiniBand, from the same sweeps."""
_NIC_GBIT: Final = {"hdr": 200.0, "ndr": 400.0, "xdr": 800.0, "edr": 100.0, "cx7": 400.0, "cx8": 800.0}
_AMD_DEFAULT: Final = "mi355x"
"""Sold with AMD's own network cards, the only clue that some results give."""
_NODE_RANKS: Final = 8
_TRAY_RANKS: Final = 4
"""Accelerators in one tray of a rack-scale system."""


@dataclass(frozen=True, slots=True)
class CollectiveCase:
    """One point to predict."""

    case_id: str
    collective: str
    topology: Topology
    num_bytes: float | None
    """None where only a peak bandwidth is stated."""
    assumptions: tuple[str, ...] = ()


class UnsupportedCaseError(Exception):
    """The row is well formed but asks for something that is not modelled; the message says what."""


def parse_case(row: Mapping[str, str], row_number: int) -> CollectiveCase:
    """A case from a CSV row; blanks mean unknown.

    Raises: InputFileError: a field is not a number of the right kind or the collective is unknown; names row and
        field. UnsupportedCaseError: the accelerator is not named or not in the catalog.
    Source: own definition of the columns, see docs/collectives.md.
    """
    collective = _text(row, "collective")
    if collective not in (*COLLECTIVES, *EXPERT_EXCHANGES):
        raise InputFileError(
            f"row {row_number}: collective {collective!r} is not known",
            fix="use one of " + ", ".join((*COLLECTIVES, *EXPERT_EXCHANGES)),
        )
    num_bytes = _number(row, "msg_bytes", row_number)
    num_ranks, num_nodes = _number(row, "n_gpus", row_number), _number(row, "nodes", row_number)
    accelerator, named = _accelerator(row)
    topology, assumptions = describe(
        accelerator,
        _text(row, "fabric"),
        None if num_ranks is None else int(num_ranks),
        None if num_nodes is None else int(num_nodes),
        _text(row, "nvls"),
    )
    return CollectiveCase(_text(row, "case_id"), collective, topology, num_bytes, (*named, *assumptions))


def describe(
    accelerator: Accelerator, fabric: str, num_ranks: int | None, num_nodes: int | None, nvls: str = ""
) -> tuple[Topology, tuple[str, ...]]:
    """The group that a line of text such as `NVLink4 + IB NDR 8x400` stands for, and what had to be assumed.

    Assumes: a network named without ports is the accelerator's usual one; ports are per node.
    Source: vocabulary of published nccl-tests results.
    """
    words = fabric.lower()
    assumptions: list[str] = []
    networked = bool(
        re.search(r"efa|infiniband|\bib\b|roce|rdma|hdr|ndr|\bcx\d|tcpx|ethernet|gbe|qsfp", words)
    )
    per_node = _ranks_per_node(accelerator, words, num_ranks, num_nodes, networked)
    if num_ranks is None:
        num_ranks = per_node * (num_nodes or (ASSUMED_NODES if networked and "mnnvl" not in words else 1))
        assumptions.append(f"{num_ranks} ranks")
    topology = topology_of(accelerator, num_ranks, ranks_per_node=per_node)
    topology = _intra(topology, words, nvls)
    if topology.num_nodes > 1:
        topology, assumed = _network(topology, words)
        assumptions.extend(assumed)
    return topology, tuple(assumptions)


def _ranks_per_node(
    accelerator: Accelerator, words: str, num_ranks: int | None, num_nodes: int | None, networked: bool
) -> int:
    """Ranks that share one scale-up domain: a rack with multi-node NVLink, else what a node holds."""
    domain = accelerator.scale_up.max_domain if accelerator.scale_up else 1
    if "mnnvl" in words:
        return domain
    if num_ranks is not None and (num_nodes or not networked):
        return -(-num_ranks // (num_nodes or 1))
    return _TRAY_RANKS if domain > _NODE_RANKS else _NODE_RANKS


def _intra(topology: Topology, words: str, nvls: str) -> Topology:
    """What the text says of the scale-up side: switched sums on or off, peer access, PCIe instead of NVLink."""
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
    return replace(topology, in_network_reduction=in_switch, peer_to_peer=peer)


def _network(topology: Topology, words: str) -> tuple[Topology, tuple[str, ...]]:
    """Network rate per rank and step between nodes from the text."""
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
        step = _EFA_HOP_S.get(gbit or 200.0, INFINIBAND_HOP_S)
        if gbit == 100.0 and ports <= 4:
            step = _EFA_FIRST_HOP_S
    shared = bool(re.search(r"sharp|collnet", words))
    return replace(
        topology, inter_bytes_per_s=per_rank, inter_latency_s=step, network_reduction=shared
    ), assumed


def _ports(words: str, ranks_in_node: int) -> tuple[float, float | None]:
    """Ports of a node and Gb/s of one: `8x400Gb`, `NDR 8x400`, `4x HDR200`, `200Gb`, `CX7`; (1, None) if not said."""
    found = re.search(r"(\d+)\s*x\s*(?:hdr|ndr|xdr|edr|ib|roce)?\s*-?(\d+)\s*(?:g|/|\b)", words)
    if found:
        return float(found[1]), float(found[2])
    named = re.search(r"(\d+)\s*x\s*(hdr|ndr|xdr|edr)", words)
    if named:
        return float(named[1]), _NIC_GBIT[named[2]]
    single = re.search(r"\b(\d+)\s*g(?:b|be|bps|bit)?\b", words)
    if single:
        return float(ranks_in_node), float(single[1])
    for name, rate in _NIC_GBIT.items():
        if name in words:
            return float(ranks_in_node), rate
    return 1.0, None


def _accelerator(row: Mapping[str, str]) -> tuple[Accelerator, tuple[str, ...]]:
    """The accelerator, and the assumption where only its maker can be told from the network."""
    name = _text(row, "gpu")
    if not name and "amd" in _text(row, "fabric").lower():
        return by_id(_AMD_DEFAULT), (_AMD_DEFAULT,)
    if not name:
        raise UnsupportedCaseError("the accelerator is not named")
    try:
        return by_id(name), ()
    except UnknownNameError as error:
        raise UnsupportedCaseError(f"accelerator {name!r} is not in the catalog") from error


def _text(row: Mapping[str, str], name: str) -> str:
    return (row.get(name) or "").strip()


def _number(row: Mapping[str, str], name: str, row_number: int) -> float | None:
    raw = _text(row, name)
    if not raw:
        return None
    try:
        value = float(raw)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise InputFileError(
            f"row {row_number}: {name} is {raw!r}", why="a positive number is needed", fix=f"correct {name}"
        )
    return value
