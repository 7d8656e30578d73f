"""Start-up logs of serving engines: settings, weights and KV cache, as the engine itself states them."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.file_format import FileFormat
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.llama_bench import device_of, format_of
from advisor.catalog.formats.stated_settings import memory_notes, weight_format
from advisor.catalog.units import GB, GIB, KB, MB, MIB

_UNITS: Final[Mapping[str, float]] = {"GiB": GIB, "GB": GIB, "MiB": MIB}
"""Bytes of the units in the logs. vLLM before 0.8 and SGLang print GB for 2^30 bytes."""
_SIZE: Final = r"(-?[\d.]+)\s*(GiB|GB|MiB)"


@dataclass(frozen=True, slots=True)
class ServerLog:
    """Content of one start-up log; None or empty where the log does not say it."""

    engine: str
    version: str = ""
    model: str = ""
    weight_bytes: float | None = None
    """Weights on the fullest GPU [bytes]."""
    kv_bytes: float | None = None
    """KV cache on one GPU [bytes]."""
    loaded_bytes: float | None = None
    """All that is loaded on the accelerators, where their parts are not stated [bytes]."""
    kv_tokens: int | None = None
    """Tokens that the cache of one engine holds, or of one rank under attention data parallelism."""
    max_model_len: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    attends_apart: bool = False
    """Whether data parallelism is that of attention inside the tensor-parallel group (SGLang)."""
    expert_parallel: int | None = None
    memory_fraction: float | None = None
    weight_dtype: str = ""
    """Quantisation of the weights in the engine's word, empty if none was stated."""
    kv_dtype: str = ""
    block_tokens: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool = False
    offloaded_bytes: float = 0.0
    """Weights of each accelerator that lie in main memory [bytes]."""
    prefix_caching: bool = False
    """Whether the log says that the prefix cache is on."""
    device: str = ""
    """Name of the accelerators as their driver writes it; empty if the log does not say it."""
    device_bytes: float | None = None
    """Memory of one accelerator as its driver reports it [bytes]; None if the log does not say it."""
    gpu_layers: int | None = None
    """Layers on the accelerators, the output layer counted; None for all."""
    sizes_by_context: bool = False
    """Whether the engine allocates the cache of the context that it was given, whatever is free: kv_bytes are those of
    kv_tokens tokens on all accelerators together, recurrent states included (llama.cpp)."""
    has_failed: bool = False
    """Whether the log says that the engine did not start."""
    notes: tuple[str, ...] = ()
    """Sentences about how figures of the log were read."""


def read_server_log(text: str) -> ServerLog:
    """Return what a start-up log of vLLM, SGLang, TensorRT-LLM, llama.cpp or Ollama says.

    Raises: InputFileError: it has neither weights nor a KV cache; says which line is missing.
    Source: vllm v1/worker/gpu_worker.py, v1/core/kv_cache_utils.py; sglang model_executor/model_runner.py,
        mem_cache/memory_pool.py; TensorRT-LLM batch_manager/kvCacheManager.cpp, pyexecutor/_util.py; llama.cpp
        src/llama-model.cpp, llama-kv-cache.cpp, llama-memory-recurrent.cpp (log lines).
    """
    plain = "\n".join(without_prefixes(text))
    for engine, (marks, read) in _READERS.items():
        if any(re.search(mark, plain) for mark in marks):
            found = read(plain)
            failed = found.has_failed or _FAILED.search(plain) is not None
            found = replace(found, has_failed=failed, device_bytes=_bytes(_OF_DEVICE, plain))
            if found.tensor_parallel is None and (ranks := _ranks_in(text)) > 1:
                words = f"{ranks} ranks wrote the log: they are taken to share the model"
                found = replace(found, tensor_parallel=ranks, notes=(*found.notes, words))
            sizes = (found.weight_bytes, found.kv_bytes, found.kv_tokens, found.loaded_bytes)
            if all(size is None for size in sizes):
                _refuse_too_little_free(plain)
                raise InputFileError(
                    f"the log of {engine} states neither weights nor KV cache",
                    why="no line of it has their sizes: it ends early, was cut, or its program words them otherwise",
                    fix=f"give the log until the server is ready; it has {WANTED[engine]}",
                )
            others = [other for other in _READERS if other != engine and _states_a_cache(other, plain)]
            if others:
                engines = " and ".join(others)
                words = (
                    f"the text also holds a log of {engines}: it is left out, give it in a file of its own"
                )
                found = replace(found, notes=(*found.notes, words))
            return replace(found, notes=(*found.notes, *memory_notes(plain)))
    raise InputFileError(
        "not a start-up log of vLLM, SGLang, TensorRT-LLM or llama.cpp",
        why="no line of theirs about weights or the KV cache",
        fix="give what the server printed from its start",
    )


def _states_a_cache(engine: str, text: str) -> bool:
    """Whether a text holds lines of an engine that say how many tokens its cache has."""
    marks, read = _READERS[engine]
    return any(re.search(mark, text) for mark in marks) and read(text).kv_tokens is not None


_FAILED: Final = re.compile(
    r"\bengine ?(?:core |process )?(?:failed to start|initialization failed)|\bshard \d+ failed to start"
    r"|\bfailed to load model|\berror loading model",
    re.IGNORECASE,
)
"""Words with which engines say that they did not start."""
_LITTLE_FREE: Final = re.compile(
    r"Free memory on device [^(]*\(([\d.]+)/([\d.]+) GiB\) on startup is less than desired GPU memory utilization "
    r"\([\d.]+, ([\d.]+) GiB\)"
)


def _refuse_too_little_free(text: str) -> None:
    """Refuse the log of a server that did not start because other processes hold the memory.

    Raises: InputFileError: it is one, with the fraction that was free.
    """
    if (found := _LITTLE_FREE.search(text)) is not None:
        free, total, wanted = (float(size) for size in found.groups())
        raise InputFileError(
            f"the server did not start: {free:g} of {total:g} GiB were free, and it asks for {wanted:g}",
            why=f"other processes held {total - free:.1f} GiB of that accelerator",
            fix=f"end them, or start it with --gpu-memory-utilization {math.floor(100 * free / total) / 100:.2f}",
        )


_RANK: Final = re.compile(
    r"(?:VllmWorker rank=|VllmWorker-|Worker(?:_PP\d+)?_TP|(?<=\d) TP|\[(?:rank|default))(\d{1,3})\b"
)
"""Number of a rank in the prefixes of vLLM, SGLang and torchrun."""


def _ranks_in(text: str) -> int:
    """Return how many ranks wrote a log, by the numbers in their prefixes; 1 if they have none. Of a log in which some
    are missing, the next power of two."""
    found = {int(number) for number in _RANK.findall(text)}
    most = max(found, default=0) + 1
    return most if len(found) == most else 1 << (most - 1).bit_length()


WANTED: Final[Mapping[str, str]] = {
    "vllm": "'Model loading took' and 'GPU KV cache size'",
    "sglang": "'Load weight end' and 'KV Cache is allocated'",
    "tensorrt-llm": "'Allocated ... for max tokens in paged KV cache'",
    "llama.cpp": "'model buffer size' and 'KV buffer size'",
    "tgi": "'KV-cache blocks' or 'Setting max batch total tokens'",
    "lmdeploy": "'[BlockManager] max_block_count' or 'num_gpu_blocks'",
    "ollama ps": "a row for each model that is loaded",
}
"""Lines with the sizes that a log is read for, by engine."""


def _last(pattern: str, text: str) -> str:
    """Return the first group of the last match; empty if there is none."""
    found = re.findall(pattern, text, re.MULTILINE)
    if not found:
        return ""
    last = found[-1]
    return str(last if isinstance(last, str) else next((part for part in last if part), ""))


def _whole(pattern: str, text: str) -> int | None:
    found = _last(pattern, text).replace(",", "")
    return int(found) if found.isdigit() else None


def _fraction(pattern: str, text: str) -> float | None:
    found = _last(pattern, text)
    try:
        value = float(found)
    except ValueError:
        return None
    return round(value, _FRACTION_DIGITS) if 0.0 < value <= 1.0 else None


_FRACTION_DIGITS: Final = 6
"""Decimals of a fraction that count: TensorRT-LLM prints 0.8 in 32 bits, 0.800000011920929."""


def _bytes(pattern: str, text: str, choose: Callable[[list[float]], float] = max) -> float | None:
    """Return a size; several ranks print theirs, of which one is chosen."""
    sizes = [float(value) * _UNITS[unit] for value, unit in re.findall(pattern + _SIZE, text)]
    return choose(sizes) if sizes else None


def _setting(*names: str) -> str:
    """Return the pattern of an engine's setting in any of the forms in which logs write it."""
    words = "|".join(re.escape(name) for name in names)
    return rf"(?:--(?:{words})(?:=|\s+)|(?:\b|['\"])(?:{words})['\"]?(?:=|:\s*))['\"]?([\w./:@-]*[\w/@-])"


def _word_of(text: str, *names: str) -> str:
    value = _last(_setting(*names), text)
    return "" if value in ("None", "auto", "null") else value


_OF_DEVICE: Final = (
    r"(?:paged kv cache: total:\s*|total_gpu_memory(?:=| \()|[Ff]ree memory on device (?:cuda:\d+ )?\([\d.]+/"
    r"|total capacity of |\bVRAM: |device total memory )"
)
"""Words before the memory of an accelerator in the lines of TensorRT-LLM, vLLM, PyTorch and llama.cpp."""


def _offloaded_bytes(text: str) -> float:
    """Return the weights of each accelerator that vLLM and SGLang keep in main memory, which they count in GiB."""
    found = _word_of(text, "cpu_offload_gb", "cpu-offload-gb")
    return float(found) * GIB if re.fullmatch(r"\d+(?:\.\d+)?", found) else 0.0


_REFUSED_TOKENS: Final = "maximum number of tokens that can be stored in KV cache"
"""Words of the refusals of vLLM before 0.9, with the tokens that the cache holds behind them."""


_FIRST_ENGINE: Final = "0.6.4"
"""Release of vLLM taken for a log without one that profiles memory in the words of its first engine. Own assumption:
the engine's record has what that release plans."""


_LAST_OF_FIRST_ENGINE: Final = "0.7.3"
"""Release of vLLM taken for a log of a later one that ran its first engine (V0): the last with that engine alone."""


def _vllm(text: str) -> ServerLog:
    tokens = [int(found.replace(",", "")) for found in re.findall(r"GPU KV cache size:\s*([\d,]+)", text)]
    notes = []
    block = _whole(_setting("block_size", "block-size"), text)
    blocks = _whole(r"(?:# )?(?:GPU|CUDA|cuda) blocks:\s*([\d,]+)", text)
    if not tokens and blocks is not None:
        tokens = [blocks * (block or 16)]
        size = (
            f"{block} tokens"
            if block
            else "16 tokens, the default of the release, as the log does not say it"
        )
        notes.append(f"the cache is {blocks:,} blocks of {size}")
    if not tokens and (longest := _whole(r"estimated maximum model length is ([\d,]+)", text)):
        tokens = [longest]
        notes.append("the cache holds the longest request that the refusal estimates")
    if not tokens and (stored := _whole(rf"{_REFUSED_TOKENS} \((\d+)\)", text)):
        tokens = [stored]
    weights = _bytes(r"(?:Model loading took|Loading model weights took|model weights take)\s*", text)
    weights = weights or _bytes(r"Actual usage(?: is|:)\s*(?=[\d.]+\s*GiB for weights?)", text)
    cache = _bytes(
        r"(?:Available KV cache memory:|reserved for KV Cache is|kv_cache_size=|available KV cache memory \()\s*",
        text,
        min,
    )
    cache = cache or _bytes(r"Current kv cache memory in use is\s*", text, min)
    tensor = _whole(_setting("tensor_parallel_size", "tensor-parallel-size"), text)
    data = _whole(_setting("data_parallel_size", "data-parallel-size"), text)
    spreads = _word_of(text, "enable_expert_parallel").lower() == "true" or "--enable-expert-parallel" in text
    version = _last(
        r"(?:vLLM API server version|LLM engine \(v?|vLLM version|[█▄▀]\s+version)\s*v?(\d+\.\d+[\w.+]*)",
        text,
    )
    if "Initializing a V0 LLM engine" in text and not re.match(r"0\.[0-7]\.", version):
        notes.append(f"release {version} ran vLLM's first engine: it is planned as {_LAST_OF_FIRST_ENGINE}")
        version = _LAST_OF_FIRST_ENGINE
    return ServerLog(
        engine="vllm",
        version=version or (_FIRST_ENGINE if "Memory profiling results: total_gpu_memory=" in text else ""),
        model=_last(r"model_tag['\"]?:\s*['\"]([^'\"]+)", text)
        or _last(r"\bmodel(?:=|['\"]: )['\"]([^'\"]+)", text)
        or _last(r"[█▄▀]\s+model\s+(\S+)", text)
        or _last(r"Starting to load model (\S+?)(?:\.\.\.)?\s*$", text),
        weight_bytes=weights,
        kv_bytes=cache,
        kv_tokens=min(tokens) if tokens else None,
        max_model_len=_whole(_setting("max_model_len", "max-model-len", "max_seq_len"), text)
        or _whole(r"Maximum concurrency for ([\d,]+) tokens", text),
        tensor_parallel=tensor,
        pipeline_parallel=_whole(_setting("pipeline_parallel_size", "pipeline-parallel-size"), text),
        data_parallel=data,
        expert_parallel=(tensor or 1) * (data or 1) if spreads else None,
        memory_fraction=_fraction(_setting("gpu_memory_utilization", "gpu-memory-utilization"), text)
        or _fraction(r"gpu_memory_utilization\s*\(([\d.]+)\)", text)
        or _fraction(r"Desired GPU memory utilization is \(([\d.]+),", text),
        weight_dtype=_word_of(text, "quantization"),
        kv_dtype=_word_of(text, "kv_cache_dtype", "kv-cache-dtype"),
        block_tokens=block,
        max_num_seqs=_whole(_setting("max_num_seqs", "max-num-seqs"), text),
        max_num_batched_tokens=_whole(_setting("max_num_batched_tokens", "max-num-batched-tokens"), text),
        enforce_eager=_word_of(text, "enforce_eager").lower() == "true" or "--enforce-eager" in text,
        offloaded_bytes=_offloaded_bytes(text),
        prefix_caching=_word_of(text, "enable_prefix_caching").lower() == "true"
        or "--enable-prefix-caching" in text,
        has_failed=bool(
            re.search(r"larger than the (?:maximum|available)|No available memory for the cache", text)
        ),
        notes=tuple(notes),
    )


def _sglang(text: str) -> ServerLog:
    per_rank = [int(found) for found in re.findall(r"KV Cache is allocated\..*?#tokens:\s*(\d+)", text)]
    per_rank = _of_the_model(per_rank)
    total = _whole(r"max_total_num_tokens=(\d+)", text)
    halves = re.findall(rf"K size:\s*{_SIZE},\s*V size:\s*{_SIZE}", text)
    pools = [(float(k) * _UNITS[ku]) + (float(v) * _UNITS[vu]) for k, ku, v, vu in halves]
    drafts = [pool for pool in pools if pool not in _of_the_model(pools)]
    pools = _of_the_model(pools)
    apart = _word_of(text, "enable_dp_attention").lower() == "true" or "--enable-dp-attention" in text
    return ServerLog(
        engine="sglang",
        version=_last(r"sglang(?:\s+version|==| v)[:\s]*v?(\d+\.\d+[\w.]*)", text),
        model=_last(r"model_path=['\"]([^'\"]+)", text) or _last(r"--model-path\s+(\S+)", text),
        weight_bytes=_bytes(r"Load weight end\..*?mem usage=", text),
        kv_bytes=_bytes(
            r"SWAKVPool mem usage:\s*", text, min
        )  # the pools of full and of windowed attention together
        or (min(pools) if pools else None)
        or _bytes(r"KV size:\s*", text, lambda sizes: min(_of_the_model(sizes))),
        kv_tokens=total if total is not None else (min(per_rank) if per_rank else None),
        max_model_len=_whole(r"context_len=(\d+)", text),
        tensor_parallel=_whole(_setting("tp_size", "tp-size", "tensor-parallel-size", "tp"), text),
        pipeline_parallel=_whole(_setting("pp_size", "pp-size"), text),
        data_parallel=_whole(_setting("dp_size", "dp-size", "data-parallel-size", "dp"), text),
        attends_apart=apart,
        expert_parallel=_whole(_setting("ep_size", "ep-size"), text),
        memory_fraction=_fraction(_setting("mem_fraction_static", "mem-fraction-static"), text),
        weight_dtype=_word_of(text, "quantization"),
        kv_dtype=_word_of(text, "kv_cache_dtype", "kv-cache-dtype")
        or _last(r"KV Cache is allocated\. dtype: torch\.(\w+)", text),
        block_tokens=_whole(_setting("page_size", "page-size"), text),
        max_num_seqs=_whole(_setting("max_running_requests"), text),
        max_num_batched_tokens=_whole(_setting("chunked_prefill_size"), text),
        enforce_eager=_word_of(text, "disable_cuda_graph").lower() == "true",
        offloaded_bytes=_offloaded_bytes(text),
        has_failed="Not enough memory. Please try to increase --mem-fraction-static" in text
        or "leave no GPU memory for the KV cache" in text,
        notes=(
            "SGLang's GB are 2^30 bytes",
            *((f"the draft model has a pool of {max(drafts) / GIB:.3g} GiB beside it",) if drafts else ()),
        ),
    )


_Size = TypeVar("_Size", int, float)


def _of_the_model(sizes: list[_Size]) -> list[_Size]:
    """Return the sizes of the model's own pools: a draft model has one of its own, which is far smaller.

    Assumes: pools of ranks differ by less than half.
    """
    return [size for size in sizes if size > 0.5 * max(sizes)]


_OLDER_POOL: Final = re.compile(r"Allocate (\d+) bytes for k/v cache")
_OLDER_TOKENS: Final = re.compile(r"Using (\d+) tokens in paged KV cache")
"""Lines of TensorRT-LLM 0.5 to 0.8. Source: NVIDIA/TensorRT-LLM issues 224 and 1400."""


def _tensorrt_llm(text: str) -> ServerLog:
    pools = re.findall(rf"Allocated {_SIZE} for max tokens in paged KV cache \((\d+)\)", text)
    sizes = [float(value) * _UNITS[unit] for value, unit, _ in pools]
    sizes = sizes or [float(found) for found in _OLDER_POOL.findall(text)]
    tokens = [int(found) for *_, found in pools] or [int(found) for found in _OLDER_TOKENS.findall(text)]
    notes = (
        ("the log has a pool for each attention window; the last one is read",)
        if len(set(tokens)) > 1
        else ()
    )
    return ServerLog(
        engine="tensorrt-llm",
        version=_last(r"TensorRT-?LLM version:?\s*v?(\d+\.\d+[\w.]*)", text),
        model=_last(r"(?:model|checkpoint_dir|hf_model_dir)=['\"]?([\w./-]+)", text)
        or _last(r"(?<!\S)(/\S*/models--[^/\s]+)", text),
        weight_bytes=_bytes(
            r"(?:Loaded engine size:|weights memory usage:|Model weights memory:"
            r"|\b[Uu]ses?(?= [\d.]+ GB for model weights)"
            r"|Memory used after loading model weights \(inside torch\) in memory usage profiling:)\s*",
            text,
        ),
        kv_bytes=sizes[-1] if sizes else None,
        kv_tokens=tokens[-1] if tokens else _whole(r"[Ee]stimated max tokens in KV cache\s*:\s*(\d+)", text),
        max_model_len=_whole(_setting("max_seq_len", "maxSequenceLen"), text),
        tensor_parallel=_whole(
            _setting("tp_size", "tensor_parallel_size", "tensorParallel") + r"|\bMPI size: (\d+)", text
        ),
        pipeline_parallel=_whole(_setting("pp_size", "pipeline_parallel_size"), text),
        memory_fraction=_fraction(
            _setting("free_gpu_memory_fraction", "kv_cache_free_gpu_memory_fraction"), text
        )
        or _fraction(
            r"fraction is set ([\d.]+)|free_gpu_memory_fraction and max_tokens are set \(to ([\d.]+)", text
        ),
        weight_dtype=_word_of(text, "quant_algo"),
        kv_dtype=_word_of(text, "kv_cache_quant_algo"),
        block_tokens=_whole(r"(?:Number of )?tokens per block(?::|=)\s*(\d+)", text),
        max_num_seqs=_whole(_setting("max_batch_size", "maxBatchSize", "maxNumSequences"), text),
        max_num_batched_tokens=_whole(_setting("max_num_tokens", "maxNumTokens"), text),
        notes=notes,
    )


_ON_DEVICE: Final = r"\b((?!CPU|AMX|CUDA_Host|ROCm_Host|Vulkan_Host|model\b)[A-Za-z]+\d*)(?:_Mapped)? "
"""Name of a buffer on an accelerator: CUDA0, ROCm1, Vulkan0, Metal; those of the host are left out."""


_NAME_IN_OLLAMA: Final = (
    r'msg="(?:inference compute|updating cuda memory data)".* (?:name|description)="([^"]{4,})"'
)


def _llama_cpp(text: str) -> ServerLog:
    buffers: dict[str, float] = {}
    for name, size in re.findall(
        _ON_DEVICE + r"(?:model )?buffer size\s*=\s*([\d.]+) MiB",
        "\n".join(re.findall(r"load_tensors:.*", text)),
    ):
        buffers[name] = max(buffers.get(name, 0.0), float(size) * MIB)
    for name, size, unit in re.findall(rf'msg="model weights" device=(?!CPU)(\w+) size="{_SIZE}"', text):
        buffers[name] = float(size) * _UNITS[unit]
    layers = re.findall(r"offloaded (\d+)/(\d+) layers", text)
    layers = layers or [
        (some, every) for every, some in re.findall(r"layers\.model=(\d+) layers\.offload=(\d+)", text)
    ]
    for size, unit in re.findall(rf'memory\.weights\.total="{_SIZE}"', text):
        buffers = buffers or {"all": float(size) * _UNITS[unit]}
    if buffers.keys() == {"all"} and layers and layers[-1][0] != layers[-1][1]:
        repeated = _bytes(r'memory\.weights\.repeating="', text) or 0.0
        buffers = {"all": repeated * int(layers[-1][0]) / max(int(layers[-1][1]) - 1, 1)}
    split = [int(share) for share in _last(r"layers\.split=(\d+(?:,\d+)+)", text).split(",") if share]
    if buffers.keys() == {"all"} and any(split):
        buffers = {f"{place}": buffers["all"] * share / sum(split) for place, share in enumerate(split)}
    held = {name: size for name, size in buffers.items() if size}
    is_whole = all(some == every for some, every in layers)
    counts_output = "offloading output layer to GPU" in text  # releases before 0.5 place it last, not first
    devices = dict.fromkeys(re.findall(r"^\s*Device \d+: ([^,\n]+),", text, re.MULTILINE))
    kinds = list(devices) if len(devices) > 1 else []
    caches = re.findall(r"(?:KV|RS) buffer size\s*=\s*([\d.]+) MiB", text)
    of_ollama = _last_by_device(text)
    slots = _whole(r"n_seq_max\s*=\s*(\d+)|Operation:commit .*Parallel:(\d+)", text) or 1
    file = _last(r"from (?:\S*/)?([^/\s]+\.gguf)", text) or _last(
        r"[\"'](?:[^\"'\n]*[/\\])?([^/\\\"'\n]+\.gguf)[\"']", text
    )
    return ServerLog(
        engine="llama.cpp",
        model=file or "-".join(_last(r"general\.name\s*=\s*(.+?)\s*$", text).split()),
        weight_bytes=max(held.values()) if held else None,
        gpu_layers=None if is_whole else int(layers[-1][0]) + (not counts_output),
        kv_bytes=sum(map(float, caches)) * MIB if caches else of_ollama,
        kv_tokens=_whole(r"\bn_ctx\s*=\s*(\d+)|Operation:commit .*KvSize:(\d+)|--ctx-size (\d+)", text)
        or _whole(r"kv_cache\w*: size = .*\(\s*(\d+) cells", text),
        max_model_len=_whole(r"n_ctx(?:_per)?_seq\s*=\s*(\d+)", text),
        tensor_parallel=1,
        pipeline_parallel=len(held) or None,
        # The type that is printed has no word for mixtures such as Q4_K_XL, which names of files have.
        weight_dtype=weight_format(format_of(file))
        or format_of(_last(r"(?:file type|model ftype)\s*=\s*(.+?)\s*$", text)),
        kv_dtype="/".join(dict.fromkeys((_last(r"\bK \((\w+)\)", text), _last(r"\bV \((\w+)\)", text))))
        or _last(r"Operation:commit .*KvCacheType:(\w+)", text),
        max_num_seqs=slots,
        max_num_batched_tokens=_whole(r"n_batch\s*=\s*(\d+)", text),
        device="" if kinds else device_of(text) or _last(_NAME_IN_OLLAMA, text),
        sizes_by_context=True,
        notes=(
            *(() if is_whole else (f"{layers[-1][0]} of {layers[-1][1]} layers are on the accelerators",)),
            *((f"the devices differ: {', '.join(kinds)}",) if kinds else ()),
        ),
    )


def _last_by_device(text: str) -> float | None:
    """Return the KV cache of all devices in the log of Ollama's own runner [bytes]; None if it states none."""
    sizes = re.findall(rf'msg="kv cache" device=(\w+) size="{_SIZE}"', text)
    sizes = sizes or [("all", *one) for one in re.findall(rf'memory\.required\.kv="{_SIZE}"', text)[-1:]]
    found = {device: float(size) * _UNITS[unit] for device, size, unit in sizes}
    return sum(found.values()) if found else None


_LOADED: Final = re.compile(
    r"^(?P<name>\S+:\S+|[\w./-]+)\s+[0-9a-f]{12}\s+(?P<size>[\d.]+) (?P<unit>[KMG]B)\s+"
    r"(?P<place>\d+%(?:/\d+%)? \S+)(?:\s+(?P<context>\d{3,}))?",
    re.MULTILINE,
)
"""Row of `ollama ps`: model, id, size in powers of ten, and where it lies. Source: ollama/ollama cmd/cmd.go
(ListRunningHandler), format/bytes.go."""
_POWERS_OF_TEN: Final = {"KB": KB, "MB": MB, "GB": GB}
_OLLAMA_CONTEXT: Final = 4096
"""Context of Ollama unless it is told otherwise. Source: ollama/ollama docs/faq.md, 0.6 and later."""


def _ollama_ps(text: str) -> ServerLog:
    """Return what the list of loaded models says.

    Raises: InputFileError: it lists several models, or a part of the model lies in main memory.
    """
    rows = list(_LOADED.finditer(text))
    if len(rows) != 1:
        names = ", ".join(row["name"] for row in rows)
        raise InputFileError(
            f"the list has {len(rows)} models{': ' if names else ''}{names}",
            why="each shares its accelerator with the others, and one is planned at a time",
            fix="give its title and the row of one model",
        )
    row = rows[0]
    if row["place"] != "100% GPU":
        raise InputFileError(
            f"{row['name']} lies on {row['place']}",
            why="the list does not say which layers are in main memory, and only these tell what is on the accelerator",
            fix="give the log of its server, which has 'offloaded N/M layers'",
        )
    context = row["context"]
    notes = (
        ()
        if context
        else (f"the list has no context: {_OLLAMA_CONTEXT:,} tokens are taken, Ollama's default",)
    )
    return ServerLog(
        engine="llama.cpp",
        model=row["name"],
        loaded_bytes=float(row["size"]) * _POWERS_OF_TEN[row["unit"]],
        kv_tokens=int(context or _OLLAMA_CONTEXT),
        tensor_parallel=1,
        max_num_seqs=1,
        sizes_by_context=True,
        notes=notes,
    )


_PATTERNS: Final[Mapping[str, Mapping[str, str]]] = {
    "tgi": {
        "version": r"text-generation-(?:inference|launcher)[: ]v?(\d+\.\d+[\w.]*)",
        "model": r"model_id: \"([^\"]+)\"|--model-id[= ](\S+)",
        "kv_tokens": r"[Ss]etting max batch total tokens to (\d+)",
        "kv_blocks": r"KV-cache blocks: (\d+)",
        "block_tokens": r"KV-cache blocks: \d+, size: (\d+)",
        "max_model_len": r"max_total_tokens: Some\(\s*(\d+)|--max-total-tokens[= ](\d+)",
        "tensor_parallel": r"num_shard: Some\(\s*(\d+)|--num-shard[= ](\d+)",
        "memory_fraction": r"cuda_memory_fraction: ([\d.]+)",
        "weight_dtype": r"quantize: Some\(\s*\"?(\w+)|--quantize[= ](\S+)",
        "kv_dtype": r"kv_cache_dtype: Some\(\s*\"?(\w+)",
    },
    "lmdeploy": {
        "version": r"lmdeploy(?: version|==)[:\s]*v?(\d+\.\d+[\w.]*)",
        "model": r"lmdeploy serve api_server (\S+)|model_path='([^']+)'|model_name: (\S+)",
        "kv_tokens": r"max cached tokens:?\s*(\d+)|session_len\W+truncated to (\d+) due to limited KV cache",
        "kv_blocks": r"max_block_count[ =:]+(\d+)|num_gpu_blocks=(\d+)",
        "block_mib": r"\[BlockManager\] block_size = ([\d.]+) MB",
        "block_tokens": r"cache_block_seq_len[ =:]+(\d+)|CacheConfig\(.*?\bblock_size=(\d+)",
        "max_model_len": r"session_len[ =:]+(\d+)|--session-len[= ](\d+)",
        "tensor_parallel": r"\btp=(\d+)|--tp[= ](\d+)",
        "memory_fraction": r"cache_max_entry_count[ =:]+([\d.]+)",
        "max_num_seqs": r"max_batch_size[ =:]+(\d+)|max_batches=(\d+)",
    },
}
"""Places of figures in the logs of further engines, by field of the log, and what they are made of: blocks and their
tokens, MiB of one block.

Source: huggingface/text-generation-inference launcher and server/models/flash_causal_lm.py (log lines);
InternLM/lmdeploy src/turbomind/models/llama/BlockManager.cc, lmdeploy/pytorch/engine/cache_engine.py.
"""
_COUNTS: Final = (
    *("kv_tokens", "kv_blocks", "block_tokens", "max_model_len", "tensor_parallel", "max_num_seqs"),
)
_WITHOUT_PLAN: Final = {"tgi": "Text Generation Inference"}
"""Engines that are not planned: their logs are compared with a plan of vLLM."""
_USUAL_BLOCK_TOKENS: Final = {"tgi": 1, "lmdeploy": 64}
"""Tokens of a block where the log does not say it. Source: as `_PATTERNS`; lmdeploy --cache-block-seq-len."""


def _read_by_patterns(name: str, text: str) -> ServerLog:
    """Return what the patterns of an engine find in its log."""
    found = {what: _last(pattern, text) for what, pattern in _PATTERNS[name].items()}
    whole = {what: int(found[what]) for what in _COUNTS if found.get(what, "").isdigit()}
    blocks = whole.pop("kv_blocks", None)
    mib = found.get("block_mib", "")
    size = whole.get("block_tokens", _USUAL_BLOCK_TOKENS[name])
    fraction = found.get("memory_fraction", "")
    notes = []
    if name in _WITHOUT_PLAN:
        notes.append(f"{_WITHOUT_PLAN[name]} is not planned: its log is compared with a plan of vLLM")
    if "truncated to" in text and "kv_tokens" in whole:
        notes.append(
            "the session is as long as the cache, which is smaller than the window that was asked for"
        )
    if blocks and "kv_tokens" not in whole:
        whole["kv_tokens"] = blocks * size
        notes.append(f"the cache is {blocks:,} blocks of {size} tokens")
    fields = {what: whole[what] for what in whole if what in ServerLog.__slots__}
    return ServerLog(
        engine="vllm" if name in _WITHOUT_PLAN else name,
        version="" if name in _WITHOUT_PLAN else found["version"],
        model=found["model"],
        kv_bytes=float(mib) * MIB * blocks if mib and blocks else None,
        memory_fraction=float(fraction) if fraction and 0.0 < float(fraction) < 1.0 else None,
        weight_dtype=found.get("weight_dtype", ""),
        kv_dtype=found.get("kv_dtype", ""),
        notes=tuple(notes),
        **fields,  # type: ignore[arg-type]
    )


_READERS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], ServerLog]]]] = {
    "sglang": (
        (
            r"Load weight (?:begin|end)\.",
            r"KV Cache is allocated\.",
            r"server_args=ServerArgs",
            r"max_total_num_tokens=\d+, ",
        ),
        _sglang,
    ),
    "tensorrt-llm": (
        (r"\[TensorRT-LLM\]", r"\[TRT-LLM\]", r"for max tokens in paged KV cache"),
        _tensorrt_llm,
    ),
    "llama.cpp": (
        (
            r"load_tensors:.* buffer size",
            r'msg="?offload ',
            r"llama_kv_cache\w*:.* KV buffer size",
            r'msg="(?:model weights|kv cache)" device=',
        ),
        _llama_cpp,
    ),
    "ollama ps": ((r"(?m)^NAME\s+ID\s+SIZE\s+PROCESSOR\s+(?:CONTEXT\s+)?UNTIL",), _ollama_ps),
    "tgi": (
        (r"text_generation_(?:launcher|router)", r"KV-cache blocks: \d+, size:"),
        lambda text: _read_by_patterns("tgi", text),
    ),
    "lmdeploy": (
        (r"\[TM\]\[\w+\]", r"\[BlockManager\]", r"CacheConfig\(max_batches="),
        lambda text: _read_by_patterns("lmdeploy", text),
    ),
    "vllm": (
        (
            r"GPU KV cache size:",
            r"Available KV cache memory:",
            r"Model loading took [\d.]+ G",
            r"Loading model weights took",
            r"# (?:GPU|CUDA|cuda) blocks:",
            r"LLM engine \(v",
            r"vLLM API server version",
            r"reserved for KV Cache is",
            r"Desired GPU memory utilization is",
            r"[█▄▀]\s+version \d",
            r"To serve at least one request with the models?'s max seq len",
            _REFUSED_TOKENS,
            _LITTLE_FREE.pattern,
            r"non-default args: \{",
        ),
        _vllm,
    ),
}
"""Marks of an engine's log, any one of which is enough, and its reader."""


_LINES: Final[Mapping[str, str]] = {
    "vllm": r"^(?:\([^)]*\) )?(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[\w[\w/]*\.py:\d+\]",
    "sglang": r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] (?:Init torch|Attention backend|Load weight|Using KV cache)",
    "llama.cpp": r"^(?:llama_model_loader|print_info|llm_load_print_meta|load_tensors|llama_context): ",
}
"""Beginnings of lines of an engine's log, whatever they say."""


def engine_of_lines(text: str) -> str:
    """Return the engine whose log lines a text holds, though none of them says a size; empty if it holds none."""
    return next((engine for engine, form in _LINES.items() if re.search(form, text, re.MULTILINE)), "")


def _is_server_log(text: str) -> bool:
    return any(re.search(mark, text) for marks, _ in _READERS.values() for mark in marks)


FORMAT: Final = FileFormat(
    "server-log",
    "start-up log of vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama, LMDeploy or TGI",
    "server log",
    _is_server_log,
    read_server_log,
    reads_prefixes=True,
)
