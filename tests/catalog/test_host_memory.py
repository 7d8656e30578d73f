"""Host memory that is taken to be there, held against the machines whose prices state it."""

import statistics
from collections import defaultdict

import pytest

from advisor.catalog import accelerators, host_memory, prices
from advisor.catalog.host_memory import BUNDLED_PRICES, usual_host_bytes
from advisor.catalog.units import GIB


def stated_bytes() -> dict[str, float]:
    """Return the median over SKUs of the host memory for each accelerator that bundled prices state."""
    by_sku: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for price in prices.bundled_prices():
        if price.ram_bytes:
            by_sku[price.accelerator][price.provider, price.sku] = price.ram_bytes / price.num_accelerators
    return {name: statistics.median(found.values()) for name, found in by_sku.items()}


def test_rows_are_the_medians_of_the_machines_that_are_for_rent() -> None:
    stated = stated_bytes()
    rows = host_memory._rows()
    assert {name for name, (_, source) in rows.items() if source == BUNDLED_PRICES} == set(stated)
    for name, median in stated.items():
        assert rows[name][0] == pytest.approx(median, abs=0.51 * GIB), name


def test_rows_are_of_known_accelerators_and_state_where_they_were_read() -> None:
    for name, (held_bytes, source) in host_memory._rows().items():
        assert accelerators.by_id(name)
        assert source
        assert 16 * GIB <= held_bytes <= 512 * GIB


def test_memory_that_accelerator_and_processor_share_is_not_counted_twice() -> None:
    for record in accelerators.all_accelerators():
        assert (usual_host_bytes(record) == 0.0) == record.unified_memory
