"""Options that say what an answer must keep and what it may rent, own and run: of every command that decides."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Option

OBJECTIVES: Final = "Objectives"
LIMITS: Final = "What the answer may use"


def _latency(text: str) -> Any:
    return Option(metavar="TIME", help=text, rich_help_panel=OBJECTIVES)


def _names(metavar: str, text: str) -> Any:
    return Option(metavar=metavar, help=text, rich_help_panel=LIMITS, show_default=False)


TtftP99 = Annotated[str, _latency("Time to the first token that 99 % of requests keep.")]
TpotP99 = Annotated[str, _latency("Time per output token that 99 % of requests keep.")]
Budget = Annotated[
    float | None,
    Option(
        metavar="USD",
        help="At most so much: an hour for serving, in all for training.",
        rich_help_panel=OBJECTIVES,
        show_default=False,
    ),
]
Gpus = Annotated[str | None, _names("ID,...", "Only these accelerators.")]
Providers = Annotated[str | None, _names("NAME,...", "Only these providers.")]
Engines = Annotated[str | None, _names("NAME,...", "Only these serving engines.")]
Precisions = Annotated[str | None, _names("FORMAT,...", "Only these weight formats; fp8 and more bits else.")]
Own = Annotated[str | None, _names("NxID,...", "Hardware that is there already: 8xh100-sxm.")]
Terms = Annotated[
    str,
    Option(
        metavar="TERM,...",
        help="on-demand, spot, reserved-1y, reserved-3y, community.",
        rich_help_panel=LIMITS,
    ),
]
MaxGpus = Annotated[
    int,
    Option(
        metavar="N", min=1, max=100_000, help="Accelerators of one replica at most.", rich_help_panel=LIMITS
    ),
]
PriceFile = Annotated[Path | None, _names("CSV", "Your own prices, which win over the catalog's.")]
Top = Annotated[int, Option(metavar="N", min=1, max=100, help="Accelerators to rank.")]
GoalFile = Annotated[
    Path | None,
    Option(
        metavar="FILE.toml",
        help="Rank families of hardware by your weights of fit, cost, ecosystem and team.",
        rich_help_panel=OBJECTIVES,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Objectives:
    """What the answer must keep, as typed."""

    ttft_p99: TtftP99 = "2s"
    tpot_p99: TpotP99 = "100ms"
    budget: Budget = None
    goal: GoalFile = None


@dataclass(frozen=True, slots=True)
class Where:
    """What the answer may use, as typed: hardware, sellers, terms and prices, and what runs on it."""

    gpu: Gpus = None
    provider: Providers = None
    engine: Engines = None
    precision: Precisions = None
    own: Own = None
    term: Terms = "on-demand"
    max_gpus: MaxGpus = 64
    price_file: PriceFile = None
