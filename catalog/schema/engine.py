"""Serving engines: scheduler policy, defaults, formats, and differences between releases."""

from typing import Literal

from pydantic import Field

from advisor.catalog.releases import belongs
from advisor.catalog.schema.record import Record, Source


class ReleaseSpan(Record):
    """Engine releases from `since` up to, but not including, `until`."""

    since: str = ""
    """First release as version, date or both: `0.5.6 2025-12-03`; empty for the first release of all."""
    until: str = ""
    """First release after the span; empty if the span has no end."""

    def holds(self, version: str, date: str) -> bool:
        """Whether a run used one of these releases, by its version or else by its date."""
        return belongs(self.since, self.until, version=version, date=date)


class KernelLevel(ReleaseSpan):
    """Releases whose kernels have efficiencies of their own."""

    level: str
    """Kernel level in the efficiency records."""


class DefaultsFor(Record):
    """Defaults that hold on some accelerators or in one use; the first entry that applies counts."""

    usage: Literal["server", "offline"] | None = None
    """server: HTTP server; offline: batch class or script; None: both."""
    min_memory_bytes: float = 0.0
    max_memory_bytes: float | None = None
    """Memory below which the entry applies, exclusive [bytes]; None means no upper limit."""
    except_architectures: tuple[str, ...] = ()
    min_tensor_parallel: int = 1
    max_num_seqs: int | None = None
    """Maximum number of sequences at once; None keeps the engine's own."""
    max_num_batched_tokens: int | None = None
    cuda_graph_max_size: int | None = None


class MemoryReserve(Record):
    """Memory that an engine leaves free for activations and graphs when it computes its memory fraction.

    fraction = 1 − reserve / memory; reserve = fixed + per chunk token + per graph size (+ its part per attention
    data-parallel rank) + per accelerator of the replica. If the memory
    is floor_from_bytes or more, the reserve is at least floor_bytes.
    """

    fixed_bytes: float = 0.0
    bytes_per_chunk_token: float = 0.0
    bytes_per_graph_size: float = 0.0
    bytes_per_graph_size_and_dp_rank: float = 0.0
    bytes_per_accelerator: float = 0.0
    floor_bytes: float = 0.0
    floor_from_bytes: float = 0.0


class EarlierMemory(ReleaseSpan):
    """Accounting of memory in earlier releases; None where they counted as today's do."""

    memory_fraction: float | None = Field(default=None, gt=0, le=1)
    """Fraction of memory that a server took unless told otherwise."""
    max_num_seqs: int | None = Field(default=None, gt=0)
    """Sequences at once that a server took on any accelerator unless told otherwise."""
    runtime_bytes: float | None = Field(default=None, ge=0)
    """Memory that was taken off the cache for graphs, libraries and fragmentation [bytes]."""
    peer_bytes: float = Field(default=0.0, ge=0)
    """Memory of communicators that was taken off the cache for each other rank of a group with a scale-up fabric
    [bytes]. NCCL before 2.22 connected every pair of ranks for every algorithm when it started; cards without a fabric
    open fewer channels (vllm-project/vllm issue 13061: 0.25 GiB for two RTX 4090)."""
    counts_communicators: bool = False
    """Whether communicators were made after the engine looked at the free memory, and so were taken off the cache."""
    sampler_bytes_per_logit: float | None = Field(default=None, ge=0)
    """Peak of the sampler in the profile run, for each logit of the highest number of sequences [bytes]."""
    whole_prompts_up_to: int | None = None
    """Longest window whose prompts were computed whole, so that one iteration took one [tokens]; None
    where prompts were computed in chunks."""
    states_all_layers: bool = False
    """Whether the printed tokens count every layer, those with a window or a state included, as if it kept all."""
    source: Source


class CapturedContext(ReleaseSpan):
    """Releases whose decode graphs end at a context: a longer sequence leaves the batch without a graph."""

    tokens: int = Field(gt=0)
    """Longest context of a captured decode step [tokens]."""
    source: Source


class EagerReleases(ReleaseSpan):
    """Releases that launch decode steps operator by operator on some architectures, without whole captured graphs."""

    architectures: tuple[str, ...]
    source: Source


class ExpertPadding(Record):
    """Multiples to which an engine's kernels pad the matrices of routed experts when it loads them."""

    weight_dtypes: tuple[str, ...]
    architectures: tuple[str, ...]
    hidden_multiple: int = Field(default=1, ge=1)
    """Multiple of the width of the experts' inputs and outputs."""
    inner_multiple: int = Field(default=1, ge=1)
    """Multiple of a rank's part of the inner width."""
    source: Source


class LayerKernels(Record):
    """Number of kernels that an engine starts for one layer of a model in a decode step, counted in its source."""

    families: tuple[str, ...]
    kernels: int = Field(ge=1)
    source: Source


class NodeFlags(Record):
    """Words by which the processes of one replica on several machines find each other.

    {nodes} is the number of machines, {per_node} that of accelerators of each, {rank} the number of the machine from 0,
    {head} the address of the first machine and {port} the port at which it waits for the others.
    """

    every: str = ""
    """Words of each machine's command."""
    workers: str = ""
    """Words of every machine's command but the first one's."""
    launcher: str = ""
    """Program of the engine that MPI starts once for each accelerator, in front of the command; empty if each machine
    starts one process by itself."""


class LaunchFlags(Record):
    """Spellings that fill the launch template; an empty string means that the engine needs no flag."""

    tensor_parallel: str = ""
    """Flag of tensor parallelism if the launch template has no {tp}: the engine takes all accelerators that it sees."""
    expert_parallel: str = ""
    """Flag of expert parallelism; may contain {ep}."""
    data_parallel: str = ""
    """Flag of attention data parallelism inside a replica; may contain {dp}."""
    memory_fraction: str = ""
    """Option that sets the fraction of memory that the engine may use, with {fraction}; empty if it has none."""
    dispatch: str = ""
    """Option with which tokens go to the ranks of their experts alone, instead of to all ranks."""
    micro_batches: str = ""
    """Option with which two halves of a batch take turns, so that one computes while the other's tokens travel."""
    weights: dict[str, str] = Field(default_factory=dict)
    """Flag that quantises a 16-bit checkpoint on loading, by weight format."""
    stored: dict[str, str] = Field(default_factory=dict)
    """Option without which the engine does not load weights that are stored in a format, by format."""
    plugins: dict[str, str] = Field(default_factory=dict)
    """Package without which the engine loads no weights in a format, by format; releases before `plugins_since` need
    none."""
    plugins_since: str = ""
    plugins_on: dict[str, str] = Field(default_factory=dict)
    """Package through which the engine runs on other hardware, by the name that `plugin_of` gives the hardware."""
    kv: dict[str, str] = Field(default_factory=dict)
    """Flag of the KV cache format, by format."""
    kv_halves: str = ""
    """Flag of the KV cache format with {keys} and {values}, of an engine that keeps each in a format of its own; empty:
    `kv` has the flags."""
    kv_words: dict[str, str] = Field(default_factory=dict)
    """The engine's words for formats of keys and of values, where they differ from the formats' names."""
    yaml_data_parallel: str = ""
    """Line of an options file for attention data parallelism, if the engine has no flag for it (TensorRT-LLM)."""
    yaml_kv: dict[str, str] = Field(default_factory=dict)
    yaml_file: str = ""
    """Flag that names the options file."""
    prefix_caching_on: str = ""
    prefix_caching_off: str = ""
    yaml_prefix_off: str = ""
    speculation: dict[str, str] = Field(default_factory=dict)
    """Flags of speculative decoding by method (mtp, eagle, ngram, draft), with $tokens draft tokens, $verified =
    $tokens + 1, $head, and $head_option, which is `local_head` or `repository_head`."""
    local_head: str = ""
    """Flag of a head or draft model in a file, for engines with another flag for those of a hub."""
    repository_head: str = ""
    """Flag of a head or draft model of a hub."""
    head_window: str = ""
    """Options that open the window of an EAGLE head to the $context of the target; empty if the engine takes a smaller
    one."""
    yaml_speculation: dict[str, str] = Field(default_factory=dict)
    adapters: str = ""
    """Flags of LoRA adapters, with $count, $rank and $slots."""
    later_adapters: str = ""
    """Further flags where no adapter is loaded at the start, whose matrices the engine would otherwise read from it,
    with $matrices, which `adapted_matrices` names."""
    adapted_matrices: dict[str, str] = Field(default_factory=dict)
    """Names of the matrices that adapters may change: `all`, and those of `attention` and of `latent` attention alone
    for mixtures whose experts the engine does not adapt."""
    yaml_adapters: str = ""
    pools: dict[str, str] = Field(default_factory=dict)
    """Flags by role (prefill, decode) in disaggregated serving, with $seqs sequences at once."""
    yaml_pools: dict[str, str] = Field(default_factory=dict)
    pool_port: str = ""
    """Option that tells a prefill worker the port at which KV caches are requested, with {port}."""
    pool_env: dict[str, str] = Field(default_factory=dict)
    """Environment variables that tell a worker of a pool where KV caches are requested, with {host} and {port}."""
    pool_router: str = ""
    """Command of the router before both pools, with $workers and {port}."""
    pool_router_install: str = ""
    pool_router_worker: dict[str, str] = Field(default_factory=dict)
    """Router argument that names one worker, by role, with {url} and {port}, the port of KV caches."""
    sticky_router: str = ""
    """Command of the router that keeps conversations with their replica, with $workers and {port}; each replica is
    named by the entry `replica` of pool_router_worker."""
    sticky_header: str = ""
    """Request header that names the conversation."""
    items: dict[str, str] = Field(default_factory=dict)
    """Start command of one replica for items that are no chats, by workload (embed, rerank, speech), with {model},
    {dtype}, {batch}, {tokens} of a batch and {length_flag}."""
    items_length: str = ""
    """Option for the longest item, {length} tokens; left out where items may fill the model's window."""
    items_of_family: dict[str, str] = Field(default_factory=dict)
    """Words that a published checkpoint of a model type needs in addition, by `family:workload`."""
    served_name: str = ""
    """Option for the name by which requests name the model; empty if the engine answers under any name."""
    repository_code: str = ""
    """Flag that lets the engine run Python code of the model's repository."""
    tokenizer: str = ""
    """Option for the repository of the tokenizer, if it is not that of the weights."""
    nodes: NodeFlags | None = None
    """Words of a replica on several machines; None if no way to start one is known."""
    reads_only: Literal["", "gguf"] = ""
    """Format of files that the engine reads and no other; empty if it reads the publishers' safetensors."""
    shared_slots: str = ""
    """Flag by which sequences share one cache of {total_context} tokens, if each has a slot of its own by default
    (llama.cpp)."""
    context_scaling: str = ""
    """Option that opens a longer context window by YaRN, with $factor, $original tokens and $json, which holds the
    values of `context_scaling_key` and the new window; empty if the engine has none on its command line."""
    context_scaling_key: str = ""
    """Key of the values in the model's configuration: rope_parameters or rope_scaling."""
    scales_by_positions: bool = False
    """Whether the engine computes the factor itself, as the new window over the original one."""
    rope_scaling_until: str = ""
    """First release that reads rope_parameters; earlier ones read rope_scaling, with rope_theta beside it. Empty if the
    engine reads one key in all releases."""
    adapter_paths: str = ""
    """Option that loads adapters at the start, with $adapters, and the form of one in `adapter_path`."""
    adapter_path: str = ""
    """One adapter of `adapter_paths`, with {name} and {path}."""
    address: str = ""
    """Flags that make the server listen on all addresses at {port}."""
    images: dict[str, str] = Field(default_factory=dict)
    """Container image by architecture or vendor of the accelerator."""
    images_seen: tuple[str, ...] = ()
    """Keys of `images` whose tag a source names; the other tags are inferred from the publisher's pattern."""
    image_program: str = ""
    """Path of the program in the images if it is not on their search path."""
    local: str = ""
    """Flag for a local file of weights, if the engine distinguishes it from a hub repository; see `repository`."""
    repository: str = ""
    tp_counts_dp_ranks: bool = False
    """Whether {tp} is the number of accelerators of the replica, attention data-parallel ranks included (SGLang)."""


class WiderGraphs(Record):
    """Models for which an engine captures decode graphs of larger batches than usual."""

    models: tuple[str, ...]
    sizes: tuple[int, ...]
    """Additional batch sizes beyond the engine's own, ascending."""
    source: Source


class ReleasesInTurns(ReleaseSpan):
    """Releases in which scheduler and device take turns on models with recurrent state in their layers while prefix
    caching is on: the state of a prefix can be kept only after its batch has ended.

    The device is then idle while the host launches a prompt. The span also ends with a release that launches prompts
    from captured graphs.
    """

    source: Source


class PromptGraphs(ReleaseSpan):
    """Releases that replay prompts from captured graphs by default, so that no token waits for the host to launch their
    layers one by one. The first entry whose span holds counts."""

    vendors: tuple[str, ...]
    max_latent_tokens: int = Field(default=0, ge=0)
    """Maximum number of tokens of an iteration replayed from a graph, for models with latent attention; other models
    have no such limit."""
    data_parallel: bool = False
    """Whether the entry also holds with attention data-parallel ranks."""
    pipeline_parallel: bool = False
    prefill_pools: bool = False
    """Whether the entry also holds for workers of a prefill pool."""
    except_families: tuple[str, ...] = ()
    """Model families that the entry leaves out."""
    except_experts_on: tuple[str, ...] = ()
    """Architectures on which models with routed experts run a kernel that cannot be captured, except the families in
    expert_families."""
    expert_families: tuple[str, ...] = ()
    vision_families: tuple[str, ...] = ()
    """Families of models that read images for which the entry holds although it leaves out other vision models."""
    source: Source


class KernelChoice(ReleaseSpan):
    """Kernels that releases run for some models on some architectures in place of an engine's usual ones."""

    architectures: tuple[str, ...]
    families: tuple[str, ...] = ()
    """Model families; empty means any."""
    except_families: tuple[str, ...] = ()
    above_hidden_size: int = 0
    """Hidden size that a model must exceed; 0 leaves none out."""
    weight_dtypes: tuple[str, ...] = ()
    """Weight formats; empty means any."""
    needs_prefix_cache: bool = False
    shapes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Shapes of a rank's routed experts, by accelerator, to which the entry is limited: number x columns, `8x7168`.
    Empty means any shape."""
    except_shapes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Shapes that the entry leaves out, written as in shapes. If any are named, the entry holds only for models with
    others."""
    operators: tuple[str, ...]
    """Operator names of the efficiency records, e.g. attention_decode."""
    kernels: str
    """Level of the efficiency records that stands for these kernels, e.g. sglang-triton."""
    source: Source


class CacheKernels(Record):
    """Formats of a cache that the attention kernels of an engine's usual builds take."""

    vendors: tuple[str, ...]
    """Vendors of the accelerators that run these kernels."""
    formats: tuple[str, ...]
    """Formats, keys/values if they differ."""
    build: str
    """Option of the build that has kernels for all pairs of these and of `built_formats`."""
    built_formats: tuple[str, ...]


class SparseLatentKernels(Record):
    """Kernels of latent attention over keys that an indexer selected, on some architectures; the first entry that
    applies counts."""

    architectures: tuple[str, ...]
    kv_dtypes: tuple[str, ...] = ()
    """KV cache formats for which the entry holds; empty means any."""
    below_heads: int | None = None
    """Number of query heads of a rank from which on the entry no longer holds; None means no limit."""
    prompt: Literal["bf16", "fp8"]
    """Format in which the prefill kernel reads the cache: the absorbed sparse kernel of FlashMLA."""
    decode: Literal["bf16", "fp8", "latent"]
    """Format in which the decode kernel reads the cache; latent: the engine's kernel of dense latent attention, given
    the selected keys as pages."""
    prompt_head_multiple: int = Field(default=64, gt=0)
    """Multiple to which query heads are padded in prefill."""
    decode_head_multiple: int = Field(default=64, gt=0)
    expands_short_prompts: bool = False
    """Whether a prompt no longer than the number of keys to select runs dense, with its keys expanded and without
    scoring."""
    source: Source


class HostCache(ReleaseSpan):
    """Releases that can keep the cache of preempted requests in host memory."""

    flag: str
    """Option that switches it on, with {gib} of host memory in GiB for one accelerator, or {total_gib} for all."""
    blocks_engine: bool = False
    """Whether the next iteration waits for copies to the host; if not, blocks are copied as they are filled."""
    copies: Literal["layer", "block"] = "block"
    """Size of one copy: keys or values of one layer in one block, or all layers of a block."""
    copy_launch_s: float = Field(default=0.0, ge=0)
    """Time that each copy takes in addition to its bytes [s]."""
    source: Source


class PriorityRule(ReleaseSpan):
    """Releases that serve requests by priority."""

    flag: str
    """Options that switch it on."""
    preempts_to_admit: bool = False
    """Whether running requests are preempted for a more urgent one that waits; if not, only a full cache preempts, and
    then the least urgent."""
    source: Source


class ReleaseFormat(ReleaseSpan):
    """Weight format that only some releases serve, on some architectures."""

    weight_dtype: str
    architectures: tuple[str, ...]
    source: Source


class CacheDefault(Record):
    """Format in which an engine keeps the cache of some models by default."""

    families: tuple[str, ...]
    """Families of models, as their records name them."""
    architectures: tuple[str, ...] = ()
    """Architectures of accelerators on which it holds; empty for all."""
    kv_dtype: str
    source: Source


class CacheRefusal(Record):
    """Formats of the cache with which an engine does not start some models on some accelerators: those of a class or
    with a kind of attention that the record names."""

    kv_dtypes: tuple[str, ...]
    architectures: tuple[str, ...]
    """Architectures of accelerators on which it holds."""
    classes: tuple[str, ...] = ()
    """Classes of models."""
    latent: bool = False
    """Whether it holds for models with latent attention."""
    sinks: bool = False
    """Whether it holds for models with attention sinks."""
    source: Source


class Engine(Record):
    """Serving engine and its defaults."""

    id: str
    name: str
    release: str = ""
    """Release that a question names; empty for the newest one that was read."""
    aliases: tuple[str, ...] = ()
    scheduler: Literal["mixed", "prefill_first", "static", "single_stream"]
    """mixed: prefill chunks ride in decode batches (vLLM V1, TensorRT-LLM with chunked context); prefill_first: prefill
    batches run alone and go first (SGLang default); static: batch runs to its end; single_stream: one sequence at a
    time (llama.cpp without batching)."""
    chunked_prefill: bool = True
    """False: a prompt is processed whole or waits, and must fit into max_num_batched_tokens."""
    max_num_seqs: int = Field(gt=0)
    max_num_batched_tokens: int = Field(gt=0)
    """New tokens of one iteration; if the scheduler is prefill_first, the chunk of one prefill batch."""
    token_budget_of: Literal["rank", "replica"] = "rank"
    """Owner of the budget max_num_batched_tokens under attention data parallelism: each rank has its own, or the ranks
    of a replica share it (SGLang divides its chunk among them)."""
    balances_prompts: bool = False
    """Whether prompts wait, under attention data parallelism, until every rank has one, so that no rank computes alone
    (TensorRT-LLM's attention_dp_config, which its recipes switch on)."""
    memory_fraction: float = Field(gt=0, le=1)
    memory_fraction_of: Literal["total", "free_after_weights"] = "total"
    """free_after_weights: the fraction applies to the memory that is free once weights are loaded (TensorRT-LLM)."""
    memory_reserve: MemoryReserve | None = None
    """Reserve from which memory_fraction is computed; None means that memory_fraction itself holds."""
    earlier_memory: tuple[EarlierMemory, ...] = ()
    """Accounting of earlier releases; the first span that holds a run counts."""
    expert_padding: tuple[ExpertPadding, ...] = ()
    layer_kernels: tuple[LayerKernels, ...] = ()
    """Kernels of a layer by family; another family has as many as the model on which their time was read."""
    state_pool_ratio: float | None = Field(default=None, gt=0)
    """Memory set apart for recurrent states over that of keys and values; None if both share one pool."""
    profiles_encoder: bool = False
    """Whether memory for the largest images is taken off the cache at the start, if the model reads images (vLLM)."""
    kv_block_tokens: int = Field(gt=0)
    sparse_kv_block_tokens: int | None = Field(default=None, gt=0)
    """Tokens of a cache block of latent attention with an indexer, whose kernels take no smaller one; None where it is
    that of other models."""
    pads_cache_groups: bool = False
    """Whether groups of layers whose caches grow at different rates all take pages of one size (vLLM)."""
    cache_defaults: tuple[CacheDefault, ...] = ()
    """Formats that the engine gives the cache of some models unless told otherwise; the first that holds counts."""
    cache_refusals: tuple[CacheRefusal, ...] = ()
    cuda_graph_sizes: tuple[int, ...] = ()
    """Batch sizes for which decode graphs are captured, ascending; a batch pads to the next one."""
    cuda_graph_sizes_per_seq: float | None = None
    """Multiple of max_num_seqs up to which graphs are captured (vLLM: 2); None means no such limit."""
    wider_graphs: tuple[WiderGraphs, ...] = ()
    cuda_graph_padding: bool = True
    """Whether a batch pads to the next graph size; if False, a batch between two sizes runs without a graph."""
    needs_whole_blocks: bool = False
    """Whether it refuses layouts that cut blocks of 128 × 128 weights, which share a scale in some fp8 checkpoints."""
    uncut_weights: tuple[str, ...] = ()
    """Weight formats that it loads without tensor parallelism alone."""
    file_formats: tuple[str, ...] = ()
    """Formats of files that the engine loads and that most others do not: mlx, exl3."""
    makes_weights: dict[str, tuple[str, ...]] | None = None
    """Classes of models of which the engine's own tool makes weights that it reads, by format; None if tools that are
    not its own make them of any class."""
    guesses_in_stages: bool = True
    """Whether it guesses ahead where a replica has pipeline stages."""
    quantises_whole_models: bool = False
    """Whether all 16-bit weights are in the accelerators' memory before it quantises them on loading, up to
    `quantises_layers_since`."""
    quantises_layers_since: str = ""
    """Release from which it quantises each layer as its weights arrive; empty if none does."""
    is_planned_if_named: bool = False
    """Whether plans are made with it only where a question names it, on every accelerator of its vendors that another
    engine serves: nothing of it was fitted."""
    adapts_experts: tuple[str, ...] = ()
    """Weight formats in which it keeps memory for LoRA adapters of routed experts too, whether they have any or not."""
    most_adapter_rank: int = Field(default=0, ge=0)
    """Largest rank of LoRA adapters that it takes; 0 without a limit."""
    prefix_caching: bool = True
    embeds_on_host: bool = False
    """Whether tokens are looked up in host memory; the input table then takes no accelerator memory."""
    windowed_cache_fraction: float = Field(default=0.0, ge=0, le=1)
    """Fraction of the cache that layers with a sliding window hold for tokens outside their window: 0 frees them
    (vLLM), 1 keeps all (TensorRT-LLM without max_attention_window)."""
    windowed_cache_families: tuple[str, ...] = ()
    """Model families whose layers with a sliding window have a pool of their own; those of others keep all tokens.
    Empty means any family."""
    windowed_cache_step: int = Field(default=0, ge=0)
    """Tokens to whose multiples the cache of a layer with a window is rounded up, where it also holds a micro-batch of
    each sequence (llama.cpp); 0 where it does not."""
    reserve_output_fraction: float = Field(default=0.0, ge=0, le=1)
    """Fraction of a request's output whose cache is reserved at admission: 0 preempts when it runs out (vLLM), 1 never
    does (TensorRT-LLM's guaranteed-no-evict)."""
    reserve_output_fraction_floor: float | None = Field(default=None, ge=0, le=1)
    """Value to which reserve_output_fraction falls while decoding goes well (SGLang); None if it stays."""
    reserve_output_decay_steps: int = 0
    """Number of decode steps over which reserve_output_fraction falls to its floor."""
    host_caches: tuple[HostCache, ...] = ()
    """Ways to keep the cache of preempted requests in host memory; the first span that holds a run counts. A release
    without one computes preempted requests again."""
    priority_rules: tuple[PriorityRule, ...] = ()
    """Scheduling by priority; the first span that holds a run counts."""
    overlap_scheduling: bool = False
    """Whether the next batch is composed while the current one runs, so that arrivals and freed slots count one
    iteration later."""
    overlaps_since: str = ""
    """First release that does so by default; earlier ones compose a batch once the one before has ended. Empty: all
    releases do."""
    prompt_launches: Literal["ahead", "each", "in_step", "in_turns"] = "each"
    """How tokens wait for the host that launches a prompt's layers.

    ahead: an iteration of more tokens than are captured ends no sooner than its launches, which the host begins while
    the previous iteration runs (vLLM); each: the host launches every layer in parallel with the device, and an
    iteration with prompts takes at least that long (SGLang); in_step: a first token waits for layers with routed
    experts, longer the more ranks have to keep step, and not at all on one rank (TensorRT-LLM); in_turns: like each,
    but the device is idle meanwhile.
    """
    prompt_graphs: tuple[PromptGraphs, ...] = ()
    captured_prompt_tokens: int = Field(default=0, ge=0)
    """Maximum number of tokens of an iteration with prompts that is replayed from a captured graph; filled from
    prompt_graphs for a deployment of a release."""
    expert_operators: int = Field(default=12, gt=0)
    """Number of operators that the host launches for a feed-forward part with routed experts, norm included."""
    in_turns_with_state: ReleasesInTurns | None = None
    in_turns_guessing: tuple[str, ...] = ()
    """Methods of speculative decoding with which host and device take turns, as a speculation names them."""
    eager_with_data_parallel: ReleaseSpan | None = None
    """Releases that decode without captured graphs if attention data-parallel ranks run in lockstep."""
    pool_handover: Literal["layers", "chunks", "in_turn"] = "layers"
    """How a prefill pool hands a request to a decode pool. layers: a layer's cache leaves while the next is computed;
    chunks: the cache of an iteration's tokens leaves once these are computed;
    in_turn: the router asks the decode server only after the prefill server has answered, and that one pulls the cache
    and computes the first token."""
    captured_context: CapturedContext | None = None
    eager_on: EagerReleases | None = None
    kernel_levels: tuple[KernelLevel, ...] = ()
    sparse_latent: tuple[SparseLatentKernels, ...] = ()
    kernel_choices: tuple[KernelChoice, ...] = ()
    """Kernel choices of releases; the first that applies to an operator counts."""
    expert_blocks_below_ranks: int | None = None
    """Number of ranks that split each expert from which on other kernels run than those that pad its rows to blocks;
    None means no limit."""
    sinks_in_unified_kernel: tuple[str, ...] = ()
    """Architectures on which attention with sinks runs in one kernel for prompts and decodes."""
    defaults_for: tuple[DefaultsFor, ...] = ()
    weight_dtypes: tuple[str, ...] = ()
    kv_dtypes: tuple[str, ...] = ()
    kv_kernels: CacheKernels | None = None
    reads_cache_format_from: tuple[Literal["config.json", "hf_quant_config.json"], ...] = ()
    """Files of a checkpoint whose declared cache format the engine follows unless told otherwise, the first that
    declares one; empty: it keeps 16 bits."""
    keeps_declared_cache: bool = False
    """Whether it refuses another cache format than the one that a checkpoint declares."""
    vendors: tuple[str, ...] = ()
    release_formats: tuple[ReleaseFormat, ...] = ()
    """Further weight formats that some releases serve; a search takes them only if asked for."""
    vendor_weight_dtypes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Weight formats by vendor, for vendors that do not have all of weight_dtypes."""
    holds_layers_in_turn: bool = False
    """Whether several accelerators hold whole layers in turn unless the engine is told to split every layer among them:
    it does one or the other."""
    launch_template: str = ""
    """Launch command with {model}, {tp}, {pp}, {dp}, {tp_flag}, {dp_flag}, {ep_flag}, {dtype_flag}, {kv_flag},
    {max_num_seqs}, {max_num_batched_tokens}, {max_model_len}, {total_context}."""
    flags: LaunchFlags = LaunchFlags()
    notes: str = ""
    sources: tuple[Source, ...] = ()

    def __hash__(self) -> int:
        """Return the hash of the id: tables of fields have none, and records of one id are rarely different."""
        return hash(self.id)
