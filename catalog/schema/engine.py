"""Serving engines: scheduler policy, defaults, formats, and what single releases do."""

from typing import Literal

from pydantic import Field

from advisor.catalog.releases import belongs
from advisor.catalog.schema.record import Record, Source


class ReleaseSpan(Record):
    """Releases of an engine from one on until another, which is the first that no longer belongs to them."""

    since: str = ""
    """Version, date or both: `0.5.6 2025-12-03`; empty is the first."""
    until: str = ""
    """Empty is no end."""

    def holds(self, version: str, date: str) -> bool:
        """Whether a run, by its version or else by its date, used one of these releases."""
        return belongs(self.since, self.until, version=version, date=date)


class KernelLevel(ReleaseSpan):
    """Releases whose kernels have efficiencies of their own."""

    level: str
    """Of the records of efficiency."""


class DefaultsFor(Record):
    """Defaults that hold on some accelerators or in one use; the first entry that applies counts."""

    usage: Literal["server", "offline"] | None = None
    """server: HTTP server; offline: batch class or script. None is both."""
    min_memory_bytes: float = 0.0
    max_memory_bytes: float | None = None
    """Exclusive."""
    except_architectures: tuple[str, ...] = ()
    min_tensor_parallel: int = 1
    max_num_seqs: int | None = None
    """None keeps the engine's own."""
    max_num_batched_tokens: int | None = None
    cuda_graph_max_size: int | None = None


class MemoryReserve(Record):
    """What an engine leaves free for activations and graphs when it computes its memory fraction.

    fraction = 1 − reserve / memory; reserve = fixed + per chunk token + per graph size (+ its part per attention
    data-parallel rank) + per accelerator of the replica, at least floor_bytes from floor_from_bytes of memory on.
    """

    fixed_bytes: float = 0.0
    bytes_per_chunk_token: float = 0.0
    bytes_per_graph_size: float = 0.0
    bytes_per_graph_size_and_dp_rank: float = 0.0
    bytes_per_accelerator: float = 0.0
    floor_bytes: float = 0.0
    floor_from_bytes: float = 0.0


class LaunchFlags(Record):
    """Spellings that fill the launch template; an empty string means that the engine needs no flag."""

    expert_parallel: str = ""
    """May contain {ep}."""
    data_parallel: str = ""
    """Attention data parallelism inside a replica; may contain {dp}."""
    weights: dict[str, str] = Field(default_factory=dict)
    """By format: flag that quantises a 16-bit checkpoint on loading."""
    kv: dict[str, str] = Field(default_factory=dict)
    """By cache format."""
    yaml_data_parallel: str = ""
    """Line of an options file, where the engine has no flag for it (TensorRT-LLM)."""
    yaml_kv: dict[str, str] = Field(default_factory=dict)
    yaml_file: str = ""
    """Names that file."""
    prefix_caching_on: str = ""
    prefix_caching_off: str = ""
    yaml_prefix_off: str = ""
    speculation: dict[str, str] = Field(default_factory=dict)
    """By method (mtp, eagle, ngram, draft): with $tokens guesses, $verified = $tokens + 1, and $head."""
    yaml_speculation: dict[str, str] = Field(default_factory=dict)
    adapters: str = ""
    """With $count, $rank and $slots."""
    yaml_adapters: str = ""
    pools: dict[str, str] = Field(default_factory=dict)
    """By role (prefill, decode) in a pair of pools; with $seqs sequences at once."""
    yaml_pools: dict[str, str] = Field(default_factory=dict)
    pool_port: str = ""
    """Option that tells a prefill worker the port at which caches are asked for, with {port}."""
    pool_env: dict[str, str] = Field(default_factory=dict)
    """Variables that tell a worker of a pool where caches are asked for, with {host} and {port}."""
    pool_router: str = ""
    """Router before both pools, with $workers and {port}."""
    pool_router_install: str = ""
    pool_router_worker: dict[str, str] = Field(default_factory=dict)
    """One worker as the router is told of it, by role; with {url} and {port}, that of caches."""
    sticky_router: str = ""
    """Router that keeps conversations with their replica, with $workers and {port}; each is told as the worker named
    replica."""
    sticky_header: str = ""
    """Header of requests that names their conversation."""
    address: str = ""
    """Listens to everybody on {port}."""
    images: dict[str, str] = Field(default_factory=dict)
    """Container by architecture or vendor of the accelerator."""
    images_seen: tuple[str, ...] = ()
    """Those of them that a source names with this tag; the others follow the publisher's pattern."""
    local: str = ""
    """Names a file of weights, and `repository` one on the hub, where the engine tells them apart."""
    repository: str = ""
    tp_counts_dp_ranks: bool = False
    """{tp} is the number of accelerators of the replica, attention data-parallel ranks included (SGLang)."""


class WiderGraphs(Record):
    """Models for which an engine captures decode graphs of larger batches than of others."""

    models: tuple[str, ...]
    sizes: tuple[int, ...]
    """Beyond the engine's own, ascending."""
    source: Source


class ReleasesInTurns(ReleaseSpan):
    """Releases in which scheduler and device take turns on models whose layers carry a state, as long as they keep
    prefixes: the state of a prefix is only there to be kept once its batch has ended.

    The device then stands still while the host launches a prompt. The span also ends with a release that launches
    prompts from captured graphs.
    """

    source: Source


class PromptGraphs(ReleaseSpan):
    """Releases that replay prompts from captured graphs by default, so that no token waits for the host to launch their
    layers one by one. The first entry whose span holds counts."""

    vendors: tuple[str, ...]
    max_latent_tokens: int = Field(default=0, ge=0)
    """Most tokens of such an iteration of models with latent attention; of others, all that one carries."""
    data_parallel: bool = False
    """Also with attention data-parallel ranks."""
    pipeline_parallel: bool = False
    except_families: tuple[str, ...] = ()
    """Of models."""
    except_experts_on: tuple[str, ...] = ()
    """Architectures on which models with routed experts run a kernel that cannot be captured, but for those of
    expert_families."""
    expert_families: tuple[str, ...] = ()
    vision_families: tuple[str, ...] = ()
    """Of models that read images, those which it is about all the same."""
    source: Source


class KernelChoice(ReleaseSpan):
    """Kernels that releases run for some models on some architectures in place of an engine's usual ones."""

    architectures: tuple[str, ...]
    families: tuple[str, ...] = ()
    """Of models; empty is any."""
    except_families: tuple[str, ...] = ()
    weight_dtypes: tuple[str, ...] = ()
    """Empty is any."""
    needs_prefix_cache: bool = False
    except_shapes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Routed experts of a rank that it is not about, by accelerator: how many x their columns, `8x7168`. Where some are
    named, it is about models with others alone."""
    operators: tuple[str, ...]
    """As the records of efficiency name them, e.g. attention_decode."""
    kernels: str
    """Level of those records that stands for these kernels, e.g. sglang-triton."""
    source: Source


class SparseLatentKernels(Record):
    """Kernels of latent attention over keys that an indexer chose, on some architectures; the first entry that
    applies counts."""

    architectures: tuple[str, ...]
    kv_dtypes: tuple[str, ...] = ()
    """Formats of the cache for which it holds; empty is any."""
    below_heads: int | None = None
    """Query heads of a rank from which on it does not hold; None is never."""
    prompt: Literal["bf16", "fp8"]
    """Format in which prompts' kernel reads the cache: the absorbed sparse kernel of FlashMLA."""
    decode: Literal["bf16", "fp8", "latent"]
    """The same for decode; latent: the engine's kernel of dense latent attention, given the chosen keys as pages."""
    prompt_head_multiple: int = Field(default=64, gt=0)
    """Query heads are padded to a multiple of this."""
    decode_head_multiple: int = Field(default=64, gt=0)
    expands_short_prompts: bool = False
    """A prompt no longer than the keys to be chosen runs dense, with its keys expanded, and nothing is scored."""
    source: Source


class Engine(Record):
    """A serving engine and its defaults."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    scheduler: Literal["mixed", "prefill_first", "static", "single_stream"]
    """mixed: prefill chunks ride in decode batches (vLLM V1, TensorRT-LLM with chunked context);
    prefill_first: prefill batches run alone and go first (SGLang default); static: batch runs to its end;
    single_stream: one sequence at a time (llama.cpp without batching)."""
    chunked_prefill: bool = True
    """False: a prompt is processed whole or waits, and must fit into max_num_batched_tokens."""
    max_num_seqs: int = Field(gt=0)
    max_num_batched_tokens: int = Field(gt=0)
    """New tokens of one iteration; where the scheduler is prefill_first, the chunk of one prefill batch."""
    token_budget_of: Literal["rank", "replica"] = "rank"
    """Whose budget max_num_batched_tokens is under attention data parallelism: each rank's own, or what the ranks
    share (SGLang divides its chunk among them)."""
    balances_prompts: bool = False
    """Under attention data parallelism, prompts wait until every rank has one, so that none computes alone
    (TensorRT-LLM's attention_dp_config, which its recipes switch on)."""
    memory_fraction: float = Field(gt=0, le=1)
    memory_fraction_of: Literal["total", "free_after_weights"] = "total"
    """free_after_weights: the fraction applies to what is left once weights are loaded (TensorRT-LLM)."""
    memory_reserve: MemoryReserve | None = None
    """Where set, memory_fraction is computed from it instead."""
    kv_block_tokens: int = Field(gt=0)
    cuda_graph_sizes: tuple[int, ...] = ()
    """Batch sizes for which decode graphs are captured, ascending; a batch pads to the next one."""
    cuda_graph_sizes_per_seq: float | None = None
    """Graphs are captured up to this multiple of max_num_seqs (vLLM: 2)."""
    wider_graphs: tuple[WiderGraphs, ...] = ()
    cuda_graph_padding: bool = True
    """False: a batch between two sizes runs without a graph."""
    prefix_caching: bool = True
    embeds_on_host: bool = False
    """Tokens are looked up in host memory: the input table takes none of an accelerator's own."""
    windowed_cache_fraction: float = Field(default=0.0, ge=0, le=1)
    """Part of the cache that layers with a sliding window hold for every token, in and out of their window: 0 frees
    what left it (vLLM), 1 keeps all (TensorRT-LLM without max_attention_window)."""
    reserve_output_fraction: float = Field(default=0.0, ge=0, le=1)
    """Part of a request's output whose cache is reserved at admission: 0 preempts when it runs out (vLLM), 1 never
    does (TensorRT-LLM's guaranteed-no-evict)."""
    reserve_output_fraction_floor: float | None = Field(default=None, ge=0, le=1)
    """Where the part falls while decoding goes well (SGLang), what it falls to ..."""
    reserve_output_decay_steps: int = 0
    """... and over how many decode steps."""
    overlap_scheduling: bool = False
    """The next batch is composed while one runs, so arrivals and freed slots count one iteration later."""
    prompt_launches: Literal["ahead", "each", "in_step", "in_turns"] = "each"
    """How tokens wait for the host that launches a prompt's layers. ahead: an iteration of more tokens than are
    captured ends no sooner than its launches, with which the host begins while the one before runs (vLLM); each: for
    every layer, beside the device, and an iteration with prompts takes no less (SGLang); in_step: a first token for
    layers with routed experts, the longer the more ranks have to keep step, and not at all on one (TensorRT-LLM);
    in_turns: as each, but the device does nothing meanwhile."""
    prompt_graphs: tuple[PromptGraphs, ...] = ()
    captured_prompt_tokens: int = Field(default=0, ge=0)
    """Most tokens of an iteration with prompts that is replayed from a captured graph; of a release, filled from
    prompt_graphs for a deployment."""
    expert_operators: int = Field(default=12, gt=0)
    """Operators that the host launches for a feed-forward part with routed experts, norm included."""
    in_turns_with_state: ReleasesInTurns | None = None
    in_turns_guessing: tuple[str, ...] = ()
    """Methods of guessing ahead, as a speculation names them, with which it takes turns with the device."""
    eager_with_data_parallel: ReleaseSpan | None = None
    """Releases that decode without captured graphs where attention data-parallel ranks run in lockstep."""
    eager_architectures: tuple[str, ...] = ()
    """Architectures on which decode steps are launched operator by operator, without captured graphs."""
    kernel_levels: tuple[KernelLevel, ...] = ()
    sparse_latent: tuple[SparseLatentKernels, ...] = ()
    kernel_choices: tuple[KernelChoice, ...] = ()
    """The first that applies to an operator counts."""
    expert_blocks_below_ranks: int | None = None
    """Ranks that split each expert, from which on other kernels run than those that pad its rows to blocks."""
    sinks_in_unified_kernel: tuple[str, ...] = ()
    """Architectures on which attention with sinks runs in the one kernel for prompts and decodes."""
    defaults_for: tuple[DefaultsFor, ...] = ()
    weight_dtypes: tuple[str, ...] = ()
    kv_dtypes: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    vendor_weight_dtypes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Weight formats by vendor, where not all of weight_dtypes."""
    launch_template: str = ""
    """Launch command with {model}, {tp}, {pp}, {dp}, {dp_flag}, {ep_flag}, {dtype_flag}, {kv_flag},
    {max_num_seqs}, {max_num_batched_tokens}, {max_model_len}, {total_context}."""
    flags: LaunchFlags = LaunchFlags()
    notes: str = ""
    sources: tuple[Source, ...] = ()
