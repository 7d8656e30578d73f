"""Options of engines and of other planners as their users type them, where they mean one option of a command."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from advisor.ask.measures import parse_count
from advisor.catalog.errors import AdvisorError

_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "--tp": ("--tensor-parallel-size", "--tp-size", "-tp"),
    "--pp": ("--pipeline-parallel-size", "--pp-size", "-pp"),
    "--dp": ("--data-parallel-size", "--dp-size", "-dp"),
    "--ep": ("--expert-parallel-size", "--ep-size"),
    "--precision": ("--quantization",),
    "--kv-precision": ("--kv-cache-dtype",),
    "--gpu-memory-utilization": (
        "--mem-fraction-static",
        "--free-gpu-memory-fraction",
        "--kv-cache-free-gpu-memory-fraction",
    ),
    "--kv-cache-bytes": ("--kv-cache-memory-bytes", "--kv-cache-memory"),
    "--max-model-len": ("--context-length", "--max-seq-len"),
    "--context": ("--max-model-len", "--context-length", "--max-seq-len"),
    "--max-context": ("--max-model-len", "--context-length", "--max-seq-len"),
    "--max-num-seqs": ("--max-running-requests", "--max-batch-size"),
    "--max-num-batched-tokens": ("--chunked-prefill-size", "--max-num-tokens"),
    "--block-size": ("--page-size", "--tokens-per-block"),
    "--ubatch-size": ("-ub", "--ubatch", "--n-ubatch"),
    "--rate": ("--qps", "--rps", "--request-rate", "--requests-per-second"),
    "--concurrency": ("--max-concurrency", "--num-users"),
    "--requests": ("--num-prompts", "--num-requests"),
    "--input-tokens": ("--isl", "--input-len", "--random-input-len", "--prompt-tokens"),
    "--output-tokens": ("--osl", "--output-len", "--random-output-len", "--completion-tokens"),
    "--ttft-p99": ("--ttft",),
    "--tpot-p99": ("--tpot", "--itl"),
    "--ttft": ("--ttft-p99",),
    "--tpot": ("--tpot-p99",),
    "--gpu": ("--gpus-type", "--gpu-type", "--accelerator", "--accelerators", "--system", "--gpu-name"),
    "--provider": ("--cloud", "--infra"),
    "--gpus": ("--num-gpus", "--total-gpus", "--num-accelerators"),
    "--max-gpus": ("--num-gpus", "--total-gpus", "--num-accelerators"),
    "--gpu-layers": ("--n-gpu-layers", "-ngl"),
    "--host-experts": ("--n-cpu-moe", "--override-tensor", "-ncmoe", "-ot"),
    "--model": ("--model-path", "--model-name", "--hf-id"),
}
"""Own option by others' words for it, which take the same value; of several, a command has one. Sources of words: vLLM
and SGLang servers and benchmarks, TensorRT-LLM, AIConfigurator (isl, osl, system), SkyPilot (cloud, accelerators)."""
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "--enforce-eager": ("--disable-cuda-graph",),
    "--language-model-only": ("--no-mmproj",),
    "--prefix-caching": ("--enable-prefix-caching",),
    "--no-prefix-caching": ("--no-enable-prefix-caching", "--disable-radix-cache"),
}
"""Own flag by the engines' words for it."""
_ALL: Final = {**_VALUES, **_FLAGS}
_OWN: Final[Mapping[str, tuple[str, ...]]] = {
    word: tuple(own for own, words in _ALL.items() if word in words)
    for word in dict.fromkeys(word for words in _ALL.values() for word in words)
}
"""Own options by an engine's word, in the order in which a command is asked for them."""
STATED_BY_A_COMMAND: Final = frozenset(
    (
        *_ALL,
        "--gpu-layers",
        "--host-experts",
        "--tensor-split",
        "--cpu-offload-gb",
        "--enable-dp-attention",
        "--enable-expert-parallel",
        "--swap-space",
    )
)
"""Own options that a start command of an engine may state; others of the name mean something else there (--seed)."""
_OF_A_SERVER: Final = (
    "--gpu-memory-utilization",
    "--kv-cache-bytes",
    "--max-model-len",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--block-size",
    "--ubatch-size",
    "--enforce-eager",
    "--engine-version",
    "--gpu-layers",
    "--host-experts",
    "--tensor-split",
    "--cpu-offload-gb",
)
"""Options that set one server; commands that search for a deployment choose these values themselves."""
_FORMATS: Final[Mapping[str, Mapping[str, str]]] = {
    "--kv-precision": {
        "auto": "auto",
        "fp8_e4m3": "fp8",
        "fp8_e5m2": "fp8",
        "fp8_ds_mla": "fp8",
    },
    "--precision": {
        "awq_marlin": "int4",
        "gptq_marlin": "int4",
        "modelopt": "fp8",
        "modelopt_fp8": "fp8",
        "modelopt_fp4": "nvfp4",
        "fbgemm_fp8": "fp8",
        "w8a8_fp8": "fp8",
        "w8a8_int8": "int8",
    },
}
"""Format by the engines' word for it, by option."""
_LARGE_INTEGERS: Final[Mapping[str, str]] = {
    "--max-model-len": "",
    "--max-num-batched-tokens": "",
    "--kv-cache-memory-bytes": "B",
    "--kv-cache-memory": "B",
}
"""Unit of a plain number by vLLM's option for a large integer, which vLLM also reads with a letter behind it. Source:
vLLM, vllm/engine/arg_utils.py, get_kwargs, and vllm/utils/argparse_utils.py, human_readable_int: max-model-len by 0.9,
max-num-batched-tokens by 0.10, kv-cache-memory-bytes with the option; t and T by 0.16. SGLang's k, M, Ki and Mi
(srt/utils/common.py, human_readable_int) are those of every count of this program."""
_LETTERED: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<letter>[kmgtKMGT])")
_POWERS: Final = "kmgt"


_OF_NODE: Final = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*):(?P<behind>\d+)|(?P<front>\d{1,4})\s?[x×]\s?(?P<named>[A-Za-z\d][\w. -]*)"
)
"""An accelerator and how many of it, as SkyPilot and people write them: H100:8, 8xH100."""
_COUNTED_BY: Final = ("--gpus", "--parallel", "--tp")
"""Options that take the number of accelerators, in the order in which a command is asked for them."""
_SEARCHES: Final = "--max-gpus"
"""Option of commands that search for the number of accelerators themselves."""
HINTS: Final[Mapping[str, tuple[str, str]]] = {
    "--tokens-per-month": (
        "a search takes requests per second",
        "--rate R with --input-tokens and --output-tokens, or ask advisor cost --tokens-per-month",
    ),
    "--tokens-per-day": (
        "a search takes requests per second",
        "--rate R with --input-tokens and --output-tokens, or ask advisor cost --tokens-per-day",
    ),
    "--use-spot": ("prices have a term", "--term spot"),
    "--spot": ("prices have a term", "--term spot"),
    "--vram": (
        "memory follows from the accelerator",
        "--gpu NAME; advisor catalog gpus --min-memory lists them",
    ),
    "--engine-version": ("a search takes releases with the names of engines", "--engine vllm@0.24.0"),
    "--max-model-len": (
        "the window follows from the lengths of requests",
        "--input-tokens and --output-tokens, or --max-context N of advisor recommend",
    ),
    "--levers": (
        "levers are for a search; a command about one deployment has an option for each",
        "--speculative NAME, --kv-precision FORMAT, --shared-prefix-tokens N or --power-cap W",
    ),
    "--nodes": ("the number of nodes follows from the accelerators", "--max-gpus N, or --own 16xh100-sxm"),
}
"""Why an option of another planner is not taken, and what to type in its place."""
_MONTHS_PER_DAY: Final = 12.0 / 365.25
_NO_OPTION: Final = re.compile(r"-(?:--)?\s|-\d")


def split_counts(words: Sequence[str], known: Collection[str]) -> list[str]:
    """Return words in which `--gpu H100:8` is `--gpu H100 --gpus 8`, or `--tp 8` where the command has no --gpus;
    with degrees that are typed, the number only tells how many replicas there are."""
    if _SEARCHES in known:
        return list(words)
    found: list[str] = []
    for place, word in enumerate(words):
        counted = _OF_NODE.fullmatch(word.removeprefix("--gpu="))
        is_gpu = word.startswith("--gpu=") or (place > 0 and words[place - 1] == "--gpu")
        number = None
        if counted is not None and is_gpu:
            number = _option_of_number(int(counted["behind"] or counted["front"]), words, known)
        if counted is None or number is None:
            found.append(word)
            continue
        name = counted["name"] or counted["named"]
        found += [f"--gpu={name}" if word.startswith("--gpu=") else name, *number]
    return found


def _option_of_number(count: int, words: Sequence[str], known: Collection[str]) -> tuple[str, ...] | None:
    """Return what says in a command that there are `count` accelerators: an option with its value, or nothing where the
    words say it already; None where they contradict it."""
    in_replica = _typed_degrees(words)
    if in_replica and "--gpus" not in known:
        replicas, left = divmod(count, in_replica)
        if left == 0 and replicas > 1 and "--replicas" in known and "--replicas" not in words:
            return "--replicas", str(replicas)
        return () if count == in_replica else None
    free = next((name for name in _COUNTED_BY if name in known and name not in words), None)
    return None if free is None else (free, str(count))


def _typed_degrees(words: Sequence[str]) -> int:
    """Return the accelerators of one replica by the degrees that were typed; 0 where none was or one is no number."""
    shared = "--enable-dp-attention" in words
    names = ("--tp", "--pp") if shared else ("--tp", "--pp", "--dp")
    typed = [
        value
        for name in names
        for word, after in zip(words, (*words[1:], ""), strict=True)
        for value in (
            [after] if word == name else [word.partition("=")[2]] if word.startswith(f"{name}=") else []
        )
    ]
    if not typed or not all(value.isdigit() for value in typed):
        return 0
    return math.prod(map(int, typed))


def _per_day(words: Sequence[str], known: Collection[str]) -> list[str]:
    """Return words in which tokens of a month are those of a day, where the command takes those."""
    if "--tokens-per-day" not in known:
        return list(words)
    found: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if found and found[-1] == "--tokens-per-month":
            found[-1:] = ["--tokens-per-day", _day_of(word)]
        elif name == "--tokens-per-month" and equals:
            found += ["--tokens-per-day", _day_of(value)]
        else:
            found.append(word)
    return found


def _day_of(month: str) -> str:
    return f"{parse_count(month, '--tokens-per-month') * _MONTHS_PER_DAY:.0f}"


def _with_release(words: Sequence[str], known: Collection[str]) -> list[str]:
    """Return words in which `--engine vllm --engine-version 0.24.0` is `--engine vllm@0.24.0`, as searches take it."""
    if _RELEASE in known or _ENGINE not in known:
        return list(words)
    split = [
        part
        for word in words
        for part in (word.split("=", 1) if word.startswith((_RELEASE, _ENGINE)) else [word])
    ]
    releases = [place for place, word in enumerate(split[:-1]) if word == _RELEASE]
    named = [place for place, word in enumerate(split[:-1]) if word == _ENGINE]
    if len(releases) != 1 or len(named) != 1 or "@" in split[named[0] + 1] or "," in split[named[0] + 1]:
        return list(words)
    release = split[releases[0] + 1]
    split[named[0] + 1] += f"@{release}"
    return split[: releases[0]] + split[releases[0] + 2 :]


_ENGINE: Final = "--engine"
_RELEASE: Final = "--engine-version"


_SIGNS: Final = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\u00a0": " "})
_DASHES: Final = re.compile(r"(?<!\S)[–—−](?=[A-Za-z])")


def plain_signs(text: str) -> str:
    """Return a text with the quotation marks and hyphens that were typed before a page or a word processor set them."""
    return _DASHES.sub("--", text.translate(_SIGNS))


def own_words(arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """Return what was typed with the engines' options as the command's own; `known` are the options of the command.

    An option that the command has itself, or whose own form it lacks, stays as it is.
    """
    found: list[str] = []
    typed = ""
    for argument in arguments:
        if not argument.startswith("-"):
            previous = found[-1] if found else ""
            found.append(own_value(previous, plain_integer(typed, argument)))
            typed = ""
            continue
        typed = argument
        name, equals, value = argument.partition("=")
        own = own_option(name, known)
        found.append(own + equals + own_value(own, plain_integer(name, value)))
    return _per_day(split_counts(_with_release(found, known), known), known)


def places_of_lone_words(arguments: Sequence[str], flags: Collection[str]) -> list[int]:
    """Return where words are that are no option and no value of one; `flags` are the options without a value."""
    return [
        place
        for place, (last, word) in enumerate(zip(("", *arguments), arguments, strict=False))
        if not is_option(word) and (not is_option(last) or "=" in last or last in flags)
    ]


def is_option(word: str) -> bool:
    """Whether a word is an option, unlike a negative number and a pasted document of YAML, which also have a hyphen."""
    return word.startswith("-") and _NO_OPTION.match(word) is None


def own_option(name: str, known: Collection[str]) -> str:
    """Return the command's own option for an engine's; as it is if the command has it, or has none for it."""
    if name in known:
        return name
    return next((one for one in _OWN.get(name.replace("_", "-"), ()) if one in known), name)


def own_value(option: str, value: str) -> str:
    """Return the value of an own option for an engine's word."""
    return _FORMATS.get(option, {}).get(value.lower(), value)


def plain_integer(option: str, value: str) -> str:
    """Return a value of one of vLLM's options for large integers with its digits alone: k, m, g and t are powers of
    1,000, and K, M, G and T powers of 1,024. Any other value stays as it is.

    Raises: AdvisorError: a power of 1,024 has a fraction, which vLLM does not read.
    """
    unit = _LARGE_INTEGERS.get(option.replace("_", "-"))
    if unit is None:
        return value
    found = _LETTERED.fullmatch(value.strip())
    if found is None:
        return value.strip() + unit if value.strip().isdigit() else value
    number = found["number"]
    letter = found["letter"]
    power = 1 + _POWERS.index(letter.lower())
    if letter.islower():
        return f"{int(float(number) * 1000**power)}{unit}"
    if "." in number:
        raise AdvisorError(
            f"{option} {value}: vLLM takes no fraction in front of {letter}",
            why=f"{letter} is a power of 1,024, and {letter.lower()} one of 1,000",
            fix=f"{option} {number}{letter.lower()}",
        )
    return f"{int(number) * 1024**power}{unit}"


def sets_a_server(option: str) -> bool:
    """Whether an option, in this program's words or an engine's, sets one server."""
    name = option.partition("=")[0]
    return name in _OF_A_SERVER or any(own in _OF_A_SERVER for own in _OWN.get(name.replace("_", "-"), ()))


OTHER_WORDS: Final[Mapping[str, str]] = {
    "asr": "speech", "audio": "speech", "chat": "serve", "chatbot": "serve", "embedding": "embed",
    "finetuning": "finetune", "image": "diffusion", "inference": "serve", "lora": "finetune", "multimodal": "vision",
    "offline": "batch", "pretrain": "train", "pretraining": "train", "reranking": "rerank", "rlhf": "rl",
    "serving": "serve", "sft": "finetune", "training": "train", "transcribe": "speech", "tts": "speech",
    "video": "diffusion", "vlm": "vision",
}  # fmt: skip
"""Workloads by the words of the trade, in the singular and without hyphens."""
