"""Groups of accelerators as people name them: which, how many, in how many nodes."""

import re
from difflib import get_close_matches
from math import prod
from typing import Final

from advisor.catalog.accelerators import get
from advisor.catalog.errors import AdvisorError, UnknownNameError
from advisor.catalog.resolve import Chosen
from advisor.catalog.schema import Accelerator, Calibration
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.collectives import Topology, topology_of
from advisor.simulator.collectives.fabric_text import KNOWN_NETWORKS, describe, is_understood
from advisor.simulator.collectives.topology import usual_network

_NOTHING: Final = re.compile(r"(?<![\d.])0+(?:\.0*)?\s*(?:x|g(?:b|bit)?(?:/s|ps)?\b)", re.IGNORECASE)
"""Number of ports, or rate, that is zero."""
MOST_PER_NODE: Final = 9216
"""A pod of TPU v7; of boards with NVLink the largest has 72."""


def group_of(
    gpu: str, gpus: int, nodes: int | None, calibration: Calibration | None = None, network: str | None = None
) -> tuple[str, Topology, str]:
    """Return the accelerator's id, the group's topology (with the links that a calibration measured), and a note on
    what was understood. `network` describes it in words: EFA 32x100Gb, RoCE 8x400Gb, InfiniBand NDR SHARP.

    Raises: UnknownNameError: no accelerator, or no network, is called so.
    Raises: AdvisorError: the accelerators cannot be spread evenly over the nodes, or the calibration is implausible.
    """
    accelerator, note = get(gpu)
    if nodes is not None and gpus % nodes:
        raise AdvisorError(
            f"{gpus} accelerators cannot stand in {nodes} equal nodes",
            why=f"{gpus} is not a multiple of {nodes}",
            fix=f"--gpus {nodes * max(1, gpus // nodes)} or --nodes 1",
        )
    if nodes is not None and gpus // nodes > MOST_PER_NODE:
        raise AdvisorError(
            f"{gpus // nodes} accelerators in one node",
            why=f"the largest domain that is sold joins {MOST_PER_NODE}",
            fix=f"--nodes {-(-gpus // MOST_PER_NODE)} or more, or leave --nodes out",
        )
    measured = calibrated_accelerator(accelerator, calibration)
    topology = topology_of(measured, gpus, ranks_per_node=gpus // nodes if nodes else None)
    if network is not None:
        check_network(network)
        topology, assumed = describe(measured, network, gpus, nodes)
        note = "; ".join(filter(None, (note, ", ".join(f"taken: {words}" for words in assumed))))
    elif (between := usual_network(measured, topology)) is not None:
        note = "; ".join(filter(None, (note, f"{between.words}; --network says another")))
    return accelerator.id, topology, note


_COUNTS: Final = r"(?P<count>\d{1,6}(?:\s*[x×*]\s*\d{1,6})*)"
_TIMES: Final = re.compile(rf"{_COUNTS}\s*[x×*]\s*(?P<name>\S.*)", re.IGNORECASE)
_AHEAD: Final = re.compile(rf"{_COUNTS}\s+(?P<name>\S.*)", re.IGNORECASE)
_BEHIND: Final = re.compile(
    r"(?P<name>\S.*?)(?:\s*[×*:]\s*|\s+x\s*|\s*\(x?)(?P<count>\d{1,6})\)?", re.IGNORECASE
)


def count_accelerators(text: str) -> tuple[int | None, Chosen[Accelerator]]:
    """Return the number and the kind of accelerators: 8xh100-sxm, 8 H100, h100:8, 2x8xH100; None if no number is said.

    Raises: UnknownNameError: no accelerator is called so.
    """
    times = _TIMES.fullmatch(text)
    if times is None and _is_accelerator(text):
        return None, get(text)
    for found in (times, _AHEAD.fullmatch(text), _BEHIND.fullmatch(text)):
        for spelling in (found["name"], found["name"].removesuffix("s")) if found else ():
            if found is not None and _is_accelerator(spelling):
                return prod(map(int, re.findall(r"\d+", found["count"]))), get(spelling)
    return None, get(times["name"] if times else text)


def _is_accelerator(name: str) -> bool:
    try:
        get(name)
    except UnknownNameError:
        return False
    return True


def check_network(network: str) -> None:
    """Refuse a network that nothing is known of, or one without ports or without a rate.

    Raises: UnknownNameError: no network is called so. AdvisorError: a number of it is zero.
    """
    if _NOTHING.search(network):
        raise AdvisorError(
            f"--network {network}: a network of nothing",
            why="a number of ports or a rate is zero",
            fix='e.g. --network "InfiniBand 8x400Gb"',
        )
    if is_understood(network):
        return
    near = get_close_matches(network, KNOWN_NETWORKS, 1, 0.5)
    raise UnknownNameError(
        f"no network is called {network!r}",
        why="understood are InfiniBand, RoCE, EFA, Ethernet, TCP, NVLink and PCIe, with ports and rates",
        fix=f'--network "{near[0]}"' if near else 'e.g. --network "InfiniBand 8x400Gb"',
    )
