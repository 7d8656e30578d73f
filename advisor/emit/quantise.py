"""Recipes that make weights which no publisher offers in a format, with the tool that each engine loads from."""

import shlex
from collections.abc import Mapping
from string import Template
from typing import Final

from advisor.catalog.legible import Line
from advisor.catalog.resaving import TORCH_DTYPES, resaving_program

_HEADER: Final = """#!/usr/bin/env bash
# $what
set -euo pipefail
"""
_COMPRESSOR: Final = """pip install llmcompressor
python - <<'EOF'
from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import $modifier

skipped = ["lm_head", "re:.*gate$$", "re:.*(visual|vision_tower|vision_model|multi_modal_projector).*"]
oneshot(
    model=$model,
    recipe=$modifier(targets="Linear", scheme="$scheme", ignore=skipped),$data
    output_dir=$target,$code_model
)
EOF
"""
_DATA: Final = """
    dataset="open_platypus",
    num_calibration_samples=512,
    max_seq_length=2048,"""
_MODEL_OPT: Final = """git clone https://github.com/NVIDIA/Model-Optimizer
pip install -U "nvidia-modelopt[hf]"
python Model-Optimizer/examples/llm_ptq/hf_ptq.py --pyt_ckpt_path $quoted --qformat $scheme \\
  --kv_cache_qformat none --export_path $quoted_target$code_flag
"""
"""Calibration with ModelOpt; without `none` it declares an fp8 cache, which the plan may not have."""
_MODEL_OPT_NAMES: Final = {
    "int4": "int4_awq",
    "w4a8": "w4a8_awq",
    "mxfp4": "w4a8_mxfp4_fp8",
}
"""Names of formats in hf_ptq.py; the others are named as here."""
_GGUF: Final = """git clone https://github.com/ggml-org/llama.cpp
pip install huggingface_hub -r llama.cpp/requirements.txt
cmake -S llama.cpp -B llama.cpp/build && cmake --build llama.cpp/build --target llama-quantize llama-imatrix
${download}python llama.cpp/convert_hf_to_gguf.py $folder --outfile source.gguf
${importance}llama.cpp/build/bin/llama-quantize $options source.gguf $quoted_target $scheme
"""
_IMPORTANCE: Final = """# CALIBRATION is a file of text that is like your requests.
llama.cpp/build/bin/llama-imatrix -m source.gguf -f "${CALIBRATION:?file of text}" -o imatrix.gguf
"""
_NEED_IMPORTANCE: Final = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "q2_k_s")
"""Types that llama-quantize makes only with an importance matrix. Source: llama.cpp v0.5.0, tools/quantize."""
_WIDE_TABLES: Final = "--token-embedding-type q8_0 --output-tensor-type q8_0"
"""Options of llama-quantize for the types `*_xl`, whose tables are wider than their layers."""
_GGUF_ALIKE: Final = """git clone https://github.com/ggml-org/llama.cpp
pip install huggingface_hub -r llama.cpp/requirements.txt
${download}python llama.cpp/convert_hf_to_gguf.py $folder --outtype $scheme --outfile $quoted_target
"""
_AUTO_AWQ: Final = """pip install lmdeploy
lmdeploy lite auto_awq $quoted --work-dir $quoted_target$code_option
"""
_EXL3: Final = """git clone https://github.com/turboderp-org/exllamav3
${download}python exllamav3/convert.py -i $folder -o $quoted_target -w work -b $scheme
"""
_MLX: Final = """pip install mlx-lm
mlx_lm.convert --hf-path $quoted $scheme --mlx-path $quoted_target$code_option
"""
_MLX_WORDS: Final = {
    "int4": "-q --q-bits 4",
    "int8": "-q --q-bits 8",
    "mxfp4": "-q --q-mode mxfp4",
    "bf16": "--dequantize --dtype bfloat16",
    "fp16": "--dequantize --dtype float16",
}
_STORED_ALIKE: Final = {"bf16": "bf16", "fp16": "f16", "mxfp4": "auto"}
"""Types of the converter's output that keep the precision of the weights, by format."""
_SCHEMES: Final[Mapping[str, tuple[str, str, str]]] = {
    "fp8": ("QuantizationModifier", "FP8_DYNAMIC", ""),
    "int8": ("GPTQModifier", "W8A8", _DATA),
    "int4": ("GPTQModifier", "W4A16", _DATA),
    "w4a8": ("GPTQModifier", "W4AFP8", _DATA),
    "nvfp4": ("QuantizationModifier", "NVFP4", _DATA),
    "mxfp4": ("QuantizationModifier", "MXFP4", ""),
}
"""Modifier, scheme and calibration data of llm-compressor by format. Source: compressed-tensors 0.20.0,
quantization/quant_scheme.py; examples of vllm-project/llm-compressor."""
_WIDENED: Final = "./widened"


def recipe(
    repository: Line,
    stored: str,
    weight_dtype: str,
    target: str,
    engine: str,
    *,
    is_local: bool = False,
    runs_code: bool = False,
) -> str:
    """Return a script that makes weights in a format from a checkpoint, published or in a local folder, into a folder
    (a file, for GGUF).

    `stored` is the checkpoint's own format: tools that calibrate get low-bit weights written out in 16 bits first.
    `runs_code` says that the model loads only with Python files of its repository.

    Source: READMEs and examples of vllm-project/llm-compressor, NVIDIA/Model-Optimizer, ggml-org/llama.cpp,
        turboderp-org/exllamav3, ml-explore/mlx-lm; lmdeploy 0.18.0, cli/lite.py.
    """
    values = {
        "what": f"Makes {weight_dtype} weights of {repository}, which are not known to be published. "
        "Check the result on your own tasks.",
        "download": "" if is_local else f"hf download {shlex.quote(repository)} --local-dir source\n",
        "folder": shlex.quote(repository) if is_local else "source",
        "code_model": "\n    trust_remote_code_model=True," if runs_code else "",
        "code_flag": " --trust_remote_code" if runs_code else "",
        "code_option": " --trust-remote-code" if runs_code else "",
        "importance": "",
        "options": "",
    }
    if engine == "llama.cpp":
        body = _gguf_values(weight_dtype, stored, repository, values)
    elif engine == "exllamav3":
        body = _EXL3
        values["scheme"] = weight_dtype.removeprefix("exl3-").removesuffix("bpw")
    elif engine == "mlx":
        body = _MLX
        values["scheme"] = _MLX_WORDS[weight_dtype]
    elif weight_dtype in TORCH_DTYPES or weight_dtype == "nf4":
        return _header(values) + _resave(repository, target, stored, weight_dtype, runs_code)
    else:
        body = _AUTO_AWQ if engine == "lmdeploy" else _calibration_values(weight_dtype, engine, values)
        if stored not in TORCH_DTYPES:
            first = _resave(repository, _WIDENED, stored, "bf16", runs_code)
            return _header(values) + first + _fill(body, _WIDENED, target, values)
    return _header(values) + _fill(body, repository, target, values)


def _header(values: Mapping[str, str]) -> str:
    return Template(_HEADER).substitute(values)


def _resave(source: str, target: str, stored: str, weight_dtype: str, runs_code: bool) -> str:
    """Return the lines that write a checkpoint in 16 bits, or in NF4 and, if it has fewer bits, in 16 bits before."""
    lines = "pip install transformers accelerate bitsandbytes" + "\n"
    if weight_dtype == "nf4" and stored not in TORCH_DTYPES:
        lines += resaving_program(source, _WIDENED, "bf16", runs_code=runs_code)
        source = _WIDENED
    return lines + resaving_program(source, target, weight_dtype, runs_code=runs_code)


def _fill(body: str, source: str, target: str, values: Mapping[str, str]) -> str:
    names = {
        "model": repr(str(source)),
        "target": repr(str(target)),
        "quoted": shlex.quote(source),
        "quoted_target": shlex.quote(target),
    }
    return Template(body).substitute(values, **names)


def _gguf_values(weight_dtype: str, stored: str, repository: str, values: dict[str, str]) -> str:
    """Return the recipe of a GGUF file, and fill in its values."""
    if weight_dtype in ("bf16", "fp16") or weight_dtype == stored == "mxfp4":
        values["scheme"] = _STORED_ALIKE[weight_dtype]
        values["what"] = (
            f"Converts {repository} to a GGUF file, the format that llama.cpp reads. Weights keep their precision."
        )
        return _GGUF_ALIKE
    if weight_dtype in _NEED_IMPORTANCE:
        values["importance"] = _IMPORTANCE
        values["options"] = "--imatrix imatrix.gguf"
    elif weight_dtype.endswith("_xl"):
        values["options"] = _WIDE_TABLES
    name = weight_dtype.replace("_k_xl", "_k_m" if weight_dtype[1] in "345" else "_k")
    values["scheme"] = {"mxfp4": "MXFP4_MOE", "q8_k": "Q8_0"}.get(name, name.upper())
    return _GGUF


def _calibration_values(weight_dtype: str, engine: str, values: dict[str, str]) -> str:
    """Return the recipe of a tool that calibrates, and fill in its values."""
    if engine == "tensorrt-llm" or weight_dtype not in _SCHEMES:
        values["scheme"] = _MODEL_OPT_NAMES.get(weight_dtype, weight_dtype)
        return _MODEL_OPT
    values["modifier"], values["scheme"], values["data"] = _SCHEMES[weight_dtype]
    return _COMPRESSOR
