"""Options of `advisor validate ...`: comparison of predictions with measurements."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from typer import Argument, Option

from advisor.ask.options import Effect, StatedServer
from advisor.cli.command import command

View = Literal["replay", "stranger"]
"""How published runs are predicted."""


@dataclass(frozen=True, slots=True)
class CaseTable:
    """A table of cases, and where its predictions go."""

    cases: Annotated[
        Path, Argument(metavar="CASES.csv", help="Table of cases; measured columns are only compared.")
    ]
    predictions: Annotated[
        Path | None,
        Option(
            metavar="OUT.csv",
            help="Write one prediction per row, with its 80 % interval.",
            show_default=False,
        ),
        Effect.WRITES,
    ] = None


@command("validate serving", has_table=False, uses_calibration=True)
@dataclass(frozen=True, slots=True)
class ServingInput(CaseTable):
    """Predict serving runs and compare them with published measurements."""

    view: Annotated[
        View,
        Option(
            help="What the predictions file holds: runs replayed as their scripts say, or as a stranger's."
        ),
    ] = "replay"


@command("validate collectives", has_table=False, uses_calibration=True)
@dataclass(frozen=True, slots=True)
class CollectivesInput(CaseTable):
    """Predict collectives and compare them with nccl-tests results."""


@command("validate training", has_table=False)
@dataclass(frozen=True, slots=True)
class ValidateTrainingInput(CaseTable):
    """Predict training runs and compare them with published measurements."""


@command("validate images", has_table=False)
@dataclass(frozen=True, slots=True)
class ValidateImagesInput(CaseTable):
    """Predict timings of images and videos and compare them with published measurements."""


@command("validate offload", has_table=False)
@dataclass(frozen=True, slots=True)
class ValidateOffloadInput(CaseTable):
    """Predict runs with weights in the host's memory and compare them with published measurements."""


CollectiveOption = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"
]
"""Collectives that are predicted."""
_OP: Final = Option(help="Which collective it was, where the output does not say.", show_default="as it says")


@command("validate file", uses_calibration=True)
@dataclass(frozen=True, slots=True)
class FileInput:
    """Is what I measured normal? Judge a benchmark, a server's log or metrics, or a report about links.

    Read are results of vllm bench serve, SGLang, GuideLLM, AIPerf, GenAI-Perf, InferenceX and llama-bench; start-up
    logs of vLLM, SGLang and TensorRT-LLM; Prometheus metrics; nccl-tests, nvbandwidth, nvidia-smi topo -m, dcgmi diag.
    """

    file: Annotated[Path, Argument(metavar="FILE", help="What the program wrote; - is stdin.")]
    server: StatedServer = StatedServer()
    network: Annotated[
        str | None,
        Option(metavar="TEXT", help="Links of nccl-tests in words: 'RoCE 8x400Gb'.", show_default="usual"),
    ] = None
    op: Annotated[CollectiveOption | None, _OP] = None


@command("validate nccl-tests")
@dataclass(frozen=True, slots=True)
class NcclTestsInput:
    """Is my bus bandwidth normal? Hold nccl-tests output against what its machine should reach."""

    file: Annotated[
        Path, Argument(metavar="FILE", help="What all_reduce_perf and the like printed; - is stdin.")
    ]
    gpu: Annotated[
        str | None, Option(metavar="ID", help="Accelerator.", show_default="as the output's header says")
    ] = None
    network: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="Links in words: 'EFA 32x100Gb', 'RoCE 8x400Gb', 'PCIe4 no P2P'.",
            show_default="the accelerator's usual",
        ),
    ] = None
    op: Annotated[CollectiveOption | None, _OP] = None
