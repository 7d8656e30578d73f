"""Recipes that quantise weights which no publisher offers, with the tool that each engine loads from."""

import shlex
from string import Template
from typing import Final

from advisor.catalog.legible import Line

_HEADER: Final = """#!/usr/bin/env bash
# $what
set -euo pipefail
"""
_COMPRESSOR: Final = """pip install llmcompressor
python - <<'EOF'
from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import $modifier

oneshot(
    model=$model,
    recipe=$modifier(targets="Linear", scheme="$scheme", ignore=["lm_head"]),$data
    output_dir=$target,
)
EOF
"""
_DATA: Final = """
    dataset="open_platypus",
    num_calibration_samples=512,
    max_seq_length=2048,"""
_MODEL_OPT: Final = """git clone https://github.com/NVIDIA/Model-Optimizer
python Model-Optimizer/examples/llm_ptq/hf_ptq.py --pyt_ckpt_path $quoted --qformat $scheme --export_path $quoted_target
"""
_GGUF: Final = """git clone https://github.com/ggml-org/llama.cpp
pip install huggingface_hub -r llama.cpp/requirements.txt
cmake -S llama.cpp -B llama.cpp/build && cmake --build llama.cpp/build --target llama-quantize
${download}python llama.cpp/convert_hf_to_gguf.py $folder --outfile source.gguf
llama.cpp/build/bin/llama-quantize source.gguf $quoted_target $scheme
"""
_GGUF_ALIKE: Final = """git clone https://github.com/ggml-org/llama.cpp
pip install huggingface_hub -r llama.cpp/requirements.txt
${download}python llama.cpp/convert_hf_to_gguf.py $folder --outtype $scheme --outfile $quoted_target
"""
_EXL3: Final = """git clone https://github.com/turboderp-org/exllamav3
${download}python exllamav3/convert.py -i $folder -o $quoted_target -w work -b $scheme
"""
_MLX: Final = """pip install mlx-lm
mlx_lm.convert --hf-path $quoted -q --q-bits $scheme --mlx-path $quoted_target
"""
_STORED_ALIKE: Final = {"bf16": "bf16", "fp16": "f16", "mxfp4": "auto"}
"""Types of the converter's output that keep the precision of the weights, by format."""
_RECIPES: Final = {
    "fp8": (_COMPRESSOR, "QuantizationModifier", "FP8_DYNAMIC", ""),
    "int8": (_COMPRESSOR, "GPTQModifier", "W8A8", _DATA),
    "int4": (_COMPRESSOR, "GPTQModifier", "W4A16", _DATA),
    "nvfp4": (_COMPRESSOR, "QuantizationModifier", "NVFP4", _DATA),
}


def recipe(repository: Line, weight_dtype: str, target: Line, engine: str, *, is_local: bool = False) -> str:
    """Return a script that quantises a checkpoint, published or in a local folder, into a folder (a file, for GGUF).

    Source: READMEs and examples of vllm-project/llm-compressor, NVIDIA/Model-Optimizer, ggml-org/llama.cpp,
        turboderp-org/exllamav3, ml-explore/mlx-lm.
    """
    body, modifier, scheme, data = _RECIPES.get(weight_dtype, (_MODEL_OPT, "", weight_dtype, ""))
    what = f"Quantises {repository} to {weight_dtype}, which is not known to be published. "
    what += "Check the result on your own tasks."
    if engine == "llama.cpp" and weight_dtype in _STORED_ALIKE:
        body = _GGUF_ALIKE
        scheme = _STORED_ALIKE[weight_dtype]
        what = f"Converts {repository} to a GGUF file, the format that llama.cpp reads. Weights keep their precision."
    elif engine == "llama.cpp":
        body = _GGUF
        scheme = weight_dtype.upper()
    elif engine == "exllamav3":
        body = _EXL3
        scheme = weight_dtype.removeprefix("exl3-").removesuffix("bpw")
    elif engine == "mlx":
        body = _MLX
        scheme = "8" if weight_dtype == "int8" else "4"
    elif engine == "tensorrt-llm":
        body = _MODEL_OPT
        scheme = {"int4": "int4_awq", "int8": "int8_sq"}.get(weight_dtype, weight_dtype)
    return Template(_HEADER + body).substitute(
        what=what,
        modifier=modifier,
        scheme=scheme,
        data=data,
        model=repr(str(repository)),
        target=repr(str(target)),
        download="" if is_local else f"hf download {shlex.quote(repository)} --local-dir source\n",
        folder=shlex.quote(repository) if is_local else "source",
        quoted=shlex.quote(repository),
        quoted_target=shlex.quote(target),
    )
