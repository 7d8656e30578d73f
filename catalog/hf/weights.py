"""Weight format of a checkpoint, from the quantization fields of its config.json."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.errors import InputFileError
from advisor.catalog.files import parsed_json, read_text
from advisor.catalog.hf.fields import ConfigFields

_PLAIN: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "bf16",  # engines load 32-bit checkpoints in 16 bits
    "float8_e4m3fn": "fp8",
}
_BY_METHOD: Final = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "finegrained_fp8": "fp8",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
    "modelopt_fp4": "nvfp4",
    "w8a8_fp8": "fp8",
    "w8a8_int8": "int8",
}
_BY_BITS: Final = {4: "int4", 8: "int8"}
_BITS_OF_FP8: Final = 8
_NVFP4_GROUP_SIZE: Final = 16
_WHOLE_ATTENTION: Final = re.compile(r"(self_attn|attention|q_proj|q_a_proj|qkv_proj)[.*$]*$")
"""Pattern of an exclusion of the attention's matrices, not only of a norm or an indexer."""


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Format of the quantised matrices, the choice of these matrices, and the format of the layers' other matrices."""

    dtype: str
    parts: Literal["all", "experts", "linear"] = "linear"
    elsewhere: str = "bf16"
    fp8_scaling: Literal["tensor", "block"] = "tensor"


def published_weights(config: ConfigFields, *, has_experts: bool) -> WeightFormat:
    """Return the weight format of a checkpoint; the plain dtype if nothing is quantised.

    Raises: InputFileError: the quantisation method is unknown.
    Source: quantization_config as written by transformers, compressed-tensors, GPTQ, AWQ and ModelOpt.
    """
    text = config.text_tower()
    quantization = config.section("quantization_config") or text.section("quantization_config")
    plain = config.text("torch_dtype", "dtype") or text.text("torch_dtype", "dtype")
    plain_dtype = _PLAIN.get(plain.removeprefix("torch."), "bf16")
    if quantization is None:
        algorithm = _modelopt_algorithm(config)
        return WeightFormat(_dtype_of(config, algorithm)) if algorithm else WeightFormat(plain_dtype)
    if text.text("expert_dtype") == "fp4":  # DeepSeek V4: experts in mxfp4, the rest as the config says
        return WeightFormat("mxfp4", "experts", _quantized_dtype(quantization), fp8_scaling="block")
    dtypes = _group_dtypes(quantization)
    if has_experts and len(dtypes) > 1:  # mixed: the narrowest format is that of the experts
        narrow, wide = sorted(dtypes, key=bytes_per_element)[:2]
        return WeightFormat(narrow, "experts", wide)
    ignored = quantization.sequence("modules_to_not_convert", "ignore", "exclude_modules") or ()
    only_experts = has_experts and any(_WHOLE_ATTENTION.search(str(name)) for name in ignored)
    parts: Literal["experts", "linear"] = "experts" if only_experts else "linear"
    blockwise = quantization.has("weight_block_size") or '"strategy": "block"' in json.dumps(
        quantization.values.get("config_groups")
    )
    return WeightFormat(_quantized_dtype(quantization), parts, fp8_scaling="block" if blockwise else "tensor")


def _quantized_dtype(quantization: ConfigFields) -> str:
    method = quantization.text("quant_method").lower()
    if method in ("compressed-tensors", "compressed_tensors") or quantization.has("config_groups"):
        return _compressed_dtype(quantization)
    if method == "modelopt" or quantization.has("quant_algo"):
        return _dtype_of(quantization, quantization.text("quant_algo") or "FP8")
    if method in _BY_METHOD:
        return _BY_METHOD[method]
    if method == "bitsandbytes":
        return "nf4" if quantization.flag("load_in_4bit", "_load_in_4bit") else "int8"
    bits = quantization.optional_count("bits", "w_bit", "num_bits")
    if bits in _BY_BITS:
        return _BY_BITS[bits]
    return quantization.fail(
        "quant_method",
        f"is '{method}', which is not known",
        fix=f"use {', '.join(sorted(_BY_METHOD))}, compressed-tensors, gptq, awq, modelopt or bitsandbytes",
        hint="remove quantization_config to have the model read as bf16",
    )


def _compressed_dtype(quantization: ConfigFields) -> str:
    dtypes = _group_dtypes(quantization)
    return (
        min(dtypes, key=bytes_per_element)
        if dtypes
        else _dtype_of(quantization, quantization.text("quant_algo"))
    )


def _group_dtypes(quantization: ConfigFields) -> set[str]:
    """Return the formats of the module groups that compressed-tensors and ModelOpt list."""
    groups = quantization.section("config_groups")
    found: set[str] = set()
    for name in groups.values if groups is not None else ():
        group = groups.section(name) if groups is not None else None
        if group is None:
            quantization.fail("config_groups", f"has an entry {name!r} that is no group")
        layout = f"{quantization.text('format')} {group.text('format')}".lower()
        named = next((each for each in ("nvfp4", "mxfp4") if each in layout), None)
        found.add(named or _number_format(group.section("weights")))
    return found


def _number_format(weights: ConfigFields | None) -> str:
    """Return the number format of a group's weights; int8 if the group does not say."""
    if weights is None:
        return "int8"
    bits = weights.optional_count("num_bits") or 8
    if weights.text("type") == "float":
        narrow = "nvfp4" if weights.values.get("group_size") == _NVFP4_GROUP_SIZE else "mxfp4"
        return "fp8" if bits == _BITS_OF_FP8 else narrow
    return _BY_BITS.get(bits, "int8")


def _modelopt_algorithm(config: ConfigFields) -> str:
    """Return the algorithm that ModelOpt writes into a separate file next to config.json; empty if there is none."""
    file = Path(config.file).with_name("hf_quant_config.json")
    try:
        values = parsed_json(read_text(file))
        return str(values["quantization"]["quant_algo"] or "")
    except (InputFileError, ValueError, RecursionError, KeyError, TypeError):
        return ""


def _dtype_of(config: ConfigFields, algorithm: str) -> str:
    name = algorithm.upper()
    for part, dtype in (
        ("NVFP4", "nvfp4"),
        ("MXFP4", "mxfp4"),
        ("W4", "int4"),
        ("INT4", "int4"),
        ("FP8", "fp8"),
    ):
        if part in name:
            return dtype
    if "INT8" in name or "W8" in name:
        return "int8"
    if name == "MIXED_PRECISION":
        return "nvfp4"
    return config.fail("quant_algo", f"is '{algorithm}', which is not known")
