"""Output of llama-bench, as a Markdown table, CSV, JSON, JSON lines or SQL; and the timings that llama.cpp and Ollama
print behind a request."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import InputFileError
from advisor.catalog.formats.benchmark_result import number_of, whole_of
from advisor.catalog.formats.documents import document_of, json_objects
from advisor.catalog.formats.file_format import FileFormat, has_keys
from advisor.catalog.formats.launcher_lines import without_prefixes
from advisor.catalog.formats.stated_settings import StatedSettings, settings_among, settings_in_lines
from advisor.catalog.units import GIB, GIGA, MEGA, MIB, MILLISECOND_S, NANOSECOND_S

_TITLE: Final = "output of llama-bench"
_TEST: Final = re.compile(r"^(pp|tg) ?(\d+)(?:\s*@\s*d(\d+))?$")
_FIRST: Final = ("model", "size", "params", "backend", "ngl")
"""Columns with which each table of llama-bench begins."""
_DEVICE: Final = re.compile(
    r"(?:Device 0:|ggml_(?:vulkan|sycl|cann): 0 =|GPU name:|ggml_metal_init: found device:)\s*(.+?)(?:,| \(|$)",
    re.MULTILINE,
)
"""First device as the backends print it: CUDA and ROCm, Vulkan, Metal."""
_INTEGRATED: Final = re.compile(r"^ggml_vulkan: \d+ = .*\buma: 1\b", re.MULTILINE)
"""Graphics of a processor, which computes nothing where a card is too."""
_FILE: Final = re.compile(r"(?:^|\s)(?:-m|--model)[ =](?:\S*[/\\])?([^\s,/\\]+\.gguf)(?![^\s])")
"""File of the model in the command that printed a table."""
_ANY_FILE: Final = re.compile(r"([^/\\\s'\"=]+)\.gguf\b")
_INSERT: Final = re.compile(r"INSERT INTO \w+ \(([^)]*build_commit[^)]*)\)\s*VALUES\s*\((.*)\);")
_TIMINGS: Final = (
    re.compile(r"\bprompt eval time =.*?/\s*(\d+) tokens.*?([\d.]+) tokens per second"),
    re.compile(r"(?<!prompt )\beval time =.*?/\s*(\d+) (?:runs|tokens).*?([\d.]+) tokens per second"),
)
"""Tokens and rate of a prompt and of an output in llama.cpp's own words."""
_VERBOSE: Final = (
    re.compile(
        r"^prompt eval count:\s*(\d+) token.*?^prompt eval rate:\s*([\d.]+) tokens/s",
        re.DOTALL | re.MULTILINE,
    ),
    re.compile(r"^eval count:\s*(\d+) token.*?^eval rate:\s*([\d.]+) tokens/s", re.DOTALL | re.MULTILINE),
)
"""Tokens and rates as `ollama run --verbose` prints them."""
_OLLAMA_RUN: Final = re.compile(r"\bollama run (?:--\S+ )*([\w.-]+:[\w.-]+)")
"""Model of the command that printed them, by its tag; a name without size stands for whatever was the latest."""
_MLX: Final = (
    re.compile(r"^Prompt: (\d+) tokens, ([\d.]+) tokens-per-sec", re.MULTILINE),
    re.compile(r"^Generation: (\d+) tokens, ([\d.]+) tokens-per-sec", re.MULTILINE),
)
"""Tokens and rates as `mlx_lm.generate` prints them."""
_MLX_BENCHMARK: Final = (
    re.compile(
        r"\bprompt_tokens=(\d+), generation_tokens=\d+, batch_size=1\b.*?^Averages: prompt_tps=([\d.]+)",
        re.DOTALL | re.MULTILINE,
    ),
    re.compile(
        r"\bgeneration_tokens=(\d+), batch_size=1\b.*?^Averages: .*?\bgeneration_tps=([\d.]+)",
        re.DOTALL | re.MULTILINE,
    ),
)
"""Tokens and mean rates as `mlx_lm.benchmark` prints them; those of larger batches are sums over sequences."""
_RATE: Final = r"([\d.]+) ?(?:tokens? per second|tokens?/s(?:ec(?:ond)?)?|tok/s|t/s)\b"
_COUNT: Final = r"(?<![\d.])(\d+) (?:new |prompt |input |output )?tok(?:en)?s?\b(?!/)"
_NAMED: Final = (
    re.compile(
        rf"\b(?:prompt|prefill|process(?:ed|ing)?|input)\b[^\n;|]*?{_COUNT}[^\n;|]*?{_RATE}", re.IGNORECASE
    ),
    re.compile(
        rf"\boutput generated in[^\n]*?\({_RATE}, (\d+) tokens"
        rf"|(\d+) tok(?:en)?s? generated in(?=[^\n]*Generate)[^\n]*?Generate\w*: {_RATE}"
        rf"|\b(?:generat\w+|decod\w+|response|output|completion|eval)\b[^\n;|]*?{_COUNT}[^\n;|]*?{_RATE}",
        re.IGNORECASE,
    ),
)
"""Tokens and rates behind the words for prompt and output, whichever program prints them: TabbyAPI, ExLlama."""
_TABBY: Final = re.compile(r"\btokens? generated in [^\n]*\bcached tokens and\b")
"""Words of TabbyAPI's timings, whose engine is ExLlama. Source: theroyallab/tabbyAPI common/gen_logging.py."""
_KOBOLD: Final = (
    re.compile(r"CtxLimit:(\d+)/\d+, Amt:(\d+)/.*?Process:[^(]*\((?:[\d.]+ms/T = )?([\d.]+)T/s\)"),
    re.compile(r"Amt:(\d+)/.*?Generate:[^(]*\((?:[\d.]+ms/T = )?([\d.]+)T/s\)"),
)
"""Tokens in the context, of which the output is `Amt`, and rates as KoboldCpp prints them."""
_PRINTED: Final = (_VERBOSE, _MLX, _MLX_BENCHMARK, _TIMINGS, _KOBOLD, _NAMED)
_KEYS: Final = (
    ("avg_ts", "n_prompt"),
    ("timings", "predicted_per_second"),
    ("eval_count", "eval_duration"),
    ("stats", "tokens_per_second"),
)
"""Keys in JSON of llama-bench, of llama-server, of Ollama and of LM Studio."""
_JSON: Final = re.compile(r"\s*(?:\{|\[\s*[\[{\"])")
_FORMAT: Final = re.compile(r"\b(I?Q\d_[0-9A-Z_]+|Q\d_[01]|BF16|F16|F32|MXFP4(?:_MOE)?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LlamaBenchRow:
    """One test: prompt tokens processed, or tokens generated, per second."""

    model: str
    """Name of the model as the program prints it, e.g. qwen3 32B Q4_K - Medium."""
    file_stem: str
    """Name of the GGUF file without folder and suffix, or tag of Ollama; empty if the output does not have it."""
    weight_dtype: str
    """Format of the file, e.g. q4_k_m; empty if neither name nor file says it."""
    backend: str
    device: str
    num_prompt_tokens: int
    num_output_tokens: int
    depth_tokens: int
    """Tokens in the cache before the test."""
    tokens_per_s: float
    num_gpu_layers: int | None
    """Layers on GPUs; None if not stated. 99 and more are all."""
    num_gpus: int = 1
    """GPUs that the program found, which share the layers unless it is told otherwise."""
    micro_batch_tokens: int | None = None
    """Tokens of a prompt that are computed at once (-ub); None if the output does not state them."""
    engine: str = "llama.cpp"
    """Engine whose timings these are; Ollama, KoboldCpp and LM Studio run llama.cpp."""
    settings: tuple[tuple[str, str], ...] = ()
    """Options of the test in which the tests of one output differ, with their values."""
    stated: StatedSettings = field(default_factory=StatedSettings)
    """Further settings of the test by column of a case, and those that no prediction reads."""


def read_llama_bench(text: str) -> tuple[LlamaBenchRow, ...]:
    """Return the tests of llama-bench output. Tests of prompt and generation together are left out.

    Of timings the last prompt and output count; the output's cache holds the prompt.

    Raises: InputFileError: no test in the text, or rates in another unit than tokens per second.
    Source: ggml-org/llama.cpp tools/llama-bench/README.md, src/llama-context.cpp (perf), tools/server; ollama/ollama
        api/types.go (Metrics.Summary).
    """
    if _JSON.match(text):
        rows = [row for one in json_objects(text) for row in (_of_fields(one), *_of_answer(one))]
    elif _INSERT.search(text):
        rows = [_of_fields(one) for one in _sql(text)]
    elif re.search(r'^"?build_commit"?,', text, re.MULTILINE):
        rows = [_of_fields(one) for one in _csv(text)]
    elif _is_table(text):
        rows = list(_of_table(text))
    else:
        rows = list(_of_timings(_with_rates("\n".join(without_prefixes(text)))))
    found = tuple(row for row in rows if row is not None)
    if not found:
        raise InputFileError(
            f"no test in the {_TITLE}",
            why="no row has a test (pp512, tg128) and its tokens per second; was it cut?",
            fix="paste the table with its header, or give -o json",
        )
    stated = [one for row in found for one in row.settings]
    varied = {one for one in stated if stated.count(one) < len(found)}
    return tuple(replace(row, settings=tuple(one for one in row.settings if one in varied)) for row in found)


_SETTINGS: Final = {
    "n_batch": "-b",
    "n_ubatch": "-ub",
    "fa": "-fa",
    "flash_attn": "-fa",
    "threads": "-t",
    "n_threads": "-t",
    "type_k": "-ctk",
    "type_v": "-ctv",
    "ngl": "-ngl",
    "n_gpu_layers": "-ngl",
    "n_cpu_moe": "-ncmoe",
    "nkvo": "-nkvo",
    "no_kv_offload": "-nkvo",
    "sm": "-sm",
    "split_mode": "-sm",
}
"""Options of llama-bench by the names of their columns and fields."""


def _settings_in(cells: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((option, str(cells[name])) for name, option in _SETTINGS.items() if name in cells)


_LOCAL_COLUMNS: Final = ("kv_dtype", "power_cap_w", "memory_gib")
"""Columns of a case that a test of llama-bench states and no other field of it has."""


def further_settings(cells: Mapping[str, Any]) -> StatedSettings:
    """Return the settings of a test that its own fields do not have: the format of the cache, and what is not used."""
    return _without_own(settings_among(cells.items()))


def with_settings_around(rows: tuple[LlamaBenchRow, ...], text: str) -> tuple[LlamaBenchRow, ...]:
    """Return tests with the settings that the lines and commands around them state; a document's are in its objects."""
    if document_of(text) is not None:
        return rows
    around = _without_own(settings_in_lines(text))
    return tuple(replace(row, stated=row.stated.with_those_of(around)) for row in rows)


def _without_own(found: StatedSettings) -> StatedSettings:
    return replace(
        found, columns={name: found.columns[name] for name in _LOCAL_COLUMNS if name in found.columns}
    )


def _csv(text: str) -> Iterator[Mapping[str, Any]]:
    head = text.index("build_commit")
    start = text.rfind("\n", 0, head) + 1
    reader = csv.DictReader(io.StringIO(text[start:]))
    try:
        yield from (row for row in reader if row.get("avg_ts"))
    except csv.Error as error:
        raise InputFileError(
            f"the {_TITLE} is not CSV", why=str(error), fix="give it as -o csv wrote it"
        ) from None


def _sql(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of the INSERT statements that `-o sql` writes; a statement that was cut is left out."""
    for columns, values in _INSERT.findall(text):
        cells = next(csv.reader([values], quotechar="'", skipinitialspace=True), [])
        names = [name.strip() for name in columns.split(",")]
        if len(names) == len(cells):
            yield dict(zip(names, cells, strict=True))


def _of_fields(one: Mapping[str, Any]) -> LlamaBenchRow | None:
    prompt = whole_of(one.get("n_prompt"))
    output = whole_of(one.get("n_gen"))
    rate = number_of(one.get("avg_ts"))
    if not rate or (prompt or 0) * (output or 0) or not (prompt or output):
        return None
    stem = PurePosixPath(str(one.get("model_filename", "")).replace("\\", "/")).name.removesuffix(".gguf")
    model = _with_size(str(one.get("model_type", "")), one.get("model_n_params"), GIGA)
    return LlamaBenchRow(
        model=model,
        file_stem=stem,
        weight_dtype=_by_size(
            format_of(stem) or format_of(model), one.get("model_size"), one.get("model_n_params")
        ),
        backend=str(one.get("backends") or one.get("backend") or ""),
        device=str(one.get("gpu_info", "")).split(",")[0].strip(),
        num_prompt_tokens=prompt or 0,
        num_output_tokens=output or 0,
        depth_tokens=whole_of(one.get("n_depth")) or 0,
        tokens_per_s=rate,
        num_gpu_layers=whole_of(one.get("n_gpu_layers")),
        num_gpus=max(1, len(str(one.get("gpu_info", "")).split(", "))),
        micro_batch_tokens=whole_of(one.get("n_ubatch")),
        settings=_settings_in(one),
        stated=further_settings(one),
    )


def _with_size(model: str, parameters: Any, unit: float) -> str:
    """Return the name of a model whose size llama.cpp does not know (?B) with that of its parameters."""
    number = number_of(parameters)
    return model.replace("?B", f"{number / unit:.0f}B") if number else model


def _of_answer(one: Mapping[str, Any]) -> Iterator[LlamaBenchRow]:
    """Yield the prompt and the output of an answer of llama-server's or Ollama's interface.

    Source: ggml-org/llama.cpp tools/server/README.md (timings); ollama/ollama docs/api.md (durations are nanoseconds).
    """
    timings = one.get("timings")
    stated = timings if isinstance(timings, dict) else one
    statistics, usage, told = (one.get(name) for name in ("stats", "usage", "model_info"))
    if isinstance(statistics, dict) and isinstance(usage, dict):  # LM Studio's own interface
        stated = {
            "predicted_n": usage.get("completion_tokens"),
            "predicted_per_second": statistics.get("tokens_per_second"),
        }
    weights = format_of(str(told.get("quant", ""))) if isinstance(told, dict) else ""
    depth = 0
    for kind, ollama in (("prompt", "prompt_eval"), ("predicted", "eval")):
        tokens = whole_of(stated.get(f"{kind}_n")) or whole_of(stated.get(f"{ollama}_count")) or 0
        duration = number_of(stated.get(f"{ollama}_duration"))
        rate = number_of(stated.get(f"{kind}_per_second"))
        rate = rate or (tokens / (duration * NANOSECOND_S) if duration else None)
        if tokens and rate:
            yield LlamaBenchRow(
                model=str(one.get("model", "")),
                file_stem="",
                weight_dtype=weights or format_of(str(one.get("model", ""))),
                backend="",
                device="",
                num_prompt_tokens=tokens if kind == "prompt" else 0,
                num_output_tokens=0 if kind == "prompt" else tokens,
                depth_tokens=depth,
                tokens_per_s=rate,
                num_gpu_layers=None,
            )
        depth = tokens


def _of_table(text: str) -> Iterator[LlamaBenchRow | None]:
    device = device_of(text)
    counted = re.search(r"found (\d+) \w+ devices", text, re.IGNORECASE)
    shared = len(_INTEGRATED.findall(text)) if counted and int(counted[1]) > 1 else 0
    num_gpus = max(1, int(counted[1]) - shared) if counted else 1
    files = set(_FILE.findall(text))
    stem = PurePosixPath(files.pop().replace("\\", "/")).name.removesuffix(".gguf") if len(files) == 1 else ""
    names: list[str] = []
    for line in without_prefixes(text):
        if not line.strip().startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        lower = [cell.lower() for cell in cells]
        if "test" in lower and any(cell.startswith("t/s") for cell in lower):
            names = [_COMPARED.get(name, name) for name in lower]
        elif not names and len(cells) >= len(_FIRST) + 2 and _TEST.match(cells[-2]) and "±" in cells[-1]:
            first = dict(zip(_FIRST, cells, strict=False))  # a table whose title was cut off
            yield _of_cells({**first, "test": cells[-2], "t/s": cells[-1]}, device, num_gpus, stem)
        elif names and len(cells) == len(names) and not set(line) <= set("|-: "):
            row = dict(zip(names, cells, strict=True))
            for rate in (value for name, value in row.items() if name.startswith("t/s")):
                yield _of_cells({**row, "t/s": rate}, row.get("gpu", device), num_gpus, stem)


def device_of(text: str) -> str:
    """Return the name of the first device that llama.cpp's backends print; empty if there is none."""
    found = _DEVICE.search(text)
    return found[1].strip() if found else ""


def _of_cells(cells: Mapping[str, str], device: str, num_gpus: int, file_stem: str) -> LlamaBenchRow | None:
    test = _TEST.match(cells.get("test", ""))
    rate = number_of(cells.get("t/s", "").partition("±")[0].strip())
    if test is None or not rate:
        return None
    tokens = int(test[2])
    model = _with_size(cells.get("model", ""), cells.get("params", "").removesuffix("B").strip(), 1.0)
    size = _SIZE.fullmatch(cells.get("size", ""))
    parameters = _PARAMETERS.fullmatch(cells.get("params", ""))
    return LlamaBenchRow(
        model=model,
        file_stem=file_stem,
        weight_dtype=_by_size(
            format_of(model),
            float(size[1]) * {"G": GIB, "M": MIB}[size[2]] if size else None,
            float(parameters[1]) * {"B": GIGA, "M": MEGA}[parameters[2]] if parameters else None,
        ),
        backend=cells.get("backend", ""),
        device=device,
        num_prompt_tokens=tokens if test[1] == "pp" else 0,
        num_output_tokens=tokens if test[1] == "tg" else 0,
        depth_tokens=int(test[3] or 0),
        tokens_per_s=rate,
        num_gpu_layers=whole_of(cells.get("ngl")),
        num_gpus=num_gpus,
        micro_batch_tokens=whole_of(cells.get("n_ubatch")),
        settings=_settings_in(cells),
        stated=further_settings(cells),
    )


_SIZE: Final = re.compile(r"([\d.]+) ([GM])iB")
_PARAMETERS: Final = re.compile(r"([\d.]+) ([BM])")
_WIDE: Final = ("fp16", "bf16", "fp32")
_LEAST_PART: Final = 0.75
"""Part of the width that a wide type states below which most weights have another type, as experts in mxfp4 have."""


def _by_size(stated: str, size: Any, parameters: Any) -> str:
    """Return the format that a row states; empty if it is a wide one that its size contradicts."""
    bytes_of_file = number_of(size)
    count = number_of(parameters)
    if stated not in _WIDE or not bytes_of_file or not count:
        return stated
    return "" if bytes_of_file / count < _LEAST_PART * bytes_per_element(stated) else stated


def _with_rates(text: str) -> str:
    """Return timings in llama.cpp's words: those of early releases, which have the time of a token alone, with the rate
    behind it, and those of LM Studio.

    Source: lmstudio-ai/lms (chat --stats), LM Studio's statistics under an answer.
    """
    for form, words in _LM_STUDIO:
        text = form.sub(words, text)
    return _TIME_ALONE.sub(
        lambda found: (
            f"({found[1]} ms per token, {1.0 / (float(found[1]) * MILLISECOND_S):.4g} tokens per second)"
        ),
        text,
    )


_LM_STUDIO: Final = (
    (
        re.compile(
            r"Tokens/Second: *([\d.]+)\s+Time to First Token: *([\d.]+) ?s\s+Prompt Tokens: *(\d+)"
            r"\s+Predicted Tokens: *(\d+)"
        ),
        lambda found: (
            f"prompt eval time = / {found[3]} tokens ({int(found[3]) / float(found[2]):.4g} tokens per second)\n"
            f"eval time = / {found[4]} tokens ({found[1]} tokens per second)"
        ),
    ),
    (
        re.compile(r"([\d.]+) tok/sec\s*[•·|]\s*(\d+) tokens\s*[•·|]\s*[\d.]+ ?s to first token"),
        lambda found: f"eval time = / {found[2]} tokens ({found[1]} tokens per second)",
    ),
)
"""Statistics of LM Studio, and the same in llama.cpp's words; a prompt's rate is its tokens over the first token's
time."""


_TIME_ALONE: Final = re.compile(r"\(\s*(\d*[1-9][\d.]*|0?\.\d*[1-9]\d*) ms per token\)")


def _of_timings(text: str) -> Iterator[LlamaBenchRow | None]:
    """Yield the prompt and the output of the last request whose timings a text holds."""
    of_prompt, of_output = next((pair for pair in _PRINTED if pair[1].search(text)), _TIMINGS)
    prompts = [_tokens_and_rate(each) for each in of_prompt.findall(text)]
    outputs = [_tokens_and_rate(each) for each in of_output.findall(text)]
    files = {*_ANY_FILE.findall(text)}
    stem = _ANY_FILE.search(text) if len(files) == 1 else _OLLAMA_RUN.search(text)
    depth = int(prompts[-1][0]) if prompts else 0
    for found, is_prompt in ((prompts, True), (outputs, False)):
        if found and int(found[-1][0]):
            tokens, rate = found[-1]
            yield LlamaBenchRow(
                model="",
                file_stem=stem[1] if stem else "",
                weight_dtype=format_of(stem[1]) if stem else "",
                backend="",
                device=device_of(text),
                num_prompt_tokens=int(tokens) if is_prompt else 0,
                num_output_tokens=0 if is_prompt else int(tokens),
                depth_tokens=0 if is_prompt else depth,
                tokens_per_s=float(rate),
                num_gpu_layers=None,
                engine="mlx"
                if of_output in (_MLX[1], _MLX_BENCHMARK[1])
                else "exllamav3"
                if _TABBY.search(text)
                else "llama.cpp",
            )


def _tokens_and_rate(groups: tuple[str, ...]) -> tuple[str, str]:
    """Return tokens and rate of a match; of three numbers the second is taken off the first."""
    parts = [part for part in groups if part]
    if len(parts) == 2 and not parts[0].isdigit():
        parts.reverse()  # text-generation-webui prints the rate before the tokens
    return (str(int(parts[0]) - int(parts[1])), parts[2]) if len(parts) == 3 else (parts[0], parts[1])


def format_of(name: str) -> str:
    """Return the format that a model's or file's name states: "Q4_K - Medium" is q4_k_m; empty if it states none."""
    name = re.sub(r" - (Small|Medium|Large)", lambda size: f"_{size[1][0]}", name)
    found = _FORMAT.findall(name)
    text = found[-1].lower() if found else ""
    return {"f16": "fp16", "f32": "fp32", "mxfp4_moe": "mxfp4"}.get(text, text)


_HEAD: Final = r"^[ \t]*\|(?:\s*(?:gpu|cpu)\s*\|)?\s*model\s*\|.*\|\s*test\s*\|\s*t/s"
"""Head of a table of llama-bench, or of compare-llama-bench, which has a column of rates for each build."""
_COMPARED: Final = {"microbatch size": "n_ubatch"}


def _is_table(text: str) -> bool:
    if re.search(r"^[ \t]*\|.*\|\s*(?:pp|tg) ?\d+\s*\|[^|]*±[^|]*\|\s*$", text, re.MULTILINE):
        return True
    return bool(re.search(_HEAD, text, re.MULTILINE | re.IGNORECASE))


def _is_llama_bench(text: str) -> bool:
    if _JSON.match(text):
        return any(has_keys(text, *keys) for keys in _KEYS)
    timings = [each for pair in _PRINTED for each in pair]
    if (
        _is_table(text)
        or any(each.search(text) for each in timings)
        or any(each.search(_with_rates(text)) for each in _TIMINGS)
        or ("INSERT INTO" in text and "avg_ts" in text and "n_prompt" in text)
    ):
        return True
    return bool(re.search(r'^"?build_commit"?,.*avg_ts', text, re.MULTILINE))


FORMAT: Final = FileFormat("llama-bench", _TITLE, "local benchmark", _is_llama_bench, read_llama_bench)
