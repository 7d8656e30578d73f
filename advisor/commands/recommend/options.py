"""Options of `advisor recommend` and `advisor replay`: which accelerator, how many, which layout, at what cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from typer import Argument, Option

from advisor.ask.acts import acts
from advisor.ask.inputs import only
from advisor.ask.options import Effect
from advisor.ask.work import Shown, WorkQuestion
from advisor.cli.command import Studied, command
from advisor.cli.help import WorkHelp

WORKS: Final = {
    "serve": WorkHelp(
        "Serve a language model: hardware, layout and engine, cost of a token, latencies, and how sure.",
        (
            "--model 70b --rate 10 --ttft-p99 1s --tpot-p99 50ms",
            "'a chatbot for 1,000 users' --provider aws,lambda --budget 5000/month",
        ),
    ),
    "train": WorkHelp(
        "Train a model from the beginning: cluster, parallel plan, days and dollars.",
        (
            "--model 8b --workload train --tokens 1T --deadline 30d",
            "--model 70b --workload train --compute-optimal --gpu h200 --gpus 1024",
        ),
    ),
    "finetune": WorkHelp(
        "Tune a model on your own data: all weights, or adapters.",
        (
            "--model 70b --workload finetune --method qlora --tokens 50M",
            "--model 8b --workload finetune --own 8xl40s --mean-length 600",
        ),
    ),
    "distill": WorkHelp(
        "Let a teacher write a data set, and tune a student on it: both parts and one bill.",
        (
            "--model 8b --workload distill --teacher 70b --items 100k",
            "--model 8b --workload distill --teacher 70b --deadline 4d --term spot",
        ),
    ),
    "rl": WorkHelp(
        "Learn from rewards or preferences: generation and training on one cluster or on two.",
        (
            "--model 8b --workload rl --algorithm grpo --rl-steps 500 --gpus 64",
            "--model 8b --workload rl --placement disaggregated --off-policy 1",
        ),
    ),
    "diffusion": WorkHelp(
        "Make images: accelerators for a rate of images and a latency.",
        (
            "--model flux.1-dev --workload diffusion --rate 2 --latency-p99 20s",
            "--model sd3.5-large --workload diffusion --steps 28 --image-size 1024x768",
        ),
    ),
    "embed": WorkHelp(
        "Turn texts into vectors: accelerators for a rate of texts and a latency.",
        (
            "--model bge-m3 --workload embed --rate 500",
            "--model qwen3-embedding-8b --workload embed --rate 50 --input-tokens 2k",
        ),
    ),
    "rerank": WorkHelp(
        "Score pairs of query and text: accelerators for a rate of pairs and a latency.",
        (
            "--model bge-m3 --workload rerank --rate 500",
            "--model bge-m3 --workload rerank --query-tokens 64 --input-tokens 1k --gpu l4",
        ),
    ),
    "speech": WorkHelp(
        "Turn speech into text: accelerators for a rate of 30 s segments and a latency.",
        (
            "--model whisper-large-v3 --workload speech --rate 20",
            "--model whisper-small --workload speech --gpu l4,l40s --latency-p99 3s",
        ),
    ),
    "vision": WorkHelp(
        "Serve a model whose prompts hold images: as for serve, with the tokens and the work of images.",
        (
            "--model qwen3-vl-8b --workload vision --rate 2 --images 3",
            "--model qwen3-vl-32b --workload vision --image-size 2048x1024 --ttft-p99 3s",
        ),
    ),
    "batch": WorkHelp(
        "Get requests done before a deadline while no client waits: dollars of the job.",
        (
            "--model 70b --workload batch --items 1M --deadline 24h",
            "--model 8b --workload batch --items 5M --input-tokens 3k --term spot",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Emission:
    """Form and place in which the first option is written down."""

    emit: Annotated[
        Literal[
            "command", "docker", "compose", "k8s", "skypilot", "slurm", "dynamo", "llm-d", "kserve", "ray"
        ]
        | None,
        Option(help="Files that start the first option, printed or in a folder.", show_default=False),
        acts("serve", models=True),
    ] = None
    emit_dir: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Where they go; -o FOLDER says the same.", show_default=False),
        acts("serve", models=True),
        Effect.CHANGES,
    ] = None


@command(
    "recommend",
    uses_calibration=True,
    has_drawing=True,
    studied=Studied(
        best_of="options",
        pareto=("min options_usd_per_million_tokens", "min options_ttft_s_p99"),
        left_out=("models", "plan", "explain", "from_plan", "emit", "emit_dir", "what_if"),
    ),
    works=WORKS,
)
@dataclass(frozen=True, slots=True)
class RecommendInput(WorkQuestion):
    """Rank every accelerator on the market for a model: layout, latencies or days, dollars."""

    emission: Emission = Emission()
    what_if: Annotated[
        bool,
        Option("--what-if", help="Controls on the page of -o FILE.html: other loads, limits, prices, terms."),
        acts("serve"),
    ] = False


@command("replay", has_drawing=True)
@dataclass(frozen=True, slots=True)
class ReplayInput:
    """Ask the question of a saved plan again, with its day, seed and limits."""

    file: Annotated[Path, Argument(metavar="PLAN.json", help="What `advisor recommend --plan` wrote.")]
    shown: Annotated[Shown, only("plan", "explain")] = Shown()


@command("watch", is_local=True)
@dataclass(frozen=True, slots=True)
class WatchInput:
    """Ask saved plans again at today's prices; exit code 7 where one is beaten, costs more or is gone."""

    files: Annotated[
        list[Path], Argument(metavar="PLAN.json...", help="What `advisor recommend --plan` wrote.")
    ]
    option: Annotated[
        int, Option("--option", metavar="N", min=1, max=100, help="Rank of the option that was taken.")
    ] = 1
    threshold: Annotated[
        float,
        Option(metavar="F", min=0.0, max=10.0, help="Fraction of price or cost from which a change counts."),
    ] = 0.1
    since: Annotated[
        str | None,
        Option(metavar="plan|DATE", help="Say what moved the answer since the plan, or since a day."),
    ] = None
    price_file: Annotated[
        Path | None, Option(metavar="FILE", help="Prices of your own, as a CSV file."), Effect.READS
    ] = None
