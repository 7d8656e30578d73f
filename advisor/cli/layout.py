"""Options of one stated deployment: how a model is laid out, in which formats, by which engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from typer import Option

PANEL: Final = "Layout and precision"

Router = Literal["round_robin", "least_outstanding", "prefix_affinity"]


def degree(text: str, most: int = 1024) -> Any:
    """A degree of parallelism, or another small number."""
    return Option(metavar="N", min=1, max=most, help=text, rich_help_panel=PANEL)


def named(metavar: str, text: str, default: str | bool = True) -> Any:
    """A name that belongs to the deployment."""
    return Option(metavar=metavar, help=text, rich_help_panel=PANEL, show_default=default)


ModelName = Annotated[str, Option(metavar="NAME", help="Id, size (70b), Hugging Face id or config.json.")]
OtherModelName = Annotated[str, Option(metavar="NAME", help="Id, Hugging Face id or config.json.")]
"""Of work for which a size names no model."""
GpuName = Annotated[str, Option(metavar="ID", help="Accelerator; h100 and the like will do.")]
Precision = Annotated[str | None, named("FORMAT", "Weights.", "the checkpoint's")]
StepByStep = Annotated[
    bool, Option("--step-by-step", help="Process every engine step; same records, slower.")
]
RecordsFile = Annotated[
    Path | None, Option(metavar="OUT.csv", help="Write one row per request.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model is laid out, as typed."""

    tp: Annotated[int, degree("Tensor parallelism.")] = 1
    pp: Annotated[int, degree("Pipeline stages.")] = 1
    ep: Annotated[int, degree("Expert parallelism, over the same accelerators.")] = 1
    dp: Annotated[int, degree("Attention data parallelism inside a replica.")] = 1
    replicas: Annotated[int, degree("Equal replicas behind a router.", 10_000)] = 1
    router: Annotated[Router, named("RULE", "How the router deals out requests.")] = "least_outstanding"
    precision: Precision = None
    kv_precision: Annotated[str, named("FORMAT", "KV cache.")] = "bf16"
    engine: Annotated[str, named("NAME", "Serving engine.")] = "vllm"
