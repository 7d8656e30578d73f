"""Options of one stated training plan: a line of help each."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from typer import Argument

from advisor.ask.options import ChromeTrace, MemorySnapshot, MethodName, OptimizerName, Panel
from advisor.cli.command import Studied, command

JOB: Final = Panel("Job")
LAYOUT: Final = Panel("Layout")
DATA: Final = Panel("Data")
SITES: Final = Panel("Sites far apart")
BESIDE: Final = Panel("Two clusters under one job")

SHARDING_NAMES = Literal["none", "zero1", "zero2", "zero3"]
RECOMPUTE_NAMES = Literal["none", "selective", "full", "modules"]
SCHEDULE_NAMES = Literal["gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "dualpipe"]


def _degree(text: str, default: str = "1", **more: Any) -> Any:
    return LAYOUT("N", text, default, min=1, max=100_000, **more)


def _choice(text: str, default: str) -> Any:
    return LAYOUT(None, text, default)


@dataclass(frozen=True, slots=True)
class TrainLayout:
    """Division of a step's work over ranks, as typed; any one of the options states a layout."""

    tp: Annotated[int | None, _degree("Tensor parallelism.")] = None
    pp: Annotated[int | None, _degree("Pipeline stages.")] = None
    vpp: Annotated[int | None, _degree("Chunks per stage (interleaved).")] = None
    cp: Annotated[int | None, _degree("Context parallelism.")] = None
    ep: Annotated[int | None, _degree("Expert parallelism.")] = None
    etp: Annotated[int | None, _degree("Tensor parallelism inside experts.", "TP")] = None
    dp: Annotated[int | None, _degree("Data parallelism.", "what --gpus leaves")] = None
    micro_batch: Annotated[int | None, _degree("Sequences of one pass.")] = None
    sharding: Annotated[
        SHARDING_NAMES | None, _choice("State that data ranks divide (ZeRO stage).", "zero1")
    ] = None
    shard_group: Annotated[int | None, _degree("Ranks that a shard spans (HSDP).", "all")] = None
    recompute: Annotated[RECOMPUTE_NAMES | None, _choice("Activations computed again.", "none")] = None
    recompute_layers: Annotated[int | None, _degree("Layers of a stage with full recomputation.", "all")] = (
        None
    )
    schedule: Annotated[
        SCHEDULE_NAMES | None, _choice("Order of passes.", "1f1b, interleaved with chunks")
    ] = None
    first_stage_layers: Annotated[int | None, _degree("Layers of the first stage.", "even")] = None
    last_stage_layers: Annotated[int | None, _degree("Layers of the last stage.", "even")] = None
    sequence_parallel: Annotated[
        bool | None,
        LAYOUT(
            None, "Norms divided along the sequence.", "with TP", "--sequence-parallel/--no-sequence-parallel"
        ),
    ] = None
    offload_optimizer: Annotated[
        bool | None, LAYOUT(None, "States in host memory.", False, "--offload-optimizer")
    ] = None
    offload_parameters: Annotated[
        bool | None, LAYOUT(None, "Weights in host memory.", False, "--offload-parameters")
    ] = None
    offload_activations: Annotated[
        bool | None, LAYOUT(None, "Inputs of layers in host memory.", False, "--offload-activations")
    ] = None


@command(
    "simulate train",
    has_drawing=True,
    uses_calibration=True,
    studied=Studied(pareto=("max tokens_per_s_per_accelerator", "min peak_memory_bytes"), left_out=("plan",)),
)
@dataclass(frozen=True, slots=True)
class TrainInput:
    """Simulate one step of one training plan: time by part, utilisation, memory by stage, the pipeline."""

    plan: Annotated[
        Path | None,
        Argument(
            metavar="PLAN",
            help="Options in a TOML file, a plan of `advisor recommend`, or settings of Axolotl, TRL, ...",
            show_default=False,
        ),
    ] = None
    model: Annotated[str | None, JOB("NAME", "Id, size (70b), Hugging Face id or config.json.")] = None
    gpu: Annotated[str | None, JOB("ID", "Accelerator id or short name: h100.", "h100-sxm")] = None
    gpus: Annotated[
        int | None, JOB("N", "In all; data parallelism takes what the rest leaves.", min=1, max=1_000_000)
    ] = None
    global_batch: Annotated[int | None, JOB("N", "Sequences of one step.", "512", min=1, max=10_000_000)] = (
        None
    )
    sequence: Annotated[
        int | None, JOB("N", "Tokens of a sequence.", "8192, or the model's", min=1, max=10_000_000)
    ] = None
    precision: Annotated[str | None, JOB("FORMAT", "bf16, fp16, fp8, mxfp8, nvfp4.", "bf16")] = None
    framework: Annotated[
        str | None, JOB("NAME", "megatron, torchtitan, fsdp, deepspeed, maxtext, peft.", "megatron")
    ] = None
    framework_version: Annotated[
        str | None,
        JOB(
            "RELEASE",
            "Its release: a month (2022-06), a container (25.11) or a version (0.15.0, torch 2.9).",
            "spring 2026",
        ),
    ] = None
    compile: Annotated[
        bool | None, JOB(None, "PyTorch's layers compiled (torch.compile).", False, "--compile")
    ] = None
    features: Annotated[
        str | None,
        JOB("WORD,...", "Switches of the run: liger, tiled_mlp, ulysses_sp, act_offload, chunked_ce, ..."),
    ] = None
    power_cap_w: Annotated[
        float | None, JOB("W", "Power limit of an accelerator.", "its rated power", min=1, max=100_000)
    ] = None
    gpu_memory: Annotated[
        str | None, JOB("SIZE", "Memory of an accelerator's variant, e.g. 96GB.", "the catalog's")
    ] = None
    gpu_bandwidth_tb_s: Annotated[
        float | None,
        JOB("TB/S", "Memory bandwidth of an accelerator's variant.", "the catalog's", min=0.001, max=1000),
    ] = None
    host_memory: Annotated[
        str | None, JOB("SIZE", "Host memory for each accelerator, e.g. 128GB.", "240GB")
    ] = None
    host_operator_us: Annotated[
        float | None,
        JOB("US", "Host time of one PyTorch operator, e.g. 10.", "6.1", min=0.1, max=1000),
    ] = None
    method: Annotated[MethodName | None, JOB("NAME", "full, lora, qlora, dora, ia3.", "full")] = None
    lora_rank: Annotated[int | None, JOB("N", "Rank of adapters.", "16", min=1, max=65536)] = None
    optimizer: Annotated[OptimizerName | None, JOB("NAME", "adamw, adamw_8bit, adafactor, ...", "adamw")] = (
        None
    )
    gradients: Annotated[
        Literal["fp32", "bf16"] | None,
        JOB("NAME", "Format in which Megatron sums gradients: fp32, bf16.", "fp32"),
    ] = None
    mean_length: Annotated[
        int | None,
        JOB("N", "Mean tokens of sequences that are padded.", "packed full", min=1, max=10_000_000),
    ] = None
    tokens: Annotated[str | None, JOB("N", "Tokens of the whole run, for its days.")] = None
    network: Annotated[
        str | None,
        JOB("TEXT", "Network between nodes, e.g. 'RoCE 8x400Gb'.", "the usual node's"),
    ] = None
    network_gbps: Annotated[
        float | None,
        JOB("GBPS", "Network per accelerator, Gb/s.", "the usual node's", min=0.1, max=1_000_000),
    ] = None
    gpus_per_node: Annotated[
        int | None,
        JOB("N", "Accelerators that the fast fabric of a node joins.", "as sold", min=1, max=1024),
    ] = None
    layout: TrainLayout = TrainLayout()
    data: Annotated[
        Literal["tokens", "text"] | None,
        DATA(None, "What is read: token ids of 4 bytes, or text that is tokenised on the way.", "tokens"),
    ] = None
    storage: Annotated[
        str | None,
        DATA("SIZE/s", "Rate at which a node reads its data: 200MB/s.", "as much as it takes"),
    ] = None
    tokenizer: Annotated[
        str | None, DATA("SIZE/s", "Rate at which a node tokenises text: 50MB/s.", "50MB/s, with --data text")
    ] = None
    sites: Annotated[
        int | None,
        SITES("N", "Such clusters far apart, each with this plan and its own batch.", min=2, max=1000),
    ] = None
    between_gbps: Annotated[
        float | None,
        SITES("GBPS", "Network between a site, or cluster, and the others, Gb/s.", min=0.001, max=1_000_000),
    ] = None
    inner_steps: Annotated[
        int | None,
        SITES(
            "N", "Steps apart before parameters are averaged.", "gradients every step", min=1, max=1_000_000
        ),
    ] = None
    beside: Annotated[
        str | None,
        BESIDE(
            "NxID", "A second cluster, of the same or other accelerators: 256xa100; --gpus is the first's."
        ),
    ] = None
    beside_gbps: Annotated[
        float | None,
        BESIDE("GBPS", "Its network per accelerator, Gb/s.", "the usual node's", min=0.1, max=1_000_000),
    ] = None
    across: Annotated[
        Literal["dp", "pp"] | None,
        BESIDE(None, "What lies on both sides: replicas (dp) or stages (pp).", "the faster"),
    ] = None

    chrome_trace: ChromeTrace = None
    memory_snapshot: MemorySnapshot = None

    def plan_options(self) -> dict[str, Any]:
        """Return the typed options by the names of a plan file."""
        values = asdict(self)
        del values["plan"]
        del values["chrome_trace"]
        del values["memory_snapshot"]
        return {name: value for name, value in (values | values.pop("layout")).items() if value is not None}
