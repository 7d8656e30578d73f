"""The step-cost surface: laws of hardware, padding, floors, stages, and the breakdown that adds up to it."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import accelerators, engines, models
from advisor.catalog.schema import Accelerator
from advisor.catalog.units import PICOSECONDS_PER_S
from advisor.simulator.deployment import Deployment, activation_dtype_for, named_deployment
from advisor.simulator.device import device_of
from advisor.simulator.engine_costs import EngineCosts, default_costs
from advisor.simulator.graph.model import num_operators
from advisor.simulator.operator_library import OperatorLibrary
from advisor.simulator.replica_model import model_replica
from advisor.simulator.step_cost import StepSurface, prefill_iteration_s
from advisor.simulator.surface import SurfaceInputs, build_surface, decode_breakdown_s, prefill_breakdown_s

COMMON = default_costs()
COSTS = dataclasses.replace(
    COMMON, step_s=1e-3, sequence_s=5e-6, mixed_step_s=2e-3, eager_launch_s=8e-6, kernel_scale=1.1
)
INPUTS = SurfaceInputs(64, 2048, 500.0, 600.0)
CASES = (
    ("llama-3.1-8b", "h100-sxm", "bf16", {}),
    ("llama-3.1-8b", "rtx-4090", "fp8", {"tensor_parallel": 2}),
    ("qwen3-30b-a3b", "h200-sxm", "fp8", {"tensor_parallel": 4, "expert_parallel": 4}),
    ("deepseek-r1", "b200-sxm", "nvfp4", {"data_parallel": 8, "expert_parallel": 8}),
    ("gpt-oss-120b", "mi355x", "mxfp4", {"tensor_parallel": 2}),
    ("gemma-3-27b", "a100-sxm-80gb", "int4", {"tensor_parallel": 2, "pipeline_parallel": 2}),
    ("qwen3-next-80b-a3b", "h100-sxm", "bf16", {"tensor_parallel": 4}),
)
ROUNDING_PS = 2.0
SLACK = 1e-3
"""A faster matrix unit is fed and filled by a larger part of its tile, which may cost so much of a small step."""


def deployment(model: str, gpu: str | Accelerator, dtype: str = "bf16", **layout: int) -> Deployment:
    accelerator = accelerators.by_id(gpu) if isinstance(gpu, str) else gpu
    return Deployment(
        models.by_id(model),
        accelerator,
        engines.by_id("vllm"),
        weight_dtype=dtype,
        activation_dtype=activation_dtype_for(dtype, accelerator),
        **layout,
    )


def library(layout: Deployment) -> OperatorLibrary:
    return OperatorLibrary(device_of(layout.accelerator), layout.engine.id)


def surface(layout: Deployment, inputs: SurfaceInputs = INPUTS, costs: EngineCosts = COSTS) -> StepSurface:
    return build_surface(layout, library(layout), costs, inputs)


def entries(found: StepSurface) -> np.ndarray:
    """Every time of a surface in one row."""
    return np.concatenate(
        [
            found.decode_base_ps,
            found.decode_context_ps,
            found.mixed_base_ps,
            found.decode_window_ps,
            [
                found.prefill_pair_ps,
                found.prefill_sequence_ps,
                found.riding_sequence_ps,
                found.prefill_window_pair_ps,
            ],
            [found.stage_transfer_ps],
        ]
    ).astype(float)


def iterations_s(found: StepSurface) -> np.ndarray:
    """Decode iterations at several batches and contexts, and mixed ones without decodes [s]."""
    batch = np.arange(1, len(found.decode_base_ps))
    base, slope = (np.asarray(column)[batch] for column in (found.decode_base_ps, found.decode_context_ps))
    rows = [base + slope * batch * context for context in (300.0, 600.0, 900.0)]
    rows.append(np.asarray(found.mixed_base_ps, dtype=float)[1:] + found.prefill_pair_ps * 250.0 * batch[-1])
    return np.concatenate(rows) / PICOSECONDS_PER_S


@pytest.mark.parametrize(("model", "gpu", "dtype", "layout"), CASES)
def test_every_entry_is_positive_and_finite(model: str, gpu: str, dtype: str, layout: dict[str, int]) -> None:
    found = surface(deployment(model, gpu, dtype, **layout))
    assert np.isfinite(entries(found)).all()
    assert (entries(found) >= 0).all()
    assert min(found.decode_base_ps[1:]) > 0
    assert min(found.mixed_base_ps[1:]) > 0
    assert found.num_stages == layout.get("pipeline_parallel", 1)


@pytest.mark.parametrize(("model", "gpu", "dtype", "layout"), CASES)
def test_faster_hardware_is_never_slower(model: str, gpu: str, dtype: str, layout: dict[str, int]) -> None:
    slow = accelerators.by_id(gpu)
    faster = {
        "bandwidth": {"bandwidth_bytes_per_s": 1.5 * (slow.bandwidth_bytes_per_s or 0.0)},
        "links": {
            "scale_up": slow.scale_up.model_copy(update={"bytes_per_s": 1.5 * slow.scale_up.bytes_per_s})
            if slow.scale_up
            else None,
            "pcie_generation": (slow.pcie_generation or 4) + 1,
        },
        "peak": {"peak_flop_per_s": {name: 1.5 * peak for name, peak in slow.peak_flop_per_s.items()}},
    }
    base = iterations_s(surface(deployment(model, slow, dtype, **layout)))
    for name, update in faster.items():
        other = iterations_s(surface(deployment(model, slow.model_copy(update=update), dtype, **layout)))
        assert (other <= base * (1 + SLACK)).all(), name


@pytest.mark.parametrize(("model", "gpu", "dtype", "layout"), CASES)
@pytest.mark.parametrize("batch", [1, 8, 32, 64])
def test_breakdown_adds_up_to_the_surface(
    model: str, gpu: str, dtype: str, layout: dict[str, int], batch: int
) -> None:
    chosen = deployment(model, gpu, dtype, **layout)
    found = surface(chosen)
    parts = decode_breakdown_s(chosen, library(chosen), COSTS, batch, INPUTS.mean_context_tokens)
    context = batch * INPUTS.mean_context_tokens
    expected = found.decode_base_ps[batch] + found.decode_context_ps[batch] * context
    if found.window_tokens is not None:
        windowed = batch * min(INPUTS.mean_context_tokens, found.window_tokens)
        expected += found.decode_window_ps[batch] * windowed
    # Slopes are rounded to whole picoseconds per token.
    assert sum(parts.values()) * PICOSECONDS_PER_S == pytest.approx(expected, abs=2 * context + ROUNDING_PS)
    assert min(parts.values()) > 0


@pytest.mark.parametrize(("tp", "pp", "collectives"), [(1, 1, 0), (2, 1, 64), (4, 2, 32)])
def test_ranks_wait_for_each_other_at_every_sum_of_a_stage(tp: int, pp: int, collectives: int) -> None:
    chosen = deployment("llama-3.1-8b", "h200-sxm", tensor_parallel=tp, pipeline_parallel=pp)
    at_once, apart = (dataclasses.replace(COSTS, collective_wait_s=wait_s) for wait_s in (0.0, 5e-6))
    for breakdown, size in ((decode_breakdown_s, (16, 500.0)), (prefill_breakdown_s, (4096,))):
        sums = [sum(breakdown(chosen, library(chosen), costs, *size).values()) for costs in (at_once, apart)]
        assert sums[1] - sums[0] == pytest.approx(collectives * 5e-6, abs=1e-9)


def test_kernels_that_nobody_measured_take_longer_and_the_host_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = deployment("llama-3.1-8b", "mi300x")
    parts = decode_breakdown_s(chosen, library(chosen), COSTS, 16, 500.0)
    tabulated = surface(chosen)
    monkeypatch.setattr("advisor.simulator.surface.unmeasured_scale", lambda _: 1.0)
    relative = decode_breakdown_s(chosen, library(chosen), COSTS, 16, 500.0)
    assert parts.pop("host") == relative.pop("host")
    assert sum(parts.values()) == pytest.approx(1.15 * sum(relative.values()))
    host_ps = (COSTS.step_s + 16 * COSTS.sequence_s) * PICOSECONDS_PER_S
    kernels_ps = [found.decode_base_ps[16] - host_ps for found in (tabulated, surface(chosen))]
    assert kernels_ps[0] == pytest.approx(1.15 * kernels_ps[1], rel=1e-6)


@pytest.mark.parametrize("batch", [3, 9, 17, 30, 50])
def test_breakdown_pads_and_waits_for_launches_as_the_surface_does(batch: int) -> None:
    chosen = deployment("qwen3-0.6b", "h100-sxm")
    sizes = (1, 2, 4, 8, 16, 32)
    inputs = dataclasses.replace(INPUTS, cuda_graph_sizes=sizes)
    found = surface(chosen, inputs)
    parts = decode_breakdown_s(chosen, library(chosen), COSTS, batch, inputs.mean_context_tokens, sizes)
    expected = (
        found.decode_base_ps[batch] + found.decode_context_ps[batch] * batch * inputs.mean_context_tokens
    )
    assert sum(parts.values()) * PICOSECONDS_PER_S == pytest.approx(expected, rel=0.005)


def test_bookkeeping_of_many_sequences_outlasts_kernels_only_beyond_the_graphs() -> None:
    chosen = deployment("qwen3-0.6b", "h100-sxm")
    inputs = dataclasses.replace(INPUTS, cuda_graph_sizes=(1, 2, 4, 8, 16, 32))
    busy = dataclasses.replace(COSTS, eager_sequence_s=1e-3)
    plain = surface(chosen, inputs)
    found = surface(chosen, inputs, busy)
    assert found.decode_base_ps[:33] == plain.decode_base_ps[:33]
    host_s = busy.step_s + 50 * (busy.sequence_s + busy.eager_sequence_s)
    host_s += busy.eager_launch_s * num_operators(chosen.model)
    typical_ps = found.decode_base_ps[50] + found.decode_context_ps[50] * 50 * inputs.mean_context_tokens
    assert typical_ps == pytest.approx(host_s * PICOSECONDS_PER_S, rel=1e-6)
    parts = decode_breakdown_s(
        chosen, library(chosen), busy, 50, inputs.mean_context_tokens, inputs.cuda_graph_sizes
    )
    assert sum(parts.values()) == pytest.approx(host_s, rel=1e-6)


def test_padding_runs_the_next_captured_batch() -> None:
    chosen = deployment("llama-3.1-8b", "h100-sxm")
    plain = surface(chosen).decode_base_ps
    padded = surface(
        chosen, dataclasses.replace(INPUTS, cuda_graph_sizes=(1, 2, 4, 8, 16, 24, 32))
    ).decode_base_ps
    sequence_ps = COSTS.sequence_s * PICOSECONDS_PER_S
    for batch, captured in ((1, 1), (3, 4), (5, 8), (9, 16), (17, 24), (25, 32), (32, 32)):
        extra = sequence_ps * (captured - batch)
        assert padded[batch] == pytest.approx(plain[captured] - extra, abs=ROUNDING_PS)
    # Beyond the largest graph the batch itself runs.
    assert padded[40] == plain[40]


def test_a_batch_pads_beyond_the_sequence_limit_where_the_graph_is_larger() -> None:
    chosen = deployment("llama-3.1-8b", "h100-sxm")
    sizes = (1, 2, 4, 8, 16)
    wide = surface(chosen, dataclasses.replace(INPUTS, cuda_graph_sizes=sizes))
    narrow = surface(chosen, dataclasses.replace(INPUTS, max_num_seqs=10, cuda_graph_sizes=sizes))
    assert narrow.decode_base_ps[10] == pytest.approx(wide.decode_base_ps[10], abs=ROUNDING_PS)


@settings(max_examples=15, deadline=None)
@given(sizes=st.sets(st.integers(1, 64), max_size=8))
def test_more_sequences_never_take_less_time(sizes: set[int]) -> None:
    chosen = deployment("llama-3.1-8b", "h100-sxm")
    inputs = dataclasses.replace(INPUTS, cuda_graph_sizes=tuple(sorted(sizes)))
    base = np.asarray(surface(chosen, inputs).decode_base_ps, dtype=float)
    # Another tile or another split may be a little faster: two per cent.
    assert (base[1:] >= 0.98 * np.maximum.accumulate(base[1:])).all()


def test_iterations_with_prompts_wait_for_their_launches() -> None:
    chosen = deployment("qwen3-0.6b", "h100-sxm")
    launch_s = COSTS.eager_launch_s * num_operators(chosen.model)
    in_step = dataclasses.replace(chosen, engine=engines.by_id("tensorrt-llm"))
    found = surface(in_step)
    floor_s = launch_s + COSTS.step_s + COSTS.mixed_step_s
    assert found.mixed_base_ps[1] == pytest.approx(floor_s * PICOSECONDS_PER_S, abs=ROUNDING_PS)
    assert found.mixed_base_ps[-1] > found.mixed_base_ps[1]
    assert (np.diff(found.mixed_base_ps[1:]) >= -0.02 * found.mixed_base_ps[-1]).all()
    assert found.launch_ps == 0
    ahead = surface(chosen, dataclasses.replace(INPUTS, captured_tokens=512))
    assert ahead.mixed_base_ps[1] < found.mixed_base_ps[1]
    assert ahead.launch_ps == pytest.approx(launch_s * PICOSECONDS_PER_S, abs=ROUNDING_PS)
    slow = surface(
        chosen,
        dataclasses.replace(INPUTS, captured_tokens=512),
        dataclasses.replace(COSTS, eager_launch_s=1e-3),
    )
    assert prefill_iteration_s(slow, 512) < 0.1 < prefill_iteration_s(slow, 513)


def test_one_row_beyond_a_tile_is_priced_as_its_kernels_are() -> None:
    """Products of vLLM in fp8 have tiles of fixed size: 1 025 rows take much longer than 1 024, not a little."""
    chosen = deployment("llama-3.1-8b", "h100-sxm", "fp8")
    found = np.diff(surface(chosen, dataclasses.replace(INPUTS, max_num_batched_tokens=4096)).mixed_base_ps)
    assert found[1024] > 0.1 * np.sum(found[1:1024])
    assert found[1024] > 20 * np.median(np.abs(found[1025:1150]))


def test_a_mixed_iteration_costs_at_least_a_decode_of_as_many_tokens() -> None:
    for model in ("llama-3.1-8b", "qwen3-0.6b", "qwen3-30b-a3b"):
        found = surface(deployment(model, "h100-sxm"))
        assert all(m >= d for m, d in zip(found.mixed_base_ps[1:65], found.decode_base_ps[1:], strict=True))


def test_host_time_is_added_once_per_iteration_and_sequence() -> None:
    chosen = deployment("llama-3.1-8b", "h100-sxm")
    base = surface(chosen)
    slower = surface(chosen, costs=dataclasses.replace(COSTS, step_s=3e-3, sequence_s=15e-6))
    for batch in (1, 7, 64):
        added = slower.decode_base_ps[batch] - base.decode_base_ps[batch]
        assert added == pytest.approx((2e-3 + 10e-6 * batch) * PICOSECONDS_PER_S, abs=ROUNDING_PS)


def test_kernel_scales_multiply_kernels_only() -> None:
    chosen = deployment("qwen3-30b-a3b", "h100-sxm")
    idle = dataclasses.replace(
        COMMON,
        step_s=0.0,
        sequence_s=0.0,
        mixed_step_s=0.0,
        eager_launch_s=0.0,
        kernel_scale=1.0,
        expert_scale=1.0,
    )
    base = surface(chosen, costs=idle)
    doubled = surface(chosen, costs=dataclasses.replace(idle, kernel_scale=2.0))
    assert entries(doubled) == pytest.approx(2.0 * entries(base), rel=1e-6, abs=4.0)
    decode_experts = surface(chosen, costs=dataclasses.replace(idle, expert_scale=2.0))
    assert decode_experts.mixed_base_ps == base.mixed_base_ps
    assert decode_experts.decode_context_ps == base.decode_context_ps
    assert base.decode_base_ps[8] < decode_experts.decode_base_ps[8] < 2 * base.decode_base_ps[8]
    prefill_experts = surface(chosen, costs=dataclasses.replace(idle, expert_prefill_scale=2.0))
    assert prefill_experts.decode_base_ps == base.decode_base_ps
    assert prefill_experts.mixed_base_ps[1000] > base.mixed_base_ps[1000]


def test_prompts_run_slower_than_bursts_by_their_own_scale() -> None:
    chosen = deployment("qwen3-30b-a3b", "h100-sxm")
    idle = dataclasses.replace(
        COMMON, step_s=0.0, sequence_s=0.0, mixed_step_s=0.0, eager_launch_s=0.0, prefill_scale=1.0
    )
    base = surface(chosen, costs=idle)
    slower = surface(chosen, costs=dataclasses.replace(idle, prefill_scale=1.5))
    assert slower.decode_base_ps == base.decode_base_ps
    assert slower.mixed_base_ps[1000] == pytest.approx(1.5 * base.mixed_base_ps[1000], rel=1e-6)
    assert slower.prefill_pair_ps == pytest.approx(1.5 * base.prefill_pair_ps)


@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm", "b200-sxm"])
def test_prompts_without_a_pause_meet_the_power_limit_where_it_was_measured(gpu: str) -> None:
    served = model_replica(named_deployment("8b", gpu), mean_input_tokens=1000, mean_output_tokens=200)
    known = gpu != "b200-sxm"
    assert (1.06 < served.surface.limited_scale < 1.2) == known
    assert (0 < served.surface.reading_ps < served.surface.mixed_base_ps[2048] / 4) == known


def test_kernels_that_are_slower_anyway_do_not_meet_the_power_limit() -> None:
    """Experts and products of vLLM in fp8 keep below what the board sustains, as running engines do."""
    for name, dtype in (("8b", "fp8"), ("qwen3-30b-a3b", "bf16")):
        served = model_replica(
            named_deployment(name, "h200-sxm", weight_dtype=dtype),
            mean_input_tokens=1000,
            mean_output_tokens=200,
        )
        assert served.surface.limited_scale < 1.06


def test_queued_kernels_show_part_of_their_launch_times() -> None:
    chosen = deployment("qwen3-30b-a3b", "h100-sxm")
    idle = dataclasses.replace(
        COMMON, step_s=0.0, sequence_s=0.0, mixed_step_s=0.0, eager_launch_s=0.0, launch_scale=1.0
    )
    times = [
        surface(chosen, costs=dataclasses.replace(idle, launch_scale=part)).decode_base_ps[1]
        for part in (1.0, 0.5, 0.0)
    ]
    # Launch times are a sum that scales; a batch of one consists of little else.
    assert times[0] - times[1] == pytest.approx(times[1] - times[2], rel=1e-6)
    assert 0.3 * times[0] < times[0] - times[2] < times[0]


def test_stages_share_the_layers() -> None:
    idle = dataclasses.replace(COMMON, step_s=0.0, sequence_s=0.0, mixed_step_s=0.0, eager_launch_s=0.0)
    whole, staged = (
        surface(deployment("llama-3.1-8b", "h100-sxm", pipeline_parallel=stages), costs=idle)
        for stages in (1, 4)
    )
    assert whole.stage_transfer_ps == 0
    assert staged.stage_transfer_ps > 0
    for batch in (1, 16, 64):
        # The slowest stage also carries the head, which the others do not: four stages are a little more than one.
        total = 4 * staged.decode_base_ps[batch]
        assert whole.decode_base_ps[batch] < total < 1.35 * whole.decode_base_ps[batch]
        assert 4 * staged.decode_context_ps[batch] == pytest.approx(whole.decode_context_ps[batch], abs=4)


def test_tensor_parallelism_shortens_large_steps_and_pays_for_links() -> None:
    idle = dataclasses.replace(COMMON, step_s=0.0, sequence_s=0.0, mixed_step_s=0.0, eager_launch_s=0.0)
    one, two = (
        surface(deployment("llama-3.1-70b", "h100-sxm", "fp8", tensor_parallel=tp), costs=idle)
        for tp in (1, 2)
    )
    assert 0.5 < two.decode_base_ps[32] / one.decode_base_ps[32] < 0.75
    assert two.decode_context_ps[32] == pytest.approx(one.decode_context_ps[32] / 2, rel=0.1)


def test_windows_are_priced_apart() -> None:
    gemma = surface(deployment("gemma-3-27b", "h100-sxm"))
    llama = surface(deployment("llama-3.1-8b", "h100-sxm"))
    assert gemma.window_tokens == 1024
    assert len(gemma.decode_window_ps) == len(gemma.decode_context_ps)
    assert gemma.decode_window_ps[8] > gemma.decode_context_ps[8] > 0  # five windowed layers to one full
    assert llama.window_tokens is None
    assert tuple(llama.decode_window_ps) == ()


def test_weights_bound_a_lone_decode_step() -> None:
    """One token cannot be faster than reading the layers, nor much slower on a datacentre chip."""
    idle = dataclasses.replace(COMMON, step_s=0.0, sequence_s=0.0, mixed_step_s=0.0, eager_launch_s=0.0)
    h100 = accelerators.by_id("h100-sxm")
    found = surface(deployment("llama-3.1-70b", "h100-sxm", "fp8"), costs=idle)
    assert h100.bandwidth_bytes_per_s is not None
    read_s = 68.5e9 / h100.bandwidth_bytes_per_s
    assert 1.0 < found.decode_base_ps[1] / PICOSECONDS_PER_S / read_s < 1.5
    assert not math.isnan(found.prefill_pair_ps)


@pytest.mark.parametrize("gpu", ["h100-sxm", "b200-sxm"])
def test_a_sequence_that_rides_with_prompts_moves_its_states(gpu: str) -> None:
    """As in a step of its own: 36 layers of 2 MB, read and written; nothing where no layer carries a state."""
    hybrid = deployment("qwen3-next-80b-a3b", gpu, tensor_parallel=4)
    found = surface(hybrid)
    states_bytes = 36 * 32 * 128 * 128 * 4.0 / 4
    bound_s = 2.0 * states_bytes / device_of(hybrid.accelerator).bandwidth_bytes_per_s
    assert bound_s < found.riding_sequence_ps / PICOSECONDS_PER_S < 1.6 * bound_s
    assert surface(deployment("llama-3.1-8b", gpu)).riding_sequence_ps == 0
    halves = surface(deployment("qwen3-next-80b-a3b", gpu, tensor_parallel=4, pipeline_parallel=2))
    assert halves.riding_sequence_ps == pytest.approx(found.riding_sequence_ps / 2, abs=1)
