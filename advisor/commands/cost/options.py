"""Options of `advisor cost`: what tokens cost rented, owned and through an API."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from typer import Option

from advisor.ask.inputs import without
from advisor.ask.options import (
    LOAD,
    Audience,
    Effect,
    ExtraOptions,
    Levers,
    LoadOptions,
    ModelName,
    ObjectiveOptions,
    Panel,
    Top,
    Where,
)
from advisor.cli.command import Studied, command

COMPARISON: Final = Panel("What it is compared with")


@command(
    "cost",
    uses_calibration=True,
    studied=Studied(
        best_of="rows", pareto=("min rows_usd_per_million_output_tokens",), left_out=("what_if",)
    ),
)
@dataclass(frozen=True, slots=True)
class CostInput:
    """Dollars per million prompt, cached and answer tokens: rented, owned, by API; fleets, break-evens, carbon."""

    model: ModelName
    tokens_per_day: Annotated[
        str | None, LOAD("N", "Prompt and answer tokens of a mean day: 50M, 5B.", "what the cheapest carries")
    ] = None
    shape: Annotated[
        str,
        LOAD(
            "NAME|FILE.toml",
            "How the day's load is spread: flat, chat, chat-large, reasoning, or your own levels.",
            True,
        ),
    ] = "flat"
    need: Audience = Audience()
    load: Annotated[LoadOptions, without(LoadOptions, "ramp", "trace_speed", "length_dist", "requests")] = (
        LoadOptions()
    )
    levers: Levers = Levers()
    objectives: Annotated[ObjectiveOptions, without(ObjectiveOptions, "goal")] = ObjectiveOptions()
    where: Annotated[Where, without(Where, "own", "max_context")] = Where()
    own: Annotated[
        str | None, COMPARISON("NxID", "Hardware to own: 8xh100-sxm.", "those with a purchase price")
    ] = None
    purchase_price: Annotated[
        float | None,
        COMPARISON("USD", "What one accelerator of --own costs you.", "the catalog's", max=1_000_000_000),
    ] = None
    years: Annotated[
        float | None, COMPARISON("N", "Years until owned hardware is sold.", "the catalog's", min=0.5, max=20)
    ] = None
    electricity: Annotated[
        float | None,
        COMPARISON("USD", "Dollars per kWh where owned hardware stands.", "that of the place", min=0, max=5),
    ] = None
    api: Annotated[str, COMPARISON("NAME,...", "API providers, all or none.", True)] = "all"
    api_price_file: Annotated[
        Path | None, COMPARISON("CSV", "Your own API prices, which win over the catalog's."), Effect.READS
    ] = None
    assumptions: Annotated[
        Path | None,
        COMPARISON("TOML", "Your own figures of ownership: electricity_usd_per_kwh = 0.09."),
        Effect.READS,
    ] = None
    beside: ExtraOptions = ExtraOptions()
    top: Top = 5
    what_if: Annotated[
        bool,
        Option(
            "--what-if", help="Controls on the page of -o FILE.html: other volumes, hours, prices, years."
        ),
    ] = False
