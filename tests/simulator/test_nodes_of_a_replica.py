"""A replica that is spread over machines: what its sums and hand-overs cross."""

import pytest

from advisor.catalog import accelerators
from advisor.simulator.collectives import topology_of
from advisor.simulator.deployment import named_deployment
from advisor.simulator.replica_model import EngineSettings, model_replica
from advisor.simulator.step_cost import decode_iteration_s


def step_ms(chip: str, model: str, engine: str = "sglang", **layout: object) -> float:
    found = model_replica(
        named_deployment(model, chip, engine, **layout),  # type: ignore[arg-type]
        mean_input_tokens=500,
        mean_output_tokens=200,
        settings=EngineSettings(max_num_seqs=16, version="0.4.8" if engine == "sglang" else ""),
    )
    return 1e3 * decode_iteration_s(found.surface, 1, 500)


@pytest.mark.parametrize("chip", ["gb10", "strix-halo-8060s", "m3-ultra", "jetson-thor-t5000"])
def test_a_chip_that_is_a_machine_reaches_others_over_the_network(chip: str) -> None:
    group = topology_of(accelerators.by_id(chip), 2)
    assert (group.num_nodes, group.ranks_per_node) == (2, 1)


def test_sums_over_nodes_make_decoding_as_slow_as_it_was_measured() -> None:
    """DeepSeek-R1 over two nodes of eight H100s with InfiniBand: 23.1 ms a token."""
    assert step_ms("h100-sxm", "deepseek-r1", tensor_parallel=16) == pytest.approx(23.1, rel=0.1)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_the_same_degree_on_more_machines_is_never_faster(engine: str) -> None:
    """Two machines of four beside one of eight, and stages that a network joins."""
    one, two, four = (
        step_ms("h100-sxm", "llama-3.1-70b", engine, tensor_parallel=8, ranks_per_node=per_node)
        for per_node in (None, 4, 2)
    )
    assert one < two < four
    near, far = (
        step_ms(
            "h100-sxm",
            "llama-3.1-70b",
            engine,
            tensor_parallel=4,
            pipeline_parallel=2,
            ranks_per_node=per_node,
        )
        for per_node in (None, 4)
    )
    assert near <= far < 1.2 * near


def test_a_rack_of_one_fabric_is_one_machine_however_its_trays_are_counted() -> None:
    counted, whole = (
        step_ms("gb200", "llama-3.1-70b", "vllm", tensor_parallel=8, ranks_per_node=per_node)
        for per_node in (4, None)
    )
    assert counted == whole
