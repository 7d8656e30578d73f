"""Options that say what an answer must keep and what it may use: of every command that decides."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Option

OBJECTIVES: Final = "Objectives"
LIMITS: Final = "What the answer may use"


def _objective(metavar: str, text: str, default: bool = True) -> Any:
    return Option(metavar=metavar, help=text, rich_help_panel=OBJECTIVES, show_default=default)


def _limit(metavar: str, text: str, default: bool = False, **more: Any) -> Any:
    return Option(metavar=metavar, help=text, rich_help_panel=LIMITS, show_default=default, **more)


Top = Annotated[int, Option(metavar="N", min=1, max=100, help="Accelerators to rank.")]


@dataclass(frozen=True, slots=True)
class Objectives:
    """What the answer must keep, as typed."""

    ttft_p99: Annotated[str, _objective("TIME", "Time to the first token that 99 % of requests keep.")] = "2s"
    tpot_p99: Annotated[str, _objective("TIME", "Time per output token that 99 % of requests keep.")] = (
        "100ms"
    )
    budget: Annotated[
        float | None,
        _objective("USD", "At most so much: an hour for serving, in all for training.", False),
    ] = None
    goal: Annotated[
        Path | None,
        _objective(
            "FILE.toml", "Rank families of hardware by your weights of fit, cost, ecosystem and team.", False
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Where:
    """What the answer may use, as typed: hardware, sellers, terms and prices, and what runs on it."""

    gpu: Annotated[str | None, _limit("ID,...", "Only these accelerators.")] = None
    provider: Annotated[str | None, _limit("NAME,...", "Only these providers.")] = None
    engine: Annotated[str | None, _limit("NAME,...", "Only these serving engines.")] = None
    precision: Annotated[
        str | None, _limit("FORMAT,...", "Only these weight formats; fp8 and more bits else.")
    ] = None
    own: Annotated[str | None, _limit("NxID,...", "Hardware that is there already: 8xh100-sxm.")] = None
    term: Annotated[
        str, _limit("TERM,...", "on-demand, spot, reserved-1y, reserved-3y, community.", True)
    ] = "on-demand"
    max_gpus: Annotated[
        int, _limit("N", "Accelerators of one replica at most.", True, min=1, max=100_000)
    ] = 64
    price_file: Annotated[Path | None, _limit("CSV", "Your own prices, which win over the catalog's.")] = None
