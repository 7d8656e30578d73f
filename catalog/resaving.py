"""A program that writes a checkpoint again in 16 bits or in NF4, for tools and trainers that read no other format."""

from string import Template
from typing import Final

SIXTEEN_BIT: Final = {"bf16": "bfloat16", "fp16": "float16"}
"""Names that PyTorch has for formats of 16 bits."""
_PROGRAM: Final = """python - <<'EOF'
from transformers import AutoModelForCausalLM, AutoTokenizer
from $module import $config_class

source, target = $source, $target
config = $config_class$arguments)
model = AutoModelForCausalLM.from_pretrained(
    source, dtype="$dtype", device_map="auto", quantization_config=config$code
)
model.save_pretrained(target)
AutoTokenizer.from_pretrained(source$code).save_pretrained(target)
EOF
"""
_CODE: Final = ", trust_remote_code=True"


def resaving_program(source: str, target: str, weight_dtype: str, *, runs_code: bool = False) -> str:
    """Return shell lines that write a checkpoint again in `weight_dtype`: low-bit weights in 16 bits, or 16-bit weights
    in NF4.

    `runs_code` says that the model loads only with Python files of its repository.

    Source: transformers 5.24.0, quantizers/auto.py (AutoQuantizationConfig.from_pretrained) and
        utils/quantization_config.py (dequantize of FineGrainedFP8Config, Mxfp4Config and CompressedTensorsConfig).
    """
    code = _CODE if runs_code else ""
    if weight_dtype in SIXTEEN_BIT:
        config = {
            "module": "transformers.quantizers.auto",
            "config_class": "AutoQuantizationConfig",
            "arguments": f".from_pretrained(source, dequantize=True{code}",
        }
    else:
        config = {
            "module": "transformers",
            "config_class": "BitsAndBytesConfig",
            "arguments": '(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype="bfloat16"',
        }
    return Template(_PROGRAM).substitute(
        config,
        source=repr(str(source)),
        target=repr(str(target)),
        dtype=SIXTEEN_BIT.get(weight_dtype, "bfloat16"),
        code=code,
    )
