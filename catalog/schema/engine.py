"""Serving engines: scheduler policy, defaults, formats and host overheads by era."""

from typing import Literal

from pydantic import Field

from advisor.catalog.schema.record import Record, Source


class EngineEra(Record):
    """One generation of an engine; numbers fitted on published measurements of that era."""

    id: str
    """E.g. v1-2025."""
    from_version: str
    """First version that belongs to the era."""
    from_date: str
    parameters: dict[str, float] = Field(default_factory=dict)
    """Fitted host and efficiency parameters, by the names of simulator.engine_costs.EngineCosts."""
    residual: dict[str, float] = Field(default_factory=dict)
    source: Source | None = None


class Engine(Record):
    """A serving engine and its defaults."""

    id: str
    name: str
    scheduler: Literal["mixed", "prefill_first", "static", "single_stream"]
    """mixed: prefill chunks ride in decode batches (vLLM V1, TensorRT-LLM with chunked context);
    prefill_first: prefill batches run alone and go first (SGLang default); static: batch runs to its end;
    single_stream: one sequence at a time (llama.cpp without batching)."""
    chunked_prefill: bool = True
    max_num_seqs: int = Field(gt=0)
    max_num_batched_tokens: int = Field(gt=0)
    memory_fraction: float = Field(gt=0, le=1)
    memory_fraction_of: Literal["total", "free_after_weights"] = "total"
    """free_after_weights: the fraction applies to what is left once weights are loaded (TensorRT-LLM)."""
    kv_block_tokens: int = Field(gt=0)
    cuda_graph_sizes: tuple[int, ...] = ()
    """Batch sizes for which decode graphs are captured, ascending; a batch pads to the next one."""
    prefix_caching: bool = True
    weight_dtypes: tuple[str, ...] = ()
    kv_dtypes: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    launch_template: str = ""
    """Launch command with {model}, {tp}, {pp}, {dp}, {ep_flag}, {dtype_flag}, {kv_flag}, {max_num_seqs}, {max_model_len}."""
    eras: tuple[EngineEra, ...] = ()
    sources: tuple[Source, ...] = ()
