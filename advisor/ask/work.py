"""Groups of options that make a question about a model and its work, shared by all commands that ask it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from advisor.ask.acts import ALL, Work, acts
from advisor.ask.inputs import without
from advisor.ask.options import (
    AnyModel,
    Audience,
    Effect,
    ExtraOptions,
    ItemInput,
    Levers,
    LoadOptions,
    ObjectiveOptions,
    Top,
    Where,
)
from advisor.ask.training_options import TrainingInput

Explain = Annotated[
    bool, Option("--explain", help="Also show the calculation and why each accelerator was rejected.")
]
PlanFile = Annotated[
    Path | None,
    Option(
        metavar="FILE.json",
        help="Keep question and answer for `advisor replay`.",
        show_default=False,
    ),
    Effect.WRITES,
]


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of an answer is shown and kept."""

    top: Annotated[Top, acts(ALL, plan=True, models=True)] = 5
    explain: Annotated[Explain, acts(ALL, plan=True, models=True)] = False
    plan: Annotated[PlanFile, acts("serve vision train finetune rl", plan=True)] = None


@dataclass(frozen=True, slots=True)
class WorkQuestion:
    """A question about work for a model, as typed."""

    model: Annotated[AnyModel, acts(ALL, plan=True)] = None
    models: Annotated[
        str | None,
        Option(
            metavar="NAME@RATE,...",
            help="Several models on one fleet, each with its load: 8b@20,70b@2:profile=rag.",
            show_default=False,
        ),
        acts("serve", models=True),
    ] = None
    workload: Annotated[Work, Option(help="What the hardware is for."), acts(ALL, plan=True, models=True)] = (
        "serve"
    )
    fast: Annotated[
        bool,
        Option("--fast", help="Screen only: a third of the time, nothing confirmed."),
        acts("serve", models=True),
    ] = False
    need: Audience = Audience()
    load: Annotated[LoadOptions, without(LoadOptions, "ramp", "requests")] = LoadOptions()
    levers: Levers = Levers()
    objectives: ObjectiveOptions = ObjectiveOptions()
    where: Where = Where()
    beside: ExtraOptions = ExtraOptions()
    shown: Shown = Shown()
    training: TrainingInput = TrainingInput()
    item: Annotated[ItemInput, without(ItemInput, "tokens")] = ItemInput()
