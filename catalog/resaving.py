"""Programs that write checkpoints for tools and trainers: one again in 16 bits or in NF4, or a new model's first
weights."""

from string import Template
from typing import Final

TORCH_DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16"}
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
_NEW_PROGRAM: Final = """python - <<'EOF'
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

source, target = $source, $target
torch.manual_seed(0)
config = AutoConfig.from_pretrained(source$code)
config.__dict__.pop("quantization_config", None)
AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16$code).save_pretrained(target)
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
    if weight_dtype in TORCH_DTYPES:
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
        dtype=TORCH_DTYPES.get(weight_dtype, "bfloat16"),
        code=code,
    )


def new_weights_program(source: str, target: str, *, runs_code: bool = False) -> str:
    """Return shell lines that write random first weights of a model's shape, with its tokenizer.

    `runs_code` says that the model loads only with Python files of its repository.

    Source: transformers 5.24.0, AutoModelForCausalLM.from_config.
    """
    code = _CODE if runs_code else ""
    return Template(_NEW_PROGRAM).substitute(source=repr(source), target=repr(target), code=code)
