"""Options of `advisor simulate experts`: experts over ranks, their popularity, and redundant copies."""

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from advisor.ask.options import GpuName, OtherModelName, Precision, degree
from advisor.cli.command import command


@command("simulate experts", has_table=False)
@dataclass(frozen=True, slots=True)
class ExpertsInput:
    """Balance of routed experts over ranks: load of the fullest by popularity, and what redundant copies give."""

    model: OtherModelName
    gpu: GpuName
    ep: Annotated[int, degree("Expert parallelism: ranks that the experts of a layer lie on.", 4096)] = 8
    redundant: Annotated[
        int, Option(metavar="N", min=0, max=4096, help="Copies of popular experts, in all ranks together.")
    ] = 0
    skew: Annotated[
        float, Option(metavar="S", min=0.0, max=5.0, help="Zipf's exponent of popularity; 0 is even.")
    ] = 0.5
    tokens: Annotated[
        int, Option(metavar="N", min=1, max=10_000_000, help="Tokens of an iteration, over all ranks.")
    ] = 4096
    precision: Precision = None
