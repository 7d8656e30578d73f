"""Recipes that make weights: each asks its tool for a format that the tool has, from weights that the tool reads."""

import ast
import itertools
import re
import shlex
import subprocess

import pytest

from advisor.catalog import accelerators, engines, models
from advisor.catalog.engines import weight_formats
from advisor.catalog.legible import Line
from advisor.catalog.published import served_checkpoint
from advisor.emit.quantise import recipe

MODEL_OPT = """int8 int8_sq int8_wo fp8 int4_awq w4a8_awq nvfp4 nvfp4_awq nvfp4_mse fp8_pb_wo fp8_pc_pt w4a8_nvfp4_fp8
w4a8_mxfp4_fp8 nvfp4_mlp_only nvfp4_experts_only nvfp4_omlp_only nvfp4_svdquant mxfp8 nvfp4_local_hessian"""
"""Formats of hf_ptq.py. Source: NVIDIA/Model-Optimizer@003e0fba, QUANT_CFG_CHOICES."""
COMPRESSOR = "W8A8 W8A16 W4A16 W4A8 W4AFP8 FP8 FP8_DYNAMIC FP8_BLOCK NVFP4 NVFP4A16 MXFP4 MXFP4A16"
"""Schemes of llm-compressor, in part. Source: compressed-tensors 0.20.0, quant_scheme.py."""
GGUF = """Q4_0 Q4_1 MXFP4_MOE Q5_0 Q5_1 IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ1_S IQ1_M TQ1_0 TQ2_0 Q2_K Q2_K_S IQ3_XXS IQ3_S
IQ3_M Q3_K IQ3_XS Q3_K_S Q3_K_M Q3_K_L IQ4_NL IQ4_XS Q4_K Q4_K_S Q4_K_M Q5_K Q5_K_S Q5_K_M Q6_K Q8_0 F16 BF16
F32"""
"""Types of llama-quantize. Source: llama.cpp v0.5.0, tools/quantize/quantize.cpp, QUANT_OPTIONS."""
NEEDED = [
    (engine.id, served.format, dtype)
    for chip in ("h100-sxm", "b200-sxm", "mi355x", "m3-ultra")
    for engine in engines.all_engines()
    if engine.id in accelerators.by_id(chip).engines and engine.flags.address
    for dtype in weight_formats(engine, accelerators.by_id(chip))
    for model in (
        "llama-3.1-8b",
        "aquila-7b",
        "deepseek-v3",
        "kimi-k2-thinking",
        "gpt-oss-20b",
        "ministral-3-8b",
    )
    for served in [served_checkpoint(models.by_id(model), engine, dtype, accelerators.by_id(chip))]
    if served.is_made_first
]


@pytest.mark.parametrize(("engine", "stored", "dtype"), sorted({*NEEDED, ("lmdeploy", "bf16", "int4")}))
def test_every_recipe_asks_for_what_its_tool_makes(engine: str, stored: str, dtype: str) -> None:
    for is_local, runs_code in itertools.product((False, True), repeat=2):
        text = recipe(
            Line("org/it's"), stored, dtype, "./made", engine, is_local=is_local, runs_code=runs_code
        )
        subprocess.run(["bash", "-n"], input=text.encode(), check=True)
        programs = re.findall(r"<<'EOF'\n(.*?)\nEOF", text, re.DOTALL)
        for program in programs:
            ast.parse(program)
        schemes = re.findall(r'scheme="(\w+)"', text)
        formats = re.findall(r"--qformat (\S+)", text)
        types = [line.split()[-1] for line in text.splitlines() if "bin/llama-quantize " in line]
        assert set(schemes) <= set(COMPRESSOR.split())
        assert set(formats) <= set(MODEL_OPT.split())
        assert set(types) <= set(GGUF.split())
        if engine == "mlx":
            assert ("-q " in text) == (dtype not in ("bf16", "fp16"))
        reads_low_bits = engine in ("llama.cpp", "mlx", "exllamav3")
        assert ("dequantize=True" in text) == (not reads_low_bits and stored not in ("bf16", "fp16"))
        assert not runs_code or "trust" in text or engine in ("llama.cpp", "exllamav3")
        if re.search(r"^(iq1|iq2_x|q2_k_s)", dtype):
            assert {"llama-imatrix", "--imatrix"} <= set(re.split(r"[\s/]", text))
        assert shlex.quote("./made") in text or "'./made'" in text


def test_low_bit_weights_are_not_asked_of_a_tool_in_16_bits() -> None:
    """hf_ptq.py has no format bf16."""
    text = recipe(Line("deepseek-ai/DeepSeek-V3"), "fp8", "bf16", "./v3-bf16", "vllm")
    assert "hf_ptq" not in text
    assert "dequantize=True" in text
