"""Law of links: more bandwidth between the cards of a workstation is never slower."""

import itertools
from typing import Final

import numpy as np
import pytest

from advisor.catalog import accelerators, models, parts
from advisor.catalog.dtypes import bytes_per_element
from advisor.catalog.schema.part import GpuCard
from advisor.simulator.collectives import all_reduce_s, topology_of
from advisor.simulator.graph.model import parameter_count
from advisor.workstation.hardware import Hardware
from advisor.workstation.performance import MachineLoad, best_run

TOLERANCE: Final = 0.04
"""Fraction by which the curves of narrow and of wide slots may cross: they are fitted apart, to points with 3 to 5 %
of error."""
LINKS: Final = tuple(itertools.product((3, 4, 5), (4, 8, 16)))
CARDS: Final = sorted({card.accelerator for card in parts.planner_parts(GpuCard)})
STAGED: Final = [name for name in CARDS if Hardware(name, 1).record().pcie_peer_to_peer is False]


def slower_pairs(times: dict[tuple[int, int], float]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the pairs of links of which the second has more bandwidth and takes longer."""
    return [
        (weak, strong)
        for weak, strong in itertools.permutations(times, 2)
        if weak[0] <= strong[0] and weak[1] <= strong[1] and times[strong] > (1.0 + TOLERANCE) * times[weak]
    ]


@pytest.mark.parametrize("num", [2, 4, 8])
@pytest.mark.parametrize("name", STAGED[:: max(1, len(STAGED) // 12)])
def test_sums_through_host_memory_take_no_longer_on_wider_links(name: str, num: int) -> None:
    for num_bytes in np.logspace(3, 9, 13):
        times = {
            link: float(
                all_reduce_s(
                    num_bytes,
                    topology_of(
                        Hardware(name, num, pcie_generation=link[0], pcie_lanes=link[1]).record(), num
                    ),
                )
            )
            for link in LINKS
        }
        assert not slower_pairs(times)


@pytest.mark.parametrize("num", [2, 4])
@pytest.mark.parametrize("name", ["rtx-3090", "rtx-4090", "rtx-5090", "rtx-a6000", "arc-pro-b60"])
def test_tensor_parallelism_is_no_slower_on_wider_links(name: str, num: int) -> None:
    for model, streams in (("70b", 1), ("8b", 16)):
        load = MachineLoad(models.get(model).record, concurrency=streams, engine="vllm")
        runs = {
            link: best_run(Hardware(name, num, pcie_generation=link[0], pcie_lanes=link[1]), load)
            for link in LINKS
        }
        times = {link: 1.0 / run.output_tokens_per_s.value for link, run in runs.items() if run}
        assert not slower_pairs(times)


@pytest.mark.parametrize("name", ["rtx-3090", "rtx-3070", "p40", "rtx-a6000"])
@pytest.mark.parametrize("num", [2, 4, 8])
def test_layers_are_divided_over_no_link_below_four_lanes_of_pcie_3(name: str, num: int) -> None:
    for link in ((2, 1), (3, 1), (4, 1), (2, 4)):
        for engine in (None, "vllm", "llama.cpp"):
            load = MachineLoad(models.get("14b").record, engine=engine)
            run = best_run(Hardware(name, num, pcie_generation=link[0], pcie_lanes=link[1]), load)
            assert run is None or run.tensor_parallel == 1


@pytest.mark.parametrize("num", [3, 5, 6, 7])
@pytest.mark.parametrize("model", ["32b", "70b", "gpt-oss-120b"])
def test_a_number_of_cards_that_divides_no_heads_runs_what_fewer_of_them_run(num: int, model: str) -> None:
    """Engines take as many cards as divide the heads, or layers in turn: no card makes a machine unable."""
    load = MachineLoad(models.get(model).record, engine="vllm")
    few = best_run(Hardware("rtx-a6000", 2 if num == 3 else 4), load)
    more = best_run(Hardware("rtx-a6000", num), load)
    assert few is not None
    assert more is not None
    assert more.output_tokens_per_s.value >= 0.99 * few.output_tokens_per_s.value or more.tensor_parallel == 1


@pytest.mark.parametrize(
    "name", ["rtx-3090", "rtx-4060-ti-16gb", "gb10", "strix-halo-8060s", "m3-ultra", "rx-7900-xtx"]
)
@pytest.mark.parametrize("model", ["8b", "14b", "32b"])
@pytest.mark.parametrize("num", [1, 2])
def test_no_interval_reaches_above_what_the_bandwidth_allows(name: str, model: str, num: int) -> None:
    load = MachineLoad(models.get(model).record)
    run = best_run(Hardware(name, num), load)
    if run is None or run.on_cpu:
        return
    peak = accelerators.by_id(name).bandwidth_bytes_per_s
    assert peak is not None
    read = parameter_count(load.model).active * bytes_per_element(run.weight_dtype)
    roof = peak * run.tensor_parallel / read
    assert run.output_tokens_per_s.high <= max(roof, run.output_tokens_per_s.value)
