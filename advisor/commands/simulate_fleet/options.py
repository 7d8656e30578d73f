"""Options of `advisor simulate fleet`."""

from dataclasses import dataclass
from typing import Annotated

from typer import Argument, Option

from advisor.ask.options import RecordsFile, StepByStep
from advisor.cli.command import Studied, command


@command(
    "simulate fleet",
    uses_calibration=True,
    studied=Studied(
        pareto=("min metrics_usd_per_hour", "max metrics_goodput_fraction"),
        files=("description",),
        left_out=("show", "processes"),
    ),
)
@dataclass(frozen=True, slots=True)
class FleetInput:
    """Simulate a fleet: pools, router, scaling, failures and load of a file; latencies, goodput, cost over time."""

    description: Annotated[
        str,
        Argument(
            metavar="FLEET.toml",
            help="A fleet file, or an example: autoscaling, failures, reserved-spot, tenants.",
        ),
    ]
    show: Annotated[bool, Option("--show", help="Print the file instead, to start one's own from.")] = False
    processes: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            max=1024,
            help="Processes, where replicas do not depend on each other.",
            show_default="as many as pay",
        ),
    ] = None
    step_by_step: StepByStep = False
    records: RecordsFile = None
