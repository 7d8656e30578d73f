"""Generated questions: what is recommended keeps to support matrix, window, memory, stock, region, power and bill.

The suite asks them with short runs, which decide none of these. ADVISOR_QUESTIONS asks for more, e.g. 60, in full.
"""

import datetime
import json
import os
import random

import pytest

from advisor.__main__ import main
from advisor.catalog import accelerators, models
from advisor.catalog.engines import support
from advisor.catalog.ownership import ownership
from advisor.catalog.prices import country_of
from advisor.catalog.published import context_limits
from advisor.catalog.schema import Model

QUICK = 6
DAY = datetime.date(2026, 11, 20)
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
OWN = ("8xh100-sxm", "4xl40s", "8xa100-sxm-80gb", "2xrtx-5090")
POWER = ("1kW", "2.5kW", "5kW")
BESIDE = ("", "", "--storage-tb 5 --egress-tb 20")
CONTEXTS = ("", "", "", "--max-context 16k,100k", "--max-context 64k,256k")


def questions(count: int) -> list[str]:
    draw = random.Random(7)
    found = []
    for place in range(count):
        parts = [
            f"--model {draw.choice(MODELS)} --profile {draw.choice(PROFILES)} --rate {draw.choice(RATES)}"
        ]
        where = draw.choice(WHERE)
        own = place % 5 == 4
        parts += ["" if own else where, draw.choice(FORMATS), draw.choice(("", EASY))]
        parts += [draw.choice(BESIDE), draw.choice(CONTEXTS)]
        if own:
            parts.append(f"--own {draw.choice(OWN)} --power-budget {draw.choice(POWER)}")
        elif count <= QUICK or place % 2:
            parts.append(f"--gpu {draw.choice(GPUS)}")
        found.append(" ".join(filter(None, parts)))
    return found


def violations(answer: dict) -> list[str]:
    """Faults of the options of an answer, one line each."""
    model = models.get(answer["model"]).record
    limits = answer["inputs"]["constraints"]
    traffic = answer["inputs"]["traffic"]
    found = []
    for option in answer["options"]:
        chip = accelerators.by_id(option["machine"]["accelerator"])
        name = f"{chip.id} {option['layout']['engine']} {option['layout']['weight_dtype']}"
        if (
            support(option["layout"]["engine"], chip.architecture, option["layout"]["weight_dtype"]).verdict
            == "no"
        ):
            found.append(f"{name}: the engine does not load it there")
        longest = traffic["mean_input_tokens"] + traffic["mean_output_tokens"]
        if model.max_context_tokens and longest > model.max_context_tokens:
            found.append(f"{name}: {longest} tokens in a window of {model.max_context_tokens}")
        used = sum(
            size for part, size in option["explanation"]["memory_bytes"].items() if part != "total_bytes"
        )
        if used > chip.memory_bytes or option["explanation"]["memory_bytes"]["kv_bytes"] <= 0:
            found.append(f"{name}: {used:.3g} bytes in {chip.memory_bytes:.3g}")
        offer = option["offer"]
        most = offer and option["offer"]["max_quantity"]
        if most is not None and option["machine"]["num_accelerators"] > most:
            found.append(f"{name}: {option['machine']['num_accelerators']} of at most {most}")
        if limits["providers"] and offer["provider"] not in limits["providers"]:
            found.append(f"{name}: from {offer['provider']}")
        country = country_of(offer["provider"], offer["region"]) if offer else ""
        if limits["countries"] and country not in limits["countries"]:
            found.append(f"{name}: in {country or 'no country that is known'}")
        draws = (
            option["machine"]["num_accelerators"] * chip.tdp_w * ownership(DAY).value("system_power_factor")
        )
        if limits["power_budget_w"] and draws > limits["power_budget_w"]:
            found.append(f"{name}: draws {draws:.0f} W of {limits['power_budget_w']:.0f}")
        bill = option["bill"]
        if abs(sum(line["usd_per_month"] for line in bill["lines"]) - bill["usd_per_month"]) > 0.01:
            found.append(f"{name}: the parts of its bill are not the bill")
        if {line["what"] for line in bill["lines"]} & {each["what"] for each in bill["unknown"]}:
            found.append(f"{name}: its bill both prices an item and leaves it open")
        if (
            option["performance"]["holds"] not in ("likely", "marginal")
            or not option["performance"]["chance"] > 0
        ):
            found.append(f"{name}: holds {option['performance']['holds']}")
    return found + [line for tier in answer["contexts"] for line in context_violations(tier, model)]


def context_violations(tier: dict, model: Model) -> list[str]:
    """Faults of the answer for one context window."""
    tokens = tier["max_context_tokens"]
    pick = tier["option"]
    limits = context_limits(model)
    most = max(limits.native or 0, limits.with_scaling or 0)
    if pick is None:
        return [] if tier["reason"] else [f"{tokens} tokens: refused without a reason"]
    found = [f"{tokens} tokens in a window of {most}"] if most and tokens > most else []
    if pick["explanation"]["kv_capacity_tokens"] < tokens:
        found.append(f"{tokens} tokens in a cache of {pick['explanation']['kv_capacity_tokens']}")
    if tier["needs_rope_scaling"] == (not limits.native or tokens <= limits.native):
        found.append(
            f"{tokens} tokens of {limits.native}: needs_rope_scaling is {tier['needs_rope_scaling']}"
        )
    return found


@pytest.mark.parametrize("question", questions(int(os.environ.get("ADVISOR_QUESTIONS", QUICK))))
def test_recommended_options_are_feasible(question, capsys):
    runs = "" if "ADVISOR_QUESTIONS" in os.environ else "--fast"
    code = main(f"recommend {question} --json --as-of 2026-11-20 {runs}".split())
    out = capsys.readouterr()
    if code:
        assert code == 3, out.err  # nothing satisfies it, and the answer says what to change
        assert "To fix:" in out.err
        return
    assert violations(json.loads(out.out)) == []
