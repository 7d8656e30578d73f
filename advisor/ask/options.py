"""Options that several commands have, in groups, and those that all have: frozen dataclasses of what was typed."""

import datetime
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from typer import Option

from advisor.ask.acts import ALL, CHAT, ITEMS, REPLICAS, acts
from advisor.ask.measures import parse_day


class Effect(Enum):
    """An effect that an option has besides asking; it follows the help in the declaration of the option.

    A file in a folder may set only options without an effect, and those that read. An option that takes a path and
    declares nothing counts as one that writes.
    """

    READS = "says which file is read"
    WRITES = "says which file is written"
    CHANGES = "changes files that are there"
    DELETES = "deletes"
    FETCHES = "says what is fetched"
    EXECUTES = "changes settings of this machine"
    ACCEPTS = "accepts what would be refused"
    SENDS = "says where work is sent"
    OPENS = "says which machines may ask"


class Panel(NamedTuple):
    """A heading of the help: called, it declares an option below it."""

    title: str

    def __call__(
        self, metavar: str | None, text: str, show_default: str | bool = False, *names: str, **more: Any
    ) -> Any:
        """Return an option with its help; `show_default` is its text, or whether to show the real one."""
        return Option(
            *names, metavar=metavar, help=text, rich_help_panel=self.title, show_default=show_default, **more
        )


OUTPUT: Final = Panel("Output and reproducibility")
LOAD: Final = Panel("Load")
OBJECTIVES: Final = Panel("Objectives")
LIMITS: Final = Panel("What the answer may use")
BILL: Final = Panel("Storage and egress")
LAYOUT: Final = Panel("Layout and precision")
ITEM: Final = Panel("Images, texts, audio")
DEFAULT_ITEMS: Final = "100k"
"""Requests of a batch, as typed, where none are told. Own choice: an example."""
ENGINE: Final = Panel("Settings of the engine")
_ENGINES: Final = "the engine's"
SERVER: Final = Panel("The server that was measured")
_BUT_DISTILLED: Final = ALL.replace("distill ", "")


_WRITTEN_ON: Final = datetime.date(2026, 11, 1)
"""No question was asked before: a clock that says so has stopped or was never set."""


def today() -> datetime.date:
    """Return the day on which the question is asked; documented examples are run on a fixed one."""
    return datetime.date.today()


def clock_warning(day: datetime.date) -> str:
    """Return a warning where the day of a question that names none is impossible; empty otherwise."""
    if day >= _WRITTEN_ON:
        return ""
    return f"this computer's clock says {day}, when nothing had a price yet: set it, or give --as-of"


def _as_of(text: str) -> datetime.date:
    return parse_day(text, "--as-of")


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """The options that every command has, accepted after the subcommand."""

    json: Annotated[bool, OUTPUT(None, "Print one JSON document and nothing else.", True, "--json")] = False
    output: Annotated[
        Path | None,
        OUTPUT(
            "FILE",
            "Write the answer to a file too; the suffix says how: .json .csv .md .html.",
            False,
            "--output",
            "-o",
        ),
        Effect.WRITES,
    ] = None
    quiet: Annotated[
        bool, OUTPUT(None, "No progress, notes or warnings; with -o only the file.", True, "--quiet", "-q")
    ] = False
    verbose: Annotated[
        bool, OUTPUT(None, "More notes; the traceback of an internal error.", True, "--verbose", "-v")
    ] = False
    no_input: Annotated[bool, OUTPUT(None, "Never ask a question.", True, "--no-input")] = False
    offline: Annotated[bool, OUTPUT(None, "Never use the network.", True, "--offline")] = False
    seed: Annotated[
        int, OUTPUT("N", "Seed of everything random: same seed, same answer.", True, min=0, max=2**63 - 1)
    ] = 0
    as_of: Annotated[
        datetime.date,
        OUTPUT("YYYY-MM-DD", "Prices and availability as known on that day.", "today", parser=_as_of),
    ] = field(default_factory=lambda: today())  # noqa: PLW0108  # looked up by each call
    calibration: Annotated[
        Path | None,
        OUTPUT("FILE", "Measured figures of one machine, from `advisor calibrate`."),
        Effect.READS,
    ] = None
    trust_config: Annotated[
        bool,
        OUTPUT(
            None,
            "Let advisor.toml set options that write, delete, fetch, accept or send work elsewhere.",
            True,
            "--trust-config",
        ),
        Effect.ACCEPTS,
    ] = False
    given: frozenset[str] = frozenset()
    """Names of the options that were given, even if with their default value."""

    def as_inputs(self) -> dict[str, object]:
        """Return the shared options that decide the answer, for the JSON document's `inputs`."""
        return {"as_of": self.as_of, "offline": self.offline, "calibration": self.calibration}


def _tokens(text: str, default: str = "of the profile") -> Any:
    return LOAD("N", text, default, min=1, max=10_000_000)


Rate = Annotated[str | None, LOAD("R", "Requests per second: 10, 10/s or 600/min.")]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The load as typed: a profile or token counts or a trace; a rate or a concurrency or neither; how it is drawn."""

    rate: Annotated[Rate, acts(f"{CHAT} {ITEMS} batch", each=True)] = None
    concurrency: Annotated[
        str | None,
        LOAD("C", "Clients that each wait for one answer before the next request."),
        acts(f"{CHAT} batch"),
    ] = None
    ramp: Annotated[
        str | None, LOAD("TIME", "Over how long the clients begin, one after the other.", "all at once")
    ] = None
    input_tokens: Annotated[
        int | None, _tokens("Mean prompt."), acts(f"{CHAT} embed rerank batch distill rl", each=True)
    ] = None
    output_tokens: Annotated[
        int | None, _tokens("Mean answer."), acts(f"{CHAT} speech batch distill rl", each=True)
    ] = None
    trace: Annotated[
        Path | None,
        LOAD("FILE", "Recorded requests: CSV or JSON lines, own, Azure or Mooncake columns."),
        acts("serve batch", each=True),
        Effect.READS,
    ] = None
    trace_speed: Annotated[
        float | None,
        LOAD("K", "Replay the trace K times as fast.", "as it was", max=1_000_000),
        acts("serve"),
    ] = None
    profile: Annotated[
        str | None,
        LOAD("NAME", "Published lengths: chat, rag, code, agent, batch, reasoning.", "chat"),
        acts(f"{CHAT} batch", each=True),
    ] = None
    shared_prefix_tokens: Annotated[
        int | None,
        _tokens(
            "Tokens of the shared prefix, counted in the mean prompt.",
            "none",
        ),
        acts("serve", each=True),
    ] = None
    shared_prefixes: Annotated[
        int | None,
        LOAD("K", "Number of shared prefixes, equally often.", "1", min=1, max=1_000_000),
        acts("serve", each=True),
    ] = None
    sessions: Annotated[
        float | None,
        LOAD(
            "TURNS",
            "Turns of a conversation on average; lengths are then those of a turn, whose prompt sends all before it.",
            "requests that stand alone",
            min=1.0,
            max=1000.0,
        ),
        acts("serve"),
    ] = None
    turn_gap: Annotated[
        str | None,
        LOAD("TIME", "From a prompt to the next of its conversation, on average.", "1min"),
        acts("serve"),
    ] = None
    length_dist: Annotated[
        str | None,
        LOAD("DIST", "How lengths spread: fixed, uniform:0.8, lognormal:SIGMA.", "as the profile"),
        acts("serve", each=True),
    ] = None
    requests: Annotated[
        int | None, LOAD("N", "How many are simulated.", "2000, or 10 a client", min=1, max=1_000_000)
    ] = None


@dataclass(frozen=True, slots=True)
class Audience:
    """People whose requests are the load, as typed: a use case, and how many use it."""

    use_case: Annotated[
        str | None,
        LOAD("NAME", "Published lengths and objectives: chatbot, rag, code, agent, summarise, voice."),
        acts("serve"),
    ] = None
    users: Annotated[
        str | None,
        LOAD("N", "People who use it, instead of a rate: 1000, 50k."),
        acts("serve", instead="--rate 10"),
    ] = None
    requests_per_user: Annotated[
        str | None,
        LOAD("R", "Requests of one of them, with --users: 20/h, 10/day.", "as published for chatbots"),
        acts("serve"),
    ] = None


Top = Annotated[int, Option(metavar="N", min=1, max=100, help="Accelerators to rank.")]


def _level(text: str, default: str | bool = False) -> Any:
    return OBJECTIVES("TIME", text, default)


@dataclass(frozen=True, slots=True)
class ObjectiveOptions:
    """Objectives and limits that the answer must keep, as typed."""

    ttft_p99: Annotated[
        str | None, _level("Largest p99 time to first token.", "2s"), acts(CHAT, models=True)
    ] = None
    tpot_p99: Annotated[
        str | None, _level("Largest p99 time per output token.", "100ms"), acts(CHAT, models=True)
    ] = None
    ttft_p95: Annotated[str | None, _level("Largest p95 time to first token."), acts(CHAT, models=True)] = (
        None
    )
    ttft_p50: Annotated[
        str | None, _level("Largest median time to first token."), acts(CHAT, models=True)
    ] = None
    tpot_p95: Annotated[str | None, _level("Largest p95 time per output token."), acts(CHAT, models=True)] = (
        None
    )
    tpot_p50: Annotated[
        str | None, _level("Largest median time per output token."), acts(CHAT, models=True)
    ] = None
    itl_p99: Annotated[
        str | None, _level("Largest p99 gap between two tokens of a request."), acts(CHAT, models=True)
    ] = None
    e2e_p99: Annotated[
        str | None, _level("Largest p99 time of a whole request."), acts(CHAT, models=True)
    ] = None
    headroom: Annotated[
        float,
        OBJECTIVES(
            "FRACTION",
            "Fraction of the confirmed capacity kept free; 0 for benchmarks.",
            True,
            min=0,
            max=0.9,
        ),
        acts(CHAT, models=True),
    ] = 0.2
    redundancy: Annotated[
        Literal["none", "n+1"],
        OBJECTIVES("RULE", "n+1: one replica more than the load needs.", True),
        acts(CHAT, models=True),
    ] = "none"
    budget: Annotated[
        str | None,
        OBJECTIVES(
            "USD",
            "At most so much: 13.7/h or 10000/month; the whole job for training. Without a load: how much "
            "traffic it buys.",
            False,
        ),
        acts(_BUT_DISTILLED, plan=True, models=True),
    ] = None
    goal: Annotated[
        Path | None,
        OBJECTIVES(
            "FILE.toml", "Rank hardware families by your weights of fit, cost, ecosystem, team.", False
        ),
        acts("serve", instead="--workload serve"),
        Effect.READS,
    ] = None


@dataclass(frozen=True, slots=True)
class Where:
    """Hardware, providers, terms, prices and software that the answer may use, as typed."""

    gpu: Annotated[
        str | None,
        LIMITS("ID,...", "Only these accelerators; 2xh100-sxm: at most 2."),
        acts(ALL, plan=True, models=True, rent=True),
    ] = None
    provider: Annotated[
        str | None, LIMITS("NAME,...", "Only these providers."), acts(ALL, plan=True, models=True, rent=True)
    ] = None
    engine: Annotated[
        str | None,
        LIMITS("NAME,...", "Only these engines, such as vllm@0.24.0."),
        acts(f"{CHAT} batch distill", models=True, instead="--runtime"),
    ] = None
    precision: Annotated[
        str | None,
        LIMITS("FORMAT,...", "Weight formats; fp8 and wider by default."),
        acts(_BUT_DISTILLED, models=True),
    ] = None
    kv_precision: Annotated[
        str | None,
        LIMITS("FORMAT", "KV cache, e.g. fp8.", "the checkpoint's"),
        acts(CHAT, models=True),
    ] = None
    own: Annotated[
        str | None,
        LIMITS(
            "NxID,...|FILE",
            "Hardware that you own: 8xh100-sxm, or what nvidia-smi -L prints.",
        ),
        acts(ALL, plan=True, models=True),
    ] = None
    term: Annotated[
        str,
        LIMITS("TERM,...", "on-demand, spot, reserved-1y, reserved-3y, community.", True),
        acts(ALL, plan=True, models=True, rent=True),
    ] = "on-demand"
    tenancy: Annotated[
        str,
        LIMITS("KIND,...", "dedicated, shared, unknown (hosts of other people).", True),
        acts(ALL, plan=True, models=True, rent=True),
    ] = "dedicated"
    region: Annotated[
        str | None,
        LIMITS(
            "NAME,...",
            "Where machines stand: a country (de), a place (sweden, eu), a region's beginning (us-east).",
        ),
        acts(ALL, plan=True, models=True, rent=True),
    ] = None
    residency: Annotated[
        str | None,
        LIMITS("PLACE", "Where data may stay: eu, or countries: de,fr."),
        acts(ALL, plan=True, models=True, rent=True),
    ] = None
    max_price_age: Annotated[
        int | None,
        LIMITS("DAYS", "Ignore prices older than this many days.", min=0, max=100_000),
        acts(ALL, plan=True, models=True, rent=True),
    ] = None
    max_gpus: Annotated[
        int,
        LIMITS("N", "Accelerators of one replica at most.", True, min=1, max=100_000),
        acts(REPLICAS, models=True, instead="--gpus"),
    ] = 64
    price_file: Annotated[
        Path | None,
        LIMITS("CSV", "Your own prices, which win over the catalog's."),
        acts(ALL, plan=True, models=True, rent=True),
        Effect.READS,
    ] = None
    max_context: Annotated[
        str | None,
        LIMITS("N,...", "Context windows that each get an answer: 64k,256k,1M."),
        acts("serve"),
    ] = None
    power_budget: Annotated[
        str | None,
        LIMITS("kW", "Power that your own machines may draw, hosts included: 5kW."),
        acts(ALL, plan=True, models=True),
    ] = None


@dataclass(frozen=True, slots=True)
class ExtraOptions:
    """Storage and egress that are paid for in addition to machines, as typed."""

    storage_tb: Annotated[
        float | None,
        BILL("TB", "Weights, checkpoints and data kept, at the provider's price.", min=0, max=1e6),
        acts(ALL, plan=True, models=True),
    ] = None
    egress_tb: Annotated[
        float | None,
        BILL("TB", "Sent out a month, at the provider's price.", min=0, max=1e6),
        acts(ALL, plan=True, models=True),
    ] = None


Router = Literal["round_robin", "least_outstanding", "prefix_affinity", "share"]


def degree(text: str, most: int = 1024) -> Any:
    """Return a degree of parallelism, or another small number."""
    return LAYOUT("N", text, True, min=1, max=most)


ModelName = Annotated[str, Option(metavar="NAME", help="Id, size (70b), Hugging Face id or config.json.")]
AnyModel = Annotated[
    str | None,
    Option(metavar="NAME", help="Id, size (70b), Hugging Face id or config.json.", show_default=False),
]
"""Name of a model in a question that may be about no model."""
OtherModelName = Annotated[str, Option(metavar="NAME", help="Id, Hugging Face id or config.json.")]
"""Name of a model for work in which a size names no model."""
GpuName = Annotated[str, Option(metavar="ID", help="Accelerator id or short name: h100.")]
Precision = Annotated[str | None, LAYOUT("FORMAT", "Weights.", "the checkpoint's")]
StepByStep = Annotated[
    bool, Option("--step-by-step", help="Process every engine step; same records, slower.")
]
RecordsFile = Annotated[
    Path | None,
    Option(metavar="OUT.csv", help="Write one row per request.", show_default=False),
    Effect.WRITES,
]


ChromeTrace = Annotated[
    Path | None,
    Option(metavar="OUT.json", help="Write the run as a trace that Perfetto opens.", show_default=False),
    Effect.WRITES,
]


MemorySnapshot = Annotated[
    Path | None,
    Option(
        metavar="OUT.json",
        help="Write memory over the step with the fields of PyTorch's snapshots.",
        show_default=False,
    ),
    Effect.WRITES,
]


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """How a model is laid out, as typed."""

    tp: Annotated[int, degree("Tensor parallelism.")] = 1
    pp: Annotated[int, degree("Pipeline stages.")] = 1
    ep: Annotated[int, degree("Expert parallelism, over the same accelerators.")] = 1
    dp: Annotated[int, degree("Attention data parallelism inside a replica.")] = 1
    replicas: Annotated[int, degree("Equal replicas behind a router.", 10_000)] = 1
    router: Annotated[
        Router,
        LAYOUT("RULE", "Replica that gets a request; share: one replica with its share of the load.", True),
    ] = "least_outstanding"
    precision: Precision = None
    kv_precision: Annotated[
        str | None,
        LAYOUT("FORMAT", "KV cache; auto is the default.", "the checkpoint's or engine's, else bf16"),
    ] = None
    engine: Annotated[
        str | None, LAYOUT("NAME", "Serving engine.", "vllm, or one that serves the weights there")
    ] = None
    nodes: Annotated[
        int | None,
        LAYOUT("N", "Machines over which a replica is spread.", "as few as hold it", min=1, max=1024),
    ] = None
    network: Annotated[
        str | None,
        LAYOUT("TEXT", "Network between them: 'InfiniBand 8x400Gb', 'TCP 100Gb'.", "the usual node's"),
    ] = None


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """Settings with which a serving engine is started, as typed; None takes the engine's default."""

    gpu_memory_utilization: Annotated[
        float | None,
        ENGINE(
            "F", "Fraction of memory that the engine may use, as it counts it.", _ENGINES, min=0.05, max=1.0
        ),
    ] = None
    kv_cache_bytes: Annotated[
        str | None, ENGINE("SIZE", "KV cache of each accelerator, instead of a fraction: 20GiB.", _ENGINES)
    ] = None
    max_model_len: Annotated[
        int | None,
        ENGINE("N", "Longest request that the server takes.", "the model's window", min=1, max=100_000_000),
    ] = None
    block_size: Annotated[
        int | None, ENGINE("N", "Tokens of a cache block (page).", _ENGINES, min=1, max=65_536)
    ] = None
    ubatch_size: Annotated[
        int | None,
        ENGINE("N", "Prompt tokens of a micro-batch (llama.cpp's -ub).", _ENGINES, min=1, max=1_000_000),
    ] = None
    enforce_eager: Annotated[bool, ENGINE(None, "No decode graphs.", True, "--enforce-eager")] = False
    enable_dp_attention: Annotated[
        bool,
        ENGINE(
            None, "--dp divides the accelerators of --tp, as SGLang counts.", True, "--enable-dp-attention"
        ),
    ] = False
    enable_expert_parallel: Annotated[
        bool, ENGINE(None, "Experts over all accelerators of a replica.", True, "--enable-expert-parallel")
    ] = False
    language_model_only: Annotated[
        bool, ENGINE(None, "No towers of images and audio.", True, "--language-model-only")
    ] = False
    gpu_layers: Annotated[
        str | None,
        ENGINE(
            "N", "Layers in the accelerators' memory, the output layer counted; the rest on the host.", "all"
        ),
    ] = None
    host_experts: Annotated[
        str | None,
        ENGINE("N", "First layers whose routed experts stay with the host: 20, all, or PATTERN=CPU.", "none"),
    ] = None
    tensor_split: Annotated[
        str | None, ENGINE("A,B,...", "Layers of each stage of --pp, in proportion: 3,1.", "equal")
    ] = None
    host_bandwidth: Annotated[
        str | None, ENGINE("SIZE/s", "Bandwidth of the host's memory, with such layers.", "90GB/s")
    ] = None
    cpu_offload_gb: Annotated[
        float | None,
        ENGINE(
            "N",
            "GiB of each accelerator's weights in main memory, as vLLM and SGLang count.",
            "0",
            min=0.0,
            max=1_000_000.0,
        ),
    ] = None
    engine_version: Annotated[str | None, ENGINE("V", "Release of the engine: 0.11.0.", "the newest")] = None


def _server_option(text: str, metavar: str, default: str = "as the file says", **more: Any) -> Any:
    return SERVER(metavar, text, default, **more)


@dataclass(frozen=True, slots=True)
class StatedServer:
    """Conditions of a measured server that its file does not say, as typed; None where the file counts."""

    model: Annotated[str | None, _server_option("Model: id, Hugging Face id or config.json.", "NAME")] = None
    gpu: Annotated[str | None, _server_option("Accelerator.", "ID")] = None
    engine: Annotated[str | None, _server_option("Serving engine.", "NAME")] = None
    engine_version: Annotated[str | None, _server_option("Release of the engine, e.g. 0.11.0.", "V")] = None
    tp: Annotated[int | None, _server_option("Tensor parallelism.", "N", min=1, max=1024)] = None
    pp: Annotated[int | None, _server_option("Pipeline stages.", "N", min=1, max=1024)] = None
    dp: Annotated[int | None, _server_option("Attention data parallelism.", "N", min=1, max=1024)] = None
    ep: Annotated[int | None, _server_option("Expert parallelism.", "N", min=1, max=1024)] = None
    precision: Annotated[str | None, _server_option("Weights.", "FORMAT")] = None
    kv_precision: Annotated[str | None, _server_option("KV cache.", "FORMAT", "bf16")] = None
    max_num_seqs: Annotated[
        int | None, _server_option("Sequences that may run at once.", "N", "the engine's", min=1, max=100_000)
    ] = None
    max_num_batched_tokens: Annotated[
        int | None, _server_option("Tokens of one engine step.", "N", "the engine's", min=1, max=10_000_000)
    ] = None
    gpu_memory_utilization: Annotated[
        float | None,
        _server_option("Fraction of memory that the engine may use.", "F", "the engine's", min=0.05, max=1.0),
    ] = None
    enforce_eager: Annotated[
        bool, SERVER(None, "The engine captures no decode graphs.", True, "--enforce-eager")
    ] = False
    power_cap: Annotated[
        str | None, _server_option("Power limit of each accelerator: 300W.", "W", "rated")
    ] = None
    concurrency: Annotated[
        int | None, _server_option("Clients that each wait for their output.", "C", min=1, max=1_000_000)
    ] = None
    rate: Annotated[str | None, _server_option("Requests per second: 10, 10/s or 600/min.", "R")] = None
    input_tokens: Annotated[int | None, _server_option("Mean prompt.", "N", min=1, max=10_000_000)] = None
    output_tokens: Annotated[int | None, _server_option("Mean output.", "N", min=1, max=10_000_000)] = None
    shared_prefix_tokens: Annotated[
        int | None,
        _server_option("Tokens of each prompt that all share.", "N", "none", min=1, max=10_000_000),
    ] = None


@dataclass(frozen=True, slots=True)
class Levers:
    """Changes other than hardware and layout that may be applied, as typed."""

    levers: Annotated[
        str,
        LIMITS(
            "NAME,...",
            "none; auto: reuse of prompts, others tried on what is shown; or those to search with: prefix, kv-fp8, "
            "kv-int8, kv-nvfp4, speculation (mtp or eagle), mtp, eagle, ngram, draft:MODEL, pools, "
            "split, power-cap.",
            True,
        ),
        acts("serve", models=True),
    ] = "auto"
    acceptance: Annotated[
        float | None,
        LIMITS("A", "Chance that a guess is accepted.", "as published", min=0.0, max=1.0),
        acts("serve", models=True),
    ] = None
    adapters: Annotated[
        str | None,
        LOAD("N|FOLDER", "LoRA adapters, one a request; or their folder.", "none"),
        acts("serve"),
    ] = None
    adapter_rank: Annotated[
        int | None,
        LOAD("N", "Their rank, with --adapters.", "16, or the folder's", min=1, max=4096),
        acts("serve"),
    ] = None
    adapter_slots: Annotated[
        int | None,
        LOAD("N", "Adapters in memory at once.", "all, at most 64", min=1, max=100_000),
        acts("serve"),
    ] = None


MethodName = Literal["full", "lora", "qlora", "dora", "ia3"]
OptimizerName = Literal["adamw", "adamw_bf16", "adamw_8bit", "adafactor", "lion", "muon", "sgd"]


@dataclass(frozen=True, slots=True)
class ItemInput:
    """Options about one item and how it is run, as typed."""

    steps: Annotated[
        int | None,
        ITEM("N", "Denoising steps of an image.", "of the model", min=1, max=10_000),
        acts("diffusion"),
    ] = None
    image_size: Annotated[
        str | None, ITEM("WxH", "Pixels of an image.", "of the model"), acts("diffusion vision")
    ] = None
    guidance: Annotated[
        bool | None,
        ITEM(
            None,
            "Classifier-free guidance: every step runs twice.",
            "of the model",
            "--guidance/--no-guidance",
        ),
        acts("diffusion"),
    ] = None
    tokens: Annotated[
        int | None, ITEM("N", "Tokens of a text or of 30 s of speech.", "512; 105", min=1, max=10_000_000)
    ] = None
    query_tokens: Annotated[
        int | None,
        ITEM("N", "Of a reranker's query, read with every text.", "32 to rerank", min=1, max=1_000_000),
        acts("rerank"),
    ] = None
    runtime: Annotated[
        str | None, ITEM("NAME", "tensorrt, torch-compile or torch-eager.", "by workload"), acts(ITEMS)
    ] = None
    max_batch: Annotated[
        int | None, ITEM("N", "Largest batch.", "what fits, at most 256", min=1, max=4096), acts(ITEMS)
    ] = None
    latency_p99: Annotated[
        str | None, ITEM("TIME", "From arrival to the finished item, that 99 % keep.", "1s"), acts(ITEMS)
    ] = None
    images: Annotated[int, ITEM("N", "Images of one request.", True, min=1, max=1000), acts("vision")] = 1
    image_scheme: Annotated[
        str | None,
        ITEM("NAME", "How images become tokens: llava-1.5, qwen3-vl, ...", "the model's"),
        acts("vision"),
    ] = None
    items: Annotated[
        str | None,
        ITEM("N", "Requests of a batch, or images, texts or audio, e.g. 1M.", DEFAULT_ITEMS),
        acts(f"{ITEMS} batch distill"),
    ] = None
