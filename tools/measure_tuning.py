"""Measure steps of TRL's supervised fine-tuning on one GPU: tokens/s and peaks of memory of published model shapes.

    python tools/measure_tuning.py --out steps.jsonl

Every case runs in a fresh process through SFTTrainer; the step time is the median of five steps after three of warm-up.
Weights and tokens are random and samples are full, so that nothing is padded; nothing is loaded. Needs trl, peft,
transformers, datasets and a CUDA device. `--predict` prints the question to advisor of each case instead.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measured_cases import append_result, measure_each

NUM_WARM_UP = 3
NUM_STEPS = 5
SHAPES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("measured_shapes.json").read_text())
"""Fields of published config.json files that decide time and memory."""


@dataclass(frozen=True)
class TuningCase:
    """One way to tune a model."""

    model: str
    sequence: int
    micro_batch: int
    method: str = "lora"
    rank: int = 16
    recompute: bool = False
    accumulate: int = 1
    liger: bool = False

    def question(self) -> str:
        """Return the command that predicts this case."""
        rank = "" if self.method == "full" else f" --lora-rank {self.rank}"
        return (
            f"advisor simulate train --model {self.model} --gpu h200-sxm --gpus 1 --framework trl --precision bf16 "
            f"--method {self.method}{rank} --sequence {self.sequence} --micro-batch {self.micro_batch} "
            f"--global-batch {self.micro_batch * self.accumulate} --dp 1 --sharding none "
            f"--recompute {'full' if self.recompute else 'none'}{' --features liger' if self.liger else ''} --json"
        )


CASES = [
    TuningCase("llama-3.1-8b", 2048, 1),
    TuningCase("llama-3.1-8b", 2048, 4),
    TuningCase("llama-3.1-8b", 2048, 8, recompute=True),
    TuningCase("llama-3.1-8b", 8192, 1, rank=64, recompute=True),
    TuningCase("llama-3.1-8b", 2048, 2, method="dora"),
    TuningCase("llama-3.1-8b", 2048, 2, liger=True),
    TuningCase("llama-3.1-8b", 2048, 2, method="full", recompute=True),
    TuningCase("llama-3.2-1b", 2048, 8, method="full"),
    TuningCase("llama-3.2-1b", 1024, 1, method="full", accumulate=8),
    TuningCase("llama-3.2-3b", 4096, 4, method="full", recompute=True),
    TuningCase("qwen2.5-0.5b", 1024, 4, method="full"),
    TuningCase("qwen3-8b", 4096, 2),
    TuningCase("qwen3-30b-a3b", 2048, 2, recompute=True),
    TuningCase("qwen3-30b-a3b", 4096, 4, recompute=True),
    TuningCase("mistral-7b-v0.3", 4096, 2, rank=32),
    TuningCase("qwen2.5-7b", 2048, 4, recompute=True),
    TuningCase("llama-3.2-3b", 2048, 4),
    TuningCase("llama-3.2-3b", 2048, 2, method="dora"),
    TuningCase("llama-3.1-8b", 4096, 2, recompute=True, liger=True),
    TuningCase("qwen3-4b", 4096, 2, method="full", recompute=True),
    TuningCase("llama-3.2-1b", 2048, 8, rank=8),
    TuningCase("olmoe-1b-7b", 2048, 4, recompute=True),
    TuningCase("qwen3-8b", 8192, 1, recompute=True),
    TuningCase("qwen3-14b", 2048, 2),
    TuningCase("qwen2.5-7b", 2048, 2, method="dora", recompute=True),
    TuningCase("olmoe-1b-7b", 4096, 8, recompute=True),
    TuningCase("mixtral-8x7b", 2048, 2, recompute=True),
    TuningCase("qwen3-30b-a3b", 8192, 1, recompute=True),
    TuningCase("mistral-nemo-12b", 4096, 2, recompute=True),
    TuningCase("llama-3.2-3b", 1024, 4, method="dora"),
    TuningCase("qwen3-1.7b", 4096, 4, method="full"),
    TuningCase("qwen2.5-14b", 2048, 4, rank=32, recompute=True),
]


def run(case: TuningCase) -> dict[str, object]:
    """Measure one case in this process."""
    import peft
    import torch
    import transformers
    import trl
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback

    class Clock(TrainerCallback):
        """Times of steps [s], with the GPU at rest at both ends."""

        def __init__(self) -> None:
            self.steps: list[float] = []

        def on_step_begin(self, *_: object, **__: object) -> None:
            torch.cuda.synchronize()
            self.begun_s = time.perf_counter()

        def on_step_end(self, *_: object, **__: object) -> None:
            torch.cuda.synchronize()
            self.steps.append(time.perf_counter() - self.begun_s)

    torch.manual_seed(0)
    shape = dict(SHAPES[case.model])
    config = AutoConfig.for_model(shape.pop("model_type"), **shape)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    vocabulary = {"<pad>": 0, "<eos>": 1} | {f"w{i}": i for i in range(2, 1000)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    num_steps = NUM_WARM_UP + NUM_STEPS
    samples = torch.randint(
        2, config.vocab_size, (case.micro_batch * case.accumulate * num_steps, case.sequence)
    )
    adapters = None
    if case.method != "full":
        adapters = peft.LoraConfig(
            r=case.rank,
            lora_alpha=2 * case.rank,
            target_modules="all-linear",
            use_dora=case.method == "dora",
            task_type="CAUSAL_LM",
        )
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        options = trl.SFTConfig(
            output_dir=folder,
            max_length=case.sequence,
            per_device_train_batch_size=case.micro_batch,
            gradient_accumulation_steps=case.accumulate,
            gradient_checkpointing=case.recompute,
            use_liger_kernel=case.liger,
            bf16=True,
            max_steps=num_steps,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = trl.SFTTrainer(
            model,
            options,
            train_dataset=Dataset.from_dict({"input_ids": samples.tolist()}),
            processing_class=tokenizer,
            peft_config=adapters,
            callbacks=[clock],
        )
        torch.cuda.reset_peak_memory_stats()
        trainer.train()
    free, total = torch.cuda.mem_get_info()
    step_s = statistics.median(clock.steps[NUM_WARM_UP:])
    return {
        **asdict(case),
        "step_time_s": step_s,
        "all_step_times_s": [round(seconds, 5) for seconds in clock.steps],
        "tokens_per_s": case.micro_batch * case.accumulate * case.sequence / step_s,
        "peak_allocated_gb": torch.cuda.max_memory_allocated() / 1e9,
        "peak_reserved_gb": torch.cuda.max_memory_reserved() / 1e9,
        "device_used_gb": (total - free) / 1e9,
        "trainable": sum(each.numel() for each in trainer.model.parameters() if each.requires_grad),
        "optimizer": type(trainer.optimizer).__name__ + " " + options.optim,
        "versions": {each.__name__: each.__version__ for each in (torch, transformers, trl, peft)},
        "gpu": torch.cuda.get_device_name(),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--only", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=540.0)
    options = parser.parse_args()
    if options.predict:
        print(*(case.question() for case in CASES), sep="\n")
        return
    if options.out is None:
        parser.error("--out FILE is needed")
    if options.only is not None:
        append_result(options.out, run(CASES[options.only]))
        return
    command = [sys.executable, __file__, "--out", str(options.out), "--only"]
    measure_each(((i, [*command, str(i)]) for i in range(options.first, len(CASES))), options.seconds)


if __name__ == "__main__":
    main()
