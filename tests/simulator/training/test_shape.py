"""Division of parameters over ranks and stages: nothing is lost, nothing is held twice that need not be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import models
from advisor.catalog.errors import InfeasibleError
from advisor.catalog.schema import LatentAttention, LayerGroup
from advisor.simulator.graph.model import parameter_count
from advisor.simulator.graph.training import (
    LayerColumns,
    expert_parameters,
    layer_parameters,
    model_shape,
    table_parameters,
)
from advisor.simulator.training.plan import PlanLattice, TrainingPlan
from advisor.simulator.training.stages import (
    holds_embedding,
    holds_head,
    layer_order,
    layers_per_stage,
    stage_groups,
)

DECODERS = [record for record in models.all_models() if record.workload == "decoder" and record.layers]


def weights_of(shape, *plans: TrainingPlan) -> LayerColumns:  # type: ignore[no-untyped-def]
    lattice = PlanLattice.of(plans)
    return layer_parameters(shape, lattice.tensor_parallel, lattice.expert_ranks)


def replicated_weights(group: LayerGroup, hidden: int) -> float:
    """Two norms, the router, and the down-projections of latent attention."""
    router = hidden * group.feed_forward.num_experts if group.feed_forward.kind == "moe" else 0  # type: ignore[union-attr]
    mixer = group.mixer
    latent = 0
    if isinstance(mixer, LatentAttention):
        latent = hidden * ((mixer.q_lora_rank or 0) + mixer.kv_lora_rank + mixer.qk_rope_head_dim)
    return float(2 * hidden + router + latent)


def shape_of(name: str):  # type: ignore[no-untyped-def]
    return model_shape(models.get(name).record)


def test_parts_add_up_to_the_catalog_s_count_and_norms() -> None:
    for model in DECODERS:
        shape = model_shape(model)
        count = parameter_count(model)
        norms = sum(
            group.count * model.hidden_size * ((group.mixer is not None) + (group.feed_forward is not None))
            for group in model.layers
        )
        assert shape.total == pytest.approx(count.total + count.vision + norms + model.hidden_size, rel=1e-9)
        for layer in shape.layers:
            # What no matrix lists, and ranks divide.
            assert shape.dense(layer, np.array([2.0]))[0] <= shape.dense(layer, np.array([1.0]))[0]


@settings(deadline=None)
@given(
    name=st.sampled_from(["llama-3.1-8b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3"]),
    tp=st.sampled_from([1, 2, 4]),
    ep=st.sampled_from([1, 2, 4, 8]),
    etp=st.sampled_from([0, 1, 2]),
    dp=st.sampled_from([16, 32]),
)
def test_ranks_hold_the_model_once_per_copy(name: str, tp: int, ep: int, etp: int, dp: int) -> None:
    model = models.get(name).record
    shape = model_shape(model)
    plan = TrainingPlan(tensor_parallel=tp, expert_parallel=ep, expert_tensor_parallel=etp, data_parallel=dp)
    lattice = PlanLattice.of([plan])
    held = weights_of(shape, plan)
    ranks = plan.num_accelerators
    for index, (group, layer) in enumerate(zip(model.layers, shape.layers, strict=True)):
        assert held.expert[index, 0] * ranks / lattice.expert_copies[0] == pytest.approx(
            expert_parameters(layer)
        )
        repeated = replicated_weights(group, model.hidden_size)
        once = (held.dense[index, 0] - repeated) * tp
        norms = 2.0 * model.hidden_size
        assert once == pytest.approx(layer.parameters - expert_parameters(layer) + norms - repeated)


def test_experts_are_divided_by_ep_and_etp_but_not_by_tp() -> None:
    shape = shape_of("mixtral-8x7b")
    plans = [
        TrainingPlan(tensor_parallel=4, expert_parallel=8, expert_tensor_parallel=1, data_parallel=8),
        TrainingPlan(tensor_parallel=4, expert_parallel=8, data_parallel=8),
        TrainingPlan(tensor_parallel=1, expert_parallel=8, data_parallel=8),
    ]
    held = weights_of(shape, *plans).expert[0]
    assert held.tolist() == pytest.approx([176160768.0, 44040192.0, 176160768.0])
    assert PlanLattice.of(plans).expert_copies.tolist() == [4.0, 1.0, 1.0]


def test_key_value_heads_are_repeated_when_ranks_outnumber_them() -> None:
    held = weights_of(shape_of("llama-3.1-8b"), TrainingPlan(tensor_parallel=16))
    key_value = 4096 * 8 * 2 * 128
    norms = 2 * 4096
    others = 4096 * 4096 * 2 + 3 * 4096 * 14336
    assert held.dense[0, 0] == pytest.approx(others / 16 + key_value / 8 + norms)


def test_tied_head_is_held_again_by_a_last_stage() -> None:
    shape = shape_of("llama-3.2-3b")
    table = 128256 * 3072
    first, last, both = (
        table_parameters(shape, np.array([1, 2]), np.full(2, has_embedding), np.full(2, has_head)).tolist()
        for has_embedding, has_head in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
    )
    assert first == [table, table / 2]
    assert last == both == [table + 3072.0, table / 2 + 3072.0]


@settings(deadline=None)
@given(
    name=st.sampled_from(["gpt-3-175b", "deepseek-v3", "nemotron-h-56b", "gemma-3-27b"]),
    stages=st.integers(1, 16),
    virtual=st.sampled_from([1, 2, 3]),
)
def test_stages_hold_every_layer_once(name: str, stages: int, virtual: int) -> None:
    shape = shape_of(name)
    counts = stage_groups(shape, stages, virtual)
    assert counts.sum(axis=0).tolist() == [layer.count for layer in shape.layers]
    per_stage = counts.sum(axis=1)
    assert per_stage.max() - per_stage.min() <= virtual


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 3), st.integers(0, 3))
def test_first_and_last_stage_may_differ(stages: int, first: int, last: int) -> None:
    if stages < 3:
        first = last = 0
    layers = layers_per_stage(61, stages, first, last)
    assert sum(layers) == 61
    assert not first or layers[0] == first
    assert not last or layers[-1] == last


def test_deepseek_s_dense_layers_come_first() -> None:
    shape = shape_of("deepseek-v3")
    assert layer_order(shape)[:4] == (0, 0, 0, 1)
    assert stage_groups(shape, 16)[0].tolist() == [3, 0]


def test_folded_and_mirrored_schedules_place_both_ends_on_the_outer_stages() -> None:
    shape = shape_of("gpt-3-175b")
    assert stage_groups(shape, 8, schedule="zbv").ravel().tolist() == [12] * 8
    assert stage_groups(shape, 8, schedule="dualpipe").ravel().tolist() == [24] * 8
    assert holds_head(0, 8, "zbv")
    assert not holds_head(7, 8, "zbv")
    assert holds_embedding(7, 8, "dualpipe")


@pytest.mark.parametrize(("stages", "first", "last"), [(97, 0, 0), (2, 96, 0), (4, 60, 36)])
def test_impossible_stages_are_refused(stages: int, first: int, last: int) -> None:
    with pytest.raises(InfeasibleError):
        layers_per_stage(96, stages, first, last)
