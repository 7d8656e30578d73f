"""Options of `advisor catalog ...`: what the program knows, with filters, as a table or as data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from advisor.ask.options import Effect
from advisor.cli.command import command

PriceOrder = Literal["accelerator", "price", "provider", "age"]
ModelOrder = Literal["id", "parameters", "active", "context", "kv"]
Gpus = Annotated[str | None, Option(metavar="ID,...", help="Only these accelerators.")]
OneGpu = Annotated[str | None, Option(metavar="ID", help="Only this accelerator.")]
Sellers = Annotated[str | None, Option(metavar="NAME,...", help="Only these providers.")]
OwnPrices = Annotated[Path | None, Option(metavar="CSV", help="Your own prices, which win."), Effect.READS]
GpuOrder = Literal["id", "memory", "bandwidth", "bf16", "fp8", "fp4", "power", "released"]


@command("catalog gpus")
@dataclass(frozen=True, slots=True)
class GpusInput:
    """List accelerators: memory, bandwidth, dense peaks, power, links."""

    vendor: Annotated[str | None, Option(help="Only this vendor, e.g. nvidia.")] = None
    family: Annotated[str | None, Option(help="Only this architecture, e.g. hopper.")] = None
    engine: Annotated[str | None, Option(help="Only what this engine runs on, e.g. vllm.")] = None
    min_memory: Annotated[str | None, Option(metavar="SIZE", help="At least so much, e.g. 80GB.")] = None
    sort: Annotated[GpuOrder, Option(help="Order; numbers come largest first.")] = "id"


@command("catalog models")
@dataclass(frozen=True, slots=True)
class ModelsInput:
    """List models: parameters, layers, context, KV cache per token."""

    family: Annotated[str | None, Option(help="Only this family, e.g. qwen3.")] = None
    mixer: Annotated[str | None, Option(help="Only with such layers: gqa, mla, gdn, mamba2.")] = None
    moe: Annotated[bool | None, Option("--moe/--dense", help="Only mixtures of experts, or none.")] = None
    max_parameters: Annotated[
        str | None, Option(metavar="N", help="Largest number of parameters, e.g. 70B.")
    ] = None
    sort: Annotated[ModelOrder, Option(help="Order; numbers come largest first.")] = "id"


@command("catalog prices")
@dataclass(frozen=True, slots=True)
class PricesInput:
    """List rental prices as known on a day, with their age."""

    gpu: Gpus = None
    provider: Sellers = None
    term: Annotated[str, Option(metavar="TERM,...", help="Terms, or all.")] = "on-demand"
    region: Annotated[str | None, Option(help="Only regions that begin so, e.g. us.")] = None
    sort: Annotated[PriceOrder, Option(help="Order; cheapest or newest first.")] = "accelerator"
    price_file: OwnPrices = None


@command("catalog coverage")
@dataclass(frozen=True, slots=True)
class CoverageInput:
    """List what is priced, supported and measured, and which prices are stale, from one provider only, or missing."""

    gpu: OneGpu = None
    provider: Sellers = None
    price_file: OwnPrices = None


@command("catalog refresh", is_local=True)
@dataclass(frozen=True, slots=True)
class RefreshInput:
    """Fetch today's prices from lists that need no key, check them, and keep them for every command."""

    source: Annotated[
        str | None,
        Option(
            metavar="NAME,...",
            help="azure, vast, skypilot (these by default), aws (a large download), gpuhunt, or all.",
        ),
        Effect.FETCHES,
    ] = None
    region: Annotated[
        str | None, Option(metavar="NAME,...", help="Regions of Azure and AWS, e.g. eastus."), Effect.FETCHES
    ] = None
    dry_run: Annotated[bool, Option("--dry-run", help="Fetch and check, keep nothing.")] = False
    accept: Annotated[
        bool,
        Option("--accept", help="Take prices too that are implausible against the old ones."),
        Effect.ACCEPTS,
    ] = False
    clear: Annotated[bool, Option("--clear", help="Delete what was refreshed."), Effect.DELETES] = False
    snapshot: Annotated[
        str | None,
        Option(metavar="FILE|URL", help="Take the prices of a snapshot in place of the lists."),
        Effect.FETCHES,
    ] = None
    digest: Annotated[
        str | None, Option(metavar="SHA256", help="Digest that the snapshot must have."), Effect.ACCEPTS
    ] = None
    write_snapshot: Annotated[
        Path | None, Option(metavar="FILE.json", help="Write all kept prices as a snapshot."), Effect.WRITES
    ] = None


@command("catalog engines")
@dataclass(frozen=True, slots=True)
class EnginesInput:
    """List serving engines: scheduler, defaults, formats, and stated support by architecture."""

    vendor: Annotated[str | None, Option(help="Only what runs on this vendor's accelerators.")] = None
    precision: Annotated[str | None, Option(help="Only what serves weights in this format, e.g. fp8.")] = None
    gpu: Annotated[
        str | None, Option(metavar="ID", help="What sources state that they support on this accelerator.")
    ] = None
    model: Annotated[
        str | None,
        Option(
            metavar="NAME", help="Which engines load this model's class, e.g. gemma-2-9b or a config.json."
        ),
    ] = None


@command("catalog parts")
@dataclass(frozen=True, slots=True)
class PartsInput:
    """List parts of workstations with their figures and prices."""

    category: Annotated[
        str | None, Option(help="Only gpu, cpu, board, ram, psu, case, cooler, storage, system, ...")
    ] = None
    name: Annotated[str | None, Option(metavar="WORDS", help="Only names that hold these words.")] = None
    max_price: Annotated[float | None, Option(metavar="USD", max=1_000_000_000, help="At most so much.")] = (
        None
    )
    price_file: Annotated[
        Path | None,
        Option(metavar="CSV", help="Your own prices (part, usd, observed_on), which win."),
        Effect.READS,
    ] = None


@command("catalog show")
@dataclass(frozen=True, slots=True)
class ShowInput:
    """Show everything about one record, each figure with its source."""

    name: Annotated[
        str, Argument(metavar="ID", help="An accelerator, a model or an engine; h100 and 70b will do.")
    ]


@command("catalog interconnects")
@dataclass(frozen=True, slots=True)
class InterconnectsInput:
    """List links between accelerators and between nodes by generation, and what names of networks mean."""

    kind: Annotated[str | None, Option(help="Only this kind, e.g. nvlink, pcie, infiniband, efa, ici.")] = (
        None
    )
    network: Annotated[
        str | None, Option(metavar="TEXT", help="What this name stands for, e.g. 'EFA 32x100Gb'.")
    ] = None


@command("catalog bits")
@dataclass(frozen=True, slots=True)
class BitsInput:
    """List bits per element of number formats; or of a width of yours with its groups, scales and zero points."""

    bits: Annotated[
        float | None, Option(metavar="N", min=1, max=16, help="Bits of an element alone, e.g. 4.")
    ] = None
    group: Annotated[int, Option(metavar="N", min=1, max=1_000_000, help="Elements that share a scale.")] = (
        128
    )
    scale_bits: Annotated[float, Option(metavar="N", min=0, max=64, help="Bits of a scale.")] = 16.0
    zero_bits: Annotated[
        float | None,
        Option(metavar="N", min=0, max=64, help="Bits of a zero point.", show_default="0, --bits and 16"),
    ] = None
    model: Annotated[str | None, Option(metavar="NAME", help="Show the weights of this model too.")] = None


EfficiencyOrder = Literal["bf16", "fp8", "fp4", "int8"]


@command("catalog efficiency")
@dataclass(frozen=True, slots=True)
class EfficiencyInput:
    """List dense TFLOP/s per watt of accelerators and, for a model, tokens per joule and their carbon."""

    model: Annotated[
        str | None, Option(metavar="NAME", help="Decode this model, on one accelerator each.")
    ] = None
    gpu: Gpus = None
    precision: Annotated[
        str | None, Option(metavar="FORMAT", help="Weights.", show_default="the checkpoint's")
    ] = None
    batch: Annotated[int, Option(metavar="N", min=1, max=4096, help="Sequences that decode together.")] = 32
    context: Annotated[int, Option(metavar="N", min=1, max=1_000_000, help="Tokens of each.")] = 2048
    region: Annotated[str, Option(metavar="NAME,...", help="Grids of the carbon table.")] = "us,fr,pl"
    sort: Annotated[EfficiencyOrder, Option(help="Format of the order, without a model.")] = "bf16"
    top: Annotated[int, Option(metavar="N", min=1, max=1000, help="Rows shown; JSON has all.")] = 20
