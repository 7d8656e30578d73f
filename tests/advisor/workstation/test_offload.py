"""Models that are larger than the cards: layers on the CPU."""

from dataclasses import replace

import pytest

from advisor.catalog import models
from advisor.catalog.part_prices import price_book
from advisor.workstation.hardware import Hardware
from advisor.workstation.listing import read_listing
from advisor.workstation.offload import with_layers
from advisor.workstation.performance import MachineLoad, best_run, simulate_run
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
