"""Options of work that is not text chat: of one item and how it is run, and the names that training has."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from typer import Option

PANEL: Final = "Images, texts, audio"

MethodName = Literal["full", "lora", "qlora", "dora"]
OptimizerName = Literal["adamw", "adamw_bf16", "adamw_8bit", "adafactor", "lion", "muon", "sgd"]


def _option(metavar: str, text: str, default: str | bool = False, **more: Any) -> Any:
    return Option(metavar=metavar, help=text, rich_help_panel=PANEL, show_default=default, **more)


Steps = Annotated[int | None, _option("N", "Denoising steps of an image.", "of the model", min=1, max=10_000)]
ImageSize = Annotated[str | None, _option("WxH", "Pixels of an image.", "of the model")]
Guidance = Annotated[
    bool | None,
    Option(
        "--guidance/--no-guidance",
        help="Classifier-free guidance: every step runs twice.",
        rich_help_panel=PANEL,
        show_default="of the model",
    ),
]
TextTokens = Annotated[
    int | None, _option("N", "Tokens of a text or of 30 s of speech.", "512; 105", min=1, max=10_000_000)
]
QueryTokens = Annotated[
    int | None,
    _option("N", "Of a reranker's query, read with every text.", "32 to rerank", min=1, max=1_000_000),
]
RuntimeName = Annotated[str | None, _option("NAME", "tensorrt, torch-compile or torch-eager.", "by workload")]
MaxBatch = Annotated[int | None, _option("N", "Largest batch.", "what fits, at most 256", min=1, max=4096)]
LatencyP99 = Annotated[
    str | None, _option("TIME", "From arrival to the finished item, that 99 % keep.", "1s")
]
Items = Annotated[str, _option("N", "Requests of a batch, e.g. 1M.", True)]
Images = Annotated[int, _option("N", "Images of one request.", True, min=1, max=1000)]
ImageSchemeName = Annotated[
    str | None, _option("NAME", "How images become tokens: llava-1.5, qwen3-vl, ...", "the model's")
]


@dataclass(frozen=True, slots=True)
class ItemInput:
    """What was typed about one item and how it is run."""

    steps: Steps = None
    image_size: ImageSize = None
    guidance: Guidance = None
    tokens: TextTokens = None
    query_tokens: QueryTokens = None
    runtime: RuntimeName = None
    max_batch: MaxBatch = None
    latency_p99: LatencyP99 = None
    images: Images = 1
    image_scheme: ImageSchemeName = None
    items: Items = "100k"
