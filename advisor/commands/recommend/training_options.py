"""Options of `advisor recommend` for training, fine-tuning and reinforcement learning: a line of help each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from advisor.cli.options import Effect, MethodName, OptimizerName, Panel

WORK: Final = Panel("Training: what")
LIMITS: Final = Panel("Training: within what")
FAILURES: Final = Panel("Training: failures")
REINFORCEMENT: Final = Panel("Reinforcement learning")

AlgorithmName = Literal["grpo", "ppo", "dpo"]
PlacementName = Literal["colocated", "disaggregated", "both"]


@dataclass(frozen=True, slots=True)
class TrainingInput:
    """What was typed about training."""

    tokens: Annotated[str | None, WORK("N", "Tokens to train on, e.g. 1T.")] = None
    compute_optimal: Annotated[
        bool, WORK(None, "As many as Chinchilla says: 20 a parameter.", True, "--compute-optimal")
    ] = False
    sequence: Annotated[
        int | None, WORK("N", "Tokens of a sequence.", "by workload", min=1, max=10_000_000)
    ] = None
    mean_length: Annotated[
        int | None,
        WORK("N", "Mean tokens of sequences that are padded.", "packed full", min=1, max=10_000_000),
    ] = None
    global_batch: Annotated[
        int | None, WORK("N", "Sequences of one step.", "by size", min=1, max=10_000_000)
    ] = None
    method: Annotated[MethodName, WORK(None, "Fine-tuning: all weights, or adapters.", True)] = "full"
    lora_rank: Annotated[int, WORK("N", "Rank of adapters.", True, min=1, max=65536)] = 16
    optimizer: Annotated[OptimizerName, WORK(None, "Optimizer.", True)] = "adamw"
    teacher: Annotated[str | None, WORK("NAME", "Distillation: the model that writes --items answers.")] = (
        None
    )
    framework: Annotated[
        str | None, WORK("NAME,...", "megatron, torchtitan, fsdp, deepspeed, maxtext, peft.")
    ] = None
    gpus: Annotated[int | None, LIMITS("N", "Exactly so many.", "any number", min=1, max=1_000_000)] = None
    deadline: Annotated[str | None, LIMITS("TIME", "Done within, e.g. 30d.", "30d without --gpus")] = None
    from_plan: Annotated[
        Path | None,
        LIMITS("PLAN.json", "A plan's question again, within other limits.", False, "--from"),
        Effect.READS,
    ] = None
    checkpoints: Annotated[
        Literal["async", "sync"], FAILURES(None, "Written behind the computation or not.", True)
    ] = "async"
    mtbf_hours: Annotated[
        float | None, FAILURES("H", "Between failures of one accelerator.", "50 000", max=1_000_000_000)
    ] = None
    restart: Annotated[str, FAILURES("TIME", "From a failure to the next step.", True)] = "10min"
    spot_losses_per_day: Annotated[
        float, FAILURES("N", "Spot machines taken back, per machine.", True, min=0, max=10_000)
    ] = 1.0
    elastic: Annotated[bool, FAILURES(None, "Go on without the replica that failed.", True, "--elastic")] = (
        False
    )
    stragglers: Annotated[
        float, FAILURES("F", "Spread of machines' speed, e.g. 0.01.", True, min=0.0, max=1.0)
    ] = 0.0
    algorithm: Annotated[AlgorithmName, REINFORCEMENT(None, "Algorithm.", True)] = "grpo"
    prompts: Annotated[
        int,
        REINFORCEMENT("N", "Prompts of one step; their lengths: --input-tokens.", True, min=1, max=1_000_000),
    ] = 512
    samples: Annotated[
        int,
        REINFORCEMENT("N", "Answers per prompt; their lengths: --output-tokens.", True, min=1, max=10_000),
    ] = 16
    rl_steps: Annotated[int, REINFORCEMENT("N", "Steps of the whole run.", True, min=1, max=10_000_000)] = 500
    placement: Annotated[
        PlacementName, REINFORCEMENT(None, "Generation on the training machines, or apart.", True)
    ] = "both"
    off_policy: Annotated[
        int, REINFORCEMENT("K", "Steps that answers may lag behind the weights.", True, min=0, max=64)
    ] = 0
    reward_time: Annotated[str | None, REINFORCEMENT("TIME", "Judging one step's answers.", "0s")] = None
    reward_model: Annotated[str | None, REINFORCEMENT("NAME", "A model that judges.", "a rule")] = None
