"""What a row leaves open where its machine is somebody's own: slots of cards, of the server, and how clients keep step.

A row with a power limit is taken for one: whoever rents a machine cannot set it.
"""

from typing import Final

from advisor.catalog.schema import Accelerator, Engine
from advisor.evidence.serving.case import ServingCase
from advisor.evidence.serving.lengths import CaseLengths, lengths_of
from advisor.simulator.serving import FixedLengths

_GRAPHICS_LANES: Final = 16
"""PCIe lanes that a desktop processor gives to graphics cards."""
_FEWEST_LANES: Final = 4
"""What boards and risers leave to each card where more than four share them."""
_SERVER_SLOTS: Final = {"llama.cpp": 8}
"""Sequences at once that owners start a server with whose own default is one slot or a few: what was published for 16
and 32 clients of llama-server is the throughput of 8 within 6 %, and the others wait a whole answer or three."""


def in_own_machine(accelerator: Accelerator, num_gpus: int, power_cap_w: float | None) -> Accelerator:
    """The accelerator in its slot: desktop cards under a power limit share the 16 lanes of a desktop processor.

    Servers give every card all of its lanes. Cards that read each other over PCIe are made for servers and
    workstations, where lanes are not scarce.

    Assumes: boards divide lanes evenly: 8 for each of two cards, 4 for each of four, never fewer.
    Raises: ValueError: there is no accelerator.
    Source: Intel Core and AMD Ryzen datasheets: one x16, two x8 or, by risers, four x4 for graphics.
    """
    if num_gpus < 1:
        raise ValueError(f"a machine needs at least one accelerator, not {num_gpus}")
    if power_cap_w is None or accelerator.pcie_peer_to_peer or accelerator.pcie_lanes is None:
        return accelerator
    lanes = max(_FEWEST_LANES, _GRAPHICS_LANES // num_gpus)
    return accelerator.model_copy(update={"pcie_lanes": min(lanes, accelerator.pcie_lanes)})


def closed_loop_lengths(case: ServingCase) -> CaseLengths:
    """Lengths of a closed loop's requests, where a client on the owner's machine keeps its slots in step.

    Equal prompts that were sent together end together, and the next ones wait for each other: no network and no
    other user puts them out of step.

    Raises: AdvisorError: no tokens in or out.
    Source: own assumption; the median TTFT that an owner measured grows with the clients as bursts make it.
    """
    found = lengths_of(case)
    if case.power_cap_w is None or case.length_dist != "fixed":
        return found
    return FixedLengths(case.isl, case.osl)


def server_slots(case: ServingCase, engine: Engine) -> int | None:
    """Sequences at once of a server that a row says nothing of; None where all clients find room.

    Source: own assumption, see above.
    """
    slots = _SERVER_SLOTS.get(engine.id)
    if case.power_cap_w is None or slots is None or case.load != "closed":
        return None
    return min(slots, case.concurrency or slots)
