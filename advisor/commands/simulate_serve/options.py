"""Options of `advisor simulate serve`: one stated deployment under one load."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from typer import Option

from advisor.ask.options import (
    ENGINE,
    LAYOUT,
    LOAD,
    OBJECTIVES,
    ChromeTrace,
    EngineFlags,
    GpuName,
    LayoutOptions,
    LoadOptions,
    ModelName,
    Panel,
    RecordsFile,
    StepByStep,
)
from advisor.cli.command import Studied, command

POOLS: Final = Panel("Disaggregated prefill and decode")
LONG: Final = Panel("Two pools, long prompts apart from short ones")


GapDistribution = Literal["gamma", "weibull"]
Batching = Literal["continuous", "static"]


def _objective(what: str, example: str) -> Any:
    """Return a latency that a request must reach to count as good."""
    return OBJECTIVES("TIME", f"{what} that still counts as good, e.g. {example}.")


@dataclass(frozen=True, slots=True)
class Preempting:
    """Options about requests that a full cache or a more urgent request preempts, as typed."""

    swap_space: Annotated[
        str | None,
        ENGINE(
            "SIZE",
            "Host memory of each accelerator for the cache of preempted requests, where the engine can: 16GiB.",
            "they are computed again",
        ),
    ] = None
    urgent: Annotated[
        float | None,
        LOAD(
            "PART",
            "Part of the requests that the engine's scheduling by priority serves first: 0.2.",
            "order of arrival",
            min=0.001,
            max=0.999,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Guessing:
    """Options of speculative decoding, as typed."""

    speculative: Annotated[
        str | None,
        LAYOUT(
            "METHOD", "Guess ahead: mtp, eagle, medusa, ngram, lookahead, draft:MODEL, self:LAYERS.", "off"
        ),
    ] = None
    draft_tokens: Annotated[
        int | None, LAYOUT("N", "Guesses in a row, with --speculative.", "the method's", min=1, max=1000)
    ] = None
    acceptance: Annotated[
        float | None,
        LAYOUT("A", "Chance that a guess is accepted, with --speculative.", "as published", min=0.0, max=1.0),
    ] = None
    draft_branches: Annotated[
        int | None,
        LAYOUT(
            "N",
            "Alternatives at each position of a tree, with --speculative; 1 is a chain.",
            "1",
            min=1,
            max=64,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Adapting:
    """Options of LoRA adapters, as typed."""

    adapters: Annotated[
        int | None,
        LAYOUT("N", "LoRA adapters, of which each request uses one.", "none", min=1, max=1_000_000),
    ] = None
    adapter_rank: Annotated[
        int | None, LAYOUT("N", "Rank of each, with --adapters.", "16", min=1, max=4096)
    ] = None
    adapter_slots: Annotated[
        int | None,
        LAYOUT("N", "Adapters in memory at once, with --adapters.", "all, at most 64", min=1, max=100_000),
    ] = None


@dataclass(frozen=True, slots=True)
class TwoPools:
    """Options of disaggregated prefill and decode, as typed; all None for one pool."""

    prefill_workers: Annotated[
        int | None, POOLS("N", "Workers for prompts alone; the others decode.", min=1, max=1024)
    ] = None
    decode_workers: Annotated[
        int | None, POOLS("N", "Workers that decode, with --prefill-workers.", min=1, max=1024)
    ] = None
    prefill_gpu: Annotated[str | None, POOLS("ID", "Accelerator of prefill workers.", "as --gpu")] = None
    prefill_tp: Annotated[
        int | None, POOLS("N", "Tensor parallelism of a prefill worker.", "as --tp", min=1, max=1024)
    ] = None

    @property
    def is_given(self) -> bool:
        return self != TwoPools()


@command(
    "simulate serve",
    has_table=False,
    uses_calibration=True,
    studied=Studied(
        pareto=("min metrics_ttft_s_p99", "min metrics_tpot_s_p99", "max metrics_output_tokens_per_s"),
        left_out=("what_if",),
    ),
)
@dataclass(frozen=True, slots=True)
class ServeInput:
    """Simulate one deployment under one load: latencies, rates, cache and memory."""

    model: ModelName
    gpu: GpuName
    layout: LayoutOptions = LayoutOptions()
    max_num_seqs: Annotated[
        int | None, LAYOUT("N", "Sequences that may run at once.", "the engine's", min=1, max=100_000)
    ] = None
    max_num_batched_tokens: Annotated[
        int | None, LAYOUT("N", "Tokens of one engine step.", "the engine's", min=1, max=10_000_000)
    ] = None
    batching: Annotated[
        Batching | None,
        LAYOUT(
            None,
            "static: a batch runs until its longest answer ends; continuous: requests join and leave at any step.",
            "the engine's",
        ),
    ] = None
    prefix_caching: Annotated[
        bool | None,
        LAYOUT(
            None,
            "Keep the cache of prompts for others that begin alike.",
            "the engine's",
            "--prefix-caching/--no-prefix-caching",
        ),
    ] = None
    flags: EngineFlags = EngineFlags()
    power_cap: Annotated[
        str | None, LAYOUT("W", "Power limit of each accelerator: 300W.", "what it is rated for")
    ] = None
    preempting: Preempting = Preempting()
    guessing: Guessing = Guessing()
    adapting: Adapting = Adapting()
    pools: TwoPools = TwoPools()
    long_prompts: Annotated[
        str | None,
        LONG(
            "PART:PART",
            "Replicas for long prompts, and where they differ: from=30465:gpu=h200-sxm:tp=8:replicas=2.",
            "any replica takes any prompt",
        ),
    ] = None
    other_replicas: Annotated[
        str | None,
        LONG(
            "PART:PART,...",
            "Replicas of other kinds behind the same router, and where they differ: share=0.4:gpu=l4:replicas=2.",
            "all replicas are alike",
        ),
    ] = None
    load: LoadOptions = LoadOptions()
    burstiness: Annotated[
        float | None,
        LOAD(
            "CV",
            "Standard deviation over mean of the gaps between requests: 0.5 even, 1 Poisson, 3 bursty (vLLM's "
            "--burstiness B is 1/CV²).",
            "1",
            min=0.05,
            max=20,
        ),
    ] = None
    gaps: Annotated[
        GapDistribution | None, LOAD(None, "Distribution of these gaps, with --burstiness.", "gamma")
    ] = None
    seeds: Annotated[
        str | None, LOAD("N,...", "Seeds of several runs whose figures are pooled: 8,9,10.", "--seed")
    ] = None
    ttft: Annotated[str | None, _objective("Time to the first token", "1s")] = None
    tpot: Annotated[str | None, _objective("Time per output token", "50ms")] = None
    step_by_step: StepByStep = False
    records: RecordsFile = None
    chrome_trace: ChromeTrace = None
    what_if: Annotated[
        bool,
        Option(
            "--what-if", help="Controls on the page of -o FILE.html: other loads, lengths, prices, hours."
        ),
    ] = False
    keeps_records: bool = False
    """Whether the run keeps a record of each request; no option: files and pages decide."""
