"""Options of `advisor build` and `advisor build check`: money, the place where it stands, how it is used."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from typer import Argument, Option

from advisor.ask.options import AnyModel, Effect, Panel
from advisor.cli.command import Studied, command

PLACE: Final = Panel("Where it stands")
USE: Final = Panel("How it is used")
LIMITS: Final = Panel("What the machine may be")


@dataclass(frozen=True, slots=True)
class BuildConditions:
    """Purpose, place and use of a machine, as typed."""

    model: AnyModel = None
    workload: Annotated[
        Literal["serve", "finetune"], Option(help="What the machine is for; finetune is QLoRA of the model.")
    ] = "serve"
    min_lanes: Annotated[
        int, LIMITS("N", "Electrical PCIe lanes that each card needs.", min=1, max=16, show_default=True)
    ] = 4
    ecc: Annotated[bool, LIMITS(None, "Memory, board and CPU must correct errors.", True, "--ecc")] = False
    used: Annotated[bool, LIMITS(None, "Second-hand parts where their price is known.", True, "--used")] = (
        False
    )
    price_file: Annotated[
        Path | None, LIMITS("CSV", "Your own prices (part, usd, observed_on), which win."), Effect.READS
    ] = None
    circuit: Annotated[
        str | None,
        PLACE(
            "V/A",
            "Wall circuit: 120V/15A, 120V/20A, 230V/16A, 240V/20A.",
            show_default="120V/15A, as an assumption",
        ),
    ] = None
    room_cooling: Annotated[
        str | None,
        PLACE(
            "W",
            "Heat that the room loses without getting hot.",
            show_default="1500W, or what a larger circuit carries",
        ),
    ] = None
    max_noise: Annotated[
        float | None, PLACE("dB", "Noise at one metre, dB(A).", min=20, max=90, show_default="55.0")
    ] = None
    concurrency: Annotated[
        int, USE("N", "Streams at once.", True, "--concurrency", "--streams", min=1, max=256)
    ] = 1
    input_tokens: Annotated[int, USE("N", "Tokens of a prompt.", min=1, max=1_000_000, show_default=True)] = (
        2048
    )
    output_tokens: Annotated[
        int, USE("N", "Tokens of an answer.", min=1, max=1_000_000, show_default=True)
    ] = 512
    precision: Annotated[
        str | None, USE("FORMAT", "Weight format.", show_default="four bits, or the checkpoint's own")
    ] = None
    engine: Annotated[str | None, USE("NAME", "Only this engine.", show_default="the fastest that fits")] = (
        None
    )
    hours_per_day: Annotated[float, USE("H", "Hours of work a day.", min=0.1, max=24, show_default=True)] = (
        8.0
    )
    years: Annotated[float, USE("N", "Years until it is sold.", min=0.25, max=15, show_default=True)] = 3.0
    electricity: Annotated[
        float | None, USE("USD", "Dollars per kWh.", min=0, max=5, show_default="the catalog's")
    ] = None
    resale: Annotated[
        float | None,
        USE(
            "FRACTION",
            "Resale value after --years, as a fraction of the price.",
            min=0,
            max=1,
            show_default="the catalog's",
        ),
    ] = None


@command(
    "build",
    uses_calibration=True,
    has_drawing=True,
    studied=Studied(
        best_of="builds",
        pareto=("min builds_total_usd", "max builds_performance_output_tokens_per_s"),
        left_out=("explain", "what_if"),
    ),
)
@dataclass(frozen=True, slots=True)
class BuildInput:
    """Plan a workstation: the best parts for a budget or a speed, each machine priced, checked and simulated."""

    budget: Annotated[float | None, LIMITS("USD", "At most so much for the machine.", max=1_000_000_000)] = (
        None
    )
    target_tokens_per_s: Annotated[
        float | None,
        LIMITS("N", "Least speed in output tokens per second, e.g. 20; then the cheapest.", max=1_000_000),
    ] = None
    have: Annotated[
        Path | None, LIMITS("FILE", "A list of parts that you have: they cost nothing."), Effect.READS
    ] = None
    upgrade: Annotated[
        float | None,
        LIMITS("USD", "Best next parts for the machine of --have, for so much.", max=1_000_000_000),
    ] = None
    gpu: Annotated[str | None, LIMITS("ID,...", "Only cards with these accelerators.")] = None
    max_gpus: Annotated[
        int, LIMITS("N", "Cards at most; 0 plans a CPU alone.", min=0, max=8, show_default=True)
    ] = 4
    top: Annotated[int, Option(metavar="N", min=1, max=20, help="Machines to show.")] = 4
    explain: Annotated[
        bool, Option("--explain", help="Also every rule, and power limits, of each machine.")
    ] = False
    what_if: Annotated[
        bool,
        Option(
            "--what-if", help="Controls on the page of -o FILE.html: other hours, years, electricity, rents."
        ),
    ] = False
    conditions: BuildConditions = BuildConditions()


@command("build check", uses_calibration=True)
@dataclass(frozen=True, slots=True)
class CheckInput:
    """Judge a list of parts: what does not fit, what is missing, what it runs, and what else the money buys."""

    file: Annotated[
        Path | None,
        Argument(metavar="MYBUILD.toml", help="A list of parts, free text or fields; or the list itself."),
    ] = None
    part: Annotated[
        list[str] | None, Option(metavar="TEXT", help="A part, e.g. '2x RTX 5090 $4500'; repeat it.")
    ] = None
    better: Annotated[
        bool, Option("--better/--no-better", help="Also look for a better machine for the money.")
    ] = True
    conditions: BuildConditions = BuildConditions()
