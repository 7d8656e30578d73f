"""Laws and measurements of attention in one kernel, and where an engine runs it."""

import dataclasses
import json
from importlib.resources import files

import numpy as np
import pytest

from advisor.catalog.accelerators import by_id
from advisor.catalog.efficiencies import efficiency
from advisor.simulator.deployment import named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.graph.forward_pass import prefill_lines
from advisor.simulator.graph.mixers.gqa import runs_unified
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.operators.attention import attention_prefill_s
from advisor.simulator.operators.attention_kernels import PrefillEfficiency
from advisor.simulator.operators.unified_attention import (
    UnifiedAttentionEfficiency,
    unified_decode_s,
    unified_prefill_s,
)

MEASURED = "data/measured/h200-sxm-unified-attention-2026-11-22.json"
GPT_OSS = (64, 8, 64)


def unified_efficiency() -> UnifiedAttentionEfficiency:
    return UnifiedAttentionEfficiency.from_record(efficiency("hopper", "unified_attention", "bf16").record)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_record_repeats_its_measurements(phase: str) -> None:
    document = json.loads(files("advisor.catalog").joinpath(MEASURED).read_text(encoding="utf-8"))
    rows = [dict(zip(document["columns"], row, strict=True)) for row in document["rows"]]
    h200 = device_of(by_id("h200-sxm"))
    wrong = []
    for row in rows:
        if row["phase"] != phase:
            continue
        shape = (row["num_heads"], row["num_kv_heads"], row["head_dim"], h200, unified_efficiency())
        window = row["window_tokens"] or None
        if phase == "prefill":
            new = row["new_tokens"]
            cached = row["cached_tokens"]
            time_s = unified_prefill_s(new, cached, row["batch_size"], *shape, window_tokens=window)
        else:
            time_s = unified_decode_s(
                row["batch_size"], row["cached_tokens"] + 1, *shape, window_tokens=window
            )
        wrong.append(abs(float(time_s) / row["time_s"] - 1.0))
    assert np.median(wrong) < {"prefill": 0.04, "decode": 0.11}[phase]


def test_long_prompts_take_several_times_what_flash_attention_takes() -> None:
    a100 = device_of(by_id("a100-sxm-80gb"))
    flash = PrefillEfficiency.from_record(efficiency("ampere", "attention_prefill", "bf16", "vllm").record)
    ratios = [
        float(unified_prefill_s(n, 0, 1, *GPT_OSS, a100, unified_efficiency()))
        / float(attention_prefill_s(n, 0, 1, *GPT_OSS, a100, flash))
        for n in (512, 4096, 32768)
    ]
    assert 1.0 < ratios[0] < ratios[1] < ratios[2]
    assert 3.5 < ratios[2] < 6.0


def test_work_is_counted_in_cycles_of_an_sm() -> None:
    a100 = device_of(by_id("a100-sxm-80gb"))
    peak = dataclasses.replace(
        a100, peak_flop_per_s={key: 2.0 * value for key, value in a100.peak_flop_per_s.items()}
    )
    clock = dataclasses.replace(a100, clock_hz=2.0 * a100.clock_hz)
    times = [
        float(unified_prefill_s(8192, 0, 1, *GPT_OSS, it, unified_efficiency())) for it in (a100, peak, clock)
    ]
    assert times[1] == times[0]
    assert times[2] == pytest.approx(times[0] / 2.0, rel=0.01)


def test_few_sequences_divide_their_cache() -> None:
    a100 = device_of(by_id("a100-sxm-80gb"))
    few, more = (float(unified_decode_s(b, 32768, *GPT_OSS, a100, unified_efficiency())) for b in (8, 16))
    assert more > 2.5 * few


@pytest.mark.parametrize(
    ("model", "accelerator", "engine", "expected"),
    [
        ("gpt-oss-120b", "a100-sxm-80gb", "vllm", True),
        ("gpt-oss-20b", "l40s", "vllm", True),
        ("gpt-oss-120b", "h100-sxm", "vllm", False),
        ("gpt-oss-120b", "b200-sxm", "vllm", False),
        ("gpt-oss-120b", "a100-sxm-80gb", "sglang", False),
        ("llama-3.1-8b", "a100-sxm-80gb", "vllm", False),
    ],
)
def test_sinks_without_flash_attention_3_run_unified(
    model: str, accelerator: str, engine: str, expected: bool
) -> None:
    deployment = named_deployment(model, accelerator, engine)
    assert {runs_unified(group.mixer, deployment) for group in deployment.model.layers} == {expected}


def test_prompts_of_a_model_with_sinks_cost_more_per_pair() -> None:
    with_sinks = named_deployment("gpt-oss-20b", "a100-sxm-80gb")
    layers = tuple(
        group.model_copy(update={"mixer": group.mixer.model_copy(update={"sinks": False})})
        for group in with_sinks.model.layers
    )
    without = dataclasses.replace(with_sinks, model=with_sinks.model.model_copy(update={"layers": layers}))
    pairs = [
        prefill_lines(it, OperatorLibrary(device_of(it.accelerator), "vllm"), 8192.0, 8192.0).pair_s
        for it in (with_sinks, without)
    ]
    assert pairs[0] > 3.5 * pairs[1]
