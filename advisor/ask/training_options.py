"""Options of `advisor recommend` for training, fine-tuning and reinforcement learning: a line of help each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from advisor.ask.acts import JOBS, acts
from advisor.ask.options import Effect, MethodName, OptimizerName, Panel

WORK: Final = Panel("Training: what")
LIMITS: Final = Panel("Training: limits")
FAILURES: Final = Panel("Training: failures")
REINFORCEMENT: Final = Panel("Reinforcement learning")

AlgorithmName = Literal["grpo", "ppo", "dpo"]
PlacementName = Literal["colocated", "disaggregated", "both"]


@dataclass(frozen=True, slots=True)
class TrainingInput:
    """Options about training, as typed."""

    tokens: Annotated[str | None, WORK("N", "Tokens to train on, e.g. 1T."), acts(JOBS)] = None
    compute_optimal: Annotated[
        bool,
        WORK(None, "As many as Chinchilla says: 20 a parameter.", True, "--compute-optimal"),
        acts("train finetune rl"),
    ] = False
    sequence: Annotated[
        int | None,
        WORK("N", "Tokens of a sequence.", "by workload", min=1, max=10_000_000),
        acts("train finetune distill"),
    ] = None
    mean_length: Annotated[
        int | None,
        WORK("N", "Mean tokens of sequences that are padded.", "packed full", min=1, max=10_000_000),
        acts("finetune"),
    ] = None
    global_batch: Annotated[
        int | None,
        WORK("N", "Sequences of one step.", "by size", min=1, max=10_000_000),
        acts("train finetune distill"),
    ] = None
    method: Annotated[MethodName, WORK(None, "Fine-tuning: all weights, or adapters.", True), acts(JOBS)] = (
        "full"
    )
    lora_rank: Annotated[
        int, WORK("N", "Rank of adapters.", True, min=1, max=65536), acts("finetune distill rl")
    ] = 16
    optimizer: Annotated[OptimizerName, WORK(None, "Optimizer.", True), acts(JOBS)] = "adamw"
    teacher: Annotated[
        str | None, WORK("NAME", "Distillation: the model that writes --items answers."), acts("distill")
    ] = None
    framework: Annotated[
        str | None,
        WORK("NAME,...", "megatron, torchtitan, fsdp, deepspeed, maxtext, peft."),
        acts(JOBS, instead="--engine"),
    ] = None
    gpus: Annotated[
        int | None,
        LIMITS("N", "Exact number of accelerators.", "any number", min=1, max=1_000_000),
        acts(JOBS, plan=True, instead="--max-gpus"),
    ] = None
    deadline: Annotated[
        str | None,
        LIMITS("TIME", "Done within, e.g. 30d.", "30d without --gpus"),
        acts(f"{JOBS} batch", plan=True),
    ] = None
    from_plan: Annotated[
        Path | None,
        LIMITS("PLAN.json", "A plan's question again, within other limits.", False, "--from"),
        Effect.READS,
        acts("train finetune rl", plan=True),
    ] = None
    checkpoints: Annotated[
        Literal["async", "sync"], FAILURES(None, "Written behind the computation or not.", True), acts(JOBS)
    ] = "async"
    mtbf_hours: Annotated[
        float | None,
        FAILURES("H", "Between failures of one accelerator.", "50 000", max=1_000_000_000),
        acts(JOBS),
    ] = None
    restart: Annotated[str, FAILURES("TIME", "From a failure to the next step.", True), acts(JOBS)] = "10min"
    spot_losses_per_day: Annotated[
        float,
        FAILURES("N", "Spot machines taken back, per machine.", True, min=0, max=10_000),
        acts(f"{JOBS} batch"),
    ] = 1.0
    elastic: Annotated[
        bool, FAILURES(None, "Go on without the replica that failed.", True, "--elastic"), acts(JOBS)
    ] = False
    stragglers: Annotated[
        float, FAILURES("F", "Spread of machines' speed, e.g. 0.01.", True, min=0.0, max=1.0), acts(JOBS)
    ] = 0.0
    algorithm: Annotated[AlgorithmName, REINFORCEMENT(None, "Algorithm.", True), acts("rl")] = "grpo"
    prompts: Annotated[
        int,
        REINFORCEMENT("N", "Prompts of one step; their lengths: --input-tokens.", True, min=1, max=1_000_000),
        acts("rl"),
    ] = 512
    samples: Annotated[
        int,
        REINFORCEMENT("N", "Answers per prompt; their lengths: --output-tokens.", True, min=1, max=10_000),
        acts("rl"),
    ] = 16
    rl_steps: Annotated[
        int, REINFORCEMENT("N", "Steps of the whole run.", True, min=1, max=10_000_000), acts("rl")
    ] = 500
    placement: Annotated[
        PlacementName, REINFORCEMENT(None, "Generation on the training machines, or apart.", True), acts("rl")
    ] = "both"
    off_policy: Annotated[
        int,
        REINFORCEMENT("K", "Steps that answers may lag behind the weights.", True, min=0, max=64),
        acts("rl"),
    ] = 0
    reward_time: Annotated[
        str | None, REINFORCEMENT("TIME", "Judging one step's answers.", "0s"), acts("rl")
    ] = None
    reward_model: Annotated[
        str | None, REINFORCEMENT("NAME", "A model that judges.", "a rule"), acts("rl")
    ] = None
