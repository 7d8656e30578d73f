"""Options of `advisor recommend` for training, fine-tuning and reinforcement learning: a line of help each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from advisor.ask.acts import ITEMS, JOBS, acts
from advisor.ask.options import Effect, MethodName, OptimizerName, Panel

WORK: Final = Panel("Training: what")
LIMITS: Final = Panel("Training: limits")
LAYOUT: Final = Panel("Training: a fixed layout")
MACHINES: Final = Panel("Training: machines")
FAILURES: Final = Panel("Training: failures")
REINFORCEMENT: Final = Panel("Reinforcement learning")

_LAID_OUT: Final = "train finetune distill"
"""Work whose plan may be fixed in part; a loop of generation and training is laid out as a whole."""
AlgorithmName = Literal["grpo", "rloo", "ppo", "dpo", "kto", "orpo", "reward"]
PlacementName = Literal["colocated", "disaggregated", "both"]


def _degree(text: str) -> Any:
    return LAYOUT("N", text, "searched", min=1, max=100_000)


PROMPTS_OF_A_STEP: Final = 512
"""Prompts of one step of reinforcement learning, or preferences, unless typed; own choice."""


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
    framework_version: Annotated[
        str | None,
        WORK("RELEASE", "Release of the --framework: 2024-06, 25.04, 0.15.0.", "spring 2026"),
        acts(JOBS),
    ] = None
    tp: Annotated[int | None, _degree("Tensor parallelism."), acts(_LAID_OUT)] = None
    pp: Annotated[int | None, _degree("Pipeline stages."), acts(_LAID_OUT)] = None
    vpp: Annotated[int | None, _degree("Chunks per stage (interleaved)."), acts(_LAID_OUT)] = None
    cp: Annotated[int | None, _degree("Context parallelism."), acts(_LAID_OUT)] = None
    ep: Annotated[int | None, _degree("Expert parallelism."), acts(_LAID_OUT)] = None
    etp: Annotated[int | None, _degree("Tensor parallelism inside experts."), acts(_LAID_OUT)] = None
    dp: Annotated[int | None, _degree("Data parallelism."), acts(_LAID_OUT)] = None
    micro_batch: Annotated[int | None, _degree("Sequences of one pass."), acts(_LAID_OUT)] = None
    sharding: Annotated[
        Literal["none", "zero1", "zero2", "zero3"] | None,
        LAYOUT(None, "State sharded over data-parallel ranks (ZeRO stage).", "searched"),
        acts(_LAID_OUT),
    ] = None
    recompute: Annotated[
        Literal["none", "selective", "full", "modules"] | None,
        LAYOUT(None, "Activations computed again.", "searched"),
        acts(_LAID_OUT),
    ] = None
    schedule: Annotated[
        Literal["1f1b", "interleaved", "zbv", "dualpipe"] | None,
        LAYOUT(None, "Order of passes.", "searched"),
        acts(_LAID_OUT),
    ] = None
    network: Annotated[
        str | None,
        MACHINES("TEXT", "Network between nodes, e.g. 'RoCE 8x400Gb'.", "the usual node's"),
        acts(JOBS),
    ] = None
    host_memory: Annotated[
        str | None, MACHINES("SIZE", "Host memory for each accelerator, e.g. 128GB.", "240GB"), acts(JOBS)
    ] = None
    power_cap_w: Annotated[
        float | None,
        MACHINES("W", "Power limit of an accelerator.", "its rated power", min=1, max=100_000),
        acts(JOBS),
    ] = None
    gpus: Annotated[
        int | None,
        LIMITS("N", "Exact number of accelerators.", "any number", min=1, max=1_000_000),
        acts(JOBS, plan=True, instead="--max-gpus"),
    ] = None
    deadline: Annotated[
        str | None,
        LIMITS("TIME", "Done within, e.g. 30d.", "30d, of tuning 7d, without --gpus, --budget or --own"),
        acts(f"{JOBS} {ITEMS} batch", plan=True),
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
    storage_gb_s: Annotated[
        float | None,
        FAILURES(
            "GB/S", "What the storage takes from all nodes.", "1 a node, at most 2000", min=0.001, max=1e6
        ),
        acts(JOBS),
    ] = None
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
    ] = PROMPTS_OF_A_STEP
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
