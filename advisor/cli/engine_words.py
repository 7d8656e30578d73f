"""Options of vLLM, SGLang and TensorRT-LLM as their users type them, where they mean one option of a command."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "--tp": ("--tensor-parallel-size", "--tp-size", "-tp"),
    "--pp": ("--pipeline-parallel-size", "--pp-size", "-pp"),
    "--dp": ("--data-parallel-size", "--dp-size", "-dp"),
    "--ep": ("--expert-parallel-size", "--ep-size"),
    "--model": ("--model-path",),
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
}
"""Own option by the engines' words for it, which take the same value; of several, a command has one."""
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "--enforce-eager": ("--disable-cuda-graph",),
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
_OF_A_SERVER: Final = (
    "--gpu-memory-utilization",
    "--kv-cache-bytes",
    "--max-model-len",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--block-size",
    "--enforce-eager",
    "--engine-version",
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


def own_words(arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """Return what was typed with the engines' options as the command's own; `known` are the options of the command.

    An option that the command has itself, or whose own form it lacks, stays as it is.
    """
    found: list[str] = []
    for argument in arguments:
        if not argument.startswith("-"):
            previous = found[-1] if found else ""
            found.append(_FORMATS.get(previous, {}).get(argument.lower(), argument))
            continue
        name, equals, value = argument.partition("=")
        own = name
        if name not in known:
            own = next((one for one in _OWN.get(name.replace("_", "-"), ()) if one in known), name)
        found.append(own + equals + _FORMATS.get(own, {}).get(value.lower(), value))
    return found


def sets_a_server(option: str) -> bool:
    """Whether an option, in this program's words or an engine's, sets one server."""
    name = option.partition("=")[0]
    return name in _OF_A_SERVER or any(own in _OF_A_SERVER for own in _OWN.get(name.replace("_", "-"), ()))
