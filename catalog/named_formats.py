"""Formats that the name of a checkpoint states: `Qwen/Qwen3-32B-AWQ` is int4, `x-GGUF:Q4_K_M` a file of llama.cpp."""

import functools
import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from advisor.catalog.dtypes import EXL3_HEAD_DTYPE, GGUF_DTYPES, bytes_per_element, gguf_bits, grouped_bits
from advisor.catalog.errors import UnknownNameError
from advisor.catalog.files import DATA_DIR, read_csv
from advisor.catalog.hf import gguf
from advisor.catalog.hf.modules import matrices_of
from advisor.catalog.hf.quantization import (
    WIDEST_INDEX,
    ModuleFormat,
    Rules,
    codebook_storage,
    exl_storage,
    integers,
)
from advisor.catalog.hf.weights import weights_by_rules
from advisor.catalog.schema import Model
from advisor.catalog.schema.model import PartFormat
from advisor.catalog.units import BITS_PER_BYTE, GIB

_PARTS_FILE: Final = DATA_DIR / "support" / "checkpoint_parts.csv"
_FILES_FILE: Final = DATA_DIR / "support" / "gguf_files.csv"
_DYNAMIC_BITS: Final = {
    "tq1_0": 1.91,
    "iq1_s": 2.19,
    "iq1_m": 2.37,
    "iq2_xxs": 2.64,
    "q2_k_xl": 2.97,
    "iq3_xxs": 3.25,
    "q3_k_xl": 3.53,
    "q4_k_xl": 4.59,
    "q5_k_xl": 5.71,
}
"""Mean width of Unsloth's dynamic files of mixtures of experts since May 2025 [bits]: sizes over parameters. Source:
245, 281, 304, 343, 381, 417, 452, 588 and 732 GB of Kimi K2's 1,026 billion (docs.unsloth.ai/basics/
kimi-k2-how-to-run-locally); files of GLM-5, Qwen3.5-397B and Qwen3-Coder-Next differ by 1 to 12 %."""
_USUAL_GGUF: Final = "q4_k_m"
"""File that llama.cpp loads from a GGUF repository if none is named (ggml-org/llama.cpp, tools/server/README.md)."""
_USUAL_GROUP: Final = 128
_MLX_GROUP: Final = 64
_PLAIN: Final = ModuleFormat("bf16", 16.0)

_MLX_PUBLISHERS: Final = ("mlx-community", "lmstudio-community")
_GGUF_TYPE: Final = re.compile(
    r"(?:^|[-_.:/])(ud-)?((?:i?q\d|tq\d)(?:_[a-z0-9]+)*|mxfp4(?:_moe)?|bf16|fp16|f16|f32)$", re.IGNORECASE
)
_DYNAMIC_FILE: Final = re.compile(r"(?P<model>[\w.-]+)-(?P<file>ud-i?q\w+)\.gguf")
_WIDE_TYPES: Final = ("bf16", "fp16", "f16", "f32")
_WIDTH: Final = re.compile(r"(?<![\d.])(\d(?:\.\d+)?)-?bits?(?![a-fh-z])|int(\d)", re.IGNORECASE)
_EXL_WIDTH: Final = re.compile(r"(\d(?:[._]\d+)?)[-_ ]?bpw|:(\d[._]\d+)(?![\d.])", re.IGNORECASE)
"""Mean width in the name of EXL files, or in that of the branch: 4.5bpw, 6_5."""
_EXL_HEAD: Final = re.compile(r"(?<![a-z0-9])hb?(\d)(?![a-z0-9])")
_AQLM: Final = re.compile(r"(\d)-?bit-(\d)x(\d{1,2})(?!\d)")
_VPTQ: Final = re.compile(r"v(\d{1,2})-k(\d{1,8})-(\d{1,8})(?!\d)")
_GROUP: Final = re.compile(
    r"(?:(?<![a-z0-9])g(?:roup)?[-_]?|gs)(\d{2,3})(?![0-9])|(?<![0-9])(32|64|128|(?<=-)-1)g(?![a-z0-9])",
    re.IGNORECASE,
)


class NamedFormat(NamedTuple):
    """Format that the name of a checkpoint states."""

    label: str
    """Format in words."""
    rules: Rules | None
    """ModuleFormat of its modules; None where experts alone may be quantised, as the model's record says."""
    dtype: str
    kv_dtype: str | None = None
    activations: str | None = None
    is_gguf: bool = False
    names_file: bool = True
    """Whether the name states which of a GGUF repository's files is meant."""
    table_bits: float | None = None
    """Width of input table and head of a GGUF file whose name says that they are wider [bits]; None: the mix's."""
    file_bits: float | None = None
    """Mean width of all weights of a GGUF file with types of its own [bits]; None: the mix's."""


def _linear(label: str, storage: ModuleFormat, *, tables: bool = False) -> NamedFormat:
    return NamedFormat(label, Rules(_PLAIN, storage, tables=tables), storage.dtype)


def _dtype(label: str, dtype: str, activations: str | None = None) -> NamedFormat:
    return NamedFormat(label, None, dtype, activations=activations)


def format_of_name(name: str) -> NamedFormat | None:
    """Return the format that a checkpoint's name states; None if it states none.

    Assumes: a name tells the truth; AWQ and GPTQ have groups of 128 and MLX groups of 64 where the name gives none.
    NVIDIA's FP8 and FP4 checkpoints declare an fp8 cache, ModelOpt's default.
    Raises: UnknownNameError: the name states a format whose size is not known.
    Source: conventions of publishers; NVIDIA Model-Optimizer, examples/llm_ptq/hf_ptq.py (kv_cache_qformat).
    """
    plain = name.casefold()
    publisher = plain.partition("/")[0] if "/" in plain else ""
    last = plain.rsplit("/", 1)[-1]
    words = set(re.split(r"[-_./:@ ]+", last))
    gguf = None if publisher in _MLX_PUBLISHERS and "gguf" not in words else _gguf(last, words, publisher)
    if gguf is not None:
        return gguf
    if "unquantized" in words:
        return None
    coded = _by_codebooks(last, words)
    if coded is not None:
        return coded
    if words & {"exl2", "exl3"} or "bpw" in last:
        return _exl(name, last)
    for word in words:
        if word in _UNKNOWN:
            raise UnknownNameError(
                f"the format of checkpoint '{name}' is not known",
                why=f"'{word}' files have no fixed width that the catalog knows",
                fix="name another checkpoint of the model, or download its config.json and name its folder",
            )
    if "mlx" in words or (publisher in _MLX_PUBLISHERS and (_WIDTH.search(last) or "mxfp4" in words)):
        found = _mlx(last, words)
        return found and found._replace(rules=found.rules and found.rules._replace(files="mlx"))
    without_cache = _CACHE_ALONE.sub("", last)
    for pattern, build in _BY_PATTERN:
        if pattern.search(without_cache):
            return _with_cache(build(without_cache), publisher, last)
    return _with_cache(_dtype("bf16", "bf16"), publisher, last) if without_cache != last else None


_UNKNOWN: Final = frozenset(
    ("aqlm", "hqq", "vptq", "spqr", "quip", "quip#", "higgs", "bitnet", "2of4", "eetq")
)


@functools.lru_cache(maxsize=512)
def with_named_format(model: Model, name: str) -> tuple[Model, str]:
    """Return the model in the format of the checkpoint `name`, and that format in words; unchanged if the name is that
    of the record's own format.

    Raises: UnknownNameError: the name states a format whose size is not known.
    """
    listed = _read_listed().get(name.casefold())
    if listed is not None and listed["weights"] == model.weights and not format_of_name(name):
        return model, ""
    if listed is not None:
        return model.model_copy(update={**listed, "checkpoint": name}), _words(
            listed["weights"], listed["kv_dtype"]
        )
    said = format_of_name(name)
    if said is None:
        return model, ""
    if said.is_gguf and model.weights == "mxfp4" and not said.names_file:
        said = format_of_name(f"{name}:mxfp4") or said
    if (
        said.rules is None
        and not said.is_gguf
        and said.dtype == model.weights
        and said.kv_dtype is None
        and said.activations is None
    ):
        return model, ""
    if said.dtype == model.weights == "bf16" and said.kv_dtype is None:
        return model, ""
    if said.is_gguf and model.weights == "mxfp4" and said.dtype == "bf16":
        return model, "GGUF weights, experts in mxfp4 as published"
    update: dict[str, object] = {
        "weights": said.dtype,
        "kv_dtype": said.kv_dtype,
        "activations": said.activations,
        "checkpoint": name,
        "other_checkpoints": (),
        "part_formats": (),
        "file_format": said.rules.files if said.rules else "",
    }
    if said.is_gguf:
        update["part_formats"] = _gguf_parts(model, name, said)
    elif said.rules is not None:
        found = weights_by_rules(said.rules, matrices_of(model))
        update |= {
            "weights": found.dtype,
            "part_formats": found.by_part,
            "fp8_scaling": found.fp8_scaling,
            "activations": found.activations or said.activations,
        }
    elif said.dtype != model.weights and model.quantized_parts == "experts" and said.dtype in ("fp8", "int8"):
        update |= {"quantized_parts": "linear", "weights_elsewhere": "bf16"}
    return model.model_copy(update=update), _words(said.label, said.kv_dtype)


@functools.lru_cache(maxsize=512)
def with_repository(model: Model, repository: str) -> Model:
    """Return the model as the one that a repository holds: its own checkpoints alone, without those of siblings that
    the record covers too, such as base models, later tunings and other months of release."""
    spelt = next((each for each in model.hf_ids if each.casefold() == repository.casefold()), repository)
    base = base_repository(spelt, model.hf_ids)
    own = [each for each in model.hf_ids if base_repository(each, (*model.hf_ids, base)) == base]
    stored = next((each.weights for each in model.other_checkpoints if each.hf_id == spelt), model.weights)
    ids = tuple(dict.fromkeys((*own, spelt) if is_quantised(spelt) else (spelt, *own)))
    return model.model_copy(update={"repository": base, "hf_ids": ids, "weights": stored})


@functools.lru_cache(maxsize=4096)
def base_repository(repository: str, hf_ids: tuple[str, ...]) -> str:
    """Return the repository that a quantised one is a form of: the one with the longest name inside its name; itself
    for one that is no such form, or whose origin its name does not tell.

    Assumes: publishers of quantised forms keep the name of what they quantised.
    """
    if not is_quantised(repository):
        return repository
    name = _tail(repository)
    able = [each for each in hf_ids if not is_quantised(each) and _tail(each) in name]
    return max(able, key=len, default=repository)


CHAT: Final = re.compile(r"instruct|chat|-it\b|thinking", re.IGNORECASE)
"""Words in the names of models that were tuned to answer."""


@functools.lru_cache(maxsize=4096)
def is_quantised(repository: str) -> bool:
    """Whether the name of a repository states another format of its weights than 16 bits, known or not."""
    try:
        said = format_of_name(repository)
    except UnknownNameError:
        return True
    return said is not None and (said.is_gguf or said.dtype not in ("bf16", "fp16"))


def _tail(repository: str) -> str:
    return repository.casefold().rpartition("/")[2]


def _words(label: object, kv_dtype: object) -> str:
    return f"{label} weights, {kv_dtype} cache" if kv_dtype else f"{label} weights"


def _gguf(last: str, words: set[str], publisher: str) -> NamedFormat | None:
    stem = re.sub(r"[-_.]gguf$", "", last)
    found = _GGUF_TYPE.search(stem)
    is_file = "gguf" in words
    if found is None and not is_file:
        return None
    quant = found.group(2) if found else _USUAL_GGUF
    if quant in _WIDE_TYPES:
        return NamedFormat("GGUF bf16", None, "bf16", is_gguf=True) if is_file else None
    if quant.startswith("mxfp4"):
        return NamedFormat("GGUF MXFP4", None, "mxfp4", is_gguf=True) if is_file else None
    dynamic = "UD-" if found and found.group(1) else ""
    wide_tables = None if dynamic else _WIDE_TABLES.get(quant)
    dtype = wide_tables or _nearest_gguf(quant)
    if dtype is None:
        raise UnknownNameError(
            f"the GGUF type '{quant}' of checkpoint '{last}' is not known",
            why="the catalog knows the types of llama.cpp's own table",
            fix=f"name a file of another type, e.g. {_USUAL_GGUF.upper()}",
        )
    chosen = "" if found else " (llama.cpp's choice, as no file is named)"
    label = f"GGUF {dynamic}{quant.upper()}{chosen}"
    table_bits = BITS_PER_BYTE * bytes_per_element("q8_0") if wide_tables else None
    if publisher == "google" and "qat" in words:
        table_bits = BITS_PER_BYTE * bytes_per_element("fp16")
    bits = _DYNAMIC_BITS.get(quant) if dynamic else None
    return NamedFormat(
        label, None, dtype, is_gguf=True, names_file=found is not None, table_bits=table_bits, file_bits=bits
    )


_WIDE_TABLES: Final = {
    "q2_k_l": "q2_k",
    "q3_k_xl": "q3_k_l",
    "q4_k_l": "q4_k_m",
    "q5_k_l": "q5_k_m",
    "q6_k_l": "q6_k",
}
"""Mixes whose input table and head are q8_0, and the mix of their layers. Source: bartowski's pages of GGUF files."""


def _nearest_gguf(quant: str) -> str | None:
    """Return the format of a type of GGUF file; types that only Unsloth makes have the name of the nearest one."""
    if quant in GGUF_DTYPES:
        return quant
    for other in (
        f"{quant.removesuffix('_xl')}_m",
        f"{quant.removesuffix('_xl')}_l",
        quant.removesuffix("_xl"),
    ):
        if quant.endswith("_xl") and other in GGUF_DTYPES:
            return other
    repacked = re.sub(r"_r[48]$", "", quant)  # rows in another order, of the same size
    return gguf.tables()["nearest"].get(repacked)


def _gguf_parts(model: Model, name: str, said: NamedFormat) -> tuple[PartFormat, ...]:
    """Return the storage of a GGUF file whose size is published: layers take what the tables leave; or of one whose
    tables are wider than the mix has them; else empty."""
    repository, _, file = name.casefold().partition(":")
    if "/" not in repository and (
        alone := _DYNAMIC_FILE.fullmatch(repository)
    ):  # a file of Unsloth's on its own
        repository, file = f"unsloth/{alone['model']}-gguf", alone["file"]
    size = _gguf_files().get((repository, file))
    dtype = said.dtype
    found = list(matrices_of(model))
    experts = [one for one in found if one.part == "experts"]
    if dtype == "mxfp4" or (model.weights == "mxfp4" and size is None and _keeps_mxfp4(model, dtype)):
        kept = (
            [PartFormat(part="experts", dtype="mxfp4", bits_per_weight=_bits_of("mxfp4"))] if experts else []
        )
        rest = dict.fromkeys(one.part for one in found if one.part != "experts")
        others = [PartFormat(part=part, dtype="q8_0", bits_per_weight=_bits_of("q8_0")) for part in rest]
        return tuple(kept + (others if dtype == "mxfp4" else []))
    if size is None and said.file_bits and experts:
        size = said.file_bits * sum(one.elements for one in found) / BITS_PER_BYTE
    if size is None and said.table_bits is None:
        return ()
    tables = {
        "embedding": said.table_bits or gguf_bits(dtype, "head" if model.tied_embeddings else "embedding"),
        "head": said.table_bits or gguf_bits(dtype, "head"),
    }
    fixed = sum(one.elements * tables[one.part] for one in found if one.part in tables)
    body = sum(one.elements for one in found if one.part not in tables)
    bits = gguf_bits(dtype, "layers") if size is None else (size * BITS_PER_BYTE - fixed) / body
    parts = dict.fromkeys(one.part for one in found)
    return tuple(PartFormat(part=part, dtype=dtype, bits_per_weight=tables.get(part, bits)) for part in parts)


_SUPER_BLOCK: Final = 256
"""Weights of a block of llama.cpp's k- and i-quants (ggml-common.h, QK_K)."""


def _keeps_mxfp4(model: Model, dtype: str) -> bool:
    """Whether experts that are published in mxfp4 stay so in a file of another type: it is no narrower, or their rows
    are no whole number of its blocks."""
    experts = [group.feed_forward for group in model.layers if group.feed_forward is not None]
    widths = [model.hidden_size, *(one.intermediate_size for one in experts if one.kind == "moe")]
    return _bits_of(dtype) >= _bits_of("mxfp4") or any(width % _SUPER_BLOCK for width in widths)


def _bits_of(dtype: str) -> float:
    return BITS_PER_BYTE * bytes_per_element(dtype)


@functools.cache
def _gguf_files() -> dict[tuple[str, str], float]:
    columns = ("repository", "file", "size_gib", "source")
    return {
        (cells["repository"].casefold(), cells["file"].casefold()): float(cells["size_gib"]) * GIB
        for _, cells in read_csv(_FILES_FILE, columns)
    }


@functools.cache
def _read_listed() -> dict[str, dict[str, object]]:
    """Return the formats of checkpoints whose own files were read, by repository."""
    columns = (
        "repository",
        "weights",
        "activations",
        "kv_dtype",
        "kv_dtype_beside",
        "fp8_scaling",
        "parts",
        "source",
    )
    found: dict[str, dict[str, object]] = {}
    for _, cells in read_csv(_PARTS_FILE, columns):
        parts = []
        for entry in cells["parts"].split():
            part, dtype, bits = entry.split(":")
            parts.append(PartFormat(part=part, dtype=dtype, bits_per_weight=float(bits)))
        formats = {entry.part: entry.dtype for entry in parts}
        experts = formats.get("experts")
        only_experts = experts == cells["weights"] and formats.get("mixer") != experts
        found[cells["repository"].casefold()] = {
            "weights": cells["weights"],
            "part_formats": tuple(parts),
            "quantized_parts": "experts" if only_experts else "linear",
            "weights_elsewhere": formats.get("mixer", "bf16") if only_experts else "bf16",
            "activations": cells["activations"] or None,
            "kv_dtype": cells["kv_dtype"] or None,
            "kv_dtype_beside": cells["kv_dtype_beside"] or None,
            "fp8_scaling": cells["fp8_scaling"],
        }
    return found


def _mlx(last: str, words: set[str]) -> NamedFormat | None:
    if found := re.search(r"mxfp4-q([2-8])", last):  # experts as published, all else in the bits after q
        rest = integers(int(found[1]), _MLX_GROUP, zero_points=False, scale_bits=32.0)
        experts = ModuleFormat("mxfp4", _bits_of("mxfp4"), weight_only=True)
        return NamedFormat(
            f"MLX mxfp4, {found[1]}-bit", Rules(_PLAIN, rest, experts=experts, tables=True), "mxfp4"
        )
    if found := re.search(r"mixed[-_]([2-8])[-_]([2-8])(?!\d)", last):
        return _mlx_mix(int(found[1]), int(found[2]))
    for mode in ("mxfp4", "nvfp4"):
        if mode in words:
            return _linear(
                f"MLX {mode}",
                ModuleFormat(mode, BITS_PER_BYTE * bytes_per_element(mode), weight_only=True),
                tables=True,
            )
    found = _WIDTH.search(last)
    if found is None:
        return None
    bits = float(found.group(1) or found.group(2))
    if bits not in (2, 3, 4, 5, 6, 8):
        return None
    storage = integers(int(bits), _MLX_GROUP, zero_points=False, scale_bits=32.0)
    return _linear(f"MLX {bits:g}-bit", storage, tables=True)


def _mlx_mix(low: int, high: int) -> NamedFormat:
    """Return the format of mlx-lm's recipe mixed_LOW_HIGH: head, and values and down projections of half of the layers,
    in the wider of two widths.

    Source: ml-explore/mlx-lm, convert.py, mixed_quant_predicate_builder: the first and last eighth of the layers, and
    each third of those between.
    """
    narrow, wide = (integers(bits, _MLX_GROUP, zero_points=False, scale_bits=32.0) for bits in (low, high))
    half = narrow._replace(bits=(narrow.bits + wide.bits) / 2)
    rules = Rules(
        _PLAIN,
        narrow,
        named=lambda name: half if name.rpartition(".")[2] in ("v_proj", "down_proj") else None,
        tables=True,
    )
    return NamedFormat(f"MLX {low}- and {high}-bit", rules, narrow.dtype)


def _exl(name: str, last: str) -> NamedFormat:
    found = _EXL_WIDTH.search(last)
    bits = float((found.group(1) or found.group(2)).replace("_", ".")) if found else 0.0
    kind = "EXL2" if "exl2" in last else "EXL3"
    if not _NARROWEST_EXL <= bits <= _WIDEST_EXL:
        raise UnknownNameError(
            f"the width of checkpoint '{name}' is not known",
            why=f"{kind} repositories hold a branch for each width",
            fix=f"name the branch, {name.partition(':')[0]}:4.0bpw",
        )
    head = _EXL_HEAD.search(last)
    rules = Rules(
        _PLAIN,
        exl_storage(bits),
        head=exl_storage(float(head.group(1)) if head else _EXL_HEAD_BITS),
        files=kind.lower(),
    )
    # Files of both kinds have the size that their width says.
    return NamedFormat(f"{kind} {bits:g}-bit", rules, exl_storage(bits).dtype)


_NARROWEST_EXL: Final = 1.0
_WIDEST_EXL: Final = 8.0
"""Mean widths that ExLlama writes, from the narrowest to the widest [bits a weight]."""
_EXL_HEAD_BITS: Final = BITS_PER_BYTE * bytes_per_element(EXL3_HEAD_DTYPE)


def _by_codebooks(last: str, words: set[str]) -> NamedFormat | None:
    """Return the format of AQLM, VPTQ, HQQ and HIGGS files whose name states widths and codebooks, or None."""
    if "aqlm" in words and (found := _AQLM.search(last)):
        bits, books, index_bits = map(int, found.groups())
        vector = books * index_bits // bits if bits else 0
        if vector and index_bits <= WIDEST_INDEX:
            return _linear(f"AQLM {bits}-bit", codebook_storage(vector, *(index_bits,) * books))
    if found := _VPTQ.search(last):
        vector, *entries = map(int, found.groups())
        widths = [math.ceil(math.log2(count)) for count in entries if count > 1]
        if vector and widths and max(widths) <= WIDEST_INDEX:
            return _linear(f"VPTQ {sum(widths) / vector:g}-bit", codebook_storage(vector, *widths))
    width = _WIDTH.search(last)
    for method, group_size, scale_bits in (("hqq", _HQQ_GROUP, 32.0), ("higgs", _HIGGS_GROUP, 16.0)):
        if method in words and width is not None:
            size = _GROUP.search(last)
            groups = int(size.group(1) or size.group(2)) if size else group_size
            storage = integers(_bits(last), groups, zero_points=False, scale_bits=scale_bits)
            return _linear(f"{method.upper()} {_bits(last)}-bit", storage)
    return None


_HQQ_GROUP: Final = 64
_HIGGS_GROUP: Final = 256


def _integer_format(last: str, label: str, bits: int) -> NamedFormat:
    found = _GROUP.search(last)
    size = int(found.group(1) or found.group(2)) if found else _USUAL_GROUP
    return _linear(f"{label} int{bits}".strip(), integers(bits, size, zero_points=True))


def _bits(last: str, default: int = 4) -> int:
    found = _WIDTH.search(last)
    bits = float(found.group(1) or found.group(2)) if found else float(default)
    return int(bits) if bits in (2, 3, 4, 8) else default


_CACHE_ALONE: Final = re.compile(r"(?<![a-z0-9])kv-?fp8(-(tensor|channel|head))?(?![a-z])")
"""Words for an fp8 cache that say nothing about the weights."""


def _with_cache(said: NamedFormat, publisher: str, last: str) -> NamedFormat:
    by_modelopt = publisher == "nvidia" and said.dtype in ("fp8", "nvfp4")
    says_so = re.search(r"fp8-kv|kv-?fp8|kvcache-fp8", last)
    return said._replace(kv_dtype="fp8") if by_modelopt or says_so else said


_BY_PATTERN: Final[tuple[tuple[re.Pattern[str], Callable[[str], NamedFormat]], ...]] = tuple(
    (re.compile(rf"(?<![a-z0-9])(?:{pattern})(?![a-z])", re.IGNORECASE), build)
    for pattern, build in (
        ("nvfp4a16", lambda last: _dtype("nvfp4 (weights only)", "nvfp4", "bf16")),
        ("nvfp4|modelopt-fp4", lambda last: _dtype("nvfp4", "nvfp4")),
        ("mxfp4|w-mxfp4", lambda last: _dtype("mxfp4", "mxfp4")),
        ("mxfp8", lambda last: _linear("mxfp8", ModuleFormat("fp8", grouped_bits(8.0, 32, 8.0)))),
        ("e8p-2-?bit", lambda last: _dtype("QuIP# 2-bit", "quip-2bit")),
        ("awq", lambda last: _integer_format(last, "AWQ", _bits(last))),
        ("gptq|autoround|auto-round|marlin", lambda last: _integer_format(last, "GPTQ", _bits(last))),
        ("w4a16|w4afp8|w4a8", lambda last: _linear("int4", integers(4, _USUAL_GROUP, zero_points=False))),
        ("w8a16", lambda last: _linear("int8 (weights only)", integers(8, _USUAL_GROUP, zero_points=False))),
        ("w8a8-fp8|fp8", lambda last: _dtype("fp8", "fp8")),
        ("w8a8|smoothquant", lambda last: _dtype("int8", "int8")),
        ("bnb-8bit|bnb-int8", lambda last: _dtype("int8 (weights only)", "int8", "bf16")),
        ("bnb(-4bit)?|nf4|bitsandbytes", lambda last: _dtype("nf4", "nf4")),
        ("fp4", lambda last: _dtype("nvfp4", "nvfp4")),
        ("int4|4-?bit", lambda last: _integer_format(last, "", 4)),
        ("int8|8-?bit", lambda last: _dtype("int8", "int8")),
        ("bf16|fp16|f16", lambda last: _dtype("bf16", "bf16")),
    )
)
"""How a format is recognised in a name; the first that is found counts."""
