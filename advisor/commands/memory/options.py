"""Options of `advisor memory`: a model, a context and an accelerator."""

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from advisor.ask.inputs import only
from advisor.ask.options import EngineFlags, GpuName, LayoutOptions, ModelName
from advisor.cli.command import command


@command("memory")
@dataclass(frozen=True, slots=True)
class MemoryInput:
    """Memory of a model on an accelerator: weights, cache, state, activations, reserve, and the sequences that fit."""

    model: ModelName
    gpu: GpuName
    context: Annotated[
        str | None,
        Option(
            metavar="N",
            help="Tokens of each sequence, prompt and output together: 8192, 32k.",
            show_default="8192, or a shorter window",
        ),
    ] = None
    concurrency: Annotated[
        int, Option(metavar="N", min=1, max=100_000, help="Sequences that are held at once.")
    ] = 1
    link: Annotated[
        str | None,
        Option(
            metavar="LIST",
            help="Links that a sequence's cache could cross: nvlink, pcie, network, or rates such as 50GB/s.",
            show_default="none",
        ),
    ] = None
    layout: Annotated[LayoutOptions, only("tp", "pp", "dp", "ep", "precision", "kv_precision", "engine")] = (
        LayoutOptions()
    )
    max_num_seqs: Annotated[
        int | None,
        Option(
            metavar="N", min=1, max=65_536, help="Sequences of one iteration.", show_default="the engine's"
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        int | None,
        Option(
            metavar="N", min=1, max=1_000_000, help="Tokens of one iteration.", show_default="the engine's"
        ),
    ] = None
    flags: Annotated[
        EngineFlags,
        only(
            "gpu_memory_utilization",
            "kv_cache_bytes",
            "block_size",
            "ubatch_size",
            "enforce_eager",
            "enable_dp_attention",
            "enable_expert_parallel",
            "language_model_only",
            "gpu_layers",
            "host_experts",
            "tensor_split",
            "cpu_offload_gb",
            "engine_version",
        ),
    ] = EngineFlags()
