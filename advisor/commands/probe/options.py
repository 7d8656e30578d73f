"""Options of `advisor probe` and `advisor probe read`: is this the machine that was sold?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from advisor.ask.options import Effect
from advisor.cli.command import command

_Report = Annotated[
    Path | None,
    Option(metavar="FILE", help="A report to send to the provider: .md or .html."),
    Effect.WRITES,
]


@command("probe", is_local=True)
@dataclass(frozen=True, slots=True)
class ProbeInput:
    """Measure this machine and judge it: identity, memory, matrix rate, links, collectives, launches."""

    quick: Annotated[bool, Option("--quick/--full", help="A minute, or all of it in up to six.")] = True
    expect: Annotated[
        str | None, Option(metavar="[Nx]ID", help="What was ordered, e.g. h100-sxm or 8xh100-sxm.")
    ] = None
    network: Annotated[
        str | None, Option(metavar="TEXT", help="Network that was ordered, e.g. 'InfiniBand 8x400Gb'.")
    ] = None
    gpus: Annotated[str, Option(metavar="all|N,...", help="Which GPUs.")] = "all"
    resume: Annotated[
        Path | None, Option(metavar="FILE", help="Go on with an interrupted probe."), Effect.CHANGES
    ] = None
    power_sweep: Annotated[
        bool,
        Option("--power-sweep", help="Work per joule by power limit; needs root, limits come back."),
        Effect.EXECUTES,
    ] = False
    strict: Annotated[bool, Option("--strict", help="Exit code 5 for WARN.")] = False
    report: _Report = None


@command("probe show", is_local=True)
@dataclass(frozen=True, slots=True)
class ShowProbeInput:
    """Show a saved probe or verdict on pasted reports: figures against expectations, topology; nothing is measured."""

    file: Annotated[
        Path,
        Argument(
            metavar="PROBE.json",
            help="File of `advisor probe -o` or `probe read -o`, or a recording by name.",
        ),
    ]
    strict: Annotated[bool, Option("--strict", help="Exit code 5 for WARN.")] = False


@command("probe read")
@dataclass(frozen=True, slots=True)
class ProofInput:
    """Judge pasted reports of a machine on which nothing can be installed; several files make one verdict.

    Read are nvidia-smi, its -q, -L, nvlink -s, topo -m and --query-gpu as CSV, nvbandwidth, dcgmi diag, nccl-tests,
    ib_write_bw, ibstat and lspci -nn.
    Two reports of nvidia-smi -q, before and after work, also show what error counters did.
    """

    files: Annotated[list[Path], Argument(metavar="FILE...", help="What the programs printed; - is stdin.")]
    expect: Annotated[
        str | None, Option(metavar="[Nx]ID", help="What was ordered, e.g. h100-sxm or 8xh100-sxm.")
    ] = None
    network: Annotated[
        str | None, Option(metavar="TEXT", help="Network that was ordered, e.g. 'InfiniBand 8x400Gb'.")
    ] = None
    strict: Annotated[bool, Option("--strict", help="Exit code 5 for WARN.")] = False
    report: _Report = None
