"""Law of links: more bandwidth between the cards of a workstation is never slower."""

import itertools
from typing import Final

import numpy as np
import pytest

from advisor.catalog import models, parts
from advisor.catalog.schema.part import GpuCard
from advisor.simulator.collectives import all_reduce_s, topology_of
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
