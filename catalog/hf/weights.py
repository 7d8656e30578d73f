"""Weight format of a checkpoint, by kind of weights, from the quantization fields of its files."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from advisor.catalog.errors import InputFileError
from advisor.catalog.files import parsed_json, read_text
from advisor.catalog.hf.fields import ConfigFields
from advisor.catalog.hf.modules import Layers, NamedMatrix, matrices
from advisor.catalog.hf.quantization import WIDE_BITS, ModuleFormat, Rules, declared_cache, rules_of
from advisor.catalog.schema.model import Part, PartFormat

_PLAIN: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "bf16",  # engines load 32-bit checkpoints in 16 bits
    "float8_e4m3fn": "fp8",
}
_MODELOPT_FILE: Final = "hf_quant_config.json"
_BODY: Final[tuple[Part, ...]] = ("mixer", "feed_forward", "shared_experts", "experts")


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Format of the quantised matrices, the choice of these matrices, and the format of the layers' other matrices."""

    dtype: str
    parts: Literal["all", "experts", "linear"] = "linear"
    elsewhere: str = "bf16"
    fp8_scaling: Literal["tensor", "block"] = "tensor"
    by_part: tuple[PartFormat, ...] = ()
    """ModuleFormat by kind of weights; empty if nothing is quantised."""
    activations: str | None = None
    """Format of activations of weight-only formats; None: the one that goes with the weights."""
    kv_dtype: str | None = None
    """Format of the KV cache that config.json declares."""
    kv_dtype_beside: str | None = None
    """Format of the KV cache that hf_quant_config.json alone declares."""
    files: str = ""
    """Format of files that only certain engines load; empty for others."""


def published_weights(
    config: ConfigFields, layers: Layers, hidden: int, vocab: int, *, tied: bool
) -> WeightFormat:
    """Return the weight format of a checkpoint; the plain dtype if nothing is quantised.

    Raises: InputFileError: the quantisation method is unknown.
    Source: quantization_config as written by transformers, compressed-tensors, GPTQ, AWQ and ModelOpt.
    """
    text = config.text_tower()
    quantization = quantization_of(config)
    plain = config.text("torch_dtype", "dtype") or text.text("torch_dtype", "dtype")
    plain_dtype = _PLAIN.get(plain.removeprefix("torch."), "bf16")
    beside = _modelopt_section(config)
    if quantization is None and beside is None:
        return WeightFormat(plain_dtype)
    chosen = quantization or beside
    assert chosen is not None
    wide = "bf16" if plain_dtype == "fp8" else plain_dtype
    rules = rules_of(chosen, wide, text.text("expert_dtype"))
    in_layer = text.flag("enable_moe_block")
    found = weights_by_rules(rules, matrices(layers, hidden, vocab, tied=tied, experts_in_layer=in_layer))
    cache = declared_cache(chosen)
    return WeightFormat(
        found.dtype,
        found.parts,
        found.elsewhere,
        found.fp8_scaling,
        found.by_part,
        found.activations,
        cache,
        None if cache or beside is None else declared_cache(beside),
        rules.files,
    )


def quantization_of(config: ConfigFields) -> ConfigFields | None:
    """Return the object of config.json that describes its quantisation, or None.

    Raises: InputFileError: quantization_config is no object.
    """
    text = config.text_tower()
    for fields in (config, text):
        if not isinstance(fields.values.get("quantization_config"), dict | None):
            fields.fail(
                "quantization_config", "is no object", fix="take the config.json of the checkpoint itself"
            )
    sections = ("quantization_config", "quantization", "compression_config")
    found = config.section(*sections) or text.section(*sections)
    if found is None or not found.values:
        return None
    inner = found.section("quantization")  # ModelOpt writes its separate file's form here too
    return inner if inner is not None and inner.has("quant_algo") and not found.has("quant_algo") else found


def weights_by_rules(rules: Rules, found: Iterable[NamedMatrix]) -> WeightFormat:
    """Return the weight format of a checkpoint from the rules of its quantisation and its matrices.

    The format that most quantised weights of the layers have stands for the checkpoint.
    """
    sums: dict[Part, dict[ModuleFormat, float]] = defaultdict(lambda: defaultdict(float))
    codebook_bits: dict[Part, float] = defaultdict(float)
    for matrix in found:
        storage = rules.storage_of(matrix.part, matrix.names)
        sums[matrix.part][storage] += matrix.elements
        codebook_bits[matrix.part] += storage.matrix_bits * matrix.num
    by_part = tuple(_part_format(part, storages, codebook_bits[part]) for part, storages in sums.items())
    body: dict[ModuleFormat, float] = defaultdict(float)
    for part in _BODY:
        for storage, elements in sums.get(part, {}).items():
            body[storage] += elements
    low = {storage: elements for storage, elements in body.items() if storage.bits < WIDE_BITS}
    if not low:
        return WeightFormat(rules.plain.dtype)
    main = max(low, key=low.__getitem__)
    dtypes = {entry.part: entry.dtype for entry in by_part}
    experts = dtypes.get("experts")
    elsewhere = dtypes.get("mixer", main.dtype)
    only_experts = experts is not None and experts == main.dtype and elsewhere != experts
    is_blockwise = any(storage.blockwise for storage in low)
    return WeightFormat(
        main.dtype,
        "experts" if only_experts else "linear",
        elsewhere if only_experts else rules.plain.dtype,
        "block" if is_blockwise else "tensor",
        by_part,
        "bf16" if main.weight_only and main.dtype not in _WEIGHT_ONLY else None,
    )


_WEIGHT_ONLY: Final = ("int4", "nf4", "fp6")
"""Formats whose activations keep 16 bits whatever the checkpoint says."""


def _part_format(part: Part, storages: Mapping[ModuleFormat, float], codebook_bits: float) -> PartFormat:
    total = sum(storages.values())
    bits = codebook_bits + sum(storage.bits * elements for storage, elements in storages.items())
    dtypes: dict[str, float] = defaultdict(float)
    for storage, elements in storages.items():
        dtypes[storage.dtype] += elements
    return PartFormat(part=part, dtype=max(dtypes, key=dtypes.__getitem__), bits_per_weight=bits / total)


def _modelopt_section(config: ConfigFields) -> ConfigFields | None:
    """Return what ModelOpt writes into a separate file next to config.json; None if there is no such file."""
    file = Path(config.file).with_name(_MODELOPT_FILE)
    try:
        values: Any = parsed_json(read_text(file))
        section = values["quantization"]
    except (InputFileError, ValueError, RecursionError, KeyError, TypeError):
        return None
    is_said = isinstance(section, dict) and section.get("quant_algo")
    return ConfigFields(section, str(file), "quantization.") if is_said else None
