"""Options of `advisor recommend` and `advisor replay`: which accelerator, how many, which layout, at what cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from typer import Argument, Option

from advisor.cli.command import Studied, command, only, without
from advisor.cli.options import AnyModel, Beside, Effect, ItemInput, Levers, Load, Objectives, Top, Where
from advisor.commands.recommend.training_options import TrainingInput

TRAINING: Final = ("train", "finetune", "rl")

Explain = Annotated[bool, Option("--explain", help="Also the arithmetic, and every reason against.")]
PlanFile = Annotated[
    Path | None,
    Option(
        metavar="FILE.json",
        help="Keep question and answer; `advisor replay` asks again and writes the same bytes.",
        show_default=False,
    ),
    Effect.WRITES,
]


@dataclass(frozen=True, slots=True)
class Emission:
    """In which form the first option is written down, and where."""

    emit: Annotated[
        Literal["command", "docker", "compose", "k8s", "skypilot", "slurm"] | None,
        Option(help="Files that start the first option, printed or in a folder.", show_default=False),
    ] = None
    emit_dir: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Where they go; -o FOLDER says the same.", show_default=False),
        Effect.CHANGES,
    ] = None


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of an answer is shown and kept."""

    top: Top = 5
    explain: Explain = False
    plan: PlanFile = None


@command(
    "recommend",
    uses_calibration=True,
    studied=Studied(
        best_of="options",
        pareto=("min options_usd_per_million_tokens", "min options_ttft_s_p99"),
        left_out=("models", "plan", "explain", "from_plan", "emit", "emit_dir"),
    ),
)
@dataclass(frozen=True, slots=True)
class RecommendInput:
    """Rank every accelerator on the market for a model: layout, latencies or days, dollars."""

    model: AnyModel = None
    models: Annotated[
        str | None,
        Option(
            metavar="NAME@RATE,...",
            help="Several models on one fleet, each with its own load: 8b@20,70b@2:profile=rag:tpot-p99=50ms.",
            show_default=False,
        ),
    ] = None
    workload: Annotated[
        Literal[
            "serve", "train", "finetune", "distill", "rl", "diffusion", "embed", "rerank", "speech", "vision", "batch"
        ],
        Option(help="What the hardware is for."),
    ] = "serve"  # fmt: skip
    fast: Annotated[bool, Option("--fast", help="Screen only: a third of the time, nothing confirmed.")] = (
        False
    )
    load: Annotated[Load, without(Load, "ramp", "length_dist", "requests")] = Load()
    levers: Levers = Levers()
    objectives: Objectives = Objectives()
    where: Where = Where()
    beside: Beside = Beside()
    shown: Shown = Shown()
    emission: Emission = Emission()
    training: TrainingInput = TrainingInput()
    item: Annotated[ItemInput, without(ItemInput, "tokens")] = ItemInput()


@command("replay")
@dataclass(frozen=True, slots=True)
class ReplayInput:
    """Ask the question of a plan again: the day, the seed and the limits are those of the plan."""

    file: Annotated[Path, Argument(metavar="PLAN.json", help="What `advisor recommend --plan` wrote.")]
    shown: Annotated[Shown, only("plan", "explain")] = Shown()
