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
    assert accelerators.by_id(chip.nearest).engines or accelerators.by_id(chip.nearest).unranked_reason
    assert chip.id not in accelerators.all_ids()
    assert not set(chip.aliases) & (set(accelerators.all_ids()) | set(accelerators.aliases()))
    for name in (chip.id, *chip.aliases, chip.id.upper()):
        assert find_described(name) is chip
        with pytest.raises(UnknownNameError, match="described, not simulated"):
            accelerators.get(name)


def test_show_says_what_is_known_and_a_simulation_what_to_take(cli: Cli) -> None:
    shown = cli("advisor catalog show mtia")
    assert shown.code == 0
    assert "177 dense TFLOP/s" in shown.out
    refused = cli("advisor simulate serve --model 8b --gpu mtia --rate 1")
    assert refused.code == 2
    assert "advisor catalog show mtia-v2" in refused.err
