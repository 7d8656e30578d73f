"""Options that say what an answer must keep and what it may use: of every command that decides."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from typer import Option

OBJECTIVES: Final = "Objectives"
LIMITS: Final = "What the answer may use"


def _objective(metavar: str, text: str, default: bool = True, **more: Any) -> Any:
    return Option(metavar=metavar, help=text, rich_help_panel=OBJECTIVES, show_default=default, **more)


def _limit(metavar: str, text: str, default: bool = False, **more: Any) -> Any:
    return Option(metavar=metavar, help=text, rich_help_panel=LIMITS, show_default=default, **more)


Top = Annotated[int, Option(metavar="N", min=1, max=100, help="Accelerators to rank.")]


def _level(text: str) -> Any:
    return _objective("TIME", text, False)


@dataclass(frozen=True, slots=True)
class Objectives:
    """What the answer must keep, as typed."""

    ttft_p99: Annotated[
        str | None, _level("Time to the first token that 99 % of requests keep.  [default: (2s)]")
    ] = None
    tpot_p99: Annotated[
        str | None, _level("Time per output token that 99 % of requests keep.  [default: (100ms)]")
    ] = None
    ttft_p95: Annotated[str | None, _level("The same for 95 % of requests.")] = None
    ttft_p50: Annotated[str | None, _level("The same for half of them.")] = None
    tpot_p95: Annotated[str | None, _level("Time per output token that 95 % of requests keep.")] = None
    tpot_p50: Annotated[str | None, _level("The same for half of them.")] = None
    itl_p99: Annotated[str | None, _level("Gap that 99 % of tokens keep to the one before.")] = None
    e2e_p99: Annotated[str | None, _level("Time to the whole answer that 99 % of requests keep.")] = None
    headroom: Annotated[
        float,
        _objective(
            "FRACTION", "Part of the confirmed capacity that stays free; 0 for benchmarks.", min=0, max=0.9
        ),
    ] = 0.2
    redundancy: Annotated[
        Literal["none", "n+1"], _objective("RULE", "n+1: one replica more than the load needs.")
    ] = "none"
    budget: Annotated[
        str | None,
        _objective(
            "USD",
            "At most so much: 13.7/h or 10000/month for serving; in all for training. "
            "Alone it asks how much traffic that buys.",
            False,
        ),
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
    tenancy: Annotated[
        str, _limit("KIND,...", "dedicated, shared, unknown (hosts of other people).", True)
    ] = "dedicated"
    region: Annotated[
        str | None,
        _limit("NAME,...", "Only offers there: a country (de) or the beginning of a region (us-east)."),
    ] = None
    residency: Annotated[
        str | None, _limit("PLACE", "Only where data may stay: eu, or countries (de,fr).")
    ] = None
    max_price_age: Annotated[
        int | None, _limit("DAYS", "Only prices that were read within so many days.", min=0, max=100_000)
    ] = None
    max_gpus: Annotated[
        int, _limit("N", "Accelerators of one replica at most.", True, min=1, max=100_000)
    ] = 64
    price_file: Annotated[Path | None, _limit("CSV", "Your own prices, which win over the catalog's.")] = None
