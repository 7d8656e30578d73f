"""Every kind of file that a question takes, right as it stands, with the questions that read it."""

import json
from pathlib import Path
from typing import Final, NamedTuple

EARLIER: Final = Path(__file__).resolve().parents[2] / "tests" / "advisor" / "reliability" / "earlier"
RECOMMEND: Final = "recommend --fast --gpu l40s --engine vllm --top 1"
CONFIG: Final = {
    "_name_or_path": "someone/good-8b",
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "modeling.Model"},
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "llama3", "type": "llama3", "factor": 8.0},
    "layer_types": ["full_attention"] * 16,
    "torch_dtype": "bfloat16",
    "dtype": "bfloat16",
    "tokenizer_class": "LlamaTokenizer",
    "transformers_version": "4.57.0",
}
"""Fields of a small model, the texts of a real file among them."""
QUANTIZED: Final = CONFIG | {
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "fmt": "e4m3",
        "modules_to_not_convert": ["lm_head"],
        "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}},
    }
}
OF_A_MODEL: Final = (
    f"{RECOMMEND} --rate 1 --model ./m",
    f"{RECOMMEND} --rate 400 --model ./m",
    "roofline --model ./m --gpu l40s",
    "cost --model ./m --gpu l40s --rate 1",
    "simulate serve --model ./m --gpu l40s --rate 1 --requests 20",
    "simulate long-context --model ./m --gpu l40s --context 4096",
    "catalog show ./m",
)
PRICES: Final = (
    "provider,accelerator,num_accelerators,term,usd_per_hour,observed_on,sku,region,url,source,tenancy,price_kind,country\n"
    "mine,l40s,1,on_demand,0.4,2026-11-20,s,r,https://e.example/p,list,shared,quote,US\n"
)
API_PRICES: Final = (
    "provider,model,usd_per_million_input,usd_per_million_output,observed_on,url,note,source\n"
    "mine,llama-3.1-8b,0.1,0.2,2026-11-20,https://e.example/p,note,list\n"
)
PART_PRICES: Final = "part,usd,observed_on,source\nrtx-5090,2000,2026-11-20,list\n"
ASSUMPTIONS: Final = '[purchase]\nl40s = 9000\n[source]\n"title" = "mine"\n'
TRACES: Final = {
    "t.csv": "arrived_at_s,input_tokens,output_tokens,session\n0,100,20,a\n1,90,9,b\n2,90,9,a\n",
    "t.jsonl": '{"timestamp": 0, "input_length": 100, "output_length": 9, "hash_ids": [1]}\n'
    '{"timestamp": 900, "input_length": 90, "output_length": 9, "hash_ids": [1]}\n',
}
LISTS: Final = {
    "b.txt": "RTX 5090 $2000\nRyzen 9 9950X\nASUS ProArt X870E-CREATOR\n",
    "b.md": "| Type | Item | Price |\n|:--|:--|--:|\n| **Video Card** | RTX 5090 | $2000 |\n"
    "| **CPU** | Ryzen 9 9950X | $500 |\n",
    "b.toml": 'parts = ["RTX 5090 $2000", "Ryzen 9 9950X"]\n\n[[part]]\ncategory = "storage"\n'
    'name = "4TB NVMe"\nprice_usd = 400\n',
}
PROFILE: Final = 'mean_input_tokens = 500\nmean_output_tokens = 100\nsource = "mine"\n'
ADAPTER: Final = json.dumps(
    {"r": 16, "base_model_name_or_path": "someone/good-8b", "peft_type": "LORA", "target_modules": ["q_proj"]}
)


class Input(NamedTuple):
    """A file as it should be, and the questions that read it."""

    file: str
    content: str
    questions: tuple[str, ...]

    @property
    def suffix(self) -> str:
        """Form of the content."""
        return Path(self.file).suffix


def _earlier(name: str) -> str:
    return (EARLIER / name).read_text(encoding="utf-8")


def inputs() -> tuple[Input, ...]:
    """Return every kind of input file."""
    return (*_model_inputs(), *_price_inputs(), *_work_inputs())


def _model_inputs() -> list[Input]:
    """Return files of models and adapters."""
    return [
        Input("m/config.json", json.dumps(CONFIG), OF_A_MODEL),
        Input("m/config.json", json.dumps(QUANTIZED), OF_A_MODEL),
        Input(
            "m/tokenizer_config.json",
            '{"tokenizer_class": "LlamaTokenizer", "model_max_length": 8192}',
            OF_A_MODEL,
        ),
        Input(
            "m/hf_quant_config.json",
            '{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}',
            OF_A_MODEL,
        ),
        Input("a/x/adapter_config.json", ADAPTER, (f"{RECOMMEND} --rate 1 --model ./m --adapters a",)),
    ]


def _price_inputs() -> list[Input]:
    """Return files of prices and of assumptions."""
    return [
        Input(
            "p.csv",
            PRICES,
            (
                "catalog prices --price-file p.csv --gpu l40s",
                "catalog coverage --price-file p.csv",
                f"{RECOMMEND} --rate 1 --model 8b --price-file p.csv",
                "cost --model 8b --gpu l40s --rate 1 --price-file p.csv",
            ),
        ),
        Input("api.csv", API_PRICES, ("cost --model 8b --gpu l40s --rate 1 --api-price-file api.csv",)),
        Input(
            "parts.csv",
            PART_PRICES,
            ("catalog parts --price-file parts.csv", "build check b.txt --price-file parts.csv"),
        ),
        Input("w.toml", ASSUMPTIONS, ("cost --model 8b --gpu l40s --rate 1 --assumptions w.toml",)),
        Input("goal.toml", _earlier("goal.toml"), (f"{RECOMMEND} --rate 1 --model 8b --goal goal.toml",)),
        Input("profile.toml", PROFILE, (f"{RECOMMEND} --rate 1 --model 8b --profile profile.toml",)),
    ]


def _work_inputs() -> list[Input]:
    """Return files of load, of sweeps and of earlier answers."""
    found = [
        Input(
            "fleet.toml",
            _earlier("fleet.toml"),
            ("simulate fleet fleet.toml --show", "simulate fleet fleet.toml"),
        ),
        Input("study.toml", _earlier("study.toml"), ("sweep study.toml --workers 1",)),
        Input("sweep.csv", _earlier("sweep.csv"), ("sweep sweep.csv --pareto min:time_s",)),
        Input("out.csv.journal", _earlier("sweep.csv.journal"), ("sweep study.toml --workers 1 --resume",)),
        Input(
            "calibration.json",
            _earlier("calibration.json"),
            ("simulate collective --gpu h200-sxm --bytes 1GiB --calibration calibration.json",),
        ),
        Input(
            "plan.json",
            _earlier("plan-serve.json"),
            ("compare plan.json plan.json", "compare plan.json other.json"),
        ),
        Input(
            "train.json",
            _earlier("plan-train.json"),
            ("simulate train train.json", "compare train.json train.json"),
        ),
        Input("report.json", _earlier("report.json"), ("compare report.json report.json",)),
        Input(
            "probe.json", _earlier("probe.json"), ("compare probe.json probe.json", "calibrate probe.json")
        ),
        Input(
            "advisor.toml",
            'provider = ["aws", "azure"]\n[catalog.prices]\nterm = "on-demand,spot"\n[recommend]\nprofile = "chat"\n'
            'region = "eu"\n',
            ("catalog prices --gpu l40s", f"{RECOMMEND} --rate 1 --model 8b", "config show"),
        ),
    ]
    found += [
        Input(name, text, (f"simulate trace {name}", f"{RECOMMEND} --model 8b --trace {name}"))
        for name, text in TRACES.items()
    ]
    found += [Input(name, text, (f"build check {name}",)) for name, text in LISTS.items()]
    return found


def write_companions(folder: Path) -> None:
    """Write the files that questions need besides the one that is hostile."""
    for name in ("m", "a/x"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "m" / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (folder / "b.txt").write_text(LISTS["b.txt"], encoding="utf-8")
    (folder / "study.toml").write_text(_earlier("study.toml"), encoding="utf-8")
    (folder / "other.json").write_text(_earlier("plan-serve.json"), encoding="utf-8")
