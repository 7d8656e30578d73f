"""Generated questions: nothing that is recommended breaks the support matrix, the window, memory, stock or region.

ADVISOR_QUESTIONS asks for more of them than the suite has time for, e.g. 60.
"""

import json
import os
import random

import pytest

from advisor.__main__ import main
from advisor.catalog import accelerators, models
from advisor.catalog.prices import country_of
from advisor.catalog.support import support

QUICK = 6
MODELS = (
    "8b",
    "qwen3-32b",
    "70b",
    "qwen3-30b-a3b",
    "gpt-oss-120b",
    "deepseek-v3",
    "qwen3-235b-a22b",
    "mistral-7b",
)
PROFILES = ("chat", "rag", "agent", "code")
RATES = ("0.2", "1", "4", "15", "60")
GPUS = (
    "h100,l40s",
    "h200,b200",
    "mi300x,mi355x",
    "rtx-4090,rtx-5090",
    "a100,l4",
    "h100,mi300x,a100",
    "gb200,b300",
)
WHERE = (
    "",
    "",
    "--residency eu",
    "--region us",
    "--provider aws,gcp",
    "--provider lambda,runpod",
    "--max-gpus 4",
)
FORMATS = ("", "", "", "--precision bf16", "--precision fp8", "--precision int4", "--precision nvfp4")
EASY = "--ttft-p99 20s --tpot-p99 250ms"


def questions(count: int) -> list[str]:
    draw = random.Random(7)
    found = []
    for place in range(count):
        parts = [
            f"--model {draw.choice(MODELS)} --profile {draw.choice(PROFILES)} --rate {draw.choice(RATES)}"
        ]
        parts += [draw.choice(WHERE), draw.choice(FORMATS), draw.choice(("", EASY))]
        if count <= QUICK or place % 2:
            parts.append(f"--gpu {draw.choice(GPUS)}")
        found.append(" ".join(filter(None, parts)))
    return found


def violations(answer: dict) -> list[str]:
    """What is wrong with the options of an answer, one line each."""
    model = models.get(answer["model"]).record
    limits, traffic = answer["inputs"]["constraints"], answer["inputs"]["traffic"]
    found = []
    for option in answer["options"]:
        chip = accelerators.by_id(option["accelerator"])
        name = f"{chip.id} {option['engine']} {option['weight_dtype']}"
        if support(option["engine"], chip.architecture, option["weight_dtype"]).verdict == "no":
            found.append(f"{name}: the engine does not load it there")
        longest = traffic["mean_input_tokens"] + traffic["mean_output_tokens"]
        if model.max_context_tokens and longest > model.max_context_tokens:
            found.append(f"{name}: {longest} tokens in a window of {model.max_context_tokens}")
        used = sum(size for part, size in option["memory"].items() if part != "total_bytes")
        if used > chip.memory_bytes or option["memory"]["kv_bytes"] <= 0:
            found.append(f"{name}: {used:.3g} bytes in {chip.memory_bytes:.3g}")
        most = option["price"]["max_quantity"]
        if most is not None and option["num_accelerators"] > most:
            found.append(f"{name}: {option['num_accelerators']} of at most {most}")
        if limits["providers"] and option["provider"] not in limits["providers"]:
            found.append(f"{name}: from {option['provider']}")
        country = country_of(option["provider"], option["region"])
        if limits["countries"] and country not in limits["countries"]:
            found.append(f"{name}: in {country or 'no country that is known'}")
        if option["holds"] not in ("likely", "marginal") or not option["chance_of_holding"] > 0:
            found.append(f"{name}: holds {option['holds']}")
    return found


@pytest.mark.parametrize("question", questions(int(os.environ.get("ADVISOR_QUESTIONS", QUICK))))
def test_recommended_options_are_feasible(question, capsys):
    code = main([*f"recommend {question} --json --as-of 2026-11-20".split()])
    out = capsys.readouterr()
    if code:
        assert code == 3, out.err  # nothing satisfies it, and the answer says what to change
        assert "To fix:" in out.err
        return
    assert violations(json.loads(out.out)) == []
