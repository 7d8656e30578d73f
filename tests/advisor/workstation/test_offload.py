"""Models that are larger than the cards: layers on the CPU."""

from dataclasses import replace

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.simulator.graph.model import parameter_count
from advisor.workstation.hardware import Hardware
from advisor.workstation.listing import read_listing
from advisor.workstation.offload import distinct_experts, num_expert_layers, with_layers, without_experts
from advisor.workstation.performance import (
    MachineLoad,
    best_run,
    bound_on_cpu,
    runs_on_cpu,
    simulate_run,
)
from advisor.workstation.valuation import hardware_of

CARD = Hardware("rtx-4090", 1, pcie_generation=4, pcie_lanes=16)
DDR5 = 2 * 8 * 5200e6
LARGE = MachineLoad(models.get("llama-3.1-70b").record)


def speed(hardware: Hardware, load: MachineLoad = LARGE) -> float:
    run = best_run(hardware, load)
    assert run is not None
    return run.output_tokens_per_s.value


@pytest.mark.parametrize("name", ["llama-3.1-70b", "deepseek-v3", "qwen3-30b-a3b", "gpt-oss-120b"])
def test_a_part_of_a_model_has_so_many_layers(name: str) -> None:
    model = models.get(name).record
    total = sum(group.count for group in model.layers)
    for num in (1, total // 3, total - 1, total):
        part = with_layers(model, num)
        assert sum(group.count for group in part.layers) == num
    assert with_layers(model, total).layers == model.layers


def test_what_does_not_fit_runs_on_the_cpu_where_the_memory_is_known() -> None:
    assert best_run(CARD, LARGE) is None
    run = best_run(replace(CARD, host_bytes_per_s=DDR5), LARGE)
    assert run is not None
    assert run.split == "36 of 80 layers on the CPU"
    assert run.output_tokens_per_s.basis == "assumed"
    # People report two to three tokens a second of a 70B model in four bits on such a machine.
    assert 1.5 < run.output_tokens_per_s.value < 4.0
    simulated = simulate_run(CARD, LARGE, run)
    assert simulated.output_tokens_per_s.value < run.output_tokens_per_s.value


def test_more_bandwidth_and_more_cards_are_faster() -> None:
    slow = speed(replace(CARD, host_bytes_per_s=DDR5))
    fast = speed(replace(CARD, host_bytes_per_s=2 * DDR5))
    assert slow < fast < 2 * slow
    huge = MachineLoad(models.get("qwen3-235b-a22b").record)
    one = speed(replace(CARD, host_bytes_per_s=DDR5), huge)
    assert one < speed(replace(CARD, num=2, host_bytes_per_s=DDR5), huge)


def test_a_model_that_fits_stays_on_the_cards() -> None:
    small = MachineLoad(models.get("8b").record)
    assert best_run(replace(CARD, host_bytes_per_s=DDR5), small) == best_run(CARD, small)


def test_the_memory_of_a_list_says_how_fast_its_cpu_reads() -> None:
    parts = ["RTX 4090", "Ryzen 9 9950X", "ProArt X870E-CREATOR WIFI", "96 GB (2 x 48 GB) DDR5-6000"]
    hardware = hardware_of(read_listing(None, price_book(), parts).machine)
    assert hardware is not None
    assert hardware.host_bytes_per_s == 2 * 8 * 6000e6
    alone = hardware_of(read_listing(None, price_book(), parts[:1]).machine)
    assert alone is not None
    assert alone.host_bytes_per_s == 0


@pytest.mark.parametrize("name", ["deepseek-v3", "qwen3-235b-a22b", "gpt-oss-120b", "glm-4.5-air"])
def test_experts_leave_the_cards_and_the_rest_of_each_layer_stays(name: str) -> None:
    model = models.get(name).record
    total = num_expert_layers(model)
    sizes = [parameter_count(without_experts(model, num)).total for num in (0, 1, total)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.2 * sizes[-1]
    assert sizes[-1] == pytest.approx(parameter_count(model).total, rel=0.01)
    assert sum(group.count for group in without_experts(model, 1).layers) == sum(
        g.count for g in model.layers
    )


def test_experts_in_main_memory_are_faster_than_whole_layers() -> None:
    """Published: about 10 to 14 tokens/s of DeepSeek V3 in four bits with eight channels of DDR5 and one card."""
    host = replace(CARD, host_bytes_per_s=8 * 8 * 5200e6)
    load = MachineLoad(models.get("deepseek-v3").record)
    run = best_run(host, load)
    assert run is not None
    assert run.on_cpu
    assert "experts" in run.split
    assert 8.0 < run.output_tokens_per_s.value < 16.0
    alone = best_run(Hardware("", 0, host_bytes_per_s=8 * 8 * 5200e6), load)
    assert alone is not None
    assert alone.output_tokens_per_s.value < run.output_tokens_per_s.value


def test_more_streams_choose_more_experts() -> None:
    model = models.get("gpt-oss-120b").record
    found = [distinct_experts(model, num) for num in (1, 4, 64, 10_000)]
    assert found == sorted(found)
    assert found[0] == 1.0
    assert found[-1] == pytest.approx(128 / 4, rel=0.01)


@pytest.mark.parametrize("streams", [1, 16])
@pytest.mark.parametrize("prompt", [512, 32768])
@pytest.mark.parametrize("model", ["8b", "70b", "gpt-oss-120b", "deepseek-v3"])
def test_no_run_with_layers_on_the_cpu_exceeds_its_bound(model: str, prompt: int, streams: int) -> None:
    load = MachineLoad(models.get(model).record, concurrency=streams, input_tokens=prompt)
    for accelerator, num in (("rtx-3060-12gb", 1), ("rtx-3090", 2), ("rtx-5090", 4)):
        hardware = Hardware(accelerator, num)
        hosts = (50e9, 400e9)
        for host, run in zip(hosts, runs_on_cpu(hardware, load, hosts), strict=False):
            assert run.output_tokens_per_s.value <= bound_on_cpu(hardware, load, host)
