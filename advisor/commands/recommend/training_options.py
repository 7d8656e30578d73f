"""Options of `advisor recommend` for training, fine-tuning and reinforcement learning: a line of help each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from typer import Option

from advisor.cli.options import MethodName, OptimizerName

WORK: Final = "Training: what"
LIMITS: Final = "Training: within what"
FAILURES: Final = "Training: failures"
REINFORCEMENT: Final = "Reinforcement learning"

AlgorithmName = Literal["grpo", "ppo", "dpo"]
PlacementName = Literal["colocated", "disaggregated", "both"]


def _option(
    metavar: str, text: str, panel: str, default: str | bool = False, *names: str, **more: Any
) -> Any:
    return Option(*names, metavar=metavar, help=text, rich_help_panel=panel, show_default=default, **more)


@dataclass(frozen=True, slots=True)
class TrainingInput:
    """What was typed about training."""

    tokens: Annotated[str | None, _option("N", "Tokens to train on, e.g. 1T.", WORK)] = None
    compute_optimal: Annotated[
        bool,
        Option("--compute-optimal", help="As many as Chinchilla says: 20 a parameter.", rich_help_panel=WORK),
    ] = False
    sequence: Annotated[
        int | None, _option("N", "Tokens of a sequence.", WORK, "by workload", min=1, max=10_000_000)
    ] = None
    global_batch: Annotated[
        int | None, _option("N", "Sequences of one step.", WORK, "by size", min=1, max=10_000_000)
    ] = None
    method: Annotated[
        MethodName, Option(help="Fine-tuning: all weights, or adapters.", rich_help_panel=WORK)
    ] = "full"
    lora_rank: Annotated[int, _option("N", "Rank of adapters.", WORK, True, min=1, max=65536)] = 16
    optimizer: Annotated[OptimizerName, Option(help="Optimizer.", rich_help_panel=WORK)] = "adamw"
    framework: Annotated[
        str | None, _option("NAME,...", "megatron, torchtitan, fsdp, deepspeed, maxtext, peft.", WORK)
    ] = None
    gpus: Annotated[
        int | None, _option("N", "Exactly so many.", LIMITS, "any number", min=1, max=1_000_000)
    ] = None
    deadline: Annotated[
        str | None, _option("TIME", "Done within, e.g. 30d.", LIMITS, "30d without --gpus")
    ] = None
    from_plan: Annotated[
        Path | None,
        _option("PLAN.json", "A plan's question again, within other limits.", LIMITS, False, "--from"),
    ] = None
    checkpoints: Annotated[
        Literal["async", "sync"],
        Option(help="Written behind the computation or not.", rich_help_panel=FAILURES),
    ] = "async"
    mtbf_hours: Annotated[
        float | None,
        _option("H", "Between failures of one accelerator.", FAILURES, "50 000", max=1_000_000_000),
    ] = None
    restart: Annotated[str, _option("TIME", "From a failure to the next step.", FAILURES, True)] = "10min"
    spot_losses_per_day: Annotated[
        float, _option("N", "Spot machines taken back, per machine.", FAILURES, True, min=0, max=10_000)
    ] = 1.0
    elastic: Annotated[
        bool, Option("--elastic", help="Go on without the replica that failed.", rich_help_panel=FAILURES)
    ] = False
    stragglers: Annotated[
        float, _option("F", "Spread of machines' speed, e.g. 0.01.", FAILURES, True, min=0.0, max=1.0)
    ] = 0.0
    algorithm: Annotated[AlgorithmName, Option(help="Algorithm.", rich_help_panel=REINFORCEMENT)] = "grpo"
    prompts: Annotated[
        int,
        _option(
            "N",
            "Prompts of one step; their lengths: --input-tokens.",
            REINFORCEMENT,
            True,
            min=1,
            max=1_000_000,
        ),
    ] = 512
    samples: Annotated[
        int,
        _option(
            "N", "Answers per prompt; their lengths: --output-tokens.", REINFORCEMENT, True, min=1, max=10_000
        ),
    ] = 16
    rl_steps: Annotated[
        int, _option("N", "Steps of the whole run.", REINFORCEMENT, True, min=1, max=10_000_000)
    ] = 500
    placement: Annotated[
        PlacementName,
        Option(help="Generation on the training machines, or apart.", rich_help_panel=REINFORCEMENT),
    ] = "both"
    off_policy: Annotated[
        int,
        _option("K", "Steps that answers may lag behind the weights.", REINFORCEMENT, True, min=0, max=64),
    ] = 0
    reward_time: Annotated[
        str | None, _option("TIME", "Judging one step's answers.", REINFORCEMENT, "0s")
    ] = None
    reward_model: Annotated[str | None, _option("NAME", "A model that judges.", REINFORCEMENT, "a rule")] = (
        None
    )
