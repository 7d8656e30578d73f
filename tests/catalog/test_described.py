"""Chips that are described and not simulated: found by every name, refused with the nearest, and never ranked."""

from collections.abc import Callable
from typing import Any

import pytest

from advisor.catalog import accelerators
from advisor.catalog.described import described_chips, find_described
from advisor.catalog.errors import UnknownNameError

Cli = Callable[[str], Any]


@pytest.mark.parametrize("chip", described_chips().values(), ids=lambda chip: chip.id)
def test_a_described_chip_names_its_source_and_the_nearest(chip: Any) -> None:
    assert chip.sources
    assert accelerators.by_id(chip.nearest).engines
    assert chip.id not in accelerators.all_ids()
    assert not set(chip.aliases) & (set(accelerators.all_ids()) | set(accelerators.aliases()))
    for name in (chip.id, *chip.aliases, chip.id.upper()):
        assert find_described(name) is chip
        with pytest.raises(UnknownNameError, match="described, not simulated"):
            accelerators.get(name)


UNSERVED = [chip for chip in accelerators.all_accelerators() if not chip.engines]


@pytest.mark.parametrize("chip", UNSERVED, ids=lambda chip: chip.id)
def test_a_chip_without_an_engine_is_refused_with_one_that_is_served_or_none(chip: Any) -> None:
    nearest = accelerators.nearest_served(chip)
    assert nearest is None or nearest.engines
    if chip.memory_bytes is None or chip.bandwidth_bytes_per_s is None:
        assert nearest is None


def test_the_nearest_is_near() -> None:
    assert accelerators.nearest_served(accelerators.by_id("h100-sxm")) is accelerators.by_id("h100-sxm")
    assert accelerators.nearest_served(accelerators.by_id("lpu-v1")) is None


def test_a_chip_without_an_engine_is_refused_with_its_reason(cli: Cli) -> None:
    refused = cli("advisor simulate serve --model 8b --gpu wse3 --rate 1")
    assert refused.code == 3
    assert "sold as a service" in refused.err
    near = cli("advisor simulate serve --model 8b --gpu p150a --rate 1")
    assert "the nearest that an engine runs on" in near.err


def test_show_says_what_is_known_and_a_simulation_what_to_take(cli: Cli) -> None:
    shown = cli("advisor catalog show mtia")
    assert shown.code == 0
    assert "177 dense TFLOP/s" in shown.out
    refused = cli("advisor simulate serve --model 8b --gpu mtia --rate 1")
    assert refused.code == 2
    assert "advisor catalog show mtia-v2" in refused.err
