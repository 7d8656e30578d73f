"""Next parts for a machine that a list describes: what a sum adds to it."""

from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog import parts
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.part_prices import PriceBook
from advisor.catalog.schema.part import Case, Cooler, Storage
from advisor.workstation.assembly import Assembly
from advisor.workstation.knee import speed_of
from advisor.workstation.plan import Build, Question
from advisor.workstation.planner import plan

USUAL_UPGRADE_USD: Final = 1000.0
"""Sum for which next parts are shown if a question names none [USD]: a used card with 24 GB. Own choice."""
_SHOWN: Final = 2


def with_unnamed_rest(machine: Assembly) -> Assembly:
    """Return a machine that runs with the case, the cooler and the drive that its owner does not name.

    Assumes: a list with CPU, board and memory is that of a machine that runs; the case has room for any card.
    """
    if machine.cpu is None or machine.board is None or machine.memory is None:
        return machine
    socket = machine.cpu.series.socket
    towers = [case for case in parts.planner_parts(Case) if not case.open_frame]
    coolers = [cooler for cooler in parts.planner_parts(Cooler) if socket in cooler.sockets]
    boards = tuple({name for case in towers for name in case.boards})
    room = max(towers, key=lambda case: (case.expansion_slots, case.max_gpu_m))
    case = room.model_copy(update={"name": "case that you have", "boards": boards})
    cooler = coolers[-1].model_copy(update={"name": "cooler that you have"}) if coolers else None
    drive = parts.planner_parts(Storage)[0].model_copy(update={"name": "drive that you have"})
    return replace(
        machine,
        case=machine.case or case,
        cooler=machine.cooler or cooler,
        storage=machine.storage or drive,
    )


@dataclass(frozen=True, slots=True)
class Upgrades:
    """Machines that a sum of money makes of one that the user has."""

    usd: float
    """Sum that buys the next parts [USD]."""
    is_usual: bool
    """Whether the sum is the usual one, as the question names none."""
    builds: tuple[Build, ...]
    """Machines with the next parts, the fastest first; none if no part for the money makes it faster."""


def best_upgrades(
    machine: Assembly, question: Question, book: PriceBook, usd: float, present_tokens_per_s: float = 0.0
) -> Upgrades:
    """Return the machines that a sum of money [USD], or the usual sum if it is 0, makes of one that the user has, if
    they are faster than it is now [tokens/s]."""
    spent = usd or USUAL_UPGRADE_USD
    asked = replace(question, have=with_unnamed_rest(machine), budget_usd=spent, systems=False)
    try:
        found = plan(asked, book).builds
    except InfeasibleError:
        found = ()
    faster = (build for build in found if build.total_usd and speed_of(build) > present_tokens_per_s)
    kept = sorted(faster, key=speed_of, reverse=True)
    return Upgrades(spent, not usd, tuple(kept[:_SHOWN]))
