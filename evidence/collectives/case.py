"""Published collective measurement as a case: its columns, parsed into a group and a message."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from advisor.catalog import accelerators
from advisor.catalog.errors import InputFileError, UnknownNameError
from advisor.catalog.schema import Accelerator, Calibration
from advisor.evidence.prediction import UnsupportedCaseError
from advisor.evidence.table import Cells
from advisor.simulator.calibrated_device import calibrated_accelerator
from advisor.simulator.collectives.fabric_text import describe
from advisor.simulator.collectives.topology import Topology

INPUT_COLUMNS: Final = ("case_id", "gpu", "n_gpus", "nodes", "fabric", "nvls", "collective", "msg_bytes")
"""Columns that a prediction may read; notes, source, source_ref and measured values are not among them."""
METRICS: Final = ("time_us", "algbw_gbs", "busbw_gbs")
COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
EXPERT_EXCHANGES: Final = ("ep_dispatch", "ep_combine")
PEAK_BYTES: Final = 8 * 2**30
"""Message size that stands for a statement of peak bandwidth [bytes]."""

_AMD_DEFAULT: Final = "mi355x"
"""Accelerator assumed if only AMD's own network cards are named; it is sold with them."""


@dataclass(frozen=True, slots=True)
class CollectiveCase:
    """One collective measurement to predict."""

    case_id: str
    collective: str
    topology: Topology
    num_bytes: float | None
    """Message size [bytes]; None if only a peak bandwidth is stated."""
    assumptions: tuple[str, ...] = ()


def parse_case(
    row: Mapping[str, str], row_number: int, calibration: Calibration | None = None
) -> CollectiveCase:
    """Return a case from a CSV row; blanks mean unknown. A calibration of its accelerator gives the links their rate.

    Raises: InputFileError: a field is not a number of the right kind or the collective is unknown; names row and field.
    UnsupportedCaseError: the accelerator is not named or not in the catalog. AdvisorError: a figure of the calibration
    is implausible.

    Columns: see docs/collectives.md.
    """
    cells = Cells(row, row_number)
    collective = cells.text("collective")
    if collective not in (*COLLECTIVES, *EXPERT_EXCHANGES):
        raise InputFileError(
            f"row {row_number}: collective {collective!r} is not known",
            fix="use one of " + ", ".join((*COLLECTIVES, *EXPERT_EXCHANGES)),
        )
    num_bytes = cells.positive("msg_bytes")
    num_ranks = cells.degree("n_gpus")
    num_nodes = cells.degree("nodes")
    if num_ranks is not None and num_nodes is not None and num_nodes > num_ranks:
        raise InputFileError(
            f"row {row_number}: {num_ranks} accelerators in {num_nodes} nodes",
            why="a node holds at least one",
            fix="correct n_gpus or nodes",
        )
    if num_ranks is not None and num_ranks < 2:
        raise UnsupportedCaseError("one rank alone does not communicate")
    accelerator, named = _accelerator(cells)
    topology, assumptions = describe(
        calibrated_accelerator(accelerator, calibration),
        cells.text("fabric"),
        num_ranks,
        num_nodes,
        cells.text("nvls"),
    )
    return CollectiveCase(cells.text("case_id"), collective, topology, num_bytes, (*named, *assumptions))


def _accelerator(cells: Cells) -> tuple[Accelerator, tuple[str, ...]]:
    """Return the accelerator, and the assumption made if only the network tells its vendor."""
    name = cells.text("gpu")
    if not name and "amd" in cells.text("fabric").lower():
        return accelerators.by_id(_AMD_DEFAULT), (_AMD_DEFAULT,)
    if not name:
        raise UnsupportedCaseError("the accelerator is not named")
    try:
        return accelerators.get(name).record, ()
    except UnknownNameError as error:
        raise UnsupportedCaseError(f"accelerator {name!r} is not in the catalog") from error
