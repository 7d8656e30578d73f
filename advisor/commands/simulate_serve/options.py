"""Options of `advisor simulate serve`: one stated deployment under one load."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from typer import Option

from advisor.cli.command import Studied, command
from advisor.cli.layout import PANEL, GpuName, Layout, ModelName, RecordsFile, StepByStep
from advisor.cli.load_options import Load

POOLS: Final = "Two pools, prompts apart from answers"


def _engine(*names: str, metavar: str | None, text: str, default: str = "the engine's", **more: Any) -> Any:
    """A setting of the engine."""
    return Option(*names, metavar=metavar, help=text, rich_help_panel=PANEL, show_default=default, **more)


def _pool(metavar: str, text: str, default: str | bool = False, **more: Any) -> Any:
    """What belongs to one of two pools."""
    return Option(metavar=metavar, help=text, rich_help_panel=POOLS, show_default=default, **more)


def _objective(what: str, example: str) -> Any:
    """A latency that a request must reach to count as good."""
    return Option(
        metavar="TIME",
        help=f"{what} that still counts as good, e.g. {example}.",
        rich_help_panel="Objectives",
        show_default=False,
    )


@dataclass(frozen=True, slots=True)
class Guessing:
    """Guessing ahead, as typed."""

    speculative: Annotated[
        str | None,
        _engine(
            metavar="METHOD",
            text="Guess ahead: mtp, eagle, medusa, ngram, lookahead, draft:MODEL.",
            default="off",
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        _engine(
            metavar="N", text="Guesses in a row, with --speculative.", default="the method's", min=1, max=1000
        ),
    ] = None
    acceptance: Annotated[
        float | None,
        _engine(
            metavar="A",
            text="Chance that a guess is accepted, with --speculative.",
            default="as published",
            min=0.0,
            max=1.0,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class TwoPools:
    """Two pools, as typed; all None for one pool."""

    prefill_workers: Annotated[
        int | None, _pool("N", "Workers for prompts alone; the others decode.", min=1, max=1024)
    ] = None
    decode_workers: Annotated[
        int | None, _pool("N", "Workers that decode, with --prefill-workers.", min=1, max=1024)
    ] = None
    prefill_gpu: Annotated[str | None, _pool("ID", "Accelerator of prefill workers.", "as --gpu")] = None
    prefill_tp: Annotated[
        int | None, _pool("N", "Tensor parallelism of a prefill worker.", "as --tp", min=1, max=1024)
    ] = None

    @property
    def is_given(self) -> bool:
        return self != TwoPools()


@command(
    "simulate serve",
    uses_calibration=True,
    studied=Studied(
        pareto=("min metrics_ttft_s_p99", "min metrics_tpot_s_p99", "max metrics_output_tokens_per_s"),
        left_out=("records",),
    ),
)
@dataclass(frozen=True, slots=True)
class ServeInput:
    """Simulate one deployment under one load: latencies, rates, cache and memory."""

    model: ModelName
    gpu: GpuName
    layout: Layout = Layout()
    max_num_seqs: Annotated[
        int | None, _engine(metavar="N", text="Sequences that may run at once.", min=1, max=100_000)
    ] = None
    max_num_batched_tokens: Annotated[
        int | None, _engine(metavar="N", text="Tokens of one engine step.", min=1, max=10_000_000)
    ] = None
    prefix_caching: Annotated[
        bool | None,
        _engine(
            "--prefix-caching/--no-prefix-caching",
            metavar=None,
            text="Keep the cache of prompts for others that begin alike.",
        ),
    ] = None
    guessing: Guessing = Guessing()
    pools: TwoPools = TwoPools()
    load: Load = Load()
    ttft: Annotated[str | None, _objective("Time to the first token", "1s")] = None
    tpot: Annotated[str | None, _objective("Time per output token", "50ms")] = None
    step_by_step: StepByStep = False
    records: RecordsFile = None
